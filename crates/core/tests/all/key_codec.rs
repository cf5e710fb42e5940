//! Keys as bytes: the frozen form, round trips, order, and bytes that are no key.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, TimeUnit};
use flott_core::key::{canonical_float, hash_of_word, is_one_word_key, key_words};
use flott_core::{ErrorDomain, KeyCodec, hash_keys};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn rows(codec: &KeyCodec, columns: &[ArrayRef]) -> Vec<Vec<u8>> {
    let (mut offsets, mut bytes) = (Vec::new(), Vec::new());
    codec.encode_all(columns, &mut offsets, &mut bytes).unwrap();
    offsets.windows(2).map(|at| bytes[at[0]..at[1]].to_vec()).collect()
}

#[test]
fn the_form_is_frozen() {
    // Worked out by hand from the table in the head of key_codec.rs.
    let decimal = Decimal128Array::from(vec![-2]).with_precision_and_scale(10, 2).unwrap();
    let table: Vec<(ArrayRef, &[&[u8]])> = vec![
        (Arc::new(BooleanArray::from(vec![Some(false), Some(true), None])), &[&[1, 0], &[1, 1], &[0]]),
        (Arc::new(Int8Array::from(vec![-128, -1, 0])), &[&[1, 0], &[1, 0x7f], &[1, 0x80]]),
        (Arc::new(Int16Array::from(vec![0x0102, -1])), &[&[1, 0x81, 2], &[1, 0x7f, 0xff]]),
        (Arc::new(Int32Array::from(vec![1])), &[&[1, 0x80, 0, 0, 1]]),
        (Arc::new(Date32Array::from(vec![1])), &[&[1, 0x80, 0, 0, 1]]),
        (Arc::new(Int64Array::from(vec![1])), &[&[1, 0x80, 0, 0, 0, 0, 0, 0, 1]]),
        (Arc::new(UInt16Array::from(vec![0x0102])), &[&[1, 1, 2]]),
        (Arc::new(Float32Array::from(vec![-0.0, 1.0])), &[&[1, 0x80, 0, 0, 0], &[1, 0xbf, 0x80, 0, 0]]),
        (
            Arc::new(Float64Array::from(vec![-1.0, f64::NAN])),
            &[&[1, 0x40, 0x0f, 255, 255, 255, 255, 255, 255], &[1, 0xff, 0xf8, 0, 0, 0, 0, 0, 0]],
        ),
        (Arc::new(decimal), &[&[1, 0x7f, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0xfe]]),
        (Arc::new(StringArray::from(vec!["", "a\0b"])), &[&[1, 0, 0], &[1, b'a', 0, 0xff, b'b', 0, 0]]),
        (Arc::new(BinaryArray::from(vec![&b"\0\0"[..], b"\xff"])), &[&[1, 0, 255, 0, 255, 0, 0], &[1, 255, 0, 0]]),
    ];
    for (column, expected) in table {
        let codec = KeyCodec::new(vec![column.data_type().clone()]).unwrap();
        assert_eq!(rows(&codec, std::slice::from_ref(&column)), expected, "{}", column.data_type());
    }
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let mut all = vec![Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64];
    all.extend([Utf8, Binary, Date32, Date64, Decimal128(20, 3)]);
    all.extend([Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)]);
    all.extend([Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)]);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        all.extend([Timestamp(unit, None), Timestamp(unit, Some("Europe/Berlin".into())), Duration(unit)]);
    }
    all
}

/// A key value as one would compare it without the codec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Plain {
    Null,
    Number(i128),
    Text(Vec<u8>),
}

/// Rows of a type, with many that are equal, at the bounds or NULL.
fn random_column(data_type: &DataType, rows: usize, random: &mut SmallRng) -> (ArrayRef, Vec<Plain>) {
    let null = |random: &mut SmallRng| random.random_ratio(1, 8);
    let number = |random: &mut SmallRng| match random.random_range(0..6) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => random.random::<i64>(),
        _ => random.random_range(-3..4),
    };
    macro_rules! integers {
        ($array:ty, $native:ty) => {{
            let values: Vec<Option<$native>> =
                (0..rows).map(|_| (!null(random)).then(|| number(random) as $native)).collect();
            let plain = values.iter().map(|v| v.map_or(Plain::Null, |v| Plain::Number(v.into()))).collect();
            (Arc::new(<$array>::from(values)) as ArrayRef, plain)
        }};
    }
    macro_rules! floats {
        ($array:ty, $native:ty) => {{
            const SPECIAL: [$native; 7] = [
                0.0,
                -0.0,
                <$native>::NAN,
                <$native>::INFINITY,
                <$native>::NEG_INFINITY,
                <$native>::MIN_POSITIVE,
                -1.5,
            ];
            let values: Vec<Option<$native>> = (0..rows)
                .map(|_| {
                    (!null(random)).then(|| match random.random_range(0..10) {
                        special @ 0..7 => SPECIAL[special],
                        _ => random.random_range(-1000.0..1000.0),
                    })
                })
                .collect();
            // total_cmp's own trick, on the canonical double.
            let order = |v: $native| {
                let bits = canonical_float(v.into()) as i64;
                bits ^ (((bits >> 63) as u64) >> 1) as i64
            };
            let plain = values.iter().map(|v| v.map_or(Plain::Null, |v| Plain::Number(order(v).into()))).collect();
            (Arc::new(<$array>::from(values)) as ArrayRef, plain)
        }};
    }
    let text = |random: &mut SmallRng, bytes: &[u8]| -> Vec<u8> {
        (0..random.random_range(0..5)).map(|_| bytes[random.random_range(0..bytes.len())]).collect()
    };
    let (column, plain): (ArrayRef, Vec<Plain>) = match data_type {
        DataType::Boolean => {
            let values: Vec<Option<bool>> = (0..rows).map(|_| (!null(random)).then(|| random.random())).collect();
            let plain = values.iter().map(|v| v.map_or(Plain::Null, |v| Plain::Number(v.into()))).collect();
            (Arc::new(BooleanArray::from(values)), plain)
        }
        DataType::Int8 => integers!(Int8Array, i8),
        DataType::Int16 => integers!(Int16Array, i16),
        DataType::UInt8 => integers!(UInt8Array, u8),
        DataType::UInt16 => integers!(UInt16Array, u16),
        DataType::UInt32 => integers!(UInt32Array, u32),
        DataType::UInt64 => integers!(UInt64Array, u64),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => integers!(Int32Array, i32),
        DataType::Float32 => floats!(Float32Array, f32),
        DataType::Float64 => floats!(Float64Array, f64),
        DataType::Decimal128(..) => integers!(Decimal128Array, i128),
        DataType::Utf8 => {
            let texts: Vec<Option<String>> = (0..rows)
                .map(|_| (!null(random)).then(|| String::from_utf8(text(random, b"\0\x01ab\x7f")).unwrap()))
                .collect();
            let plain = texts.iter().map(|t| t.clone().map_or(Plain::Null, |t| Plain::Text(t.into_bytes()))).collect();
            (Arc::new(StringArray::from(texts)), plain)
        }
        DataType::Binary => {
            let texts: Vec<Option<Vec<u8>>> =
                (0..rows).map(|_| (!null(random)).then(|| text(random, b"\0\x01a\xfe\xff"))).collect();
            let plain = texts.iter().map(|t| t.clone().map_or(Plain::Null, Plain::Text)).collect();
            (Arc::new(BinaryArray::from_iter(texts)), plain)
        }
        _ => integers!(Int64Array, i64),
    };
    let data = column.to_data().into_builder().data_type(data_type.clone()).build().unwrap();
    (make_array(data), plain)
}

#[test]
fn bytes_compare_as_keys_do_and_decode_to_them() {
    let types = types();
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        // Every type alone first, then random tuples.
        let key_types: Vec<DataType> = match types.get(seed as usize) {
            Some(one) => vec![one.clone()],
            None => {
                (0..random.random_range(1..4)).map(|_| types[random.random_range(0..types.len())].clone()).collect()
            }
        };
        let codec = KeyCodec::new(key_types.clone()).unwrap();
        let (columns, plain): (Vec<_>, Vec<_>) =
            key_types.iter().map(|t| random_column(t, 40, &mut random)).map(|(c, p)| (c.slice(3, 37), p)).unzip();
        let plain: Vec<Vec<Plain>> =
            (3..40).map(|row| plain.iter().map(|column: &Vec<Plain>| column[row].clone()).collect()).collect();
        let bytes = rows(&codec, &columns);
        let hashes = hash_keys(&columns).unwrap();
        for a in 0..plain.len() {
            let mut alone = vec![7];
            codec.encode(&columns, a, &mut alone).unwrap();
            assert_eq!(alone[1..], bytes[a], "{key_types:?}, seed {seed}");
            for b in 0..a {
                let order = plain[a].cmp(&plain[b]);
                assert_eq!(bytes[a].cmp(&bytes[b]), order, "{:?} and {:?}, seed {seed}", plain[a], plain[b]);
                assert!(order != Ordering::Equal || hashes[a] == hashes[b], "{:?}, seed {seed}", plain[a]);
            }
        }
        let back = codec.decode(bytes.iter().map(Vec::as_slice)).unwrap();
        let back_types: Vec<_> = back.iter().map(|c| c.data_type().clone()).collect();
        assert_eq!(back_types, key_types, "seed {seed}");
        assert_eq!(rows(&codec, &back), bytes, "{key_types:?}, seed {seed}");
        assert_eq!(hash_keys(&back).unwrap(), hashes, "{key_types:?}, seed {seed}");
        if is_one_word_key(&key_types) {
            let words = key_words(&columns).unwrap();
            let of_words = codec.columns_of_words(&words, columns[0].logical_nulls()).unwrap();
            assert_eq!(of_words[0].data_type(), &key_types[0]);
            assert_eq!(rows(&codec, &of_words), bytes, "{key_types:?}, seed {seed}");
            let nulls = columns[0].logical_nulls();
            let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let of_words: Vec<_> = words.iter().enumerate().map(|(row, w)| hash_of_word(*w, is_null(row))).collect();
            assert_eq!(of_words, *hashes, "{key_types:?}, seed {seed}");
            let rest = columns[0].slice(5, columns[0].len() - 5);
            assert_eq!(key_words(&[rest]).unwrap()[..], words[5..], "{key_types:?}, seed {seed}");
        }
    }
}

#[test]
fn bytes_that_are_no_key_are_refused() {
    use DataType::*;
    let table: &[(DataType, &[u8])] = &[
        (Int32, &[]),
        (Int32, &[1, 0, 0, 0]),
        (Int32, &[1, 0, 0, 0, 0, 0]),
        (Int32, &[2, 0, 0, 0, 0]),
        (Int32, &[0, 0]),
        (Boolean, &[1, 2]),
        (Utf8, &[1, b'a']),
        (Utf8, &[1, b'a', 0]),
        (Utf8, &[1, b'a', 0, 1, 0, 0]),
        (Utf8, &[1, 0xc3, 0, 0]),
        (Utf8, &[1, 0, 0, 0]),
        // A negative zero, and a NaN that is not the canonical one.
        (Float64, &[1, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
        (Float64, &[1, 0xff, 0xf8, 0, 0, 0, 0, 0, 1]),
        (Float32, &[1, 0x7f, 255, 255, 255]),
    ];
    for (data_type, bytes) in table {
        let codec = KeyCodec::new(vec![data_type.clone()]).unwrap();
        let error = codec.decode(std::iter::once(*bytes)).unwrap_err();
        assert_eq!((error.domain(), error.is_retryable()), (ErrorDomain::External, false), "{data_type} {bytes:?}");
    }
}

#[test]
fn random_bytes_never_panic_and_are_canonical_if_accepted() {
    let types = types();
    let mut random = SmallRng::seed_from_u64(1);
    for _ in 0..20_000 {
        let codec = KeyCodec::new(vec![types[random.random_range(0..types.len())].clone()]).unwrap();
        let length = random.random_range(0..12);
        let mut bytes: Vec<u8> =
            (0..length).map(|_| [0, 1, 0xff, b'a', random.random()][random.random_range(0..5)]).collect();
        if let Some(tag) = bytes.first_mut() {
            *tag = 1;
        }
        if let Ok(columns) = codec.decode(std::iter::once(&bytes[..])) {
            assert_eq!(rows(&codec, &columns), [bytes], "{:?}", codec.types());
        }
    }
}

#[test]
fn foreign_columns_are_refused() {
    let codec = KeyCodec::new(vec![DataType::Int64]).unwrap();
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let error = codec.encode(&[column], 0, &mut Vec::new()).unwrap_err();
    assert_eq!(error.message(), "expected key columns of types [Int64], found [Int32]");
    for no_key in [DataType::Float16, DataType::Time32(TimeUnit::Nanosecond), DataType::new_list(DataType::Int8, true)]
    {
        assert_eq!(KeyCodec::new(vec![no_key]).unwrap_err().domain(), ErrorDomain::User);
    }
    let two = KeyCodec::new(vec![DataType::Int64, DataType::Int64]).unwrap();
    assert!(two.columns_of_words(&[1], None).is_err());
    assert!(KeyCodec::new(vec![DataType::Utf8]).unwrap().columns_of_words(&[1], None).is_err());
}
