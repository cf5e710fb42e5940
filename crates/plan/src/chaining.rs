//! From [`StreamGraph`] to [`JobGraph`]: which nodes share a task, and the edges that remain between the others.
//!
//! The rules are those of Flink's `StreamingJobGraphGenerator.isChainable`.

use flott_core::Result;
use flott_core::config::OBJECT_CHAINING;

use crate::{
    ChainMember, ChainOutput, ChainTarget, Chaining, Edge, EdgeId, JobEdge, JobGraph, Node, NodeKind, Partitioning,
    StreamGraph, Vertex, VertexId,
};

impl JobGraph {
    /// Chains the nodes of a graph, which is validated first.
    ///
    /// A node shares the task of the node it reads where that is its only edge, a forward edge between the same
    /// parallelism and max parallelism, and the options and both nodes' chaining allow it. Vertices are in the order
    /// of their first members; edges are numbered in the order in which vertices read them. What a node leaves to the
    /// job's options is filled in. A source that nobody reads is left out.
    pub fn of(graph: &StreamGraph) -> Result<Self> {
        graph.validate()?;
        let enabled = graph.config.get(&OBJECT_CHAINING)?;
        let mut job =
            Self { name: graph.name.clone(), config: graph.config.clone(), vertices: Vec::new(), edges: Vec::new() };
        // Where each node went: its vertex and its position there. Inputs come first, so a reader finds its senders.
        let mut places: Vec<(VertexId, usize)> = Vec::with_capacity(graph.nodes.len());
        for (index, node) in graph.nodes.iter().enumerate() {
            if graph.is_left_out(index) {
                // Nobody looks its place up.
                places.push((VertexId(u32::MAX), 0));
                continue;
            }
            let place = match &node.inputs[..] {
                [edge] if enabled && is_chainable(graph, edge, node)? => job.add_to_chain(node, edge, &places),
                _ => job.add_vertex(graph, node, &places)?,
            };
            places.push(place);
        }
        for vertex in &mut job.vertices {
            vertex.name = chain_name(&vertex.chain);
            for member in &mut vertex.chain {
                if let NodeKind::Source { watermarks: Some(strategy), .. } | NodeKind::Watermarks(strategy) =
                    &mut member.node.kind
                {
                    strategy.every_rows = graph.watermark_rows_of(strategy)?;
                }
            }
        }
        Ok(job)
    }

    fn add_to_chain(&mut self, node: &Node, edge: &Edge, places: &[(VertexId, usize)]) -> (VertexId, usize) {
        let (vertex, sender) = places[edge.from.0 as usize];
        let chain = &mut self.vertices[vertex.0 as usize].chain;
        let index = chain.len();
        let to = ChainTarget::Member { index, input: edge.input };
        chain[sender].outputs.push(ChainOutput { output: edge.output, to });
        chain.push(member(node));
        (vertex, index)
    }

    fn add_vertex(
        &mut self,
        graph: &StreamGraph,
        node: &Node,
        places: &[(VertexId, usize)],
    ) -> Result<(VertexId, usize)> {
        let to = VertexId(id(self.vertices.len()));
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for edge in &node.inputs {
            let (from, sender) = places[edge.from.0 as usize];
            let edge_id = EdgeId(id(self.edges.len()));
            self.edges.push(JobEdge { from, to, input: edge.input, partitioning: edge.partitioning.clone() });
            self.vertices[from.0 as usize].chain[sender]
                .outputs
                .push(ChainOutput { output: edge.output, to: ChainTarget::Edge(edge_id) });
            inputs.push(edge_id);
        }
        self.vertices.push(Vertex {
            name: String::new(),
            chain: vec![member(node)],
            parallelism: graph.parallelism_of(node)?,
            max_parallelism: graph.max_parallelism_of(node)?,
            inputs,
        });
        Ok((to, 0))
    }
}

fn is_chainable(graph: &StreamGraph, edge: &Edge, reader: &Node) -> Result<bool> {
    let sender = &graph.nodes[edge.from.0 as usize];
    Ok(edge.partitioning == Partitioning::Forward
        && sender.chaining != Chaining::Never
        && reader.chaining == Chaining::Always
        && graph.parallelism_of(sender)? == graph.parallelism_of(reader)?
        && graph.max_parallelism_of(sender)? == graph.max_parallelism_of(reader)?)
}

/// A member that nobody reads yet. Its keys are those of its hash edges: none, unless it is the first of its chain.
fn member(node: &Node) -> ChainMember {
    ChainMember { keys: node.keys(), node: node.clone(), outputs: Vec::new() }
}

/// Flink's name of a chain: `a -> b -> (c, d)`.
fn chain_name(chain: &[ChainMember]) -> String {
    let mut names: Vec<String> = chain.iter().map(|member| member.node.name.clone()).collect();
    for (index, member) in chain.iter().enumerate().rev() {
        let readers: Vec<&str> = member
            .outputs
            .iter()
            .filter_map(|output| match output.to {
                ChainTarget::Member { index, .. } => Some(names[index].as_str()),
                ChainTarget::Edge(_) => None,
            })
            .collect();
        match readers[..] {
            [] => {}
            [reader] => names[index] = format!("{} -> {reader}", names[index]),
            _ => names[index] = format!("{} -> ({})", names[index], readers.join(", ")),
        }
    }
    names.into_iter().next().unwrap_or_default()
}

/// Ids are as wide as a plan can be: nodes are numbered by u32 already.
fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
