//! A function of the user's that panics, wherever it is called, fails its job with an error that says so.
#![allow(clippy::panic, clippy::unwrap_used, reason = "what is tested, and helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use flott_checkpoint::InMemory;
use flott_core::{
    Batch, Committable, Committer, Context, Error, InputId, Joined, NextSplit, Operator, OperatorInfo, Partitioner,
    Progress, Registry, RequestFuture, RequestOrder, Result, Sink, SinkWriter, Source, SourceReader, Spec,
    SplitEnumerator, SystemClock, SystemThreads, Threads, Timestamp,
};
use flott_operators::async_request;
use flott_plan::{NodeKind, Partitioning};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobOptions, control};
use flott_runtime::master::JobEnd;
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, registry, run};

use super::row::{lines, schema, simulation, source};

/// Panics when it is called at this place; the rest does nothing.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Factory,
    Open,
    Process,
    Watermark,
    Finish,
    Future,
    Partitioner,
    Enumerator,
    NextSplit,
    Reader,
    Writer,
    Write,
    Prepare,
    Commit,
    /// When a row is written, and again when that is given up.
    Abandon,
    /// Not in a call: when the operator is dropped.
    Drop,
}

impl At {
    fn call(self, here: At) {
        if self == here {
            panic!("by the test");
        }
    }
}

struct Called(At);

impl Drop for Called {
    fn drop(&mut self) {
        self.0.call(At::Drop);
    }
}

impl Operator for Called {
    fn open(&mut self, _: &mut Context<'_>) -> Result<()> {
        self.0.call(At::Open);
        Ok(())
    }

    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        self.0.call(At::Process);
        ctx.emit(rows);
        Ok(Progress::Done)
    }

    fn on_watermark(&mut self, _: Timestamp, _: &mut Context<'_>) -> Result<Progress> {
        self.0.call(At::Watermark);
        Ok(Progress::Done)
    }

    fn finish(&mut self, _: &mut Context<'_>) -> Result<Progress> {
        self.0.call(At::Finish);
        Ok(Progress::Done)
    }
}

impl Partitioner for At {
    fn partition(&mut self, rows: &Batch, _: u32, targets: &mut Vec<u32>) -> Result<()> {
        self.call(At::Partitioner);
        targets.resize(rows.num_rows(), 0);
        Ok(())
    }
}

struct Wrapped(At, Arc<dyn Source>);

impl Source for Wrapped {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        self.0.call(At::Enumerator);
        Ok(Box::new(Splits(self.0, self.1.enumerator(restored)?)))
    }

    fn reader(&self, info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        self.0.call(At::Reader);
        self.1.reader(info)
    }
}

struct Splits(At, Box<dyn SplitEnumerator>);

impl SplitEnumerator for Splits {
    fn next_split(&mut self, reader: u32, parallelism: u32) -> Result<NextSplit> {
        self.0.call(At::NextSplit);
        self.1.next_split(reader, parallelism)
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        self.1.snapshot()
    }
}

impl Sink for At {
    fn writer(&self, _: &Arc<OperatorInfo>, _: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        self.call(At::Writer);
        Ok(Box::new(*self))
    }

    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(Some(Box::new(*self)))
    }
}

impl SinkWriter for At {
    fn write(&mut self, _: &Batch) -> Result<()> {
        self.call(At::Write);
        self.call(At::Abandon);
        Ok(())
    }

    fn abandon(&mut self) {
        if *self == At::Abandon {
            panic!("once more");
        }
    }

    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        self.call(At::Prepare);
        Ok(vec![Committable(Vec::new())])
    }
}

impl Committer for At {
    fn commit(&mut self, _: &[Committable]) -> Result<()> {
        self.call(At::Commit);
        Ok(())
    }
}

fn all(at: At) -> Registry {
    let mut registry = registry();
    registry.add_operator(
        "operator",
        Arc::new(move |_: &Spec, _: &Arc<OperatorInfo>| {
            at.call(At::Factory);
            Ok(Box::new(Called(at)) as Box<dyn Operator>)
        }),
    );
    let answer = move |rows: Batch| -> RequestFuture {
        Box::pin(async move {
            at.call(At::Future);
            Ok(rows)
        })
    };
    registry.add_operator("ask", async_request::factory(Arc::new(answer), RequestOrder::Ordered, 3));
    registry.add_partitioner("partitioner", Arc::new(move |_: &Spec| Ok(Box::new(at))));
    let collection = registry.source("collection").unwrap().clone();
    registry.add_source(
        "source",
        Arc::new(move |spec: &Spec| Ok(Box::new(Wrapped(at, Arc::from(collection(spec)?))) as Box<dyn Source>)),
    );
    registry.add_sink("sink", Arc::new(move |_: &Spec| Ok(Box::new(at))));
    registry
}

fn graph(threads: &str) -> Graph {
    let mut graph = Graph::new(&[("parallelism.default", "2"), ("flott.threads", threads)]).unwrap();
    let rows: Vec<_> = (0..20).map(|n| (n, n, n)).collect();
    let spec = Spec { factory: "source".into(), config: source(&rows, 3).config };
    let of = |name: &str| Spec::new(name, &()).unwrap();
    let last = graph.add("source", NodeKind::Source { spec, watermarks: None }, &[], schema());
    let ask = graph.add("ask", NodeKind::Operator(of("ask")), &[(last, Partitioning::Rebalance)], schema());
    let custom = Partitioning::Custom(of("partitioner"));
    let last = graph.add("operator", NodeKind::Operator(of("operator")), &[(ask, custom)], schema());
    graph.add("sink", NodeKind::Sink(of("sink")), &[(last, Partitioning::Forward)], schema());
    graph
}

#[test]
fn a_panic_anywhere_is_an_error_of_the_job() {
    let places = [
        ("factory", At::Factory),
        ("open", At::Open),
        ("process", At::Process),
        ("watermark", At::Watermark),
        ("finish", At::Finish),
        ("future of a request", At::Future),
        ("partitioner", At::Partitioner),
        ("enumerator", At::Enumerator),
        ("next split", At::NextSplit),
        ("reader", At::Reader),
        ("writer", At::Writer),
        ("write", At::Write),
        ("prepare commit", At::Prepare),
        ("commit", At::Commit),
        ("write and abandon", At::Abandon),
    ];
    for (name, at) in places {
        let found = run(&graph("2"), &all(at), None, |_, _| (), |_| ()).and_then(|ran| ran.end);
        let error = found.expect_err(name).to_string();
        assert!(error.contains("panicked: by the test"), "{name}: {error}");
        // The futures of a simulation are its own affair.
        if at != At::Future {
            let tasks = Arc::new(graph("2").tasks(1).unwrap());
            let found = simulate(&tasks, &all(at), simulation(1, &Default::default())).and_then(|ran| ran.end);
            let error = found.expect_err(name).to_string();
            assert!(error.contains("panicked: by the test"), "{name}, simulated: {error}");
        }
    }
}

#[test]
fn a_panic_when_all_is_over_costs_nothing() {
    // With one thread for all tasks: it must survive the first.
    let ran = run(&graph("1"), &all(At::Drop), None, |_, _| (), |_| ()).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished));
}

/// Gives out no more than two threads to tasks that want their own, and then again as many as they like.
#[derive(Default)]
struct Few(AtomicU32);

impl Threads for Few {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Joined> {
        if name.starts_with("flott-task-") && self.0.fetch_add(1, Ordering::SeqCst) == 2 {
            return Err(Error::external("there are no more threads"));
        }
        SystemThreads.spawn(name, body)
    }

    fn parallelism(&self) -> usize {
        2
    }
}

/// Passes rows on, on a thread of its own.
struct Own;

impl Operator for Own {
    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        ctx.emit(rows);
        Ok(Progress::Done)
    }

    fn blocks(&self) -> bool {
        true
    }
}

#[test]
fn a_thread_that_cannot_be_had_fails_the_attempt_and_all_of_its_tasks() {
    let sink = CommittingSink::default();
    let mut registry = registry();
    sink.register(&mut registry, "sink");
    registry.add_operator("own", Arc::new(|_: &Spec, _: &Arc<OperatorInfo>| Ok(Box::new(Own) as Box<dyn Operator>)));
    for (restarts, expected) in [("0", Err(())), ("1", Ok(JobEnd::Finished))] {
        let options = [
            ("parallelism.default", "4"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", restarts),
            ("restart-strategy.fixed-delay.delay", "0 ms"),
        ];
        let mut graph = Graph::new(&options).unwrap();
        let rows: Vec<_> = (0..100).map(|n| (n, n, n)).collect();
        let of = |name: &str| Spec::new(name, &()).unwrap();
        let source = graph.add("source", NodeKind::Source { spec: source(&rows, 4), watermarks: None }, &[], schema());
        let own = graph.add("own", NodeKind::Operator(of("own")), &[(source, Partitioning::Rebalance)], schema());
        graph.add("sink", NodeKind::Sink(of("sink")), &[(own, Partitioning::Rebalance)], schema());
        let (control, events) = control();
        let options = JobOptions {
            threads: Arc::new(Few::default()),
            start: JobStart {
                clock: Arc::new(SystemClock::default()),
                store: Box::new(InMemory::default()),
                from: None,
                resume: false,
                allow_non_restored: false,
                seed: 1,
                notes: Box::new(|_| ()),
            },
        };
        let end = local::run(graph.tasks(1).unwrap(), &registry, options, &events, &control, |_| ());
        match end {
            Ok(end) => {
                assert_eq!(Ok(end), expected);
                assert_eq!(sink.rows().unwrap(), lines(&rows));
            }
            Err(error) => {
                assert_eq!(Err(()), expected);
                assert!(error.to_string().contains("no more threads"), "{error}");
                assert!(sink.rows().unwrap().is_empty());
            }
        }
    }
}
