//! After chaining: [`JobGraph`], vertices and the edges between them.

use arrow_schema::SchemaRef;
use flott_core::{Config, InputId, OperatorInfo, OutputId};
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

impl JobGraph {
    /// A vertex; `None` where there is none of this id.
    pub fn vertex(&self, id: VertexId) -> Option<&Vertex> {
        self.vertices.get(id.0 as usize)
    }

    /// An edge; `None` where there is none of this id.
    pub fn edge(&self, id: EdgeId) -> Option<&JobEdge> {
        self.edges.get(id.0 as usize)
    }

    /// The position of the chain member that sends over an edge, and which of its outputs the edge reads.
    pub fn sender_of(&self, edge: EdgeId) -> Option<(usize, OutputId)> {
        let chain = &self.vertex(self.edge(edge)?.from)?.chain;
        chain.iter().enumerate().find_map(|(position, member)| {
            let output = member.outputs.iter().find(|output| output.to == ChainTarget::Edge(edge))?;
            Some((position, output.output))
        })
    }

    /// Columns of the rows an edge carries.
    pub fn edge_schema(&self, edge: EdgeId) -> Option<&SchemaRef> {
        let (position, output) = self.sender_of(edge)?;
        self.vertex(self.edge(edge)?.from)?.chain.get(position)?.node.output_schema(output)
    }

    /// Columns of each input of a chain member; none for a source.
    pub fn input_schemas(&self, vertex: VertexId, position: usize) -> Option<Vec<SchemaRef>> {
        let at = self.vertex(vertex)?;
        let inputs = at.chain.get(position)?.node.num_inputs();
        if position == 0 {
            let edge_of = |input: usize| {
                at.inputs.iter().find(|&&id| self.edge(id).is_some_and(|edge| usize::from(edge.input.0) == input))
            };
            return (0..inputs).map(|input| self.edge_schema(*edge_of(input)?).cloned()).collect();
        }
        let schema = at.chain.iter().find_map(|sender| {
            let reads = |o: &&ChainOutput| matches!(o.to, ChainTarget::Member { index, .. } if index == position);
            sender.node.output_schema(sender.outputs.iter().find(reads)?.output)
        });
        Some(vec![schema?.clone()])
    }

    /// What the chain member at `position` knows of itself in task `index` of its vertex.
    pub fn operator_info(&self, vertex: VertexId, position: usize, index: u32) -> Option<OperatorInfo> {
        let at = self.vertex(vertex)?;
        let member = at.chain.get(position)?;
        Some(OperatorInfo {
            uid: member.node.uid.clone(),
            name: member.node.name.clone(),
            index,
            parallelism: at.parallelism,
            max_parallelism: at.max_parallelism,
            inputs: self.input_schemas(vertex, position)?,
            output: member.node.output.clone(),
            side_outputs: member.node.side_outputs.clone(),
            keys: member.keys.clone(),
        })
    }
}
