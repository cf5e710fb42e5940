//! Files of the local file system: the source and the sink `files`.
//!
//! [`FilesSourceConfig`] reads a file or the files of a folder in parts; [`FilesSinkConfig`] writes parts that appear
//! whole, when they are committed.

mod listing;
mod sink;
mod source;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flott_core::{Error, Registry, Result};

pub use sink::{FilesSinkConfig, SinkFormat};
pub use source::{FilesSourceConfig, SourceFormat};

/// The name of the source and of the sink in the registry.
pub const NAME: &str = "files";

/// Puts the source and the sink into `registry`.
pub fn register(registry: &mut Registry) {
    registry.add_source(NAME, Arc::new(|spec| Ok(Box::new(source::FilesSource::new(spec.read()?)?))));
    registry.add_sink(NAME, Arc::new(|spec| Ok(Box::new(sink::FilesSink::new(spec.read()?)?))));
}

/// Where a source reads or a sink writes. What is stored in checkpoints is absolute, so that it means the same to a
/// process with another working directory; people are shown the path as they wrote it.
#[derive(Clone, Debug)]
struct Root {
    written: PathBuf,
    absolute: PathBuf,
}

impl Root {
    fn new(path: &Path) -> Result<Self> {
        let absolute = std::path::absolute(path).map_err(|e| Error::io("find", path.display(), &e))?;
        if absolute.to_str().is_none() {
            return Err(Error::user("expected a path in UTF-8").at("file", absolute.display()));
        }
        Ok(Self { written: path.to_owned(), absolute })
    }

    /// A path in here, found under the path as it was written.
    fn absolute(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.written) {
            Ok(inside) if !inside.as_os_str().is_empty() => self.absolute.join(inside),
            _ => self.absolute.clone(),
        }
    }

    /// A path in here for people; one from elsewhere is shown as it is.
    fn shown(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.absolute) {
            Ok(inside) if inside.as_os_str().is_empty() => self.written.clone(),
            Ok(inside) => self.written.join(inside),
            Err(_) => path.to_owned(),
        }
    }
}
