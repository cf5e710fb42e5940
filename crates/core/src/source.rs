//! The contract of a source: [`Source`], [`SplitEnumerator`], [`SourceReader`] (FLIP-27's division of work).
//!
//! A source never loops: `next_batch` answers with rows, or with what it waits for. One that has to block all the same
//! (a client without an asynchronous form) says so, and holds up only its own task.

use std::sync::Arc;
use std::task::Waker;

use serde::{Deserialize, Serialize};

use crate::{Batch, CheckpointId, Clock, Error, OperatorInfo, Result, Timestamp};

/// A part of a source that is read in order by one reader at a time: a file or a piece of one, a partition.
///
/// Self-contained: `position` says where to go on, so a split in a snapshot can be given to any reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Names the split within its source, for people and for watermarks.
    pub id: Arc<str>,
    /// Where to go on, in the source's own stable encoding; [`crate::StoredForm`] is there for it. Nothing in it may
    /// depend on where the job runs, such as a working directory.
    pub position: Vec<u8>,
}

/// A kind of source with its configuration.
pub trait Source: Send + Sync {
    /// Finds the splits; runs once a job. `restored` is what [`SplitEnumerator::snapshot`] gave.
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>>;

    /// Reads splits; runs in every task.
    fn reader(&self, info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>>;
}

/// Deals out splits.
pub trait SplitEnumerator: Send {
    /// A split for the reader in task `reader` of `parallelism`, which has none.
    fn next_split(&mut self, reader: u32, parallelism: u32) -> Result<NextSplit>;

    /// Splits not dealt out yet, and what else is needed to go on.
    fn snapshot(&self) -> Result<Vec<u8>>;
}

/// The answer to a reader that asks for a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextSplit {
    /// Read this one.
    Split(Split),
    /// Ask again at this time (processing time).
    Later(Timestamp),
    /// There will be none: the source is bounded and this reader has seen its share.
    NoMore,
}

/// What a reader did.
#[derive(Debug)]
#[must_use]
pub enum SourceEvent {
    /// Rows of one split, in its order. At most [`ReaderContext::max_rows`].
    Batch(Arc<str>, Batch),
    /// The split is at its end.
    SplitFinished(Arc<str>),
    /// The reader has no split (left): the runtime asks the enumerator.
    NeedSplit,
    /// Nothing now.
    Wait(Wait),
}

/// What a source or sink waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The waker it was given.
    Waker,
    /// A point of processing time.
    Until(Timestamp),
}

/// What a reader may touch in a call.
pub struct ReaderContext<'a> {
    /// To be woken by, from any thread.
    pub waker: &'a Waker,
    /// Processing time.
    pub clock: &'a dyn Clock,
    /// The most rows a batch may have.
    pub max_rows: usize,
}

/// Reads the splits it is given.
pub trait SourceReader: Send {
    /// Takes over a split, at its position.
    fn add_split(&mut self, split: Split) -> Result<()>;

    /// Bounded work: a batch, or why there is none.
    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent>;

    /// Says where a row of the last batch was read from (file and line, an offset), in an error about that row.
    fn at_row(&self, error: Error, row: usize) -> Error {
        error.at("row of the batch", row)
    }

    /// Stops or resumes reading a split (watermark alignment). A reader with only paused splits answers `Wait`.
    fn pause(&mut self, _split: &str, _paused: bool) {}

    /// Whether a split has rows that were not asked for yet, since others came first or it is paused: it is not idle,
    /// however long it has given none.
    fn has_rows(&self, _split: &str) -> bool {
        false
    }

    /// Whether its calls may block: its task then has a thread of its own and holds up no other. Asked once, when the
    /// task begins.
    fn blocks(&self) -> bool {
        false
    }

    /// Its splits, positioned after the last row it gave out.
    fn snapshot(&mut self) -> Result<Vec<Split>>;

    /// A checkpoint is durable (for sources that acknowledge).
    fn checkpoint_complete(&mut self, _id: CheckpointId) -> Result<()> {
        Ok(())
    }
}
