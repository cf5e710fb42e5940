//! Files of the local file system: the source and the sink `files`.
//!
//! [`FilesSourceConfig`] reads a file or the files of a folder in parts; [`FilesSinkConfig`] writes parts that appear
//! whole, when they are committed.

mod listing;
mod sink;
mod source;

use std::sync::Arc;

use flott_core::Registry;

pub use sink::{FilesSinkConfig, SinkFormat};
pub use source::{FilesSourceConfig, SourceFormat};

/// The name of the source and of the sink in the registry.
pub const NAME: &str = "files";

/// Puts the source and the sink into `registry`.
pub fn register(registry: &mut Registry) {
    registry.add_source(NAME, Arc::new(|spec| Ok(Box::new(source::FilesSource::new(spec.read()?)))));
    registry.add_sink(NAME, Arc::new(|spec| Ok(Box::new(sink::FilesSink::new(spec.read()?)))));
}
