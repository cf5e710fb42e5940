//! Jobs run by [`flott::LocalExecutor`]: results, counters, what is refused, checkpoints in a directory.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use flott::connectors::{CsvOptions, csv_sink};
use flott::prelude::*;
use flott::{ErrorDomain, LocalExecutor};

#[test]
fn a_result_with_counters() {
    let env = StreamExecutionEnvironment::new();
    env.set_parallelism(3);
    let sums =
        env.from_sequence(1, 1_000).map(|n| (n % 10, n)).key_by(|(digit, _)| *digit).reduce(|a, b| (a.0, a.1 + b.1));
    let sums = sums.name("Sums").collect();
    let result = env.execute("sums").unwrap();
    assert_eq!(result.job_name, "sums");
    let rows = sums.take();
    assert_eq!(rows.len(), 1_000, "a reduce emits for each row");
    // The sum of 1..=1000.
    let last: i64 = (0..10).map(|digit| rows.iter().filter(|row| row.0 == digit).map(|row| row.1).max().unwrap()).sum();
    assert_eq!(last, 500_500);
    let count = result.counters.iter().find(|(name, counter, _)| name == "Sums" && counter == "numRecordsOut").unwrap();
    assert_eq!(count.2, 1_000);
}

#[test]
fn what_cannot_run_is_refused_before_it_does() {
    let run = |options: &[(&str, &str)]| {
        let env = StreamExecutionEnvironment::new();
        for (key, value) in options {
            env.set(key, value);
        }
        let _rows = env.from_sequence(1, 3).key_by(|n| *n).reduce(|a, b| a + b).collect();
        let error = env.execute("refused").unwrap_err();
        assert_eq!(error.domain(), ErrorDomain::User);
        error.to_string()
    };
    for (options, expected) in [
        (
            &[("paralelism.default", "3")][..],
            "there is no option 'paralelism.default'; did you mean 'parallelism.default'?",
        ),
        (&[("parallelism.default", "many")], "expected a whole number, found 'many' (option parallelism.default)"),
        (&[("state.backend.type", "hashmop")], "there is no state backend 'hashmop'; did you mean 'hashmap'?"),
        (
            &[("execution.checkpointing.dir", "s3://bucket/x")],
            "expected a path or a file: URI, found 's3://bucket/x': there is no file system 's3' yet (option \
             execution.checkpointing.dir)",
        ),
    ] {
        let error = run(options);
        // The task that met it may follow.
        assert!(error.starts_with(expected), "{error}");
    }
    let env = StreamExecutionEnvironment::new();
    let _unread = env.from_sequence(1, 3);
    let error = env.execute("no sink").unwrap_err().to_string();
    assert_eq!(error, "the job has no sink, so nothing would come of it: add one to the last stream (job no sink)");
}

#[test]
fn files_that_are_not_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.csv");
    for (content, expected) in [
        (None, "cannot read: No such file or directory (os error 2) (file INPUT, operator CSV Source)"),
        (Some(""), "expected a header with the columns f0, f1, found an empty file (file INPUT, operator CSV Source)"),
        (Some("f0,n\n1,2\n"), "the column 'f1' is not in the header: f0, n (line 1, file INPUT, operator CSV Source)"),
        (
            Some("f0,f1\n1,2\n3,x\n"),
            "expected BIGINT NOT NULL, found 'x' (column f1, line 3, file INPUT, task CSV Source",
        ),
        (Some("f0,f1\n1\n"), "expected 2 fields, found 1: '1' (line 2, file INPUT, task CSV Source"),
    ] {
        if let Some(content) = content {
            std::fs::write(&input, content).unwrap();
        }
        let env = StreamExecutionEnvironment::new();
        let _rows = env.read_csv::<(i64, i64)>(&input).collect();
        let error = env.execute("files").unwrap_err();
        let text = error.to_string().replace(&input.display().to_string(), "INPUT");
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(error.domain(), ErrorDomain::User);
    }
}

#[test]
fn a_job_is_watched_to_its_end() {
    let last = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&last);
    let executor = LocalExecutor::default().watch(Duration::from_millis(1), move |moment| {
        seen.store(moment.metrics.sum("sequence", "numRecordsOut"), Ordering::SeqCst);
    });
    let env = StreamExecutionEnvironment::with_executor(Arc::new(executor));
    let _rows = env.from_sequence(1, 50_000).collect();
    env.execute("watched").unwrap();
    assert_eq!(last.load(Ordering::SeqCst), 50_000);
}

#[test]
fn an_error_of_a_function_names_operator_and_record() {
    let env = StreamExecutionEnvironment::new();
    let _rows =
        env.from_sequence(1, 3).map(|n| if n == 2 { Err("two is refused") } else { Ok(n) }).name("Picky").collect();
    let error = env.execute("picky").unwrap_err();
    assert_eq!((error.message(), error.place("operator")), ("two is refused", Some("Picky")));
    assert!(error.to_string().contains("(row 0, record {value: 2}, operator Picky, "), "{error}");
}

/// Digits of 1..=`ROWS` with their running counts, into files. Fails once there is a checkpoint, or at the last row.
fn counting(executor: LocalExecutor, folder: &Path, parallelism: u32, fails: bool) -> flott::Result<()> {
    let env = StreamExecutionEnvironment::with_executor(Arc::new(executor));
    env.set_parallelism(parallelism);
    let checkpoints = folder.join("checkpoints");
    env.set("execution.checkpointing.dir", &checkpoints.display().to_string());
    env.set("execution.checkpointing.interval", "1 ms");
    env.set("restart-strategy.type", "none");
    env.set("flott.batch.rows", "256");
    let first = checkpoints.join("chk-1").join("_metadata");
    env.from_sequence(1, ROWS)
        .map(move |n| match n {
            ROWS if fails => Err("it is the last row"),
            _ if fails && n % 256 == 0 && first.exists() => Err("there is a checkpoint"),
            _ => Ok((n % 10, 1)),
        })
        .key_by(|(digit, _)| *digit)
        .reduce(|a, b| (a.0, a.1 + b.1))
        .sink_to("files", csv_sink(folder.join("out"), CsvOptions::default()).spec()?)
        .uid("files");
    env.execute("counting").map(drop)
}

const ROWS: i64 = 300_000;

#[test]
fn a_failed_job_goes_on_at_another_parallelism() {
    for (before, after) in [(1, 3), (3, 1), (3, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let error = counting(LocalExecutor::default(), folder.path(), before, true).unwrap_err();
        assert!(
            error.to_string().starts_with("there is a checkpoint") || error.to_string().contains("last row"),
            "{error}"
        );
        counting(LocalExecutor::default().resume(), folder.path(), after, false).unwrap();
        let mut lines = Vec::new();
        for file in std::fs::read_dir(folder.path().join("out")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "csv") {
                lines.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
            }
        }
        lines.sort();
        // Each digit is counted from 1 to a tenth of the rows, each count once.
        let all = (0..10).flat_map(|digit| (1..=ROWS / 10).map(move |count| format!("{digit},{count}")));
        let mut expected: Vec<_> = all.collect();
        expected.sort();
        assert!(lines == expected, "{before} to {after}: {} rows of {}", lines.len(), expected.len());
    }
}

/// How often the job of a program fails.
const FAILS_VARIABLE: &str = "FLOTT_TEST_FAILS";

#[test]
fn who_closes_standard_error_misses_only_what_is_said() {
    // Once: it is said that the job starts again. Twice: it is said why it ends.
    for (fails, code) in [("1", 0), ("2", 1)] {
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["jobs::failing_entry", "--exact", "--nocapture"]).env(FAILS_VARIABLE, fails);
        let status = program.stdout(Stdio::null()).stderr(closed).status().unwrap();
        assert_eq!(status.code(), Some(code), "fails {fails}");
    }
}

/// Not a test: the main of a program whose job may start again once.
#[test]
#[expect(clippy::disallowed_methods, reason = "the main of a process reads its environment")]
fn failing_entry() {
    let Ok(fails) = std::env::var(FAILS_VARIABLE) else { return };
    let left = Arc::new(AtomicI64::new(fails.parse().unwrap()));
    let code = flott::run(|env| {
        env.set("restart-strategy.type", "fixed-delay");
        env.set("restart-strategy.fixed-delay.attempts", "1");
        env.set("restart-strategy.fixed-delay.delay", "0 ms");
        let fail = move |n: i64| if left.fetch_sub(1, Ordering::SeqCst) > 0 { Err("not yet") } else { Ok(n) };
        let _rows = env.from_sequence(1, 3).map(fail).collect();
        env.execute("failing").map(drop)
    });
    let code = [(ExitCode::SUCCESS, 0), (ExitCode::FAILURE, 1)].into_iter().find(|(known, _)| *known == code);
    std::process::exit(code.map_or(2, |(_, code)| code));
}
