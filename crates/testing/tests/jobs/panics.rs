//! A function of the user's that panics, wherever it is called, fails its job with an error that says so.
#![allow(clippy::panic, clippy::unwrap_used, reason = "what is tested, and helpers of tests")]

use std::sync::Arc;

use flott_core::{
    Batch, Committable, Committer, Context, InputId, NextSplit, Operator, OperatorInfo, Partitioner, Progress,
    Registry, RequestFuture, RequestOrder, Result, Sink, SinkWriter, Source, SourceReader, Spec, SplitEnumerator,
    Timestamp,
};
use flott_operators::async_request;
use flott_plan::{NodeKind, Partitioning};
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{Graph, registry, run};

use super::row::{schema, simulation, source};

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
}

impl At {
    fn call(self, here: At) {
        if self == here {
            panic!("by the test");
        }
    }
}

impl Operator for At {
    fn open(&mut self, _: &mut Context<'_>) -> Result<()> {
        self.call(At::Open);
        Ok(())
    }

    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        self.call(At::Process);
        ctx.emit(rows);
        Ok(Progress::Done)
    }

    fn on_watermark(&mut self, _: Timestamp, _: &mut Context<'_>) -> Result<Progress> {
        self.call(At::Watermark);
        Ok(Progress::Done)
    }

    fn finish(&mut self, _: &mut Context<'_>) -> Result<Progress> {
        self.call(At::Finish);
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
        Ok(())
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
            Ok(Box::new(at) as Box<dyn Operator>)
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

fn graph() -> Graph {
    let mut graph = Graph::new(&[("parallelism.default", "2"), ("flott.threads", "2")]).unwrap();
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
    ];
    for (name, at) in places {
        let found = run(&graph(), &all(at), None, |_, _| (), |_| ()).and_then(|ran| ran.end);
        let error = found.expect_err(name).to_string();
        assert!(error.contains("panicked: by the test"), "{name}: {error}");
        // The futures of a simulation are its own affair.
        if at != At::Future {
            let tasks = Arc::new(graph().tasks(1).unwrap());
            let found = simulate(&tasks, &all(at), simulation(1, &Default::default())).and_then(|ran| ran.end);
            let error = found.expect_err(name).to_string();
            assert!(error.contains("panicked: by the test"), "{name}, simulated: {error}");
        }
    }
}
