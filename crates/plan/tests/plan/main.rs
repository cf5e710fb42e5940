//! Tests of plans as tables. A graph is written in the notation of `notation.rs`; what comes of it stands beside it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::needless_pass_by_value, reason = "expectations are written in place")]

mod chaining;
mod channels;
mod encoding;
mod explain;
mod notation;
mod properties;
mod validation;
