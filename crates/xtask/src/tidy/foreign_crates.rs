//! Large foreign libraries stay in the few crates that are about them, so that the others build without them and
//! could be moved to another one. Holds for manifests and for paths in the source.

use super::manifest::dependencies;
use super::rust_text::{code_only, path_heads};
use super::tree::crate_of;
use super::{Finding, Tree};

struct Family {
    what: &'static str,
    /// Crates of the family; `name-*` belongs to it too.
    crates: &'static [&'static str],
    may_name: &'static [&'static str],
}

const FAMILIES: &[Family] = &[
    Family { what: "DataFusion", crates: &["datafusion"], may_name: &["sql", "operators"] },
    Family { what: "PyO3", crates: &["pyo3"], may_name: &["python", "wheel"] },
    Family {
        what: "HTTP",
        crates: &["axum", "hyper", "reqwest", "ureq", "actix", "warp", "tower-http"],
        may_name: &["web"],
    },
    Family { what: "gRPC", crates: &["tonic", "prost"], may_name: &["cluster"] },
];

impl Family {
    fn holds(&self, package: &str) -> bool {
        let starts_with =
            |name: &str| package.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        self.crates.iter().any(|name| starts_with(name))
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, path, text) in tree.crate_manifests() {
        // A manifest that cannot be read is a finding of crate_edges.
        for dependency in dependencies(text).unwrap_or_default() {
            findings.extend(judge(folder, path, dependency.line, &dependency.package));
        }
    }
    for (path, text) in tree.rust_files() {
        let Some(folder) = crate_of(path) else {
            continue;
        };
        for (line, name) in path_heads(&code_only(text)) {
            findings.extend(judge(folder, path, line, &name.replace('_', "-")));
        }
    }
    findings
}

fn judge(folder: &str, path: &str, line: usize, package: &str) -> Option<Finding> {
    let family = FAMILIES.iter().find(|family| family.holds(package) && !family.may_name.contains(&folder))?;
    let (what, places) = (family.what, family.may_name.join("`, `"));
    Some(Finding::new(path, line, format!("`{package}`: only `{places}` may name {what}, not `{folder}`")))
}
