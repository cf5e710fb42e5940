//! Jobs on a pool of threads: any number of tasks on any number of threads, no wake-up is lost, cancelling, failures
//! and restarts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::task::Waker;
use std::time::Duration;

use flott_checkpoint::InMemory;
use flott_core::{
    Batch, Clock, Context, Error, ErrorDomain, InputId, Operator, OperatorInfo, Progress, Registry, Result, Sink,
    SinkWriter, Spec, SystemThreads, Threads, Wait,
};
use flott_plan::Partitioning;
use flott_runtime::local::JobControl;
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, Ran, registry, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::row::{lines, read, simulation};
use super::steady::{Watched, graph};

/// Runs a job on threads. A lost wake-up shows as a job that does not end: then this fails instead of waiting for ever.
fn ends(what: &str, job: impl FnOnce() -> Ran + Send + 'static) -> Ran {
    let (done, ended) = channel();
    let thread = SystemThreads.spawn("job", Box::new(move || done.send(job()).unwrap_or_default())).unwrap();
    let ran = ended.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("{what} does not end"));
    thread();
    ran
}

fn expected(count: i64) -> Vec<String> {
    lines(&(0..2).flat_map(|split| (0..count).map(move |n| (split, n, n))).collect::<Vec<_>>())
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
            ("taskmanager.network.memory.buffers-per-channel", "1"),
            ("pipeline.operator-chaining.enabled", "false"),
        ];
        let (registry, sink, _) = setting(300);
        let graph = graph(&how, &["calc", "calc"], "sink", &options);
        let ran = ends(&format!("seed {seed}"), move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(sink.rows().unwrap(), expected(300), "seed {seed}");
    }
}

/// A sink that has to wait until the present before each batch: its deadline is over when it is noted.
#[derive(Clone, Default)]
struct Instant(CommittingSink);

impl Sink for Instant {
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(InstantWriter { inner: self.0.writer(info, restored)?, waited: false }))
    }

    fn committer(&self) -> Result<Option<Box<dyn flott_core::Committer>>> {
        self.0.committer()
    }
}

struct InstantWriter {
    inner: Box<dyn SinkWriter>,
    waited: bool,
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
}

#[test]
fn no_deadline_is_lost() {
    let (mut registry, sink, _) = setting(5000);
    let instant = Instant(sink.clone());
    registry.add_sink("sink", Arc::new(move |_: &Spec| Ok(Box::new(instant.clone()))));
    let options = [("parallelism.default", "4"), ("flott.threads", "4"), ("flott.batch.rows", "1")];
    let graph = graph(&Partitioning::Rebalance, &[], "sink", &options);
    let ran = ends("the job", move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert_eq!(sink.rows().unwrap(), expected(5000));
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
    let (mut registry, sink, _) = setting(200);
    let left = Arc::new(AtomicU32::new(times));
    registry.add_operator(
        "fail",
        Arc::new(move |_: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
            Ok(Box::new(Fail { left: Arc::clone(&left), panics }))
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
