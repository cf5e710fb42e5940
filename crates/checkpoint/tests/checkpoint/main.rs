//! Tests of the checkpoint protocol: tables by part, and one property test that runs whole jobs through the
//! coordinator. The graphs they share are in `graph.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

mod coordinator;
mod encoding;
mod exactly_once;
mod graph;
mod restart;
mod restore;
mod store;
