//! What tests of several crates share: the [`harness`] that drives one operator.

pub mod harness;
