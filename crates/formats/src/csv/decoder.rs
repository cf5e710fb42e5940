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

/// Room made for rows at once, where a caller asks for more.
const RESERVED_ROWS: usize = 1 << 14;

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
        if !self.skip_mark() || !self.skip_lines() {
            let ended = self.input.is_finished();
            return if ended { Err(self.no_header()) } else { Ok(Decoded::NeedBytes) };
        }
        let mut names = Vec::new();
        let take = |text: &[u8]| names.push(String::from_utf8_lossy(text).into_owned());
        match each_field(self.input.rest(), &self.dialect, take) {
            Ok(Row::Partial) => self.partial(),
            Ok(Row::Whole(length, lines)) => {
                let fields = self.match_names(&names).map_err(|e| e.at("line", self.input.line()))?;
                self.input.advance(length, lines);
                self.fields = Some(fields);
                Ok(Decoded::Finished)
            }
            Err(e) => Err(e.at("line", self.input.line())),
        }
    }

    fn no_header(&self) -> Error {
        let names: Vec<_> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        Error::user(format!("expected a header with the columns {}, found the end of the input", names.join(", ")))
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

    /// Passes over a byte order mark; false if more bytes are needed to know one.
    fn skip_mark(&mut self) -> bool {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let rest = self.input.rest();
        if self.input.position() > 0 || !rest.starts_with(&MARK[..rest.len().min(3)]) {
            return true;
        }
        if rest.len() < 3 {
            return self.input.has_ended();
        }
        self.input.advance(3, 0);
        true
    }

    /// Passes over blank lines and comments; false if more bytes are needed to go on.
    fn skip_lines(&mut self) -> bool {
        loop {
            match skipped_line(self.input.rest(), self.dialect.comment) {
                Skipped::No => return true,
                Skipped::Unknown => return false,
                Skipped::Bytes(length) => self.input.advance(length, 1),
            }
        }
    }

    /// A row without end: more bytes, or an error if there are none or it is too long already.
    fn partial(&self) -> Result<Decoded> {
        if self.input.is_finished() {
            return Ok(Decoded::Finished);
        }
        let error = if self.input.has_ended() {
            Error::user("expected a closing quote, found the end of the input")
        } else if self.input.rest().len() > self.max_row_bytes {
            too_long(self.max_row_bytes)
        } else {
            return Ok(Decoded::NeedBytes);
        };
        Err(error.at("line", self.input.line()))
    }
}

impl Decoder for CsvDecoder {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn input(&self) -> &Input {
        &self.input
    }

    fn input_mut(&mut self) -> &mut Input {
        &mut self.input
    }

    fn decode(&mut self, max_rows: usize) -> Result<Decoded> {
        if self.fields.is_none() {
            let header = self.decode_header()?;
            if header != Decoded::Finished {
                return Ok(header);
            }
        }
        if !self.input.align() || !self.skip_mark() {
            return self.partial();
        }
        let Some(fields) = &self.fields else {
            return Err(Error::internal("the header was not read"));
        };
        for column in &mut self.columns {
            column.reserve(max_rows.min(RESERVED_ROWS));
        }
        let (rest, wanted) = (self.input.rest(), self.input.wanted());
        let mut rows = Rows { fields, columns: &mut self.columns, dialect: &self.dialect };
        let (mut at, mut lines, mut count) = (0, 0, 0);
        let mut fault = None;
        while count < max_rows.max(1) && at < wanted {
            match skipped_line(&rest[at..], self.dialect.comment) {
                Skipped::No => {}
                Skipped::Unknown => break,
                Skipped::Bytes(length) => {
                    at += length;
                    lines += 1;
                    continue;
                }
            }
            match rows.decode(&rest[at..]) {
                Ok(Row::Whole(_, breaks)) if breaks > 1 && self.refuse_line_breaks => {
                    fault = Some(Error::user(
                        "found an end of line inside quotes in a file that is read in parts; set splittable to false",
                    ));
                }
                Ok(Row::Whole(length, _)) if length > self.max_row_bytes => fault = Some(too_long(self.max_row_bytes)),
                Ok(Row::Whole(length, breaks)) => {
                    at += length;
                    lines += breaks;
                    count += 1;
                    continue;
                }
                Ok(Row::Partial) => {}
                Err(e) => fault = Some(e),
            }
            rows.columns.iter_mut().for_each(|column| column.truncate(count));
            break;
        }
        self.input.advance(at, lines);
        match fault {
            _ if count > 0 => self.batch(count),
            Some(fault) => Err(fault.at("line", self.input.line())),
            None => self.partial(),
        }
    }
}

impl CsvDecoder {
    fn batch(&mut self, rows: usize) -> Result<Decoded> {
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Decoded::Rows(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?))
    }
}

/// Where rows go.
struct Rows<'a> {
    fields: &'a [Option<usize>],
    columns: &'a mut [Column],
    dialect: &'a Dialect,
}

impl Rows<'_> {
    /// Appends the row that `bytes` begin with to the columns. Unless it is whole, columns may have grown unevenly.
    fn decode(&mut self, bytes: &[u8]) -> Result<Row> {
        let (mut at, mut lines) = (0, 1);
        let last = self.fields.len() - 1;
        for (index, column) in self.fields.iter().enumerate() {
            let rest = &bytes[at..];
            let mut column = column.and_then(|column| self.columns.get_mut(column));
            let prefix = match &mut column {
                Some(column) if self.dialect.plain => column.append_prefix(rest, self.dialect.delimiter),
                _ => None,
            };
            at += match prefix {
                Some(length) => length,
                None => match field(rest, self.dialect) {
                    Field::Partial => return Ok(Row::Partial),
                    Field::Malformed(end) => return Err(malformed(&rest[end..])),
                    Field::Whole { text, quoted, doubled, length, breaks } => {
                        if let Some(column) = column {
                            let appended = match self.dialect.quote.filter(|_| doubled) {
                                Some(quote) => column.append(&undouble(text, quote), quoted, self.dialect),
                                None => column.append(text, quoted, self.dialect),
                            };
                            if let Err(e) = appended {
                                return bad_row(bytes, self.fields.len(), self.dialect, Some(e));
                            }
                        }
                        lines += breaks;
                        length
                    }
                },
            };
            if (bytes[at] == b'\n') != (index == last) {
                return bad_row(bytes, self.fields.len(), self.dialect, None);
            }
            at += 1;
        }
        Ok(Row::Whole(at, lines))
    }
}

/// Calls `take` with each field of the row that `bytes` begin with.
fn each_field(bytes: &[u8], dialect: &Dialect, mut take: impl FnMut(&[u8])) -> Result<Row> {
    let (mut at, mut lines) = (0, 1);
    loop {
        match field(&bytes[at..], dialect) {
            Field::Partial => return Ok(Row::Partial),
            Field::Malformed(end) => return Err(malformed(&bytes[at + end..])),
            Field::Whole { text, doubled, length, breaks, .. } => {
                match dialect.quote.filter(|_| doubled) {
                    Some(quote) => take(&undouble(text, quote)),
                    None => take(text),
                }
                lines += breaks;
                at += length + 1;
            }
        }
        if bytes[at - 1] == b'\n' {
            return Ok(Row::Whole(at, lines));
        }
    }
}

/// The error of a row: `error` of one of its fields, unless the fault is that there are not `expected` of them.
fn bad_row(bytes: &[u8], expected: usize, dialect: &Dialect, error: Option<Error>) -> Result<Row> {
    let mut found = 0;
    let Row::Whole(length, _) = each_field(bytes, dialect, |_| found += 1)? else {
        return Ok(Row::Partial);
    };
    match error {
        Some(error) if found == expected => Err(error),
        _ => {
            let s = if expected == 1 { "" } else { "s" };
            let text = shown(bytes[..length].trim_ascii_end());
            Err(Error::user(format!("expected {expected} field{s}, found {found}: '{text}'")))
        }
    }
}

enum Skipped {
    No,
    /// It takes more bytes to say.
    Unknown,
    Bytes(usize),
}

/// The blank line or comment that `bytes` begin with.
fn skipped_line(bytes: &[u8], comment: Option<u8>) -> Skipped {
    match bytes {
        [] | [b'\r'] => Skipped::Unknown,
        [b'\n', ..] => Skipped::Bytes(1),
        [b'\r', b'\n', ..] => Skipped::Bytes(2),
        [first, ..] if Some(*first) == comment => {
            memchr(b'\n', bytes).map_or(Skipped::Unknown, |end| Skipped::Bytes(end + 1))
        }
        _ => Skipped::No,
    }
}

fn too_long(max_bytes: usize) -> Error {
    Error::user(format!("expected a row of at most {max_bytes} bytes, found a longer one; is a quote not closed?"))
}

fn malformed(after: &[u8]) -> Error {
    let after = after.split(|b| *b == b'\n').next().unwrap_or_default();
    Error::user(format!("expected a delimiter after the closing quote, found '{}'", shown(after)))
}
