//! Decision records are numbered 0001, 0002, … without gaps, so that a number names one of them for ever.

use super::{Finding, Tree};

const FOLDER: &str = "docs/decisions/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut last = 0;
    let names = tree.iter().filter_map(|(path, _)| Some((path, path.strip_prefix(FOLDER)?.strip_suffix(".md")?)));
    for (path, name) in names.filter(|(_, name)| *name != "README") {
        let Some(number) = number(name) else {
            findings.push(Finding::new(path, 1, "name a decision record NNNN-what-was-decided.md"));
            continue;
        };
        if number == last {
            findings.push(Finding::new(path, 1, format!("decision {number:04} exists already: take the next number")));
        } else if number != last + 1 {
            findings.push(Finding::new(
                path,
                1,
                format!("decision {number:04} follows {last:04}: numbers have no gaps"),
            ));
        }
        last = number;
    }
    findings
}

fn number(name: &str) -> Option<u32> {
    let (digits, title) = name.split_once('-')?;
    let title_is_plain =
        !title.is_empty() && title.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (digits.len() == 4 && title_is_plain).then(|| digits.parse().ok())?
}
