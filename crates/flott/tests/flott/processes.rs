//! A program with closures over own structs, in one process or two, fails after a checkpoint in the middle and goes on
//! at another parallelism: with the rows of a plain loop.
//!
//! The program is this test binary again, in [`program_entry`], and so are its workers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use flott::connectors::sequence::SequenceConfig;
use flott::connectors::{CsvOptions, csv_sink};
use flott::prelude::*;
use flott::{Error, Executor, JobResult, LocalExecutor, Spec, built_ins};
use flott_core::{
    OperatorInfo, ReaderContext, Registry, Source, SourceEvent, SourceReader, Split, SplitEnumerator, Wait,
};
use flott_plan::StreamGraph;

use crate::program::told;

/// One row a ms, in parts of 300: a reader stops in its first.
const ROWS: i64 = 4_800;
const PARTS: u32 = 16;
const BEFORE_GATE: usize = 100;
const WINDOW_MS: i64 = 60;
const TOTAL_MS: i64 = 250;

/// Where a job runs: parallelism, and worker processes beside the first.
type Place = (u32, u32);

/// From the beginning to the end in one go, or until there is a checkpoint and then elsewhere.
const RUNS: [(Place, Option<Place>); 9] = [
    ((1, 0), None),
    ((1, 1), None),
    ((3, 0), None),
    ((3, 1), None),
    ((1, 0), Some((3, 1))),
    ((1, 1), Some((3, 0))),
    ((3, 1), Some((1, 1))),
    ((3, 1), Some((2, 0))),
    ((3, 0), Some((2, 1))),
];

#[test]
fn a_program_gives_the_same_wherever_it_runs() {
    let expected = expected();
    for (place, moved) in RUNS {
        let folder = tempfile::tempdir().unwrap();
        let case = format!("(parallelism, workers) {place:?} and then {moved:?}");
        let (last, how) = match moved {
            None => (place, How::AtOnce),
            Some(after) => {
                let (code, _, error) = told(&run(folder.path(), place, How::UntilCheckpoint));
                // Before it may be a note on the checkpoint that was on its way.
                let last = error.lines().last().unwrap_or_default();
                assert!(code == Some(1) && last.starts_with(GATE), "{case}: {error}");
                assert_eq!(stopped(folder.path()).len() as u32, 1 + place.1.min(place.0 - 1), "{case}: processes");
                assert!(written(folder.path()).len() < expected.len(), "{case}: it was in the middle");
                (after, How::FromCheckpoint)
            }
        };
        let (code, _, error) = told(&run(folder.path(), last, how));
        assert_eq!((code, &*error), (Some(0), ""), "{case}");
        let lines = written(folder.path());
        assert!(lines == expected, "{case}: {} rows of {}", lines.len(), expected.len());
    }
}

#[derive(Record, Clone, Debug)]
struct Trade {
    ticker: String,
    amount: i64,
}

/// What the program writes: how many trades there were, what a window holds, what there is at a point of time.
#[derive(Record, Clone, Debug)]
struct Line {
    what: String,
    ticker: String,
    at: i64,
    number: i64,
}

impl Line {
    fn new(what: &str, ticker: String, at: i64, number: i64) -> Self {
        Self { what: what.to_owned(), ticker, at, number }
    }
}

/// The trade at `n` ms.
fn trade(n: i64) -> Trade {
    Trade { ticker: format!("T{}", n * 7 % 20 % 7), amount: n * n % 100 }
}

/// What a plain loop makes of the trades, as the files hold it.
fn expected() -> Vec<String> {
    let mut lines = Vec::new();
    let (mut counts, mut windows) = (BTreeMap::new(), BTreeMap::new());
    // By ticker and then by end: what came before each.
    let mut totals = BTreeMap::<_, BTreeMap<i64, i64>>::new();
    for n in 0..ROWS {
        let Trade { ticker, amount } = trade(n);
        let count = counts.entry(ticker.clone()).or_insert(0);
        *count += 1;
        lines.push(format!("count,{ticker},0,{count}"));
        *windows.entry((ticker.clone(), n / WINDOW_MS * WINDOW_MS)).or_insert(0) += amount;
        *totals.entry(ticker).or_default().entry((n / TOTAL_MS + 1) * TOTAL_MS).or_default() += amount;
    }
    lines.extend(windows.into_iter().map(|((ticker, start), sum)| format!("window,{ticker},{start},{sum}")));
    for (ticker, sums) in totals {
        let mut total = 0;
        for (end, sum) in sums {
            total += sum;
            lines.push(format!("total,{ticker},{end},{total}"));
        }
    }
    lines.sort();
    lines
}

/// The committed lines.
fn written(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder.join("out")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            lines.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    lines.sort();
    lines
}

#[derive(Clone)]
struct Volume;

impl Aggregate for Volume {
    type In = Trade;
    type Accumulator = i64;
    type Out = i64;
    fn create(&self) -> i64 {
        0
    }
    fn add(&self, trade: Trade, sum: &mut i64) -> Result<()> {
        *sum += trade.amount;
        Ok(())
    }
    fn result(&self, sum: &i64) -> Result<i64> {
        Ok(*sum)
    }
}

/// The total of a ticker whenever `TOTAL_MS` of event time are over in which there were trades.
#[derive(Clone, Default)]
struct Totals {
    total: ValueState<i64>,
    open: OrderedMapState<i64, i64>,
}

impl KeyedProcessFunction for Totals {
    type Key = String;
    type In = Trade;
    type Out = Line;

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.total = ctx.value_state("total")?;
        self.open = ctx.ordered_map_state("open")?;
        Ok(())
    }

    fn process_element(
        &mut self,
        trade: Trade,
        ctx: &mut ProcessContext<'_, String>,
        _out: &mut Collector<'_, Line>,
    ) -> Result<()> {
        let end = (ctx.timestamp().unwrap().millis() / TOTAL_MS + 1) * TOTAL_MS;
        let sum = self.open.get(ctx, &end)?.copied().unwrap_or(0);
        self.open.put(ctx, end, sum + trade.amount)?;
        ctx.register_event_time_timer(Timestamp(end - 1))
    }

    fn on_timer(
        &mut self,
        at: Timestamp,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut Collector<'_, Line>,
    ) -> Result<()> {
        let end = at.millis() + 1;
        let sum = self.open.remove(ctx, &end)?.unwrap_or(0);
        let total = self.total.value(ctx)?.copied().unwrap_or(0) + sum;
        self.total.update(ctx, total)?;
        out.collect(Line::new("total", ctx.current_key(), end, total))
    }
}

/// The program: counts, window sums and totals by ticker, into files.
fn program(folder: &Path, (parallelism, workers): Place, how: How) -> Result<()> {
    let local = LocalExecutor::default().workers(workers);
    let local = if how == How::FromCheckpoint { local.resume() } else { local };
    let gate = (how == How::UntilCheckpoint).then(|| folder.to_owned());
    let env = StreamExecutionEnvironment::with_executor(Arc::new(WithGate { local, gate }));
    env.set_parallelism(parallelism);
    env.set("execution.checkpointing.dir", &folder.join("checkpoints").display().to_string());
    env.set("execution.checkpointing.interval", "5 ms");
    env.set("restart-strategy.type", "none");
    env.set("flott.batch.rows", "64");
    let numbers = Spec::new("gated", &SequenceConfig { from: 0, to: ROWS - 1, splits: PARTS })?;
    let strategy = WatermarkStrategy::for_monotonous_timestamps().with_time_column(0).with_every_rows(50);
    let trades = env.from_source::<i64>("Numbers", numbers, Some(strategy)).map(move |n| match n {
        0 if how == How::FromCheckpoint => Err("the first row was read again"),
        _ => Ok(trade(n)),
    });
    let by_ticker = trades.key_by(|trade| trade.ticker.clone());
    let counts = trades
        .map(|trade| Line::new("count", trade.ticker, 0, 1))
        .key_by(|line| line.ticker.clone())
        .reduce(|a, b| Line { number: a.number + b.number, ..a });
    let sum_of = |ticker, window: TimeWindow, sum| Line::new("window", ticker, window.start.millis(), sum);
    let windows = by_ticker.window(TumblingEventTimeWindows::of(WINDOW_MS)).aggregate_with(Volume, sum_of);
    let totals = by_ticker.process(Totals::default());
    let lines = counts.union(&windows).union(&totals);
    lines.sink_to("Files", csv_sink(folder.join("out"), CsvOptions::default()).spec()?);
    env.execute("trades").map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    AtOnce,
    UntilCheckpoint,
    FromCheckpoint,
}

/// Folder, parallelism, workers, how: one a line.
const RUN_VARIABLE: &str = "FLOTT_TEST_RUN";

fn run(folder: &Path, (parallelism, workers): Place, how: How) -> Output {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["processes::program_entry", "--exact", "--nocapture"]);
    program.env(RUN_VARIABLE, format!("{}\n{parallelism}\n{workers}\n{how:?}", folder.display()));
    program.stdout(Stdio::null()).output().unwrap()
}

/// Not a test: the main of the program.
#[test]
#[expect(clippy::disallowed_methods, reason = "the main of a process reads its environment")]
fn program_entry() {
    let Ok(run) = std::env::var(RUN_VARIABLE) else { return };
    let [folder, parallelism, workers, how] = run.lines().collect::<Vec<_>>().try_into().unwrap();
    let how = [How::AtOnce, How::UntilCheckpoint, How::FromCheckpoint].into_iter().find(|h| format!("{h:?}") == how);
    let place = (parallelism.parse().unwrap(), workers.parse().unwrap());
    let ran = program(Path::new(folder), place, how.unwrap());
    if let Err(error) = &ran {
        eprintln!("{error}");
    }
    std::process::exit(i32::from(ran.is_err()));
}

const GATE: &str = "there is a checkpoint in the middle";

/// Runs jobs on this machine, with the source "gated": a sequence, or a part of one.
struct WithGate {
    local: LocalExecutor,
    /// The folder of a job that ends at the gate.
    gate: Option<PathBuf>,
}

impl Executor for WithGate {
    fn execute(&self, graph: StreamGraph, mut registry: Registry) -> Result<JobResult> {
        let gate = self.gate.clone();
        let sequence = built_ins().source("sequence")?.clone();
        let gated = move |spec: &Spec| -> Result<Box<dyn Source>> {
            let sequence = sequence(spec)?;
            Ok(match &gate {
                Some(folder) => Box::new(Gated { sequence, folder: folder.clone() }),
                None => sequence,
            })
        };
        registry.add_source("gated", Arc::new(gated));
        self.local.execute(graph, registry)
    }
}

/// A sequence whose readers stop in the middle of their first part. When all have, and a checkpoint has begun after
/// that and is complete, the first fails.
struct Gated {
    sequence: Box<dyn Source>,
    folder: PathBuf,
}

struct GatedReader {
    sequence: Box<dyn SourceReader>,
    folder: PathBuf,
    info: Arc<OperatorInfo>,
    given: usize,
    /// The newest checkpoint when all had stopped.
    before: Option<u64>,
}

impl Source for Gated {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        self.sequence.enumerator(restored)
    }

    fn reader(&self, info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        let (sequence, info) = (self.sequence.reader(info)?, info.clone());
        Ok(Box::new(GatedReader { sequence, folder: self.folder.clone(), info, given: 0, before: None }))
    }
}

impl SourceReader for GatedReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        self.sequence.add_split(split)
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        if self.given < BEFORE_GATE {
            let event = self.sequence.next_batch(ctx)?;
            if let SourceEvent::Batch(_, batch) = &event {
                self.given += batch.num_rows();
            }
            return Ok(event);
        }
        let stop = self.folder.join(format!("stopped-{}-{}", std::process::id(), self.info.index));
        std::fs::write(stop, "").unwrap();
        if self.info.index == 0 {
            self.end_after_a_checkpoint()?;
        }
        Ok(SourceEvent::Wait(Wait::Until(ctx.clock.now().saturating_add(1))))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        self.sequence.snapshot()
    }
}

impl GatedReader {
    fn end_after_a_checkpoint(&mut self) -> Result<()> {
        let readers: usize = stopped(&self.folder).values().map(BTreeSet::len).sum();
        if readers < self.info.parallelism as usize {
            return Ok(());
        }
        let newest = newest_checkpoint(&self.folder);
        let before = *self.before.get_or_insert(newest);
        // The one after it may have begun before all had stopped.
        if newest < before + 2 { Ok(()) } else { Err(Error::user(GATE)) }
    }
}

/// By process, the readers that have stopped in it.
fn stopped(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut stopped = BTreeMap::<_, BTreeSet<_>>::new();
    for name in names(folder) {
        if let Some((pid, index)) = name.strip_prefix("stopped-").and_then(|rest| rest.split_once('-')) {
            stopped.entry(pid.to_owned()).or_default().insert(index.to_owned());
        }
    }
    stopped
}

/// The id of the newest complete checkpoint; 0 if there is none.
fn newest_checkpoint(folder: &Path) -> u64 {
    let checkpoints = folder.join("checkpoints");
    let complete = names(&checkpoints).into_iter().filter(|name| checkpoints.join(name).join("_metadata").exists());
    complete.filter_map(|name| name.strip_prefix("chk-")?.parse().ok()).max().unwrap_or(0)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// How many workers the jobs of a program have, one after the other.
const JOBS_VARIABLE: &str = "FLOTT_TEST_JOBS";

#[test]
fn only_the_first_job_of_a_program_may_have_workers() {
    let refused = "expected a job with 1 workers to be the first of its program, found one before it: a worker is the \
        program again, which it runs only up to its first `execute`. Write one program for each job with workers, or \
        run this one first and the others without workers";
    // The functions of each job are its own.
    for (jobs, expected) in [
        ("0 0", "Ok([2, 3, 4]) Ok([11, 12, 13])".to_owned()),
        ("1 0", "Ok([2, 3, 4]) Ok([11, 12, 13])".to_owned()),
        ("0 1", format!("Ok([2, 3, 4]) Err({refused})")),
        ("1 1", format!("Ok([2, 3, 4]) Err({refused})")),
    ] {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["processes::jobs_entry", "--exact", "--nocapture"]).env(JOBS_VARIABLE, jobs);
        let (code, _, told) = told(&program.stdout(Stdio::null()).output().unwrap());
        assert_eq!((code, &*told), (Some(0), &*expected), "workers: {jobs}");
    }
}

/// Not a test: the main of a program of several jobs.
#[test]
#[expect(clippy::disallowed_methods, reason = "the main of a process reads its environment")]
fn jobs_entry() {
    let Ok(jobs) = std::env::var(JOBS_VARIABLE) else { return };
    let mut told = Vec::new();
    for (workers, add) in jobs.split(' ').zip([1, 10]) {
        let local = LocalExecutor::default().workers(workers.parse().unwrap());
        let env = StreamExecutionEnvironment::with_executor(Arc::new(local));
        env.set_parallelism(2);
        let sums = env.from_collection([1_i64, 2, 3]).map(move |n| n + add).collect();
        told.push(match env.execute("sums") {
            Ok(_) => {
                let mut sums = sums.take();
                sums.sort_unstable();
                format!("Ok({sums:?})")
            }
            Err(error) => format!("Err({})", error.message()),
        });
    }
    eprint!("{}", told.join(" "));
    std::process::exit(0);
}
