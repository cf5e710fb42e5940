//! All integration tests of the runtime.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod gate;
mod network;
mod processes;
mod tables;
