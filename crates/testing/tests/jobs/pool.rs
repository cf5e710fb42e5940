//! Jobs on a pool of threads: any number of tasks on any number of threads, no wake-up is lost, cancelling, failures
//! and restarts; tasks that block beside them, on threads of their own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::Waker;
use std::time::Duration;

use flott_checkpoint::InMemory;
use flott_core::{
    Batch, Clock, Context, Error, ErrorDomain, InputId, Joined, Operator, OperatorInfo, Progress, Registry, Result,
    Sink, SinkWriter, Spec, SystemClock, SystemThreads, Threads, Wait,
};
use flott_plan::{NodeKind, Partitioning};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobControl, JobOptions};
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, Ran, registry, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::row::{lines, read, schema, simulation};
use super::steady::{Watched, graph};

/// Runs a job on threads. A lost wake-up shows as a job that does not end: then this fails instead of waiting for ever.
pub(crate) fn ends(what: &str, job: impl FnOnce() -> Ran + Send + 'static) -> Ran {
    let (done, ended) = channel();
    let thread = SystemThreads.spawn("job", Box::new(move || done.send(job()).unwrap_or_default())).unwrap();
    let ran = ended.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("{what} does not end"));
    thread();
    ran
}

fn expected(count: i64) -> Vec<String> {
    lines(&(0..2).flat_map(|split| (0..count).map(move |n| (split, n, n))).collect::<Vec<_>>())
}

/// What `explode` makes of it.
fn exploded(count: i64) -> Vec<String> {
    let rows = (0..2).flat_map(|split| (0..count).map(move |n| (split, n, n)));
    lines(&rows.flat_map(super::ops::copies).collect::<Vec<_>>())
}

fn setting(count: i64) -> (Registry, CommittingSink, Watched) {
    let (mut registry, sink, watched) = (registry(), CommittingSink::default(), Watched::default());
    watched.register(&mut registry, count, 0);
    super::ops::register(&mut registry);
    sink.register(&mut registry, "sink");
    (registry, sink, watched)
}

#[test]
fn any_number_of_tasks_on_any_number_of_threads() {
    for (parallelism, threads) in [("1", "1"), ("1", "2"), ("50", "1"), ("50", "2"), ("7", "3")] {
        let (registry, sink, _) = setting(2000);
        let options = [("parallelism.default", parallelism), ("flott.threads", threads), ("flott.batch.rows", "100")];
        let graph = graph(&Partitioning::Hash(vec![2]), &["calc"], "sink", &options);
        let ran = ends(&format!("{parallelism} on {threads}"), move || {
            run(&graph, &registry, None, |_, _| (), |_| ()).unwrap()
        });
        assert_eq!(ran.end, Ok(JobEnd::Finished), "{parallelism} on {threads}");
        assert_eq!(sink.rows().unwrap(), expected(2000), "{parallelism} on {threads}");
    }
}

#[test]
fn no_wake_up_is_lost_with_little_credit() {
    let ways = [Partitioning::Hash(vec![2]), Partitioning::Rebalance, Partitioning::Shuffle, Partitioning::Rescale];
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let how = ways[random.random_range(0..4)].clone();
        let parallelism = random.random_range(1..6).to_string();
        let threads = random.random_range(2..5).to_string();
        let options = [
            ("parallelism.default", parallelism.as_str()),
            ("flott.threads", &threads),
            ("flott.batch.rows", "1"),
            ("taskmanager.network.memory.buffers-per-channel", ["1", "2", "3", "4"][random.random_range(0..4)]),
            ("pipeline.operator-chaining.enabled", "false"),
        ];
        // With more rows out than in: batches wait for credit while the receiver takes some.
        let (more, all) = [("calc", expected(300)), ("explode", exploded(300))][random.random_range(0..2)].clone();
        let (registry, sink, _) = setting(300);
        let graph = graph(&how, &[more, "calc"], "sink", &options);
        let ran = ends(&format!("seed {seed}"), move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(sink.rows().unwrap(), all, "seed {seed}");
    }
}

/// A sink that has to wait until the present before each batch: its deadline is over when it is noted.
#[derive(Clone, Default)]
struct Instant {
    inner: CommittingSink,
    blocks: bool,
}

impl Sink for Instant {
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(InstantWriter { inner: self.inner.writer(info, restored)?, waited: false, blocks: self.blocks }))
    }

    fn committer(&self) -> Result<Option<Box<dyn flott_core::Committer>>> {
        self.inner.committer()
    }
}

struct InstantWriter {
    inner: Box<dyn SinkWriter>,
    waited: bool,
    blocks: bool,
}

impl SinkWriter for InstantWriter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.inner.write(batch)
    }

    fn ready(&mut self, _: &Waker, clock: &dyn Clock) -> Result<Option<Wait>> {
        self.waited = !self.waited;
        Ok(self.waited.then_some(Wait::Until(clock.now())))
    }

    fn prepare_commit(&mut self) -> Result<Vec<flott_core::Committable>> {
        self.inner.prepare_commit()
    }

    fn blocks(&self) -> bool {
        self.blocks
    }
}

#[test]
fn no_deadline_is_lost() {
    for blocks in [false, true] {
        let (mut registry, sink, _) = setting(5000);
        let instant = Instant { inner: sink.clone(), blocks };
        registry.add_sink("sink", Arc::new(move |_: &Spec| Ok(Box::new(instant.clone()))));
        let options = [("parallelism.default", "4"), ("flott.threads", "4"), ("flott.batch.rows", "1")];
        let graph = graph(&Partitioning::Rebalance, &[], "sink", &options);
        let ran = ends("the job", move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
        assert_eq!(ran.end, Ok(JobEnd::Finished));
        assert_eq!(sink.rows().unwrap(), expected(5000), "blocks: {blocks}");
    }
}

/// An operator that says of itself that it blocks.
struct Blocking(Box<dyn Operator>);

impl Operator for Blocking {
    fn process(&mut self, input: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        self.0.process(input, rows, ctx)
    }

    fn blocks(&self) -> bool {
        true
    }
}

/// Passes rows on, the first of them after `before`.
struct Pass(Option<Box<dyn FnOnce() + Send>>);

impl Operator for Pass {
    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        if let Some(before) = self.0.take() {
            before();
        }
        ctx.emit(rows);
        Ok(Progress::Done)
    }
}

#[test]
fn a_task_that_blocks_does_not_hold_up_the_pool() {
    // Of two tasks one waits for what the other sends, and that one for the first to be waiting: with one thread
    // between them neither would go on.
    let (mut registry, sink, _) = setting(50);
    let meeting = Arc::new(Barrier::new(2));
    for (name, blocks) in [("waits", true), ("tells", false)] {
        let meeting = Arc::clone(&meeting);
        registry.add_operator(
            name,
            Arc::new(move |_: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
                let meeting = Arc::clone(&meeting);
                let pass = Box::new(Pass(Some(Box::new(move || {
                    meeting.wait();
                }))));
                Ok(if blocks { Box::new(Blocking(pass)) } else { pass })
            }),
        );
    }
    let mut graph = Graph::new(&[("flott.threads", "1"), ("flott.batch.rows", "10")]).unwrap();
    let spec = |name: &str| Spec::new(name, &()).unwrap();
    for name in ["waits", "tells"] {
        let source = NodeKind::Source { spec: spec("steady"), watermarks: None };
        let rows = graph.add(&format!("source of {name}"), source, &[], schema());
        let rows = graph.add(name, NodeKind::Operator(spec(name)), &[(rows, Partitioning::Forward)], schema());
        let sink = NodeKind::Sink(spec("sink"));
        graph.add(&format!("sink of {name}"), sink, &[(rows, Partitioning::Forward)], schema());
    }
    let ran = ends("the job", move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    let mut twice = [expected(50), expected(50)].concat();
    twice.sort();
    assert_eq!(sink.rows().unwrap(), twice);
}

/// The machine's threads, by name, and how many of them there are.
#[derive(Clone, Default)]
struct Counted {
    names: Arc<Mutex<Vec<String>>>,
    alive: Arc<AtomicU32>,
}

impl Threads for Counted {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Joined> {
        self.names.lock().unwrap().push(name.to_owned());
        self.alive.fetch_add(1, Ordering::SeqCst);
        let alive = Arc::clone(&self.alive);
        let body = move || {
            body();
            alive.fetch_sub(1, Ordering::SeqCst);
        };
        SystemThreads.spawn(name, Box::new(body))
    }

    fn parallelism(&self) -> usize {
        1
    }
}

/// Runs a job on counted threads; its end, and the threads of tasks that block.
fn run_counted(
    graph: &Graph,
    registry: &Registry,
    mut steer: impl FnMut(&JobControl, &Note) + Send + 'static,
) -> (Result<JobEnd>, Vec<String>) {
    let (control, events) = local::control();
    let (threads, steering) = (Counted::default(), control.clone());
    let options = JobOptions {
        threads: Arc::new(threads.clone()),
        start: JobStart {
            clock: Arc::new(SystemClock::default()),
            store: Box::new(InMemory::default()),
            from: None,
            resume: false,
            allow_non_restored: false,
            seed: 1,
            notes: Box::new(move |note| steer(&steering, note)),
        },
    };
    let end = local::run(graph.tasks(1).unwrap(), registry, options, &events, &control, |_| ());
    assert_eq!(threads.alive.load(Ordering::SeqCst), 0, "threads are left behind");
    let names = threads.names.lock().unwrap();
    let mut own: Vec<_> = names.iter().filter(|name| name.starts_with("flott-task-")).cloned().collect();
    own.sort();
    (end, own)
}

#[test]
fn a_job_with_tasks_that_block_can_be_cancelled() {
    let (mut registry, _, _) = setting(i64::MAX);
    registry.add_operator(
        "blocking",
        Arc::new(|_: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
            Ok(Box::new(Blocking(Box::new(Pass(None)))))
        }),
    );
    let options = [("parallelism.default", "2"), ("execution.checkpointing.interval", "1 ms")];
    let endless = graph(&Partitioning::Rebalance, &["blocking"], "sink", &options);
    let cancel = |control: &JobControl, note: &Note| {
        if let Note::Completed(..) = note {
            control.cancel();
        }
    };
    let (end, own) = run_counted(&endless, &registry, cancel);
    assert_eq!(end, Ok(JobEnd::Cancelled));
    assert_eq!(own, ["flott-task-blocking0-0", "flott-task-blocking0-1"]);
}

#[test]
fn a_job_can_be_cancelled_at_any_time() {
    // Before it begins.
    let (registry, sink, _) = setting(i64::MAX);
    let endless = graph(&Partitioning::Rebalance, &[], "sink", &[("parallelism.default", "2")]);
    let ran =
        ends("a job cancelled at once", move || run(&endless, &registry, None, |_, _| (), JobControl::cancel).unwrap());
    assert_eq!((ran.end, sink.rows().unwrap().len()), (Ok(JobEnd::Cancelled), 0));
    // While it runs: after its first checkpoint.
    let (registry, sink, _) = setting(i64::MAX);
    let options = [("parallelism.default", "2"), ("execution.checkpointing.interval", "1 ms")];
    let endless = graph(&Partitioning::Rebalance, &[], "sink", &options);
    let steer = |control: &JobControl, note: &Note| {
        if let Note::Completed(..) = note {
            control.cancel();
        }
    };
    let ran = ends("a running job", move || run(&endless, &registry, None, steer, |_| ()).unwrap());
    assert_eq!(ran.end, Ok(JobEnd::Cancelled));
    drop(sink);
}

#[test]
fn a_job_blocked_by_its_sink_can_be_cancelled() {
    struct Held(JobControl);
    impl SinkWriter for Held {
        fn write(&mut self, _: &Batch) -> Result<()> {
            Err(Error::internal("it said that it is not ready"))
        }
        fn ready(&mut self, _: &Waker, _: &dyn Clock) -> Result<Option<Wait>> {
            self.0.cancel();
            Ok(Some(Wait::Waker))
        }
    }
    struct HeldSink(JobControl);
    impl Sink for HeldSink {
        fn writer(&self, _: &Arc<OperatorInfo>, _: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
            Ok(Box::new(Held(self.0.clone())))
        }
    }
    let (mut registry, _, _) = setting(1000);
    let (sender, control) = channel::<JobControl>();
    let control = std::sync::Mutex::new(control);
    registry.add_sink(
        "sink",
        Arc::new(move |_: &Spec| {
            let control = control.lock().unwrap().recv().map_err(|_| Error::internal("one sink only"))?;
            Ok(Box::new(HeldSink(control)))
        }),
    );
    let graph = graph(&Partitioning::Rebalance, &[], "sink", &[("flott.batch.rows", "10")]);
    let begin = move |control: &JobControl| (0..9).for_each(|_| sender.send(control.clone()).unwrap_or_default());
    let ran = ends("a blocked job", move || run(&graph, &registry, None, |_, _| (), begin).unwrap());
    assert_eq!(ran.end, Ok(JobEnd::Cancelled));
}

/// Fails at rows with number 50, as often as it is told; some by a panic.
struct Fail {
    left: Arc<AtomicU32>,
    panics: bool,
}

impl Operator for Fail {
    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let due = read(&rows).iter().any(|row| row.1 == 50);
        let spend = |left: u32| left.checked_sub(1);
        if due && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend).is_ok() {
            assert!(!self.panics, "this operator gives up");
            return Err(Error::user("this row is bad").at("record", "50"));
        }
        ctx.emit(rows);
        Ok(Progress::Done)
    }
}

/// A job that fails so many times, with checkpoints.
fn failing(times: u32, panics: bool, options: &[(&str, &str)]) -> (Graph, Registry, CommittingSink) {
    failing_as(times, panics, options, |fail| Box::new(fail))
}

fn failing_as(
    times: u32,
    panics: bool,
    options: &[(&str, &str)],
    make: fn(Fail) -> Box<dyn Operator>,
) -> (Graph, Registry, CommittingSink) {
    let (mut registry, sink, _) = setting(200);
    let left = Arc::new(AtomicU32::new(times));
    registry.add_operator(
        "fail",
        Arc::new(move |_: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
            Ok(make(Fail { left: Arc::clone(&left), panics }))
        }),
    );
    let options = [&[("parallelism.default", "2"), ("flott.batch.rows", "1")], options].concat();
    (graph(&Partitioning::Rebalance, &["fail"], "sink", &options), registry, sink)
}

#[test]
fn the_error_of_an_operator_says_which_and_why() {
    for (panics, message) in [(false, "this row is bad"), (true, "this operator gives up")] {
        // Both tasks may meet such a row: the first cause is the job's.
        let (graph, registry, sink) = failing(9, panics, &[("flott.threads", "1")]);
        let ran = ends("a failing job", move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
        let error = ran.end.unwrap_err();
        assert!(error.message().contains(message), "{error}");
        assert!(error.place("task").is_some_and(|task| task.starts_with("fail0/")), "{error}");
        if !panics {
            assert_eq!((error.place("operator"), error.place("record")), (Some("fail0"), Some("50")), "{error}");
            assert_eq!(error.domain(), ErrorDomain::User);
        }
        assert!(sink.rows().unwrap().is_empty());
    }
}

#[test]
fn a_job_that_fails_a_few_times_is_restarted_and_loses_nothing() {
    let fixed =
        |attempts| vec![("restart-strategy.type", "fixed-delay"), ("restart-strategy.fixed-delay.attempts", attempts)];
    let rate = |max| {
        vec![
            ("restart-strategy.type", "failure-rate"),
            ("restart-strategy.failure-rate.max-failures-per-interval", max),
        ]
    };
    let backoff = |attempts| {
        vec![
            ("restart-strategy.type", "exponential-delay"),
            ("restart-strategy.exponential-delay.jitter-factor", "0"),
            ("restart-strategy.exponential-delay.backoff-multiplier", "2"),
            ("restart-strategy.exponential-delay.attempts-before-reset-backoff", attempts),
        ]
    };
    // Strategy, failures, ms before each restart, whether the job comes to its end.
    let cases: [(_, u32, &[u64], bool); 9] = [
        (vec![], 1, &[], false),
        (vec![("restart-strategy.type", "none")], 1, &[], false),
        (fixed("3"), 3, &[1000; 3], true),
        (fixed("2"), 3, &[1000; 2], false),
        (rate("3"), 3, &[1000; 3], true),
        (rate("2"), 3, &[1000; 2], false),
        (backoff("3"), 3, &[1000, 2000, 4000], true),
        (backoff("2"), 3, &[1000, 2000], false),
        (
            vec![
                ("execution.checkpointing.interval", "1 ms"),
                ("restart-strategy.exponential-delay.jitter-factor", "0"),
            ],
            2,
            &[1000, 1500],
            true,
        ),
    ];
    for (options, times, waits, works) in cases {
        let (graph, registry, sink) = failing(times, false, &options);
        let tasks = Arc::new(graph.tasks(1).unwrap());
        let ran = simulate(&tasks, &registry, simulation(7, &InMemory::default())).unwrap();
        let restarts = ran.notes.iter().filter_map(|note| match note {
            Note::Restarting(_, ms) => Some(*ms),
            _ => None,
        });
        assert_eq!(restarts.collect::<Vec<_>>(), waits, "{options:?}");
        assert_eq!(ran.end.is_ok(), works, "{options:?}: {:?}", ran.end);
        assert_eq!(sink.rows().unwrap(), if works { expected(200) } else { Vec::new() }, "{options:?}");
    }
    // By threads.
    let options = [&fixed("5")[..], &[("restart-strategy.fixed-delay.delay", "1 ms")]].concat();
    let (graph, registry, sink) = failing(5, true, &options);
    let ran = ends("a job that restarts", move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert_eq!(sink.rows().unwrap(), expected(200));
}

#[test]
fn threads_of_tasks_that_block_end_with_their_attempt() {
    let options = [
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "5"),
        ("restart-strategy.fixed-delay.delay", "1 ms"),
    ];
    let (graph, registry, sink) = failing_as(5, true, &options, |fail| Box::new(Blocking(Box::new(fail))));
    let restarts = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&restarts);
    let steer = move |_: &JobControl, note: &Note| {
        if let Note::Restarting(..) = note {
            heard.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (end, own) = run_counted(&graph, &registry, steer);
    assert_eq!(end, Ok(JobEnd::Finished));
    assert_eq!(sink.rows().unwrap(), expected(200));
    // Two tasks in every attempt.
    assert_eq!(own.len() as u32, 2 * (restarts.load(Ordering::SeqCst) + 1));
}
