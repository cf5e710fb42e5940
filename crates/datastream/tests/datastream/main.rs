//! Tests of the DataStream API: records and columns, the shape of graphs, and what functions do to rows, fused and not.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod driver;
mod errors;
mod functions;
mod graphs;
mod pipelines;
mod records;
mod tables;
