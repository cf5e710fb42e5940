//! Jobs from SQL: planned, run in every way, compared with plain loops and with Apache Flink.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod bad_input;
mod golden;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;

use flott_checkpoint::InMemory;
use flott_connectors::collect::Collected;
use flott_core::{Batch, Config, Error, Registry, Result};
use flott_plan::ExecutionGraph;
use flott_runtime::simulator::{Simulation, simulate};
use flott_sql::{Planned, PlannedJob, SqlEnvironment};
use flott_testing::jobs::{Graph, registry};

/// The job of the last statement of a script; a SELECT's rows are collected.
pub(super) fn planned(script: &str, options: &[(&str, &str)]) -> Result<PlannedJob> {
    let mut config = Config::default();
    options.iter().try_for_each(|(key, value)| config.set(key, value))?;
    let mut sql = SqlEnvironment::new(config).with_select_sink(Collected::spec()?);
    match sql.execute(script)?.pop() {
        Some(Planned::Job(job)) => Ok(job),
        other => Err(Error::internal(format!("no job: {other:?}"))),
    }
}

fn tasks(job: &PlannedJob) -> Result<Arc<ExecutionGraph>> {
    Ok(Arc::new(Graph(job.graph.clone()).tasks(1)?))
}

fn simulation(seed: u64, store: &InMemory) -> Simulation {
    Simulation {
        seed,
        store: Box::new(store.clone()),
        from: None,
        trigger: None,
        failures_per_million: 0,
        slow: BTreeMap::new(),
        max_steps: 2_000_000,
    }
}

/// Runs a job to its end in one thread.
fn run_with(job: &PlannedJob, registry: &Registry) -> Result<()> {
    simulate(&tasks(job)?, registry, simulation(1, &InMemory::default()))?.end.map(drop)
}

/// The rows of a SELECT.
fn run_select(job: &PlannedJob) -> Result<Vec<Batch>> {
    let (mut registry, collected) = (registry(), Collected::default());
    collected.register(&mut registry);
    run_with(job, &registry)?;
    Ok(collected.take())
}
