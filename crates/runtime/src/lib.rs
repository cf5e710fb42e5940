//! The machine that runs a graph. Five minutes' tour, along the life of a record:
//!
//! - [`deploy`] makes tasks and channels from an execution graph.
//! - A [`task::Task`] is a struct with a synchronous `step`; [`executor`] drives many with few threads, [`local`] those of a process,
//!   [`processes`] those of several.
//! - A source task reads through [`source_input`]; any other through its [`input_gate`], which merges [`channel`]s.
//! - The [`chain`] passes batches and watermarks from operator to operator.
//! - A [`result_partition`] deals what comes out to channels: local ones, or over [`network`] to another process.
//! - [`snapshot`] and `flott-checkpoint` cut the job's state at barriers; [`mailbox`] carries the master's commands.
//!
//! It knows no operator, connector, language or state backend by name: the registry hands it factories.

mod catching;
pub mod chain;
pub mod channel;
pub mod codec;
pub mod deploy;
pub mod driver;
pub mod environment;
pub mod executor;
pub mod input_gate;
pub mod local;
pub mod mailbox;
pub mod master;
pub mod network;
pub mod processes;
pub mod requests;
pub mod result_partition;
pub mod simulator;
pub mod snapshot;
pub mod source_input;
pub mod task;
pub mod watermarks;
