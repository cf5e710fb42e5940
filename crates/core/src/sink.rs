//! The contract of a sink: [`Sink`], [`SinkWriter`], [`Committer`] (FLIP-143's division of work).
//!
//! A sink never decides when to commit. What a writer prepares becomes part of the checkpoint; it is committed once
//! the manifest is durable, and committed again first thing after a restore, so a commit must be idempotent.

use std::sync::Arc;
use std::task::Waker;

use serde::{Deserialize, Serialize};

use crate::{Batch, Clock, OperatorInfo, Result, Timestamp, Wait};

/// A promise to make something visible, complete in itself: any process, wherever it runs, can keep it. Its bytes are
/// in the sink's own stable encoding; [`crate::StoredForm`] is there for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committable(pub Vec<u8>);

/// A kind of sink with its configuration.
pub trait Sink: Send + Sync {
    /// Writes rows; runs in every task. `restored` holds this task's share of what all writers' `snapshot` gave.
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>>;

    /// Commits what writers prepared; runs once a job. `None`: rows are visible when written.
    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(None)
    }
}

/// Writes the rows of one task. For a checkpoint it is called in this order: `flush`, `prepare_commit`, `snapshot`.
pub trait SinkWriter: Send {
    /// Writes a batch.
    fn write(&mut self, batch: &Batch) -> Result<()>;

    /// Whether it can take a batch now; else what it waits for.
    fn ready(&mut self, _waker: &Waker, _clock: &dyn Clock) -> Result<Option<Wait>> {
        Ok(None)
    }

    /// The event-time clock has risen.
    fn on_watermark(&mut self, _at: Timestamp) -> Result<()> {
        Ok(())
    }

    /// A snapshot or the end follows: nothing may stay in a buffer that only memory holds.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// What to commit once the checkpoint (or, in a job without checkpoints, the job) is complete.
    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }

    /// Entries of state, dealt out among the writers on restore.
    fn snapshot(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    /// Whether its calls may block: its task then has a thread of its own and holds up no other. Asked once, when the
    /// task begins.
    fn blocks(&self) -> bool {
        false
    }

    /// The job has failed or was cancelled: nothing unfinished may stay behind.
    fn abandon(&mut self) {}
}

/// Makes prepared results visible.
pub trait Committer: Send {
    /// Commits all of them; those already committed are passed over.
    fn commit(&mut self, committables: &[Committable]) -> Result<()>;
}
