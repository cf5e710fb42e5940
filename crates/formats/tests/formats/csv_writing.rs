//! Tables: rows in, CSV as Flink quotes it out.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use flott_core::Result;
use flott_formats::csv::{CsvOptions, CsvWriter};

use super::support::schema;

fn write(columns: &str, arrays: Vec<ArrayRef>, options: &CsvOptions) -> Result<String> {
    let rows = RecordBatch::try_new(schema(columns), arrays)?;
    let mut writer = CsvWriter::new(rows.schema(), options)?;
    let mut out = Vec::new();
    writer.write_header(&mut out);
    writer.write(&rows, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(values.iter().copied().collect::<StringArray>())
}

#[test]
fn text() {
    // A quote is due at a character up to ',' and beyond 24 characters: Jackson's loose check.
    for (value, expected) in [
        ("abc", "abc"),
        ("a b", "\"a b\""),
        ("a,b", "\"a,b\""),
        ("a\"b,c", "\"a\"\"b,c\""),
        ("a\nb", "\"a\nb\""),
        ("a-b", "a-b"),
        ("a+b", "\"a+b\""),
        ("", "\"\""),
        ("123456789012345678901234", "123456789012345678901234"),
        ("1234567890123456789012345", "\"1234567890123456789012345\""),
        ("ä€", "ä€"),
    ] {
        let found = write("a STRING", vec![strings(&[Some(value)])], &CsvOptions::default()).unwrap();
        assert_eq!(found, format!("{expected}\n"));
    }
}

#[test]
fn other_types() {
    let found = write(
        "n BIGINT, d DOUBLE, t TIMESTAMP(3), s STRING",
        vec![
            Arc::new(Int64Array::from(vec![Some(-5), None])),
            Arc::new(Float64Array::from(vec![100.0, 1.5e-7])),
            Arc::new(TimestampMillisecondArray::from(vec![0, 1_500])),
            strings(&[None, Some("x")]),
        ],
        &CsvOptions { header: true, ..CsvOptions::default() },
    );
    let expected = "n,d,t,s\n-5,100.0,\"1970-01-01 00:00:00\",\n,1.5E-7,\"1970-01-01 00:00:01.5\",x\n";
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn what_would_read_back_differently() {
    let literal = CsvOptions { null_literal: Some("N".into()), ..CsvOptions::default() };
    assert_eq!(write("a STRING", vec![strings(&[None, Some("N")])], &literal).unwrap(), "N\n\"N\"\n");
    let one_null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    assert_eq!(write("a BIGINT", vec![one_null], &CsvOptions::default()).unwrap(), "\"\"\n");
    let found = write("a STRING", vec![strings(&[None])], &CsvOptions::default()).unwrap_err();
    assert_eq!(found.message(), "a row of one NULL has no form in CSV: set a null literal");
    let bare = CsvOptions { quote: None, ..CsvOptions::default() };
    assert_eq!(write("a STRING", vec![strings(&[Some("a b")])], &bare).unwrap(), "a b\n");
    let found = write("a STRING", vec![strings(&[Some("a,b")])], &bare).unwrap_err();
    assert_eq!(found.message(), "'a,b' needs quotes in CSV, and there are to be none");
    let number: ArrayRef = Arc::new(Int64Array::from(vec![-5]));
    let dash = CsvOptions { delimiter: '-', ..CsvOptions::default() };
    assert_eq!(write("a BIGINT", vec![number.clone()], &dash).unwrap(), "\"-5\"\n");
    assert_eq!(number.len(), 1);
}

#[test]
fn types_without_a_form() {
    let found = CsvWriter::new(schema("a BYTES"), &CsvOptions::default()).unwrap_err();
    assert_eq!(found.to_string(), "CSV has no form for the type BYTES (column a)");
}
