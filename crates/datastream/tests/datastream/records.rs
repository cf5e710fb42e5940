//! Rows to columns and back, and into state and back.

use arrow_array::{ArrayRef, Int64Array, StringArray};
use flott_datastream::record::{from_columns, to_columns};
use flott_datastream::*;

#[derive(Record, Clone, Debug, PartialEq, Default)]
struct Everything {
    a: bool,
    b: i8,
    c: i16,
    d: i32,
    e: i64,
    f: u8,
    g: u16,
    h: u32,
    i: u64,
    j: f32,
    k: f64,
    l: String,
    m: Vec<u8>,
    n: Timestamp,
    o: Option<bool>,
    p: Option<i64>,
    q: Option<String>,
    r: Option<Vec<u8>>,
    s: Option<Timestamp>,
    r#type: Option<f32>,
}

#[derive(Record, Clone, Debug, PartialEq)]
struct Pair(u64, Option<String>);

fn full() -> Everything {
    Everything {
        a: true,
        b: i8::MIN,
        c: i16::MAX,
        d: i32::MIN,
        e: i64::MAX,
        f: u8::MAX,
        g: u16::MAX,
        h: u32::MAX,
        i: u64::MAX,
        j: -0.0,
        k: f64::INFINITY,
        l: "ümlaut".into(),
        m: vec![0, 255],
        n: Timestamp(-1),
        o: Some(false),
        p: Some(i64::MIN),
        q: Some(String::new()),
        r: Some(Vec::new()),
        s: Some(Timestamp::MIN),
        r#type: Some(1.5),
    }
}

fn round_trip<T: Record + Clone + PartialEq + std::fmt::Debug>(rows: &[T]) {
    let columns = to_columns(rows);
    let fields = T::fields();
    assert_eq!(columns.len(), fields.len());
    for (column, field) in columns.iter().zip(&fields) {
        assert_eq!(column.data_type(), field.data_type(), "{field}");
    }
    assert_eq!(from_columns::<T>(&columns).unwrap(), rows);
    let mut bytes = Vec::new();
    rows.iter().for_each(|row| Record::write(row, &mut bytes));
    let mut rest = &bytes[..];
    for row in rows {
        assert_eq!(<T as Record>::read(&mut rest).unwrap(), *row);
    }
    assert!(rest.is_empty());
    // Every shorter text of bytes is refused rather than read as something else, or read past its end.
    if let Some(row) = rows.first() {
        let mut bytes = Vec::new();
        Record::write(row, &mut bytes);
        for cut in 0..bytes.len() {
            assert!(<T as Record>::read(&mut &bytes[..cut]).is_err());
        }
    }
}

#[test]
fn records_survive_columns_and_state() {
    round_trip::<Everything>(&[]);
    round_trip(&[full(), Everything::default(), full()]);
    round_trip(&[Pair(1, None), Pair(2, Some("x".into()))]);
    round_trip(&[1_i64, -1]);
    round_trip(&["a".to_owned()]);
    round_trip(&[Some(3_u8), None]);
    round_trip(&[(1_u8,), (2,)]);
    round_trip(&[(1_u8, Some(true), 2.5_f64, "x".to_owned(), Timestamp(9), 1_i16, 2_u64, vec![1_u8])]);
}

#[test]
fn names_of_columns() {
    let names = |fields: Vec<record::Field>| fields.into_iter().map(|f| f.name().clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(names(Everything::fields()), "a b c d e f g h i j k l m n o p q r s type");
    assert_eq!(names(Pair::fields()), "f0 f1");
    assert_eq!(names(<(i64, bool)>::fields()), "f0 f1");
    assert_eq!(names(String::fields()), "f0");
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let numbers: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![Some(1), None]));
    let texts: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a"]));
    let cases = [
        (from_columns::<Pair>(std::slice::from_ref(&texts)).unwrap_err(), "expected UInt64, found Utf8 (column f0)"),
        (
            from_columns::<i64>(&[numbers]).unwrap_err(),
            "expected a value of type Int64, found NULL: make the field an Option (column f0, row 1)",
        ),
        (from_columns::<(String, bool)>(&[texts]).unwrap_err(), "expected at least 2 columns, found 1 (column f1)"),
    ];
    for (error, expected) in cases {
        assert_eq!(error.to_string(), expected);
    }
}
