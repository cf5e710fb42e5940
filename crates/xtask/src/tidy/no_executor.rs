//! DataFusion plans, flott runs: the crates that hold `ExecutionPlan::execute` are named nowhere.

use super::manifest::dependencies;
use super::rust_text::{code_only, path_heads};
use super::{Finding, Tree};

/// The executor, and the umbrella crate that brings it along.
const EXECUTORS: &[&str] = &["datafusion", "datafusion-physical-plan"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut named = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| *path == "Cargo.toml" || path.ends_with("/Cargo.toml")) {
        let dependencies = dependencies(text).unwrap_or_default();
        named.extend(dependencies.into_iter().map(|dependency| (path, dependency.line, dependency.package)));
    }
    for (path, text) in tree.rust_files() {
        let code = code_only(text);
        named.extend(path_heads(&code).into_iter().map(|(line, name)| (path, line, name.replace('_', "-"))));
    }
    named.retain(|(_, _, package)| EXECUTORS.contains(&package.as_str()));
    named
        .into_iter()
        .map(|(path, line, package)| {
            let message = format!("`{package}` executes plans: DataFusion only plans here, name its planner crates");
            Finding::new(path, line, message)
        })
        .collect()
}
