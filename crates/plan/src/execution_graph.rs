//! A job graph times parallelism: [`ExecutionGraph`], tasks and the channels between them.

use serde::{Deserialize, Serialize};

use crate::{EdgeId, JobEdge, JobGraph, Partitioning, VertexId};

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

impl ExecutionGraph {
    /// Deals the tasks of a job out to `hosts` processes (at least 1): task `i` of a vertex goes to process
    /// `i * hosts / parallelism`, so neighbouring tasks of all vertices share one.
    pub fn of(job: JobGraph, hosts: u32) -> Self {
        let mut tasks = Vec::with_capacity(job.vertices.iter().map(|vertex| vertex.parallelism as usize).sum());
        for (vertex, parallelism) in job.vertices.iter().map(|vertex| vertex.parallelism).enumerate() {
            let vertex = VertexId(u32::try_from(vertex).unwrap_or(u32::MAX));
            tasks.extend((0..parallelism).map(|index| (TaskId { vertex, index }, host(index, hosts, parallelism))));
        }
        Self { job, tasks }
    }

    /// The tasks a process runs, in the order of their ids.
    pub fn tasks_on(&self, host: HostId) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().filter(move |(_, at)| *at == host).map(|(task, _)| *task)
    }

    /// The process that runs a task; `None` where there is no such task.
    pub fn host_of(&self, task: TaskId) -> Option<HostId> {
        let at = self.tasks.binary_search_by_key(&task, |(id, _)| *id).ok()?;
        Some(self.tasks[at].1)
    }

    /// Indices of the tasks that send to task `to` over an edge, ascending; none where there is no such edge or task.
    pub fn senders(&self, edge: EdgeId, to: u32) -> Vec<u32> {
        let Some((edge, senders, receivers)) = self.ends(edge) else { return Vec::new() };
        if to >= receivers {
            return Vec::new();
        }
        match edge.partitioning {
            Partitioning::Forward => (to..to + 1).filter(|&from| from < senders).collect(),
            Partitioning::Rescale => rescale_share(to, receivers, senders).collect(),
            _ => (0..senders).collect(),
        }
    }

    /// Indices of the tasks that task `from` sends to over an edge, ascending; none where there is no such edge or task.
    pub fn receivers(&self, edge: EdgeId, from: u32) -> Vec<u32> {
        let Some((edge, senders, receivers)) = self.ends(edge) else { return Vec::new() };
        if from >= senders {
            return Vec::new();
        }
        match edge.partitioning {
            Partitioning::Forward => (from..from + 1).filter(|&to| to < receivers).collect(),
            Partitioning::Rescale => rescale_share_back(from, senders, receivers).collect(),
            _ => (0..receivers).collect(),
        }
    }

    /// The channels of an edge, by sender and then by receiver.
    pub fn channels_of_edge(&self, edge: EdgeId) -> Vec<ChannelId> {
        let senders = self.ends(edge).map_or(0, |(_, senders, _)| senders);
        let of_sender = |from| self.receivers(edge, from).into_iter().map(move |to| ChannelId { edge, from, to });
        (0..senders).flat_map(of_sender).collect()
    }

    /// An edge and the parallelism of its sender and its receiver.
    fn ends(&self, edge: EdgeId) -> Option<(&JobEdge, u32, u32)> {
        let edge = self.job.edge(edge)?;
        let parallelism = |vertex| self.job.vertex(vertex).map(|v| v.parallelism).filter(|&p| p > 0);
        Some((edge, parallelism(edge.from)?, parallelism(edge.to)?))
    }
}

fn host(index: u32, hosts: u32, parallelism: u32) -> HostId {
    // Below `hosts`, since index < parallelism.
    HostId((u64::from(index) * u64::from(hosts) / u64::from(parallelism)) as u32)
}

/// The senders of receiver `to`: Flink's pointwise distribution (`EdgeManagerBuildUtil.connectPointwise`).
///
/// More senders than receivers: each receiver has a run of them, as even as can be. Fewer: each receiver has one.
fn rescale_share(to: u32, receivers: u32, senders: u32) -> std::ops::Range<u32> {
    let first = |to: u32| (u64::from(to) * u64::from(senders) / u64::from(receivers)) as u32;
    first(to)..first(to + 1).max(first(to) + 1)
}

/// The receivers of sender `from`: those whose [`rescale_share`] it is in.
fn rescale_share_back(from: u32, senders: u32, receivers: u32) -> std::ops::Range<u32> {
    let first = |from: u32| (u64::from(from) * u64::from(receivers)).div_ceil(u64::from(senders)) as u32;
    // With more senders than receivers a sender may begin no share: it is in the one that began before it.
    let end = first(from + 1);
    first(from).min(end - 1)..end
}
