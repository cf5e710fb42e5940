//! Comparisons of floating-point numbers as IEEE 754, and so Java and Flink, has them: `-0.0 = 0.0`, and NaN is not
//! equal to, less or greater than anything. Arrow's kernels order them totally instead, NaN and signed zeros included.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::PhysicalExpr;

/// `left op right` of two operands of one floating-point type.
#[derive(Debug, Eq)]
pub(super) struct FloatCompare {
    left: Arc<dyn PhysicalExpr>,
    op: Operator,
    right: Arc<dyn PhysicalExpr>,
}

// Derived, it does not compile: rust-lang/rust#78808.
impl PartialEq for FloatCompare {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for FloatCompare {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.left.hash(state);
        self.right.hash(state);
    }
}

impl FloatCompare {
    /// Whether this operator is one of those here.
    pub(super) fn takes(op: Operator) -> bool {
        use Operator::*;
        matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
    }

    pub(super) fn new(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Self {
        Self { left, op, right }
    }

    fn compare<T: ArrowPrimitiveType>(&self, left: &ArrayRef, right: &ArrayRef) -> Result<ColumnarValue>
    where
        T::Native: PartialOrd,
    {
        let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
        let values = match self.op {
            Operator::Eq => each(left, right, |l, r| l == r),
            Operator::NotEq => each(left, right, |l, r| l != r),
            Operator::Lt => each(left, right, |l, r| l < r),
            Operator::LtEq => each(left, right, |l, r| l <= r),
            Operator::Gt => each(left, right, |l, r| l > r),
            Operator::GtEq => each(left, right, |l, r| l >= r),
            other => return exec_err!("{other} compares no numbers"),
        };
        let nulls = NullBuffer::union(left.nulls(), right.nulls());
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(values, nulls))))
    }
}

fn each<T: ArrowPrimitiveType>(
    left: &PrimitiveArray<T>,
    right: &PrimitiveArray<T>,
    holds: impl Fn(T::Native, T::Native) -> bool,
) -> BooleanBuffer {
    let (left, right) = (left.values(), right.values());
    BooleanBuffer::collect_bool(left.len(), |row| holds(left[row], right[row]))
}

impl fmt::Display for FloatCompare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.op, self.right)
    }
}

impl PhysicalExpr for FloatCompare {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        Ok(self.left.nullable(input)? || self.right.nullable(input)?)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        let left = self.left.evaluate(rows)?.into_array(rows.num_rows())?;
        let right = self.right.evaluate(rows)?.into_array(rows.num_rows())?;
        match left.data_type() {
            DataType::Float32 => self.compare::<Float32Type>(&left, &right),
            DataType::Float64 => self.compare::<Float64Type>(&left, &right),
            other => exec_err!("{other} is no floating-point number"),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 2]>::try_from(children) {
            Ok([left, right]) => Ok(Arc::new(Self { left, op: self.op, right })),
            Err(found) => exec_err!("a comparison of {} operands", found.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
