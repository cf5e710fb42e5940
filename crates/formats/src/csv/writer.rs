//! Rows to CSV: [`CsvWriter`].

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use flott_core::{Error, Result, type_name};
use memchr::memchr;

use super::{CsvOptions, Dialect};
use crate::text::{Style, write_value};

/// Text longer than this is quoted unseen (Jackson's `maxQuoteCheckChars`, which Flink leaves alone).
const QUOTE_CHECK_CHARS: usize = 24;

/// Encodes rows as CSV with lines that end in `\n`.
///
/// Quotes as Flink does, that is as Jackson's loose check: text longer than 24 characters, and text with a character
/// that sorts at or before the delimiter, the quote or the end of line, which includes blanks; so timestamps are
/// quoted. Beyond Flink, text that would be read back as NULL, a comment or a blank line is quoted too, so that every
/// row reads back as it was.
#[derive(Debug)]
pub struct CsvWriter {
    dialect: Dialect,
    header: bool,
    null_literal: String,
    schema: SchemaRef,
    /// A character below this asks for quotes.
    safe_from: u8,
    value: String,
}

impl CsvWriter {
    /// A writer of rows of `schema`; a type without a form in CSV is refused.
    pub fn new(schema: SchemaRef, options: &CsvOptions) -> Result<Self> {
        let dialect = Dialect::new(options)?;
        for field in schema.fields() {
            if field.data_type().is_nested() || matches!(field.data_type(), DataType::Binary | DataType::LargeBinary) {
                let name = type_name(field.data_type());
                return Err(Error::user(format!("CSV has no form for the type {name}")).at("column", field.name()));
            }
        }
        let safe_from = dialect.delimiter.max(dialect.quote.unwrap_or(0)).max(b'\n') + 1;
        let null_literal = options.null_literal.clone().unwrap_or_default();
        Ok(Self { dialect, header: options.header, null_literal, schema, safe_from, value: String::new() })
    }

    /// Appends the header, if there is to be one.
    pub fn write_header(&mut self, out: &mut Vec<u8>) {
        if !self.header {
            return;
        }
        for (index, field) in self.schema.fields().iter().enumerate() {
            if index > 0 {
                out.push(self.dialect.delimiter);
            }
            let alone = self.schema.fields().len() == 1 && field.name().is_empty();
            let quoted = alone || needs_quotes(field.name(), self.safe_from, &self.dialect);
            write_text(field.name(), self.dialect.quote.filter(|_| quoted), out);
        }
        out.push(b'\n');
    }

    /// Appends rows.
    pub fn write(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        for row in 0..rows.num_rows() {
            let start = out.len();
            for (index, column) in rows.columns().iter().enumerate() {
                if index > 0 {
                    out.push(self.dialect.delimiter);
                }
                self.write_field(column.as_ref(), row, out)?;
            }
            if out.len() == start {
                self.end_blank(rows.column(0).as_ref(), out)?;
            }
            out.push(b'\n');
        }
        Ok(())
    }

    /// A row of one NULL must not be a blank line, which is passed over when it is read.
    fn end_blank(&self, column: &dyn Array, out: &mut Vec<u8>) -> Result<()> {
        let Some(quote) = self.dialect.quote.filter(|_| *column.data_type() != DataType::Utf8) else {
            return Err(Error::user("a row of one NULL has no form in CSV: set a null literal"));
        };
        out.extend([quote, quote]);
        Ok(())
    }

    fn write_field(&mut self, column: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if column.is_null(row) {
            out.extend_from_slice(self.null_literal.as_bytes());
            return Ok(());
        }
        self.value.clear();
        write_value(column, row, Style::Sql, &mut self.value)?;
        let (data_type, dialect) = (column.data_type(), &self.dialect);
        let quoted = if data_type.is_numeric() || *data_type == DataType::Boolean {
            !dialect.plain && self.value.as_bytes().contains(&dialect.delimiter)
        } else {
            self.value == self.null_literal || needs_quotes(&self.value, self.safe_from, dialect)
        };
        let breaks = |byte: u8| byte == dialect.delimiter || byte == b'\n' || byte == b'\r';
        if quoted && dialect.quote.is_none() && (self.value == self.null_literal || self.value.bytes().any(breaks)) {
            return Err(Error::user(format!("'{}' needs quotes in CSV, and there are to be none", self.value)));
        }
        write_text(&self.value, dialect.quote.filter(|_| quoted), out);
        Ok(())
    }
}

fn needs_quotes(text: &str, safe_from: u8, dialect: &Dialect) -> bool {
    text.len() > QUOTE_CHECK_CHARS && text.encode_utf16().count() > QUOTE_CHECK_CHARS
        || text.bytes().any(|byte| byte < safe_from)
        || dialect.comment.is_some_and(|comment| text.as_bytes().first() == Some(&comment))
}

fn write_text(text: &str, quote: Option<u8>, out: &mut Vec<u8>) {
    let Some(quote) = quote else {
        out.extend_from_slice(text.as_bytes());
        return;
    };
    let mut rest = text.as_bytes();
    out.push(quote);
    while let Some(at) = memchr(quote, rest) {
        out.extend_from_slice(&rest[..=at]);
        out.push(quote);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(quote);
}
