//! Runs jobs on this machine: [`LocalExecutor`], and [`run`], the body of a program's `main`.
//!
//! This is where everything meets: the plan, the built-in parts, the program's own functions, the runtime, the
//! machine's clock and threads.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use flott_checkpoint::store_of;
use flott_connectors::print::nobody_reads;
use flott_core::{Clock, Joined, Registry, Result, SystemClock, SystemThreads, Threads};
use flott_datastream::{Executor, JobResult};
use flott_plan::{ExecutionGraph, JobGraph, StreamGraph};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobMetrics, JobOptions};
use flott_runtime::master::JobEnd;
use flott_runtime::processes::{self, LiveWorkers};

use crate::interrupt::{Interrupt, cancelled};
use crate::{StreamExecutionEnvironment, worker};

/// The body of `main`: runs a program whose jobs run in this process. An error is printed to standard error in plain
/// words (exit code 1); Ctrl-C cancels the running job (exit code 130), and a second one ends the program at once.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     flott::run(|env| {
///         env.read_text("words.txt").filter(|line| !line.is_empty()).print();
///         env.execute("lines").map(drop)
///     })
/// }
/// ```
pub fn run(program: impl FnOnce(&StreamExecutionEnvironment) -> Result<()>) -> ExitCode {
    LocalExecutor::default().run(program)
}

/// Everything that is built in, under the names plans give it.
pub fn built_ins() -> Registry {
    let mut registry = Registry::default();
    add_built_ins(&mut registry);
    registry
}

fn add_built_ins(registry: &mut Registry) {
    flott_connectors::register_all(registry);
    flott_operators::register_all(registry);
    registry.add_backend("hashmap", Arc::new(flott_state::HashMapBackend));
}

/// A look at a running job: how long it has run, and its counters.
#[derive(Debug)]
#[non_exhaustive]
pub struct Moment<'a> {
    /// Since the job began, in ms.
    pub elapsed_ms: u64,
    /// The counters of its operators.
    pub metrics: &'a JobMetrics,
}

type Watch = Arc<dyn Fn(&Moment<'_>) + Send + Sync>;

/// Runs jobs with the threads of this process, and of workers where there are to be some.
///
/// Checkpoints go into the directory `execution.checkpointing.dir` (a path or a `file:` URI); where none is set they
/// are kept in memory, which helps a job that restarts but not a process that is gone.
#[derive(Clone, Default)]
pub struct LocalExecutor {
    interrupt: Option<Interrupt>,
    watch: Option<(Duration, Watch)>,
    resume: bool,
    workers: u32,
}

impl LocalExecutor {
    /// Signals cancel its jobs; `execute` then gives an error for which [`is_cancelled`] holds.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Calls `look` so often while a job runs, and once when it has ended; for progress.
    #[must_use]
    pub fn watch(mut self, every: Duration, look: impl Fn(&Moment<'_>) + Send + Sync + 'static) -> Self {
        self.watch = Some((every, Arc::new(look)));
        self
    }

    /// Jobs go on from the newest checkpoint in their directory, if there is one.
    #[must_use]
    pub fn resume(mut self) -> Self {
        self.resume = true;
        self
    }

    /// Tasks run in so many processes beside this one, which are this program again: each runs it up to its first
    /// `execute` (see [`worker`]), so that a job with workers must be the first of its program. Counters are those of
    /// all processes.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// [`run`] with this executor.
    pub fn run(self, program: impl FnOnce(&StreamExecutionEnvironment) -> Result<()>) -> ExitCode {
        Interrupt::run(|interrupt| {
            program(&StreamExecutionEnvironment::with_executor(Arc::new(self.interrupted_by(interrupt))))
        })
    }
}

impl Executor for LocalExecutor {
    fn execute(&self, graph: StreamGraph, mut registry: Registry) -> Result<JobResult> {
        add_built_ins(&mut registry);
        if let Some(seat) = worker::seat()? {
            worker::serve(&seat, registry);
        }
        worker::begin(self.workers)?;
        let job = graph.name.clone();
        let store = store_of(&graph.config)?;
        let tasks = ExecutionGraph::of(JobGraph::of(&graph)?, self.workers.saturating_add(1));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let threads: Arc<dyn Threads> = Arc::new(SystemThreads);
        let (control, events) = local::control();
        let live = LiveWorkers::default();
        let _guard = self.interrupt.as_ref().map(|interrupt| interrupt.guard(&control, &live));
        let told = live.clone();
        let options = JobOptions {
            threads: Arc::clone(&threads),
            start: JobStart {
                // Jobs begin at different times, so that what is random differs between them.
                seed: clock.now().0.unsigned_abs(),
                clock: Arc::clone(&clock),
                store,
                from: None,
                resume: self.resume,
                allow_non_restored: false,
                notes: Box::new(move |note| told.tell(note)),
            },
        };
        let mut watched = None;
        let mut seen = JobMetrics::default();
        let watch_it = |metrics: &JobMetrics| {
            seen = metrics.clone();
            watched = self.watch.as_ref().map(|(every, look)| {
                let (every, look) = (*every, Arc::clone(look));
                watch(every, look, metrics.clone(), Arc::clone(&clock), &*threads)
            });
        };
        let end = match self.workers {
            0 => local::run(tasks, &registry, options, &events, &control, watch_it),
            _ => {
                let processes = worker::processes(&tasks.job.config, &live)?;
                processes::run(tasks, &registry, options, &events, &control, watch_it, processes)
            }
        };
        let started = watched.transpose()?;
        if let Some((ended, joined)) = started {
            drop(ended);
            joined();
        }
        let end = match end {
            Err(error) if nobody_reads(&error, graph.sinks()) => JobEnd::Finished,
            end => end?,
        };
        match end {
            JobEnd::Cancelled => Err(cancelled(&job)),
            JobEnd::Finished | JobEnd::Stopped(_) => Ok(result(job, &*clock, &seen)),
        }
    }
}

/// Looks at a job until the sender is dropped, and once more.
fn watch(
    every: Duration,
    look: Watch,
    metrics: JobMetrics,
    clock: Arc<dyn Clock>,
    threads: &dyn Threads,
) -> Result<(Sender<()>, Joined)> {
    let (ended, end) = channel::<()>();
    let body = move || {
        loop {
            let over = end.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
            look(&Moment { elapsed_ms: elapsed_ms(&*clock), metrics: &metrics });
            if over {
                return;
            }
        }
    };
    Ok((ended, threads.spawn("flott-progress", Box::new(body))?))
}

/// The clock is made when the job is.
fn elapsed_ms(clock: &dyn Clock) -> u64 {
    clock.monotonic_nanos() / 1_000_000
}

fn result(job: String, clock: &dyn Clock, metrics: &JobMetrics) -> JobResult {
    let mut counters: BTreeMap<(String, String), u64> = BTreeMap::new();
    for operator in metrics.operators() {
        for (counter, count) in operator.metrics.read() {
            *counters.entry((operator.info.name.clone(), counter)).or_default() += count;
        }
    }
    let mut result = JobResult::default();
    result.job_name = job;
    result.runtime_ms = elapsed_ms(clock);
    result.counters = counters.into_iter().map(|((operator, counter), count)| (operator, counter, count)).collect();
    result
}
