//! User data, configuration, network and disk never panic: no unwrap, expect, panic, todo outside tests.
//!
//! Clippy denies the same and knows types; this check takes no build, and takes no `#[allow]`.

use super::rust_text::{code_only, contains_word, without_test_items};
use super::tree::crate_of;
use super::{Finding, Tree};

const FORBIDDEN: &[&str] = &[".unwrap()", ".expect(", "panic!", "todo!", "unimplemented!"];
/// Crates that run on a developer's machine only.
const EXEMPT: &[&str] = &["testing", "bench", "xtask"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shipped = |path: &str| crate_of(path).is_some_and(|folder| !EXEMPT.contains(&folder)) && !is_test(path);
    for (path, text) in tree.rust_files().filter(|(path, _)| shipped(path)) {
        for (index, line) in without_test_items(&code_only(text)).lines().enumerate() {
            for word in FORBIDDEN.iter().filter(|word| contains_word(line, word)) {
                let message = format!("`{word}` outside tests: return an error that says whose fault it is");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}
