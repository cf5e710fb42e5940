//! The sources `sequence` and `collection`, the sinks `CollectSink` and `blackhole`.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use flott_connectors::blackhole::Blackhole;
use flott_connectors::collection::{CollectSink, CollectionConfig};
use flott_connectors::sequence::SequenceConfig;
use flott_core::{Batch, Spec, schema_of};

use super::support::{info, nothing, read, registry, rows, source, splits, text};

fn sequence(from: i64, to: i64, splits: u32) -> Spec {
    SequenceConfig { from, to, splits }.spec().unwrap()
}

fn numbers(values: Vec<i64>) -> RecordBatch {
    let schema = schema_of(vec![Field::new("n", DataType::Int64, false)]);
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values))]).unwrap()
}

#[test]
fn sequences() {
    for (from, to, parts, split_count, expected) in [
        (1, 5, 1, 1, "1 | 2 | 3 | 4 | 5"),
        (-2, 2, 2, 2, "-2 | -1 | 0 | 1 | 2"),
        (1, 2, 5, 2, "1 | 2"),
        (3, 3, 0, 1, "3"),
        (2, 1, 3, 0, ""),
        (i64::MAX - 1, i64::MAX, 1, 1, "9223372036854775806 | 9223372036854775807"),
        (i64::MIN, i64::MIN + 1, 2, 2, "-9223372036854775808 | -9223372036854775807"),
    ] {
        let spec = sequence(from, to, parts);
        assert_eq!(splits(&spec).len(), split_count);
        for (max_rows, events) in [(1, 0), (2, 1), (100, 2)] {
            assert_eq!(text(&read(&spec, max_rows, events).unwrap()), expected, "{from}..={to} in {parts}");
        }
    }
    let error = source(&sequence(i64::MIN, i64::MAX, 1)).unwrap().enumerator(None).err().unwrap();
    assert!(error.message().starts_with("expected a sequence of fewer than 2^63 numbers"), "{error}");
}

#[test]
fn collections() {
    let batches = [numbers(vec![1, 2]), numbers(vec![3]), numbers(vec![4, 5])];
    for parts in [1, 2, 3, 9] {
        let spec = CollectionConfig::new(&batches[0].schema(), &batches, parts).unwrap().spec().unwrap();
        assert_eq!(splits(&spec).len(), parts.min(5) as usize);
        for (max_rows, events) in [(1, 0), (2, 1), (100, 2)] {
            assert_eq!(text(&read(&spec, max_rows, events).unwrap()), "1 | 2 | 3 | 4 | 5");
        }
    }
    let empty = CollectionConfig::new(&batches[0].schema(), &[], 2).unwrap().spec().unwrap();
    assert_eq!(read(&empty, 1, 0).unwrap(), []);
    let broken = CollectionConfig { rows: "?".into(), splits: 1 }.spec().unwrap();
    let error = source(&broken).err().unwrap();
    assert!(error.message().starts_with("expected rows as Arrow IPC in base64"), "{error}");
}

#[test]
fn a_split_that_does_not_fit_the_collection() {
    let long = CollectionConfig::new(&numbers(vec![]).schema(), &[numbers(vec![1, 2, 3])], 1).unwrap().spec().unwrap();
    let short = CollectionConfig::new(&numbers(vec![]).schema(), &[numbers(vec![1])], 1).unwrap().spec().unwrap();
    let mut reader = source(&short).unwrap().reader(&info(0, 1, nothing())).unwrap();
    reader.add_split(splits(&long).remove(0)).unwrap();
    let clock = flott_core::ManualClock::default();
    let ctx = flott_core::ReaderContext { waker: std::task::Waker::noop(), clock: &clock, max_rows: 10 };
    let error = reader.next_batch(&ctx).unwrap_err();
    assert_eq!(error.message(), "expected the rows of the snapshot, found a collection of 1");
}

#[test]
fn sinks() {
    let mut registry = registry();
    let (collect, blackhole) = (CollectSink::default(), Blackhole::default());
    collect.register(&mut registry, "out");
    blackhole.register(&mut registry);
    for spec in [CollectSink::spec("out").unwrap(), Blackhole::spec().unwrap()] {
        let sink = registry.sink(&spec.factory).unwrap()(&spec).unwrap();
        assert!(sink.committer().unwrap().is_none());
        let mut writers: Vec<_> = (0..2).map(|i| sink.writer(&info(i, 2, nothing()), &[]).unwrap()).collect();
        for (task, values) in [(0, vec![1]), (1, vec![2, 3]), (0, vec![4])] {
            writers[task].write(&Batch::new(numbers(values))).unwrap();
        }
    }
    assert_eq!((collect.num_rows(), blackhole.rows()), (4, 4));
    assert_eq!(collect.of_task(0).iter().flat_map(rows).collect::<Vec<_>>(), ["1", "4"]);
    let order: Vec<_> = collect.take().iter().map(|(task, batch)| (*task, rows(batch).join(","))).collect();
    assert_eq!(order, [(0, "1".to_owned()), (1, "2,3".to_owned()), (0, "4".to_owned())]);
    assert_eq!(collect.num_rows(), 0);
}
