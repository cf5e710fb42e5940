//! The hosts of a simulated job: their tasks, what these say, and how many batches are in flight between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use flott_checkpoint::TaskRestore;
use flott_core::{Error, Result, Timestamp};
use flott_plan::{ExecutionGraph, HostId, TaskId};
use rand::Rng;
use rand::rngs::SmallRng;

use super::links::{Links, Remote};
use super::{Shared, lock};
use crate::channel::ChannelQueue;
use crate::deploy::{Deployment, TaskParts};
use crate::driver::Hosts;
use crate::environment::Environment;
use crate::mailbox::{Mail, Mailbox, TaskCommand};
use crate::master::{Attempt, MasterEvent};
use crate::task::{Step, Task, TaskEvent, TaskInput};

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

/// A channel, to be watched.
struct Watched {
    queue: Arc<ChannelQueue>,
    hosts: [HostId; 2],
}

/// All hosts of a job.
pub(super) struct SimulatedHosts {
    graph: Arc<ExecutionGraph>,
    env: Environment,
    tasks: BTreeMap<TaskId, Cell>,
    mailboxes: BTreeMap<TaskId, Arc<Mailbox>>,
    /// By the task that sends.
    channels: BTreeMap<TaskId, Vec<Watched>>,
    /// Connections of this attempt.
    pub(super) links: Links,
    /// What tasks have said and the master has not heard yet; in order for each task.
    said: Shared<Vec<(Attempt, TaskId, TaskEvent)>>,
}

impl SimulatedHosts {
    pub(super) fn new(graph: Arc<ExecutionGraph>, env: Environment) -> Self {
        Self {
            graph,
            env,
            tasks: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            channels: BTreeMap::new(),
            links: Links::default(),
            said: Shared::default(),
        }
    }

    /// Tasks that may step.
    pub(super) fn runnable(&self, now: Timestamp) -> impl Iterator<Item = TaskId> + '_ {
        let may_step = move |cell: &Cell| cell.woken.0.load(Ordering::SeqCst) || cell.until.is_some_and(|at| at <= now);
        self.tasks.iter().filter(move |(_, cell)| may_step(cell)).map(|(id, _)| *id)
    }

    /// When the first task may step again by itself.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.tasks.values().filter_map(|cell| cell.until).min()
    }

    /// What tasks wait for, for people.
    pub(super) fn describe(&self) -> String {
        self.tasks.values().map(|cell| cell.task.describe()).collect::<Vec<_>>().join("; ")
    }

    /// Lets a task step, or fail; then its channels must keep to their credit: only a step of the sender can break that.
    pub(super) fn step(&mut self, id: TaskId, fails: bool) -> Result<()> {
        let Some(cell) = self.tasks.get_mut(&id) else { return Ok(()) };
        cell.woken.0.store(false, Ordering::SeqCst);
        cell.until = None;
        if fails {
            cell.task.fail(Error::external("the simulation failed this task"));
            self.tasks.remove(&id);
            return Ok(());
        }
        match cell.task.step() {
            Step::Progress => cell.woken.0.store(true, Ordering::SeqCst),
            Step::Blocked(until) => cell.until = until,
            Step::Finished => {
                self.tasks.remove(&id);
            }
        }
        self.check_credit(id)
    }

    fn check_credit(&self, sender: TaskId) -> Result<()> {
        let credit = u64::from(self.env.limits.channel_credit);
        for Watched { queue, hosts: [from, to] } in self.channels.get(&sender).into_iter().flatten() {
            let on_the_way = if from == to { 0 } else { self.links.on_the_way(queue.id(), *from, *to) };
            let in_flight = queue.batches() as u64 + on_the_way;
            if in_flight > credit {
                let text = format!("{in_flight} batches in flight on {:?}, with a credit of {credit}", queue.id());
                return Err(Error::internal(text));
            }
        }
        Ok(())
    }

    pub(super) fn has_said(&self) -> bool {
        !lock(&self.said).is_empty()
    }

    /// What the master hears next: the first of some task, since events of one task keep their order.
    pub(super) fn hear(&self, random: &mut SmallRng) -> Option<MasterEvent> {
        let mut said = lock(&self.said);
        let task = said[random.random_range(0..said.len())].1;
        let first = said.iter().position(|(_, of, _)| *of == task)?;
        let (attempt, _, event) = said.remove(first);
        Some(MasterEvent::Task(attempt, event))
    }

    /// A host notices that a connection has ended: its tasks fail. A connection that was not broken on purpose is an
    /// error of the simulated run.
    pub(super) fn lose(&mut self) -> Result<()> {
        let Some((host, error)) = self.links.lose() else { return Ok(()) };
        if !error.is_retryable() {
            return Err(error);
        }
        for task in self.graph.tasks_on(host) {
            if let Some(mut cell) = self.tasks.remove(&task) {
                cell.task.fail(error.clone());
            }
        }
        Ok(())
    }

    /// Makes every task of every host, and new connections between these: what was on the way goes with the old ones.
    fn make(&mut self, attempt: Attempt, restored: &BTreeMap<TaskId, TaskRestore>) -> Result<Vec<TaskParts>> {
        let hosts: BTreeSet<HostId> = self.graph.tasks.iter().map(|(_, host)| *host).collect();
        self.links = Links::new(&hosts, self.env.seed ^ (u64::from(attempt.0) << 32));
        let mut all = Vec::new();
        for host in hosts {
            let deployment = Deployment { graph: &self.graph, host, env: &self.env, restored };
            all.append(&mut deployment.tasks(&Remote(&self.links, host))?);
        }
        self.links.start()?;
        Ok(all)
    }

    fn watch(&mut self, parts: &TaskParts) {
        let TaskInput::Gate(gate) = &parts.input else { return };
        for queue in gate.channels() {
            let Some(edge) = self.graph.job.edge(queue.id().edge) else { continue };
            let sender = TaskId { vertex: edge.from, index: queue.id().from };
            let hosts = [sender, parts.id].map(|task| self.graph.host_of(task).unwrap_or(HostId(0)));
            self.channels.entry(sender).or_default().push(Watched { queue: Arc::clone(queue), hosts });
        }
    }
}

impl Hosts for SimulatedHosts {
    fn deploy(&mut self, attempt: Attempt, restored: BTreeMap<TaskId, TaskRestore>) -> Result<()> {
        self.tasks.clear();
        self.mailboxes.clear();
        self.channels.clear();
        for parts in self.make(attempt, &restored)? {
            self.watch(&parts);
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
