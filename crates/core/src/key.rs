//! Keys: which types may be keys, their canonical words, the frozen hash, and key groups.
//!
//! The hash decides which task owns a key and is part of every savepoint, so it is frozen by golden tests
//! (`tests/all/key_golden.rs`). Canonical form, per declared type:
//!
//! | type | words of the hash |
//! |---|---|
//! | boolean, integers, date, time, timestamp, duration | the value, sign-extended to 64 bits |
//! | floats | bits of the `f64`, after −0.0 → 0.0 and any NaN → the one quiet NaN |
//! | decimal | low and high 64 bits of the unscaled value (the scale belongs to the type) |
//! | string, bytes | the length, then 8 bytes at a time, little-endian, the last padded with zeros |
//! | NULL | one word that no value is mixed the same way as |
//!
//! `h = fmix64(h ^ word)` for each word, beginning with [`SEED`]; `fmix64` is MurmurHash3's finaliser (Appleby,
//! public domain). The key group is taken from the middle 32 bits by multiplication, so that hash tables may use
//! the low and the top bits. Key group → task is Flink's `KeyGroupRangeAssignment`.
#![expect(clippy::cast_lossless, reason = "one macro for signed and unsigned types")]

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Start of every key hash.
pub const SEED: u64 = 0x666c_6f74_7400_0001;
const NULL_WORD: u64 = 0x6e75_6c6c_0000_0001;
const NULL_TURN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The largest allowed max parallelism, Flink's `UPPER_BOUND_MAX_PARALLELISM`.
pub const MAX_PARALLELISM_LIMIT: u32 = 1 << 15;

/// One of max-parallelism groups of keys: the unit in which keyed state moves between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// The group of a key with this hash.
    #[inline]
    pub fn of(hash: u64, max_parallelism: u32) -> Self {
        let middle = u64::from((hash >> 16) as u32);
        // At most MAX_PARALLELISM_LIMIT - 1, so it fits.
        Self(((middle * u64::from(max_parallelism)) >> 32) as u16)
    }

    /// The task that owns this group.
    #[inline]
    pub fn task(self, parallelism: u32, max_parallelism: u32) -> u32 {
        u32::from(self.0) * parallelism / max_parallelism
    }

    /// The groups that task `index` of `parallelism` owns.
    ///
    /// ```
    /// use flott_core::KeyGroup;
    /// assert_eq!(KeyGroup::range(1, 3, 128), 43..86);
    /// assert!(KeyGroup::range(1, 3, 128).all(|g| KeyGroup(g as u16).task(3, 128) == 1));
    /// ```
    pub fn range(index: u32, parallelism: u32, max_parallelism: u32) -> Range<u32> {
        let start = |i: u32| (i * max_parallelism).div_ceil(parallelism);
        start(index)..start(index + 1)
    }
}

/// MurmurHash3's 64-bit finaliser.
#[inline]
pub fn fmix64(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[inline]
fn mix(h: u64, word: u64) -> u64 {
    fmix64(h ^ word)
}

#[inline]
fn mix_null(h: u64) -> u64 {
    fmix64(h.wrapping_add(NULL_TURN) ^ NULL_WORD)
}

#[inline]
fn mix_bytes(mut h: u64, bytes: &[u8]) -> u64 {
    h = mix(h, bytes.len() as u64);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        h = mix(h, u64::from_le_bytes(eight));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut eight = [0; 8];
        eight[..rest.len()].copy_from_slice(rest);
        h = mix(h, u64::from_le_bytes(eight));
    }
    h
}

/// The canonical 64 bits of a float key: one zero, one NaN.
#[inline]
pub fn canonical_float(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else {
        value.to_bits()
    }
}

/// Refuses, by name, a column type that cannot be (part of) a key.
///
/// ```
/// use arrow_schema::{DataType, Field};
/// assert!(flott_core::check_key_type("user", &DataType::Utf8).is_ok());
/// let list = DataType::new_list(DataType::Int64, true);
/// let error = flott_core::check_key_type("tags", &list).unwrap_err();
/// assert!(error.to_string().contains("column tags"));
/// ```
pub fn check_key_type(column: &str, data_type: &DataType) -> Result<()> {
    use DataType::*;
    match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64
        | Decimal128(..) | Utf8 | Binary | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => {
            Ok(())
        }
        other => Err(Error::user(format!(
            "a key must be made of booleans, numbers, strings, bytes, dates or times, found {other}"
        ))
        .at("column", column)),
    }
}

/// Calls `$use` with the column as `$name`, whose `value(row)` gives the canonical word, for every one-word type.
macro_rules! one_word_types {
    ($column:expr, $run:ident, $other:expr) => {{
        use DataType::*;
        let column: &dyn Array = $column;
        match column.data_type() {
            Boolean => {
                let array = column.as_boolean();
                $run!(|i: usize| u64::from(array.value(i)))
            }
            Int8 => one_word_types!(@int column, Int8Type, $run),
            Int16 => one_word_types!(@int column, Int16Type, $run),
            Int32 => one_word_types!(@int column, Int32Type, $run),
            Int64 => one_word_types!(@int column, Int64Type, $run),
            UInt8 => one_word_types!(@int column, UInt8Type, $run),
            UInt16 => one_word_types!(@int column, UInt16Type, $run),
            UInt32 => one_word_types!(@int column, UInt32Type, $run),
            UInt64 => one_word_types!(@int column, UInt64Type, $run),
            Date32 => one_word_types!(@int column, Date32Type, $run),
            Date64 => one_word_types!(@int column, Date64Type, $run),
            Time32(TimeUnit::Second) => one_word_types!(@int column, Time32SecondType, $run),
            Time32(_) => one_word_types!(@int column, Time32MillisecondType, $run),
            Time64(TimeUnit::Nanosecond) => one_word_types!(@int column, Time64NanosecondType, $run),
            Time64(_) => one_word_types!(@int column, Time64MicrosecondType, $run),
            Timestamp(TimeUnit::Second, _) => one_word_types!(@int column, TimestampSecondType, $run),
            Timestamp(TimeUnit::Millisecond, _) => one_word_types!(@int column, TimestampMillisecondType, $run),
            Timestamp(TimeUnit::Microsecond, _) => one_word_types!(@int column, TimestampMicrosecondType, $run),
            Timestamp(TimeUnit::Nanosecond, _) => one_word_types!(@int column, TimestampNanosecondType, $run),
            Duration(TimeUnit::Second) => one_word_types!(@int column, DurationSecondType, $run),
            Duration(TimeUnit::Millisecond) => one_word_types!(@int column, DurationMillisecondType, $run),
            Duration(TimeUnit::Microsecond) => one_word_types!(@int column, DurationMicrosecondType, $run),
            Duration(TimeUnit::Nanosecond) => one_word_types!(@int column, DurationNanosecondType, $run),
            Float32 => {
                let values = column.as_primitive::<Float32Type>().values();
                $run!(|i: usize| canonical_float(f64::from(values[i])))
            }
            Float64 => {
                let values = column.as_primitive::<Float64Type>().values();
                $run!(|i: usize| canonical_float(values[i]))
            }
            _ => $other,
        }
    }};
    (@int $column:ident, $type:ty, $run:ident) => {{
        let values = $column.as_primitive::<$type>().values();
        $run!(|i: usize| values[i] as i64 as u64)
    }};
}

/// The key hash of every row.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array};
/// let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
/// let hashes = flott_core::hash_keys(&[zeros])?;
/// assert_eq!(hashes[0], hashes[1]);
/// # Ok::<(), flott_core::Error>(())
/// ```
pub fn hash_keys(columns: &[ArrayRef]) -> Result<ScalarBuffer<u64>> {
    let rows = columns.first().map_or(0, Array::len);
    let mut hashes = vec![SEED; rows];
    for column in columns {
        mix_column(&mut hashes, column)?;
    }
    Ok(hashes.into())
}

fn mix_column(hashes: &mut [u64], column: &ArrayRef) -> Result<()> {
    let nulls = column.logical_nulls().filter(|n| n.null_count() > 0);
    let is_null = |i: usize| nulls.as_ref().is_some_and(|n| n.is_null(i));
    macro_rules! mix_words {
        ($word:expr) => {{
            let word = $word;
            match &nulls {
                None => hashes.iter_mut().enumerate().for_each(|(i, h)| *h = mix(*h, word(i))),
                Some(nulls) => hashes
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, h)| *h = if nulls.is_null(i) { mix_null(*h) } else { mix(*h, word(i)) }),
            }
            Ok(())
        }};
    }
    macro_rules! mix_each {
        ($array:expr, $mix:expr) => {{
            let array = $array;
            for (i, h) in hashes.iter_mut().enumerate() {
                *h = if is_null(i) { mix_null(*h) } else { $mix(*h, array.value(i)) };
            }
            Ok(())
        }};
    }
    one_word_types!(column, mix_words, {
        match column.data_type() {
            Utf8 => mix_each!(column.as_string::<i32>(), |h, v: &str| mix_bytes(h, v.as_bytes())),
            Binary => mix_each!(column.as_binary::<i32>(), mix_bytes),
            Decimal128(..) => mix_each!(column.as_primitive::<Decimal128Type>(), |h, v: i128| {
                mix(mix(h, v as u64), (v >> 64) as u64)
            }),
            other => check_key_type("of the key", other),
        }
    })
}

/// The canonical words of a one-column key of a type of at most 64 bits; `None` for every other key.
///
/// Two keys are equal exactly when their words and their nulls are; a null row's word is 0.
pub fn key_words(columns: &[ArrayRef]) -> Option<ScalarBuffer<u64>> {
    let [column] = columns else { return None };
    if let Some(shared) = shared_words(column) {
        return Some(shared);
    }
    macro_rules! collect_words {
        ($word:expr) => {{
            let word = $word;
            match column.logical_nulls().filter(|n| n.null_count() > 0) {
                None => Some((0..column.len()).map(word).collect()),
                Some(nulls) => Some((0..column.len()).map(|i| if nulls.is_null(i) { 0 } else { word(i) }).collect()),
            }
        }};
    }
    one_word_types!(column, collect_words, None)
}

/// The words of a column of 64-bit integers without NULLs: its own memory.
fn shared_words(column: &ArrayRef) -> Option<ScalarBuffer<u64>> {
    use DataType::*;
    let whole = matches!(column.data_type(), Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_));
    if !whole || column.null_count() > 0 {
        return None;
    }
    let data = column.to_data();
    Some(ScalarBuffer::new(data.buffers().first()?.clone(), data.offset(), data.len()))
}

/// The hash of a one-column key from its word of [`key_words`].
#[inline]
pub fn hash_of_word(word: u64, null: bool) -> u64 {
    if null { mix_null(SEED) } else { mix(SEED, word) }
}

/// Whether [`key_words`] answers for a key of these types.
pub fn is_one_word_key(types: &[DataType]) -> bool {
    use DataType::*;
    matches!(types, [t] if !matches!(t, Utf8 | Binary | Decimal128(..)) && check_key_type("", t).is_ok())
}
