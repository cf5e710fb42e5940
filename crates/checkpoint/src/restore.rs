//! What each task of a job gets of a checkpoint: [`Restore`]. State is found by the uid of the operator, so the new
//! job may have another parallelism, other chains, operators added and (where allowed) removed.
//!
//! Decides only: reading manifests is the store's, decoding rows in flight the runtime's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use flott_core::state::snapshot::StateSection;
use flott_core::{Error, KeyGroup, OperatorState, Result};
use flott_plan::{EdgeId, JobGraph, Partitioning, TaskId, Vertex, VertexId};
use serde::{Deserialize, Serialize};

use crate::{Committables, EdgeSnapshot, Manifest, MemberSnapshot, TaskSnapshot, TaskState, VertexSnapshot};

/// What a task starts from. Plain data: it travels to the process that runs the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskRestore {
    /// The task had finished before the cut: it only tells its readers so. The rest is empty.
    pub finished: bool,
    /// It may read from other tasks than before: its old clock is no promise of theirs.
    pub other_senders: bool,
    /// One for each member of the chain, in its order; empty for those the checkpoint does not know.
    pub members: Vec<MemberSnapshot>,
    /// The runtime's part of every old task that had one of the members, by old vertex and index.
    pub runtime: Vec<RuntimePart>,
    /// What was in flight on the edges into this task.
    pub in_flight: Vec<RecoveredEdge>,
}

/// The runtime's part of an old task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuntimePart {
    /// Uids of the old task's chain, which may differ from the new one's.
    pub members: Vec<String>,
    /// The old task's index.
    pub index: u32,
    /// How many old tasks there were.
    pub parallelism: u32,
    /// [`TaskSnapshot::runtime`].
    pub bytes: Vec<u8>,
}

/// What was in flight on one edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveredEdge {
    /// The edge in the new job.
    pub edge: EdgeId,
    /// Whether both ends have as many tasks as before and the senders read from the same as before, so that channels are
    /// the same and their watermarks, or their end, hold.
    pub same_tasks: bool,
    /// By old sender, then old receiver.
    pub channels: Vec<RecoveredChannel>,
}

/// What was in flight on one channel of the old job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveredChannel {
    /// Index of the old sender.
    pub from: u32,
    /// Index of the old receiver.
    pub to: u32,
    /// Which of its rows are this task's.
    pub ownership: Ownership,
    /// [`crate::InFlight::elements`].
    pub elements: Vec<u8>,
}

/// Which rows of a recovered channel belong to the task that was given it. Over all new tasks, each row has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ownership {
    /// All of them; no other task was given the channel.
    Whole,
    /// Those of the task's own key groups; other tasks were given the channel too.
    OwnKeyGroups,
}

/// A checkpoint matched with a job.
pub struct Restore<'a> {
    manifest: &'a Manifest,
    job: &'a JobGraph,
    /// Uid → old vertex.
    known: BTreeMap<&'a str, &'a VertexSnapshot>,
    /// By new edge: the old edge of the same ends.
    edges: Vec<Option<EdgeId>>,
    dropped: Vec<String>,
    /// By new vertex: whether a task that had finished beside others that had not is now given rows of those.
    sent_more: Vec<bool>,
    /// By new vertex: whether the clock of an old task is none for the new one. What a task has heard from all of an edge's
    /// senders holds however many there are; where it heard only some, it may now read from one that was behind them.
    other_senders: Vec<bool>,
}

impl<'a> Restore<'a> {
    /// Matches and checks everything that can be refused.
    ///
    /// `allow_non_restored`: state of operators that the job no longer has is dropped instead of refused.
    pub fn new(manifest: &'a Manifest, job: &'a JobGraph, allow_non_restored: bool) -> Result<Self> {
        let known = manifest.vertices.iter().flat_map(|v| v.members.iter().map(move |uid| (uid.as_str(), v))).collect();
        let new_edges = EdgeSnapshot::of(job)?;
        let old_edge = |new: &EdgeSnapshot| {
            let at = manifest.edges.iter().position(|old| old.is_same_edge(new))?;
            u32::try_from(at).ok().map(EdgeId)
        };
        let edges = new_edges.iter().map(old_edge).collect();
        let (sent_more, other_senders) = (Vec::new(), Vec::new());
        let mut restore = Self { manifest, job, known, edges, dropped: Vec::new(), sent_more, other_senders };
        restore.sent_more = restore.reads_from_others(|_| true);
        restore.other_senders = restore.reads_from_others(Partitioning::is_pointwise);
        for vertex in &job.vertices {
            restore.check_vertex(vertex).map_err(|e| restore.place(e))?;
        }
        restore.dropped = restore.orphans();
        if !restore.dropped.is_empty() && !allow_non_restored {
            return Err(restore.place(Error::user(format!(
                "the checkpoint holds state of operators that the job does not have (uid {}): give the operator \
                 its old uid, or drop the state with --allow-non-restored-state",
                restore.dropped.join(", ")
            ))));
        }
        restore.check_in_flight(&new_edges, allow_non_restored).map_err(|e| restore.place(e))?;
        Ok(restore)
    }

    /// Uids whose state is dropped because the job does not have them.
    pub fn dropped(&self) -> &[String] {
        &self.dropped
    }

    /// What the enumerator of a source starts from.
    pub fn enumerator(&self, uid: &str) -> Option<&'a [u8]> {
        self.manifest.enumerators.iter().find(|(known, _)| known == uid).map(|(_, bytes)| bytes.as_slice())
    }

    /// What must be committed before any task starts, by the uid of the sink.
    pub fn committables(&self) -> &'a Committables {
        &self.manifest.committables
    }

    /// What a task of the new job starts from.
    pub fn task(&self, task: TaskId) -> Result<TaskRestore> {
        let vertex = self.job.vertices.get(task.vertex.0 as usize).filter(|v| task.index < v.parallelism);
        let vertex = vertex.ok_or_else(|| Error::internal(format!("there is no task {task:?} to restore")))?;
        if self.had_finished(task.vertex, vertex, task.index) {
            return Ok(TaskRestore { finished: true, ..TaskRestore::default() });
        }
        Ok(TaskRestore {
            finished: false,
            other_senders: self.other_senders[task.vertex.0 as usize],
            members: vertex.chain.iter().map(|member| self.member(&member.node.uid, vertex, task.index)).collect(),
            runtime: self.runtime_parts(vertex),
            in_flight: self.in_flight(vertex, task.index),
        })
    }

    fn place(&self, error: Error) -> Error {
        error.at("checkpoint", self.manifest.checkpoint).at("job", &self.manifest.job)
    }

    fn check_vertex(&self, vertex: &Vertex) -> Result<()> {
        let (parallelism, max) = (vertex.parallelism, vertex.max_parallelism);
        if parallelism == 0 || parallelism > max {
            let text = format!("expected a parallelism from 1 to the max parallelism {max}, found {parallelism}");
            return Err(Error::user(text).at("operator", &vertex.name));
        }
        for member in &vertex.chain {
            let Some(old) = self.known.get(member.node.uid.as_str()) else { continue };
            if old.max_parallelism != max {
                let old = old.max_parallelism;
                let text = format!(
                    "the checkpoint was taken with max parallelism {old}, the job has {max}: keyed state cannot \
                     move between them, set {old} again"
                );
                return Err(Error::user(text).at("operator", &member.node.name).at("uid", &member.node.uid));
            }
        }
        Ok(())
    }

    /// Uids that hold something and are not in the job.
    fn orphans(&self) -> Vec<String> {
        let members = self.manifest.vertices.iter().flat_map(running).flat_map(|(_, task)| &task.members);
        let with_state = members.filter(|member| !member.is_empty()).map(|member| &member.uid);
        let enumerators = self.manifest.enumerators.iter().map(|(uid, _)| uid);
        let sinks = self.manifest.committables.iter().filter(|(_, held)| !held.is_empty()).map(|(uid, _)| uid);
        let present: BTreeSet<_> = self.job.vertices.iter().flat_map(|v| &v.chain).map(|m| &m.node.uid).collect();
        let holding: BTreeSet<_> = with_state.chain(enumerators).chain(sinks).collect();
        holding.difference(&present).map(|&uid| uid.clone()).collect()
    }

    /// Rows in flight need their edge, dealt out as before; at another parallelism, of a kind that can be dealt out.
    fn check_in_flight(&self, new_edges: &[EdgeSnapshot], allow_non_restored: bool) -> Result<()> {
        let has_member = |uid: &str| self.job.vertices.iter().any(|v| v.chain.iter().any(|m| m.node.uid == uid));
        for (id, readers) in self.edges_with_rows()? {
            let old = &self.manifest.edges[id.0 as usize];
            let Some(at) = self.edges.iter().position(|matched| *matched == Some(id)) else {
                if allow_non_restored && !has_member(&old.to) {
                    continue;
                }
                let text = "rows were in flight on an edge that the job does not have (or has inside a chain): \
                keep the edge, or restore from a savepoint, which has no rows in flight";
                return Err(Error::user(text).at("edge", old.name()));
            };
            let new = &new_edges[at];
            if new.partitioning != old.partitioning {
                let (old_name, new_name) = (old.partitioning.name(), new.partitioning.name());
                let text = format!(
                    "rows were in flight on an edge that was partitioned {old_name} and is now {new_name}, or \
                     by other columns: restore from a savepoint, which has no rows in flight"
                );
                return Err(Error::user(text).at("edge", old.name()));
            }
            let parallelism = self.reader_of(at).map_or(0, |v| v.parallelism);
            if parallelism != readers && !new.partitioning.may_overtake() {
                let text = format!(
                    "rows in flight on a {} edge cannot be dealt out from {readers} to {parallelism} tasks: \
                     restore from a savepoint, which has no rows in flight",
                    new.partitioning.name()
                );
                return Err(Error::user(text).at("edge", old.name()));
            }
        }
        Ok(())
    }

    /// Old edges with rows in flight, and how many tasks read them.
    fn edges_with_rows(&self) -> Result<BTreeMap<EdgeId, u32>> {
        let mut found = BTreeMap::new();
        for vertex in &self.manifest.vertices {
            for channel in running(vertex).flat_map(|(_, task)| &task.in_flight).map(|rows| rows.channel) {
                if self.manifest.edges.get(channel.edge.0 as usize).is_none() {
                    return Err(Error::internal(format!(
                        "rows in flight on {channel:?}, an edge the checkpoint lacks"
                    )));
                }
                found.insert(channel.edge, vertex.parallelism());
            }
        }
        Ok(found)
    }

    fn reader_of(&self, new_edge: usize) -> Option<&'a Vertex> {
        self.job.vertices.get(self.job.edges.get(new_edge)?.to.0 as usize)
    }

    /// At the old parallelism a task had finished if its predecessors of that index had; at another, if all had. One that
    /// is sent rows again has not.
    fn had_finished(&self, id: VertexId, vertex: &Vertex, index: u32) -> bool {
        let finished = |task: &TaskState| matches!(task, TaskState::Finished);
        !self.sent_more[id.0 as usize]
            && vertex.chain.iter().all(|member| match self.known.get(member.node.uid.as_str()) {
                Some(old) if old.parallelism() == vertex.parallelism => {
                    old.tasks.get(index as usize).is_some_and(finished)
                }
                Some(old) => old.tasks.iter().all(finished),
                None => false,
            })
    }

    /// By vertex, whether its tasks may read from others than before, over edges that count: an operator before it, over
    /// any number of them, is new, or has another parallelism and had not finished in all of its tasks.
    fn reads_from_others(&self, counts: fn(&Partitioning) -> bool) -> Vec<bool> {
        let changed = |sender: &Vertex| match self.known.get(sender.chain[0].node.uid.as_str()) {
            None => true,
            Some(old) => old.parallelism() != sender.parallelism && running(old).next().is_some(),
        };
        let mut found = Vec::with_capacity(self.job.vertices.len());
        // Senders come before their readers.
        for vertex in &self.job.vertices {
            let edges = vertex.inputs.iter().filter_map(|edge| self.job.edge(*edge));
            let others = edges.filter(|edge| counts(&edge.partitioning)).any(|edge| {
                let at = edge.from.0 as usize;
                self.job.vertices.get(at).is_some_and(changed) || found.get(at).copied().unwrap_or(true)
            });
            found.push(others);
        }
        found
    }

    fn member(&self, uid: &str, vertex: &Vertex, index: u32) -> MemberSnapshot {
        let tasks = self.known.get(uid).into_iter().flat_map(|old| running(old));
        let old: Vec<_> = tasks.filter_map(|(_, task)| task.members.iter().find(|m| m.uid == uid)).collect();
        // One for each old task: that of a finished one is empty, but has its place.
        let all = self.known.get(uid).map_or(&[][..], |old| &old.tasks).iter();
        let states: Vec<_> = all
            .map(|task| match task {
                TaskState::Snapshot(snapshot) => snapshot.members.iter().find(|m| m.uid == uid),
                TaskState::Finished => None,
            })
            .map(|member| member.map(|m| m.operator_state.clone()).unwrap_or_default())
            .collect();
        let range = KeyGroup::range(index, vertex.parallelism, vertex.max_parallelism);
        MemberSnapshot {
            uid: uid.to_owned(),
            operator_state: OperatorState::redistribute(&states, index, vertex.parallelism),
            keyed: keyed(old.iter().flat_map(|member| &member.keyed), &range),
        }
    }

    fn runtime_parts(&self, vertex: &Vertex) -> Vec<RuntimePart> {
        let has = |old: &VertexSnapshot| vertex.chain.iter().any(|m| old.members.contains(&m.node.uid));
        let old = self.manifest.vertices.iter().filter(|old| has(old));
        let part = |old: &VertexSnapshot, index: u32, task: &TaskSnapshot| RuntimePart {
            members: old.members.clone(),
            index,
            parallelism: old.parallelism(),
            bytes: task.runtime.clone(),
        };
        old.flat_map(|old| running(old).map(move |(index, task)| part(old, index, task))).collect()
    }

    fn in_flight(&self, vertex: &Vertex, index: u32) -> Vec<RecoveredEdge> {
        let channels = |edge: &EdgeId| {
            let old_id = (*self.edges.get(edge.0 as usize)?)?;
            let old = self.manifest.edges.get(old_id.0 as usize)?;
            let (sender, reader) = (self.known.get(old.from.as_str())?, self.known.get(old.to.as_str())?);
            let new_from = self.job.edge(*edge)?.from;
            let new_sender = self.job.vertex(new_from)?;
            let same_tasks = reader.parallelism() == vertex.parallelism
                && sender.parallelism() == new_sender.parallelism
                && !self.other_senders[new_from.0 as usize];
            let mut channels = Vec::new();
            // What the reader held is older than what the sender could not send yet.
            let tasks = running(reader).chain(running(sender));
            for rows in tasks.flat_map(|(_, task)| &task.in_flight).filter(|r| r.channel.edge == old_id) {
                let to = rows.channel.to;
                if let Some(ownership) = ownership(&old.partitioning, to, reader, vertex, index) {
                    channels.push(RecoveredChannel {
                        from: rows.channel.from,
                        to,
                        ownership,
                        elements: rows.elements.clone(),
                    });
                }
            }
            channels.sort_by_key(|channel| (channel.from, channel.to));
            (!channels.is_empty()).then_some(RecoveredEdge { edge: *edge, same_tasks, channels })
        };
        vertex.inputs.iter().filter_map(channels).collect()
    }
}

/// Tasks that were running at the cut, with their indices.
fn running(vertex: &VertexSnapshot) -> impl Iterator<Item = (u32, &TaskSnapshot)> {
    (0..).zip(&vertex.tasks).filter_map(|(index, task)| match task {
        TaskState::Snapshot(snapshot) => Some((index, snapshot)),
        TaskState::Finished => None,
    })
}

/// The sections with the groups of a range; those of one state become one.
fn keyed<'s>(old: impl Iterator<Item = &'s StateSection>, range: &Range<u32>) -> Vec<StateSection> {
    let mut new: Vec<StateSection> = Vec::new();
    for section in old {
        let own = |group: &KeyGroup| range.contains(&u32::from(group.0));
        let groups: Vec<_> = section.groups.iter().filter(|(group, _)| own(group)).cloned().collect();
        if groups.is_empty() {
            continue;
        }
        match new.iter_mut().find(|known| is_same_state(known, section)) {
            Some(known) => known.groups.extend(groups),
            None => new.push(StateSection { groups, ..without_groups(section) }),
        }
    }
    new.iter_mut().for_each(|section| section.groups.sort_by_key(|(group, _)| *group));
    new
}

/// Whether two sections differ in their groups at most.
fn is_same_state(a: &StateSection, b: &StateSection) -> bool {
    let names = |s: &StateSection| (s.kind, s.namespaced);
    a.table == b.table
        && a.name == b.name
        && names(a) == names(b)
        && a.value_type == b.value_type
        && a.key_types == b.key_types
}

fn without_groups(section: &StateSection) -> StateSection {
    StateSection {
        table: section.table.clone(),
        name: section.name.clone(),
        kind: section.kind,
        value_type: section.value_type.clone(),
        key_types: section.key_types.clone(),
        namespaced: section.namespaced,
        groups: Vec::new(),
    }
}

/// Which rows of the channel into old task `to` belong to new task `index`; `None`: none of them.
fn ownership(by: &Partitioning, to: u32, old: &VertexSnapshot, new: &Vertex, index: u32) -> Option<Ownership> {
    if old.parallelism() == new.parallelism {
        return (to == index).then_some(Ownership::Whole);
    }
    if !matches!(by, Partitioning::Hash(_)) {
        return (to % new.parallelism == index).then_some(Ownership::Whole);
    }
    let had = KeyGroup::range(to, old.parallelism(), old.max_parallelism);
    let has = KeyGroup::range(index, new.parallelism, new.max_parallelism);
    if had.start >= has.end || has.start >= had.end {
        None
    } else if has.start <= had.start && had.end <= has.end {
        Some(Ownership::Whole)
    } else {
        Some(Ownership::OwnKeyGroups)
    }
}
