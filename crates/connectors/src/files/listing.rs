//! Which files a path stands for.

use std::path::{Path, PathBuf};

use flott_core::{Error, Result};

/// A file with its length.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    /// For people: its path below the folder that was asked for.
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// The file at `path`, or all files in the folder and its folders, sorted by name; there may be none. Names that begin
/// with `.` or `_` are passed over, as Flink does: they are not finished or not data.
pub(super) fn list(path: &Path) -> Result<Vec<Listed>> {
    let metadata = std::fs::metadata(path).map_err(|e| Error::io("read", path.display(), &e))?;
    if !metadata.is_dir() {
        if !metadata.is_file() {
            return Err(Error::user("expected a file or a folder, found a device or a pipe").at("file", path.display()));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        return Ok(vec![Listed { path: path.to_owned(), name, bytes: metadata.len() }]);
    }
    let mut files = Vec::new();
    walk(path, "", &mut files)?;
    Ok(files)
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<Listed>) -> Result<()> {
    let failed = |e: &std::io::Error| Error::io("list the folder", folder.display(), e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| failed(&e))? {
        names.push(entry.map_err(|e| failed(&e))?.file_name());
    }
    names.sort();
    for os_name in names {
        let name = os_name.to_string_lossy();
        if name.starts_with(['.', '_']) {
            continue;
        }
        let path = folder.join(&os_name);
        let name = format!("{prefix}{name}");
        let metadata = std::fs::metadata(&path).map_err(|e| Error::io("read", path.display(), &e))?;
        if metadata.is_dir() {
            walk(&path, &format!("{name}/"), files)?;
        } else {
            files.push(Listed { path, name, bytes: metadata.len() });
        }
    }
    Ok(())
}
