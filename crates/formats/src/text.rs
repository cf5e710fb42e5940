//! Single values as text, as Flink prints them.
//!
//! Two styles differ in dates with times: SQL's `2024-01-01 00:00:00` and Java's `2024-01-01T00:00`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use flott_core::{Result, RowKind};

use crate::civil::civil_from_days;

/// How dates with times are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `2024-01-01 00:00:00.5`: digits of the fraction as needed.
    Sql,
    /// As Java's `LocalDateTime` and `Instant`: `2024-01-01T00:00`, `2024-01-01T00:00:01.500`.
    Java,
}

/// A row as Flink prints a `Row`: `+I[1, abc, null]`.
pub fn write_row(columns: &RecordBatch, row: usize, kind: RowKind, out: &mut String) -> Result<()> {
    out.push_str(kind.as_str());
    out.push('[');
    for (index, column) in columns.columns().iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if column.is_null(row) {
            out.push_str("null");
        } else {
            write_value(column.as_ref(), row, Style::Java, out)?;
        }
    }
    out.push(']');
    Ok(())
}

/// A value that is not NULL.
pub fn write_value(array: &dyn Array, row: usize, style: Style, out: &mut String) -> Result<()> {
    match array.data_type() {
        DataType::Int8 => show::<Int8Type>(array, row, out),
        DataType::Int16 => show::<Int16Type>(array, row, out),
        DataType::Int32 => show::<Int32Type>(array, row, out),
        DataType::Int64 => show::<Int64Type>(array, row, out),
        DataType::UInt8 => show::<UInt8Type>(array, row, out),
        DataType::UInt16 => show::<UInt16Type>(array, row, out),
        DataType::UInt32 => show::<UInt32Type>(array, row, out),
        DataType::UInt64 => show::<UInt64Type>(array, row, out),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            write_float(f64::from(value), &format!("{value:e}"), out);
        }
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            write_float(value, &format!("{value:e}"), out);
        }
        DataType::Boolean => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
        DataType::Decimal128(..) => out.push_str(&array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Date32 => write_date(array.as_primitive::<Date32Type>().value(row).into(), out),
        DataType::Timestamp(unit, zone) => {
            let (value, per_second) = match unit {
                TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().value(row), 1),
                TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().value(row), 1_000),
                TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000_000),
                TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), 1_000_000_000),
            };
            write_timestamp(value, per_second, zone.is_some(), style, out);
        }
        _ => {
            let options = FormatOptions::default().with_null("null");
            out.push_str(&ArrayFormatter::try_new(array, &options)?.value(row).try_to_string()?);
        }
    }
    Ok(())
}

fn show<T: ArrowPrimitiveType>(array: &dyn Array, row: usize, out: &mut String)
where
    T::Native: itoa::Integer,
{
    out.push_str(itoa::Buffer::new().format(array.as_primitive::<T>().value(row)));
}

/// As Java's `Double.toString`: plain from 10^-3 to below 10^7, else with an exponent. `scientific` is the shortest
/// form with an exponent, `d.ddde±n`.
fn write_float(value: f64, scientific: &str, out: &mut String) {
    if !value.is_finite() {
        out.push_str(match value {
            v if v.is_nan() => "NaN",
            v if v > 0.0 => "Infinity",
            _ => "-Infinity",
        });
        return;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let padded = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    out.push_str(sign);
    let plain = match exponent {
        0..=6 => {
            let point = usize::try_from(exponent).unwrap_or(0) + 1;
            let digits = format!("{digits:0<point$}");
            format!("{}.{}", &digits[..point], padded(&digits[point..]))
        }
        -3..=-1 => format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
        _ => format!("{}.{}E{exponent}", &digits[..1], padded(&digits[1..])),
    };
    out.push_str(&plain);
}

/// A number from 0 on with at least `width` digits.
fn push_padded(number: i64, width: usize, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    out.extend(std::iter::repeat_n('0', width.saturating_sub(digits.len())));
    out.push_str(digits);
}

fn write_date(days: i64, out: &mut String) {
    let (year, month, day) = civil_from_days(days);
    match year {
        0..=9999 => {}
        10_000.. => out.push('+'),
        _ => out.push('-'),
    }
    push_padded(year.abs(), 4, out);
    out.push('-');
    push_padded(month, 2, out);
    out.push('-');
    push_padded(day, 2, out);
}

fn write_timestamp(value: i64, per_second: i64, zoned: bool, style: Style, out: &mut String) {
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    write_date(day, out);
    out.push(if style == Style::Sql { ' ' } else { 'T' });
    push_padded(second / 3600, 2, out);
    out.push(':');
    push_padded(second / 60 % 60, 2, out);
    // LocalDateTime leaves out seconds that are zero, Instant does not; both write fractions in threes.
    if style == Style::Sql || zoned || second % 60 != 0 || fraction != 0 {
        out.push(':');
        push_padded(second % 60, 2, out);
    }
    if fraction != 0 {
        out.push('.');
        let start = out.len();
        push_padded(fraction * (1_000_000_000 / per_second), 9, out);
        let digits = out.trim_end_matches('0').len() - start;
        out.truncate(start + if style == Style::Sql { digits } else { digits.div_ceil(3) * 3 });
    }
    if zoned {
        out.push('Z');
    }
}
