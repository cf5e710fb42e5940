//! Checkpoint barriers are matched on in the few files that move them, and nowhere else.

use super::rust_text::{code_only, lines_with, without_test_items};
use super::{Finding, Tree};

/// Where a barrier is acted on (gate, task, partition), found in a queue to be overtaken (channel), or put into bytes.
const FILES: &[&str] = &[
    "crates/runtime/src/channel.rs",
    "crates/runtime/src/codec.rs",
    "crates/runtime/src/input_gate.rs",
    "crates/runtime/src/network/connection.rs",
    "crates/runtime/src/result_partition.rs",
    "crates/runtime/src/task.rs",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust_files() {
        if !path.contains("/src/") || FILES.contains(&path) {
            continue;
        }
        let code = without_test_items(&code_only(text));
        for line in lines_with(&code, "StreamElement::Barrier") {
            let message = "a barrier is the business of input_gate.rs, task.rs and result_partition.rs: an operator, \
                           source or sink is told through its contract, a command travels as mail";
            findings.push(Finding::new(path, line, message));
        }
    }
    findings
}
