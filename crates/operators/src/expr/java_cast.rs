//! `CAST` between numbers as Java, and so Flink, does it where Arrow would fail: a whole number that does not fit keeps
//! its low bits, a floating-point number becomes the nearest whole one that fits (NaN: 0), and a decimal with too many
//! digits is NULL.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, exec_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

/// `CAST(value AS to)`.
#[derive(Debug, Eq)]
pub(super) struct JavaCast {
    value: Arc<dyn PhysicalExpr>,
    to: DataType,
}

// Derived, it does not compile: rust-lang/rust#78808.
impl PartialEq for JavaCast {
    fn eq(&self, other: &Self) -> bool {
        self.to == other.to && self.value.eq(&other.value)
    }
}

impl Hash for JavaCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to.hash(state);
        self.value.hash(state);
    }
}

/// Bytes of a signed whole number.
fn width(data_type: &DataType) -> Option<usize> {
    if data_type.is_signed_integer() { data_type.primitive_width() } else { None }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

impl JavaCast {
    /// Whether a cast between these types is one of those here.
    pub(super) fn takes(from: &DataType, to: &DataType) -> bool {
        match (from, to) {
            (DataType::Decimal128(..), DataType::Decimal128(..)) => from != to,
            (from, DataType::Decimal128(..)) => width(from).is_some() || is_float(from),
            (DataType::Decimal128(..), to) => width(to).is_some(),
            (from, to) => width(to).is_some_and(|to| is_float(from) || width(from).is_some_and(|from| from > to)),
        }
    }

    pub(super) fn new(value: Arc<dyn PhysicalExpr>, to: DataType) -> Self {
        Self { value, to }
    }

    #[expect(clippy::cast_lossless, reason = "one macro for all widths")]
    fn cast(&self, values: &ArrayRef) -> Result<ArrayRef> {
        macro_rules! narrow {
            ($values:expr, $from:ty) => {
                match self.to {
                    DataType::Int8 => each::<$from, Int8Type>($values, |v| v as i8),
                    DataType::Int16 => each::<$from, Int16Type>($values, |v| v as i16),
                    DataType::Int32 => each::<$from, Int32Type>($values, |v| v as i32),
                    _ => each::<$from, Int64Type>($values, |v| v as i64),
                }
            };
        }
        // Java goes to BYTE and SHORT by way of INT.
        macro_rules! round {
            ($values:expr, $from:ty) => {
                match self.to {
                    DataType::Int8 => each::<$from, Int8Type>($values, |v| v as i32 as i8),
                    DataType::Int16 => each::<$from, Int16Type>($values, |v| v as i32 as i16),
                    DataType::Int32 => each::<$from, Int32Type>($values, |v| v as i32),
                    _ => each::<$from, Int64Type>($values, |v| v as i64),
                }
            };
        }
        Ok(match (values.data_type(), &self.to) {
            (_, DataType::Decimal128(..)) => {
                cast_with_options(values, &self.to, &CastOptions { safe: true, ..CastOptions::default() })?
            }
            (DataType::Decimal128(_, scale), _) => {
                let one = 10_i128.pow(u32::from(scale.unsigned_abs()));
                let whole = values.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|v| v / one);
                let whole: ArrayRef = Arc::new(whole);
                narrow!(&whole, Decimal128Type)
            }
            (DataType::Int16, _) => narrow!(values, Int16Type),
            (DataType::Int32, _) => narrow!(values, Int32Type),
            (DataType::Int64, _) => narrow!(values, Int64Type),
            (DataType::Float32, _) => round!(values, Float32Type),
            (DataType::Float64, _) => round!(values, Float64Type),
            (from, to) => return exec_err!("a cast from {from} to {to}"),
        })
    }
}

fn each<F: ArrowPrimitiveType, T: ArrowPrimitiveType>(
    values: &ArrayRef,
    cast: impl Fn(F::Native) -> T::Native,
) -> ArrayRef {
    Arc::new(values.as_primitive::<F>().unary::<_, T>(cast))
}

impl fmt::Display for JavaCast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAST({} AS {})", self.value, self.to)
    }
}

impl PhysicalExpr for JavaCast {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.to.clone())
    }

    /// A decimal may be NULL where the number was none, unless it has room for all numbers of the type.
    fn nullable(&self, input: &Schema) -> Result<bool> {
        let DataType::Decimal128(precision, scale) = self.to else {
            return self.value.nullable(input);
        };
        let room = i32::from(precision) - i32::from(scale);
        let digits = match self.value.data_type(input)? {
            DataType::Int8 => 3,
            DataType::Int16 => 5,
            DataType::Int32 => 10,
            DataType::Int64 => 19,
            DataType::Decimal128(precision, from) if from <= scale => i32::from(precision) - i32::from(from),
            // Rounding may need another digit.
            DataType::Decimal128(precision, from) => i32::from(precision) - i32::from(from) + 1,
            _ => i32::MAX,
        };
        Ok(digits > room || self.value.nullable(input)?)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.value.evaluate(rows)?.into_array(rows.num_rows())?;
        Ok(ColumnarValue::Array(self.cast(&values)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 1]>::try_from(children) {
            Ok([value]) => Ok(Arc::new(Self { value, to: self.to.clone() })),
            Err(found) => exec_err!("a cast of {} operands", found.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
