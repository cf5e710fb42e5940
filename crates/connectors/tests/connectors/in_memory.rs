//! The sources `sequence` and `collection`, the sinks `collect` and `blackhole`.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use flott_connectors::blackhole::Blackhole;
use flott_connectors::collect::Collected;
use flott_connectors::collection::CollectionConfig;
use flott_connectors::sequence::SequenceConfig;
use flott_core::{Batch, RowKind, Sink, SinkWriter, Spec, schema_of};

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
fn a_blackhole_counts() {
    let (mut registry, blackhole) = (registry(), Blackhole::default());
    blackhole.register(&mut registry);
    let spec = Blackhole::spec().unwrap();
    let sink = registry.sink(&spec.factory).unwrap()(&spec).unwrap();
    assert!(sink.committer().unwrap().is_none());
    for task in 0..2 {
        let mut writer = sink.writer(&info(task, 2, nothing()), &[]).unwrap();
        writer.write(&Batch::new(numbers(vec![1, 2, 3]))).unwrap();
    }
    assert_eq!(blackhole.rows(), 6);
}

fn taken(collected: &Collected) -> Vec<String> {
    collected.take().iter().flat_map(rows).collect()
}

#[test]
fn what_is_collected_is_seen_once_and_only_when_committed() {
    let (mut registry, collected) = (registry(), Collected::default());
    collected.register(&mut registry);
    let spec = Collected::spec().unwrap();
    let sink = registry.sink(&spec.factory).unwrap()(&spec).unwrap();
    let mut committer = sink.committer().unwrap().unwrap();
    let writer = |task, restored: &[Vec<u8>]| sink.writer(&info(task, 2, nothing()), restored).unwrap();
    let (mut first, mut second) = (writer(0, &[]), writer(1, &[]));
    let write = |writer: &mut Box<dyn SinkWriter>, values| writer.write(&Batch::new(numbers(values))).unwrap();

    write(&mut first, vec![1]);
    write(&mut first, vec![2, 3]);
    write(&mut second, vec![4]);
    let of_first = first.prepare_commit().unwrap();
    let state = first.snapshot().unwrap();
    let one = [of_first, second.prepare_commit().unwrap()].concat();
    assert_eq!(taken(&collected), [] as [&str; 0], "prepared, not committed");
    committer.commit(&one).unwrap();
    committer.commit(&one).unwrap();
    assert_eq!(taken(&collected), ["1", "2", "3", "4"]);
    assert_eq!(taken(&collected), [] as [&str; 0], "taken");

    // Written and lost with the task; after the restore the checkpoint is committed again and the rows come again.
    write(&mut first, vec![5]);
    let mut first = writer(0, &state);
    committer.commit(&one).unwrap();
    write(&mut first, vec![5]);
    committer.commit(&first.prepare_commit().unwrap()).unwrap();
    assert_eq!(first.prepare_commit().unwrap(), [], "no rows, nothing to commit");
    assert_eq!(taken(&collected), ["5"]);
}

#[test]
fn kinds_are_collected_with_their_rows() {
    let collected = Collected::default();
    let mut writer = collected.writer(&info(0, 1, nothing()), &[]).unwrap();
    let kinds = Some(vec![RowKind::UpdateBefore as u8, RowKind::UpdateAfter as u8].into());
    writer.write(&Batch::new(numbers(vec![1]))).unwrap();
    writer.write(&Batch::new(numbers(vec![1, 2])).with_row_kinds(kinds.clone())).unwrap();
    collected.committer().unwrap().unwrap().commit(&writer.prepare_commit().unwrap()).unwrap();
    let batches = collected.take();
    let found: Vec<_> = batches.iter().map(|batch| (rows(batch), batch.row_kinds().cloned())).collect();
    assert_eq!(found, [(vec!["1".into()], None), (vec!["1".into(), "2".into()], kinds)]);
}
