//! Committed text names no machine: no registry's host (a mirror may serve it), no folder of somebody's computer.

use super::{Finding, Tree};

/// In two halves, so that this file does not hold what it forbids.
const HOSTS: &[(&str, &str)] = &[
    ("crates", ".io"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("npmjs", ".org"),
    ("npmjs", ".com"),
    ("deb.debian", ".org"),
    ("proxy.golang", ".org"),
    ("maven.apache", ".org"),
    ("maven", ".org"),
];
const FOLDERS: &[(&str, &str)] = &[("/root", "/"), ("/work", "/"), ("/home", "/"), ("/Users", "/")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let join = |halves: &[(&str, &str)]| halves.iter().map(|(a, b)| format!("{a}{b}")).collect::<Vec<_>>();
    let (hosts, folders) = (join(HOSTS), join(FOLDERS));
    let mut findings = Vec::new();
    for (path, text) in tree.iter() {
        for (index, line) in text.lines().enumerate() {
            if let Some(host) = hosts.iter().find(|host| line.contains(*host)) {
                let message = format!("`{host}` is a registry's host: name the registry in words");
                findings.push(Finding::new(path, index + 1, message));
            }
            if let Some(folder) = folders.iter().find(|folder| starts_a_path(line, folder)) {
                let message = format!("`{folder}` is a folder of one machine: write a path relative to the repository");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

/// `/x/` at the start of a path, not in the middle of one such as `target/x/` or `$DIR/x/`.
fn starts_a_path(line: &str, folder: &str) -> bool {
    let inside = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "_-.)}]>*~".contains(c));
    line.match_indices(folder).any(|(i, _)| !inside(&line[..i]))
}
