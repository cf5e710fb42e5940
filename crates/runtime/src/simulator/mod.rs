//! A whole job in one thread, from one seed, in virtual time: [`simulate`]. It drives the same tasks, master and driver
//! as the thread pool does, and the same connections as sockets do where the graph names several hosts. It chooses what
//! real machines leave to chance: which task steps next, how many bytes arrive on which connection, when events reach
//! the master, when requests are answered, which task fails and which connection breaks. The same seed gives the same
//! run.
//!
//! Hosts, their tasks and the connections between them are in `hosts.rs` and `links.rs`. After every choice no channel
//! may have more batches in flight than its credit.

mod hosts;
mod links;
mod requests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_checkpoint::{CheckpointStore, Manifest};
use flott_core::{CheckpointKind, Clock, Error, ManualClock, Registry, Result, Timestamp};
use flott_plan::{ExecutionGraph, TaskId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::driver::{Driver, JobStart};
use crate::environment::{Environment, Limits};
use crate::master::{JobEnd, MasterEvent, Note};
use hosts::SimulatedHosts;
use links::LinkMove;
use requests::Requests;

/// A connection breaks as often in so many moves as a task fails in one step.
const LINK_MOVES: u32 = 50;

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
    /// Chance in a million that a step fails its task instead. Connections break too, less often for each of their
    /// moves, of which there are many more. Nothing fails in the second half of `max_steps`: then the job must get on.
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
    /// Choices made.
    pub steps: u64,
    /// What was worth telling people.
    pub notes: Vec<Note>,
}

/// What may happen next.
#[derive(Clone, Copy)]
enum Choice {
    /// A task steps.
    Step(TaskId),
    /// The master hears of a task.
    Hear,
    /// A request is answered.
    Answer,
    /// A connection goes on.
    Link(LinkMove),
    /// A host notices that a connection of its has ended.
    Lose,
}

type Shared<T> = Arc<Mutex<T>>;

fn lock<T>(shared: &Shared<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job to its end, or to an error if it is stuck or breaks a rule.
pub fn simulate(graph: &Arc<ExecutionGraph>, registry: &Registry, simulation: Simulation) -> Result<Run> {
    let Simulation { seed, store, from, trigger, failures_per_million, slow, max_steps } = simulation;
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let (requests, notes) = (Requests::default(), Shared::<Vec<Note>>::default());
    let env = Environment {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        registry: registry.clone(),
        requests: Arc::new(requests.clone()),
        offload: Arc::new(|work| work()),
        limits: Limits::of(&graph.job.config)?,
        seed,
    };
    let hosts = SimulatedHosts::new(Arc::clone(graph), env);
    let heard = Arc::clone(&notes);
    let start = JobStart {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        store,
        from,
        resume: false,
        allow_non_restored: false,
        seed,
        notes: Box::new(move |note| lock(&heard).push(note.clone())),
    };
    let mut driver = Driver::begin(graph, registry, hosts, start)?;

    let mut random = SmallRng::seed_from_u64(seed);
    let mut steps = 0;
    while driver.done().is_none() {
        steps += 1;
        if steps > max_steps {
            let text = format!("the job is stuck after {max_steps} steps from seed {seed}");
            return Err(Error::internal(format!("{text}; waiting: {}", driver.hosts.describe())));
        }
        if let Some((at, kind)) = trigger
            && at == steps
        {
            driver.handle(MasterEvent::Trigger(kind));
        }
        let now = clock.now();
        if driver.next_wake().is_some_and(|at| at <= now) {
            driver.handle(MasterEvent::Tick);
            // What a restart would go on from is not there.
            if driver.done().is_some() {
                break;
            }
        }
        let may_fail = steps <= max_steps / 2;
        let choices = choices(&driver.hosts, &requests, now);
        if choices.is_empty() {
            // Time passes when nothing else can happen.
            let Some(next) = driver.hosts.next_wake().into_iter().chain(driver.next_wake()).min() else {
                let waiting = driver.hosts.describe();
                let text = format!("nothing can go on after {steps} steps from seed {seed}; waiting: {waiting}");
                return Err(Error::internal(text));
            };
            clock.advance((next.0 - now.0).max(1));
            continue;
        }
        if random.random_range(0..64) == 0 {
            clock.advance(1);
        }
        match choices[random.random_range(0..choices.len())] {
            Choice::Step(task) => {
                let turns = slow.get(&task).copied().unwrap_or(1);
                if turns <= 1 || random.random_range(0..turns) == 0 {
                    let fails = random.random_range(0..1_000_000) < failures_per_million;
                    driver.hosts.step(task, fails && may_fail).map_err(|e| e.at("seed", seed))?;
                }
            }
            Choice::Hear => {
                if let Some(event) = driver.hosts.hear(&mut random) {
                    driver.handle(event);
                }
            }
            Choice::Answer => requests.answer(&mut random),
            Choice::Link(link) => {
                let breaks = random.random_range(0..1_000_000 * LINK_MOVES) < failures_per_million;
                driver.hosts.links.go_on(link, breaks && may_fail, &mut random);
            }
            Choice::Lose => driver.hosts.lose().map_err(|e| e.at("seed", seed))?,
        }
    }
    let (end, _) = driver.into_end();
    let notes = std::mem::take(&mut *lock(&notes));
    Ok(Run { end, steps, notes })
}

fn choices(hosts: &SimulatedHosts, requests: &Requests, now: Timestamp) -> Vec<Choice> {
    let mut choices: Vec<Choice> = hosts.runnable(now).map(Choice::Step).collect();
    choices.extend(hosts.has_said().then_some(Choice::Hear));
    choices.extend(requests.are_asked().then_some(Choice::Answer));
    choices.extend(hosts.links.moves().map(Choice::Link));
    choices.extend(hosts.links.has_lost().then_some(Choice::Lose));
    choices
}
