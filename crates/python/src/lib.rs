//! Python inside flott: user functions as fused operators, and the builder with which `python/flott` writes plans.
//!
//! The way of a batch through a run of functions: [`run`] (state looked up, interpreter attached once) → `columns`
//! (Arrow to lists) → the loop that `python/flott/_run.py` generated for this run → `columns` (lists to Arrow) → out.
//! - [`TypeInfo`] says what a value is in Python and in columns; `dynamic` is the form of values without declared type.
//! - `state` keeps Python objects as keyed state; they become bytes only for a snapshot.
//! - [`GraphBuilder`] turns the calls of the Python API into a [`flott_plan::StreamGraph`].
//!
//! Does not live here: the extension module (the wheel crate), the runtime, anything that takes the interpreter's
//! lock for a single record.
#![deny(missing_docs)]

mod columns;
mod config;
mod dynamic;
mod factory;
mod graph;
mod interpreter;
mod run;
mod shape;
mod state;
mod types;

pub use columns::{from_python, to_python};
pub use config::{Kind, MemberConfig};
pub use factory::PythonFactory;
pub use graph::GraphBuilder;
pub use interpreter::{attach, counts, exception, raise};
pub use types::{TypeInfo, key_columns};
