//! What tasks are given by whoever runs them: [`Environment`]. The thread pool hands in the machine, the simulator
//! its virtual one.

use std::sync::Arc;

use flott_core::config::{self, Config};
use flott_core::{Batch, Clock, Registry, RequestFuture, Result};

/// Runs the futures of requests.
pub trait RequestRunner: Send + Sync {
    /// Runs `future`, then calls `done`, on any thread.
    fn start(&self, future: RequestFuture, done: Box<dyn FnOnce(Result<Batch>) + Send>);
}

/// Runs work that must not hold up a task: the rest of a snapshot.
pub type Offload = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// What tasks are given.
#[derive(Clone)]
pub struct Environment {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Everything plans name.
    pub registry: Registry,
    /// Runs requests.
    pub requests: Arc<dyn RequestRunner>,
    /// Runs the rest of snapshots.
    pub offload: Offload,
    /// Limits and sizes.
    pub limits: Limits,
    /// Where shuffles begin.
    pub seed: u64,
}

/// Limits and sizes of a job's tasks, read from its configuration once.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Rows of a batch at most.
    pub batch_rows: usize,
    /// Batches in flight on a channel.
    pub channel_credit: u32,
    /// Requests in flight of an operator.
    pub request_capacity: usize,
    /// How long a quiet source waits with the watermark it owes, in ms.
    pub watermark_interval_ms: u64,
    /// The name of the state backend.
    pub state_backend: String,
}

impl Limits {
    /// Reads them.
    pub fn of(config: &Config) -> Result<Self> {
        Ok(Self {
            batch_rows: config.get(&config::BATCH_ROWS)?.max(1),
            channel_credit: config.get(&config::CHANNEL_CREDIT)?.max(1),
            request_capacity: config.get(&config::REQUEST_CAPACITY)?.max(1),
            watermark_interval_ms: config.get(&config::WATERMARK_INTERVAL)?.0,
            state_backend: config.get(&config::STATE_BACKEND)?,
        })
    }
}
