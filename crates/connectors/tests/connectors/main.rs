//! The tests of the connectors, one binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

mod files_sink;
mod files_source;
mod in_memory;
mod print;
mod stored;
mod support;
