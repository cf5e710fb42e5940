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
    let (mut value, mut at) = (0i64, start);
    if let Some(eight) = bytes.get(start..).and_then(|rest| rest.first_chunk()) {
        let (first, digits) = leading_digits(*eight);
        (value, at) = (first, start + digits);
        if digits < 8 {
            return (digits > 0).then_some((if negative { -value } else { value }, at));
        }
    }
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        if at - start == 18 {
            return None;
        }
        value = value * 10 + i64::from(digit);
        at += 1;
    }
    (at > start).then_some((if negative { -value } else { value }, at))
}

/// The number that up to eight digits at the start make, and how many they are: the bytes of one word at once.
#[inline]
fn leading_digits(eight: [u8; 8]) -> (i64, usize) {
    let word = u64::from_le_bytes(eight) ^ repeated(b'0');
    // A digit leaves the upper half of its byte zero, also with 6 added; a carry out of another byte goes to later ones.
    let others = (word | word.wrapping_add(repeated(6))) & repeated(0xf0);
    let digits = (others.trailing_zeros() / 8) as usize;
    if digits == 0 {
        return (0, 0);
    }
    // The digits go to the end of the word; zeros in front of them do not count.
    (eight_digits(word << (64 - 8 * digits)), digits)
}

const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The number of eight bytes from 0 to 9, the first in the lowest: neighbours are joined to pairs, pairs to fours,
/// fours to the eight (Lemire, "Number parsing at a gigabyte per second", 2021).
#[inline]
fn eight_digits(bytes: u64) -> i64 {
    const PAIRS: u64 = 0x0000_00ff_0000_00ff;
    let pairs = pairs(bytes);
    let high = (pairs & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & PAIRS).wrapping_mul(1 + (10_000 << 32));
    (high.wrapping_add(low) >> 32) as i64
}

/// Each byte times ten and the one after it; what is above the first of a pair is left to the caller to mask.
#[inline]
fn pairs(bytes: u64) -> u64 {
    bytes.wrapping_mul(10).wrapping_add(bytes >> 8)
}

/// `HH:MM:SS` as seconds of the day.
#[inline]
fn time_of_day(text: [u8; 8]) -> Option<i64> {
    let word = u64::from_le_bytes(text) ^ u64::from_le_bytes(*b"00:00:00");
    let colons = u64::from_le_bytes([0, 0, 0xff, 0, 0, 0xff, 0, 0]);
    if (word | word.wrapping_add(repeated(6))) & repeated(0xf0) != 0 || word & colons != 0 {
        return None;
    }
    let [hour, _, _, minute, _, _, second, _] = pairs(word).to_le_bytes().map(i64::from);
    (hour <= 23 && minute <= 59 && second <= 59).then_some(hour * 3600 + minute * 60 + second)
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
    let [b' ' | b'T', time @ ..] = bytes.get(10..19)? else { return None };
    let time = time_of_day(time.try_into().ok()?)?;
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
    let mut seconds = days * 86_400 + time;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_any_length_before_any_byte() {
        for digits in 1..=18 {
            let text = &"923456789012345678"[..digits];
            let value: i64 = text.parse().unwrap();
            for after in 0..=255u8 {
                for padding in 0..9 {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes.extend(std::iter::repeat_n(after, padding));
                    let expected = (!after.is_ascii_digit() || padding == 0).then_some((value, digits));
                    if let Some((value, length)) = expected {
                        assert_eq!(int_prefix(&bytes), Some((value, length)), "{text} {after} {padding}");
                        bytes.insert(0, b'-');
                        assert_eq!(int_prefix(&bytes), Some((-value, length + 1)), "-{text} {after} {padding}");
                    }
                }
            }
        }
        assert_eq!(int_prefix(b"1234567890123456789"), None);
        for none in [&b""[..], b"-", b",12345678", b"-,1234567", b"+1", b"--1"] {
            assert_eq!(int_prefix(none), None, "{}", none.escape_ascii());
        }
    }

    #[test]
    fn times_of_day_with_each_byte_replaced() {
        assert_eq!(time_of_day(*b"23:59:59"), Some(86_399));
        assert_eq!(time_of_day(*b"00:00:00"), Some(0));
        let digits = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok().filter(|_| text[0].is_ascii_digit());
        for at in 0..8 {
            for byte in 0..=255 {
                let mut text = *b"12:34:56";
                text[at] = byte;
                // The slow way.
                let parts = [&text[..2], &text[3..5], &text[6..]].map(digits);
                let expected = match parts {
                    [Some(h @ 0..24), Some(m @ 0..60), Some(s @ 0..60)] if text[2] == b':' && text[5] == b':' => {
                        Some(h * 3600 + m * 60 + s)
                    }
                    _ => None::<i64>,
                };
                assert_eq!(time_of_day(text), expected, "{}", text.escape_ascii());
            }
        }
    }
}
