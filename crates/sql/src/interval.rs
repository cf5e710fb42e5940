//! `INTERVAL '10' MINUTES` as a number: for watermarks and windows, which take a constant.

use sqlparser::ast::{DateTimeField, Expr, Interval, Value, ValueWithSpan};
use sqlparser::tokenizer::Span;

use crate::script::{Fault, Result};

/// Milliseconds of a day-time interval; one of months has no fixed length and is refused.
pub(crate) fn interval_millis(interval: &Interval, span: Span) -> Result<i64> {
    let expected = || Fault::new("expected an interval such as INTERVAL '10' MINUTE", span);
    let text = match &*interval.value {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text.trim(),
        _ => return Err(expected()),
    };
    if interval.last_field.is_some() {
        return Err(Fault::unsupported("an interval of several units", span));
    }
    let unit = match &interval.leading_field {
        Some(DateTimeField::Day | DateTimeField::Days) => 86_400_000,
        Some(DateTimeField::Hour | DateTimeField::Hours) => 3_600_000,
        Some(DateTimeField::Minute | DateTimeField::Minutes) => 60_000,
        Some(DateTimeField::Second | DateTimeField::Seconds) => 1_000,
        Some(field) => {
            return Err(Fault::new(format!("expected an interval of days to seconds, found one of {field}"), span));
        }
        None => return Err(expected()),
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let fraction_fits = fraction.is_empty() || (unit == 1_000 && fraction.len() <= 3);
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || !fraction_fits {
        return Err(expected());
    }
    let millis: i64 = format!("{fraction:0<3}").parse().map_err(|_| expected())?;
    let whole: Option<i64> = whole.parse().ok();
    let total = whole.and_then(|n| n.checked_mul(unit)).and_then(|ms| ms.checked_add(millis));
    total.map(|ms| ms * sign).ok_or_else(|| Fault::new("the interval is too long", span))
}
