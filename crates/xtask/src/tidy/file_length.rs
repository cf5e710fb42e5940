//! A source file that nobody can read in one sitting has two reasons to change: split it.

use super::{Finding, Tree};

const LIMIT: usize = 800;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.iter()
        .filter(|(path, _)| path.ends_with(".rs") || path.ends_with(".py"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LIMIT)
        .map(|(path, lines)| {
            Finding::new(
                path,
                LIMIT + 1,
                format!("{lines} lines, the limit is {LIMIT}: split it by what changes together"),
            )
        })
        .collect()
}
