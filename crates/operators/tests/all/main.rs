//! Every operator's tables (`tests/tables`), and properties that tables cannot say.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod tables;
mod window_aggregate;
