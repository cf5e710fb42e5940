//! CSV to rows: [`CsvDecoder`].

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use flott_core::{Error, Result};
use memchr::memchr;

use super::column::Column;
use super::fields::{Field, field, shown, undouble};
use super::{CsvOptions, Dialect};
use crate::{Decoded, Decoder, Input};

/// Decodes CSV. Blank lines are passed over.
///
/// Types: all integers, FLOAT, DOUBLE, BOOLEAN, STRING, DECIMAL, DATE (`2024-02-29`), TIMESTAMP
/// (`2024-02-29 23:59:59.123` or with `T`; a trailing `Z`; an offset where the type has a zone).
#[derive(Debug)]
pub struct CsvDecoder {
    schema: SchemaRef,
    dialect: Dialect,
    max_row_bytes: usize,
    refuse_line_breaks: bool,
    columns: Vec<Column>,
    /// For each field of a row the column it belongs to; `None` while the header has not been read.
    fields: Option<Vec<Option<usize>>>,
    input: Input,
}

/// A row at the start of some bytes.
enum Row {
    /// Its bytes and ends of lines.
    Whole(usize, u64),
    Partial,
}

impl CsvDecoder {
    /// A decoder of rows of `schema`. With a header its columns are found by name; else they are the fields in order.
    pub fn new(schema: SchemaRef, options: &CsvOptions) -> Result<Self> {
        let columns = schema.fields().iter().map(Column::new).collect::<Result<Vec<_>>>()?;
        if columns.is_empty() && !options.header {
            return Err(Error::user("expected at least one column for CSV, found none"));
        }
        let fields = (!options.header).then(|| (0..columns.len()).map(Some).collect());
        Ok(Self {
            schema,
            dialect: Dialect::new(options)?,
            max_row_bytes: options.max_row_bytes,
            refuse_line_breaks: false,
            columns,
            fields,
            input: Input::default(),
        })
    }

    /// Makes an end of line inside quotes an error: who reads an input in several parts, each from the first line
    /// that starts in it, cannot have any.
    pub fn refuse_line_breaks(&mut self, refuse: bool) {
        self.refuse_line_breaks = refuse;
    }

    /// Reads the header if there is one; [`Decoded::Finished`] when it is known. To be called only by who wants to
    /// know it before the first row, or to [`Input::seek`] to a later row.
    pub fn decode_header(&mut self) -> Result<Decoded> {
        if self.fields.is_some() {
            return Ok(Decoded::Finished);
        }
        if !self.skip_lines() {
            return Ok(self.starved());
        }
        let mut names = Vec::new();
        let Row::Whole(length, breaks) = self.each_field(0, |text, _| {
            names.push(String::from_utf8_lossy(text).into_owned());
        })?
        else {
            return self.partial(self.input.rest().len());
        };
        let fields = self.match_names(&names).map_err(|e| e.at("line", self.input.line()))?;
        self.input.advance(length, breaks);
        self.fields = Some(fields);
        Ok(Decoded::Finished)
    }

    fn match_names(&self, names: &[String]) -> Result<Vec<Option<usize>>> {
        let wanted = self.schema.fields();
        for column in wanted {
            let found = names.iter().filter(|name| *name == column.name()).count();
            if found != 1 {
                let there = names.join(", ");
                let what = if found == 0 { "not in" } else { "more than once in" };
                return Err(Error::user(format!("the column '{}' is {what} the header: {there}", column.name())));
            }
        }
        Ok(names.iter().map(|name| wanted.iter().position(|column| column.name() == name)).collect())
    }

    /// Passes over a byte order mark, blank lines and comments; false if more bytes are needed to go on.
    fn skip_lines(&mut self) -> bool {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let rest = self.input.rest();
        if self.input.position() == 0 && !rest.is_empty() && !self.input.has_ended() && MARK.starts_with(&rest[..rest.len().min(3)]) {
            if rest.len() < 3 {
                return false;
            }
            self.input.advance(3, 0);
        } else if self.input.position() == 0 && rest.starts_with(MARK) {
            self.input.advance(3, 0);
        }
        loop {
            let (skipped, more) = skipped_line(self.input.rest(), self.dialect.comment);
            if skipped == 0 {
                return !more;
            }
            self.input.advance(skipped, 1);
        }
    }

    /// There is no row (yet).
    fn starved(&self) -> Decoded {
        if self.input.is_finished() { Decoded::Finished } else { Decoded::NeedBytes }
    }

    /// A row without end: more bytes, or an error if there are none or it is too long already.
    fn partial(&self, length: usize) -> Result<Decoded> {
        let expected = if self.input.has_ended() {
            "a closing quote, found the end of the input".to_owned()
        } else if length > self.max_row_bytes {
            format!("a row of at most {} bytes, found a longer one; is a quote not closed?", self.max_row_bytes)
        } else {
            return Ok(Decoded::NeedBytes);
        };
        Err(Error::user(format!("expected {expected}")).at("line", self.input.line()))
    }

    /// Calls `take(text, quoted)` for each field of the row at `start`.
    fn each_field(&self, start: usize, mut take: impl FnMut(&[u8], bool)) -> Result<Row> {
        let bytes = &self.input.rest()[start..];
        let (mut at, mut breaks) = (0, 1);
        loop {
            match field(&bytes[at..], &self.dialect) {
                Field::Partial => return Ok(Row::Partial),
                Field::Malformed(end) => return Err(malformed(&bytes[at + end..])),
                Field::Whole { text, quoted, doubled, length, breaks: inner } => {
                    match (doubled, self.dialect.quote) {
                        (true, Some(quote)) => take(&undouble(text, quote), quoted),
                        _ => take(text, quoted),
                    }
                    breaks += inner;
                    at += length + 1;
                }
            }
            if bytes[at - 1] == b'\n' {
                return Ok(Row::Whole(at, breaks));
            }
        }
    }

    /// The error for a row that has not as many fields as it should.
    fn wrong_count(&self, start: usize, expected: usize) -> Result<Row> {
        let mut found = 0;
        let row = self.each_field(start, |_, _| found += 1)?;
        let Row::Whole(length, _) = row else {
            return Ok(row);
        };
        let text = self.input.rest()[start..start + length].trim_ascii_end();
        let s = if expected == 1 { "" } else { "s" };
        Err(Error::user(format!("expected {expected} field{s}, found {found}: '{}'", shown(text))))
    }
}

/// The length of the blank line or comment that `bytes` begin with, and whether it takes more bytes to say.
fn skipped_line(bytes: &[u8], comment: Option<u8>) -> (usize, bool) {
    match bytes {
        [] | [b'\r'] => (0, true),
        [b'\n', ..] => (1, false),
        [b'\r', b'\n', ..] => (2, false),
        [first, ..] if Some(*first) == comment => memchr(b'\n', bytes).map_or((0, true), |end| (end + 1, false)),
        _ => (0, false),
    }
}

fn malformed(after: &[u8]) -> Error {
    let after = after.split(|b| *b == b'\n').next().unwrap_or_default();
    Error::user(format!("expected a delimiter after the closing quote, found '{}'", shown(after)))
}
