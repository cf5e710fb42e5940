//! Runs a job as a user's program would: a stream graph, a registry, `flott_runtime::local::run`.

use std::sync::Arc;

use flott_checkpoint::InMemory;
use flott_core::{Clock, Error, Registry, Result, Spec, SystemClock, SystemThreads, Threads};
use flott_plan::{NodeId, NodeKind, Partitioning};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobOptions};
use flott_runtime::master::JobEnd;
use flott_testing::jobs::Graph;

/// A graph for so many parallel tasks of each operator and as many threads; `options` come on top.
pub(crate) fn graph(parallelism: u32, options: &[(String, String)]) -> Result<Graph> {
    let parallelism = parallelism.to_string();
    let mut all = vec![("parallelism.default", parallelism.as_str()), ("flott.threads", parallelism.as_str())];
    all.extend(options.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    Graph::new(&all)
}

/// Adds a sink behind `from`.
pub(crate) fn sink(graph: &mut Graph, from: NodeId, spec: Spec) {
    let schema = graph.node(from).output.clone();
    graph.add("sink", NodeKind::Sink(spec), &[(from, Partitioning::Forward)], schema);
}

/// Runs the job to its end.
pub(crate) fn run(graph: &Graph, registry: &Registry, clock: Arc<dyn Clock>) -> Result<()> {
    let (control, events) = local::control();
    let options = JobOptions {
        threads: Arc::new(SystemThreads) as Arc<dyn Threads>,
        start: JobStart {
            clock,
            store: Box::new(InMemory::default()),
            from: None,
            resume: false,
            allow_non_restored: false,
            seed: 1,
            notes: Box::new(|_| ()),
        },
    };
    match local::run(graph.tasks(1)?, registry, options, &events, &control, |_| ())? {
        JobEnd::Finished => Ok(()),
        end => Err(Error::internal(format!("the job ended otherwise: {end:?}"))),
    }
}

/// The machine's clock.
pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}
