//! The frozen hash and the frozen key groups.
//!
//! The numbers were computed once by a Python script that knows only the scheme in the head of `key.rs`: for each
//! column `h = fmix64(h ^ word)` over the value's words, NULL as `fmix64(h + TURN ^ NULL_WORD)`, integers with
//! Python's unlimited ones cut to 64 bits, floats by `struct.pack('<d', …)`. A change here breaks every savepoint.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use flott_core::key::key_words;
use flott_core::{KeyGroup, hash_keys};

fn check(what: &str, columns: &[ArrayRef], expected: &[u64]) {
    let found = hash_keys(columns).unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}, row {row}: found {found:#x}, expected {expected:#x}");
    }
}

const ZERO: u64 = 0x0afc_ed05_b5c4_fcbd;
const NULL: u64 = 0x9ef6_0d5d_ffb3_8237;

#[test]
fn hashes_of_one_column() {
    let one = |what: &str, column: ArrayRef, expected: &[u64]| {
        check(what, std::slice::from_ref(&column), expected);
        // A slice hashes as the rows it shows.
        check(what, &[column.slice(1, column.len() - 1)], &expected[1..]);
    };
    let one_is = 0xd284_e260_8e90_36a4;
    one("BOOLEAN", Arc::new(BooleanArray::from(vec![Some(false), Some(true), None])), &[ZERO, one_is, NULL]);
    let small = [ZERO, one_is, 0x4a78_e282_1dca_c046, 0x7be7_37e6_3ee7_2e69];
    one("TINYINT", Arc::new(Int8Array::from(vec![0, 1, -1, 42])), &small);
    one("SMALLINT", Arc::new(Int16Array::from(vec![0, 1, -1, 42])), &small);
    one("INT", Arc::new(Int32Array::from(vec![0, 1, -1, 42])), &small);
    one("BIGINT", Arc::new(Int64Array::from(vec![0, 1, -1, 42])), &small);
    one("TINYINT bounds", Arc::new(Int8Array::from(vec![-128, 127])), &[0x404b_9281_8a34_49ce, 0x0331_ccf6_2342_9838]);
    one(
        "SMALLINT bounds",
        Arc::new(Int16Array::from(vec![i16::MIN, i16::MAX])),
        &[0xf4f0_b565_6b28_7c32, 0xe3c1_9f78_6284_d191],
    );
    one(
        "INT bounds",
        Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX])),
        &[0xd683_9dcd_ecd8_2f91, 0xba0c_154e_98d9_efd8],
    );
    one(
        "BIGINT bounds",
        Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])),
        &[0x6c2c_ddc4_8852_fdcf, 0x1665_1ebe_432f_9b7d],
    );
    one("u8", Arc::new(UInt8Array::from(vec![0, 255])), &[ZERO, 0x4a64_9068_facf_dfce]);
    one("u16", Arc::new(UInt16Array::from(vec![0, u16::MAX])), &[ZERO, 0xb92c_11b8_7378_b413]);
    one("u32", Arc::new(UInt32Array::from(vec![0, u32::MAX])), &[ZERO, 0x32cb_e9ab_036f_3885]);
    one("u64", Arc::new(UInt64Array::from(vec![0, u64::MAX])), &[ZERO, 0x4a78_e282_1dca_c046]);
    one(
        "DOUBLE: one zero, one NaN",
        Arc::new(Float64Array::from(vec![0.0, -0.0, 1.5, f64::NEG_INFINITY, f64::NAN, -f64::NAN])),
        &[ZERO, ZERO, 0x743d_d93b_4924_38c7, 0x11ee_4852_6f03_bfc9, 0x0a9f_3078_7081_c25f, 0x0a9f_3078_7081_c25f],
    );
    one(
        "FLOAT, by its double",
        Arc::new(Float32Array::from(vec![-0.0, 0.1, 1.5, f32::NAN])),
        &[ZERO, 0xae0b_9aeb_3a97_2a56, 0x743d_d93b_4924_38c7, 0x0a9f_3078_7081_c25f],
    );
    let decimal = Decimal128Array::from(vec![Some(0), Some(-1), Some(10_i128.pow(30)), None]);
    one(
        "DECIMAL",
        Arc::new(decimal.with_precision_and_scale(38, 10).unwrap()),
        &[0x1ff7_9f17_3ec2_4c1e, 0x0d27_482b_5d0d_7914, 0x5147_94a3_3458_7c2b, NULL],
    );
    one(
        "STRING of 0, 1, 7, 8, 9 bytes and beyond ASCII",
        Arc::new(StringArray::from(vec!["", "a", "1234567", "12345678", "123456789", "Füße"])),
        &[
            ZERO,
            0x8032_3f31_a2c8_0cf0,
            0x4955_a0a0_974a_6b15,
            0x8973_1bbb_88d9_f324,
            0x6fad_5eb4_64f6_5cc6,
            0xb043_1729_de99_014b,
        ],
    );
    one(
        "BYTES: padding is not content",
        Arc::new(BinaryArray::from(vec![Some(&b""[..]), Some(b"\0"), Some(b"\0\0"), Some(&[0xff; 8]), None])),
        &[ZERO, 0xeac6_c667_31fe_040c, 0xdd3f_e8f2_ddb3_fcc4, 0x45ef_0796_bd7f_6fe1, NULL],
    );
}

#[test]
fn hashes_of_times_are_those_of_their_numbers() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1_700_000_000_123), None]));
    let expected = [0xbc41_e52e_0ed5_7ff2, NULL];
    let unit_types = {
        use arrow_schema::TimeUnit::*;
        [Second, Millisecond, Microsecond, Nanosecond]
            .into_iter()
            .flat_map(|unit| [DataType::Timestamp(unit, Some("UTC".into())), DataType::Duration(unit)])
    };
    for data_type in unit_types {
        let data = numbers.to_data().into_builder().data_type(data_type.clone()).build().unwrap();
        check(&data_type.to_string(), &[make_array(data)], &expected);
    }
    let days = 19_675;
    let expected = 0x1b27_3db2_59eb_e063;
    check("DATE", &[Arc::new(Date32Array::from(vec![days]))], &[expected]);
    check("date64", &[Arc::new(Date64Array::from(vec![i64::from(days)]))], &[expected]);
    check("TIME(0)", &[Arc::new(Time32SecondArray::from(vec![days]))], &[expected]);
    check("TIME(3)", &[Arc::new(Time32MillisecondArray::from(vec![days]))], &[expected]);
    check("TIME(6)", &[Arc::new(Time64MicrosecondArray::from(vec![i64::from(days)]))], &[expected]);
    check("TIME(9)", &[Arc::new(Time64NanosecondArray::from(vec![i64::from(days)]))], &[expected]);
}

#[test]
fn hashes_of_several_columns() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), None, None]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a"), None]));
    let expected = [0x0712_52f8_006f_4495, 0x6c6d_afd1_1b3f_e517, 0x8ca8_340c_fa09_2b37, 0xb484_f9c4_3073_0353];
    check("(BIGINT, STRING)", &[numbers, names], &expected);
    let left: ArrayRef = Arc::new(StringArray::from(vec!["ab", "a"]));
    let right: ArrayRef = Arc::new(StringArray::from(vec!["c", "bc"]));
    check("(STRING, STRING)", &[left, right], &[0x4057_b986_c77e_569b, 0x431c_d854_622e_9645]);
}

#[test]
fn words_are_those_of_the_hash() {
    let column: ArrayRef = Arc::new(Float32Array::from(vec![Some(-0.0), Some(1.5), None]));
    assert_eq!(*key_words(std::slice::from_ref(&column)).unwrap(), [0, 1.5_f64.to_bits(), 0]);
    assert!(key_words(&[column.clone(), column]).is_none());
    assert!(key_words(&[Arc::new(StringArray::from(vec!["a"])) as ArrayRef]).is_none());
}

#[test]
fn key_groups_of_hashes() {
    // (hash, max parallelism, group): ((hash >> 16) mod 2^32) * max parallelism >> 32, from the same script.
    let table = [
        (ZERO, [0, 118, 925, 30338]),
        (0xd284_e260_8e90_36a4, [0, 113, 884, 28976]),
        (0x4a78_e282_1dca_c046, [0, 113, 884, 28993]),
        (0x7be7_37e6_3ee7_2e69, [0, 27, 218, 7155]),
        (0x8032_3f31_a2c8_0cf0, [0, 31, 246, 8088]),
        (0, [0, 0, 0, 0]),
        (u64::MAX, [0, 127, 999, 32767]),
    ];
    for (hash, groups) in table {
        let found = [1, 128, 1000, 32768].map(|max| KeyGroup::of(hash, max).0);
        assert_eq!(found, groups, "{hash:#x}");
    }
}

/// Flink's `KeyGroupRangeAssignment`, in its own words.
mod flink {
    pub(super) fn compute_operator_index(max: u32, parallelism: u32, key_group: u32) -> u32 {
        key_group * parallelism / max
    }

    /// Both ends belong to the range.
    #[expect(clippy::manual_div_ceil, reason = "as Flink writes it")]
    pub(super) fn compute_key_group_range(max: u32, parallelism: u32, index: u32) -> (u32, u32) {
        let start = (index * max + parallelism - 1) / parallelism;
        let end = ((index + 1) * max - 1) / parallelism;
        (start, end)
    }
}

#[test]
fn ranges_are_flinks_and_cover_every_group_once() {
    for max in [1, 2, 3, 5, 7, 16, 100, 127, 128, 129, 1000, 4096, 32767, 32768] {
        for parallelism in (1..=max).filter(|p| *p <= 40 || max - p < 3 || max % p == 0) {
            let mut next = 0;
            for index in 0..parallelism {
                let range = KeyGroup::range(index, parallelism, max);
                let (start, end) = flink::compute_key_group_range(max, parallelism, index);
                assert_eq!((range.start, range.end), (start, end + 1), "task {index} of {parallelism}, max {max}");
                assert_eq!(range.start, next, "task {index} of {parallelism}, max {max}");
                for group in range.clone() {
                    let task = KeyGroup(group as u16).task(parallelism, max);
                    assert_eq!(task, index, "group {group} of {max} at {parallelism}");
                    assert_eq!(task, flink::compute_operator_index(max, parallelism, group));
                }
                next = range.end;
            }
            assert_eq!(next, max, "parallelism {parallelism}");
        }
    }
}

#[test]
fn groups_are_about_even() {
    // 100,000 keys over 128 groups: 781 expected; six standard deviations are 168.
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let mut counts = [0_u32; 128];
    hash_keys(&[keys]).unwrap().iter().for_each(|hash| counts[usize::from(KeyGroup::of(*hash, 128).0)] += 1);
    assert!(counts.iter().all(|count| (613..=949).contains(count)), "{counts:?}");
}

#[test]
fn other_types_are_refused_by_name() {
    let lists = ListArray::from_iter_primitive::<types::Int64Type, _, _>([Some([Some(1)])]);
    let error = hash_keys(&[Arc::new(lists) as ArrayRef]).unwrap_err();
    assert!(error.to_string().contains("found List"), "{error}");
}
