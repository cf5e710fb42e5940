//! The checkpoint protocol: what a snapshot of a job is, when one is taken, where it is kept, what a new job gets of
//! it, and whether a failed job starts again.
//!
//! - [`TaskSnapshot`] is what a task acknowledges; a [`Manifest`] is all of them, and is one checkpoint.
//! - [`Coordinator`] decides: `(state, event) → (state, actions)`. It runs nothing and reads no clock.
//! - [`Restore`] deals a manifest out to the tasks of a job graph, by uid, at any parallelism.
//! - [`RestartStrategy`] answers a failure.
//! - [`CheckpointStore`] keeps manifests; the only part that touches a disk.
//!
//! Barriers, channels and the encoding of rows in flight belong to the runtime; what they leave here is bytes.
#![deny(missing_docs)]

mod coordinator;
mod encoding;
mod protocol;
mod restart;
mod restore;
mod snapshot;
mod store;

pub use coordinator::Coordinator;
pub use encoding::{FORMAT_VERSION, HEADER_BYTES, Header};
pub use protocol::{Action, Event, Settings};
pub use restart::{Decision, RestartStrategy};
pub use restore::{Ownership, RecoveredChannel, RecoveredEdge, Restore, RuntimePart, TaskRestore};
pub use snapshot::{
    Committables, EdgeSnapshot, InFlight, Manifest, MemberSnapshot, TaskSnapshot, TaskState, VertexSnapshot,
};
pub use store::{CheckpointStore, InMemory, Latest, LocalDirectory, Location, store_of};
