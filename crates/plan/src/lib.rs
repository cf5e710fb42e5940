//! Plans: what a user wrote on its way to tasks. All plain data with a versioned encoding.
//!
//! [`StreamGraph`] (what was asked) → [`JobGraph`] (after chaining) → [`ExecutionGraph`] (tasks and channels).

//!
//! Lives here: the three graphs, what is checked before anything runs, the rules of chaining and of channels, the
//! encoding, and plans for people to read. It makes no operator: a node is named by a [`flott_core::Spec`] only.

#![deny(missing_docs)]

mod chaining;
mod encoding;
mod execution_graph;
mod explain;
mod job_graph;
mod stream_graph;
mod validate;

pub use execution_graph::{ChannelId, ExecutionGraph, HostId, TaskId};
pub use job_graph::{ChainMember, ChainOutput, ChainTarget, EdgeId, JobEdge, JobGraph, Vertex, VertexId};
pub use stream_graph::{Chaining, Edge, Node, NodeId, NodeKind, Partitioning, StreamGraph};
