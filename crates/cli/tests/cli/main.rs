//! The command `flott` as people run it: output, errors, exit codes, Ctrl-C.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BIDS: &str = "1,10.5,2024-01-01 00:00:01\n2,7.25,2024-01-01 00:00:02\n1,,2024-01-01 00:01:00\n";

fn flott(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flott"));
    command.args(arguments).current_dir(folder);
    command
}

/// A folder with `bids.csv`, and the statement that makes its table.
fn bids() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bids.csv"), BIDS).unwrap();
    let create = "CREATE TABLE bids (auction BIGINT, price DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at) \
                  WITH ('connector' = 'filesystem', 'path' = 'bids.csv', 'format' = 'csv');";
    (folder, create.to_owned())
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_select_prints_a_table_or_csv() {
    let (folder, create) = bids();
    let script = format!("{create} SELECT auction, price FROM bids WHERE price IS NULL OR price > 8");
    let (code, stdout, stderr) = told(&flott(folder.path(), &["sql", "-e", &script]).output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let expected = "\
┌─────────┬───────┐
│ auction ┆ price │
╞═════════╪═══════╡
│ 1       ┆ 10.5  │
│ 1       ┆ NULL  │
└─────────┴───────┘
2 rows
";
    assert_eq!(stdout, expected);
    let csv = flott(folder.path(), &["sql", "--format", "csv", "-e", &script]).output().unwrap();
    assert_eq!(told(&csv), (Some(0), "auction,price\n1,10.5\n1,\n".to_owned(), String::new()));
    let none = format!("{create} SELECT auction FROM bids WHERE price > 1000");
    let csv = flott(folder.path(), &["sql", "--format", "csv", "-e", &none]).output().unwrap();
    assert_eq!(told(&csv), (Some(0), "auction\n".to_owned(), String::new()));
}

#[test]
fn an_insert_writes_files() {
    let (folder, create) = bids();
    let script = format!(
        "{create} CREATE TABLE sums (auction BIGINT, start TIMESTAMP(3), total DOUBLE)
         WITH ('connector' = 'filesystem', 'path' = 'sums', 'format' = 'csv');
         INSERT INTO sums SELECT auction, window_start, SUM(price)
         FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' MINUTE))
         GROUP BY auction, window_start, window_end;"
    );
    fs::write(folder.path().join("job.sql"), script).unwrap();
    let run = flott(folder.path(), &["sql", "-D", "parallelism.default=2", "-f", "job.sql"]).output().unwrap();
    let (code, stdout, stderr) = told(&run);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(stderr.starts_with("sums: 3 rows written, 3 read in "), "{stderr}");
    let parts = fs::read_dir(folder.path().join("sums")).unwrap();
    let texts = parts.map(|part| fs::read_to_string(part.unwrap().path()).unwrap());
    let mut rows: Vec<_> = texts.flat_map(|t| t.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    rows.sort();
    // By hand from BIDS; the sum of NULL alone is NULL.
    assert_eq!(
        rows,
        ["1,\"2024-01-01 00:00:00\",10.5", "1,\"2024-01-01 00:01:00\",", "2,\"2024-01-01 00:00:00\",7.25"]
    );
}

#[test]
fn wrong_use_is_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (&["sqll"][..], "error: unrecognized subcommand 'sqll'"),
        (
            &["sql"],
            "error: the following required arguments were not provided:\n  <--file <FILE>|--execute <STATEMENTS>>\n",
        ),
        (
            &["sql", "-f", "a", "-e", "b"],
            "error: the argument '--file <FILE>' cannot be used with '--execute <STATEMENTS>'",
        ),
        (
            &["sql", "-D", "paralelism.default=2", "-e", "b"],
            "error: invalid value 'paralelism.default=2' for '-D <KEY=VALUE>': there is no option 'paralelism.default'; did \
             you mean 'parallelism.default'?",
        ),
        (
            &["sql", "-D", "parallelism.default=two", "-e", "b"],
            "error: invalid value 'parallelism.default=two' for '-D <KEY=VALUE>': expected a whole number, found 'two'",
        ),
        (
            &["sql", "-D", "parallelism.default", "-e", "b"],
            "error: invalid value 'parallelism.default' for '-D <KEY=VALUE>'",
        ),
    ] {
        let (code, stdout, stderr) = told(&flott(folder.path(), arguments).output().unwrap());
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.starts_with(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn what_is_wrong_is_said_once() {
    let (folder, create) = bids();
    fs::write(folder.path().join("bad.csv"), "1,10.5,2024-01-01 00:00:01\n1,x,2024-01-01 00:00:01\n").unwrap();
    fs::write(folder.path().join("empty.csv"), "").unwrap();
    fs::write(folder.path().join("empty.sql"), "").unwrap();
    fs::write(folder.path().join("latin1.sql"), b"SELECT\n'\xe9'").unwrap();
    fs::write(folder.path().join("wrong.sql"), "EXPLAIN\nSELECT nope FROM bids").unwrap();
    let advice = "The program, its options or its data are at fault: trying again gives the same error.";
    let of = |path: &str| create.replace("bids.csv", path) + " SELECT * FROM bids";
    for (arguments, expected) in [
        (
            &["sql", "-f", "none.sql"][..],
            "cannot read: No such file or directory (os error 2) (file none.sql)".to_owned(),
        ),
        (&["sql", "-e", " ; "], "expected a statement, found none\n".to_owned()),
        (&["sql", "-f", "empty.sql"], "expected a statement, found none (file empty.sql)\n".to_owned()),
        (&["sql", "-f", "."], "cannot read: Is a directory (os error 21) (file .)\n".to_owned()),
        (
            &["sql", "-f", "latin1.sql"],
            "expected text in UTF-8, found bytes that are none (line 2, file latin1.sql)\n".to_owned(),
        ),
        (
            &["sql", "-e", &of("empty.csv")],
            "expected rows with the columns auction, price, at, found an empty file (file empty.csv, operator Source: \
             bids[1])"
                .to_owned(),
        ),
        (
            &["sql", "-e", &of("bids.csv/x")],
            "cannot read: Not a directory (os error 20) (file bids.csv/x, operator Source: bids[1])".to_owned(),
        ),
        (
            &["sql", "-e", &format!("SET 'paralelism.default' = '2'; {create}")],
            "there is no option 'paralelism.default'; did you mean 'parallelism.default'?".to_owned(),
        ),
        (
            &["sql", "-e", &create.replace("'path'", "'pth'")],
            "the table 'bids' needs the option 'path' of the connector 'filesystem'; is it 'pth'?".to_owned(),
        ),
        (
            &["sql", "-e", &of("none.csv")],
            "cannot read: No such file or directory (os error 2) (file none.csv, operator Source: bids[1])".to_owned(),
        ),
        (
            &["sql", "-e", &of("bad.csv")],
            "expected DOUBLE, found 'x' (column price, line 2, file bad.csv, task Source: bids[1]".to_owned(),
        ),
        (
            &["sql", "-D", "parallelism.default=0", "-e", &of("bids.csv")],
            "expected a parallelism of at least 1, found 0 (from 'parallelism.default')".to_owned(),
        ),
        (
            &["sql", "-D", "parallelism.default=200", "-e", &of("bids.csv")],
            "parallelism 200 is above max parallelism 128 (from 'pipeline.max-parallelism')".to_owned(),
        ),
        (&["sql", "-f", "wrong.sql"], "there is no table 'bids'".to_owned()),
        (
            &[
                "sql",
                "-e",
                &format!(
                    "{create} CREATE TABLE copy (a BIGINT) WITH ('connector' = 'filesystem', 'path' = \
              'bids.csv', 'format' = 'csv'); INSERT INTO copy SELECT auction FROM bids"
                ),
            ],
            "expected a folder to write to, found a file (file bids.csv, operator Sink: copy[3])".to_owned(),
        ),
    ] {
        let (code, stdout, stderr) = told(&flott(folder.path(), arguments).output().unwrap());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with(&format!("error: {expected}")), "{arguments:?}: {stderr}");
        assert!(stderr.ends_with(&format!("\n{advice}\n")), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_plan_can_be_read() {
    let (folder, create) = bids();
    let script = format!("{create} EXPLAIN SELECT auction FROM bids");
    let (code, stdout, stderr) = told(&flott(folder.path(), &["sql", "-e", &script]).output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.starts_with("== Plan of "), "{stdout}");
}

#[test]
fn help_fits_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["--help"][..], &["sql", "--help"]] {
        let (code, stdout, _) = told(&flott(folder.path(), arguments).output().unwrap());
        assert_eq!(code, Some(0));
        let wide: Vec<_> = stdout.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, [] as [&str; 0]);
        assert!(stdout.contains("Examples:"));
    }
}

/// A folder with a table that does not come to its end, and the statements that make it and a table to write to: a folder
/// that names one file a thousand times is endless enough.
#[cfg(unix)]
fn endless() -> (tempfile::TempDir, String) {
    let (folder, create) = bids();
    let many = folder.path().join("many");
    fs::create_dir(&many).unwrap();
    let long = folder.path().join("long.csv");
    fs::write(&long, BIDS.repeat(100_000)).unwrap();
    for number in 0..1_000 {
        std::os::unix::fs::symlink(&long, many.join(format!("{number}.csv"))).unwrap();
    }
    let tables = create.replace("bids.csv", "many")
        + "CREATE TABLE copy (auction BIGINT) WITH ('connector' = 'filesystem', 'path' = 'copy', 'format' = 'csv');";
    (folder, tables)
}

/// Ends with the test, also with one that fails.
struct Endless(Child);

impl Drop for Endless {
    fn drop(&mut self) {
        drop(self.0.kill());
    }
}

impl Endless {
    fn start(folder: &Path, script: &str) -> Self {
        let mut command = flott(folder, &["sql", "--format", "csv", "-e", script]);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Exit code and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.0.wait().unwrap().code(), stderr)
    }
}

/// Names of all files in a folder, hidden ones too; none where there is no folder.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_job_and_leaves_no_file() {
    let (folder, tables) = endless();
    let copy = folder.path().join("copy");
    for (signal, statement) in [
        ("INT", "SELECT auction FROM bids"),
        ("INT", "INSERT INTO copy SELECT auction FROM bids"),
        ("TERM", "INSERT INTO copy SELECT auction FROM bids"),
    ] {
        let mut program = Endless::start(folder.path(), &format!("{tables} {statement}"));
        let mut stdout = BufReader::new(program.0.stdout.take().unwrap());
        // The first rows say that the job runs; those of a file are hidden.
        if statement.starts_with("SELECT") {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, "auction\n");
        }
        while statement.starts_with("INSERT") && files(&copy).is_empty() {
            assert!(program.0.try_wait().unwrap().is_none(), "{statement}");
            std::thread::yield_now();
        }
        let kill = format!("kill -{signal} {}", program.0.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
        let (code, error) = program.end();
        assert_eq!(code, Some(if signal == "INT" { 130 } else { 143 }), "{signal}, {statement}");
        // A busy machine may say before what it waits for.
        assert_eq!(error.lines().last(), Some("cancelled: what was not committed is gone"), "{signal}, {statement}");
        assert_eq!(files(&copy), [] as [&str; 0], "{signal}, {statement}");
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_ends_the_job() {
    let (folder, tables) = endless();
    let tables = tables + "CREATE TABLE shown (auction BIGINT) WITH ('connector' = 'print');";
    for (statement, told) in
        [("SELECT auction FROM bids", ""), ("INSERT INTO shown SELECT auction FROM bids", "shown: ")]
    {
        let mut program = Endless::start(folder.path(), &format!("{tables} {statement}"));
        let mut stdout = BufReader::new(program.0.stdout.take().unwrap());
        stdout.read_line(&mut String::new()).unwrap();
        drop(stdout);
        let (code, stderr) = program.end();
        let lines = stderr.lines().count();
        assert!(code == Some(0) && stderr.starts_with(told) && lines == usize::from(!told.is_empty()), "{stderr}");
    }
}
