//! The brains of a job are pure: `(state, event) → (state, actions)`. They name no clock, thread, lock, file or socket.

use super::rust_text::{code_only, contains_word, without_test_items};
use super::{Finding, Tree};

const BRAINS: &[&str] = &[
    "crates/checkpoint/src/coordinator.rs",
    "crates/checkpoint/src/protocol.rs",
    "crates/checkpoint/src/restart.rs",
    "crates/checkpoint/src/restore.rs",
    "crates/runtime/src/master.rs",
];

const WORLD: &[&str] = &[
    "Clock",
    "Condvar",
    "File",
    "Instant",
    "Mutex",
    "RwLock",
    "SystemTime",
    "Threads",
    "crossbeam_channel",
    "fs",
    "io",
    "net",
    "thread",
    "tokio",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust_files().filter(|(path, _)| BRAINS.contains(path)) {
        let code = without_test_items(&code_only(text));
        for (index, line) in code.lines().enumerate() {
            if let Some(word) = WORLD.iter().find(|word| contains_word(line, word)) {
                let message = format!(
                    "`{word}` in a brain: take the time with the event, and leave as an action what \
                                       touches the world"
                );
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}
