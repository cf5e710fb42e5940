//! The bytes of a snapshot's sections: frozen, and nothing else is read.

use arrow_schema::{DataType, TimeUnit};
use flott_core::state::StateKind;
use flott_core::state::snapshot::{Entry, StateSection, write_entry};
use flott_core::{ErrorDomain, KeyGroup, Namespace};
use flott_state::{decode_sections, encode_sections};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Written by version 1. Not to be replaced: a new version gets a file of its own beside it.
const VERSION_1: &[u8] = include_bytes!("../golden/sections_v1.bin");

fn sections() -> Vec<StateSection> {
    use StateKind::*;
    let mut group = Vec::new();
    for (key, value) in [(&b"\x01\x80\0\0\x01"[..], &b"one"[..]), (b"\x01\x80\0\0\x02", b"")] {
        write_entry(Entry { key, namespace: Namespace(-10, 10), value }, &mut group).unwrap();
    }
    let mut sections: Vec<_> = [Value, List, Map, OrderedMap, Reducing, Aggregating, Timers]
        .into_iter()
        .map(|kind| StateSection {
            table: "windows".into(),
            name: format!("{kind:?}"),
            kind,
            value_type: "Option<(i64,String)>".into(),
            key_types: vec![DataType::Int32],
            namespaced: true,
            groups: vec![(KeyGroup(3), group.clone()), (KeyGroup(32767), group.clone())],
        })
        .collect();
    sections.push(StateSection {
        table: String::new(),
        name: "every type of a key".into(),
        kind: Value,
        value_type: "i64".into(),
        key_types: key_types(),
        namespaced: false,
        groups: Vec::new(),
    });
    sections
}

/// Every type a key can have.
fn key_types() -> Vec<DataType> {
    use DataType::*;
    let mut all =
        vec![Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Utf8, Binary];
    all.extend([Date32, Date64, Decimal128(38, 10), Time32(TimeUnit::Second), Time64(TimeUnit::Nanosecond)]);
    all.extend([Timestamp(TimeUnit::Millisecond, None), Timestamp(TimeUnit::Microsecond, Some("UTC".into()))]);
    all.push(Duration(TimeUnit::Millisecond));
    all
}

#[test]
fn version_1_is_frozen() {
    assert_eq!(decode_sections(VERSION_1).unwrap(), sections());
    assert_eq!(encode_sections(&sections()).unwrap(), VERSION_1);
}

#[test]
fn anything_else_is_refused() {
    let mut newer = VERSION_1.to_vec();
    newer[8] = 2;
    let table: [(&[u8], &str); 5] = [
        (b"", "it ends after 0 bytes"),
        (b"flottKS\n\x01", "it ends after 9 bytes"),
        (b"PAR1 and so on", "it does not begin as keyed state of flott does"),
        (&newer, "it is of version 2, and this flott reads version 1"),
        (&VERSION_1[..VERSION_1.len() - 1], "its checksum does not fit: it is damaged or cut short"),
    ];
    for (bytes, why) in table {
        let error = decode_sections(bytes).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read keyed state: {why}"));
        assert_eq!((error.domain(), error.is_retryable()), (ErrorDomain::External, false));
    }
    for length in 0..VERSION_1.len() {
        assert!(decode_sections(&VERSION_1[..length]).is_err(), "cut after {length} bytes");
    }
    for bit in 0..VERSION_1.len() * 8 {
        let mut flipped = VERSION_1.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_sections(&flipped).is_err(), "bit {bit}");
    }
    let mut longer = VERSION_1.to_vec();
    longer.push(0);
    assert!(decode_sections(&longer).is_err());
}

/// Damage that the checksum does not show, as a faulty writer would leave.
#[test]
fn damage_under_a_right_checksum_does_not_panic() {
    let mut random = SmallRng::seed_from_u64(1);
    for _ in 0..20_000 {
        let mut bytes = VERSION_1.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(18..bytes.len());
            bytes[at] = random.random();
        }
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[18..]);
        bytes[10..18].copy_from_slice(&checksum.to_le_bytes());
        let _ = decode_sections(&bytes);
    }
}
