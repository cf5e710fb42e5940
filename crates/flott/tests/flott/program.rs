//! Runs an example as a program.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A built example; `cargo test -p flott` builds them.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p flott --examples", path.display());
    Command::new(path)
}

/// Exit code, standard output and standard error.
pub(crate) fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Names of all files in a folder, hidden ones too, sorted; none where there is no folder.
pub(crate) fn files(folder: &PathBuf) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
