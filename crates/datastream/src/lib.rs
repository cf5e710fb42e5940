//! The DataStream API: programs over streams of your own structs, close to Flink's.
//!
//! - [`StreamExecutionEnvironment`] begins a program: sources, settings, `execute`.
//! - [`DataStream`] is rows of one type; [`KeyedStream`] and [`WindowedStream`] are rows by key and window.
//! - `#[derive(`[`Record`]`)]` maps a struct to columns; single values and tuples are records already.
//! - [`KeyedProcessFunction`] has state ([`ValueState`] and its kin), timers and side outputs ([`OutputTag`]).
//!
//! A program ends as two values: a [`flott_plan::StreamGraph`], plain data, and a [`flott_core::Registry`] with its
//! closures under the names the graph uses. Closures never travel between processes: every process of a job runs the
//! program up to `execute` and so has the same registry. This crate knows no runtime; an [`Executor`] is brought in.
//!
//! Neighbouring functions in a chain run as one operator over native rows (module `stage`): Arrow appears only where
//! rows leave or enter a run.
#![deny(missing_docs)]

mod collect;
mod collection;
mod environment;
mod graph;
mod keyed;
mod outcome;
mod partitioner;
mod process;
pub mod record;
mod side_output;
mod stage;
mod state;
mod stream;
mod value;
mod windows;

pub use collect::Collected;
pub use environment::{Executor, JobResult, StreamExecutionEnvironment};
pub use flott_core::state::columns::Aggregate;
pub use flott_core::state::timers::TimeDomain;
pub use flott_core::{Error, RequestOrder, Result, Spec, Timestamp, WatermarkStrategy};
#[doc(hidden)]
pub use flott_datastream_derive::FacadeRecord;
pub use flott_datastream_derive::Record;
pub use keyed::{KeyedStream, WindowedStream};
pub use outcome::Outcome;
pub use process::{Collector, KeyedProcessFunction, OpenContext, ProcessContext, ProcessFunction, RowContext};
pub use record::Record;
pub use side_output::OutputTag;
pub use state::{AggregatingState, ListState, MapState, OrderedMapState, ReducingState, ValueState};
pub use stream::{DataStream, DataStreamSink};
pub use windows::{TimeWindow, TumblingEventTimeWindows};
