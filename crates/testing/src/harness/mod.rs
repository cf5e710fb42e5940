//! Drives ONE operator (or one fused run) without a runtime, through exactly the core contract, as text tables say.
//!
//! ```text
//! # Sums run per key.
//! operator: reduce {"columns": [{"function": "first", "column": 0}, {"function": "sum", "column": 1}]}
//! input 0: user STRING, amount BIGINT   key: user
//! output: user STRING, amount BIGINT
//! > a 1 @10
//! > a 2 @20
//! = a 1 @10
//! = a 3 @20
//! watermark 20
//! = watermark 20
//! snapshot; restore parallelism=3
//! > a 4 @30
//! = a 7 @30
//! ```
//!
//! Headers (an indented line goes on the one before): `operator: name {config}`, `input N: columns [key: columns]`,
//! `output: columns`, `side TAG: columns`, `parallelism: N`; `fused: name {config}` adds a member to the run, which
//! reads the one before it and has its own `output:` and `side`. After the first step a header begins a new scenario
//! with what came before it kept; `scenario: title` does so without changing anything; `operator:` starts from nothing.
//!
//! Steps: `> row` (of input 0; `>1 row` of input 1; neighbouring rows are one step and one batch), `watermark W`,
//! `time T` (processing time), `snapshot`, `restore [parallelism=N]` (from the last snapshot), `answer [row]` (the
//! requests in flight with that row in their payload, or all), `finish` (watermark +∞ and the end), `metrics`;
//! several with `;` between them. [`rows`] says how a row is written.
//!
//! What comes out follows a step: `= row`, `=tag row` of a side output, `= watermark W`, `= error: …` (the last step of
//! its scenario). It is written anew with `UPDATE_EXPECT=1`. Where there are several tasks, rows between two watermarks
//! are sorted. Every table is run again with batches of one row, and with a snapshot restored into one and into three
//! new tasks after every step: the same must come out of each step, in any order between watermarks.

pub mod driver;
pub mod rows;
pub mod table;

use std::path::Path;

use flott_core::{Error, Registry, Result};

use driver::{Driver, Variation};
use table::{Scenario, Table};

const AS_WRITTEN: Variation = Variation { name: "as written", chunk: 4096, restore_each: None };
const VARIATIONS: [Variation; 3] = [
    Variation { name: "with batches of one row", chunk: 1, restore_each: None },
    Variation { name: "restored at parallelism 1 after every step", chunk: 4096, restore_each: Some(1) },
    Variation { name: "restored at parallelism 3 after every step", chunk: 4096, restore_each: Some(3) },
];

/// Runs the table at `path` (absolute) as written and in every variation. Panics, as tests do, where the file
/// differs from what came out.
pub fn check(registry: &Registry, path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io("read the table", path.display(), &e))?;
    let table = Table::parse(&text).map_err(|e| e.at("file", path.display()))?;
    let outcomes: Vec<_> = table.scenarios.iter().map(|s| outcome(registry, s, AS_WRITTEN)).collect::<Result<_>>()?;
    expect_test::expect_file![path].assert_eq(&table.render(&outcomes));
    for (scenario, expected) in table.scenarios.iter().zip(&outcomes) {
        for variation in VARIATIONS {
            let found = outcome(registry, scenario, variation)?;
            compare(scenario, expected, &found, variation).map_err(|e| e.at("file", path.display()))?;
        }
    }
    Ok(())
}

/// A test for each table of a crate, in its folder `tests/tables`: `tables!(registry() => calc, reduce)`. One more fails
/// where the folder has a table that is not named.
#[macro_export]
macro_rules! tables {
    ($registry:expr => $($name:ident),* $(,)?) => {
        fn tables_folder() -> std::path::PathBuf {
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables")
        }

        $(
            #[test]
            fn $name() {
                let table = tables_folder().join(concat!(stringify!($name), ".txt"));
                $crate::harness::check(&$registry, &table).unwrap();
            }
        )*

        #[test]
        fn every_table_is_run() {
            let listed = [$(concat!(stringify!($name), ".txt")),*];
            let mut found: Vec<_> = std::fs::read_dir(tables_folder())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            found.sort();
            assert_eq!(found, listed);
        }
    };
}

/// The lines of every step; it ends with a step that fails.
fn outcome(registry: &Registry, scenario: &Scenario, variation: Variation) -> Result<Vec<Vec<String>>> {
    let mut driver = match Driver::new(registry, &scenario.setup, variation.chunk) {
        Ok(driver) => driver,
        Err(error) => return Ok(vec![vec![format!("= error: {error}")]]),
    };
    let mut outcomes = Vec::new();
    for step in &scenario.steps {
        let mut lines = Vec::new();
        let mut stop = false;
        let parallel = driver.parallelism() > 1;
        for command in &step.commands {
            let (more, failed) = driver.run(command);
            lines.extend(more);
            stop |= failed;
            if failed {
                break;
            }
        }
        if parallel || driver.parallelism() > 1 {
            sort_between_watermarks(&mut lines);
        }
        outcomes.push(lines);
        if stop {
            break;
        }
        if let Some(parallelism) = variation.restore_each {
            driver.move_to(parallelism).map_err(|e| e.at("line", step.line))?;
        }
    }
    Ok(outcomes)
}

fn sort_between_watermarks(lines: &mut [String]) {
    lines.split_mut(|line| line.starts_with("= watermark ")).for_each(<[String]>::sort);
}

fn compare(scenario: &Scenario, expected: &[Vec<String>], found: &[Vec<String>], how: Variation) -> Result<()> {
    for (i, step) in scenario.steps.iter().enumerate() {
        let of = |outcomes: &[Vec<String>]| {
            let mut lines = outcomes.get(i).cloned().unwrap_or_default();
            sort_between_watermarks(&mut lines);
            lines
        };
        let (expected, found) = (of(expected), of(found));
        if expected != found {
            let text =
                format!("{}, the step gives\n{}\nbut should\n{}", how.name, found.join("\n"), expected.join("\n"));
            return Err(Error::user(text).at("line", step.line));
        }
    }
    Ok(())
}
