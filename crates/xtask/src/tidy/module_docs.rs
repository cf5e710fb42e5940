//! A source file opens by saying what lives in it.

use super::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let opens_well = |text: &str| text.lines().find(|line| !line.trim().is_empty()).is_some_and(says_something);
    tree.rust_files()
        .filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"))
        .filter(|(_, text)| !opens_well(text))
        .map(|(path, _)| {
            let message = "open the file with a `//!` that says what lives here, what it may touch, what does not";
            Finding::new(path, 1, message)
        })
        .collect()
}

fn says_something(line: &str) -> bool {
    line.strip_prefix("//!").is_some_and(|words| !words.trim().is_empty())
}
