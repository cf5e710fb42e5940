//! The text files of a checkout as one value. The only file of tidy that touches the disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Hidden folders that are ours; every other one (version control, editors, environments) is skipped.
const OUR_HIDDEN_FOLDERS: &[&str] = &[".cargo", ".ci"];
/// Build output. Fixtures violate rules on purpose.
const SKIPPED_FOLDERS: &[&str] = &["target", "node_modules", "__pycache__", "crates/xtask/fixtures"];
const SKIPPED_FILES: &[&str] = &["Cargo.lock"];

/// Path relative to the root (with `/` on every platform) to text.
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every text file below `root`; binary files are left out.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let unreadable = |error| format!("cannot read {}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() {
                let hidden = name.starts_with('.') && !OUR_HIDDEN_FOLDERS.contains(&name.as_str());
                let skipped = SKIPPED_FOLDERS.iter().any(|skipped| *skipped == name || *skipped == path);
                if !hidden && !skipped {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() && !SKIPPED_FILES.contains(&name.as_str()) {
                let bytes = fs::read(entry.path()).map_err(|error| format!("cannot read {path}: {error}"))?;
                if let Ok(text) = String::from_utf8(bytes) {
                    self.insert(&path, text);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, path: &str, text: String) {
        self.files.insert(path.to_owned(), text);
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every Rust file of the tree: (path, text).
    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Manifests of our crates: (folder name, path, text).
    pub(super) fn crate_manifests(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.iter().filter_map(|(path, text)| {
            let folder = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!folder.contains('/')).then_some((folder, path, text))
        })
    }
}

/// The crate folder that a path lies in: `crates/plan/src/lib.rs` is of `plan`.
pub(super) fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once('/').map(|(folder, _)| folder)
}
