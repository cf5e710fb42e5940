//! A source and a sink that can be watched: the source counts what it gives out, the sink is slow or held.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use arrow_schema::Schema;
use flott_core::{
    Batch, Clock, Error, NextSplit, OperatorInfo, ReaderContext, Registry, Result, Sink, SinkWriter, Source,
    SourceEvent, SourceReader, Spec, Split, SplitEnumerator, Timestamp, Wait,
};
use flott_operators::calc::CalcConfig;
use flott_plan::{NodeKind, Partitioning};
use flott_testing::jobs::Graph;

use super::row::{Row, batch, read, schema};

/// What there is to see of a run.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Seen>);

#[derive(Default)]
struct Seen {
    given: AtomicI64,
    written: AtomicI64,
    /// The most rows that were given out and not yet written.
    most_rows: AtomicI64,
    /// The most batches of the source that existed at once.
    most_batches: AtomicI64,
    /// A batch of the source is alive as long as its schema.
    batches: Mutex<Vec<Weak<Schema>>>,
    rows: Mutex<Vec<Row>>,
}

impl Watched {
    /// Puts source and sink into `registry` as `steady`: `tasks` readers give `count` rows each, (reader, number,
    /// number); after each batch the sink takes nothing for `pause` ms of processing time.
    pub(crate) fn register(&self, registry: &mut Registry, count: i64, pause: i64) {
        let seen = Arc::clone(&self.0);
        registry
            .add_source("steady", Arc::new(move |_: &Spec| Ok(Box::new(Steady { seen: Arc::clone(&seen), count }))));
        let seen = Arc::clone(&self.0);
        registry.add_sink("steady", Arc::new(move |_: &Spec| Ok(Box::new(Slow { seen: Arc::clone(&seen), pause }))));
    }

    pub(crate) fn given(&self) -> i64 {
        self.0.given.load(Ordering::SeqCst)
    }

    pub(crate) fn most_rows(&self) -> i64 {
        self.0.most_rows.load(Ordering::SeqCst)
    }

    pub(crate) fn most_batches(&self) -> i64 {
        self.0.most_batches.load(Ordering::SeqCst)
    }

    /// Rows written, in the order of writing.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.0.rows.lock().unwrap().clone()
    }
}

/// Source, the operators named, sink; every edge partitioned like this.
pub(crate) fn graph(how: &Partitioning, operators: &[&str], sink: &str, options: &[(&str, &str)]) -> Graph {
    let mut graph = Graph::new(options).unwrap();
    let spec = |name: &str| Spec::new(name, &()).unwrap();
    let source = NodeKind::Source { spec: spec("steady"), watermarks: None };
    let mut last = graph.add("source", source, &[], schema());
    for (index, name) in operators.iter().enumerate() {
        let uid = format!("{name}{index}");
        let spec = if *name == "calc" { Spec::new(name, &CalcConfig::default()).unwrap() } else { spec(name) };
        last = graph.add(&uid, NodeKind::Operator(spec), &[(last, how.clone())], schema());
    }
    graph.add("sink", NodeKind::Sink(spec(sink)), &[(last, how.clone())], schema());
    graph
}

struct Steady {
    seen: Arc<Seen>,
    count: i64,
}

/// One split a reader.
struct Splits(BTreeMap<u32, i64>);

impl Source for Steady {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(match restored {
            Some(bytes) => Splits(postcard::from_bytes(bytes)?),
            None => Splits((0..2).map(|split| (split, 0)).collect()),
        }))
    }

    fn reader(&self, _: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(Reader { seen: Arc::clone(&self.seen), count: self.count, splits: Vec::new() }))
    }
}

impl SplitEnumerator for Splits {
    fn next_split(&mut self, _: u32, _: u32) -> Result<NextSplit> {
        Ok(self.0.pop_first().map_or(NextSplit::NoMore, |(id, from)| {
            NextSplit::Split(Split { id: id.to_string().into(), position: from.to_le_bytes().to_vec() })
        }))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(&self.0)?)
    }
}

struct Reader {
    seen: Arc<Seen>,
    count: i64,
    /// Id and next number.
    splits: Vec<(i64, i64)>,
}

impl SourceReader for Reader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let position = split.position.as_slice().try_into().map_err(|_| Error::internal("not ours"))?;
        self.splits.push((split.id.parse().unwrap(), i64::from_le_bytes(position)));
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        let Some((id, next)) = self.splits.first_mut() else { return Ok(SourceEvent::NeedSplit) };
        if *next == self.count {
            let id = id.to_string();
            self.splits.remove(0);
            return Ok(SourceEvent::SplitFinished(id.into()));
        }
        let to = (*next + ctx.max_rows as i64).min(self.count);
        let rows: Vec<Row> = (*next..to).map(|number| (*id, number, number)).collect();
        *next = to;
        let seen = &self.seen;
        seen.given.fetch_add(rows.len() as i64, Ordering::SeqCst);
        let given = batch(&rows);
        let token = Arc::new(schema().as_ref().clone());
        let columns = given.columns().clone().with_schema(Arc::clone(&token))?;
        let mut batches = seen.batches.lock().unwrap();
        batches.push(Arc::downgrade(&token));
        batches.retain(|batch| batch.strong_count() > 0);
        seen.most_batches.fetch_max(batches.len() as i64, Ordering::SeqCst);
        Ok(SourceEvent::Batch(id.to_string().into(), given.with_columns(columns)?))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        let split =
            |(id, next): &(i64, i64)| Split { id: id.to_string().into(), position: next.to_le_bytes().to_vec() };
        Ok(self.splits.iter().map(split).collect())
    }
}

struct Slow {
    seen: Arc<Seen>,
    pause: i64,
}

impl Sink for Slow {
    fn writer(&self, _: &Arc<OperatorInfo>, _: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(SlowWriter { seen: Arc::clone(&self.seen), pause: self.pause, next: None }))
    }
}

struct SlowWriter {
    seen: Arc<Seen>,
    pause: i64,
    next: Option<Timestamp>,
}

impl SinkWriter for SlowWriter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.next = None;
        let seen = &self.seen;
        let behind = seen.given.load(Ordering::SeqCst) - seen.written.load(Ordering::SeqCst);
        seen.most_rows.fetch_max(behind, Ordering::SeqCst);
        seen.written.fetch_add(batch.num_rows() as i64, Ordering::SeqCst);
        seen.rows.lock().unwrap().extend(read(batch));
        Ok(())
    }

    fn ready(&mut self, _: &Waker, clock: &dyn Clock) -> Result<Option<Wait>> {
        let now = clock.now();
        let next = *self.next.get_or_insert(now.saturating_add(self.pause));
        Ok((now < next).then_some(Wait::Until(next)))
    }
}
