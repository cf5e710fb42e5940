//! Where plans from Python meet the runtime: [`run`] is the one place.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use flott_checkpoint::store_of;
use flott_connectors::collect::Collected;
use flott_connectors::print::nobody_reads;
use flott_core::{Batch, Clock, Error, Registry, Result, SystemClock, SystemThreads, Threads};
use flott_plan::{ExecutionGraph, JobGraph, StreamGraph};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobControl, JobOptions};
use flott_runtime::master::{JobEnd, MasterEvent};
use flott_runtime::processes::{self, LiveWorkers};
use pyo3::prelude::*;

use crate::registry::registry;
use crate::workers::Workers;

/// How long a Ctrl-C may go unnoticed.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the plan of these bytes to its end, in this process and its workers; `resume`: from the newest checkpoint in its
/// directory, if there is one. The rows of its sink `collect`.
///
/// The job is driven on a thread of its own, so that this one can look after Python's signals: Ctrl-C cancels it. A
/// second one ends the program at once, with its workers: a function that does not return cannot be ended otherwise.
pub(crate) fn execute(py: Python<'_>, plan: &[u8], workers: Option<Workers>, resume: bool) -> PyResult<Vec<Batch>> {
    let raise = |e: Error| flott_python::raise(&e);
    let graph = StreamGraph::decode(plan).map_err(raise)?;
    let collected = Collected::default();
    let registry = registry(&collected);
    let (control, events) = local::control();
    let (done, ended) = crossbeam_channel::bounded(1);
    let (of_job, live) = (control.clone(), LiveWorkers::default());
    let live_of_job = live.clone();
    let body = move || {
        // Nobody listens any more only where the program itself is ending.
        let _ = done.send(run(&graph, &registry, (&of_job, &events), (workers, live_of_job), resume));
    };
    let joined = SystemThreads.spawn("flott-job", Box::new(body)).map_err(raise)?;
    let mut interrupted = None;
    let end = loop {
        match py.detach(|| ended.recv_timeout(SIGNAL_INTERVAL)) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Disconnected) => {
                break Err(Error::internal("the job's thread ended without an answer"));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(e) = py.check_signals() {
                    if interrupted.is_some() {
                        live.kill();
                        end_program(py)?;
                    }
                    control.cancel();
                    interrupted = Some(e);
                }
            }
        }
    };
    py.detach(joined);
    if let Some(e) = interrupted {
        return Err(e);
    }
    end.map_err(raise)?;
    Ok(collected.take())
}

/// Ends this process as Ctrl-C does: no thread is waited for.
fn end_program(py: Python<'_>) -> PyResult<()> {
    const INTERRUPTED: i32 = 130;
    py.import("os")?.call_method1("_exit", (INTERRUPTED,)).map(drop)
}

/// Runs a job to its end.
fn run(
    graph: &StreamGraph,
    registry: &Registry,
    (control, events): (&JobControl, &Receiver<MasterEvent>),
    (workers, live): (Option<Workers>, LiveWorkers),
    resume: bool,
) -> Result<JobEnd> {
    let job = JobGraph::of(graph)?;
    let store = store_of(&job.config)?;
    let clock = SystemClock::default();
    let options = JobOptions {
        threads: Arc::new(SystemThreads),
        start: JobStart {
            seed: clock.now().0.unsigned_abs(),
            clock: Arc::new(clock),
            store,
            from: None,
            resume,
            allow_non_restored: false,
            notes: {
                let live = live.clone();
                Box::new(move |note| live.tell(note))
            },
        },
    };
    let end = match workers {
        Some(workers) if workers.count > 0 => {
            let graph = ExecutionGraph::of(job, workers.count.saturating_add(1));
            let processes = workers.processes(&graph.job.config, &live)?;
            processes::run(graph, registry, options, events, control, |_| (), processes)
        }
        _ => local::run(ExecutionGraph::of(job, 1), registry, options, events, control, |_| ()),
    };
    match end {
        Err(error) if nobody_reads(&error, graph.sinks()) => Ok(JobEnd::Finished),
        end => end,
    }
}
