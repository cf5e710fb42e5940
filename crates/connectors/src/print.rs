//! A sink that prints rows as Flink does, one a line: `print`.

use std::io::{ErrorKind, Write};
use std::sync::Arc;

use arrow_array::Array;
use flott_core::{Batch, Error, OperatorInfo, Registry, Result, RowKind, Sink, SinkWriter, Spec};
use flott_formats::text::{Style, write_row, write_value};
use serde::{Deserialize, Serialize};

/// Its name in the registry.
pub const NAME: &str = "print";

/// Flink's options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrintConfig {
    /// Before every line, as `identifier>`.
    pub identifier: Option<String>,
    /// Print to standard error.
    pub standard_error: bool,
    /// Rows are values (a DataStream's), not changes (a table's): no `+I[..]` around a single column.
    pub plain: bool,
}

impl PrintConfig {
    /// The sink with this configuration, for a plan.
    pub fn spec(&self) -> Result<Spec> {
        Spec::new(NAME, self)
    }
}

/// Puts the sink into `registry`.
pub fn register(registry: &mut Registry) {
    registry.add_sink(NAME, Arc::new(|spec| Ok(Box::new(Print(spec.read()?)))));
}

const CLOSED: &str = "standard output was closed before all rows were printed";

/// The error of a sink of this name that could not write to standard output. Not retried: who has closed it does not
/// come back.
pub fn not_printed(sink: &str, error: &std::io::Error) -> Error {
    let text = match error.kind() {
        ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => format!("cannot print: {error}"),
    };
    Error::external(text).at("sink", sink).final_()
}

/// Whether a job with these sinks failed only because nobody reads its output any more (`| head`), which ends a program
/// quietly, like any other at a terminal. A job that has another sink, or prints to standard error too, has not done all
/// it should.
pub fn nobody_reads<'a>(error: &Error, mut sinks: impl Iterator<Item = &'a Spec>) -> bool {
    let to_standard_output =
        |sink: &Spec| sink.factory != NAME || sink.read::<PrintConfig>().is_ok_and(|config| !config.standard_error);
    error.message() == CLOSED
        && sinks.all(|sink| error.place("sink") == Some(&sink.factory) && to_standard_output(sink))
}

struct Print(PrintConfig);

impl Sink for Print {
    fn writer(&self, info: &Arc<OperatorInfo>, _restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        let to: Box<dyn Write + Send> =
            if self.0.standard_error { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
        Ok(Box::new(PrintWriter::new(to, &self.0, info)))
    }
}

/// Writes the lines of a batch in one piece, so that lines of tasks do not mix.
#[derive(Debug)]
pub struct PrintWriter<W> {
    to: W,
    prefix: String,
    plain: bool,
    standard_error: bool,
    lines: String,
}

impl<W: Write> PrintWriter<W> {
    /// Prints to `to`: the prefix names the identifier, and the task (from 1) where there are several.
    pub fn new(to: W, config: &PrintConfig, info: &OperatorInfo) -> Self {
        let task = (info.parallelism > 1).then(|| (info.index + 1).to_string());
        let prefix = match (&config.identifier, task) {
            (Some(identifier), Some(task)) => format!("{identifier}:{task}> "),
            (Some(identifier), None) => format!("{identifier}> "),
            (None, Some(task)) => format!("{task}> "),
            (None, None) => String::new(),
        };
        Self { to, prefix, plain: config.plain, standard_error: config.standard_error, lines: String::new() }
    }
}

impl<W: Write + Send> SinkWriter for PrintWriter<W> {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.lines.clear();
        for row in 0..batch.num_rows() {
            let kind = batch.row_kinds().map_or(Ok(RowKind::Insert), |kinds| RowKind::from_byte(kinds[row]))?;
            self.lines.push_str(&self.prefix);
            match batch.columns().columns() {
                [value] if self.plain && value.is_null(row) => self.lines.push_str("null"),
                [value] if self.plain => write_value(value, row, Style::Java, &mut self.lines)?,
                _ => write_row(batch.columns(), row, kind, &mut self.lines)?,
            }
            self.lines.push('\n');
        }
        self.to.write_all(self.lines.as_bytes()).and_then(|()| self.to.flush()).map_err(|e| match self.standard_error {
            true => Error::external(format!("cannot print: {e}")).at("sink", NAME).final_(),
            false => not_printed(NAME, &e),
        })
    }
}
