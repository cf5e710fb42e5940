//! The tests of the formats, one binary: tables and properties.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests too")]

mod csv_reading;
mod csv_writing;
mod lines;
mod properties;
mod support;
mod values;
