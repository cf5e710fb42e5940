//! Plans: what a user wrote on its way to tasks. All plain data with a versioned encoding.
//!
//! [`StreamGraph`] (what was asked) → [`JobGraph`] (after chaining) → [`ExecutionGraph`] (tasks and channels).

mod execution_graph;
mod job_graph;
mod stream_graph;

pub use execution_graph::{ChannelId, ExecutionGraph, HostId, TaskId};
pub use job_graph::{ChainMember, ChainOutput, ChainTarget, EdgeId, JobEdge, JobGraph, Vertex, VertexId};
pub use stream_graph::{Chaining, Edge, Node, NodeId, NodeKind, Partitioning, StreamGraph};
