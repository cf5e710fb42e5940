//! A notation for stream graphs, a node a line, and for what becomes of them:
//!
//! ```text
//! set parallelism.default = 3
//! words: source x1 uid=w cols=word:str,n:int
//! count: op head side=late <- words hash(0)
//! print: sink never max=64 <- count rebalance, count.1 @0
//! ```
//!
//! Kinds: `source`, `op`, `wm`, `sink`. Options: `xN`, `max=N`, `uid=`, `cols=`, `side=TAG`, `head`, `never`, `time=N`,
//! `every=N`. An edge: the node (or `#N`), `.N` for a side output, the partitioning (`forward` by default), `@N` for
//! the input. Columns are `k:str,n:int` where nothing else is said; their types `str int ts double list`, with `!` for
//! NOT NULL.

use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use flott_core::{Config, InputId, OutputId, Spec, WatermarkStrategy, schema_of};
use flott_plan::{Chaining, Edge, JobGraph, Node, NodeId, NodeKind, Partitioning, StreamGraph};

/// The graph of a text.
pub(crate) fn graph(text: &str) -> StreamGraph {
    let mut config = Config::default();
    let mut nodes: Vec<Node> = Vec::new();
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    while let Some(setting) = lines.first().and_then(|line| line.strip_prefix("set ")) {
        let (key, value) = setting.split_once('=').unwrap();
        config.set(key.trim(), value.trim()).unwrap();
        lines.remove(0);
    }
    let names: Vec<&str> = lines.iter().map(|line| line.split_once(':').unwrap().0).collect();
    for line in &lines {
        nodes.push(node(line, &names));
    }
    StreamGraph { name: "job".into(), config, nodes }
}

fn node(line: &str, names: &[&str]) -> Node {
    let (name, rest) = line.split_once(": ").unwrap();
    let (head, edges) = rest.split_once("<-").unwrap_or((rest, ""));
    let mut words = head.split_whitespace();
    let kind = words.next().unwrap();
    let mut node = Node {
        uid: name.into(),
        name: name.into(),
        kind: NodeKind::Operator(spec()),
        inputs: edges.split(", ").map(str::trim).filter(|e| !e.is_empty()).map(|e| edge(e, names)).collect(),
        output: columns("k:str,n:int"),
        side_outputs: Vec::new(),
        parallelism: None,
        max_parallelism: None,
        chaining: Chaining::Always,
    };
    let (mut time, mut every) = (None, None);
    for word in words {
        match word.split_once('=') {
            Some(("max", n)) => node.max_parallelism = Some(n.parse().unwrap()),
            Some(("uid", uid)) => node.uid = uid.into(),
            Some(("cols", text)) => node.output = columns(text),
            Some(("side", tag)) => node.side_outputs.push((tag.into(), node.output.clone())),
            Some(("time", n)) => time = Some(n.parse().unwrap()),
            Some(("every", n)) => every = Some(n.parse().unwrap()),
            None if word == "head" => node.chaining = Chaining::Head,
            None if word == "never" => node.chaining = Chaining::Never,
            _ => node.parallelism = Some(word.strip_prefix('x').unwrap().parse().unwrap()),
        }
    }
    let strategy = WatermarkStrategy {
        time_column: time,
        out_of_orderness_ms: 0,
        every_rows: every.unwrap_or(1),
        idle_after_ms: None,
    };
    node.kind = match kind {
        "source" => {
            NodeKind::Source { spec: spec(), watermarks: (time.is_some() || every.is_some()).then_some(strategy) }
        }
        "op" => NodeKind::Operator(spec()),
        "wm" => NodeKind::Watermarks(strategy),
        "sink" => NodeKind::Sink(spec()),
        other => panic!("no kind {other}"),
    };
    node
}

fn edge(text: &str, names: &[&str]) -> Edge {
    let mut words = text.split_whitespace();
    let from = words.next().unwrap();
    let (from, output) = from.split_once('.').map_or((from, 0), |(from, output)| (from, output.parse().unwrap()));
    let from = match from.strip_prefix('#') {
        Some(number) => number.parse().unwrap(),
        None => names.iter().position(|name| *name == from).unwrap() as u32,
    };
    let mut edge =
        Edge { from: NodeId(from), output: OutputId(output), input: InputId(0), partitioning: Partitioning::Forward };
    for word in words {
        match word {
            "forward" => {}
            "rebalance" => edge.partitioning = Partitioning::Rebalance,
            "rescale" => edge.partitioning = Partitioning::Rescale,
            "broadcast" => edge.partitioning = Partitioning::Broadcast,
            "shuffle" => edge.partitioning = Partitioning::Shuffle,
            "global" => edge.partitioning = Partitioning::Global,
            "custom" => edge.partitioning = Partitioning::Custom(spec()),
            _ if word.starts_with('@') => edge.input = InputId(word[1..].parse().unwrap()),
            _ => {
                let columns = word.strip_prefix("hash(").unwrap().strip_suffix(')').unwrap();
                let numbers = columns.split('+').filter(|c| !c.is_empty()).map(|c| c.parse().unwrap());
                edge.partitioning = Partitioning::Hash(numbers.collect());
            }
        }
    }
    edge
}

pub(crate) fn columns(text: &str) -> SchemaRef {
    let field = |column: &str| {
        let (name, data_type) = column.split_once(':').unwrap();
        let not_null = data_type.ends_with('!');
        let data_type = match data_type.trim_end_matches('!') {
            "str" => DataType::Utf8,
            "int" => DataType::Int64,
            "ts" => DataType::Timestamp(TimeUnit::Millisecond, None),
            "double" => DataType::Float64,
            "list" => DataType::new_list(DataType::Int64, true),
            other => panic!("no type {other}"),
        };
        Field::new(name, data_type, !not_null)
    };
    schema_of(text.split(',').map(field).collect())
}

pub(crate) fn spec() -> Spec {
    Spec::new("test", &()).unwrap()
}

/// Vertices with the edges they read: the sending vertex and member (and side output), partitioning, input, keys.
pub(crate) fn render(job: &JobGraph) -> String {
    let mut text = String::new();
    for (index, vertex) in job.vertices.iter().enumerate() {
        text += &format!("{index}: {} x{} of {}\n", vertex.name, vertex.parallelism, vertex.max_parallelism);
        for id in &vertex.inputs {
            let edge = job.edge(*id).unwrap();
            let (sender, output) = job.sender_of(*id).unwrap();
            let name = &job.vertex(edge.from).unwrap().chain[sender].node.name;
            let keys = &vertex.chain[0].keys[usize::from(edge.input.0)];
            text += &format!("   {} <- {}", edge.input.0, edge.from.0);
            text += &format!(".{name}.{} {} {keys:?}\n", output.0, edge.partitioning.name());
        }
    }
    text
}
