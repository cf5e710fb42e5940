//! Versions stand in the root manifest and nowhere else, and come from a registry.

use super::manifest::{Dependency, dependencies};
use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, path, text) in tree.crate_manifests() {
        for dependency in dependencies(text).unwrap_or_default() {
            findings.extend(from_git(path, &dependency));
            let value = &dependency.value;
            let elsewhere = value.get("workspace").is_some() || value.get("path").is_some();
            if !elsewhere || value.get("version").is_some() {
                let package = &dependency.package;
                let message =
                    format!("`{package}`: write `workspace = true` and put the version into the root Cargo.toml");
                findings.push(Finding::new(path, dependency.line, message));
            }
        }
    }
    if let Some(root) = tree.get("Cargo.toml") {
        let rows = dependencies(root).unwrap_or_default();
        findings.extend(rows.iter().filter_map(|dependency| from_git("Cargo.toml", dependency)));
    }
    findings
}

fn from_git(path: &str, dependency: &Dependency) -> Option<Finding> {
    dependency.value.get("git")?;
    let package = &dependency.package;
    Some(Finding::new(path, dependency.line, format!("`{package}` comes from git: depend on a published version")))
}
