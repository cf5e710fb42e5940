//! What people run: the examples as programs, with their output, errors and exit codes; and jobs run by the façade.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod flights;
#[cfg(unix)]
mod interrupt;
mod jobs;
mod processes;
mod program;
