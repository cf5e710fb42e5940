//! Properties: what was written reads back, pieces do not matter, nothing panics.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use flott_formats::Decoder;
use flott_formats::csv::{CsvDecoder, CsvOptions, CsvWriter};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::support::{csv, drain, schema, shown, with_nullable};

const COLUMNS: &str = "i BIGINT, s STRING, f DOUBLE, b BOOLEAN, d DECIMAL(5,2), day DATE, t TIMESTAMP(3)";

type Row = (Option<i64>, Option<String>, Option<f64>, Option<bool>, Option<i128>, Option<i32>, Option<i64>);

fn row() -> impl Strategy<Value = Row> {
    // Days and milliseconds of the years 0000 to 9999.
    let (days, ms) = (-719_528..2_932_896i32, -62_167_219_200_000..253_402_300_799_999i64);
    (
        any::<Option<i64>>(),
        proptest::option::of("[a-z\"',;\n\r #ä€-]{0,30}"),
        proptest::option::of(any::<f64>().prop_filter("NaN is not equal to itself", |f| !f.is_nan())),
        any::<Option<bool>>(),
        proptest::option::of(-99_999..=99_999i128),
        proptest::option::of(days),
        proptest::option::of(ms),
    )
}

fn batch(rows: &[Row]) -> RecordBatch {
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.1.as_deref()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.3).collect::<BooleanArray>()),
        Arc::new(rows.iter().map(|r| r.4).collect::<Decimal128Array>().with_precision_and_scale(5, 2).unwrap()),
        Arc::new(rows.iter().map(|r| r.5).collect::<Date32Array>()),
        Arc::new(rows.iter().map(|r| r.6).collect::<TimestampMillisecondArray>()),
    ];
    RecordBatch::try_new(schema(COLUMNS), arrays).unwrap()
}

fn options() -> impl Strategy<Value = CsvOptions> {
    let null_literal = proptest::sample::select(vec![None, Some("NULL"), Some("\\N"), Some("a"), Some("")]);
    (
        proptest::sample::select(vec![',', ';', '\t', '|']),
        proptest::sample::select(vec!['"', '\'']),
        any::<bool>(),
        null_literal,
        proptest::option::of(Just('#')),
    )
        .prop_map(|(delimiter, quote, header, null_literal, comment)| CsvOptions {
            delimiter,
            quote: Some(quote),
            header,
            null_literal: null_literal.map(str::to_owned),
            comment,
            ..CsvOptions::default()
        })
}

/// Bytes that are nearly CSV.
fn nearly_csv() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        8 => proptest::sample::select(b"0123456789,,,,\n\n\"\"-:. \rTZ#e+".to_vec()),
        1 => any::<u8>(),
    ];
    proptest::collection::vec(byte, 0..200)
}

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_was_written_reads_back(
        rows in proptest::collection::vec(row(), 0..20),
        options in options(),
        piece in 1..300usize,
        max_rows in 1..8usize,
    ) {
        let rows = batch(&rows);
        let mut writer = CsvWriter::new(rows.schema(), &options).unwrap();
        let mut bytes = Vec::new();
        writer.write_header(&mut bytes);
        writer.write(&rows, &mut bytes).unwrap();
        let mut decoder = CsvDecoder::new(rows.schema(), &options).unwrap();
        let (batches, error) = drain(&mut decoder, &bytes, piece, max_rows);
        prop_assert_eq!(error, None);
        prop_assert_eq!(decoder.input().position(), bytes.len() as u64);
        let read = arrow_select::concat::concat_batches(&rows.schema(), &batches).unwrap();
        prop_assert_eq!(read, rows);
    }

    #[test]
    fn pieces_do_not_matter(
        bytes in nearly_csv(),
        piece in 1..20usize,
        max_rows in 1..5usize,
        delimiter in proptest::sample::select(vec![',', ':', '-', ' ']),
        nullable in any::<bool>(),
    ) {
        let options = CsvOptions { delimiter, comment: Some('#'), ..CsvOptions::default() };
        for columns in ["a BIGINT, b TIMESTAMP(3)", "a STRING", "a DOUBLE, b DECIMAL(5,2), c DATE", "a STRING, b STRING"] {
            let schema = with_nullable(&schema(columns), nullable);
            let mut whole = CsvDecoder::new(schema.clone(), &options).unwrap();
            let mut pieces = CsvDecoder::new(schema, &options).unwrap();
            let (expected, error) = drain(&mut whole, &bytes, usize::MAX, usize::MAX);
            let (found, same_error) = drain(&mut pieces, &bytes, piece, max_rows);
            prop_assert_eq!(shown(&found), shown(&expected));
            prop_assert_eq!(same_error, error);
        }
    }

    /// The rows by the hot path are the rows by the careful one, which a delimiter that may stand in values asks for.
    #[test]
    fn the_two_paths_agree(fields in proptest::collection::vec("[0-9TZ:. +-]{0,25}|-?[0-9]{1,20}|20[0-9]{2}-[01][0-9]-[0-3][0-9]( [0-2][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,10})?)?", 1..6)) {
        for data_type in ["BIGINT", "INT", "DATE", "TIMESTAMP(3)", "LTZ(3)"] {
            let columns = format!("a {data_type}");
            let plain = CsvOptions { delimiter: '|', ..CsvOptions::default() };
            let careful = CsvOptions { delimiter: 'x', ..CsvOptions::default() };
            for field in &fields {
                let run = |options| {
                    let (rows, error) = drain(&mut csv(&columns, options).unwrap(), field.as_bytes(), usize::MAX, 10);
                    (shown(&rows), error)
                };
                prop_assert_eq!(run(&plain), run(&careful));
            }
        }
    }
}
