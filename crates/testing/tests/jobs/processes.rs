//! A job in several processes. Workers are this test binary again, in [`worker_entry`].

mod counters;
mod frozen;
mod messages;
mod opening;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use arrow_array::{Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use flott_checkpoint::{CheckpointStore, InMemory, Manifest};
use flott_connectors::collection::CollectionConfig;
use flott_connectors::files::{FilesSinkConfig, SinkFormat};
use flott_core::{
    Batch, CheckpointKind, Context, Error, ErrorDomain, InputId, Operator, OperatorInfo, Progress, ReaderContext,
    Redistribution, Registry, Result, Source, SourceEvent, SourceReader, Spec, Split, SplitEnumerator, SystemClock,
    SystemThreads, Threads, Timestamp, Wait, WatermarkStrategy,
};
use flott_operators::window_aggregate::WindowAggregateConfig;
use flott_plan::{ExecutionGraph, HostId, NodeKind, Partitioning};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{JobControl, JobMetrics, JobOptions, control};
use flott_runtime::mailbox::TaskCommand;
use flott_runtime::master::{Attempt, JobEnd, Note};
use flott_runtime::network::handshake::PROTOCOL_VERSION;
use flott_runtime::network::{Hello, Network, NetworkOptions};
use flott_runtime::processes::{
    self, FromHost, LiveWorkers, Messages, ProcessLimits, Processes, SEAT_VARIABLE, Seat, ToHost, attempt_token,
    run_worker,
};
use flott_runtime::task::TaskEvent;
use flott_testing::jobs::{Graph, registry};
use serde_json::json;

const ROWS: i64 = 3000;
const WINDOW_MS: i64 = 100;
/// Rows a reader gives before it waits for the gate. Four readers at most: less than all.
const BEFORE_GATE: u64 = 300;
const FOLDER_VARIABLE: &str = "FLOTT_TEST_FOLDER";
const MODE_VARIABLE: &str = "FLOTT_TEST_MODE";

/// (key, time, amount), in order of time.
fn input() -> Vec<(i64, i64, i64)> {
    (0..ROWS).map(|i| (i * 7 % 20, i, i * i % 100)).collect()
}

/// What a plain loop makes of it, as the files hold it: per key and window, how many and how much.
fn expected() -> Vec<String> {
    let mut sums = BTreeMap::<(i64, i64), (i64, i64)>::new();
    for (key, time, amount) in input() {
        let sum = sums.entry((key, time / WINDOW_MS)).or_default();
        *sum = (sum.0 + 1, sum.1 + amount);
    }
    let mut lines: Vec<_> = sums.into_iter().map(|((key, _), (count, sum))| format!("{key},{count},{sum}")).collect();
    lines.sort();
    lines
}

/// A collection whose readers wait in the middle until a file is there.
struct Gated {
    inner: Box<dyn Source>,
    gate: PathBuf,
}

struct GatedReader {
    inner: Box<dyn SourceReader>,
    gate: PathBuf,
    given: u64,
}

impl Source for Gated {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        self.inner.enumerator(restored)
    }

    fn reader(&self, info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(GatedReader { inner: self.inner.reader(info)?, gate: self.gate.clone(), given: 0 }))
    }
}

impl SourceReader for GatedReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        self.inner.add_split(split)
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        if self.given >= BEFORE_GATE && !self.gate.exists() {
            return Ok(SourceEvent::Wait(Wait::Until(Timestamp(ctx.clock.now().0 + 1))));
        }
        let event = self.inner.next_batch(ctx)?;
        if let SourceEvent::Batch(_, batch) = &event {
            self.given += batch.num_rows() as u64;
        }
        Ok(event)
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        self.inner.snapshot()
    }
}

/// Passes rows on; its state is so many bytes, which must come back as they were.
struct Heavy(usize);

const WEIGHT: &str = "weight";

impl Operator for Heavy {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let restored = ctx.operator_state().get(WEIGHT);
        if restored.iter().all(|bytes| *bytes == weight(self.0)) {
            Ok(())
        } else {
            Err(Error::internal("it is spoilt"))
        }
    }

    fn process(&mut self, _: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        ctx.emit(batch);
        Ok(Progress::Done)
    }

    fn flush(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        ctx.operator_state().put(WEIGHT, Redistribution::Split, vec![weight(self.0)]);
        Ok(())
    }
}

fn weight(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

fn heavy(bytes: usize) -> Option<Spec> {
    Some(Spec::new("heavy", &bytes).unwrap())
}

fn picky() -> Option<Spec> {
    Some(Spec::new("picky", &()).unwrap())
}

/// Fails at the amount 49, which is there: 7 × 7.
struct Picky;

impl Operator for Picky {
    fn process(&mut self, _: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let amounts = batch.column(2).as_any().downcast_ref::<Int64Array>().unwrap();
        if let Some(row) = amounts.iter().position(|amount| amount == Some(49)) {
            let keys = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            return Err(Error::user("expected no 49").at("record", format_args!("k = {}", keys.value(row))));
        }
        ctx.emit(batch);
        Ok(Progress::Done)
    }
}

/// The registry of every process.
fn all() -> Registry {
    let mut registry = registry();
    let collection = registry.source("collection").unwrap().clone();
    registry.add_source(
        "gated",
        Arc::new(move |spec| {
            let (rows, gate): (CollectionConfig, PathBuf) = spec.read()?;
            Ok(Box::new(Gated { inner: collection(&rows.spec()?)?, gate }))
        }),
    );
    registry
        .add_operator("picky", Arc::new(|_: &Spec, _: &Arc<OperatorInfo>| Ok(Box::new(Picky) as Box<dyn Operator>)));
    let heavy = |spec: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> { Ok(Box::new(Heavy(spec.read()?))) };
    registry.add_operator("heavy", Arc::new(heavy));
    let stuck = |spec: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
        Ok(Box::new(opening::Stuck(spec.read()?)))
    };
    registry.add_operator("stuck", Arc::new(stuck));
    registry
}

/// Source, perhaps an operator that passes rows on, window sums by key, files.
fn job(folder: &Path, options: &[(&str, &str)], passing: Option<Spec>) -> Graph {
    let fields = ["k", "t", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let rows = input();
    let of = |pick: fn(&(i64, i64, i64)) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(pick)));
    let batch = RecordBatch::try_new(schema.clone(), vec![of(|r| r.0), of(|r| r.1), of(|r| r.2)]).unwrap();
    let mut graph = Graph::new(&[&[("flott.batch.rows", "64"), ("flott.threads", "2")], options].concat()).unwrap();
    let strategy =
        WatermarkStrategy { time_column: Some(1), out_of_orderness_ms: 10, every_rows: 50, idle_after_ms: None };
    let rows = CollectionConfig::new(&schema, &[batch], 5).unwrap();
    let spec = Spec::new("gated", &(rows, folder.join("gate"))).unwrap();
    let mut rows = graph.add("source", NodeKind::Source { spec, watermarks: Some(strategy) }, &[], schema.clone());
    if let Some(spec) = passing {
        let uid = spec.factory.clone();
        rows = graph.add(&uid, NodeKind::Operator(spec), &[(rows, Partitioning::Rebalance)], schema.clone());
    }
    let aggregates = json!([{"function": "count"}, {"function": "sum", "column": 2}]);
    let config = json!({"size_ms": WINDOW_MS, "aggregates": aggregates});
    let sums: WindowAggregateConfig = serde_json::from_value(config).unwrap();
    let output = sums.output(["n", "sum"], &schema, &[0]).unwrap();
    let sums = NodeKind::Operator(Spec::new("window_aggregate", &sums).unwrap());
    let sums = graph.add("sums", sums, &[(rows, Partitioning::Hash(vec![0]))], output.clone());
    let sink = FilesSinkConfig { path: folder.join("out"), format: SinkFormat::Csv(Default::default()) };
    graph.add("sink", NodeKind::Sink(sink.spec().unwrap()), &[(sums, Partitioning::Rebalance)], output);
    graph
}

/// Task `i` of vertex `v` runs in process `v + i` modulo their number: rows of every edge cross.
fn spread(graph: &Graph, hosts: u32) -> ExecutionGraph {
    let mut graph = graph.tasks(1).unwrap();
    for (task, host) in &mut graph.tasks {
        *host = HostId((task.vertex.0 + task.index) % hosts);
    }
    graph
}

/// The committed lines without the window's bounds.
fn written(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for file in std::fs::read_dir(folder.join("out")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            let text = std::fs::read_to_string(path).unwrap();
            for line in text.lines() {
                let fields: Vec<_> = line.split(',').collect();
                lines.push([fields[0], fields[3], fields[4]].join(","));
            }
        }
    }
    lines.sort();
    lines
}

/// Opens the gate.
fn open(folder: &Path) {
    std::fs::write(folder.join("gate"), "").unwrap();
}

/// The newest process of a worker.
fn pid(folder: &Path, host: u32) -> String {
    std::fs::read_to_string(folder.join(format!("pid-{host}"))).unwrap()
}

/// How a job ended, and what it left.
struct Ran {
    end: Result<JobEnd>,
    latest: Option<Manifest>,
    notes: Vec<Note>,
    folder: PathBuf,
    metrics: JobMetrics,
}

fn run(
    graph: ExecutionGraph,
    folder: &Path,
    mode: &'static str,
    from: Option<Manifest>,
    mut steer: impl FnMut(&JobControl, &Note) + Send + 'static,
    begin: impl FnOnce(&JobControl),
) -> Ran {
    watch(graph, folder, mode, from, move |control, note, _| steer(control, note), begin)
}

/// As [`run`]; `steer` sees the job's counters.
fn watch(
    graph: ExecutionGraph,
    folder: &Path,
    mode: &'static str,
    from: Option<Manifest>,
    mut steer: impl FnMut(&JobControl, &Note, &JobMetrics) + Send + 'static,
    begin: impl FnOnce(&JobControl),
) -> Ran {
    let (control, events) = control();
    let store = InMemory::default();
    let (notes, steering) = (Arc::new(Mutex::new(Vec::new())), control.clone());
    let heard = Arc::clone(&notes);
    let metrics = Arc::new(Mutex::new(JobMetrics::default()));
    let seen = Arc::clone(&metrics);
    let options = JobOptions {
        threads: Arc::new(SystemThreads) as Arc<dyn Threads>,
        start: JobStart {
            clock: Arc::new(SystemClock::default()),
            store: Box::new(store.clone()),
            from,
            resume: false,
            allow_non_restored: false,
            seed: 1,
            notes: Box::new(move |note| {
                heard.lock().unwrap().push(note.clone());
                steer(&steering, note, &seen.lock().unwrap().clone());
            }),
        },
    };
    let place = folder.to_owned();
    let launcher = move |seat: &Seat| {
        let mut command = this_binary(&place, mode);
        command.env(SEAT_VARIABLE, seat.to_string());
        Ok(command)
    };
    begin(&control);
    let start_ms = if mode == "absent" { 1 } else { 30_000 };
    let message_bytes = if mode == "small" { 1 << 20 } else { 1 << 30 };
    let mut limits =
        ProcessLimits { start_ms, message_bytes, counters_ms: 1, last_words_bytes: 100, ..ProcessLimits::default() };
    if ["impatient", "frozen master", "chatty"].contains(&mode) {
        (limits.heartbeat_ms, limits.heartbeat_timeout_ms) = frozen::HEARTBEAT_MS;
    }
    if mode == "stuck" {
        limits.cancel_ms = 100;
    }
    let live = LiveWorkers::default();
    let processes = Processes { launcher: Arc::new(launcher), token: "job 7".into(), limits, live };
    let end = processes::run(
        graph,
        &all(),
        options,
        &events,
        &control,
        |all| *metrics.lock().unwrap() = all.clone(),
        processes,
    );
    let latest = store.latest().unwrap().manifest.map(|(_, manifest)| manifest);
    let notes = notes.lock().unwrap().clone();
    let metrics = metrics.lock().unwrap().clone();
    Ran { end, latest, notes, folder: folder.to_owned(), metrics }
}

fn this_binary(folder: &Path, mode: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["jobs::processes::worker_entry", "--exact", "--nocapture"]);
    command.env(FOLDER_VARIABLE, folder).env(MODE_VARIABLE, mode);
    // What workers inherit of the master's own output is how a test sees that all have ended.
    if mode != "orphan" {
        command.stdout(Stdio::null());
    }
    command
}

/// Not a test: the main of the processes that the tests start.
#[test]
#[expect(clippy::disallowed_methods, reason = "the main of a process reads its environment")]
fn worker_entry() {
    let Ok(folder) = std::env::var(FOLDER_VARIABLE).map(PathBuf::from) else { return };
    let mode = std::env::var(MODE_VARIABLE).unwrap();
    let Ok(seat) = std::env::var(SEAT_VARIABLE) else {
        return if mode == "frozen master" { frozen::master(&folder) } else { orphaning_master(&folder) };
    };
    let seat: Seat = seat.parse().unwrap();
    std::fs::write(folder.join(format!("pid-{}", seat.host.0)), std::process::id().to_string()).unwrap();
    let code = match &*mode {
        "broken" => {
            eprintln!("{}no module named numpy", "x".repeat(200));
            3
        }
        "absent" => loop {
            std::thread::park();
        },
        "deserter" => desert(&seat),
        "frozen master" => frozen::worker(&seat, &folder),
        "chatty" => frozen::chat(&seat),
        "version" => {
            let mut hello = Hello { host: seat.host, token: seat.token }.encode().unwrap();
            hello[8..10].copy_from_slice(&99u16.to_le_bytes());
            let mut master = std::net::TcpStream::connect(seat.address).unwrap();
            std::io::Write::write_all(&mut master, &hello).unwrap();
            // To its end: the master has turned us away.
            master.read_to_end(&mut Vec::new()).unwrap_or_default();
            1
        }
        _ => work(&seat),
    };
    std::process::exit(code);
}

fn work(seat: &Seat) -> i32 {
    match run_worker(seat, all(), Arc::new(SystemClock::default()), Arc::new(SystemThreads)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// A worker that leaves its peers, but not its master.
fn desert(seat: &Seat) -> i32 {
    let network = Network::start(&SystemThreads, NetworkOptions::default()).unwrap();
    let hello = |token: String| Hello { host: seat.host, token };
    let master = network.connect(seat.address, hello(seat.token.clone())).unwrap();
    let (order, orders) = std::sync::mpsc::channel();
    let master = Messages::new(master, 1 << 30);
    master.start(move |bytes| order.send(ToHost::decode(&bytes).unwrap()).unwrap(), |_| ()).unwrap();
    let say = |message: FromHost| master.send(message.encode().unwrap()).unwrap();
    let mut attempt = Attempt(0);
    for order in orders {
        match order {
            ToHost::Deploy(deployed) => {
                attempt = deployed;
                say(FromHost::Listening(attempt, seat.address));
            }
            ToHost::Peers(attempt, addresses) => {
                let peer = network.connect(addresses[0].1, hello(attempt_token(&seat.token, attempt))).unwrap();
                peer.fail(Error::external("no more"));
            }
            ToHost::Command(task, TaskCommand::Cancel) => say(FromHost::Task(attempt, TaskEvent::Cancelled(task))),
            ToHost::Stop => break,
            ToHost::AreYouThere => say(FromHost::Alive),
            ToHost::Job { .. } | ToHost::Restore(..) | ToHost::Command(..) => {}
        }
    }
    0
}

/// A master that vanishes in the middle of its job.
fn orphaning_master(folder: &Path) {
    let graph = spread(&job(folder, &[("parallelism.default", "3"), CHECKPOINTS], None), 3);
    run(
        graph,
        folder,
        "orphan",
        None,
        |_, note| {
            if completed(note) {
                std::process::abort()
            }
        },
        |_| (),
    );
}

const CHECKPOINTS: (&str, &str) = ("execution.checkpointing.interval", "5 ms");
const RESTARTS: [(&str, &str); 3] = [
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "1"),
    ("restart-strategy.fixed-delay.delay", "1 ms"),
];

fn completed(note: &Note) -> bool {
    matches!(note, Note::Completed(..))
}

fn gone(pid: &str) -> bool {
    !Path::new("/proc").join(pid).exists()
}

#[test]
fn processes_give_what_a_loop_gives() {
    for (parallelism, hosts, chaining) in [("1", 2, "true"), ("1", 3, "false"), ("3", 2, "true"), ("3", 3, "false")] {
        let folder = tempfile::tempdir().unwrap();
        open(folder.path());
        let options = [("parallelism.default", parallelism), ("pipeline.operator-chaining.enabled", chaining)];
        let graph = spread(&job(folder.path(), &options, None), hosts);
        let ran = run(graph, folder.path(), "", None, |_, _| (), |_| ());
        assert_eq!(ran.end, Ok(JobEnd::Finished), "parallelism {parallelism} in {hosts} processes");
        assert_eq!(written(&ran.folder), expected(), "parallelism {parallelism} in {hosts} processes");
        assert!((1..hosts).all(|host| gone(&pid(&ran.folder, host))));
    }
}

#[test]
fn stop_and_restore_at_another_parallelism_and_number_of_processes() {
    for (before, after, unaligned) in
        [(("1", 2), ("3", 3), "false"), (("3", 3), ("2", 2), "true"), (("2", 2), ("4", 1), "false")]
    {
        let folder = tempfile::tempdir().unwrap();
        let unaligned = ("execution.checkpointing.unaligned.enabled", unaligned);
        // Not chained differently at another parallelism: rows in flight need their edge.
        let graph = |(parallelism, hosts)| {
            let options = [("parallelism.default", parallelism), CHECKPOINTS, unaligned];
            spread(&job(folder.path(), &options, None), hosts)
        };
        let stop = |control: &JobControl, note: &Note| {
            if completed(note) {
                control.trigger(CheckpointKind::Stop);
            }
        };
        let ran = run(graph(before), folder.path(), "", None, stop, |_| ());
        assert!(matches!(ran.end, Ok(JobEnd::Stopped(_))), "{before:?}: {:?}", ran.end);
        open(folder.path());
        let ran = run(graph(after), folder.path(), "", ran.latest, |_, _| (), |_| ());
        assert_eq!(ran.end, Ok(JobEnd::Finished), "{before:?} to {after:?}");
        assert_eq!(written(folder.path()), expected(), "{before:?} to {after:?}");
    }
}

/// The same sums from SQL; its source waits for the gate too.
fn sql_job(folder: &Path, options: &[(&str, &str)]) -> Graph {
    let rows = input();
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields = [("k", DataType::Int64), ("ts", time), ("v", DataType::Int64)];
    let schema = Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec());
    let of = |pick: fn(&(i64, i64, i64)) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(pick)));
    let times = Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.1)));
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![of(|r| r.0), times, of(|r| r.2)]).unwrap();
    let config = CollectionConfig::new(&schema, &[batch], 5).unwrap();
    let script = format!(
        "CREATE TABLE t (k BIGINT, ts TIMESTAMP(3), v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '0.01' SECOND) \
         WITH ('connector' = 'collection', 'rows' = '{}', 'splits' = '5'); \
         CREATE TABLE sums (k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT, s BIGINT) \
         WITH ('connector' = 'filesystem', 'path' = 'file://{}', 'format' = 'csv'); \
         INSERT INTO sums SELECT k, window_start, window_end, COUNT(*), SUM(v) \
         FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) WHERE v >= 0 \
         GROUP BY k, window_start, window_end;",
        config.rows,
        folder.join("out").display(),
    );
    let options = [&[("flott.batch.rows", "64"), ("flott.threads", "2")], options].concat();
    let mut graph = Graph(super::sql::planned(&script, &options).unwrap().graph);
    let source = graph.0.nodes.iter_mut().find_map(|node| match &mut node.kind {
        NodeKind::Source { spec, .. } => Some(spec),
        _ => None,
    });
    *source.unwrap() = Spec::new("gated", &(config, folder.join("gate"))).unwrap();
    graph
}

#[test]
fn sql_gives_the_same_in_processes_and_restored_at_another_parallelism() {
    for (before, after) in [(("1", 2), ("3", 3)), (("3", 2), ("1", 2)), (("3", 3), ("2", 1))] {
        let folder = tempfile::tempdir().unwrap();
        let graph = |(parallelism, hosts)| {
            spread(&sql_job(folder.path(), &[("parallelism.default", parallelism), CHECKPOINTS]), hosts)
        };
        let stop = |control: &JobControl, note: &Note| {
            if completed(note) {
                control.trigger(CheckpointKind::Stop);
            }
        };
        let ran = run(graph(before), folder.path(), "", None, stop, |_| ());
        assert!(matches!(ran.end, Ok(JobEnd::Stopped(_))), "{before:?}: {:?}", ran.end);
        open(folder.path());
        let ran = run(graph(after), folder.path(), "", ran.latest, |_, _| (), |_| ());
        assert_eq!(ran.end, Ok(JobEnd::Finished), "{before:?} to {after:?}");
        assert_eq!(written(folder.path()), expected(), "{before:?} to {after:?}");
    }
}

#[test]
fn a_killed_worker_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = [&[("parallelism.default", "3"), CHECKPOINTS], &RESTARTS[..]].concat();
    let graph = spread(&job(folder.path(), &options, None), 3);
    let place = folder.path().to_owned();
    let mut killed = None;
    let steer = move |_: &JobControl, note: &Note| {
        if completed(note) && killed.is_none() {
            let pid = pid(&place, 1);
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
            killed = Some(pid);
        }
        // The job cannot end before this.
        if matches!(note, Note::Restarting(..)) {
            open(&place);
        }
    };
    let ran = run(graph, folder.path(), "", None, steer, |_| ());
    assert_eq!(ran.end, Ok(JobEnd::Finished), "{:?}", ran.notes);
    assert_eq!(written(folder.path()), expected());
    let causes = ran.notes.iter().filter_map(|note| match note {
        Note::Restarting(error, _) => Some(error.clone()),
        _ => None,
    });
    let causes: Vec<_> = causes.collect();
    let [cause] = causes.as_slice() else { panic!("{causes:?}") };
    let text =
        "a worker process was killed by signal 9: the machine may have run out of memory, or somebody has killed it";
    assert_eq!(cause.message(), text);
    assert_eq!(cause.place("host"), Some("1"));
    assert!(cause.place("pid").is_some_and(gone));
    assert!(gone(&pid(folder.path(), 1)) && gone(&pid(folder.path(), 2)));
}

#[test]
fn errors_arrive_whole() {
    let folder = tempfile::tempdir().unwrap();
    // The picky operator is vertex 1: its task 0 is in process 1.
    let graph = spread(&job(folder.path(), &[], picky()), 2);
    let ran = run(graph, folder.path(), "", None, |_, _| (), |_| ());
    let error = ran.end.unwrap_err();
    // 7 * 7 % 20.
    assert_eq!(error.to_string(), "expected no 49 (record k = 9, operator picky, task picky/0)");
    assert_eq!(error.domain(), ErrorDomain::User);
    assert!(gone(&pid(folder.path(), 1)));
}

#[test]
fn a_connection_that_breaks_between_living_processes_fails_the_tasks_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let graph = spread(&job(folder.path(), &[], None), 2);
    let error = run(graph, folder.path(), "deserter", None, |_, _| (), |_| ()).end.unwrap_err();
    // How it broke is the system's: an end, a reset where bytes were left unread, or a write that failed.
    assert!(error.message().contains("the connection "), "{error}");
    assert_eq!((error.domain(), error.place("host")), (ErrorDomain::External, Some("1")));
    assert!(gone(&pid(folder.path(), 1)));
}

#[test]
fn what_cannot_be_made_in_a_worker_is_told_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = spread(&job(folder.path(), &[], picky()), 2);
    let spec = Spec::new("pickky", &()).unwrap();
    graph.job.vertices[1].chain[0].node.kind = NodeKind::Operator(spec);
    let ran = run(graph, folder.path(), "", None, |_, _| (), |_| ());
    assert_eq!(
        ran.end.unwrap_err().to_string(),
        "there is no operator 'pickky'; did you mean 'picky'? (operator picky)"
    );
}

#[test]
fn workers_that_do_not_come() {
    let version = format!(
        "the peer speaks version 99 of flott's network protocol, this process version {PROTOCOL_VERSION}: use the same \
         release of flott for all processes of a job; the worker process ended with exit code 1"
    );
    // The last 100 bytes of standard error, one of which is the end of the line.
    let broken =
        format!("a worker process ended with exit code 3; its last words: {}no module named numpy", "x".repeat(78));
    let absent = "a worker process was not ready within 1 ms; the worker process was killed by signal 9".to_owned();
    for (mode, domain, message) in [
        ("broken", ErrorDomain::External, broken),
        ("absent", ErrorDomain::External, absent),
        ("version", ErrorDomain::User, version),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let graph = spread(&job(folder.path(), &[], None), 2);
        let ran = run(graph, folder.path(), mode, None, |_, _| (), |_| ());
        let error = ran.end.unwrap_err();
        assert_eq!((error.domain(), error.message()), (domain, &*message));
        assert_eq!(error.place("host"), Some("1"));
    }
}

#[test]
fn cancel_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let graph = spread(&job(folder.path(), &[("parallelism.default", "3"), CHECKPOINTS], None), 3);
    let cancel = |control: &JobControl, note: &Note| {
        if completed(note) {
            control.cancel();
        }
    };
    let ran = run(graph, folder.path(), "", None, cancel, |_| ());
    assert_eq!(ran.end, Ok(JobEnd::Cancelled));
    assert!(gone(&pid(folder.path(), 1)) && gone(&pid(folder.path(), 2)));
    // At once: workers may not even have begun.
    let graph = spread(&job(folder.path(), &[], None), 3);
    let ran = run(graph, folder.path(), "absent", None, |_, _| (), JobControl::cancel);
    assert_eq!(ran.end, Ok(JobEnd::Cancelled));
}

#[test]
fn workers_end_with_their_master() {
    let folder = tempfile::tempdir().unwrap();
    let mut master = this_binary(folder.path(), "orphan");
    let mut master = master.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Master and workers hold the other end: the text ends when the last of them has.
    std::io::read_to_string(master.stdout.take().unwrap()).unwrap();
    assert!(!master.wait().unwrap().success());
    assert!(pid(folder.path(), 1) != pid(folder.path(), 2));
}
