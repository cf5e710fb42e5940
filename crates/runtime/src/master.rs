//! The brain of a job: [`Master`], `(state, event) → (state, actions)`. It decides when tasks are deployed, cancelled
//! and restarted, and asks the checkpoint coordinator about snapshots. It runs nothing and reads no clock; `driver.rs`
//! carries its actions out, in threads as in the simulator.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use flott_checkpoint::{Action, Committables, Coordinator, Decision, Event, Manifest, RestartStrategy};
use flott_core::{CheckpointBarrier, CheckpointId, CheckpointKind, Error, Timestamp};
use flott_plan::{ExecutionGraph, HostId, TaskId};

use crate::mailbox::TaskCommand;
use crate::task::TaskEvent;

/// Which start of the tasks something belongs to; what comes from an earlier one is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Attempt(pub u32);

/// What has happened.
#[derive(Debug)]
pub enum MasterEvent {
    /// Begin, from this manifest if there is one.
    Start(Option<Box<Manifest>>),
    /// The tasks of an attempt run.
    Deployed(Attempt),
    /// They could not be made.
    DeployFailed(Attempt, Error),
    /// A task says something.
    Task(Attempt, TaskEvent),
    /// The enumerators' snapshots, by uid.
    Enumerators(CheckpointId, Vec<(String, Vec<u8>)>),
    /// A manifest is durable, or could not be written.
    Stored(CheckpointId, Result<(), Error>),
    /// A commit is done, or has failed.
    Committed(CheckpointId, Result<(), Error>),
    /// What a restart goes on from; none: the beginning. Or why that cannot be known.
    Latest(Result<Option<Box<Manifest>>, Error>),
    /// Something outside the tasks broke (a process died, a store): the attempt fails.
    Broken(Error),
    /// The user wants a checkpoint or savepoint, or to stop with one.
    Trigger(CheckpointKind),
    /// The user wants the job to end.
    Cancel,
    /// Time has passed.
    Tick,
}

/// What is to be done, in order.
#[derive(Debug)]
pub enum MasterAction {
    /// Make the tasks, restored from the manifest; its committables are committed first.
    Deploy(Attempt, Option<Box<Manifest>>),
    /// Tell a task.
    Command(TaskId, TaskCommand),
    /// Ask the enumerator of a source task for a split and tell the task the answer.
    NextSplit(TaskId),
    /// Take the enumerators' snapshots and send the barrier to these tasks, in one go.
    SnapshotEnumerators(CheckpointBarrier, Vec<TaskId>),
    /// Write a manifest.
    Store(Box<Manifest>),
    /// Commit.
    Commit(CheckpointId, Committables),
    /// Look up what a restart goes on from.
    FindLatest,
    /// The job has changed its state, for progress and logs.
    Note(Note),
    /// The job is over.
    Done(Result<JobEnd, Error>),
}

/// Something worth telling people.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A checkpoint is durable: id, why it was taken, ms it took.
    Completed(CheckpointId, CheckpointKind, u64),
    /// A checkpoint was given up.
    Aborted(CheckpointId, Error),
    /// The job has failed and starts again after so many ms.
    Restarting(Error, u64),
    /// Something asked for cannot be done.
    Refused(Error),
    /// The tasks are cancelled, since the job ends or starts again, and these have not ended for a while: their names, and
    /// where they run.
    Waiting(Vec<(String, HostId)>),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(id, _, ms) => write!(f, "checkpoint {id} is complete after {ms} ms"),
            Self::Aborted(id, error) => write!(f, "checkpoint {id} was given up: {error}"),
            Self::Restarting(error, ms) => write!(f, "the job has failed and starts again in {ms} ms: {error}"),
            Self::Refused(error) => write!(f, "{error}"),
            Self::Waiting(tasks) => f.write_str(&waiting_for(tasks, |_| None)),
        }
    }
}

/// What a job waits for, in words; `pid`: the process of a host, where that is a worker.
pub(crate) fn waiting_for(tasks: &[(String, HostId)], pid: impl Fn(HostId) -> Option<u32>) -> String {
    const SHOWN: usize = 3;
    let place = |(task, host): &(String, HostId)| match pid(*host) {
        Some(pid) => format!("{task} in worker {pid}"),
        None => task.clone(),
    };
    let shown: Vec<_> = tasks.iter().take(SHOWN).map(place).collect();
    let more = match tasks.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("waiting for task {}{more}", shown.join(", "))
}

/// A job whose tasks are cancelled says after so long what it waits for.
const PATIENCE_MS: i64 = 1_000;

/// How a job ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Its input was read to the end and everything is committed.
    Finished,
    /// With a savepoint.
    Stopped(CheckpointId),
    /// By its user.
    Cancelled,
}

#[derive(Debug)]
enum Phase {
    Starting,
    Running,
    /// Tasks are being cancelled, and why.
    Ending(Ending),
    /// Until then.
    Waiting(Timestamp),
    /// For the newest manifest.
    Restoring,
    Done,
}

#[derive(Debug)]
enum Ending {
    Failed(Error),
    Stopped(CheckpointId),
    Cancelled,
}

/// The brain of a job.
#[derive(Debug)]
pub struct Master {
    graph: Arc<ExecutionGraph>,
    coordinator: Coordinator,
    restarts: RestartStrategy,
    phase: Phase,
    attempt: Attempt,
    live: BTreeSet<TaskId>,
    from: Option<CheckpointId>,
    /// When a job whose tasks are cancelled says what it waits for.
    tell_at: Option<Timestamp>,
}

impl Master {
    /// A brain for this job.
    pub fn new(graph: Arc<ExecutionGraph>, coordinator: Coordinator, restarts: RestartStrategy) -> Self {
        Self {
            graph,
            coordinator,
            restarts,
            phase: Phase::Starting,
            attempt: Attempt(0),
            live: BTreeSet::new(),
            from: None,
            tell_at: None,
        }
    }

    /// When the next [`MasterEvent::Tick`] has something to decide.
    pub fn next_wake(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Waiting(at) => Some(at),
            Phase::Running => self.coordinator.next_wake(),
            Phase::Ending(_) => self.tell_at,
            _ => None,
        }
    }

    /// Takes an event; the answer is what is to be done, in order.
    pub fn handle(&mut self, event: MasterEvent, now: Timestamp) -> Vec<MasterAction> {
        let mut out = Vec::new();
        match event {
            MasterEvent::Start(manifest) | MasterEvent::Latest(Ok(manifest)) => self.deploy(manifest, &mut out),
            MasterEvent::Latest(Err(error)) => match self.phase {
                Phase::Restoring if error.is_retryable() => {
                    self.phase = Phase::Ending(Ending::Failed(error));
                    self.gone(now, &mut out);
                }
                Phase::Restoring => self.done(Err(error), &mut out),
                _ => {}
            },
            MasterEvent::Deployed(attempt) if attempt == self.attempt => {
                if let Phase::Starting = self.phase {
                    self.phase = Phase::Running;
                }
                let started = Event::Started { graph: Arc::clone(&self.graph), from: self.from };
                self.coordinate(started, now, &mut out);
            }
            MasterEvent::DeployFailed(attempt, error) if attempt == self.attempt => {
                self.live.clear();
                self.phase = Phase::Ending(Ending::Failed(error));
                self.gone(now, &mut out);
            }
            MasterEvent::Task(attempt, event) if attempt == self.attempt => self.on_task(event, now, &mut out),
            MasterEvent::Enumerators(checkpoint, enumerators) => {
                self.coordinate(Event::EnumeratorsSnapshotted { checkpoint, enumerators }, now, &mut out);
            }
            MasterEvent::Stored(checkpoint, Ok(())) => self.coordinate(Event::Stored { checkpoint }, now, &mut out),
            MasterEvent::Stored(checkpoint, Err(error)) => {
                self.coordinate(Event::StoreFailed { checkpoint, error }, now, &mut out);
            }
            MasterEvent::Committed(checkpoint, Ok(())) => {
                self.coordinate(Event::Committed { checkpoint }, now, &mut out);
            }
            MasterEvent::Committed(_, Err(error)) | MasterEvent::Broken(error) => {
                self.end(Ending::Failed(error), now, &mut out);
            }
            MasterEvent::Trigger(kind) => self.coordinate(Event::TriggerRequested { kind }, now, &mut out),
            MasterEvent::Cancel => match self.phase {
                Phase::Waiting(_) | Phase::Restoring => self.done(Ok(JobEnd::Cancelled), &mut out),
                _ => self.end(Ending::Cancelled, now, &mut out),
            },
            MasterEvent::Tick => match self.phase {
                Phase::Waiting(at) if now >= at => {
                    self.phase = Phase::Restoring;
                    out.push(MasterAction::FindLatest);
                }
                Phase::Running => self.coordinate(Event::Tick, now, &mut out),
                Phase::Ending(_) if self.tell_at.take_if(|at| *at <= now).is_some() => {
                    out.push(MasterAction::Note(Note::Waiting(self.still_here())));
                }
                _ => {}
            },
            // Of an earlier attempt.
            MasterEvent::Deployed(_) | MasterEvent::DeployFailed(..) | MasterEvent::Task(..) => {}
        }
        out
    }

    fn deploy(&mut self, manifest: Option<Box<Manifest>>, out: &mut Vec<MasterAction>) {
        if matches!(self.phase, Phase::Starting | Phase::Restoring) {
            self.attempt = Attempt(self.attempt.0 + 1);
            self.phase = Phase::Starting;
            self.live = self.graph.tasks.iter().map(|(task, _)| *task).collect();
            self.from = manifest.as_ref().map(|manifest| manifest.checkpoint);
            out.push(MasterAction::Deploy(self.attempt, manifest));
        }
    }

    fn on_task(&mut self, event: TaskEvent, now: Timestamp, out: &mut Vec<MasterAction>) {
        match event {
            TaskEvent::NeedSplit(task) => out.push(MasterAction::NextSplit(task)),
            TaskEvent::Ack(task, checkpoint, snapshot) => {
                self.coordinate(Event::Ack { task, checkpoint, snapshot }, now, out);
            }
            TaskEvent::Declined(task, checkpoint, error) => {
                self.coordinate(Event::Declined { task, checkpoint, error }, now, out);
            }
            TaskEvent::Finished(task, committables) => {
                self.live.remove(&task);
                self.coordinate(Event::TaskFinished { task, committables }, now, out);
                self.gone(now, out);
            }
            TaskEvent::Failed(task, error) => {
                self.live.remove(&task);
                self.end(Ending::Failed(error), now, out);
            }
            TaskEvent::Cancelled(task) => {
                self.live.remove(&task);
                self.gone(now, out);
            }
        }
    }

    /// Cancels what still runs. The first cause counts.
    fn end(&mut self, ending: Ending, now: Timestamp, out: &mut Vec<MasterAction>) {
        match self.phase {
            Phase::Starting | Phase::Running => {
                self.phase = Phase::Ending(ending);
                self.tell_at = Some(now.saturating_add(PATIENCE_MS));
                self.coordinate(Event::JobFailed, now, out);
                out.extend(self.live.iter().map(|&task| MasterAction::Command(task, TaskCommand::Cancel)));
            }
            // A failed job that its user cancels does not start again.
            Phase::Ending(Ending::Failed(_)) if matches!(ending, Ending::Cancelled) => {
                self.phase = Phase::Ending(ending);
                self.tell_at.get_or_insert(now.saturating_add(PATIENCE_MS));
            }
            _ => {}
        }
        self.gone(now, out);
    }

    /// Goes on when the last task has gone.
    fn gone(&mut self, now: Timestamp, out: &mut Vec<MasterAction>) {
        if !self.live.is_empty() {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Running => {
                self.phase = Phase::Running;
                self.coordinate(Event::JobFinished, now, out);
            }
            Phase::Ending(Ending::Failed(error)) => match self.restarts.on_failure(now, &error) {
                Decision::RestartAfter(ms) => {
                    self.phase = Phase::Waiting(now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
                    out.push(MasterAction::Note(Note::Restarting(error, ms)));
                }
                Decision::GiveUp => self.done(Err(error), out),
            },
            Phase::Ending(Ending::Stopped(id)) => self.done(Ok(JobEnd::Stopped(id)), out),
            Phase::Ending(Ending::Cancelled) => self.done(Ok(JobEnd::Cancelled), out),
            other => self.phase = other,
        }
    }

    /// The tasks that have not ended, and where they run.
    fn still_here(&self) -> Vec<(String, HostId)> {
        let place = |task: &TaskId| {
            let name = self.graph.job.vertex(task.vertex).map_or("?", |vertex| &vertex.name);
            Some((format!("{name}/{}", task.index), self.graph.host_of(*task)?))
        };
        self.live.iter().filter_map(place).collect()
    }

    fn done(&mut self, result: Result<JobEnd, Error>, out: &mut Vec<MasterAction>) {
        self.phase = Phase::Done;
        out.push(MasterAction::Done(result));
    }

    fn coordinate(&mut self, event: Event, now: Timestamp, out: &mut Vec<MasterAction>) {
        for action in self.coordinator.handle(event, now) {
            match action {
                Action::SnapshotEnumeratorsAndTrigger { barrier, tasks } => {
                    out.push(MasterAction::SnapshotEnumerators(barrier, tasks));
                }
                Action::Trigger { barrier, tasks } => {
                    out.extend(tasks.into_iter().map(|t| MasterAction::Command(t, TaskCommand::Trigger(barrier))));
                }
                Action::Overtake { checkpoint, tasks } => {
                    out.extend(tasks.into_iter().map(|t| MasterAction::Command(t, TaskCommand::Overtake(checkpoint))));
                }
                Action::Store { manifest } => out.push(MasterAction::Store(manifest)),
                Action::Commit { checkpoint, committables } => out.push(MasterAction::Commit(checkpoint, committables)),
                Action::NotifyComplete { checkpoint } => self.tell_all(&TaskCommand::Complete(checkpoint), out),
                Action::NotifyAborted { checkpoint, error, .. } => {
                    self.tell_all(&TaskCommand::Aborted(checkpoint), out);
                    out.push(MasterAction::Note(Note::Aborted(checkpoint, error)));
                }
                Action::Completed { checkpoint, kind, duration } => {
                    out.push(MasterAction::Note(Note::Completed(checkpoint, kind, duration)));
                    if kind == CheckpointKind::Stop {
                        self.end(Ending::Stopped(checkpoint), now, out);
                    }
                }
                Action::Refused { error } => out.push(MasterAction::Note(Note::Refused(error))),
                Action::Fail { error } => self.end(Ending::Failed(error), now, out),
                Action::Finished => self.done(Ok(JobEnd::Finished), out),
            }
        }
    }

    fn tell_all(&self, command: &TaskCommand, out: &mut Vec<MasterAction>) {
        out.extend(self.live.iter().map(|&task| MasterAction::Command(task, command.clone())));
    }
}
