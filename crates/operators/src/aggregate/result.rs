//! From accumulators to the value of an aggregate function, with Flink's types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use flott_core::{Error, Result};

use super::Function;

/// The result of `function`, of type `gives`, from the accumulators it is made of.
pub(super) fn combine(function: Function, parts: &[ArrayRef], gives: &DataType) -> Result<ArrayRef> {
    match (function, parts) {
        (Function::Avg, [sum, count]) => average(sum, count.as_primitive(), gives),
        (_, [part]) => narrow(part, gives),
        _ => Err(Error::internal(format!("{function:?} of {} accumulators", parts.len()))),
    }
}

/// `values` as `gives`: integers keep their low bits (a sum of INTs wraps as INTs do), a decimal of more than
/// 38 digits is NULL.
fn narrow(values: &ArrayRef, gives: &DataType) -> Result<ArrayRef> {
    if let (DataType::Int64, DataType::Int8 | DataType::Int16 | DataType::Int32) = (values.data_type(), gives) {
        let wide = values.as_primitive::<Int64Type>();
        return Ok(match gives {
            DataType::Int8 => Arc::new(wide.unary::<_, Int8Type>(|v| v as i8)),
            DataType::Int16 => Arc::new(wide.unary::<_, Int16Type>(|v| v as i16)),
            _ => Arc::new(wide.unary::<_, Int32Type>(|v| v as i32)),
        });
    }
    match (values.data_type(), gives) {
        (DataType::Decimal128(..), DataType::Decimal128(precision, scale)) => {
            let decimals = values.as_primitive::<Decimal128Type>();
            let fitting = decimals.unary_opt::<_, Decimal128Type>(|v| (v.unsigned_abs() < LIMIT).then_some(v));
            Ok(Arc::new(fitting.with_precision_and_scale(*precision, *scale)?))
        }
        (has, gives) if has == gives => Ok(Arc::clone(values)),
        _ => Ok(arrow_cast::cast(values, gives)?),
    }
}

/// The first number with more than 38 digits.
const LIMIT: u128 = 10_u128.pow(DECIMAL128_MAX_PRECISION as u32);

fn average(sum: &ArrayRef, count: &Int64Array, gives: &DataType) -> Result<ArrayRef> {
    let average: ArrayRef = match sum.data_type() {
        DataType::Int64 => {
            let sums = sum.as_primitive::<Int64Type>().iter().zip(count.values());
            let averages = sums.map(|(sum, &count)| sum.filter(|_| count != 0).map(|sum| sum.wrapping_div(count)));
            Arc::new(averages.collect::<Int64Array>())
        }
        DataType::Float64 => {
            let sums = sum.as_primitive::<Float64Type>().iter().zip(count.values());
            Arc::new(sums.map(|(sum, &count)| sum.map(|sum| sum / count as f64)).collect::<Float64Array>())
        }
        DataType::Decimal128(_, scale) => {
            let DataType::Decimal128(precision, to_scale) = *gives else {
                return Err(Error::internal(format!("an average of decimals gives {gives}")));
            };
            let factor = 10_i128.pow(u32::from((to_scale - scale).unsigned_abs()));
            let sums = sum.as_primitive::<Decimal128Type>().iter().zip(count.values());
            let averages =
                sums.map(|(sum, &count)| sum.and_then(|sum| rounded_quotient(sum, factor, i128::from(count))));
            let averages = averages.collect::<Decimal128Array>().with_precision_and_scale(precision, to_scale)?;
            Arc::new(averages)
        }
        other => return Err(Error::internal(format!("an average of {other}"))),
    };
    narrow(&average, gives)
}

/// `sum × factor / count`, half rounded away from zero; `None` where it has more than 38 digits.
fn rounded_quotient(sum: i128, factor: i128, count: i128) -> Option<i128> {
    if count == 0 || sum.unsigned_abs() >= LIMIT {
        return None;
    }
    // In two steps, since sum × factor may not fit: the rest is smaller than count, which has at most 19 digits.
    let (whole, rest) = (sum / count, (sum % count).checked_mul(factor)?);
    let (part, rest) = (rest / count, rest % count);
    let up = if 2 * rest.abs() >= count { rest.signum() } else { 0 };
    whole.checked_mul(factor)?.checked_add(part + up).filter(|v| v.unsigned_abs() < LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_averaged_half_up() {
        // 0.01 / 3 = 0.003333…; 0.02 / 3 = 0.006667; -0.01 / 8 = -0.00125.
        assert_eq!(rounded_quotient(1, 10_000, 3), Some(3_333));
        assert_eq!(rounded_quotient(2, 10_000, 3), Some(6_667));
        assert_eq!(rounded_quotient(-1, 100, 8), Some(-13));
        assert_eq!(rounded_quotient(i128::MAX, 10_000, 1), None);
    }
}
