//! The words of flott: what everything else is said with. Five minutes' tour:
//!
//! - A [`Batch`] is rows as Arrow columns; a [`StreamElement`] is what a channel carries: a batch, a watermark, a barrier.
//! - An [`Operator`] takes batches and emits batches; all it may touch is its [`Context`].
//! - Its keyed [`state`] is addressed by (name, key, namespace); [`key`] says what a key is, how it is hashed
//!   (frozen) and which task owns it.
//! - A [`Source`] deals out splits and reads them; a [`Sink`] writes and, after a checkpoint, commits.
//! - A plan names all of these by [`Spec`]; the [`Registry`] makes them.
//! - [`Error`] says whose fault it is; [`Config`] holds options; [`Clock`] and [`Threads`] are the only way to the machine.
//!
//! It knows no engine: an operator, a connector or a state backend can be written against this crate alone.
#![deny(missing_docs)]

mod batch;
pub mod config;
mod element;
mod error;
mod host;
pub mod key;
mod key_codec;
mod metrics;
mod operator;
mod operator_state;
mod registry;
mod sink;
mod source;
pub mod state;
mod time;
mod type_name;
mod versioned;
mod watermark;

pub use batch::{Batch, RowKind, schema_of};
pub use config::Config;
pub use element::{BarrierMode, CheckpointBarrier, CheckpointId, CheckpointKind, StreamElement};
pub use error::{Error, ErrorDomain, Result};
pub use host::{Joined, SystemClock, SystemThreads, Threads};
pub use key::{KeyGroup, MAX_PARALLELISM_LIMIT, check_key_type, hash_keys};
pub use key_codec::KeyCodec;
pub use metrics::{Counter, Metrics};
pub use operator::{
    Context, Emitted, InputId, Member, Operator, OperatorInfo, Outbox, OutputId, Progress, Request, RequestFuture,
    RequestOrder, Response,
};
pub use operator_state::{OperatorState, Redistribution};
pub use registry::{OperatorFactory, Partitioner, PartitionerFactory, Registry, SinkFactory, SourceFactory, Spec};
pub use sink::{Committable, Committer, Sink, SinkWriter};
pub use source::{NextSplit, ReaderContext, Source, SourceEvent, SourceReader, Split, SplitEnumerator, Wait};
pub use state::{KeyedState, Namespace, Namespaces, Slot, StateBackend};
pub use time::{Clock, ManualClock, Timestamp};
pub use type_name::type_name;
pub use versioned::StoredForm;
pub use watermark::WatermarkStrategy;
