//! Counts calls of the allocator by whole jobs; prints the table of the benchmark `alloc` as JSON.

use std::alloc::System;

use flott_connectors::blackhole::Blackhole;
use flott_connectors::sequence::{self, SequenceConfig};
use flott_core::{Error, Result, Spec};
use flott_operators::calc::{self, CalcConfig};
use flott_operators::expr::{BinaryOp, Expr, Scalar};
use flott_plan::{NodeKind, Partitioning};
use flott_testing::jobs::{Graph, registry, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BATCH_ROWS: u64 = 4096;
const BATCHES: u64 = 500;

fn main() -> Result<()> {
    let mut table = vec![["job", "allocations per batch", "per row", "bytes per row"].map(str::to_owned).to_vec()];
    for job in ["source, sink", "filter", "projection", "exchange, parallelism 1", "exchange, parallelism 2"] {
        count(job, BATCHES)?;
        let (once, twice) = (count(job, BATCHES)?, count(job, 2 * BATCHES)?);
        let per_batch = |once: usize, twice: usize| twice.saturating_sub(once) as f64 / BATCHES as f64;
        let allocations = per_batch(once.0, twice.0);
        let bytes = per_batch(once.1, twice.1) / BATCH_ROWS as f64;
        let per_row = allocations / BATCH_ROWS as f64;
        table.push(vec![job.to_owned(), format!("{allocations:.1}"), format!("{per_row:.4}"), format!("{bytes:.1}")]);
    }
    println!("{}", serde_json::to_string(&table).map_err(|e| Error::internal(e.to_string()))?);
    Ok(())
}

/// Calls and bytes of a job over so many batches.
fn count(job: &str, batches: u64) -> Result<(usize, usize)> {
    let parallelism = if job.ends_with('2') { "2" } else { "1" };
    let mut graph = Graph::new(&[("parallelism.default", parallelism), ("flott.threads", parallelism)])?;
    let rows = (batches * BATCH_ROWS) as i64;
    let spec = SequenceConfig { from: 0, to: rows - 1, splits: 1 }.spec()?;
    let source = NodeKind::Source { spec, watermarks: None };
    let source = graph.add("numbers", source, &[], sequence::schema());
    let number = |n| Box::new(Expr::Literal(Scalar::int64(n)));
    let value = || Box::new(Expr::Column(0));
    let config = match job {
        "filter" => {
            let rest = Expr::Binary(BinaryOp::Modulo, value(), number(3));
            Some(CalcConfig::filter(Expr::Binary(BinaryOp::Gt, Box::new(rest), number(0))))
        }
        "projection" => {
            let more = Expr::Binary(BinaryOp::Plus, value(), number(1));
            Some(CalcConfig::project(vec![("value".to_owned(), more)]))
        }
        _ => None,
    };
    let mut last = source;
    if let Some(config) = config {
        let kind = NodeKind::Operator(Spec::new(calc::NAME, &config)?);
        let output = config.output(&sequence::schema())?;
        last = graph.add("calc", kind, &[(source, Partitioning::Forward)], output);
    }
    let how = if job.starts_with("exchange") { Partitioning::Hash(vec![0]) } else { Partitioning::Forward };
    let schema = graph.node(last).output.clone();
    graph.add("sink", NodeKind::Sink(Blackhole::spec()?), &[(last, how)], schema);
    let registry = registry();
    let region = Region::new(ALLOCATOR);
    run(&graph, &registry, None, |_, _| (), |_| ())?.end?;
    let change = region.change();
    Ok((change.allocations + change.reallocations, change.bytes_allocated))
}
