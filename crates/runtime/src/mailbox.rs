//! Commands to a task: [`Mail`] in a [`Mailbox`]. Any thread may post; the task reads at the start of a step.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use flott_core::{Batch, CheckpointBarrier, CheckpointId, Error, NextSplit, Result};
use serde::{Deserialize, Serialize};

/// What the job's master tells a task, in this process or another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskCommand {
    /// To a source: begin this checkpoint.
    Trigger(CheckpointBarrier),
    /// A checkpoint is durable.
    Complete(CheckpointId),
    /// A checkpoint was given up.
    Aborted(CheckpointId),
    /// Barriers of a checkpoint have waited long enough: from here on they overtake.
    Overtake(CheckpointId),
    /// To a source: the answer to its request for a split.
    Split(NextSplit),
    /// End now; nothing further is expected of the task.
    Cancel,
}

/// What a mailbox holds.
pub enum Mail {
    /// From the master.
    Command(TaskCommand),
    /// Work done aside for the task has failed, and the task with it.
    Broken(Error),
    /// A request of a chain node has been answered: (node, number of the request, answer).
    Response(usize, u64, Result<Batch>),
}

/// Mail of one task, in order.
#[derive(Default)]
pub struct Mailbox {
    mail: Mutex<VecDeque<Mail>>,
    waker: Mutex<Option<Waker>>,
}

impl Mailbox {
    /// Wakes the task from now on when mail comes.
    pub fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Adds mail and wakes the task.
    pub fn post(&self, mail: Mail) {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push_back(mail);
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    /// Takes the oldest mail.
    pub fn take(&self) -> Option<Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
