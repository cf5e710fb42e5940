//! What the coordinator is told and what it answers: [`Event`], [`Action`], [`Settings`]. No decisions here.

use std::sync::Arc;

use flott_core::config::{
    ALIGNED_TIMEOUT, CHECKPOINT_INTERVAL, CHECKPOINT_MIN_PAUSE, CHECKPOINT_MODE, CHECKPOINT_TIMEOUT,
    TOLERABLE_FAILED_CHECKPOINTS, UNALIGNED,
};
use flott_core::{CheckpointBarrier, CheckpointId, CheckpointKind, Config, Error, Result};
use flott_plan::{ExecutionGraph, TaskId};

use crate::{Committables, Manifest, TaskSnapshot};

/// When and how checkpoints are taken. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From the start of one to the start of the next; `None`: only on request, and a bounded job commits at its end
    /// without one.
    pub interval: Option<u64>,
    /// The least time from the end of one to the start of the next.
    pub min_pause: u64,
    /// A checkpoint that is not acknowledged by then is given up.
    pub timeout: u64,
    /// How many may fail one after the other before the job does.
    pub tolerable_failures: u32,
    /// Whether rows may be seen twice after a restore.
    pub at_least_once: bool,
    /// Whether barriers may overtake rows.
    pub unaligned: bool,
    /// How long barriers wait before they overtake, where they may; 0: not at all.
    pub aligned_timeout: u64,
}

impl Settings {
    /// Reads Flink's `execution.checkpointing.*`.
    pub fn from_config(config: &Config) -> Result<Self> {
        let interval = config.get(&CHECKPOINT_INTERVAL)?.0;
        let mode = config.get(&CHECKPOINT_MODE)?;
        let at_least_once = match mode.trim().to_ascii_uppercase().replace('-', "_").as_str() {
            "EXACTLY_ONCE" => false,
            "AT_LEAST_ONCE" => true,
            _ => {
                let text = format!("expected EXACTLY_ONCE or AT_LEAST_ONCE, found '{mode}'");
                return Err(Error::user(text).at("option", CHECKPOINT_MODE.key));
            }
        };
        let unaligned = config.get(&UNALIGNED)?;
        if unaligned && at_least_once {
            let text =
                "unaligned checkpoints need EXACTLY_ONCE: with AT_LEAST_ONCE no barrier waits that could overtake";
            return Err(Error::user(text).at("option", UNALIGNED.key));
        }
        let timeout = config.get(&CHECKPOINT_TIMEOUT)?.0;
        if timeout == 0 {
            return Err(Error::user("expected more than 0 ms").at("option", CHECKPOINT_TIMEOUT.key));
        }
        Ok(Self {
            interval: (interval > 0).then_some(interval),
            min_pause: config.get(&CHECKPOINT_MIN_PAUSE)?.0,
            timeout,
            tolerable_failures: config.get(&TOLERABLE_FAILED_CHECKPOINTS)?,
            at_least_once,
            unaligned,
            aligned_timeout: config.get(&ALIGNED_TIMEOUT)?.0,
        })
    }
}

/// What has happened. Events of one task come in the order in which it caused them, also where a snapshot is finished
/// asynchronously: acknowledgements by ascending id, and all of them before that it finished.
#[derive(Clone, Debug)]
pub enum Event {
    /// All tasks run, for the first time or again. What the manifest restored from holds in committables has been
    /// committed by then. A task restored as finished is told by [`Event::TaskFinished`], without committables.
    Started {
        /// The tasks and who sends to whom.
        graph: Arc<ExecutionGraph>,
        /// What was restored; ids go on above it.
        from: Option<CheckpointId>,
    },
    /// Time has passed: due at [`crate::Coordinator::next_wake`].
    Tick,
    /// The user wants one now. One waits behind the one under way; more of the same kind are answered with it.
    TriggerRequested {
        /// Why.
        kind: CheckpointKind,
    },
    /// The enumerators' snapshots that [`Action::SnapshotEnumeratorsAndTrigger`] asked for.
    EnumeratorsSnapshotted {
        /// Of which checkpoint.
        checkpoint: CheckpointId,
        /// By uid; those that have finished too.
        enumerators: Vec<(String, Vec<u8>)>,
    },
    /// A task has its snapshot.
    Ack {
        /// The task.
        task: TaskId,
        /// Of which checkpoint.
        checkpoint: CheckpointId,
        /// The snapshot.
        snapshot: TaskSnapshot,
    },
    /// A task cannot give its snapshot and goes on.
    Declined {
        /// The task.
        task: TaskId,
        /// Of which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        error: Error,
    },
    /// A task has come to its end: everything it emitted, and the end, was handed to its channels.
    TaskFinished {
        /// The task.
        task: TaskId,
        /// What its writers prepared since their last snapshot.
        committables: Committables,
    },
    /// A manifest is durable.
    Stored {
        /// Of which checkpoint.
        checkpoint: CheckpointId,
    },
    /// A manifest could not be written.
    StoreFailed {
        /// Of which checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        error: Error,
    },
    /// A commit was done.
    Committed {
        /// Of which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Every task has finished; the job ends with [`Action::Finished`].
    JobFinished,
    /// The tasks are gone. A write of the store under way must be over before what to restore is looked up.
    JobFailed,
}

/// What is to be done, in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Take the enumerators' snapshots ([`Event::EnumeratorsSnapshotted`]) and send the barrier to these tasks:
    /// sources, and tasks whose senders have all finished. Both in one go: a split dealt out after the snapshot must
    /// reach its reader behind the barrier.
    SnapshotEnumeratorsAndTrigger {
        /// The barrier.
        barrier: CheckpointBarrier,
        /// Where it begins; may be none, once all have finished.
        tasks: Vec<TaskId>,
    },
    /// Send the barrier to these tasks too: their senders have finished without passing it on.
    Trigger {
        /// The barrier.
        barrier: CheckpointBarrier,
        /// Where it begins.
        tasks: Vec<TaskId>,
    },
    /// Barriers of this checkpoint have waited long enough: from here on they overtake. To these tasks.
    Overtake {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Tasks that have not acknowledged it.
        tasks: Vec<TaskId>,
    },
    /// Make a manifest durable: [`Event::Stored`] or [`Event::StoreFailed`].
    Store {
        /// The manifest.
        manifest: Box<Manifest>,
    },
    /// Commit: [`Event::Committed`], or the job fails. Ids ascend; never empty.
    Commit {
        /// Of which checkpoint.
        checkpoint: CheckpointId,
        /// By uid of the sink.
        committables: Committables,
    },
    /// Tell all tasks that a checkpoint is durable.
    NotifyComplete {
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Tell all tasks, and who asked for it, that a checkpoint was given up.
    NotifyAborted {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why it was being taken.
        kind: CheckpointKind,
        /// Why it was given up.
        error: Error,
    },
    /// A checkpoint or savepoint is there; for who asked for it, and for metrics.
    Completed {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Why it was taken.
        kind: CheckpointKind,
        /// Milliseconds since it was triggered.
        duration: u64,
    },
    /// A request that cannot be met (its error is not internal), or an event that cannot be: a fault of whoever drives
    /// this, which changed nothing and after which the job had better fail.
    Refused {
        /// Why.
        error: Error,
    },
    /// The job must fail: too many checkpoints did.
    Fail {
        /// Why the last one did.
        error: Error,
    },
    /// After [`Event::JobFinished`]: everything is committed, the job is over.
    Finished,
}
