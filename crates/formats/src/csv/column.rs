//! A column that grows by one field at a time: [`Column`].

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Field, TimeUnit};
use flott_core::{Error, Result, type_name};

use super::Dialect;
use super::fields::shown;
use super::parse::{LastDay, TimestampForm, date_prefix, decimal, int_prefix, timestamp_prefix};

/// Values of one column. The narrow types are kept wide until the batch is made.
#[derive(Debug)]
enum Values {
    Int {
        values: Vec<i64>,
        min: i64,
        max: i64,
    },
    Unsigned {
        values: Vec<u64>,
        max: u64,
    },
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Bool(BooleanBufferBuilder),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Date(Vec<i64>),
    Timestamp {
        values: Vec<i64>,
        form: TimestampForm,
        last: LastDay,
    },
    /// `offsets` has one entry more than there are rows.
    Text {
        bytes: Vec<u8>,
        offsets: Vec<i32>,
    },
}

/// A growing column.
#[derive(Debug)]
pub(super) struct Column {
    field: Arc<Field>,
    values: Values,
    nulls: NullBufferBuilder,
}

impl Column {
    pub(super) fn new(field: &Arc<Field>) -> Result<Self> {
        let int = |min, max| Values::Int { values: Vec::new(), min, max };
        let unsigned = |max| Values::Unsigned { values: Vec::new(), max };
        let values = match field.data_type() {
            DataType::Int8 => int(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => int(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => int(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => int(i64::MIN, i64::MAX),
            DataType::UInt8 => unsigned(u8::MAX.into()),
            DataType::UInt16 => unsigned(u16::MAX.into()),
            DataType::UInt32 => unsigned(u32::MAX.into()),
            DataType::UInt64 => unsigned(u64::MAX),
            DataType::Float32 => Values::Float32(Vec::new()),
            DataType::Float64 => Values::Float64(Vec::new()),
            DataType::Boolean => Values::Bool(BooleanBufferBuilder::new(0)),
            DataType::Decimal128(precision, scale) => {
                Values::Decimal { values: Vec::new(), precision: *precision, scale: *scale }
            }
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Timestamp(unit, zone) => Values::Timestamp {
                values: Vec::new(),
                form: TimestampForm::new(*unit, zone.as_deref()),
                last: LastDay::default(),
            },
            DataType::Utf8 => Values::Text { bytes: Vec::new(), offsets: vec![0] },
            other => {
                return Err(Error::user(format!("CSV has no form for the type {}", type_name(other)))
                    .at("column", field.name()));
            }
        };
        Ok(Self { field: field.clone(), values, nulls: NullBufferBuilder::new(0) })
    }

    /// Makes room for `rows` more.
    pub(super) fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::Int { values, .. } | Values::Date(values) | Values::Timestamp { values, .. } => {
                values.reserve(rows);
            }
            Values::Unsigned { values, .. } => values.reserve(rows),
            Values::Float64(values) => values.reserve(rows),
            Values::Float32(values) => values.reserve(rows),
            Values::Decimal { values, .. } => values.reserve(rows),
            Values::Text { offsets, .. } => offsets.reserve(rows),
            Values::Bool(_) => {}
        }
    }

    /// Appends the value that `bytes` begin with, if it is a plain one that ends in a delimiter or the end of the
    /// line; answers its length. `None`: look closer.
    #[inline]
    pub(super) fn append_prefix(&mut self, bytes: &[u8], delimiter: u8) -> Option<usize> {
        let ends = |length: usize| bytes.get(length).is_some_and(|b| *b == delimiter || *b == b'\n');
        let length = match &mut self.values {
            Values::Int { values, min, max } => {
                let (value, length) = int_prefix(bytes)?;
                if !ends(length) || value < *min || value > *max {
                    return None;
                }
                values.push(value);
                length
            }
            Values::Timestamp { values, form, last } => {
                let (value, length) = timestamp_prefix(bytes, *form, last)?;
                if !ends(length) {
                    return None;
                }
                values.push(value);
                length
            }
            Values::Date(values) => {
                let value = date_prefix(bytes)?;
                if !ends(10) {
                    return None;
                }
                values.push(value);
                10
            }
            _ => return None,
        };
        self.nulls.append_non_null();
        Some(length)
    }

    /// Appends a field.
    pub(super) fn append(&mut self, text: &[u8], quoted: bool, dialect: &Dialect) -> Result<()> {
        if self.is_null(text, quoted, dialect) {
            if !self.field.is_nullable() {
                let null = format!("NULL '{}'", shown(text));
                return Err(self.error(if text.is_empty() { "an empty field" } else { &null }));
            }
            self.append_null();
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(self.error(&format!("bytes that are no UTF-8: '{}'", shown(text))));
        };
        if !self.append_text(text) {
            return Err(self.error(&format!("'{}'", shown(text.as_bytes()))));
        }
        self.nulls.append_non_null();
        Ok(())
    }

    fn is_null(&self, text: &[u8], quoted: bool, dialect: &Dialect) -> bool {
        if let Values::Text { .. } = self.values {
            return !quoted
                && match &dialect.null_literal {
                    Some(literal) => text == literal,
                    None => dialect.empty_is_null && text.is_empty() && self.field.is_nullable(),
                };
        }
        text.is_empty() || dialect.null_literal.as_ref().is_some_and(|literal| text == literal)
    }

    fn append_null(&mut self) {
        match &mut self.values {
            Values::Int { values, .. } | Values::Date(values) | Values::Timestamp { values, .. } => values.push(0),
            Values::Unsigned { values, .. } => values.push(0),
            Values::Float64(values) => values.push(0.0),
            Values::Float32(values) => values.push(0.0),
            Values::Bool(values) => values.append(false),
            Values::Decimal { values, .. } => values.push(0),
            Values::Text { bytes, offsets } => offsets.push(end_of(bytes)),
        }
        self.nulls.append_null();
    }

    /// False if the text is no value of the type. Blanks around values other than text are passed over, as Flink does.
    fn append_text(&mut self, text: &str) -> bool {
        let trimmed = text.trim_matches(' ');
        match &mut self.values {
            Values::Int { values, min, max } => {
                push(values, trimmed.parse().ok().filter(|value| (*min..=*max).contains(value)))
            }
            Values::Unsigned { values, max } => push(values, trimmed.parse().ok().filter(|value| *value <= *max)),
            Values::Float64(values) => push(values, trimmed.parse().ok()),
            Values::Float32(values) => push(values, trimmed.parse().ok()),
            Values::Bool(values) => {
                let value = trimmed.eq_ignore_ascii_case("true");
                let known = value || trimmed.eq_ignore_ascii_case("false");
                if known {
                    values.append(value);
                }
                known
            }
            Values::Decimal { values, precision, scale } => push(values, decimal(trimmed, *precision, *scale)),
            Values::Date(values) => push(values, date_prefix(trimmed.as_bytes()).filter(|_| trimmed.len() == 10)),
            Values::Timestamp { values, form, last } => {
                let value = timestamp_prefix(trimmed.as_bytes(), *form, last);
                push(values, value.filter(|(_, length)| *length == trimmed.len()).map(|(value, _)| value))
            }
            Values::Text { bytes, offsets } => {
                bytes.extend_from_slice(text.as_bytes());
                offsets.push(end_of(bytes));
                i32::try_from(bytes.len()).is_ok()
            }
        }
    }

    fn error(&self, found: &str) -> Error {
        let expected = type_name(self.field.data_type());
        let not_null = if self.field.is_nullable() { "" } else { " NOT NULL" };
        Error::user(format!("expected {expected}{not_null}, found {found}")).at("column", self.field.name())
    }

    /// Forgets all but the first `rows`.
    pub(super) fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Int { values, .. } | Values::Date(values) | Values::Timestamp { values, .. } => {
                values.truncate(rows);
            }
            Values::Unsigned { values, .. } => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Float32(values) => values.truncate(rows),
            Values::Bool(values) => values.truncate(rows),
            Values::Decimal { values, .. } => values.truncate(rows),
            Values::Text { bytes, offsets } => {
                offsets.truncate(rows + 1);
                bytes.truncate(offsets.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0)));
            }
        }
        self.nulls.truncate(rows);
    }

    /// The rows so far; the column is empty then.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        let data_type = self.field.data_type();
        Ok(match &mut self.values {
            Values::Int { values, .. } | Values::Date(values) | Values::Timestamp { values, .. } => {
                ints(std::mem::take(values), nulls, data_type)?
            }
            Values::Unsigned { values, .. } => {
                let values = std::mem::take(values);
                match data_type {
                    DataType::UInt8 => narrow::<UInt8Type, _>(&values, nulls),
                    DataType::UInt16 => narrow::<UInt16Type, _>(&values, nulls),
                    DataType::UInt32 => narrow::<UInt32Type, _>(&values, nulls),
                    _ => primitive::<UInt64Type>(values, nulls, data_type)?,
                }
            }
            Values::Float64(values) => primitive::<Float64Type>(std::mem::take(values), nulls, data_type)?,
            Values::Float32(values) => primitive::<Float32Type>(std::mem::take(values), nulls, data_type)?,
            Values::Bool(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Decimal { values, precision, scale } => Arc::new(
                Decimal128Array::try_new(std::mem::take(values).into(), nulls)?
                    .with_precision_and_scale(*precision, *scale)?,
            ),
            Values::Text { bytes, offsets } => {
                let offsets = OffsetBuffer::new(std::mem::replace(offsets, vec![0]).into());
                Arc::new(StringArray::try_new(offsets, std::mem::take(bytes).into(), nulls)?)
            }
        })
    }
}

fn push<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
    value.map(|value| values.push(value)).is_some()
}

/// Saturates: a text column of a batch over 2 GiB is refused where it grows.
fn end_of(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values.into(), nulls)?.with_data_type(data_type.clone())))
}

/// Values were checked to fit when they were parsed.
fn narrow<T: ArrowPrimitiveType, W: Copy>(values: &[W], nulls: Option<NullBuffer>) -> ArrayRef
where
    T::Native: TryFrom<W>,
{
    let values: Vec<T::Native> = values.iter().map(|v| T::Native::try_from(*v).unwrap_or_default()).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

fn ints(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    match data_type {
        DataType::Int8 => Ok(narrow::<Int8Type, _>(&values, nulls)),
        DataType::Int16 => Ok(narrow::<Int16Type, _>(&values, nulls)),
        DataType::Int32 => Ok(narrow::<Int32Type, _>(&values, nulls)),
        DataType::Date32 => Ok(narrow::<Date32Type, _>(&values, nulls)),
        DataType::Timestamp(TimeUnit::Second, _) => primitive::<TimestampSecondType>(values, nulls, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(values, nulls, data_type)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(values, nulls, data_type)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive::<TimestampNanosecondType>(values, nulls, data_type),
        _ => primitive::<Int64Type>(values, nulls, data_type),
    }
}
