//! SQL beside Apache Flink's answers, recorded in `tests/golden/sql/*.txt` by `scripts/record_sql_golden.py`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Schema, TimeUnit};
use flott_core::{Batch, Result};
use flott_sql::FlinkType;

use super::{planned, run_select};

struct Golden {
    name: String,
    table: String,
    options: String,
    rows: String,
    queries: Vec<Query>,
}

#[derive(Default)]
struct Query {
    text: String,
    columns: String,
    result: Vec<String>,
    /// What ours is, where it differs on purpose.
    ours: Vec<String>,
    because: String,
}

fn read(path: &Path) -> Golden {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("Apache Flink 2.3.0\n"), "{}: rows come from Flink only", path.display());
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut golden =
        Golden { name, table: String::new(), options: String::new(), rows: String::new(), queries: Vec::new() };
    for section in text.split("\n=== ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let body = body.trim_end_matches('\n').to_owned();
        match title.trim() {
            "table" => golden.table = body,
            "options" => golden.options = format!(", {body}"),
            "rows" => golden.rows = body + "\n",
            "query" => golden.queries.push(Query { text: body, ..Query::default() }),
            "columns" => golden.queries.last_mut().unwrap().columns = body,
            "result" => golden.queries.last_mut().unwrap().result = body.lines().map(str::to_owned).collect(),
            "ours" => golden.queries.last_mut().unwrap().ours = body.lines().map(str::to_owned).collect(),
            "because" => golden.queries.last_mut().unwrap().because = body,
            other => panic!("{}: a section '{other}'", golden.name),
        }
    }
    golden
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/sql");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Every query of every file; all that differ are reported at once.
#[test]
fn flink_gives_the_same() {
    let mut differences = String::new();
    let mut queries = 0;
    for file in files() {
        let golden = read(&file);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, &golden.rows).unwrap();
        let table = format!(
            "CREATE TABLE t ({}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv'{});",
            golden.table,
            path.display(),
            golden.options
        );
        for query in &golden.queries {
            queries += 1;
            let (columns, result) = match answer(&format!("{table}\n{}", query.text)) {
                Ok((columns, mut rows)) => {
                    rows.sort();
                    (columns, rows)
                }
                Err(error) => (String::new(), vec![format!("error: {error}")]),
            };
            compare(&golden.name, query, &columns, &result, &mut differences);
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(queries > 40, "{queries} queries");
}

fn compare(file: &str, query: &Query, columns: &str, result: &[String], out: &mut String) {
    if !query.ours.is_empty() {
        let differs = !query.because.is_empty() && query.ours != query.result;
        assert!(differs, "{file}: a difference and its reason: {}", query.text);
        if result != query.ours {
            writeln!(out, "\n{file}: {}\n  ours  {}", query.text, result.join("\n  ours  ")).unwrap();
        }
        return;
    }
    // Both refuse, in their own words.
    if query.result[0].starts_with("error: ") && result[0].starts_with("error: ") {
        return;
    }
    let expected_columns = flink_columns(&query.columns);
    let mut expected: Vec<_> = query.result.iter().map(|row| flink_row(row, &expected_columns)).collect();
    expected.sort();
    let expected_columns = expected_columns.join("\n");
    if columns == expected_columns && result == expected {
        return;
    }
    writeln!(out, "\n{file}: {}", query.text).unwrap();
    for (ours, flinks) in columns.lines().zip(expected_columns.lines()).filter(|(ours, flinks)| ours != flinks) {
        writeln!(out, "  column: Flink {flinks}, ours {ours}").unwrap();
    }
    expected.iter().filter(|row| !result.contains(row)).for_each(|row| writeln!(out, "  Flink {row}").unwrap());
    result.iter().filter(|row| !expected.contains(row)).for_each(|row| writeln!(out, "  ours  {row}").unwrap());
}

/// Name and type of each column. Here text is STRING whatever its length, timestamps are kept in milliseconds at least,
/// and whether a column can be NULL may be told less exactly.
fn flink_columns(columns: &str) -> Vec<String> {
    let one = |column: &str| {
        let column = column.replace(" NOT NULL", "").replace(" *ROWTIME*", "").replace("TIMESTAMP(0)", "TIMESTAMP(3)");
        let (name, data_type) = column.split_once(' ').unwrap();
        let is_text = data_type.starts_with("CHAR(") || data_type.starts_with("VARCHAR(");
        format!("{name} {}", if is_text { "STRING" } else { data_type })
    };
    columns.lines().map(one).collect()
}

/// A row with every float written as Rust does.
fn flink_row(row: &str, columns: &[String]) -> String {
    if row.starts_with("error: ") {
        return row.to_owned();
    }
    let mut values: Vec<serde_json::Value> = serde_json::from_str(row).unwrap();
    for (value, column) in values.iter_mut().zip(columns) {
        let Some(text) = value.as_str() else { continue };
        if column.ends_with(" DOUBLE") {
            *value = format!("{:?}", text.parse::<f64>().unwrap()).into();
        } else if column.ends_with(" FLOAT") {
            *value = format!("{:?}", text.parse::<f32>().unwrap()).into();
        }
    }
    serde_json::Value::from(values).to_string()
}

fn answer(script: &str) -> Result<(String, Vec<String>)> {
    let job = planned(script, &[])?;
    let columns = job.output.fields().iter().map(|field| {
        let data_type = FlinkType::of_arrow(field.data_type()).unwrap();
        format!("{} {data_type}", field.name())
    });
    let columns = columns.collect::<Vec<_>>().join("\n");
    let mut rows = Vec::new();
    for batch in run_select(&job)? {
        json_rows(&batch, &mut rows);
    }
    Ok((columns, rows))
}

fn json_rows(batch: &Batch, out: &mut Vec<String>) {
    let schema: &Schema = &batch.schema();
    for row in 0..batch.num_rows() {
        let values = (0..schema.fields().len()).map(|at| json_value(batch.column(at), row));
        out.push(serde_json::Value::from(values.collect::<Vec<_>>()).to_string());
    }
}

/// As the script writes values: whole numbers and booleans are themselves, anything else is text.
fn json_value(column: &ArrayRef, row: usize) -> serde_json::Value {
    if column.is_null(row) {
        return serde_json::Value::Null;
    }
    let options = FormatOptions::default()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.6f"))
        .with_date_format(Some("%Y-%m-%d"));
    let text = || ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string();
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => text().parse::<i64>().unwrap().into(),
        DataType::Float32 => format!("{:?}", column.as_primitive::<Float32Type>().value(row)).into(),
        DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)).into(),
        DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row).into(),
        DataType::Date32 => column.as_primitive::<Date32Type>().value_as_date(row).unwrap().to_string().into(),
        DataType::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, None) | DataType::Utf8 => text().into(),
        other => panic!("no form for {other}"),
    }
}
