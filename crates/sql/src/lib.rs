//! Flink SQL: a script becomes stream graphs.
mod catalog;
mod connectors;
mod create_table;
mod dialect;
mod functions;
mod interval;
mod planner;
mod prepare;
mod prepare_expr;
mod script;
mod statements;
mod types;
mod window;

pub use types::FlinkType;
