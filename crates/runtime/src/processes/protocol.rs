//! What the master and the hosts of a job tell each other: [`ToHost`], [`FromHost`], in postcard; the version is that
//! of the handshake.
//!
//! ```text
//! master → host   Job                  once, first
//!                 Deploy               an attempt begins: make room for connections
//! host → master   Listening            here
//! master → host   Peers                where all are: connect to those below you; with all connected, tasks start
//!                 Command …            for tasks of the latest attempt
//! host → master   Counters, Task …     of the attempt they name; a task's last counters come before its end
//! master → host   AreYouThere          at any time, again and again; to the host it is the master's sign of life
//! host → master   Alive                the answer, also while its tasks are being made; so is all else that it says
//! master → host   Stop                 end
//! ```
//!
//! Each is one message over [`Messages`](super::Messages); the longest are snapshots and what tasks are restored from.

use std::net::SocketAddr;

use flott_checkpoint::TaskRestore;
use flott_core::{Error, Result};
use flott_plan::{ExecutionGraph, HostId, TaskId};
use serde::{Deserialize, Serialize};

use super::ProcessLimits;
use super::counters::Grown;
use crate::mailbox::TaskCommand;
use crate::master::Attempt;
use crate::task::TaskEvent;

/// From the master to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToHost {
    /// The job; comes first and once.
    Job {
        /// The encoded execution graph.
        graph: Vec<u8>,
        /// Where everything random begins.
        seed: u64,
        /// How long is waited, and how much is kept.
        limits: ProcessLimits,
    },
    /// What a task of the next attempt is restored from; before its [`ToHost::Deploy`].
    Restore(TaskId, TaskRestore),
    /// An attempt begins.
    Deploy(Attempt),
    /// Every host of the attempt, and where it listens.
    Peers(Attempt, Vec<(HostId, SocketAddr)>),
    /// For a task of the latest attempt.
    Command(TaskId, TaskCommand),
    /// Give a sign of life: [`FromHost::Alive`].
    AreYouThere,
    /// End the process's part of the job.
    Stop,
}

/// From a host to the master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromHost {
    /// Peers may connect here in this attempt.
    Listening(Attempt, SocketAddr),
    /// A task says something; `Failed` also where it could not be made.
    Task(Attempt, TaskEvent),
    /// Counters have grown.
    Counters(Attempt, Grown),
    /// Its process runs, whatever its loop is at; the answer to [`ToHost::AreYouThere`].
    Alive,
}

/// The token of connections for rows: frames of an old attempt cannot arrive in a new one.
pub fn attempt_token(job: &str, attempt: Attempt) -> String {
    format!("{job} attempt {}", attempt.0)
}

/// The task of an event after which nothing more comes from it.
pub(super) fn task_over(event: &TaskEvent) -> Option<TaskId> {
    match event {
        TaskEvent::Finished(task, _) | TaskEvent::Failed(task, _) | TaskEvent::Cancelled(task) => Some(*task),
        TaskEvent::NeedSplit(_) | TaskEvent::Ack(..) | TaskEvent::Declined(..) => None,
    }
}

/// Says of which task an error is, as the task itself would.
pub(super) fn at_task(error: Error, graph: &ExecutionGraph, task: TaskId) -> Error {
    let name = graph.job.vertex(task.vertex).map_or("?", |vertex| &vertex.name);
    error.at("task", format_args!("{name}/{}", task.index))
}

macro_rules! encoded {
    ($($message:ty),*) => {$(
        impl $message {
            /// As the body of a control frame.
            pub fn encode(&self) -> Result<Vec<u8>> {
                postcard::to_stdvec(self)
                    .map_err(|e| Error::internal(format!("cannot encode a message to a process: {e}")))
            }

            /// Reads what `encode` wrote.
            pub fn decode(bytes: &[u8]) -> Result<Self> {
                let found = match postcard::take_from_bytes(bytes) {
                    Ok((message, [])) => return Ok(message),
                    Ok((_, rest)) => format!("it has {} bytes too many", rest.len()),
                    Err(error) => error.to_string(),
                };
                Err(Error::internal(format!("a message of another process cannot be read: {found}")))
            }
        }
    )*};
}

encoded!(ToHost, FromHost);
