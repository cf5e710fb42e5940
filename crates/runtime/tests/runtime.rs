//! All integration tests of the runtime.

mod network;
