//! Where plans from Python meet the runtime: [`run`] is the one place.

use flott_connectors::collection::CollectSink;
use flott_core::{Batch, Error, Registry, Result};
use flott_plan::StreamGraph;

use crate::registry::registry;

/// Runs the plan of these bytes in this process, to its end. What its collecting sink has seen, task by task.
pub(crate) fn execute(plan: &[u8]) -> Result<Vec<Batch>> {
    let collected = CollectSink::default();
    run(&StreamGraph::decode(plan)?, &registry(&collected))?;
    Ok(collected.take().into_iter().map(|(_, batch)| batch).collect())
}

/// Hosts tasks of a job that another process runs.
pub(crate) fn worker(arguments: &[String]) -> Result<()> {
    Err(Error::internal(format!("this build hosts no tasks of other processes ({})", arguments.join(" "))))
}

/// Runs a job to its end.
fn run(graph: &StreamGraph, _registry: &Registry) -> Result<()> {
    Err(Error::internal("this build has no runtime").at("job", &graph.name))
}
