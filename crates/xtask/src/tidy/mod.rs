//! The rules of the house and the list of them. Adding one is one file, one line in [`RULES`] and one folder under
//! `fixtures/` that violates it.
//!
//! A rule is a pure function from a [`Tree`] to findings; reading the disk happens once, in [`Tree::load`].

mod ambient_calls;
mod barriers;
mod crate_edges;
mod crate_graph;
mod decisions;
mod file_length;
mod foreign_crates;
mod machine_names;
mod manifest;
mod module_docs;
mod no_executor;
mod no_panics;
mod operator_tables;
mod pure_brains;
mod rust_text;
#[cfg(test)]
mod tests;
mod tree;
mod version_table;

pub(crate) use crate_graph::{ARCHITECTURE, redraw_crate_graph};
pub(crate) use tree::Tree;

use std::fmt;

/// One check with a name that its fixture folder shares.
pub(crate) struct Rule {
    /// Only the tests look a rule up by name: a finding's message says by itself what is wrong.
    #[cfg_attr(not(test), expect(dead_code))]
    name: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

pub(crate) const RULES: &[Rule] = &[
    Rule { name: "ambient_calls", check: ambient_calls::check },
    Rule { name: "barriers", check: barriers::check },
    Rule { name: "crate_edges", check: crate_edges::check },
    Rule { name: "crate_graph", check: crate_graph::check },
    Rule { name: "decisions", check: decisions::check },
    Rule { name: "file_length", check: file_length::check },
    Rule { name: "foreign_crates", check: foreign_crates::check },
    Rule { name: "machine_names", check: machine_names::check },
    Rule { name: "module_docs", check: module_docs::check },
    Rule { name: "no_executor", check: no_executor::check },
    Rule { name: "no_panics", check: no_panics::check },
    Rule { name: "operator_tables", check: operator_tables::check },
    Rule { name: "pure_brains", check: pure_brains::check },
    Rule { name: "version_table", check: version_table::check },
];

/// Something that breaks a rule, where it does, and what to do about it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// What every rule has to say about the tree, in the order of the files.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = RULES.iter().flat_map(|rule| (rule.check)(tree)).collect();
    findings.sort();
    findings
}
