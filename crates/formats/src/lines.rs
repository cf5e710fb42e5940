//! Lines of text as rows of one column `line`: [`LinesDecoder`].

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::builder::StringBuilder;
use arrow_schema::{DataType, Field, SchemaRef};
use flott_core::{Error, Result, schema_of};
use memchr::memchr;

use crate::{Decoded, Decoder, Input};

/// The most bytes of a line, a limit on memory.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// One column `line` (STRING NOT NULL): a line without its end (`\n` or `\r\n`). Empty lines are rows; what follows
/// the last `\n` is a row unless it is empty.
#[derive(Debug)]
pub struct LinesDecoder {
    schema: SchemaRef,
    input: Input,
}

impl Default for LinesDecoder {
    fn default() -> Self {
        Self { schema: schema(), input: Input::default() }
    }
}

/// The schema of lines.
pub fn schema() -> SchemaRef {
    schema_of(vec![Field::new("line", DataType::Utf8, false)])
}

impl Decoder for LinesDecoder {
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
        if !self.input.align() {
            return Ok(if self.input.is_finished() { Decoded::Finished } else { Decoded::NeedBytes });
        }
        let (rest, wanted) = (self.input.rest(), self.input.wanted());
        let mut lines = StringBuilder::new();
        let (mut at, mut rows) = (0, 0);
        let mut fault = None;
        while rows < max_rows.max(1) && at < wanted {
            let end = memchr(b'\n', &rest[at..]);
            if end.unwrap_or(rest.len() - at) > MAX_LINE_BYTES {
                fault =
                    Some(Error::user(format!("expected a line of at most {MAX_LINE_BYTES} bytes, found a longer one")));
                break;
            }
            let Some(length) = end else {
                break;
            };
            let line = &rest[at..at + length];
            match std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)) {
                Ok(line) => lines.append_value(line),
                Err(e) => {
                    let byte = line[e.valid_up_to()];
                    fault = Some(Error::user(format!("expected UTF-8, found the byte {byte:#04x}")));
                    break;
                }
            }
            at += length + 1;
            rows += 1;
        }
        if rows == 0 {
            return match fault {
                Some(fault) => Err(fault.at("line", self.input.line())),
                None if self.input.is_finished() => Ok(Decoded::Finished),
                None => Ok(Decoded::NeedBytes),
            };
        }
        self.input.advance(at, rows as u64);
        Ok(Decoded::Rows(RecordBatch::try_new(self.schema.clone(), vec![Arc::new(lines.finish())])?))
    }
}
