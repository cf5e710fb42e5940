//! What is wrong with a table, an option or a value: one error each, that says what and where.

use std::path::Path;

use expect_test::{Expect, expect};
use flott_testing::jobs::registry;

use super::{planned, run_with};

const TO: &str = "CREATE TABLE s (a INT, c STRING) WITH ('connector' = 'blackhole');";
const INSERT: &str = "INSERT INTO s SELECT a, c FROM t";

fn table(folder: &Path, columns: &str, options: &str) -> String {
    let path = folder.display();
    format!(
        "CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}/t.csv', 'format' = 'csv'{options});\n{TO}"
    )
}

/// The first error of a script with this file, `t.csv`; without a file there is none.
fn error(file: Option<&str>, columns: &str, options: &str, statement: &str, config: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    if let Some(text) = file {
        std::fs::write(folder.path().join("t.csv"), text).unwrap();
    }
    let script = format!("{}\n{statement}", table(folder.path(), columns, options));
    match planned(&script, config).and_then(|job| run_with(&job, &registry())) {
        Ok(()) => "no error".to_owned(),
        Err(error) => error.to_string().replace(&folder.path().display().to_string(), "FOLDER"),
    }
}

fn check(file: Option<&str>, columns: &str, statement: &str, expected: &Expect) {
    expected.assert_eq(&error(file, columns, "", statement, &[]));
}

const COLUMNS: &str = "a INT, ts TIMESTAMP(3), c STRING, WATERMARK FOR ts AS ts";
const ROW: &str = "1,2026-01-01 00:00:00,x\n";

#[test]
fn files_that_are_not_what_was_declared() {
    check(
        None,
        COLUMNS,
        INSERT,
        &expect!["cannot read: No such file or directory (os error 2) (file FOLDER/t.csv, operator Source: t[1])"],
    );
    check(
        Some(""),
        COLUMNS,
        INSERT,
        &expect![
            "expected rows with the columns a, ts, c, found an empty file (file FOLDER/t.csv, operator Source: t[1])"
        ],
    );
    check(Some("\n\n"), COLUMNS, INSERT, &expect!["no error"]);
    check(
        Some(&format!("{ROW}2,2026-01-01 00:00:01\n")),
        COLUMNS,
        INSERT,
        &expect![
            "expected 3 fields, found 2: '2,2026-01-01 00:00:01' (line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(&format!("{ROW}2,2026-01-01 00:00:01,y,z\n")),
        COLUMNS,
        INSERT,
        &expect![
            "expected 3 fields, found 4: '2,2026-01-01 00:00:01,y,z' (line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(&format!("{ROW}two,2026-01-01 00:00:01,y\n")),
        COLUMNS,
        INSERT,
        &expect![
            "expected INT, found 'two' (column a, line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(&format!("{ROW}2147483648,2026-01-01 00:00:01,y\n")),
        COLUMNS,
        INSERT,
        &expect![
            "expected INT, found '2147483648' (column a, line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(&format!("{ROW}2,2026-02-30 00:00:01,y\n")),
        COLUMNS,
        INSERT,
        &expect![
            "expected TIMESTAMP(3), found '2026-02-30 00:00:01' (column ts, line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(&format!("{ROW}2,,y\n")),
        COLUMNS,
        INSERT,
        &expect![
            "a row has no event time: it is NULL (column ts, line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(&format!("{ROW}2,2026-01-01 00:00:01,\"y\n")),
        COLUMNS,
        INSERT,
        &expect![
            "expected a closing quote, found the end of the input (line 2, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
    check(
        Some(",2026-01-01 00:00:00,x\n"),
        &COLUMNS.replace("INT", "INT NOT NULL"),
        INSERT,
        &expect![
            "expected INT NOT NULL, found an empty field (column a, line 1, file FOLDER/t.csv, task Source: t[1] → Calc[2] → Sink: s[3]/0)"
        ],
    );
}

#[test]
fn statements_about_what_is_not_there() {
    check(
        Some(ROW),
        COLUMNS,
        "INSERT INTO s SELECT a, d FROM t",
        &expect![[r#"
            there is no column 'd'
              3 | INSERT INTO s SELECT a, d FROM t
                |                         ^ (line 3, column 25)"#]],
    );
    let options = |options: &str| error(Some(ROW), COLUMNS, options, INSERT, &[]);
    expect![[r#"
        the connector 'filesystem' has no option 'csv.field-delimeter', or flott does not support it yet; did you mean 'csv.field-delimiter'?
          1 | …csv', 'format' = 'csv', 'csv.field-delimeter' = ';');
            |                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 161)"#]].assert_eq(&options(", 'csv.field-delimeter' = ';'"));
    expect![[r#"
        expected one ASCII character for 'csv.field-delimiter', found ';;'
          1 | …csv', 'format' = 'csv', 'csv.field-delimiter' = ';;');
            |                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 161)"#]]
    .assert_eq(&options(", 'csv.field-delimiter' = ';;'"));
    let config = |key, value| error(Some(ROW), COLUMNS, "", INSERT, &[(key, value)]);
    expect!["there is no option 'paralelism.default'; did you mean 'parallelism.default'?"]
        .assert_eq(&config("paralelism.default", "3"));
    expect!["expected a whole number, found 'three' (option parallelism.default)"]
        .assert_eq(&config("parallelism.default", "three"));
    expect![[r#"
        parallelism 129 is above max parallelism 128 (from 'pipeline.max-parallelism'): lower the one or raise the other, 'pipeline.max-parallelism'; state of earlier runs cannot be restored at another max parallelism (operator Source: t[1], uid source:t)
          3 | INSERT INTO s SELECT a, c FROM t
            | ^^^^^^ (line 3, column 1)"#]].assert_eq(&config("parallelism.default", "129"));
    expect![[r#"
        expected a parallelism of at least 1, found 0 (from 'parallelism.default') (operator Source: t[1], uid source:t)
          3 | INSERT INTO s SELECT a, c FROM t
            | ^^^^^^ (line 3, column 1)"#]]
    .assert_eq(&config("parallelism.default", "0"));
}

/// Of the error, what stands before the task.
#[test]
fn values_that_expressions_do_not_take() {
    let fails = |statement: &str, expected: &Expect| {
        let error = error(Some(&format!("{ROW}0,2026-01-01 00:00:01,7\n")), COLUMNS, "", statement, &[]);
        expected.assert_eq(error.split(", task ").next().unwrap());
    };
    fails(
        "INSERT INTO s SELECT 1 / a, c FROM t",
        &expect![
            "an integer was divided by zero (expression 1 / a, column a, record [a = 0, ts = 2026-01-01T00:00:01, c = 7], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT a % 0, c FROM t",
        &expect![
            "an integer was divided by zero (expression a % 0, column a, record [a = 1, ts = 2026-01-01T00:00:00, c = x], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT a, c FROM t WHERE 10 / a > 5",
        &expect![
            "an integer was divided by zero (expression 10 / a, record [a = 0, ts = 2026-01-01T00:00:01, c = 7], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT CAST(c AS INT), c FROM t",
        &expect![
            "expected INT, found 'x' (expression CAST(c AS INT), column a, record [a = 1, ts = 2026-01-01T00:00:00, c = x], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT CAST(c || '000000000000' AS INT), c FROM t WHERE c = '7'",
        &expect![
            "expected INT from -2147483648 to 2147483647, found '7000000000000' (expression CAST(c || '000000000000' AS INT), column a, record [a = 0, ts = 2026-01-01T00:00:01, c = 7], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT a, CAST(CAST(c AS DATE) AS STRING) FROM t",
        &expect![
            "expected DATE, found 'x' (expression CAST(c AS DATE), column c, record [a = 1, ts = 2026-01-01T00:00:00, c = x], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT CASE WHEN a = 1 THEN 5 WHEN c = 'y' THEN CAST(c AS INT) ELSE 5 / a END, c FROM t",
        &expect![
            "an integer was divided by zero (expression 5 / a, column a, record [a = 0, ts = 2026-01-01T00:00:01, c = 7], operator Calc[2]"
        ],
    );
    fails(
        "INSERT INTO s SELECT a, c FROM t WHERE ts + INTERVAL '999999999' DAY > ts",
        &expect![
            "expected TIMESTAMP(3) from the year -262143 to 262142, found 2026-01-01T00:00:00 + 999999999 days (expression ts + '999999999 days', record [a = 1, ts = 2026-01-01T00:00:00, c = x], operator Calc[2]"
        ],
    );
    fails("INSERT INTO s SELECT TRY_CAST(c AS INT), c FROM t", &expect!["no error"]);
}
