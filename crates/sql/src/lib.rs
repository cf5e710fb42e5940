//! Flink SQL: a script becomes stream graphs. Nothing runs here, and DataFusion executes nothing at all.
//!
//! A statement's way: `statements` (splitter, parser on sqlparser with `dialect`; `create_table`) → `prepare`
//! (what flott cannot run is refused where it stands; legacy windows; Flink's literals) → `planner` (DataFusion's
//! analysis and a few optimiser rules over the `catalog`'s tables, with `functions` and `window`) → `lower`
//! (`flow`s of rows between nodes of a [`flott_plan::StreamGraph`]; `connectors` make sources and sinks).
//! [`SqlEnvironment`] is the way in. `script` turns what is wrong into an error with line, column and caret.
#![deny(missing_docs)]

mod catalog;
mod connectors;
mod create_table;
mod dialect;
mod environment;
mod explain;
mod flow;
mod functions;
mod interval;
mod lower;
mod lower_aggregate;
mod lower_expr;
mod narrowing;
mod parts;
mod planner;
mod prepare;
mod prepare_expr;
mod script;
mod statements;
mod types;
mod window;

pub use environment::{Planned, PlannedJob, SqlEnvironment};
pub use types::FlinkType;
