//! What a checkpoint consists of: [`TaskSnapshot`] by task, [`Manifest`] for the job. Plain data.
//!
//! Everything is found again by uid, never by vertex or edge number: a new job may chain its operators differently.
//! How it becomes bytes is in `encoding.rs`; how it is dealt out again in `restore.rs`.

use flott_core::state::snapshot::StateSection;
use flott_core::{
    CheckpointId, CheckpointKind, Committable, Error, InputId, OperatorState, OutputId, Result, Timestamp,
};
use flott_plan::{ChainTarget, ChannelId, EdgeId, JobGraph, Partitioning, Vertex};
use serde::{Deserialize, Serialize};

/// What writers prepared, by the uid of their sink, in the order in which it was prepared.
pub type Committables = Vec<(String, Vec<Committable>)>;

/// Adds what was prepared later to what was prepared before.
pub(crate) fn append(before: &mut Committables, later: Committables) {
    for (uid, mut new) in later {
        match before.iter_mut().find(|(known, _)| *known == uid) {
            Some((_, old)) => old.append(&mut new),
            None if new.is_empty() => {}
            None => before.push((uid, new)),
        }
    }
}

/// What a task acknowledges a checkpoint with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSnapshot {
    /// State of each member of the chain.
    pub members: Vec<MemberSnapshot>,
    /// The runtime's own part (watermarks, generators, requests in flight), in the runtime's encoding.
    pub runtime: Vec<u8>,
    /// What barriers have overtaken on the way into this task.
    pub in_flight: Vec<InFlight>,
    /// What its writers have prepared since the checkpoint before. Empty in a manifest, which keeps those of all
    /// tasks, and of aborted checkpoints, together.
    pub committables: Committables,
}

/// State of one operator in one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberSnapshot {
    /// Who it belongs to.
    pub uid: String,
    /// State without keys.
    pub operator_state: OperatorState,
    /// State by key group.
    pub keyed: Vec<StateSection>,
}

impl MemberSnapshot {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.operator_state.is_empty() && self.keyed.iter().all(|section| section.groups.is_empty())
    }
}

/// Elements of one channel that belong before the cut but had not been processed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InFlight {
    /// The channel; its edge is a position in [`Manifest::edges`].
    pub channel: ChannelId,
    /// Stream elements in order, in the runtime's encoding.
    pub elements: Vec<u8>,
}

/// A complete checkpoint or savepoint of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job's name.
    pub job: String,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// Which owner of the job wrote it; a higher one has taken over from all lower ones.
    pub generation: u64,
    /// When it was triggered (processing time).
    pub triggered_at: Timestamp,
    /// Vertex `v` of the job is at index `v`.
    pub vertices: Vec<VertexSnapshot>,
    /// Edge `e` of the job is at index `e`.
    pub edges: Vec<EdgeSnapshot>,
    /// What the enumerators of the sources gave, by uid.
    pub enumerators: Vec<(String, Vec<u8>)>,
    /// To be committed first thing after a restore: everything prepared before the cut that is not known to be
    /// committed.
    pub committables: Committables,
}

/// The tasks of one vertex.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VertexSnapshot {
    /// Uids of the chain.
    pub members: Vec<String>,
    /// Key groups.
    pub max_parallelism: u32,
    /// By index; as many as the parallelism was.
    pub tasks: Vec<TaskState>,
}

impl VertexSnapshot {
    /// How many tasks there were.
    pub fn parallelism(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }
}

/// A task at the cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskState {
    /// It was running.
    Snapshot(TaskSnapshot),
    /// It had finished: it has no state and nothing follows from it.
    Finished,
}

/// What an edge is recognised by in another job graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeSnapshot {
    /// Uid of the operator that emits.
    pub from: String,
    /// Which of its outputs.
    pub output: OutputId,
    /// Uid of the operator that reads.
    pub to: String,
    /// Which of its inputs.
    pub input: InputId,
    /// Tells edges apart that agree in all of these (a stream united with itself): 0, 1 ...
    pub nth: u32,
    /// How rows found the reader's tasks.
    pub partitioning: Partitioning,
}

impl EdgeSnapshot {
    pub(crate) fn is_same_edge(&self, other: &Self) -> bool {
        let key = |e: &Self| (e.output, e.input, e.nth);
        self.from == other.from && self.to == other.to && key(self) == key(other)
    }

    /// For people: who sends to whom.
    pub(crate) fn name(&self) -> String {
        format!("{} -> {}", self.from, self.to)
    }

    /// The edges of a job, by their id.
    pub(crate) fn of(job: &JobGraph) -> Result<Vec<Self>> {
        let mut edges: Vec<Self> = Vec::with_capacity(job.edges.len());
        for (index, edge) in job.edges.iter().enumerate() {
            let inconsistent =
                || Error::internal("an edge of the job graph has no sender or no reader").at("edge", index);
            let vertex = |id: flott_plan::VertexId| job.vertices.get(id.0 as usize);
            let (from, output) = vertex(edge.from).and_then(|v| sender(v, index)).ok_or_else(inconsistent)?;
            let reader = vertex(edge.to).and_then(|v| v.chain.first()).ok_or_else(inconsistent)?;
            let mut new = Self {
                from,
                output,
                to: reader.node.uid.clone(),
                input: edge.input,
                nth: 0,
                partitioning: edge.partitioning.clone(),
            };
            while edges.iter().any(|e| e.is_same_edge(&new)) {
                new.nth += 1;
            }
            edges.push(new);
        }
        Ok(edges)
    }
}

/// The member that emits into an edge, and from which output.
fn sender(vertex: &Vertex, edge: usize) -> Option<(String, OutputId)> {
    let is_it = |to: &ChainTarget| matches!(to, ChainTarget::Edge(EdgeId(id)) if *id as usize == edge);
    vertex.chain.iter().find_map(|member| {
        let output = member.outputs.iter().find(|output| is_it(&output.to))?;
        Some((member.node.uid.clone(), output.output))
    })
}
