//! Every operator's tables (`tests/tables`), and properties that tables cannot say.

#[allow(unreachable_pub, dead_code)]
#[path = "../../../testing/src/harness/mod.rs"]
mod harness;
mod tables;
mod window_aggregate;
