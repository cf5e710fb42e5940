//! A job graph times parallelism: [`ExecutionGraph`], tasks and the channels between them.

use serde::{Deserialize, Serialize};

use crate::{EdgeId, JobGraph, VertexId};

/// A task: one of the parallel instances of a vertex (outward: Flink's subtask).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The vertex.
    pub vertex: VertexId,
    /// From 0 to its parallelism.
    pub index: u32,
}

/// A channel: rows of one edge from one task to another, first in, first out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChannelId {
    /// The edge.
    pub edge: EdgeId,
    /// Index of the sending task.
    pub from: u32,
    /// Index of the receiving task.
    pub to: u32,
}

/// A process that runs tasks, numbered from 0: the one that was asked to run the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u32);

/// Every task of a job and where it runs. Plain data; channels follow from it by rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionGraph {
    /// The job.
    pub job: JobGraph,
    /// Tasks in the order of their ids, each with its process.
    pub tasks: Vec<(TaskId, HostId)>,
}
