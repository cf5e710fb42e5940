//! Every operator has a text table that takes it through a snapshot and a restore at another parallelism: those of
//! `operators`, the stages of the DataStream API, and the kinds of Python functions.

use super::rust_text::{code_only, lines_with};
use super::{Finding, Tree};

/// A folder whose files are operators, the traits by which one is known, and where the tables are.
struct Folder {
    what: &'static str,
    sources: &'static str,
    marks: &'static [&'static str],
    tables: &'static str,
}

const FOLDERS: &[Folder] = &[
    Folder {
        what: "operator",
        sources: "crates/operators/src/",
        marks: &["Operator for"],
        tables: "crates/operators/tests/tables/",
    },
    Folder {
        what: "stage",
        sources: "crates/datastream/src/stage/",
        marks: &["Function for", "Operator for"],
        tables: "crates/datastream/tests/tables/",
    },
];

/// Python functions have one operator, and a name for each kind: `Self::FlatMap => "flat_map",`.
const PYTHON_KINDS: &str = "crates/python/src/config.rs";
const PYTHON_TABLES: &str = "tests/python/tables/";

const STEPS: [(&str, &str); 2] =
    [("snapshot", "a snapshot"), ("restore parallelism=", "a restore at another parallelism")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = FOLDERS.iter().flat_map(|folder| check_folder(folder, tree)).collect();
    for (index, line) in tree.get(PYTHON_KINDS).into_iter().flat_map(str::lines).enumerate() {
        let kind = line.trim().strip_prefix("Self::").and_then(|line| line.split_once(" => \""));
        if let Some((_, name)) = kind {
            let name = name.trim_end_matches("\",");
            findings.extend(check_table(tree, (PYTHON_KINDS, index + 1), "kind", name, PYTHON_TABLES));
        }
    }
    findings
}

fn check_folder(folder: &Folder, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust_files() {
        // `src/map.rs` and `src/map/state.rs` are both of `map`.
        let Some(name) = path.strip_prefix(folder.sources).and_then(|rest| rest.split(['/', '.']).next()) else {
            continue;
        };
        let code = code_only(text);
        if let Some(line) = folder.marks.iter().filter_map(|mark| lines_with(&code, mark).next()).min() {
            findings.extend(check_table(tree, (path, line), folder.what, name, folder.tables));
        }
    }
    findings
}

fn check_table(tree: &Tree, (path, line): (&str, usize), what: &str, name: &str, tables: &str) -> Option<Finding> {
    let table = format!("{tables}{name}.txt");
    let missing = match tree.get(&table) {
        None => "is missing".to_owned(),
        Some(rows) if rows.trim().is_empty() => "is empty".to_owned(),
        Some(rows) => format!("never does {}", STEPS.iter().find(|(step, _)| !rows.contains(step))?.1),
    };
    Some(Finding::new(path, line, format!("{what} `{name}`: its table {table} {missing}")))
}
