//! `latency` and `idle`: how long a record takes through a keyed exchange at a low rate, and what a job costs that has
//! nothing to do.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use arrow_array::Int64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, SchemaRef};
use flott_core::{
    Batch, Clock, Error, NextSplit, OperatorInfo, ReaderContext, Registry, Result, Sink, SinkWriter, Source,
    SourceEvent, SourceReader, Spec, Split, SplitEnumerator, Timestamp, Wait, WatermarkStrategy, schema_of,
};
use flott_operators::reduce::{self, ReduceConfig};
use flott_operators::{Call, Function};
use flott_plan::{NodeKind, Partitioning};
use flott_testing::jobs::registry;
use serde::{Deserialize, Serialize};

use crate::job;
use crate::measure::{Measured, Spread, Stopwatch, child};
use crate::report::{Runs, Section};

/// The name of the benchmark of latency.
pub(crate) const LATENCY: &str = "latency";
/// The name of the benchmark of an idle job.
pub(crate) const IDLE: &str = "idle";

const SOURCE: &str = "bench_paced";
const SINK: &str = "bench_latency";
const KEYS: u64 = 100;
/// An idle source looks for news so often, in ms, as a connector that polls does.
const POLL_MS: i64 = 100;

/// A source that has a record every ms, or none at all, for some seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Paced {
    seconds: u64,
    records: bool,
}

/// Latency at 1,000 records/s over 20 s.
pub(crate) fn bench_latency(runs: usize) -> Result<Section> {
    let mut table =
        vec![["parallelism", "p50 ms", "p99 ms", "max ms", "CPU s", "peak MiB"].map(str::to_owned).to_vec()];
    for parallelism in ["1", "2"] {
        let runs = repeat(&[LATENCY, "20", "records", parallelism], runs)?;
        let of = |name: &str| Spread::of(runs.runs.iter().map(|run| run.extra.get(name).copied().unwrap_or(f64::NAN)));
        let shown = |name: &str| format!("{:.2} ({:.2}–{:.2})", of(name).median, of(name).min, of(name).max);
        let cost = [format!("{:.2}", runs.cpu_seconds().median), format!("{:.0}", runs.peak_mib().median)];
        table.push([vec![parallelism.to_owned(), shown("p50"), shown("p99"), shown("max")], cost.to_vec()].concat());
    }
    let about = "A source has a record every millisecond for 20 s; records go through an exchange by key (100 keys) \
                 into a running count. Latency is from the time a record was due to the sink's call, so that a delay \
                 of the source counts; the source wakes on whole milliseconds. Median (min–max) of the runs.";
    Ok(Section { name: LATENCY, about: about.to_owned(), table })
}

/// Processor time of a job that waits 30 s.
pub(crate) fn bench_idle() -> Result<Section> {
    let runs = repeat(&[IDLE, "30", "nothing", "2"], 1)?;
    let (cpu, seconds) = (runs.cpu_seconds().median, runs.seconds().median);
    let row = vec![
        format!("{seconds:.1}"),
        format!("{cpu:.2}"),
        format!("{:.2} %", cpu / seconds * 100.0),
        format!("{:.0}", runs.peak_mib().median),
    ];
    let heading = ["seconds", "CPU s", "of a core", "peak MiB"].map(str::to_owned).to_vec();
    let about = format!(
        "The same job with parallelism 2 and watermarks, whose source has no record for 30 s and looks for one every \
         {POLL_MS} ms."
    );
    Ok(Section { name: IDLE, about, table: vec![heading, row] })
}

fn repeat(args: &[&str], runs: usize) -> Result<Runs> {
    let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
    Ok(Runs { contender: "flott".to_owned(), runs: (0..runs).map(|_| child(&args)).collect::<Result<_>>()? })
}

/// One run, in this process: seconds, `records` or `nothing`, parallelism.
pub(crate) fn run(args: &[String]) -> Result<Measured> {
    let [seconds, what, parallelism] = args else { return Err(Error::internal(format!("{LATENCY} of {args:?}"))) };
    let number = |text: &str| text.parse::<u64>().map_err(|_| Error::internal(format!("'{text}' is no number")));
    let paced = Paced { seconds: number(seconds)?, records: what == "records" };
    let mut graph = job::graph(number(parallelism)? as u32, &[])?;
    let schema = schema();
    let watermarks = (!paced.records)
        .then(WatermarkStrategy::for_monotonous_timestamps)
        .map(|s| s.with_time_column(1).with_every_rows(4096));
    let source = NodeKind::Source { spec: Spec::new(SOURCE, &paced)?, watermarks };
    let source = graph.add("paced", source, &[], Arc::clone(&schema));
    graph.node(source).parallelism = Some(1);
    let call = |function, column| Call { function, column };
    let columns = vec![call(Function::First, Some(0)), call(Function::Count, None), call(Function::Last, Some(1))];
    let config = ReduceConfig { columns };
    let output = config.output(["key", "count", "due"], &schema)?;
    let count = NodeKind::Operator(Spec::new(reduce::NAME, &config)?);
    let count = graph.add("count", count, &[(source, Partitioning::Hash(vec![0]))], output);
    job::sink(&mut graph, count, Spec::new(SINK, &())?);
    let clock = job::clock();
    let latencies = Latencies { clock: Arc::clone(&clock), nanos: Arc::default() };
    let mut registry = registry();
    latencies.register(&mut registry);
    let watch = Stopwatch::start()?;
    job::run(&graph, &registry, clock)?;
    let mut nanos = std::mem::take(&mut *latencies.nanos.lock().unwrap_or_else(PoisonError::into_inner));
    nanos.sort_unstable();
    let mut measured = watch.stop(nanos.len() as u64)?;
    let expected = if paced.records { paced.seconds * 1000 } else { 0 };
    if measured.rows_out != expected {
        return Err(Error::internal(format!("{expected} records went in, {} came out", measured.rows_out)));
    }
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let at = (nanos.len() as f64 * part) as usize;
        if let Some(&nanos) = nanos.get(at.min(nanos.len().saturating_sub(1))) {
            measured.extra.insert(name.to_owned(), nanos as f64 / 1e6);
        }
    }
    Ok(measured)
}

/// `key` and `due`, the monotonic time in ns at which the record was due.
fn schema() -> SchemaRef {
    schema_of(["key", "due"].map(|name| Field::new(name, DataType::Int64, false)).to_vec())
}

impl Source for Paced {
    fn enumerator(&self, _restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(OneSplit(true)))
    }

    fn reader(&self, _info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(PacedReader { paced: *self, begun: None, records: 0..0 }))
    }
}

struct OneSplit(bool);

impl SplitEnumerator for OneSplit {
    fn next_split(&mut self, _reader: u32, _parallelism: u32) -> Result<NextSplit> {
        let first = std::mem::take(&mut self.0);
        Ok(if first { NextSplit::Split(Split { id: "all".into(), position: Vec::new() }) } else { NextSplit::NoMore })
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

struct PacedReader {
    paced: Paced,
    /// The clock's ms and the monotonic ns at which record 0 was due.
    begun: Option<(Timestamp, u64)>,
    records: Range<u64>,
}

impl SourceReader for PacedReader {
    fn add_split(&mut self, _split: Split) -> Result<()> {
        self.records = 0..self.paced.seconds * 1000;
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        if self.records.is_empty() {
            return Ok(if self.begun.take().is_some() {
                SourceEvent::SplitFinished("all".into())
            } else {
                SourceEvent::NeedSplit
            });
        }
        let (start, start_nanos) = *self.begun.get_or_insert_with(|| next_millisecond(ctx.clock));
        let now = ctx.clock.now();
        let passed = u64::try_from(now.0 - start.0).unwrap_or(0);
        if !self.paced.records {
            self.records.start = passed.min(self.records.end);
            return Ok(SourceEvent::Wait(Wait::Until(now.saturating_add(POLL_MS))));
        }
        let due = self.records.start..self.records.end.min(passed + 1);
        if due.is_empty() {
            return Ok(SourceEvent::Wait(Wait::Until(start.saturating_add(due.start as i64))));
        }
        self.records.start = due.end;
        let keys: Int64Array = due.clone().map(|number| (number % KEYS) as i64).collect::<Vec<_>>().into();
        let times: Int64Array = due.map(|n| (start_nanos + n * 1_000_000) as i64).collect::<Vec<_>>().into();
        let rows = keys.len();
        Ok(SourceEvent::Batch("all".into(), Batch::of(schema(), vec![Arc::new(keys), Arc::new(times)], rows)?))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        Ok(Vec::new())
    }
}

/// The start of the next whole ms on both clocks: the one that wakes and the one that measures.
fn next_millisecond(clock: &dyn Clock) -> (Timestamp, u64) {
    let before = clock.now();
    loop {
        let (now, nanos) = (clock.now(), clock.monotonic_nanos());
        if now > before {
            return (now, nanos);
        }
    }
}

/// A sink that notes how long each record took.
#[derive(Clone)]
struct Latencies {
    clock: Arc<dyn Clock>,
    nanos: Arc<Mutex<Vec<u64>>>,
}

impl Latencies {
    fn register(&self, registry: &mut Registry) {
        let sink = self.clone();
        registry.add_sink(SINK, Arc::new(move |_: &Spec| Ok(Box::new(sink.clone()))));
        registry.add_source(SOURCE, Arc::new(|spec| Ok(Box::new(spec.read::<Paced>()?))));
    }
}

impl Sink for Latencies {
    fn writer(&self, _info: &Arc<OperatorInfo>, _restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl SinkWriter for Latencies {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let now = self.clock.monotonic_nanos();
        let due = batch.column(2).as_primitive::<Int64Type>();
        let taken = due.values().iter().map(|&due| now.saturating_sub(due.unsigned_abs()));
        self.nanos.lock().unwrap_or_else(PoisonError::into_inner).extend(taken);
        Ok(())
    }

    fn ready(&mut self, _waker: &Waker, _clock: &dyn Clock) -> Result<Option<Wait>> {
        Ok(None)
    }
}
