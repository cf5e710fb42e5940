//! When a checkpoint is taken, when it is complete, what is committed when: [`Coordinator`], `(state, event) →
//! (state, actions)`. It runs nothing, reads no clock and knows no channel; Chandy and Lamport's cut itself is the
//! runtime's.
//!
//! Rules:
//! - At most one checkpoint is under way, from its trigger until it is stored or given up.
//! - It is complete when every task has acknowledged it or has finished without seeing its barrier: then all the task
//!   did lies before the cut.
//! - What writers prepared is committed once a manifest that holds it is durable, in the order of ids. A manifest
//!   holds everything not known to be committed, so no crash loses a commit.
//! - What was prepared for a checkpoint that is given up, acknowledged in time or late, is carried to the next one:
//!   the task has handed it over and will not prepare it again. So is what a task prepared at its end.
//! - A savepoint is complete without commits and without notice to the tasks: the job is not recovered from it, so
//!   what was prepared for it is carried on too. `Stop` commits: nothing follows, and what a task might prepare at
//!   its end lies behind the savepoint and is left.
//! - After a failure everything carried is dropped: the tasks go back to before it and prepare it again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use flott_core::{BarrierMode, CheckpointBarrier, CheckpointId, CheckpointKind, Error, Result, Timestamp};
use flott_plan::{ExecutionGraph, TaskId};

use crate::snapshot::append;
use crate::{Action, Committables, EdgeSnapshot, Event, Manifest, Settings, TaskSnapshot, TaskState, VertexSnapshot};

/// Decides about the checkpoints of one job. Drive it with [`Coordinator::handle`].
#[derive(Debug)]
pub struct Coordinator {
    settings: Settings,
    generation: u64,
    /// The highest id given out.
    last: CheckpointId,
    run: Option<Run>,
}

/// The job between a start and a failure.
#[derive(Debug)]
struct Run {
    graph: Arc<ExecutionGraph>,
    senders: BTreeMap<TaskId, Vec<TaskId>>,
    edges: Vec<EdgeSnapshot>,
    /// Ids up to this one were given out before.
    after: CheckpointId,
    acked: BTreeMap<TaskId, CheckpointId>,
    finished: BTreeSet<TaskId>,
    /// Prepared, in no durable manifest of a checkpoint.
    held: Committables,
    /// In a durable manifest, not known to be committed.
    uncommitted: BTreeMap<CheckpointId, Committables>,
    pending: Option<Pending>,
    requested: VecDeque<CheckpointKind>,
    due: Option<Timestamp>,
    not_before: Timestamp,
    failures: u32,
    stage: Stage,
    /// The newest durable checkpoint is one after which nothing follows.
    covers_end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// All tasks have finished, what they prepared is not all committed.
    Finishing,
    /// Nothing more is decided: the job is over or must fail.
    Over,
}

/// The checkpoint under way.
#[derive(Debug)]
struct Pending {
    barrier: CheckpointBarrier,
    since: Timestamp,
    triggered: BTreeSet<TaskId>,
    snapshots: BTreeMap<TaskId, TaskSnapshot>,
    enumerators: Option<Vec<(String, Vec<u8>)>>,
    overtaken: bool,
    /// Prepared at the end of tasks after they had acknowledged: behind the cut.
    later: Committables,
    /// Set once the manifest is being written: what it makes committable.
    storing: Option<Storing>,
}

#[derive(Debug)]
struct Storing {
    committables: Committables,
    covers_end: bool,
}

impl Coordinator {
    /// A coordinator of an owner of this generation, whose ids begin above `after`.
    pub fn new(settings: Settings, generation: u64, after: Option<CheckpointId>) -> Self {
        Self { settings, generation, last: after.unwrap_or_default(), run: None }
    }

    /// When the next [`Event::Tick`] has something to decide; `None`: not before another event.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let run = self.run.as_ref()?;
        match &run.pending {
            Some(pending) if pending.storing.is_some() => None,
            Some(pending) => {
                let timeout = later(pending.since, self.settings.timeout);
                Some(self.overtakes_at(pending).map_or(timeout, |at| at.min(timeout)))
            }
            None => match run.stage {
                Stage::Running if run.covers_end => None,
                Stage::Running => run.due.map(|due| due.max(run.not_before)),
                Stage::Finishing if run.covers_end => None,
                Stage::Finishing => Some(run.not_before),
                Stage::Over => None,
            },
        }
    }

    /// Takes an event; the answer is what is to be done, in order.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Err(error) = self.apply(event, now, &mut actions) {
            actions.push(Action::Refused { error });
        }
        self.advance(now, &mut actions);
        actions
    }

    fn apply(&mut self, event: Event, now: Timestamp, actions: &mut Vec<Action>) -> Result<()> {
        match event {
            Event::Started { graph, from } => return self.start(graph, from, now, actions),
            Event::JobFailed => {
                self.fail_run(actions);
                return Ok(());
            }
            Event::Tick => return Ok(()),
            _ => {}
        }
        let Some(run) = &mut self.run else { return without_run(&event) };
        match event {
            Event::TriggerRequested { kind } => run.request(kind),
            Event::EnumeratorsSnapshotted { checkpoint, enumerators } => {
                if let Some(pending) = run.collecting(checkpoint) {
                    pending.enumerators = Some(enumerators);
                }
                Ok(())
            }
            Event::Ack { task, checkpoint, snapshot } => run.ack(task, checkpoint, self.last, snapshot),
            Event::Declined { task, checkpoint, error } => {
                run.check_task(task)?;
                if run.collecting(checkpoint).is_some() {
                    let error = error.at("task", run.name(task)).at("checkpoint", checkpoint);
                    self.abort(error, now, actions);
                }
                Ok(())
            }
            Event::TaskFinished { task, committables } => run.task_finished(task, committables, actions),
            Event::Stored { checkpoint } => {
                self.stored(checkpoint, now, actions);
                Ok(())
            }
            Event::StoreFailed { checkpoint, error } => {
                if run.pending.as_ref().is_some_and(|p| p.barrier.id == checkpoint && p.storing.is_some()) {
                    self.abort(error.at("checkpoint", checkpoint), now, actions);
                }
                Ok(())
            }
            Event::Committed { checkpoint } => {
                run.uncommitted.remove(&checkpoint);
                Ok(())
            }
            Event::JobFinished => run.job_finished(),
            Event::Started { .. } | Event::JobFailed | Event::Tick => Ok(()),
        }
    }

    fn start(
        &mut self,
        graph: Arc<ExecutionGraph>,
        from: Option<CheckpointId>,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) -> Result<()> {
        self.fail_run(actions);
        self.last = self.last.max(from.unwrap_or_default());
        let edges = EdgeSnapshot::of(&graph.job)?;
        let senders = graph.tasks.iter().map(|(task, _)| (*task, senders(&graph, *task))).collect();
        self.run = Some(Run {
            graph,
            senders,
            edges,
            after: self.last,
            acked: BTreeMap::new(),
            finished: BTreeSet::new(),
            held: Vec::new(),
            uncommitted: BTreeMap::new(),
            pending: None,
            requested: VecDeque::new(),
            due: self.settings.interval.map(|interval| later(now, interval)),
            not_before: now,
            failures: 0,
            stage: Stage::Running,
            covers_end: false,
        });
        Ok(())
    }

    /// Drops the run; whoever waits for a checkpoint of it is answered.
    fn fail_run(&mut self, actions: &mut Vec<Action>) {
        let Some(mut run) = self.run.take() else { return };
        let error = Error::external("the job failed before the checkpoint was complete");
        if let Some(pending) = run.pending.take() {
            let CheckpointBarrier { id: checkpoint, kind, .. } = pending.barrier;
            actions.push(Action::NotifyAborted { checkpoint, kind, error });
        }
        run.refuse_requests("the job failed", actions);
    }

    fn stored(&mut self, checkpoint: CheckpointId, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(run) = &mut self.run else { return };
        let Some(pending) = run.pending.take_if(|p| p.barrier.id == checkpoint && p.storing.is_some()) else { return };
        let Some(storing) = pending.storing else { return };
        let kind = pending.barrier.kind;
        run.not_before = later(now, self.settings.min_pause);
        actions.push(Action::Completed { checkpoint, kind, duration: elapsed(pending.since, now) });
        if kind == CheckpointKind::Savepoint {
            let since = std::mem::replace(&mut run.held, storing.committables);
            append(&mut run.held, since);
            append(&mut run.held, pending.later);
            return;
        }
        append(&mut run.held, pending.later);
        run.failures = 0;
        run.covers_end = storing.covers_end || kind == CheckpointKind::Stop;
        if !storing.committables.is_empty() {
            run.uncommitted.insert(checkpoint, storing.committables.clone());
            actions.push(Action::Commit { checkpoint, committables: storing.committables });
        }
        actions.push(Action::NotifyComplete { checkpoint });
    }

    /// Gives up the checkpoint under way.
    fn abort(&mut self, error: Error, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(run) = &mut self.run else { return };
        let Some(mut pending) = run.pending.take() else { return };
        let CheckpointBarrier { id: checkpoint, kind, .. } = pending.barrier;
        let mut carried = pending.storing.take().map_or_else(Vec::new, |storing| storing.committables);
        append(&mut carried, std::mem::take(&mut run.held));
        append(&mut carried, prepared(&mut pending));
        append(&mut carried, pending.later);
        run.held = carried;
        // What ends the job has no interval to be tried again at: without a wait, a store that is down would be asked
        // without pause.
        let retry = if run.stage == Stage::Finishing { self.settings.interval.unwrap_or(0) } else { 0 };
        run.not_before = later(now, self.settings.min_pause.max(retry));
        actions.push(Action::NotifyAborted { checkpoint, kind, error: error.clone() });
        if kind != CheckpointKind::Checkpoint {
            return;
        }
        run.failures = run.failures.saturating_add(1);
        if run.failures > self.settings.tolerable_failures {
            run.stage = Stage::Over;
            run.refuse_requests("the job failed", actions);
            actions.push(Action::Fail { error: error.at("failed checkpoints in a row", run.failures) });
        }
    }

    /// Does what has become due: after every event.
    fn advance(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.store_if_complete(actions);
        self.time_out(now, actions);
        self.overtake(now, actions);
        self.end(actions);
        self.begin_if_due(now, actions);
        self.store_if_complete(actions);
    }

    fn store_if_complete(&mut self, actions: &mut Vec<Action>) {
        let generation = self.generation;
        let Some(run) = &mut self.run else { return };
        if !run.is_complete() {
            return;
        }
        let Some(mut pending) = run.pending.take() else { return };
        let mut new = std::mem::take(&mut run.held);
        append(&mut new, prepared(&mut pending));
        let mut committables = Committables::new();
        run.uncommitted.values().for_each(|earlier| append(&mut committables, earlier.clone()));
        append(&mut committables, new.clone());
        let covers_end = pending.snapshots.is_empty();
        pending.storing = Some(Storing { committables: new, covers_end });
        let manifest = Manifest {
            job: run.graph.job.name.clone(),
            checkpoint: pending.barrier.id,
            kind: pending.barrier.kind,
            generation,
            triggered_at: pending.since,
            vertices: run.vertices(std::mem::take(&mut pending.snapshots)),
            edges: run.edges.clone(),
            enumerators: pending.enumerators.take().unwrap_or_default(),
            committables,
        };
        run.pending = Some(pending);
        actions.push(Action::Store { manifest: Box::new(manifest) });
    }

    fn time_out(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(run) = &self.run else { return };
        let Some(pending) = run.pending.as_ref().filter(|p| p.storing.is_none()) else { return };
        if now < later(pending.since, self.settings.timeout) {
            return;
        }
        let waiting: Vec<_> = run.waiting().map(|task| run.name(task)).collect();
        let who = match waiting.len() {
            0 => "the enumerators of its sources".to_owned(),
            1..=5 => waiting.join(", "),
            more => format!("{} and {} more", waiting[..4].join(", "), more - 4),
        };
        let text = format!("the checkpoint was not complete after {} ms: it waits for {who}", self.settings.timeout);
        let error = Error::external(text).at("checkpoint", pending.barrier.id);
        self.abort(error, now, actions);
    }

    /// When barriers that wait begin to overtake, if they ever do.
    fn overtakes_at(&self, pending: &Pending) -> Option<Timestamp> {
        let waits = pending.barrier.mode == BarrierMode::Aligned && pending.barrier.kind == CheckpointKind::Checkpoint;
        let may = self.settings.unaligned && waits && !pending.overtaken && pending.storing.is_none();
        may.then(|| later(pending.since, self.settings.aligned_timeout))
    }

    fn overtake(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(pending) = self.run.as_ref().and_then(|run| run.pending.as_ref()) else { return };
        if self.overtakes_at(pending).is_none_or(|at| now < at) {
            return;
        }
        let Some(run) = &mut self.run else { return };
        let tasks = run.waiting().collect();
        if let Some(pending) = &mut run.pending {
            pending.overtaken = true;
            actions.push(Action::Overtake { checkpoint: pending.barrier.id, tasks });
        }
    }

    /// Ends the job once all is committed; without checkpoints, commits first.
    fn end(&mut self, actions: &mut Vec<Action>) {
        let Some(run) = self.run.as_mut().filter(|run| run.pending.is_none()) else { return };
        if run.covers_end {
            run.refuse_requests("the job has ended", actions);
        }
        if run.stage != Stage::Finishing {
            return;
        }
        if self.settings.interval.is_none() && !run.covers_end {
            if !run.requested.is_empty() {
                return;
            }
            run.covers_end = true;
            if !run.held.is_empty() {
                self.last = CheckpointId(self.last.0 + 1);
                let committables = std::mem::take(&mut run.held);
                run.uncommitted.insert(self.last, committables.clone());
                actions.push(Action::Commit { checkpoint: self.last, committables });
            }
        }
        if run.covers_end && run.uncommitted.is_empty() {
            run.stage = Stage::Over;
            actions.push(Action::Finished);
        }
    }

    fn begin_if_due(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(run) = self.run.as_mut().filter(|run| run.pending.is_none()) else { return };
        if run.stage == Stage::Over || run.covers_end {
            return;
        }
        let periodic = match run.stage {
            Stage::Finishing => self.settings.interval.is_some() && now >= run.not_before,
            _ => run.due.is_some_and(|due| now >= due.max(run.not_before)),
        };
        let kind = match run.requested.pop_front() {
            Some(kind) => kind,
            None if periodic => CheckpointKind::Checkpoint,
            None => return,
        };
        self.last = CheckpointId(self.last.0 + 1);
        if kind == CheckpointKind::Checkpoint {
            run.due = self.settings.interval.map(|interval| later(now, interval));
        }
        let barrier = CheckpointBarrier { id: self.last, kind, mode: mode(&self.settings, kind) };
        let tasks: Vec<_> = run.heads().collect();
        run.pending = Some(Pending {
            barrier,
            since: now,
            triggered: tasks.iter().copied().collect(),
            snapshots: BTreeMap::new(),
            enumerators: None,
            overtaken: false,
            later: Vec::new(),
            storing: None,
        });
        actions.push(Action::SnapshotEnumeratorsAndTrigger { barrier, tasks });
    }
}

impl Run {
    fn request(&mut self, kind: CheckpointKind) -> Result<()> {
        if self.stage == Stage::Over || self.covers_end {
            return Err(Error::user("no checkpoint can be taken: the job has ended"));
        }
        if !self.requested.contains(&kind) {
            self.requested.push_back(kind);
        }
        Ok(())
    }

    fn refuse_requests(&mut self, why: &str, actions: &mut Vec<Action>) {
        for kind in self.requested.drain(..) {
            let error = Error::user(format!("no {} can be taken: {why}", name_of(kind)));
            actions.push(Action::Refused { error });
        }
    }

    fn check_task(&self, task: TaskId) -> Result<()> {
        if self.senders.contains_key(&task) {
            return Ok(());
        }
        Err(Error::internal(format!("the job has no task {} of vertex {}", task.index, task.vertex.0)))
    }

    /// For people: which task.
    fn name(&self, task: TaskId) -> String {
        let vertex = self.graph.job.vertices.get(task.vertex.0 as usize);
        let (name, parallelism) = vertex.map_or(("?", 0), |v| (v.name.as_str(), v.parallelism));
        format!("{name} ({}/{parallelism})", task.index + 1)
    }

    /// The checkpoint under way, if it is this one and not complete.
    fn collecting(&mut self, checkpoint: CheckpointId) -> Option<&mut Pending> {
        self.pending.as_mut().filter(|p| p.barrier.id == checkpoint && p.storing.is_none())
    }

    fn ack(
        &mut self,
        task: TaskId,
        checkpoint: CheckpointId,
        last: CheckpointId,
        snapshot: TaskSnapshot,
    ) -> Result<()> {
        self.check_task(task)?;
        if checkpoint <= self.after {
            // Of the tasks before the restart: what they prepared was taken back with them.
            return Ok(());
        }
        let refuse = |text: &str| Err(Error::internal(text).at("task", self.name(task)).at("checkpoint", checkpoint));
        if checkpoint > last {
            return refuse("a task acknowledged a checkpoint that was never begun");
        }
        if self.finished.contains(&task) {
            return refuse("a task acknowledged a checkpoint after it had finished");
        }
        if self.acked.get(&task).is_some_and(|newest| *newest >= checkpoint) {
            return refuse("a task acknowledged a checkpoint twice");
        }
        self.acked.insert(task, checkpoint);
        match self.collecting(checkpoint) {
            Some(pending) => drop(pending.snapshots.insert(task, snapshot)),
            // It was given up: the snapshot is of no use, but what was prepared will not be prepared again.
            None => append(&mut self.held, snapshot.committables),
        }
        Ok(())
    }

    fn task_finished(&mut self, task: TaskId, committables: Committables, actions: &mut Vec<Action>) -> Result<()> {
        self.check_task(task)?;
        if !self.finished.insert(task) {
            return Err(Error::internal("a task finished twice").at("task", self.name(task)));
        }
        let Some(pending) = self.pending.as_mut().filter(|p| p.storing.is_none()) else {
            append(&mut self.held, committables);
            return Ok(());
        };
        if pending.snapshots.contains_key(&task) {
            append(&mut pending.later, committables);
        } else {
            append(&mut self.held, committables);
        }
        self.trigger_orphans(actions);
        Ok(())
    }

    /// Tasks that no barrier will reach, since all their senders have finished without passing it on.
    fn trigger_orphans(&mut self, actions: &mut Vec<Action>) {
        let Some(pending) = &self.pending else { return };
        let passed_on = |task: &TaskId| pending.snapshots.contains_key(task);
        let orphan = |task: &TaskId| {
            !pending.triggered.contains(task) && !passed_on(task) && !self.senders[task].iter().any(passed_on)
        };
        let tasks: Vec<_> = self.heads().filter(orphan).collect();
        if tasks.is_empty() {
            return;
        }
        let barrier = pending.barrier;
        if let Some(pending) = &mut self.pending {
            pending.triggered.extend(&tasks);
        }
        actions.push(Action::Trigger { barrier, tasks });
    }

    fn job_finished(&mut self) -> Result<()> {
        if self.finished.len() < self.senders.len() {
            let running = self.senders.len() - self.finished.len();
            return Err(Error::internal(format!("the job was said to have finished while {running} tasks run")));
        }
        if self.stage == Stage::Running {
            self.stage = Stage::Finishing;
        }
        Ok(())
    }

    /// Running tasks without a running sender: where barriers begin.
    fn heads(&self) -> impl Iterator<Item = TaskId> {
        let running = |task: &TaskId| !self.finished.contains(task);
        let is_head = move |senders: &Vec<TaskId>| !senders.iter().any(running);
        self.senders.iter().filter(move |(task, senders)| running(task) && is_head(senders)).map(|(task, _)| *task)
    }

    /// Tasks that have neither acknowledged the checkpoint under way nor finished.
    fn waiting(&self) -> impl Iterator<Item = TaskId> {
        let acked = |task: &TaskId| self.pending.as_ref().is_some_and(|p| p.snapshots.contains_key(task));
        self.senders.keys().copied().filter(move |task| !self.finished.contains(task) && !acked(task))
    }

    fn is_complete(&self) -> bool {
        let ready = self.pending.as_ref().is_some_and(|p| p.storing.is_none() && p.enumerators.is_some());
        ready && self.waiting().next().is_none()
    }

    /// The vertices with these snapshots; tasks without one had finished.
    fn vertices(&self, mut snapshots: BTreeMap<TaskId, TaskSnapshot>) -> Vec<VertexSnapshot> {
        let mut vertices: Vec<_> = self
            .graph
            .job
            .vertices
            .iter()
            .map(|vertex| VertexSnapshot {
                members: vertex.chain.iter().map(|member| member.node.uid.clone()).collect(),
                max_parallelism: vertex.max_parallelism,
                tasks: Vec::with_capacity(vertex.parallelism as usize),
            })
            .collect();
        for task in self.senders.keys() {
            let state = snapshots.remove(task).map_or(TaskState::Finished, TaskState::Snapshot);
            if let Some(vertex) = vertices.get_mut(task.vertex.0 as usize) {
                vertex.tasks.push(state);
            }
        }
        vertices
    }
}

/// Takes what the tasks prepared for a checkpoint, in the order of the tasks.
fn prepared(pending: &mut Pending) -> Committables {
    let mut all = Committables::new();
    pending.snapshots.values_mut().for_each(|task| append(&mut all, std::mem::take(&mut task.committables)));
    all
}

fn senders(graph: &ExecutionGraph, task: TaskId) -> Vec<TaskId> {
    let edges = graph.job.vertices.get(task.vertex.0 as usize).map_or(&[][..], |vertex| &vertex.inputs);
    let of_edge = |edge: &flott_plan::EdgeId| {
        let from = graph.job.edges.get(edge.0 as usize).map(|edge| edge.from);
        let indices = graph.senders(*edge, task.index);
        from.into_iter().flat_map(move |vertex| indices.clone().into_iter().map(move |index| TaskId { vertex, index }))
    };
    edges.iter().flat_map(of_edge).collect()
}

/// Savepoints are aligned in every configuration, so that they hold no rows in flight and are exact.
fn mode(settings: &Settings, kind: CheckpointKind) -> BarrierMode {
    match kind {
        CheckpointKind::Savepoint | CheckpointKind::Stop => BarrierMode::Aligned,
        CheckpointKind::Checkpoint if settings.at_least_once => BarrierMode::AtLeastOnce,
        CheckpointKind::Checkpoint if settings.unaligned && settings.aligned_timeout == 0 => BarrierMode::Unaligned,
        CheckpointKind::Checkpoint => BarrierMode::Aligned,
    }
}

fn name_of(kind: CheckpointKind) -> &'static str {
    match kind {
        CheckpointKind::Checkpoint => "checkpoint",
        CheckpointKind::Savepoint => "savepoint",
        CheckpointKind::Stop => "savepoint to stop with",
    }
}

/// Events that come while no tasks run are late, except a request, which someone waits for.
fn without_run(event: &Event) -> Result<()> {
    match event {
        Event::TriggerRequested { kind } => {
            Err(Error::external(format!("no {} can be taken: the job is not running", name_of(*kind))))
        }
        _ => Ok(()),
    }
}

fn later(from: Timestamp, ms: u64) -> Timestamp {
    from.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn elapsed(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)
}
