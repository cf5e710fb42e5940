//! What tests of several crates share: the [`harness`] that drives one operator, and whole [`jobs`].

pub mod harness;
pub mod jobs;
