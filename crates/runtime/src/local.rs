//! Runs a job with the tasks of this process on threads: [`run`] drives it to its end on the caller's thread,
//! [`JobControl`] is for every other thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use flott_checkpoint::TaskRestore;
use flott_core::config::{Config, THREADS};
use flott_core::{
    Batch, CheckpointKind, Clock, Error, Joined, Metrics, OperatorInfo, Registry, RequestFuture, Result, Threads,
};
use flott_plan::{ExecutionGraph, HostId, TaskId};
use futures::{FutureExt, StreamExt};

use crate::catching::panicked;
use crate::deploy::{Deployment, NoRemote, RemoteChannels, TaskParts};
use crate::driver::{Driver, Hosts, JobStart};
use crate::environment::{Environment, Limits, RequestRunner};
use crate::executor::Executor;
use crate::mailbox::{Mail, Mailbox, TaskCommand};
use crate::master::{Attempt, JobEnd, MasterEvent};
use crate::task::{Task, TaskEvent, TaskInput};

/// What a job is run with.
pub struct JobOptions {
    /// Threads.
    pub threads: Arc<dyn Threads>,
    /// What it begins with.
    pub start: JobStart,
}

/// Steers a running job from any thread.
#[derive(Clone, Debug)]
pub struct JobControl(Sender<MasterEvent>);

impl JobControl {
    /// Ends the job; what was not committed is dropped.
    pub fn cancel(&self) {
        self.send(MasterEvent::Cancel);
    }

    /// Asks for a checkpoint or savepoint, or to stop with one.
    pub fn trigger(&self, kind: CheckpointKind) {
        self.send(MasterEvent::Trigger(kind));
    }

    /// Where else the job's events come from.
    pub(crate) fn sender(&self) -> Sender<MasterEvent> {
        self.0.clone()
    }

    fn send(&self, event: MasterEvent) {
        // A job that is over hears nothing and needs nothing.
        let _ = self.0.send(event);
    }
}

/// A job's control and the events it is steered by.
pub fn control() -> (JobControl, Receiver<MasterEvent>) {
    let (sender, receiver) = unbounded();
    (JobControl(sender), receiver)
}

/// The counters of one operator in one task.
#[derive(Clone, Debug)]
pub struct OperatorMetrics {
    /// In which task.
    pub task: TaskId,
    /// Which operator.
    pub info: Arc<OperatorInfo>,
    /// Its counters.
    pub metrics: Metrics,
}

/// Where the running job's counters are, for whoever wants to look.
#[derive(Clone, Debug, Default)]
pub struct JobMetrics(Arc<Mutex<BTreeMap<HostId, Vec<OperatorMetrics>>>>);

impl JobMetrics {
    /// The counters of every operator of the current attempt, process by process. Those of other processes are what
    /// these have told last; when a task is over, all of it is known.
    pub fn operators(&self) -> Vec<OperatorMetrics> {
        self.lock().values().flatten().cloned().collect()
    }

    /// The sum of a counter over all operators of this uid.
    pub fn sum(&self, uid: &str, counter: &str) -> u64 {
        let of_uid = self.operators().into_iter().filter(|operator| operator.info.uid == uid);
        of_uid.map(|operator| operator.metrics.counter(counter).get()).sum()
    }

    /// The counters of the operators in one process, in place of those before.
    pub(crate) fn set(&self, host: HostId, operators: Vec<OperatorMetrics>) {
        self.lock().insert(host, operators);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostId, Vec<OperatorMetrics>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks of this process.
pub struct LocalHosts {
    graph: Arc<ExecutionGraph>,
    host: HostId,
    env: Environment,
    executor: Executor,
    report: Arc<dyn Fn(Attempt, TaskEvent) + Send + Sync>,
    mailboxes: BTreeMap<TaskId, Arc<Mailbox>>,
    metrics: JobMetrics,
}

impl LocalHosts {
    /// Hosts with no tasks yet; `report` hears of the tasks, their counters are put into `metrics`.
    pub fn start(
        graph: Arc<ExecutionGraph>,
        host: HostId,
        env: Environment,
        threads: Arc<dyn Threads>,
        report: Arc<dyn Fn(Attempt, TaskEvent) + Send + Sync>,
        metrics: JobMetrics,
    ) -> Result<Self> {
        let size = match graph.job.config.get(&THREADS)? {
            0 => threads.parallelism(),
            size => size,
        };
        let executor = Executor::start(threads, size, Arc::clone(&env.clock))?;
        Ok(Self { graph, host, env, executor, report, mailboxes: BTreeMap::new(), metrics })
    }

    /// Counters of the current attempt.
    pub fn metrics(&self) -> &JobMetrics {
        &self.metrics
    }

    /// Makes and starts this process's tasks of an attempt.
    pub fn deploy_over(
        &mut self,
        attempt: Attempt,
        restored: &BTreeMap<TaskId, TaskRestore>,
        remote: &dyn RemoteChannels,
    ) -> Result<()> {
        self.mailboxes.clear();
        let deployment = Deployment { graph: &self.graph, host: self.host, env: &self.env, restored };
        let tasks = deployment.tasks(remote)?;
        let members = tasks.iter().flat_map(|parts| parts.chain.members().map(|member| (parts.id, member)));
        let metrics = members.map(|(task, member)| {
            let (info, metrics) = (Arc::clone(&member.info), member.metrics.clone());
            OperatorMetrics { task, info, metrics }
        });
        self.metrics.set(self.host, metrics.collect());
        // Where a thread cannot be had, tasks before run already: the attempt has begun, and fails.
        let mut begun = true;
        for parts in tasks {
            let task = parts.id;
            if !begun {
                (self.report)(attempt, TaskEvent::Cancelled(task));
            } else if let Err(error) = self.spawn(attempt, parts) {
                begun = false;
                (self.report)(attempt, TaskEvent::Failed(task, error));
            }
        }
        Ok(())
    }

    /// Starts a task; one that may block gets a thread of its own.
    fn spawn(&mut self, attempt: Attempt, parts: TaskParts) -> Result<()> {
        let mailbox = Arc::new(Mailbox::default());
        self.mailboxes.insert(parts.id, Arc::clone(&mailbox));
        let report = Arc::clone(&self.report);
        let events = Arc::new(move |event| report(attempt, event));
        let env = self.env.clone();
        let TaskParts { id, input, chain } = parts;
        let blocks = chain.blocks() || matches!(&input, TaskInput::Source(source) if source.blocks());
        let make = move |waker| Ok(Task::new(id, env, mailbox, waker, events, input, chain));
        if !blocks {
            return self.executor.spawn(make);
        }
        let name = self.graph.job.vertex(id.vertex).map_or("?", |vertex| &vertex.name);
        self.executor.spawn_own(&format!("{name}-{}", id.index), make)
    }

    fn tell(&self, task: TaskId, command: TaskCommand) {
        if let Some(mailbox) = self.mailboxes.get(&task) {
            mailbox.post(Mail::Command(command));
        }
    }

    /// Ends the threads.
    pub fn stop(self) {
        self.executor.stop();
    }
}

impl Hosts for LocalHosts {
    fn deploy(&mut self, attempt: Attempt, restored: BTreeMap<TaskId, TaskRestore>) -> Result<()> {
        self.deploy_over(attempt, &restored, &NoRemote)
    }

    fn command(&mut self, task: TaskId, command: TaskCommand) {
        self.tell(task, command);
    }
}

/// The environment of tasks on this machine.
pub fn environment(
    config: &Config,
    registry: Registry,
    clock: Arc<dyn Clock>,
    threads: &Arc<dyn Threads>,
    seed: u64,
) -> Result<Environment> {
    Ok(Environment {
        clock,
        registry,
        requests: Arc::new(RequestThread::new(Arc::clone(threads))),
        // A snapshot that needs no copy is complete at once; a backend that copies aside brings its own thread.
        offload: Arc::new(|work| work()),
        limits: Limits::of(config)?,
        seed,
    })
}

/// Runs a job of one process to its end. Errors known before anything runs come at once.
pub fn run(
    graph: ExecutionGraph,
    registry: &Registry,
    options: JobOptions,
    events: &Receiver<MasterEvent>,
    control: &JobControl,
    metrics: impl FnOnce(&JobMetrics),
) -> Result<JobEnd> {
    let graph = Arc::new(graph);
    let config = &graph.job.config;
    let env =
        environment(config, registry.clone(), Arc::clone(&options.start.clock), &options.threads, options.start.seed)?;
    let sender = control.0.clone();
    let report = Arc::new(move |attempt, event| {
        let _ = sender.send(MasterEvent::Task(attempt, event));
    });
    let seen = JobMetrics::default();
    let hosts =
        LocalHosts::start(Arc::clone(&graph), HostId(0), env, Arc::clone(&options.threads), report, seen.clone())?;
    metrics(&seen);
    let (end, hosts) = drive(&graph, registry, options.start, hosts, events)?;
    hosts.stop();
    end
}

/// Feeds a driver with events and time until the job is over.
pub fn drive<H: Hosts>(
    graph: &Arc<ExecutionGraph>,
    registry: &Registry,
    start: JobStart,
    hosts: H,
    events: &Receiver<MasterEvent>,
) -> Result<(Result<JobEnd>, H)> {
    let clock = Arc::clone(&start.clock);
    let mut driver = Driver::begin(graph, registry, hosts, start)?;
    while driver.done().is_none() {
        let event = match driver.next_wake() {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => {
                let wait = u64::try_from(at.0.saturating_sub(clock.now().0)).unwrap_or(0);
                events.recv_timeout(Duration::from_millis(wait))
            }
        };
        match event {
            Ok(event) => driver.handle(event),
            Err(RecvTimeoutError::Timeout) => driver.handle(MasterEvent::Tick),
            Err(RecvTimeoutError::Disconnected) => return Err(Error::internal("a job that nobody tells anything")),
        }
    }
    Ok(driver.into_end())
}

/// Runs the futures of requests on one thread, started with the first.
pub struct RequestThread {
    threads: Arc<dyn Threads>,
    running: Mutex<Option<Running>>,
}

type Work = (RequestFuture, Box<dyn FnOnce(Result<Batch>) + Send>);

struct Running {
    work: tokio::sync::mpsc::UnboundedSender<Work>,
    joined: Joined,
}

impl RequestThread {
    /// A thread to come.
    pub fn new(threads: Arc<dyn Threads>) -> Self {
        Self { threads, running: Mutex::new(None) }
    }

    fn begin(&self) -> Result<Running> {
        // What is queued is bounded by the requests operators may have in flight.
        let (work, mut queue) = tokio::sync::mpsc::unbounded_channel::<Work>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::external(format!("cannot start the thread for requests: {e}")))?;
        let body = move || {
            runtime.block_on(async move {
                let mut running = futures::stream::FuturesUnordered::new();
                loop {
                    tokio::select! {
                        more = queue.recv() => match more {
                            Some((future, done)) => running.push(async move {
                                let answer = std::panic::AssertUnwindSafe(future).catch_unwind().await;
                                done(answer.unwrap_or_else(|panic| Err(panicked(&*panic))));
                            }),
                            None => break,
                        },
                        Some(()) = running.next(), if !running.is_empty() => {}
                    }
                }
            });
        };
        Ok(Running { work, joined: self.threads.spawn("flott-requests", Box::new(body))? })
    }
}

impl RequestRunner for RequestThread {
    fn start(&self, future: RequestFuture, done: Box<dyn FnOnce(Result<Batch>) + Send>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            match self.begin() {
                Ok(begun) => *running = Some(begun),
                Err(error) => return done(Err(error)),
            }
        }
        if let Some(running) = &*running
            && let Err(tokio::sync::mpsc::error::SendError((_, done))) = running.work.send((future, done))
        {
            done(Err(Error::internal("the thread for requests has ended")));
        }
    }
}

impl Drop for RequestThread {
    fn drop(&mut self) {
        if let Some(Running { work, joined }) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(work);
            joined();
        }
    }
}
