//! CSV after RFC 4180 with Flink's options: [`CsvOptions`], [`CsvDecoder`], [`CsvWriter`].
//!
//! Why not arrow-csv's decoder: it does not know at which byte a row ended, counts rows instead of lines, and cannot
//! tell a quoted empty field from an absent one.

mod column;
mod decoder;
mod fields;
mod parse;
mod writer;

use flott_core::{Error, Result};
use serde::{Deserialize, Serialize};

pub use decoder::CsvDecoder;
pub use writer::CsvWriter;

/// How CSV is written. The defaults are Flink's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsvOptions {
    /// Between fields; one ASCII character.
    pub delimiter: char,
    /// Around fields that hold a delimiter, a quote (doubled) or an end of line; `None`: there are no quotes.
    pub quote: Option<char>,
    /// The first line names the columns. Columns are then found by name, in any order, and others are passed over.
    pub header: bool,
    /// What stands for NULL when it is not quoted. Without it an empty, unquoted field does, if `empty_is_null`. In
    /// columns that are not text an empty field is NULL in any case.
    pub null_literal: Option<String>,
    /// Whether an empty, unquoted field of text is NULL where there is no `null_literal`; in Flink SQL it is not.
    pub empty_is_null: bool,
    /// Lines that begin with it are passed over.
    pub comment: Option<char>,
    /// The most bytes of a row, a limit on memory.
    pub max_row_bytes: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: ',',
            quote: Some('"'),
            header: false,
            null_literal: None,
            empty_is_null: true,
            comment: None,
            max_row_bytes: 16 << 20,
        }
    }
}

/// Options as bytes, checked.
#[derive(Clone, Debug)]
struct Dialect {
    delimiter: u8,
    quote: Option<u8>,
    null_literal: Option<Vec<u8>>,
    empty_is_null: bool,
    comment: Option<u8>,
    /// No value can be mistaken for one of the above: a field may be parsed before its end is looked for.
    plain: bool,
}

impl Dialect {
    fn new(options: &CsvOptions) -> Result<Self> {
        let delimiter = ascii("delimiter", options.delimiter)?;
        let quote = options.quote.map(|c| ascii("quote", c)).transpose()?;
        let comment = options.comment.map(|c| ascii("comment", c)).transpose()?;
        if quote == Some(delimiter) || comment == Some(delimiter) || (comment.is_some() && comment == quote) {
            return Err(Error::user("expected a delimiter, a quote and a comment character that differ"));
        }
        let null_literal = options.null_literal.clone().map(String::into_bytes);
        let in_values = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.: ".contains(&byte);
        let like_number = |byte: u8| byte.is_ascii_digit() || b"+-".contains(&byte);
        let null_start = null_literal.as_ref().and_then(|literal| literal.first());
        let plain =
            !in_values(delimiter) && !quote.is_some_and(in_values) && !null_start.is_some_and(|b| like_number(*b));
        Ok(Self { delimiter, quote, null_literal, empty_is_null: options.empty_is_null, comment, plain })
    }
}

fn ascii(what: &str, c: char) -> Result<u8> {
    match u8::try_from(c) {
        Ok(byte) if byte.is_ascii() && byte != b'\n' && byte != b'\r' => Ok(byte),
        _ => Err(Error::user(format!("expected one ASCII character for the {what}, found {c:?}"))),
    }
}
