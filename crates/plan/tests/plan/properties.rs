//! What holds for every graph: random ones, each from a seed that a failure prints.

use flott_core::{Config, InputId, OutputId};
use flott_plan::{
    ChainTarget, Chaining, Edge, ExecutionGraph, JobGraph, Node, NodeId, NodeKind, Partitioning, StreamGraph,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::notation::{columns, spec};

const SEEDS: u64 = 300;

fn random_graph(rng: &mut SmallRng) -> StreamGraph {
    let mut config = Config::default();
    config.set("parallelism.default", &rng.random_range(1..=3).to_string()).unwrap();
    config.set("pipeline.operator-chaining.enabled", if rng.random_bool(0.9) { "true" } else { "false" }).unwrap();
    let mut graph = StreamGraph { name: "random".into(), config, nodes: Vec::new() };
    let last = rng.random_range(1..20);
    for index in 0..=last {
        let node = random_node(rng, &graph, index, index == last);
        graph.nodes.push(node);
    }
    graph
}

fn random_node(rng: &mut SmallRng, graph: &StreamGraph, index: u32, is_last: bool) -> Node {
    let kind = match index {
        0 => NodeKind::Source { spec: spec(), watermarks: None },
        _ if is_last || rng.random_bool(0.1) => NodeKind::Sink(spec()),
        _ if rng.random_bool(0.1) => NodeKind::Source { spec: spec(), watermarks: None },
        _ => NodeKind::Operator(spec()),
    };
    let mut node = Node {
        uid: format!("node-{index}"),
        name: format!("n{index}"),
        kind,
        inputs: Vec::new(),
        output: columns("k:str,n:int"),
        side_outputs: if rng.random_bool(0.2) { vec![("late".into(), columns("k:str,n:int"))] } else { Vec::new() },
        parallelism: rng.random_bool(0.2).then(|| rng.random_range(1..=3)),
        max_parallelism: rng.random_bool(0.1).then_some(64),
        chaining: [Chaining::Always, Chaining::Always, Chaining::Head, Chaining::Never][rng.random_range(0..4)],
    };
    let inputs = match node.kind {
        NodeKind::Source { .. } => 0,
        NodeKind::Operator(_) if rng.random_bool(0.2) => 2,
        _ => 1,
    };
    for input in 0..inputs {
        let keyed = rng.random_bool(0.3);
        for _ in 0..if rng.random_bool(0.2) { 2 } else { 1 } {
            let edge = random_edge(rng, graph, &node, InputId(input), keyed);
            node.inputs.push(edge);
        }
    }
    node
}

fn random_edge(rng: &mut SmallRng, graph: &StreamGraph, reader: &Node, input: InputId, keyed: bool) -> Edge {
    let readable: Vec<usize> =
        (0..graph.nodes.len()).filter(|&n| !matches!(graph.nodes[n].kind, NodeKind::Sink(_))).collect();
    let from = readable[rng.random_range(0..readable.len())];
    let sender = &graph.nodes[from];
    let same = graph.parallelism_of(sender).unwrap() == graph.parallelism_of(reader).unwrap();
    let partitioning = match rng.random_range(0..10) {
        _ if keyed => Partitioning::Hash(vec![0]),
        0..=6 if same => Partitioning::Forward,
        0..=7 => Partitioning::Rebalance,
        8 => Partitioning::Rescale,
        _ => Partitioning::Broadcast,
    };
    let output = OutputId(rng.random_range(0..=sender.side_outputs.len() as u8));
    Edge { from: NodeId(from as u32), output, input, partitioning }
}

fn for_every_graph(check: impl Fn(&StreamGraph, &JobGraph)) {
    for seed in 0..SEEDS {
        let graph = random_graph(&mut SmallRng::seed_from_u64(seed));
        let job = JobGraph::of(&graph).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&graph, &job)));
        assert!(outcome.is_ok(), "failed with seed {seed}:\n{}", graph.explain());
    }
}

#[test]
fn every_node_is_in_exactly_one_vertex_but_for_sources_that_nobody_reads() {
    for_every_graph(|graph, job| {
        let is_read = |at: usize| graph.nodes.iter().flat_map(|n| &n.inputs).any(|edge| edge.from.0 as usize == at);
        let is_source = |node: &Node| matches!(node.kind, NodeKind::Source { .. });
        let expected = graph.nodes.iter().enumerate().filter(|(at, node)| !is_source(node) || is_read(*at));
        let mut found: Vec<&Node> = job.vertices.iter().flat_map(|v| v.chain.iter().map(|m| &m.node)).collect();
        found.sort_by_key(|node| node.uid["node-".len()..].parse::<u32>().unwrap());
        assert!(found.into_iter().eq(expected.map(|(_, node)| node)));
    });
}

/// An edge by the uids at its ends.
type Ends = (String, OutputId, String, InputId, String);

fn ends(from: &Node, output: OutputId, to: &Node, input: InputId, partitioning: &Partitioning) -> Ends {
    (from.uid.clone(), output, to.uid.clone(), input, format!("{partitioning:?}"))
}

#[test]
fn every_edge_is_kept_once() {
    for_every_graph(|graph, job| {
        let mut expected: Vec<Ends> = Vec::new();
        for node in &graph.nodes {
            for edge in &node.inputs {
                let from = graph.node(edge.from).unwrap();
                expected.push(ends(from, edge.output, node, edge.input, &edge.partitioning));
            }
        }
        let mut found: Vec<Ends> = Vec::new();
        for vertex in &job.vertices {
            for member in &vertex.chain {
                for output in &member.outputs {
                    let (to, input, partitioning) = match output.to {
                        ChainTarget::Member { index, input } => (&vertex.chain[index], input, &Partitioning::Forward),
                        ChainTarget::Edge(id) => {
                            let edge = job.edge(id).unwrap();
                            (&job.vertex(edge.to).unwrap().chain[0], edge.input, &edge.partitioning)
                        }
                    };
                    found.push(ends(&member.node, output.output, &to.node, input, partitioning));
                }
            }
        }
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    });
}

#[test]
fn inputs_come_first_and_edges_match_their_vertices() {
    for_every_graph(|_, job| {
        assert!(job.edges.iter().all(|edge| edge.from < edge.to));
        let mut seen = vec![0; job.edges.len()];
        for (index, vertex) in job.vertices.iter().enumerate() {
            for id in &vertex.inputs {
                seen[id.0 as usize] += 1;
                assert_eq!(job.edge(*id).unwrap().to.0 as usize, index);
            }
            for (position, member) in vertex.chain.iter().enumerate() {
                let outputs = member.outputs.iter();
                assert!(
                    outputs.clone().all(|o| !matches!(o.to, ChainTarget::Member { index, .. } if index <= position))
                );
                assert!(position == 0 || member.keys.iter().all(Vec::is_empty));
                let vertex = flott_plan::VertexId(index as u32);
                assert_eq!(job.input_schemas(vertex, position).unwrap().len(), member.node.num_inputs());
            }
        }
        assert!(seen.iter().all(|&times| times == 1));
    });
}

#[test]
fn decoding_undoes_encoding() {
    for_every_graph(|graph, job| {
        let tasks = ExecutionGraph::of(job.clone(), 3);
        assert_eq!(StreamGraph::decode(&graph.encode().unwrap()).unwrap(), *graph);
        assert_eq!(JobGraph::decode(&job.encode().unwrap()).unwrap(), *job);
        assert_eq!(ExecutionGraph::decode(&tasks.encode().unwrap()).unwrap(), tasks);
    });
}

#[test]
fn damaged_bytes_never_panic() {
    for seed in 0..SEEDS {
        let mut rng = SmallRng::seed_from_u64(seed);
        let job = JobGraph::of(&random_graph(&mut rng)).unwrap();
        let good = ExecutionGraph::of(job, 2).encode().unwrap();
        for _ in 0..20 {
            let mut bytes = good.clone();
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
            if let Ok(tasks) = ExecutionGraph::decode(&bytes) {
                for edge in (0..tasks.job.edges.len() as u32).map(flott_plan::EdgeId) {
                    let _ = (tasks.senders(edge, 0), tasks.receivers(edge, 0), tasks.job.edge_schema(edge));
                }
            }
        }
    }
}
