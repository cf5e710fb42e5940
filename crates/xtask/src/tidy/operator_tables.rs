//! Every operator has a text table that takes it through a snapshot and a restore.

use super::rust_text::{code_only, lines_with};
use super::{Finding, Tree};

const SOURCES: &str = "crates/operators/src/";
const TABLES: &str = "crates/operators/tests/tables/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust_files() {
        let Some(name) = operator_name(path) else {
            continue;
        };
        let code = code_only(text);
        let Some(line) = lines_with(&code, "Operator for").next() else {
            continue;
        };
        let table = format!("{TABLES}{name}.txt");
        let missing = match tree.get(&table) {
            None => "is missing".to_owned(),
            Some(rows) if rows.trim().is_empty() => "is empty".to_owned(),
            Some(rows) => match ["snapshot", "restore"].iter().find(|word| !rows.contains(**word)) {
                Some(word) => format!("never does a {word}"),
                None => continue,
            },
        };
        findings.push(Finding::new(path, line, format!("operator `{name}`: its table {table} {missing}")));
    }
    findings
}

/// `src/map.rs` and `src/map/state.rs` are both of `map`.
fn operator_name(path: &str) -> Option<&str> {
    path.strip_prefix(SOURCES)?.split(['/', '.']).next()
}
