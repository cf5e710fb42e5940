//! All integration tests of the runtime.

mod gate;
mod network;
mod partition;
