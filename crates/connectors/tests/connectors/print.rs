//! The sink `print`: Flink's lines.

use std::io::{Error, ErrorKind, Write};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, TimeUnit};
use flott_connectors::print::{PrintConfig, PrintWriter, nobody_reads};
use flott_core::{Batch, ErrorDomain, SinkWriter, Spec, schema_of};

use super::support::{info, nothing};

fn batch() -> Batch {
    let schema = schema_of(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]);
    let columns = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec!["a", "b"])),
            Arc::new(TimestampMillisecondArray::from(vec![0, 1])),
        ],
    );
    Batch::new(columns.unwrap()).with_row_kinds(Some(vec![0u8, 3].into()))
}

#[test]
fn lines() {
    let named = PrintConfig { identifier: Some("out".into()), ..PrintConfig::default() };
    for (config, index, parallelism, prefix) in [
        (PrintConfig::default(), 0, 1, ""),
        (PrintConfig::default(), 2, 3, "3> "),
        (named.clone(), 0, 1, "out> "),
        (named, 1, 2, "out:2> "),
    ] {
        let mut out = Vec::new();
        PrintWriter::new(&mut out, &config, &info(index, parallelism, nothing())).write(&batch()).unwrap();
        let expected = format!("{prefix}+I[1, a, 1970-01-01T00:00]\n{prefix}-D[null, b, 1970-01-01T00:00:00.001]\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(Error::from(ErrorKind::BrokenPipe))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_an_error_without_retry() {
    const CLOSED: &str = "standard output was closed before all rows were printed (sink print)";
    let named = |name: &str| Some(name.to_owned());
    let out = || PrintConfig { identifier: named("out"), ..PrintConfig::default() };
    let err = || PrintConfig { identifier: named("err"), standard_error: true, ..PrintConfig::default() };
    let print = |config: PrintConfig| config.spec().unwrap();
    let files = || Spec::new("files", &()).unwrap();
    // The sink that fails, all of the job, the error, whether it ends quietly.
    for (fails, sinks, expected, ends_quietly) in [
        (out(), vec![print(out())], CLOSED, true),
        (out(), vec![print(out()), print(PrintConfig::default())], CLOSED, true),
        (out(), vec![print(out()), files()], CLOSED, false),
        (out(), vec![print(out()), print(err())], CLOSED, false),
        (err(), vec![print(err())], "cannot print: broken pipe (sink print)", false),
        (err(), vec![print(out()), print(err())], "cannot print: broken pipe (sink print)", false),
    ] {
        let error = PrintWriter::new(Closed, &fails, &info(0, 1, nothing())).write(&batch()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!((error.domain(), error.is_retryable()), (ErrorDomain::External, false));
        assert_eq!(nobody_reads(&error, sinks.iter()), ends_quietly, "{sinks:?}");
    }
}
