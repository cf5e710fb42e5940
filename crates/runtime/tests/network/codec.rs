//! Elements as bytes and back: random batches of every layout that travels, from seeds.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, NullArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, TimestampMillisecondArray, UInt64Array,
};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, SchemaRef};
use flott_core::{
    BarrierMode, Batch, CheckpointBarrier, CheckpointId, CheckpointKind, StreamElement, Timestamp, schema_of,
};
use flott_runtime::codec::{decode, decode_all, encode, encode_all};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn nullable<T>(random: &mut SmallRng, rows: usize, mut value: impl FnMut(&mut SmallRng) -> T) -> Vec<Option<T>> {
    (0..rows).map(|_| random.random_bool(0.8).then(|| value(random))).collect()
}

fn word(random: &mut SmallRng) -> String {
    (0..random.random_range(0..12)).map(|_| random.random_range('a'..='ö')).collect()
}

/// A column of one of eleven layouts.
fn column(random: &mut SmallRng, rows: usize) -> ArrayRef {
    match random.random_range(0..11) {
        0 => Arc::new(Int32Array::from(nullable(random, rows, Rng::random))),
        1 => Arc::new(BooleanArray::from(nullable(random, rows, Rng::random))),
        2 => Arc::new(Float64Array::from(nullable(random, rows, Rng::random))),
        3 => Arc::new(StringArray::from(nullable(random, rows, word))),
        4 => Arc::new(BinaryArray::from_iter(nullable(random, rows, word))),
        5 => Arc::new(Decimal128Array::from(nullable(random, rows, |r| r.random_range(-9..10)))),
        6 => Arc::new(TimestampMillisecondArray::from(nullable(random, rows, Rng::random))),
        7 => Arc::new(NullArray::new(rows)),
        8 => Arc::new((0..rows).map(|_| random.random::<u64>()).collect::<UInt64Array>()),
        9 => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for _ in 0..rows {
                (0..random.random_range(0..4)).for_each(|_| lists.values().append_value(word(random)));
                lists.append(random.random_bool(0.8));
            }
            Arc::new(lists.finish())
        }
        _ => {
            let columns: Vec<_> = (0..2).map(|_| column(random, rows)).collect();
            Arc::new(StructArray::new(fields(&columns).into(), columns, None))
        }
    }
}

fn fields(columns: &[ArrayRef]) -> Vec<Field> {
    columns.iter().enumerate().map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true)).collect()
}

/// Up to 4 columns, up to 40 rows, with and without what may stand beside the columns; some are slices of a longer batch.
fn batch(random: &mut SmallRng) -> Batch {
    let (from, rows) = (random.random_range(0..3) * 5, random.random_range(0..40));
    let whole = from + rows;
    let columns: Vec<_> = (0..random.random_range(0..5)).map(|_| column(random, whole)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(whole));
    let columns = RecordBatch::try_new_with_options(schema_of(fields(&columns)), columns, &options).unwrap();
    let times = random.random::<bool>().then(|| (0..whole).map(|_| random.random::<i64>()).collect());
    let kinds = random.random::<bool>().then(|| (0..whole).map(|_| random.random_range(0..4u8)).collect());
    let hashes = random.random::<bool>().then(|| (0..whole).map(|_| random.random::<u64>()).collect());
    Batch::new(columns).with_event_times(times).with_row_kinds(kinds).with_key_hashes(hashes).slice(from, rows)
}

fn bytes(element: &StreamElement) -> Buffer {
    let mut out = Vec::new();
    encode(element, &mut out).unwrap();
    Buffer::from_vec(out)
}

fn assert_same(found: &StreamElement, expected: &Batch, seed: u64) {
    let StreamElement::Batch(found) = found else { panic!("expected a batch, found {found:?} (seed {seed})") };
    assert_eq!(found.columns(), expected.columns(), "seed {seed}");
    assert_eq!(found.event_times(), expected.event_times(), "seed {seed}");
    assert_eq!(found.row_kinds(), expected.row_kinds(), "seed {seed}");
    assert_eq!(found.key_hashes(), expected.key_hashes(), "seed {seed}");
}

#[test]
fn batches_come_back_as_they_were() {
    for seed in 0..500 {
        let batch = batch(&mut SmallRng::seed_from_u64(seed));
        let bytes = bytes(&StreamElement::Batch(batch.clone()));
        assert_same(&decode(&bytes, &batch.schema()).unwrap(), &batch, seed);
        // The same where the memory is not aligned.
        let shifted = Buffer::from_vec([&[0], bytes.as_slice()].concat()).slice(1);
        assert_same(&decode(&shifted, &batch.schema()).unwrap(), &batch, seed);
    }
}

#[test]
fn a_cut_element_is_an_error_and_no_panic() {
    for seed in 0..60 {
        let batch = batch(&mut SmallRng::seed_from_u64(seed));
        let bytes = bytes(&StreamElement::Batch(batch.clone()));
        for length in 0..bytes.len() {
            // A cut in the padding at the end may go unnoticed; the rows are the same then.
            if let Ok(found) = decode(&bytes.slice_with_length(0, length), &batch.schema()) {
                assert_same(&found, &batch, seed);
            }
        }
    }
}

#[test]
fn elements_without_rows_come_back_as_they_were() {
    let schema: SchemaRef = schema_of(vec![Field::new("n", DataType::Int32, true)]);
    let mut elements = vec![
        StreamElement::Watermark(Timestamp(i64::MIN)),
        StreamElement::Watermark(Timestamp(i64::MAX)),
        StreamElement::Idle(true),
        StreamElement::Idle(false),
        StreamElement::EndOfInput,
    ];
    for kind in [CheckpointKind::Checkpoint, CheckpointKind::Savepoint, CheckpointKind::Stop] {
        for mode in [BarrierMode::Aligned, BarrierMode::Unaligned, BarrierMode::AtLeastOnce] {
            elements.push(StreamElement::Barrier(CheckpointBarrier { id: CheckpointId(u64::MAX), kind, mode }));
        }
    }
    for element in &elements {
        assert_eq!(format!("{:?}", decode(&bytes(element), &schema).unwrap()), format!("{element:?}"));
    }
    let all = decode_all(&encode_all(&elements).unwrap(), &schema).unwrap();
    assert_eq!(format!("{all:?}"), format!("{elements:?}"));
}
