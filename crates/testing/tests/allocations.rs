//! No allocation per row in map, filter, exchange and on a connection: counted in whole jobs, in a program of its own
//! because its allocator counts.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::System;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use flott_connectors::blackhole::Blackhole;
use flott_connectors::sequence::{self, SequenceConfig};
use flott_core::{Batch, Result, Spec, StreamElement};
use flott_operators::calc::{self, CalcConfig};
use flott_operators::expr::{BinaryOp, Expr, Scalar};
use flott_plan::{ChannelId, EdgeId, HostId, NodeKind, Partitioning};
use flott_runtime::network::memory::{MemoryEnd, link};
use flott_testing::jobs::{Graph, registry, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BATCHES: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Filter,
    Map,
    /// By key over local channels, with so many tasks on each side.
    Exchange(u32),
}

/// Calls of the allocator by a job over `batches` batches of `batch_rows` rows.
fn allocations(job: Job, batches: usize, batch_rows: usize) -> Result<usize> {
    let parallelism = if let Job::Exchange(tasks) = job { tasks } else { 1 };
    let options = [
        ("parallelism.default", parallelism.to_string()),
        ("flott.threads", parallelism.to_string()),
        ("flott.batch.rows", batch_rows.to_string()),
    ];
    let mut graph = Graph::new(&options.each_ref().map(|(key, value)| (*key, value.as_str())))?;
    let spec = SequenceConfig { from: 0, to: (batches * batch_rows) as i64 - 1, splits: 1 }.spec()?;
    let source = NodeKind::Source { spec, watermarks: None };
    let source = graph.add("numbers", source, &[], sequence::schema());
    let number = |n| Box::new(Expr::Literal(Scalar::int64(n)));
    let config = match job {
        Job::Filter => {
            // Two of three rows stay.
            let rest = Expr::Binary(BinaryOp::Modulo, Box::new(Expr::Column(0)), number(3));
            CalcConfig::filter(Expr::Binary(BinaryOp::Gt, Box::new(rest), number(0)))
        }
        Job::Map => {
            let more = Expr::Binary(BinaryOp::Plus, Box::new(Expr::Column(0)), number(1));
            CalcConfig::project(vec![("value".to_owned(), more)])
        }
        Job::Exchange(_) => CalcConfig::default(),
    };
    let calc = NodeKind::Operator(Spec::new(calc::NAME, &config)?);
    let calc = graph.add("calc", calc, &[(source, Partitioning::Forward)], config.output(&sequence::schema())?);
    let how = if let Job::Exchange(_) = job { Partitioning::Hash(vec![0]) } else { Partitioning::Forward };
    let schema = graph.node(calc).output.clone();
    graph.add("sink", NodeKind::Sink(Blackhole::spec()?), &[(calc, how)], schema);
    let registry = registry();
    let region = Region::new(ALLOCATOR);
    run(&graph, &registry, None, |_, _| (), |_| ())?.end?;
    let change = region.change();
    Ok(change.allocations + change.reallocations)
}

/// Calls of the allocator from the sender's task to the reader's, through a connection whose bytes go through memory.
fn allocations_between_processes(batches: usize, batch_rows: usize) -> Result<usize> {
    let mut ends = link(HostId(0), HostId(1), 1 << 20);
    for end in &ends {
        end.connection().start(|_| (), |_| ())?;
    }
    let channel = ChannelId { edge: EdgeId(0), from: 0, to: 0 };
    let schema = sequence::schema();
    let queue = ends[1].connection().open_receiver(channel, schema.clone(), 1)?;
    let mut sender = ends[0].connection().open_sender(channel)?;
    let numbers = Arc::new((0..batch_rows as i64).collect::<Int64Array>());
    let batch = Batch::new(RecordBatch::try_new(schema, vec![numbers])?);
    let region = Region::new(ALLOCATOR);
    for _ in 0..batches {
        while sender.credit() == 0 || !queue.is_empty() {
            drop(queue.pop());
            settle(&mut ends);
        }
        sender.send(StreamElement::Batch(batch.clone()));
        settle(&mut ends);
    }
    assert_eq!(queue.batches(), 1, "the last one has arrived, so all have");
    let change = region.change();
    Ok(change.allocations + change.reallocations)
}

/// Lets everything arrive that is on its way.
fn settle(ends: &mut [MemoryEnd; 2]) {
    while ends.iter().any(|end| end.is_woken() || end.arriving() > 0) {
        for end in ends.iter_mut() {
            end.arrive(usize::MAX);
            end.run();
        }
    }
}

/// What a batch costs more, so that what a job costs once does not count.
fn per_batch(allocations: impl Fn(usize, usize) -> Result<usize>, batch_rows: usize) -> Result<f64> {
    // The first job of a process also fills caches of its own.
    allocations(BATCHES, batch_rows)?;
    let (once, twice) = (allocations(BATCHES, batch_rows)?, allocations(2 * BATCHES, batch_rows)?);
    Ok(twice.saturating_sub(once) as f64 / BATCHES as f64)
}

/// What a batch of 4096 rows costs, as this test has measured it on 2 cores; `cargo xtask bench alloc` measures such jobs
/// too (docs/benchmarks.md). Whoever makes it less writes the new number here.
const MEASURED: [(Way, f64); 5] = [
    (Way::Job(Job::Filter), 25.0),
    (Way::Job(Job::Map), 16.0),
    (Way::Job(Job::Exchange(1)), 11.0),
    (Way::Job(Job::Exchange(2)), 27.0),
    (Way::Connection, 33.0),
];

#[derive(Clone, Copy, Debug)]
enum Way {
    Job(Job),
    Connection,
}

/// One test: two at once would count each other's.
#[test]
fn allocations_are_per_batch_not_per_row() -> Result<()> {
    for (way, measured) in MEASURED {
        let allocations = |batches, batch_rows| match way {
            Way::Job(job) => allocations(job, batches, batch_rows),
            Way::Connection => allocations_between_processes(batches, batch_rows),
        };
        let (small, large) = (per_batch(allocations, 1024)?, per_batch(allocations, 4096)?);
        let found = format!("{way:?}: {small} allocations for 1024 rows, {large} for 4096");
        // Half as much again for what the scheduling of threads decides, such as how far a queue grows and how many
        // shares make a batch.
        assert!(large < measured * 1.5, "{found}, expected {measured}");
        // Four times the rows in a batch: one allocation in 200 rows would be 15 more.
        assert!(large - small < 3072.0 / 200.0, "{found}");
    }
    Ok(())
}
