//! What travels between tasks: [`StreamElement`].
//!
//! Only the runtime's `input_gate.rs`, `task.rs` and `result_partition.rs` match on barriers; an operator never
//! sees one.

use serde::{Deserialize, Serialize};

use crate::{Batch, Timestamp};

/// One element of a channel. Channels are first in, first out.
#[derive(Clone, Debug)]
pub enum StreamElement {
    /// Rows.
    Batch(Batch),
    /// No later row has an event time at or before this.
    Watermark(Timestamp),
    /// `true`: the sender has gone quiet and its watermark holds nobody back; `false`: it is back.
    Idle(bool),
    /// A cut through the stream.
    Barrier(CheckpointBarrier),
    /// The sender has finished; nothing follows.
    EndOfInput,
}

/// The number of a checkpoint of one job; savepoints share the numbering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId(pub u64);

impl std::fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointKind {
    /// For recovery; flott may drop it.
    Checkpoint,
    /// For the user, who owns it.
    Savepoint,
    /// A savepoint after which the job stops.
    Stop,
}

/// How a barrier meets the rows around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierMode {
    /// Waits behind the rows before it; an input whose barrier has come waits for the others.
    Aligned,
    /// Overtakes rows where the edge allows it; overtaken rows become part of the snapshot.
    Unaligned,
    /// Waits behind the rows before it, but blocks no input: rows may be seen twice after a restore.
    AtLeastOnce,
}

/// Chandy–Lamport's marker: the same in every channel of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointBarrier {
    /// Which checkpoint.
    pub id: CheckpointId,
    /// Why it is taken.
    pub kind: CheckpointKind,
    /// How it travels.
    pub mode: BarrierMode,
}
