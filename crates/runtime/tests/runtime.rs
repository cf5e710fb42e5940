//! All integration tests of the runtime.

mod chain;
mod gate;
mod network;
mod processes;
mod partition;
mod requests;
mod source;
mod watermarks;
