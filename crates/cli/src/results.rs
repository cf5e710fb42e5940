//! Where the rows of a SELECT go: [`Results`], a sink that prints CSV as rows come, or keeps rows for a table.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;
use comfy_table::{ContentArrangement, Table};
use flott::connectors::print::not_printed;
use flott_core::{Batch, Error, OperatorInfo, Registry, Result, RowKind, Sink, SinkWriter, Spec};
use flott_formats::csv::{CsvOptions, CsvWriter};
use flott_formats::text::{Style, write_value};

use crate::arguments::Format;
use crate::progress::grouped;

/// The sink's name in the registry.
const NAME: &str = "results";
/// A table longer than this is not read by people, and it is kept in memory.
const MAX_ROWS: usize = 1_000;
/// As wide as a terminal is by tradition, for a table that goes elsewhere.
const WIDTH: u16 = 80;

/// The rows of the SELECT that runs. Clones are one.
#[derive(Clone)]
pub(crate) struct Results {
    format: Format,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// The kind of change, then the values.
    rows: Vec<Vec<String>>,
    /// All rows, kept or not.
    count: u64,
    /// Some rows were updates or removals.
    changes: bool,
    header_written: bool,
}

impl Results {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, kept: Arc::default() }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let results = self.clone();
        registry.add_sink(NAME, Arc::new(move |_| Ok(Box::new(results.clone()))));
    }

    pub(crate) fn spec() -> Spec {
        Spec { factory: NAME.to_owned(), config: Vec::new() }
    }

    /// Prints what a SELECT has left, and forgets it.
    pub(crate) fn print(&self, output: &SchemaRef) -> Result<()> {
        let kept = std::mem::take(&mut *self.lock());
        match self.format {
            Format::Csv if kept.header_written => Ok(()),
            Format::Csv => flott::say(&header(output)?),
            Format::Table => flott::say(&table(&kept, output)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn csv_options() -> CsvOptions {
    CsvOptions { header: true, ..CsvOptions::default() }
}

fn header(output: &SchemaRef) -> Result<String> {
    let mut text = Vec::new();
    CsvWriter::new(Arc::clone(output), &csv_options())?.write_header(&mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn table(kept: &Kept, output: &SchemaRef) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    let from = usize::from(!kept.changes);
    let names = output.fields().iter().map(|field| field.name().clone());
    table.set_header(std::iter::once("op".to_owned()).chain(names).skip(from));
    for row in &kept.rows {
        table.add_row(row.iter().skip(from));
    }
    let rows = if kept.count == 1 { "row" } else { "rows" };
    let cut = match kept.count.saturating_sub(kept.rows.len() as u64) {
        0 => String::new(),
        more => format!(", {} of them not shown; --format csv prints all", grouped(more)),
    };
    format!("{table}\n{} {rows}{cut}\n", grouped(kept.count))
}

impl Sink for Results {
    fn writer(&self, info: &Arc<OperatorInfo>, _restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(match self.format {
            Format::Table => Box::new(self.clone()),
            Format::Csv => {
                let format = CsvWriter::new(Arc::clone(&info.output), &csv_options())?;
                Box::new(CsvPrinter { results: self.clone(), format })
            }
        })
    }
}

/// Keeps rows for the table.
impl SinkWriter for Results {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let mut kept = self.lock();
        kept.count += batch.num_rows() as u64;
        let kinds = batch.row_kinds();
        kept.changes |= kinds.is_some_and(|kinds| kinds.iter().any(|kind| *kind != RowKind::Insert as u8));
        for row in 0..batch.num_rows().min(MAX_ROWS - kept.rows.len()) {
            let kind = kinds.map_or(Ok(RowKind::Insert), |kinds| RowKind::from_byte(kinds[row]))?;
            let mut cells = vec![kind.as_str().to_owned()];
            for column in batch.columns().columns() {
                let mut cell = String::new();
                if arrow_array::Array::is_null(column, row) {
                    cell.push_str("NULL");
                } else {
                    write_value(column.as_ref(), row, Style::Sql, &mut cell)?;
                }
                cells.push(cell);
            }
            kept.rows.push(cells);
        }
        Ok(())
    }
}

/// Prints rows as they come. Batches of tasks do not mix.
struct CsvPrinter {
    results: Results,
    format: CsvWriter,
}

impl SinkWriter for CsvPrinter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        if batch.row_kinds().is_some_and(|kinds| kinds.iter().any(|kind| *kind != RowKind::Insert as u8)) {
            let text = "the rows of this SELECT are updated later, which CSV cannot say: use --format table";
            return Err(Error::user(text));
        }
        let mut text = Vec::new();
        self.format.write(batch.columns(), &mut text)?;
        let mut kept = self.results.lock();
        if !kept.header_written {
            let mut whole = Vec::with_capacity(text.len());
            self.format.write_header(&mut whole);
            whole.append(&mut text);
            text = whole;
            kept.header_written = true;
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush()).map_err(|e| not_printed(NAME, &e))
    }
}
