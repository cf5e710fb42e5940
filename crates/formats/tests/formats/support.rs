//! Decoding a text at once or in pieces, and rows as text.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use flott_core::{Result, RowKind, schema_of};
use flott_formats::csv::{CsvDecoder, CsvOptions};
use flott_formats::{Decoded, Decoder, text};

/// `name TYPE` pairs, with `!` for NOT NULL: `a BIGINT, b STRING!`.
pub(crate) fn schema(columns: &str) -> SchemaRef {
    let mut fields = Vec::new();
    for column in columns.split(", ") {
        let (name, type_name) = column.split_once(' ').unwrap();
        let nullable = !type_name.ends_with('!');
        let data_type = match type_name.trim_end_matches('!') {
            "TINYINT" => DataType::Int8,
            "SMALLINT" => DataType::Int16,
            "INT" => DataType::Int32,
            "BIGINT" => DataType::Int64,
            "U8" => DataType::UInt8,
            "U64" => DataType::UInt64,
            "FLOAT" => DataType::Float32,
            "DOUBLE" => DataType::Float64,
            "BOOLEAN" => DataType::Boolean,
            "STRING" => DataType::Utf8,
            "DECIMAL(5,2)" => DataType::Decimal128(5, 2),
            "DECIMAL(38,0)" => DataType::Decimal128(38, 0),
            "DATE" => DataType::Date32,
            "TIMESTAMP(0)" => DataType::Timestamp(TimeUnit::Second, None),
            "TIMESTAMP(3)" => DataType::Timestamp(TimeUnit::Millisecond, None),
            "TIMESTAMP(9)" => DataType::Timestamp(TimeUnit::Nanosecond, None),
            "LTZ(3)" => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            "LTZ(3)Berlin" => DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into())),
            "BYTES" => DataType::Binary,
            other => panic!("no type {other}"),
        };
        fields.push(Field::new(name, data_type, nullable));
    }
    schema_of(fields)
}

/// Rows as `[a, b]`, joined by blanks.
pub(crate) fn shown(batches: &[RecordBatch]) -> String {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            text::write_row(batch, row, RowKind::Insert, &mut line).unwrap();
            rows.push(line.trim_start_matches("+I").to_owned());
        }
    }
    rows.join(" ")
}

/// All batches of `decoder` over `bytes`, fed in pieces of `piece` bytes; and the error, if it ends in one.
pub(crate) fn drain(
    decoder: &mut dyn Decoder,
    bytes: &[u8],
    piece: usize,
    max_rows: usize,
) -> (Vec<RecordBatch>, Option<flott_core::Error>) {
    let mut pieces = bytes.chunks(piece.max(1));
    let mut batches = Vec::new();
    loop {
        match decoder.decode(max_rows) {
            Ok(Decoded::Rows(batch)) => {
                assert!((1..=max_rows).contains(&batch.num_rows()));
                batches.push(batch);
            }
            Ok(Decoded::NeedBytes) => match pieces.next() {
                Some(piece) => decoder.input_mut().feed(piece),
                None => decoder.input_mut().end(),
            },
            Ok(Decoded::Finished) => return (batches, None),
            Err(error) => return (batches, Some(error)),
        }
    }
}

pub(crate) fn csv(columns: &str, options: &CsvOptions) -> Result<CsvDecoder> {
    CsvDecoder::new(schema(columns), options)
}

/// Rows, then the error.
pub(crate) fn decode(columns: &str, options: &CsvOptions, bytes: &[u8], piece: usize) -> String {
    let mut decoder = match csv(columns, options) {
        Ok(decoder) => decoder,
        Err(error) => return format!("refused: {error}"),
    };
    let (batches, error) = drain(&mut decoder, bytes, piece, 2);
    let rows = shown(&batches);
    match error {
        None => {
            assert_eq!(decoder.input().position(), bytes.len() as u64, "all bytes are accounted for");
            rows
        }
        Some(error) if rows.is_empty() => format!("error: {error}"),
        Some(error) => format!("{rows} error: {error}"),
    }
}

/// Another schema with all columns nullable or not.
pub(crate) fn with_nullable(schema: &Schema, nullable: bool) -> SchemaRef {
    schema_of(schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(nullable)).collect())
}
