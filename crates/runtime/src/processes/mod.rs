//! Runs a job in several processes: [`run`], beside [`crate::local::run`]. Python workers are such processes; a
//! TaskManager runs the same [`run_worker`].
//!
//! - [`Launcher`] says how a worker is started; a [`Seat`] is what it must know to find its job.
//! - [`ProcessHosts`] is the master's side: `supervisor.rs` starts, watches and ends the workers.
//! - `host.rs` is one process's part of the job, the same in the master's process (host 0) and in a worker.
//! - `protocol.rs` is what master and hosts tell each other: through memory on host 0, else as [`Messages`], which
//!   `messages.rs` cuts to control frames. `counters.rs` is how the workers' counters come to the master.
//!
//! A worker lives as long as the job; connections for rows are made anew for every attempt. A worker that dies fails
//! the attempt and is started again for the next. When the master vanishes its workers end by themselves.
//!
//! A process can also stand still without being dead: stopped, swapped out. So they ask each other for signs of life
//! (`heartbeat.rs`), and one that has given none for `heartbeat.timeout` counts as dead: the master kills such a
//! worker, and a worker ends itself when its master is silent for so long, as Flink's TaskManager gives up the tasks of
//! a lost JobManager. A master that goes on after that finds its workers gone, and starts the attempt anew.
//!
//! A process that runs counts as alive, whatever it does: an `open` may take longer than the timeout. So one that never
//! returns from its task's code, in `open` as in any other call, is waited for without a limit; a cancel ends it, for the
//! process of a worker is killed after [`ProcessLimits::cancel_ms`].

mod child;
mod counters;
mod heartbeat;
mod host;
mod hosts;
mod messages;
mod protocol;
mod seat;
mod supervisor;
mod worker;

use std::sync::Arc;

use crossbeam_channel::Receiver;
use flott_core::config::{Config, HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT};
use flott_core::{Error, Registry, Result};
use flott_plan::ExecutionGraph;
use serde::{Deserialize, Serialize};

pub use child::LiveWorkers;
pub use counters::Grown;
pub use heartbeat::{Beat, Heartbeats};
pub use hosts::ProcessHosts;
pub use messages::Messages;
pub use protocol::{FromHost, ToHost, attempt_token};
pub use seat::{Launcher, SEAT_VARIABLE, Seat};
pub use worker::run_worker;

use crate::local::{JobControl, JobMetrics, JobOptions, drive};
use crate::master::{JobEnd, MasterEvent};

/// How long processes wait for each other, in ms of real time, and how much is kept of what they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// A worker must have started and be ready for an attempt by then, and then again have connected to the others.
    pub start_ms: u64,
    /// A lost connection waits so long to be reported: the death of a process is the better reason.
    pub grace_ms: u64,
    /// A worker whose tasks are cancelled and not over by then is killed.
    pub cancel_ms: u64,
    /// A worker that was told to stop and has not ended by then is killed.
    pub linger_ms: u64,
    /// How often the processes ask each other for a sign of life.
    pub heartbeat_ms: u64,
    /// One that has given none for longer counts as dead.
    pub heartbeat_timeout_ms: u64,
    /// A worker tells how its counters have grown so often (by the job's clock), and when a task of its is over.
    pub counters_ms: u64,
    /// Bytes that may wait to be sent to a process, snapshots among them; no message is longer. What tasks are restored
    /// from is limited one by one only: a task that gets the state of several may be too large all the same.
    pub message_bytes: usize,
    /// How much of what a worker wrote to its standard error is kept, from the end.
    pub last_words_bytes: usize,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        // Flink's `task.cancellation.timeout` is 180 s; the rest is for people who wait.
        Self {
            start_ms: 30_000,
            grace_ms: 500,
            cancel_ms: 180_000,
            linger_ms: 5_000,
            heartbeat_ms: 10_000,
            heartbeat_timeout_ms: 50_000,
            counters_ms: 500,
            message_bytes: 1 << 30,
            last_words_bytes: 4096,
        }
    }
}

impl ProcessLimits {
    /// The limits of a job with these options.
    pub fn of(config: &Config) -> Result<Self> {
        let (interval, timeout) = (config.get(&HEARTBEAT_INTERVAL)?.0, config.get(&HEARTBEAT_TIMEOUT)?.0);
        // As Flink demands.
        if interval == 0 {
            let text = "expected a time of more than 0 ms between signs of life, found 0 ms";
            return Err(Error::user(text).at("option", HEARTBEAT_INTERVAL.key));
        }
        if timeout < interval {
            let text = format!("expected at least the {interval} ms of {}, found {timeout} ms", HEARTBEAT_INTERVAL.key);
            return Err(Error::user(text).at("option", HEARTBEAT_TIMEOUT.key));
        }
        Ok(Self { heartbeat_ms: interval, heartbeat_timeout_ms: timeout, ..Self::default() })
    }
}

/// The worker processes of a job. Hosts 1 and up of its execution graph are workers, host 0 is this process.
#[derive(Clone)]
pub struct Processes {
    /// Starts them.
    pub launcher: Arc<dyn Launcher>,
    /// The secret of this job: whoever knows it may connect.
    pub token: String,
    /// How long is waited, and how much is kept.
    pub limits: ProcessLimits,
    /// Those that run now; none before the job begins.
    pub live: LiveWorkers,
}

/// Runs a job in this process and workers to its end; no worker is left behind. Errors known before anything runs come
/// at once.
pub fn run(
    graph: ExecutionGraph,
    registry: &Registry,
    options: JobOptions,
    events: &Receiver<MasterEvent>,
    control: &JobControl,
    metrics: impl FnOnce(&JobMetrics),
    processes: Processes,
) -> Result<JobEnd> {
    let graph = Arc::new(graph);
    let hosts = ProcessHosts::start(&graph, registry, &options, control, processes)?;
    metrics(hosts.metrics());
    let (end, hosts) = drive(&graph, registry, options.start, hosts, events)?;
    hosts.stop();
    end
}
