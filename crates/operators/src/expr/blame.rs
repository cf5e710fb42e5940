//! Whose fault it is that an expression has no value: [`blame`] finds the innermost part that fails, and says on what.
//!
//! The way is slow, and taken once: the error ends the job.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use flott_core::{Error, Result, type_name};

use super::compile::{DIVIDED_BY_ZERO, evaluate, physical};
use super::text::operator_text;
use super::{BinaryOp, Expr, sql_text};

/// The error of `expr`, which fails on these rows, in the words of a user: of the first row that fails by itself.
pub(super) fn blame(expr: &Expr, rows: &RecordBatch, error: Error) -> Error {
    let failing =
        (0..rows.num_rows()).map(|at| rows.slice(at, 1)).find_map(|row| Some((value(expr, &row).err()?, row)));
    match failing {
        Some((error, row)) => of_row(expr, &row, error),
        None => error,
    }
}

fn value(expr: &Expr, rows: &RecordBatch) -> Result<ArrayRef> {
    evaluate(&physical(expr, &rows.schema())?, rows)
}

fn of_row(expr: &Expr, row: &RecordBatch, error: Error) -> Error {
    if let Some((part, error)) = failing_part(expr, row) {
        return of_row(part, row, error);
    }
    let message = match expr {
        Expr::Cast(inner, to) => not_cast(inner, to, row),
        Expr::Binary(_, left, right) if !error.message().starts_with(DIVIDED_BY_ZERO) => {
            not_computed(expr, left, right, row)
        }
        Expr::Negate(..) | Expr::Call { .. } | Expr::Like { .. } => with_operands(expr, row, error.message()),
        _ => None,
    };
    message.map_or(error, Error::user).at("expression", sql_text(expr, &row.schema()))
}

/// The first part that fails of those that are evaluated at all.
fn failing_part<'a>(expr: &'a Expr, row: &RecordBatch) -> Option<(&'a Expr, Error)> {
    let fails = |part: &'a Expr| Some((part, value(part, row).err()?));
    match expr {
        Expr::Column(_) | Expr::Literal(_) => None,
        Expr::Binary(_, left, right) => fails(left).or_else(|| fails(right)),
        Expr::Not(e)
        | Expr::Negate(e)
        | Expr::IsNull(e)
        | Expr::IsNotNull(e)
        | Expr::Cast(e, _)
        | Expr::TryCast(e, _) => fails(e),
        Expr::Case { operand, branches, otherwise } => {
            if let Some(failing) = operand.as_deref().and_then(fails) {
                return Some(failing);
            }
            for (when, then) in branches {
                if let Some(failing) = fails(when) {
                    return Some(failing);
                }
                if holds(operand.as_deref(), when, row) {
                    return fails(then);
                }
            }
            otherwise.as_deref().and_then(fails)
        }
        Expr::InList { value, list, .. } => fails(value).or_else(|| list.iter().find_map(fails)),
        Expr::Like { value, pattern, .. } => fails(value).or_else(|| fails(pattern)),
        Expr::Call { args, .. } => args.iter().find_map(fails),
    }
}

/// Whether the row takes the branch of this WHEN.
fn holds(operand: Option<&Expr>, when: &Expr, row: &RecordBatch) -> bool {
    let condition = match operand {
        Some(operand) => Expr::Binary(BinaryOp::Eq, Box::new(operand.clone()), Box::new(when.clone())),
        None => when.clone(),
    };
    value(&condition, row).is_ok_and(|holds| holds.as_boolean_opt().is_some_and(|b| b.is_valid(0) && b.value(0)))
}

/// What was expected and found by a cast; `None` where the value cannot be shown.
fn not_cast(inner: &Expr, to: &DataType, row: &RecordBatch) -> Option<String> {
    let value = value(inner, row).ok()?;
    let text = shown(&value)?;
    // Of a text that is no number at all, the limits are not what is wrong.
    let is_number = !matches!(value.data_type(), DataType::Utf8) || text.trim_matches('\'').parse::<f64>().is_ok();
    let limits = if is_number || !to.is_numeric() { limits(to) } else { String::new() };
    let of_type = match value.data_type() {
        DataType::Utf8 => String::new(),
        other => format!(" of type {}", type_name(other)),
    };
    Some(format!("expected {}{limits}, found {text}{of_type}", type_name(to)))
}

/// Of an operator whose result is outside its type.
fn not_computed(expr: &Expr, left: &Expr, right: &Expr, row: &RecordBatch) -> Option<String> {
    let Expr::Binary(op, ..) = expr else { return None };
    let to = physical(expr, &row.schema()).ok()?.data_type(&row.schema()).ok()?;
    let (left, right) = (shown(&value(left, row).ok()?)?, shown(&value(right, row).ok()?)?);
    Some(format!("expected {}{}, found {left} {} {right}", type_name(&to), limits(&to), operator_text(*op)))
}

/// The message of a function, with what it was given.
fn with_operands(expr: &Expr, row: &RecordBatch, message: &str) -> Option<String> {
    let operands: Vec<&Expr> = match expr {
        Expr::Negate(e) => vec![e],
        Expr::Like { value, pattern, .. } => vec![value, pattern],
        Expr::Call { args, .. } => args.iter().collect(),
        _ => return None,
    };
    let values: Option<Vec<String>> = operands.into_iter().map(|e| shown(&value(e, row).ok()?)).collect();
    Some(format!("{message}, found ({})", values?.join(", ")))
}

/// A value of one row; a text in quotes.
fn shown(value: &ArrayRef) -> Option<String> {
    let options = FormatOptions::default().with_null("NULL");
    let text = ArrayFormatter::try_new(value, &options).ok()?.value(0).try_to_string().ok()?;
    Some(if matches!(value.data_type(), DataType::Utf8) && value.is_valid(0) { format!("'{text}'") } else { text })
}

/// The least and the greatest value of a type, where a value that is well written may lie outside.
fn limits(data_type: &DataType) -> String {
    let (least, greatest) = match data_type {
        DataType::Int8 => ("-128", "127"),
        DataType::Int16 => ("-32768", "32767"),
        DataType::Int32 => ("-2147483648", "2147483647"),
        DataType::Int64 => ("-9223372036854775808", "9223372036854775807"),
        // Nanoseconds since 1970 in 64 bits.
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ("1677-09-21 00:12:43", "2262-04-11 23:47:16"),
        // The years that chrono, by which Arrow computes, can have.
        DataType::Timestamp(..) => ("the year -262143", "262142"),
        _ => return String::new(),
    };
    format!(" from {least} to {greatest}")
}
