//! Whole jobs through every machine: threads and the simulator.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod jobs;
