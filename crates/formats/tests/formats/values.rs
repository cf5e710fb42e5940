//! Values as text.

use arrow_array::{Array, Date32Array, Float32Array, Float64Array, TimestampMillisecondArray};
use flott_formats::text::{Style, write_value};

fn text(array: &dyn Array, style: Style) -> String {
    let mut out = String::new();
    write_value(array, 0, style, &mut out).unwrap();
    out
}

#[test]
fn floats_as_java() {
    // What Java's Double.toString gives.
    for (value, expected) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.25, "-1.25"),
        (100.0, "100.0"),
        (123_456.789, "123456.789"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12_345_678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.0123, "0.0123"),
        (0.000_99, "9.9E-4"),
        (f64::MAX, "1.7976931348623157E308"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(text(&Float64Array::from(vec![value]), Style::Sql), expected);
    }
    assert_eq!(text(&Float32Array::from(vec![0.1f32]), Style::Sql), "0.1");
    assert_eq!(text(&Float32Array::from(vec![1.234_567e10f32]), Style::Sql), "1.234567E10");
}

#[test]
fn dates_and_times() {
    for (days, expected) in [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (19_782, "2024-02-29"),
        (-719_529, "-0001-12-31"),
        (2_932_897, "+10000-01-01"),
    ] {
        let found = text(&Date32Array::from(vec![days]), Style::Java);
        // Year 0 begins 719,528 days before 1970.
        assert_eq!(found, expected);
    }
    for (ms, sql, java) in [
        (0, "1970-01-01 00:00:00", "1970-01-01T00:00"),
        (60_000, "1970-01-01 00:01:00", "1970-01-01T00:01"),
        (1_000, "1970-01-01 00:00:01", "1970-01-01T00:00:01"),
        (120, "1970-01-01 00:00:00.12", "1970-01-01T00:00:00.120"),
        (-1, "1969-12-31 23:59:59.999", "1969-12-31T23:59:59.999"),
    ] {
        let array = TimestampMillisecondArray::from(vec![ms]);
        assert_eq!(text(&array, Style::Sql), sql);
        assert_eq!(text(&array, Style::Java), java);
    }
    let zoned = TimestampMillisecondArray::from(vec![0]).with_timezone("UTC");
    assert_eq!(text(&zoned, Style::Java), "1970-01-01T00:00:00Z");
}
