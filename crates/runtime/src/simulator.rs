//! A whole job in one thread, from one seed, in virtual time: [`simulate`]. It drives the same tasks, master and driver
//! as the thread pool does, and chooses what real machines leave to chance: which task steps next, when events reach
//! the master, when requests are answered, which task fails. The same seed gives the same run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use flott_checkpoint::{CheckpointStore, Coordinator, Manifest, RestartStrategy, Settings, TaskRestore};
use flott_core::{Batch, CheckpointKind, Clock, Error, ManualClock, Registry, RequestFuture, Result, Timestamp};
use flott_plan::{ExecutionGraph, HostId, TaskId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::deploy::{Deployment, NoRemote};
use crate::driver::{Driver, Hosts};
use crate::environment::{Environment, Limits, RequestRunner};
use crate::mailbox::{Mail, Mailbox, TaskCommand};
use crate::master::{Attempt, JobEnd, Master, MasterEvent, Note};
use crate::task::{Step, Task, TaskEvent};

/// What a simulated run does besides running.
pub struct Simulation {
    /// Everything random begins here.
    pub seed: u64,
    /// Where checkpoints are kept.
    pub store: Box<dyn CheckpointStore>,
    /// Begin with this one.
    pub from: Option<Manifest>,
    /// Ask for this after so many steps.
    pub trigger: Option<(u64, CheckpointKind)>,
    /// Chance in a million that a step fails its task instead.
    pub failures_per_million: u32,
    /// Tasks that step only once in so many turns: slow machines and sinks.
    pub slow: BTreeMap<TaskId, u32>,
    /// A run of more steps is stuck.
    pub max_steps: u64,
}

/// How a simulated run went.
#[derive(Debug)]
pub struct Run {
    /// How the job ended.
    pub end: Result<JobEnd>,
    /// Steps taken.
    pub steps: u64,
    /// What was worth telling people.
    pub notes: Vec<Note>,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Cell {
    task: Task,
    woken: Arc<Flag>,
    until: Option<Timestamp>,
}

type Shared<T> = Arc<Mutex<T>>;

fn lock<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

type Pending = Vec<(RequestFuture, Box<dyn FnOnce(Result<Batch>) + Send>)>;

/// Requests wait here until the simulation answers one.
#[derive(Clone, Default)]
struct Requests(Shared<Pending>);

impl RequestRunner for Requests {
    fn start(&self, future: RequestFuture, done: Box<dyn FnOnce(Result<Batch>) + Send>) {
        lock(&self.0).push((future, done));
    }
}

struct SimulatedHosts {
    graph: Arc<ExecutionGraph>,
    env: Environment,
    tasks: BTreeMap<TaskId, Cell>,
    mailboxes: BTreeMap<TaskId, Arc<Mailbox>>,
    /// What tasks have said and the master has not heard yet; in order for each task.
    said: Shared<Vec<(Attempt, TaskId, TaskEvent)>>,
}

impl Hosts for SimulatedHosts {
    fn deploy(&mut self, attempt: Attempt, restored: BTreeMap<TaskId, TaskRestore>) -> Result<()> {
        self.tasks.clear();
        self.mailboxes.clear();
        let deployment = Deployment { graph: &self.graph, host: HostId(0), env: &self.env, restored: &restored };
        for parts in deployment.tasks(&NoRemote)? {
            let (mailbox, woken) = (Arc::new(Mailbox::default()), Arc::new(Flag(AtomicBool::new(true))));
            self.mailboxes.insert(parts.id, Arc::clone(&mailbox));
            let (said, id) = (Arc::clone(&self.said), parts.id);
            let events = Arc::new(move |event| lock(&said).push((attempt, id, event)));
            let waker = Waker::from(Arc::clone(&woken));
            let task = Task::new(id, self.env.clone(), mailbox, waker, events, parts.input, parts.chain);
            self.tasks.insert(id, Cell { task, woken, until: None });
        }
        Ok(())
    }

    fn command(&mut self, task: TaskId, command: TaskCommand) {
        if let Some(mailbox) = self.mailboxes.get(&task) {
            mailbox.post(Mail::Command(command));
        }
    }
}

/// Runs a job to its end, or to an error if it is stuck.
pub fn simulate(graph: &Arc<ExecutionGraph>, registry: &Registry, simulation: Simulation) -> Result<Run> {
    let Simulation { seed, store, from, trigger, failures_per_million, slow, max_steps } = simulation;
    let config = &graph.job.config;
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let (requests, notes) = (Requests::default(), Shared::<Vec<Note>>::default());
    let env = Environment {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        registry: registry.clone(),
        requests: Arc::new(requests.clone()),
        offload: Arc::new(|work| work()),
        limits: Limits::of(config)?,
        seed,
    };
    let said = Shared::default();
    let hosts = SimulatedHosts {
        graph: Arc::clone(graph),
        env,
        tasks: BTreeMap::new(),
        mailboxes: BTreeMap::new(),
        said: Arc::clone(&said),
    };
    let latest = store.latest()?;
    let coordinator = Coordinator::new(Settings::from_config(config)?, latest.generation + 1, latest.highest);
    let master = Master::new(Arc::clone(graph), coordinator, RestartStrategy::from_config(config, seed)?);
    let heard = Arc::clone(&notes);
    let note = Box::new(move |note: &Note| lock(&heard).push(note.clone()));
    let time = Arc::clone(&clock) as Arc<dyn Clock>;
    let mut driver = Driver::new(Arc::clone(graph), master, hosts, store, time, registry.clone(), note);
    driver.handle(MasterEvent::Start(from.map(Box::new)));

    let mut random = SmallRng::seed_from_u64(seed);
    let mut steps = 0;
    while driver.done().is_none() {
        steps += 1;
        if steps > max_steps {
            return Err(Error::internal(format!("the job is stuck after {max_steps} steps from seed {seed}")));
        }
        if let Some((at, kind)) = trigger
            && at == steps
        {
            driver.handle(MasterEvent::Trigger(kind));
        }
        let now = clock.now();
        if driver.next_wake().is_some_and(|at| at <= now) {
            driver.handle(MasterEvent::Tick);
        }
        let may_step = |cell: &Cell| cell.woken.0.load(Ordering::SeqCst) || cell.until.is_some_and(|at| at <= now);
        let runnable: Vec<TaskId> =
            driver.hosts.tasks.iter().filter(|(_, cell)| may_step(cell)).map(|(id, _)| *id).collect();
        let (heard, asked) = (lock(&said).len(), lock(&requests.0).len());
        // One of: a task steps, an event arrives, a request is answered; time passes when nothing else can.
        let choices = runnable.len() + usize::from(heard > 0) + usize::from(asked > 0);
        if choices == 0 {
            let wakes = driver.hosts.tasks.values().filter_map(|cell| cell.until).chain(driver.next_wake());
            let Some(next) = wakes.min() else {
                let waiting = driver.hosts.tasks.values().map(|cell| cell.task.describe());
                let waiting = waiting.collect::<Vec<_>>().join("; ");
                let text = format!("nothing can go on after {steps} steps from seed {seed}; waiting: {waiting}");
                return Err(Error::internal(text));
            };
            clock.advance((next.0 - now.0).max(1));
            continue;
        }
        if random.random_range(0..64) == 0 {
            clock.advance(1);
        }
        let choice = random.random_range(0..choices);
        if let Some(id) = runnable.get(choice) {
            let turns = slow.get(id).copied().unwrap_or(1);
            if turns <= 1 || random.random_range(0..turns) == 0 {
                step(&mut driver.hosts, *id, random.random_range(0..1_000_000) < failures_per_million);
            }
        } else if heard > 0 && choice == runnable.len() {
            // The first of some task: events of one task keep their order.
            let (attempt, _, event) = {
                let mut said = lock(&said);
                let task = said[random.random_range(0..heard)].1;
                let first = said.iter().position(|(_, of, _)| *of == task).unwrap_or(0);
                said.remove(first)
            };
            driver.handle(MasterEvent::Task(attempt, event));
        } else {
            let (future, done) = {
                let mut asked = lock(&requests.0);
                let which = random.random_range(0..asked.len());
                asked.remove(which)
            };
            // A future of the simulation waits for nothing but itself.
            done(futures::executor::block_on(future));
        }
    }
    let (end, _) = driver.into_end();
    let notes = std::mem::take(&mut *lock(&notes));
    Ok(Run { end, steps, notes })
}

fn step(hosts: &mut SimulatedHosts, id: TaskId, fails: bool) {
    let Some(cell) = hosts.tasks.get_mut(&id) else { return };
    cell.woken.0.store(false, Ordering::SeqCst);
    cell.until = None;
    if fails {
        cell.task.fail(Error::external("the simulation failed this task"));
        hosts.tasks.remove(&id);
        return;
    }
    match cell.task.step() {
        Step::Progress => cell.woken.0.store(true, Ordering::SeqCst),
        Step::Blocked(until) => cell.until = until,
        Step::Finished => {
            hosts.tasks.remove(&id);
        }
    }
}
