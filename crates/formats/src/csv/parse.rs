//! Values out of bytes: whole numbers, decimals, dates, timestamps.
//!
//! The functions `*_prefix` are the hot path: they read a value from the start of some bytes, before its end is
//! known, and say how long it was.

use arrow_schema::TimeUnit;

use crate::civil::{days_from_civil, days_in_month};

/// A whole number of up to 18 digits and its length.
pub(super) fn int_prefix(bytes: &[u8]) -> Option<(i64, usize)> {
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let mut value = 0i64;
    let mut at = start;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        if at - start == 18 {
            return None;
        }
        value = value * 10 + i64::from(digit);
        at += 1;
    }
    (at > start).then_some((if negative { -value } else { value }, at))
}

/// Exactly `N` digits at `at`.
fn digits<const N: usize>(bytes: &[u8], at: usize) -> Option<i64> {
    let text: &[u8; N] = bytes.get(at..at + N)?.try_into().ok()?;
    let mut value = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(value)
}

/// `YYYY-MM-DD` as days since the epoch.
pub(super) fn date_prefix(bytes: &[u8]) -> Option<i64> {
    let year = digits::<4>(bytes, 0)?;
    let month = digits::<2>(bytes, 5)?;
    let day = digits::<2>(bytes, 8)?;
    let valid = bytes[4] == b'-' && bytes[7] == b'-' && (1..=days_in_month(year, month)).contains(&day);
    valid.then(|| days_from_civil(year, month, day))
}

/// How timestamps are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimestampForm {
    /// Units in a second.
    pub(super) per_second: i64,
    /// Digits of a fraction that fit the unit.
    pub(super) scale: u32,
    /// Whether a zone may follow (`Z` always may), and whether it must.
    pub(super) offset_allowed: bool,
    pub(super) zone_needed: bool,
}

impl TimestampForm {
    pub(super) fn new(unit: TimeUnit, zone: Option<&str>) -> Self {
        let scale = match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        };
        let utc = zone.is_none_or(|zone| matches!(zone, "UTC" | "Z" | "+00:00" | "+00"));
        Self { per_second: 10i64.pow(scale), scale, offset_allowed: zone.is_some(), zone_needed: !utc }
    }
}

/// The day last seen: rows of a stream are mostly of the same day as the row before.
#[derive(Clone, Debug, Default)]
pub(super) struct LastDay {
    text: [u8; 10],
    days: i64,
}

impl LastDay {
    fn days(&mut self, bytes: &[u8]) -> Option<i64> {
        let text: &[u8; 10] = bytes.get(..10)?.try_into().ok()?;
        if *text != self.text {
            self.days = date_prefix(text)?;
            self.text = *text;
        }
        Some(self.days)
    }
}

/// `YYYY-MM-DD HH:MM:SS[.fraction][zone]` with a blank or `T` in the middle, and its length. Digits of the fraction
/// beyond the unit are cut off, as Flink does.
pub(super) fn timestamp_prefix(bytes: &[u8], form: TimestampForm, last: &mut LastDay) -> Option<(i64, usize)> {
    let days = last.days(bytes)?;
    let time: &[u8; 9] = bytes.get(10..19)?.try_into().ok()?;
    let (hour, minute, second) = (digits::<2>(time, 1)?, digits::<2>(time, 4)?, digits::<2>(time, 7)?);
    let separated = (time[0] == b' ' || time[0] == b'T') && time[3] == b':' && time[6] == b':';
    if !separated || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (mut at, mut fraction, mut missing) = (19, 0, form.scale);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let start = at;
        while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
            if missing > 0 {
                fraction = fraction * 10 + i64::from(digit);
                missing -= 1;
            }
            at += 1;
        }
        if at == start || at - start > 9 {
            return None;
        }
    }
    let mut seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    match bytes.get(at) {
        Some(b'Z') => at += 1,
        Some(sign @ (b'+' | b'-')) if form.offset_allowed => {
            let (hours, minutes) = (digits::<2>(bytes, at + 1)?, digits::<2>(bytes, at + 4)?);
            if bytes[at + 3] != b':' || hours > 18 || minutes > 59 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            seconds -= if *sign == b'+' { offset } else { -offset };
            at += 6;
        }
        _ if form.zone_needed => return None,
        _ => {}
    }
    let value = seconds.checked_mul(form.per_second)?.checked_add(fraction * 10i64.pow(missing))?;
    Some((value, at))
}

/// A decimal number as a multiple of 10^-scale, rounded half away from zero (Flink's `HALF_UP`); `None` if it is no
/// number or has more than `precision` digits.
pub(super) fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The value is the digits of whole and fraction × 10^(exponent − fraction's length): keep as many of the digits
    // as stand before the last place of the scale, and round by the next one.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let mut value = 0i128;
    let mut digits = whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
    for _ in 0..kept.max(0) {
        let digit = match digits.next() {
            Some(digit) => digit,
            None if value == 0 => break,
            None => 0,
        };
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    if kept >= 0 && digits.next().is_some_and(|next| next >= 5) {
        value += 1;
    }
    let fits = value < 10i128.checked_pow(u32::from(precision))?;
    fits.then_some(if negative { -value } else { value })
}
