//! The demo on small inputs, and on the real one where it has been fetched.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::program::{example, files, told};

const HEADER: &str = "year,dep_time,dep_delay,origin,time_hour\n";

/// Two airports, two hours out of order, one cancellation, an hour in which nobody left.
const FLIGHTS: &str = "\
2013,517,2,EWR,2013-01-01T10:00:00Z
2013,533,-4,EWR,2013-01-01T11:00:00Z
2013,NA,NA,EWR,2013-01-01T10:00:00Z
2013,542,7,EWR,2013-01-01T10:00:00Z
2013,NA,NA,JFK,2013-01-01T10:00:00Z
";

#[test]
fn counts_by_airport_and_hour() {
    for parallelism in ["1", "3"] {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("flights.csv"), folder.path().join("result"));
        fs::write(&input, format!("{HEADER}{FLIGHTS}")).unwrap();
        fs::create_dir(&output).unwrap();
        fs::write(output.join("part-0-0.csv"), "of an earlier run").unwrap();
        fs::write(output.join("notes.txt"), "not ours").unwrap();
        let mut command = example("flights");
        command.args(["--parallelism", parallelism, "--input"]).arg(&input).arg("--output").arg(&output);
        let (code, stdout, stderr) = told(&command.output().unwrap());
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "quiet where standard error is no terminal");

        let parts = files(&output).into_iter().filter(|name| name != "notes.txt");
        let mut rows = Vec::new();
        for part in parts {
            let text = fs::read_to_string(output.join(part)).unwrap();
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some("origin,window_start,departures,cancellations,mean_dep_delay"));
            rows.extend(lines.map(str::to_owned));
        }
        rows.sort();
        // By hand from FLIGHTS: (2 + 7) / 2 = 4.5. As Flink does, what has a blank in it is quoted.
        let expected = [
            "EWR,\"2013-01-01 10:00:00\",2,1,4.5",
            "EWR,\"2013-01-01 11:00:00\",1,0,-4.0",
            "JFK,\"2013-01-01 10:00:00\",0,1,",
        ];
        assert_eq!(rows, expected);
        assert_eq!(fs::read_to_string(output.join("notes.txt")).unwrap(), "not ours");
        assert!(stdout.contains("5 flights in "), "{stdout}");
        let paths = stdout.lines().filter(|line| line.contains("part-")).count();
        assert!(
            paths > 0 && stdout.lines().filter(|l| !l.contains("part-")).all(|l| l.chars().count() <= 80),
            "{stdout}"
        );
    }
}

/// What it is, the file's content, arguments, exit code, message.
type Case<'a> = (&'a str, Option<&'a str>, &'a [&'a str], i32, &'a str);

#[test]
fn what_is_wrong_is_said_once() {
    let good = format!("{HEADER}{FLIGHTS}");
    let wrong_number = good.replace("533,-4", "533,4x");
    let wrong_time = good.replace("533,-4,EWR,2013-01-01T11", "533,-4,EWR,2013-01-01Q11");
    let user = "\nThe program, its options or its data are at fault: trying again gives the same error.\n";
    let table: &[Case<'_>] = &[
        ("no such file", None, &[], 1, "cannot read: No such file or directory (os error 2) (file INPUT)"),
        ("an empty file", Some(""), &[], 1, "expected a header and flights, found an empty file (file INPUT)"),
        (
            "a column that is not there",
            Some("year,dep_time,dep_delay,origin\n"),
            &[],
            1,
            "the column 'time_hour' is not in the header: year, dep_time, dep_delay, origin (line 1, file INPUT, \
             operator Flights)",
        ),
        (
            "a number that is none",
            Some(&wrong_number),
            &["--parallelism", "1"],
            1,
            "expected BIGINT, found '4x' (column dep_delay, line 3, file INPUT, task Flights → Key By/0)",
        ),
        (
            "a time that is none",
            Some(&wrong_time),
            &["--parallelism", "1"],
            1,
            "expected TIMESTAMP(3) NOT NULL, found '2013-01-01Q11:00:00Z' (column time_hour, line 3, file INPUT, task Flights → Key By/0)",
        ),
        (
            "no tasks",
            Some(&good),
            &["--parallelism", "0"],
            1,
            "expected a parallelism of at least 1, found 0 (from 'parallelism.default') (operator Flights, uid source)",
        ),
        (
            "too many tasks",
            Some(&good),
            &["--parallelism", "129"],
            1,
            "parallelism 129 is above max parallelism 128 (from 'pipeline.max-parallelism'): lower the one or raise the \
             other, 'pipeline.max-parallelism'; state of earlier runs cannot be restored at another max parallelism \
             (operator Flights, uid source)",
        ),
        ("an unknown option", Some(&good), &["--paralelism", "2"], 2, "unexpected argument '--paralelism' found"),
        ("no number", Some(&good), &["--parallelism", "x"], 2, "invalid value 'x' for '--parallelism <PARALLELISM>'"),
    ];
    for (case, content, arguments, code, message) in table {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("flights.csv"), folder.path().join("result"));
        if let Some(content) = content {
            fs::write(&input, content).unwrap();
        }
        let mut command = example("flights");
        command.arg("--input").arg(&input).arg("--output").arg(&output).args(*arguments);
        let (found, stdout, stderr) = told(&command.output().unwrap());
        let message = message.replace("INPUT", &input.display().to_string());
        assert_eq!((found, stdout.as_str()), (Some(*code), ""), "{case}: {stderr}");
        match code {
            1 => assert_eq!(stderr, format!("error: {message}{user}"), "{case}"),
            _ => assert!(stderr.starts_with(&format!("error: {message}")), "{case}: {stderr}"),
        }
        // But for the empty folder in which the parts are until all are there.
        let left = files(&output).into_iter().filter(|name| name != ".unfinished");
        let left: Vec<_> = left.chain(files(&output.join(".unfinished"))).collect();
        assert_eq!(left, [] as [&str; 0], "{case}: nothing is left");
    }
}

#[test]
fn the_result_folder_cannot_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("flights.csv"), folder.path().join("result"));
    fs::write(&input, format!("{HEADER}{FLIGHTS}")).unwrap();
    fs::write(&output, "mine").unwrap();
    let mut command = example("flights");
    let (code, _, stderr) = told(&command.arg("--input").arg(&input).arg("--output").arg(&output).output().unwrap());
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("error: expected a folder to write to, found a file"), "{stderr}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine");
}

/// `make test` fetches the flights and says in `FLOTT_VENV` where a Python with DuckDB is. Without it there is nothing to
/// compare with: fine for somebody who runs cargo alone, a fault in CI, which says so by `CI`.
#[test]
fn the_real_flights_equal_what_duckdb_computes() {
    #[expect(clippy::disallowed_methods, reason = "how make and CI tell tests where they run")]
    let (venv, ci) = (std::env::var_os("FLOTT_VENV"), std::env::var_os("CI").filter(|ci| !ci.is_empty()));
    let Some(venv) = venv else {
        assert!(
            ci.is_none(),
            "FLOTT_VENV is not set: CI runs `make test`, so that the flights are compared with DuckDB"
        );
        // Not through eprintln!, which the test harness keeps to itself when a test passes.
        let skipped =
            "SKIPPED: the real flights were not compared with DuckDB, since FLOTT_VENV is not set (`make test`)";
        writeln!(std::io::stderr(), "{skipped}").unwrap();
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let input = root.join("target/demo/flights.csv");
    for parallelism in ["1", "3"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = example("flights");
        command.args(["--parallelism", parallelism, "--input"]).arg(&input).arg("--output").arg(folder.path());
        let (code, stdout, stderr) = told(&command.output().unwrap());
        assert_eq!(code, Some(0), "{stderr}");
        // The file's rows, as scripts/fetch_flights.py checks them.
        assert!(stdout.contains("336,776 flights in "), "{stdout}");
        let mut check = Command::new(Path::new(&venv).join("bin/python"));
        check.arg(root.join("scripts/check_flights.py")).arg(folder.path()).arg("--input").arg(&input);
        let (code, stdout, stderr) = told(&check.output().unwrap());
        assert_eq!(code, Some(0), "parallelism {parallelism}: {stdout}{stderr}");
    }
}
