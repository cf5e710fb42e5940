//! Reading a source as the runtime does, with a snapshot wherever a test wants one.

use std::sync::Arc;
use std::task::Waker;

use arrow_schema::SchemaRef;
use flott_connectors::register_all;
use flott_core::{
    Batch, ManualClock, NextSplit, OperatorInfo, ReaderContext, Registry, Result, RowKind, Source, SourceEvent, Spec,
    Split, Timestamp,
};
use flott_formats::text::write_row;

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    register_all(&mut registry);
    registry
}

pub(crate) fn source(spec: &Spec) -> Result<Box<dyn Source>> {
    registry().source(&spec.factory)?(spec)
}

pub(crate) fn info(index: u32, parallelism: u32, schema: SchemaRef) -> Arc<OperatorInfo> {
    Arc::new(OperatorInfo {
        uid: "u".into(),
        name: "n".into(),
        index,
        parallelism,
        max_parallelism: 128,
        inputs: vec![schema.clone()],
        output: schema,
        side_outputs: Vec::new(),
        keys: vec![Vec::new()],
    })
}

pub(crate) fn nothing() -> SchemaRef {
    flott_core::schema_of(Vec::new())
}

/// Rows as `a, b`.
pub(crate) fn rows(batch: &Batch) -> Vec<String> {
    let row = |row| {
        let mut line = String::new();
        write_row(batch.columns(), row, RowKind::Insert, &mut line).unwrap();
        line.trim_start_matches("+I[").trim_end_matches(']').to_owned()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// (split, row) in the order they were given out.
pub(crate) type Read = Vec<(String, String)>;

/// Reads all with one reader. After every `events` events (0: never) enumerator and reader are thrown away and made
/// again from their snapshots.
pub(crate) fn read(spec: &Spec, max_rows: usize, events: usize) -> Result<Read> {
    let (clock, info) = (ManualClock::new(Timestamp(0)), info(0, 1, nothing()));
    let ctx = ReaderContext { waker: Waker::noop(), clock: &clock, max_rows };
    let source = source(spec)?;
    let mut enumerator = source.enumerator(None)?;
    let mut reader = source.reader(&info)?;
    let mut found = Vec::new();
    for event in 1.. {
        match reader.next_batch(&ctx)? {
            SourceEvent::Batch(split, batch) => {
                assert!((1..=max_rows).contains(&batch.num_rows()));
                found.extend(rows(&batch).into_iter().map(|row| (split.to_string(), row)));
            }
            SourceEvent::SplitFinished(_) => {}
            SourceEvent::NeedSplit => match enumerator.next_split(0, 1)? {
                NextSplit::Split(split) => reader.add_split(split)?,
                NextSplit::NoMore => return Ok(found),
                NextSplit::Later(_) => panic!("bounded sources have no later"),
            },
            SourceEvent::Wait(_) => panic!("nothing is paused"),
        }
        if events > 0 && event % events == 0 {
            let (splits, pending) = (reader.snapshot()?, enumerator.snapshot()?);
            enumerator = source.enumerator(Some(&pending))?;
            reader = source.reader(&info)?;
            splits.into_iter().try_for_each(|split| reader.add_split(split))?;
        }
    }
    Ok(found)
}

/// The rows without their splits, joined by ` | `.
pub(crate) fn text(read: &Read) -> String {
    read.iter().map(|(_, row)| row.as_str()).collect::<Vec<_>>().join(" | ")
}

/// Every split the source has.
pub(crate) fn splits(spec: &Spec) -> Vec<Split> {
    let mut enumerator = source(spec).unwrap().enumerator(None).unwrap();
    let mut splits = Vec::new();
    while let NextSplit::Split(split) = enumerator.next_split(0, 1).unwrap() {
        splits.push(split);
    }
    splits
}
