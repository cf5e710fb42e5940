//! After chaining: [`JobGraph`], vertices and the edges between them.

use flott_core::{Config, InputId, OutputId};
use serde::{Deserialize, Serialize};

use crate::{Node, Partitioning};

/// A vertex of a job graph, numbered from 0 in an order in which inputs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VertexId(pub u32);

/// An edge between two vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EdgeId(pub u32);

/// A job after chaining. Plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobGraph {
    /// The job's name.
    pub name: String,
    /// Options of the job.
    pub config: Config,
    /// Vertex `v` is at index `v`.
    pub vertices: Vec<Vertex>,
    /// Edge `e` is at index `e`.
    pub edges: Vec<JobEdge>,
}

/// Nodes that run in one task: a tree whose first member takes the vertex's input (or is a source).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vertex {
    /// The members' names.
    pub name: String,
    /// Inputs come first.
    pub chain: Vec<ChainMember>,
    /// Tasks.
    pub parallelism: u32,
    /// Key groups.
    pub max_parallelism: u32,
    /// Edges into the first member.
    pub inputs: Vec<EdgeId>,
}

/// A node in a chain and where its rows go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainMember {
    /// The node.
    pub node: Node,
    /// Columns of the key of each of its inputs; empty where it is not keyed.
    pub keys: Vec<Vec<usize>>,
    /// Readers of its outputs.
    pub outputs: Vec<ChainOutput>,
}

/// A reader of an output of a chain member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainOutput {
    /// The output.
    pub output: OutputId,
    /// The reader.
    pub to: ChainTarget,
}

/// Who reads an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainTarget {
    /// A later member of the chain.
    Member {
        /// Its position.
        index: usize,
        /// Its input.
        input: InputId,
    },
    /// Another vertex.
    Edge(EdgeId),
}

/// Rows on their way from one vertex to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEdge {
    /// The sender.
    pub from: VertexId,
    /// The reader.
    pub to: VertexId,
    /// The input of the reader's first member.
    pub input: InputId,
    /// How rows find the reader's tasks.
    pub partitioning: Partitioning,
}
