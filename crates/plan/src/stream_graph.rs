//! What the user asked for: [`StreamGraph`]. Every way in (DataStream, SQL, Python) ends as one of these.

use arrow_schema::SchemaRef;
use flott_core::config::{MAX_PARALLELISM, PARALLELISM, WATERMARK_ROWS};
use flott_core::{Config, InputId, OutputId, Result, Spec, WatermarkStrategy};
use serde::{Deserialize, Serialize};

/// A node of a stream graph, numbered from 0 in an order in which inputs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

/// A job as its user wrote it: nodes and the edges between them. Plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamGraph {
    /// The job's name.
    pub name: String,
    /// Options of the job.
    pub config: Config,
    /// Node `n` is at index `n`.
    pub nodes: Vec<Node>,
}

impl StreamGraph {
    /// A node; `None` where there is none of this id.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// Whether the node at `index` is no part of the job: a source that nobody reads, as in Flink. An operator that
    /// nobody reads runs, since a function may do something beside giving rows.
    pub(crate) fn is_left_out(&self, index: usize) -> bool {
        let is_read = || self.nodes.iter().flat_map(|node| &node.inputs).any(|edge| edge.from.0 as usize == index);
        matches!(self.nodes[index].kind, NodeKind::Source { .. }) && !is_read()
    }

    /// What its sinks are.
    pub fn sinks(&self) -> impl Iterator<Item = &Spec> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Sink(spec) => Some(spec),
            NodeKind::Source { .. } | NodeKind::Operator(_) | NodeKind::Watermarks(_) => None,
        })
    }

    /// Tasks of a node: its own setting, else `parallelism.default`.
    pub fn parallelism_of(&self, node: &Node) -> Result<u32> {
        node.parallelism.map_or_else(|| self.config.get(&PARALLELISM), Ok)
    }

    /// Key groups of a node: its own setting, else `pipeline.max-parallelism`.
    pub fn max_parallelism_of(&self, node: &Node) -> Result<u32> {
        node.max_parallelism.map_or_else(|| self.config.get(&MAX_PARALLELISM), Ok)
    }

    /// Rows between watermarks: the strategy's own setting, else `flott.watermark.rows`.
    pub fn watermark_rows_of(&self, strategy: &WatermarkStrategy) -> Result<u32> {
        match strategy.every_rows {
            0 => self.config.get(&WATERMARK_ROWS),
            rows => Ok(rows),
        }
    }

    /// Columns of the rows an edge carries; `None` where it reads an output that does not exist.
    pub fn edge_schema(&self, edge: &Edge) -> Option<&SchemaRef> {
        self.node(edge.from)?.output_schema(edge.output)
    }
}

/// A source, operator or sink, before anything is parallel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The stable id that state is found by on restore; unique in the job.
    pub uid: String,
    /// For people.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Where its rows come from; a source has none. Several edges to one input are a union.
    pub inputs: Vec<Edge>,
    /// Columns of its main output (a sink: of its input).
    pub output: SchemaRef,
    /// Tags and columns of its side outputs; [`OutputId`] 1 is the first.
    pub side_outputs: Vec<(String, SchemaRef)>,
    /// Tasks; `None`: the job's default.
    pub parallelism: Option<u32>,
    /// Key groups; `None`: the job's default.
    pub max_parallelism: Option<u32>,
    /// Whether it may share a task with its neighbours.
    pub chaining: Chaining,
}

impl Node {
    /// Columns of an output; `None` where there is no such output (a sink has none).
    pub fn output_schema(&self, output: OutputId) -> Option<&SchemaRef> {
        match output {
            _ if matches!(self.kind, NodeKind::Sink(_)) => None,
            OutputId::MAIN => Some(&self.output),
            OutputId(side) => self.side_outputs.get(usize::from(side) - 1).map(|(_, schema)| schema),
        }
    }

    /// The tag of a side output; `None` for the main one and where there is no such output.
    pub fn side_output_tag(&self, output: OutputId) -> Option<&str> {
        let index = usize::from(output.0).checked_sub(1)?;
        self.side_outputs.get(index).map(|(tag, _)| tag.as_str())
    }

    /// Inputs, counted: the edges into them may be more.
    pub fn num_inputs(&self) -> usize {
        self.inputs.iter().map(|edge| usize::from(edge.input.0) + 1).max().unwrap_or(0)
    }

    /// Columns of the key of each input; empty where an input is not keyed.
    pub fn keys(&self) -> Vec<Vec<usize>> {
        let mut keys = vec![Vec::new(); self.num_inputs()];
        for edge in &self.inputs {
            if let Partitioning::Hash(columns) = &edge.partitioning {
                keys[usize::from(edge.input.0)].clone_from(columns);
            }
        }
        keys
    }
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NodeKind {
    /// Reads; finds event time itself where `watermarks` is given, by split.
    Source {
        /// The source.
        spec: Spec,
        /// Its event time.
        watermarks: Option<WatermarkStrategy>,
    },
    /// Transforms.
    Operator(Spec),
    /// Gives rows event time in the middle of a job, replacing what they had.
    Watermarks(WatermarkStrategy),
    /// Writes.
    Sink(Spec),
}

/// How a node reads another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The node read.
    pub from: NodeId,
    /// Which of its outputs.
    pub output: OutputId,
    /// Into which input of the reader.
    pub input: InputId,
    /// How rows find the reader's tasks.
    pub partitioning: Partitioning,
}

/// How rows find the tasks of the reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partitioning {
    /// To the task of the same index; the only one that can be chained.
    Forward,
    /// By the key group of these columns; makes the reader's input keyed.
    Hash(Vec<usize>),
    /// In turn to all tasks.
    Rebalance,
    /// In turn to a neighbouring share of the tasks.
    Rescale,
    /// To every task.
    Broadcast,
    /// To random tasks, from the job's seed.
    Shuffle,
    /// To task 0.
    Global,
    /// As the user's partitioner says.
    Custom(Spec),
}

impl Partitioning {
    /// Flink's name, for plans and the dashboard.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Hash(_) => "HASH",
            Self::Rebalance => "REBALANCE",
            Self::Rescale => "RESCALE",
            Self::Broadcast => "BROADCAST",
            Self::Shuffle => "SHUFFLE",
            Self::Global => "GLOBAL",
            Self::Custom(_) => "CUSTOM",
        }
    }

    /// Whether a sender reaches only a fixed few of the reader's tasks.
    pub fn is_pointwise(&self) -> bool {
        matches!(self, Self::Forward | Self::Rescale)
    }

    /// Whether a barrier may overtake rows: rows in flight can be dealt out again at another parallelism.
    pub fn may_overtake(&self) -> bool {
        matches!(self, Self::Hash(_) | Self::Rebalance | Self::Shuffle | Self::Global)
    }

    /// Whether the task that a row came to matters: rows that wait there cannot be given to another task.
    pub fn is_bound(&self) -> bool {
        matches!(self, Self::Broadcast | Self::Global | Self::Custom(_))
    }
}

/// Whether a node may share a task with its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Chaining {
    /// With the node before and those after it.
    #[default]
    Always,
    /// Only with those after it.
    Head,
    /// Alone.
    Never,
}
