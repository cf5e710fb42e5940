//! Connectors: sources that read the outside, sinks that write to it. One file or folder each, which knows no other.
//!
//! Each has a `register` that puts it into a [`Registry`] under its `NAME`, and a configuration with a `spec` to put
//! into a plan. [`register_all`] is the list.
#![deny(missing_docs)]

pub mod blackhole;
pub mod collect;
pub mod collection;
pub mod files;
pub mod print;
mod ranges;
pub mod sequence;
mod splits;

use flott_core::Registry;

/// Puts all connectors into `registry`, but for the sink [`collect`], which needs somebody to collect for.
pub fn register_all(registry: &mut Registry) {
    files::register(registry);
    collection::register(registry);
    sequence::register(registry);
    print::register(registry);
    blackhole::register(registry);
}
