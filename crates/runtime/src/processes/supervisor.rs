//! Starts, watches and ends the workers of a job: [`Supervisor`], a loop on the master's side. It passes on what master
//! and hosts say, and answers for workers that cannot.
//!
//! A worker that is gone is reported once, when its process has ended: with how it ended and what it last said.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use flott_checkpoint::TaskRestore;
use flott_core::{Clock, Error, ErrorDomain, Result, Threads, Timestamp};
use flott_plan::{ExecutionGraph, HostId, TaskId};

use super::child::Child;
use super::counters::Heard;
use super::heartbeat::Heartbeats;
use super::host::{HostEvent, receive, steady_ms};
use super::protocol::{FromHost, ToHost, at_task, task_over};
use super::{Messages, Processes, Seat};
use crate::local::JobMetrics;
use crate::mailbox::TaskCommand;
use crate::master::{Attempt, MasterEvent};
use crate::network::Connection;
use crate::task::TaskEvent;

/// Tells the lives of one worker's processes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life(u32);

/// What the supervisor is woken by.
pub(super) enum Event {
    /// The master begins an attempt.
    Deploy(Attempt, BTreeMap<TaskId, TaskRestore>),
    /// The master tells a task.
    Command(TaskId, TaskCommand),
    /// A process has connected, or has failed to introduce itself.
    Peer(Result<Connection>),
    /// A host says something.
    Said(HostId, FromHost),
    /// A worker's connection has brought a message.
    Message(HostId, Life, Vec<u8>),
    /// A worker's connection has ended, and why.
    Ended(HostId, Life, Error),
    /// A worker's standard error has ended: so does the process.
    Silent(HostId, Life),
    /// End all workers.
    Stop,
}

/// Starts, watches and ends the workers of a job.
pub(super) struct Supervisor {
    graph: Arc<ExecutionGraph>,
    job: ToHost,
    processes: Processes,
    clock: Arc<dyn Clock>,
    threads: Arc<dyn Threads>,
    /// Where workers are to connect.
    address: SocketAddr,
    inbox: Sender<Event>,
    local: Sender<HostEvent>,
    master: Sender<MasterEvent>,
    /// Every host that has tasks.
    hosts: BTreeSet<HostId>,
    workers: BTreeMap<HostId, Worker>,
    lives: u32,
    /// Why the last stranger was turned away: perhaps a worker of ours that speaks another version.
    refused: Option<Error>,
    attempt: Attempt,
    listening: BTreeMap<HostId, SocketAddr>,
    live: BTreeSet<TaskId>,
    /// The counters of the job; those of the workers are added up here.
    metrics: JobMetrics,
    heard: BTreeMap<HostId, Heard>,
    /// Which workers that have connected still answer.
    beats: Heartbeats<HostId>,
}

struct Worker {
    life: Life,
    child: Child,
    messages: Option<Arc<Messages>>,
    /// How many frames of it had come when it was looked at last.
    frames: u64,
    /// Orders, until it has connected. There is no limit but that it must connect in time: they are one attempt's, and
    /// what its tasks are restored from is in memory as it is.
    waiting: Vec<ToHost>,
    /// It is ended then, and why; without a reason it has ended by itself.
    due: Option<(Timestamp, Option<Error>)>,
    /// Its connection has ended.
    lost: bool,
}

/// Sends an order; one that cannot be sent is an error of the task it is about. What tasks are restored from is limited
/// one by one: all of it came here in single messages, and a checkpoint that was accepted must not be too large as a whole.
fn send(graph: &ExecutionGraph, messages: &Messages, order: &ToHost) -> Result<()> {
    let bytes = order.encode()?;
    match order {
        ToHost::Restore(task, _) => messages.send_beyond(bytes).map_err(|e| at_task(e, graph, *task)),
        _ => messages.send(bytes),
    }
}

impl Supervisor {
    pub(super) fn new(
        graph: Arc<ExecutionGraph>,
        seed: u64,
        processes: Processes,
        (clock, threads): (Arc<dyn Clock>, Arc<dyn Threads>),
        address: SocketAddr,
        (inbox, local, master): (Sender<Event>, Sender<HostEvent>, Sender<MasterEvent>),
        metrics: JobMetrics,
    ) -> Result<Self> {
        let job = ToHost::Job { graph: graph.encode()?, seed, limits: processes.limits };
        let hosts = graph.tasks.iter().map(|(_, host)| *host).collect();
        let beats = Heartbeats::new(processes.limits.heartbeat_ms, processes.limits.heartbeat_timeout_ms);
        Ok(Self {
            graph,
            job,
            processes,
            clock,
            threads,
            address,
            inbox,
            local,
            master,
            hosts,
            workers: BTreeMap::new(),
            lives: 0,
            refused: None,
            attempt: Attempt(0),
            listening: BTreeMap::new(),
            live: BTreeSet::new(),
            metrics,
            heard: BTreeMap::new(),
            beats,
        })
    }

    /// Works until it is told to stop; then no worker is left.
    pub(super) fn run(mut self, events: &Receiver<Event>) {
        loop {
            match self.wait(events) {
                Some(Event::Stop) => break,
                Some(event) => self.handle(event),
                None => {}
            }
        }
        self.stop(events);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Deploy(attempt, restored) => self.deploy(attempt, restored),
            Event::Command(task, command) => self.command(task, command),
            Event::Peer(Ok(connection)) => self.connected(connection),
            Event::Peer(Err(error)) => self.refuse(error),
            Event::Said(host, message) => self.said(host, message),
            Event::Message(host, life, bytes) if self.is_alive(host, life) => match FromHost::decode(&bytes) {
                Ok(message) => self.said(host, message),
                Err(error) => self.died(host, Some(error)),
            },
            Event::Ended(host, life, error) if self.is_alive(host, life) => self.lost(host, error),
            Event::Silent(host, life) if self.is_alive(host, life) => self.silent(host),
            Event::Message(..) | Event::Ended(..) | Event::Silent(..) | Event::Stop => {}
        }
    }

    fn is_alive(&self, host: HostId, life: Life) -> bool {
        self.workers.get(&host).is_some_and(|worker| worker.life == life)
    }

    fn in_ms(&self, ms: u64) -> Timestamp {
        self.clock.now().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// The next event; `None` after ending workers whose time is over.
    fn wait(&mut self, events: &Receiver<Event>) -> Option<Event> {
        self.beat();
        let over = self.workers.values().filter_map(|worker| worker.due.as_ref().map(|(at, _)| *at)).min();
        let beat = self.beats.due_ms().map(|at| self.in_ms(at.saturating_sub(steady_ms(&*self.clock))));
        let due = [over, beat].into_iter().flatten().min();
        match receive(events, &*self.clock, due) {
            Ok(event) => return Some(event),
            // Cannot be: this holds a sender.
            Err(RecvTimeoutError::Disconnected) => return Some(Event::Stop),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = self.clock.now();
        let overdue = |worker: &Worker| worker.due.clone().filter(|(at, _)| *at <= now);
        let over: Vec<_> = self.workers.iter().filter_map(|(host, w)| Some((*host, overdue(w)?.1))).collect();
        over.into_iter().for_each(|(host, error)| self.died(host, error));
        None
    }

    /// Asks the workers for signs of life where it is time to, and ends those that have given none for too long.
    fn beat(&mut self) {
        let now = steady_ms(&*self.clock);
        for (host, worker) in &mut self.workers {
            // Whatever comes from it: while it takes long messages its answers wait behind them.
            let frames = worker.messages.as_ref().map_or(0, |messages| messages.frames());
            if std::mem::replace(&mut worker.frames, frames) != frames {
                self.beats.heard(*host, now);
            }
        }
        let beat = self.beats.beat(now);
        for (host, ms) in beat.late {
            let text = format!(
                "a worker process has not answered for {ms} ms: it is stopped, or the machine lacks memory or time \
                 for it"
            );
            self.died(host, Some(Error::external(text)));
        }
        if beat.ask {
            for messages in self.workers.values().filter_map(|worker| worker.messages.as_ref()) {
                // What cannot be sent to it is not answered; why not, the end of its connection says.
                let _ = send(&self.graph, messages, &ToHost::AreYouThere);
            }
        }
    }

    fn deploy(&mut self, attempt: Attempt, mut restored: BTreeMap<TaskId, TaskRestore>) {
        self.attempt = attempt;
        self.listening.clear();
        self.live = self.graph.tasks.iter().map(|(task, _)| *task).collect();
        let graph = Arc::clone(&self.graph);
        let start_ms = self.processes.limits.start_ms;
        let by = self.in_ms(start_ms);
        for host in self.hosts.clone() {
            let ready = if host == HostId(0) { Ok(()) } else { self.revive(host) };
            if host != HostId(0) {
                self.heard.insert(host, Heard::begin(&self.graph, host, &self.metrics));
            }
            let orders = graph.tasks_on(host).filter_map(|task| Some(ToHost::Restore(task, restored.remove(&task)?)));
            let mut orders = orders.chain([ToHost::Deploy(attempt)]);
            if let Some(worker) = self.workers.get_mut(&host) {
                let text = format!("a worker process was not ready within {start_ms} ms");
                worker.due = Some((by, Some(Error::external(text))));
            }
            match ready {
                Ok(()) => orders.try_for_each(|order| self.order(host, order)).unwrap_or_else(|e| self.lost(host, e)),
                Err(error) => self.fail_tasks(host, &error.at("host", host.0)),
            }
        }
    }

    /// A worker for this host that will answer.
    fn revive(&mut self, host: HostId) -> Result<()> {
        match self.workers.get_mut(&host) {
            Some(worker) if !worker.lost => return Ok(()),
            Some(worker) => drop(worker.child.end(true)),
            None => {}
        }
        self.forget(host);
        let life = Life(self.lives);
        self.lives += 1;
        let seat = Seat { host, address: self.address, token: self.processes.token.clone() };
        let command = self.processes.launcher.command(&seat)?;
        let (limits, inbox) = (self.processes.limits, self.inbox.clone());
        let on_silence = move || drop(inbox.send(Event::Silent(host, life)));
        let place = (host, &self.processes.live);
        let child = Child::start(command, place, &*self.threads, limits.last_words_bytes, on_silence)?;
        let waiting = vec![self.job.clone()];
        self.workers.insert(host, Worker { life, child, messages: None, frames: 0, waiting, due: None, lost: false });
        Ok(())
    }

    /// A worker is no more.
    fn forget(&mut self, host: HostId) -> Option<Worker> {
        self.beats.forget(host);
        self.workers.remove(&host)
    }

    /// Sends an order to a host, now or when it has connected.
    fn order(&mut self, host: HostId, order: ToHost) -> Result<()> {
        if host == HostId(0) {
            let _ = self.local.send(HostEvent::Order(order));
            return Ok(());
        }
        // One that is gone has been answered for.
        let Some(worker) = self.workers.get_mut(&host) else { return Ok(()) };
        match &worker.messages {
            Some(messages) if !worker.lost => send(&self.graph, messages, &order),
            Some(_) => Ok(()),
            None => {
                worker.waiting.push(order);
                Ok(())
            }
        }
    }

    fn connected(&mut self, connection: Connection) {
        let host = connection.peer();
        let Some(worker) = self.workers.get_mut(&host).filter(|worker| worker.messages.is_none()) else {
            return connection.fail(Error::internal("a worker that nobody expects"));
        };
        let (life, frames, ended) = (worker.life, self.inbox.clone(), self.inbox.clone());
        let messages = Messages::new(connection, self.processes.limits.message_bytes);
        let started = messages.start(
            move |bytes| drop(frames.send(Event::Message(host, life, bytes))),
            move |result| {
                let closed = || Error::external("a worker process has closed its connection");
                let _ = ended.send(Event::Ended(host, life, result.err().unwrap_or_else(closed)));
            },
        );
        let waiting = std::mem::take(&mut worker.waiting);
        worker.messages = Some(Arc::clone(&messages));
        self.beats.heard(host, steady_ms(&*self.clock));
        let sent =
            started.and_then(|()| waiting.into_iter().try_for_each(|order| send(&self.graph, &messages, &order)));
        sent.unwrap_or_else(|error| self.lost(host, error));
    }

    fn said(&mut self, host: HostId, message: FromHost) {
        match message {
            FromHost::Listening(attempt, address) if attempt == self.attempt => {
                if let Some(worker) = self.workers.get_mut(&host).filter(|worker| !worker.lost) {
                    worker.due = None;
                }
                self.listening.insert(host, address);
                if self.listening.len() == self.hosts.len() {
                    let all: Vec<_> = std::mem::take(&mut self.listening).into_iter().collect();
                    for host in self.hosts.clone() {
                        self.order_or_lose(host, ToHost::Peers(attempt, all.clone()));
                    }
                }
            }
            FromHost::Counters(attempt, grown) if attempt == self.attempt => {
                let added = self.heard.get_mut(&host).map_or(Ok(()), |heard| heard.add(grown));
                added.unwrap_or_else(|error| self.died(host, Some(error)));
            }
            FromHost::Listening(..) | FromHost::Counters(..) | FromHost::Alive => {}
            FromHost::Task(attempt, event) => {
                if attempt == self.attempt
                    && let Some(task) = task_over(&event)
                {
                    self.over(task, host);
                }
                self.tell_master(attempt, event);
            }
        }
    }

    /// A task is over. A worker whose last one is gone has followed its cancellation.
    fn over(&mut self, task: TaskId, host: HostId) {
        self.live.remove(&task);
        let rests = !self.graph.tasks_on(host).any(|task| self.live.contains(&task));
        if let Some(worker) = self.workers.get_mut(&host)
            && rests
            && !worker.lost
        {
            worker.due = None;
        }
    }

    fn tell_master(&self, attempt: Attempt, event: TaskEvent) {
        // A job that is over hears nothing and needs nothing.
        let _ = self.master.send(MasterEvent::Task(attempt, event));
    }

    fn command(&mut self, task: TaskId, command: TaskCommand) {
        let Some(host) = self.graph.host_of(task) else { return };
        if command == TaskCommand::Cancel
            && let Some(worker) = self.workers.get_mut(&host)
        {
            let limit = self.processes.limits.cancel_ms;
            if worker.messages.is_none() {
                // It knows of nothing yet and need not.
                worker.child.end(true);
                self.forget(host);
                for task in self.live_on(host) {
                    self.live.remove(&task);
                    self.tell_master(self.attempt, TaskEvent::Cancelled(task));
                }
                return;
            }
            if worker.due.is_none() && self.live.contains(&task) {
                let text = format!("a worker process has not ended its cancelled tasks within {limit} ms");
                let at = self.clock.now().saturating_add(i64::try_from(limit).unwrap_or(i64::MAX));
                worker.due = Some((at, Some(Error::external(text))));
            }
        }
        self.order_or_lose(host, ToHost::Command(task, command));
    }

    fn order_or_lose(&mut self, host: HostId, order: ToHost) {
        self.order(host, order).unwrap_or_else(|error| self.lost(host, error));
    }

    fn live_on(&self, host: HostId) -> Vec<TaskId> {
        self.graph.tasks_on(host).filter(|task| self.live.contains(task)).collect()
    }

    /// A process is turned away at the door. It may be a worker of ours that has ended for this reason.
    fn refuse(&mut self, error: Error) {
        self.refused = Some(error);
        let ended = self.workers.iter().filter(|(_, worker)| matches!(worker.due, Some((_, None))));
        for host in ended.map(|(host, _)| *host).collect::<Vec<_>>() {
            self.died(host, None);
        }
    }

    /// A worker's process has ended. Why one has that never came in may still be on its way through the door.
    fn silent(&mut self, host: HostId) {
        let at = self.in_ms(self.processes.limits.grace_ms);
        match self.workers.get_mut(&host) {
            Some(worker) if worker.messages.is_none() && self.refused.is_none() => {
                worker.lost = true;
                worker.due = Some((at, None));
            }
            _ => self.died(host, None),
        }
    }

    /// A worker cannot be reached. Its process may be about to end, which is the better reason; a fault of the job is
    /// one by itself.
    fn lost(&mut self, host: HostId, error: Error) {
        let at = self.in_ms(if error.is_retryable() { self.processes.limits.linger_ms } else { 0 });
        if let Some(worker) = self.workers.get_mut(&host).filter(|worker| !worker.lost) {
            worker.lost = true;
            worker.due = Some((at, Some(error)));
        }
    }

    /// A worker's process is over, or is ended for this reason: its tasks have failed.
    fn died(&mut self, host: HostId, reason: Option<Error>) {
        let Some(mut worker) = self.forget(host) else { return };
        let pid = worker.child.pid();
        let status = worker.child.end(reason.is_some());
        // One that was turned away at the door has ended for that reason.
        let reason = self.refused.take_if(|_| worker.messages.is_none()).or(reason);
        let error = match reason {
            // The process is not at fault.
            Some(reason) if reason.domain() == ErrorDomain::Internal || reason.place("task").is_some() => reason,
            Some(reason) if reason.domain() == ErrorDomain::User => {
                Error::user(format!("{}; the worker process {status}", reason.message()))
            }
            Some(reason) => Error::external(format!("{}; the worker process {status}", reason.message())),
            None => Error::external(format!("a worker process {status}")),
        };
        self.fail_tasks(host, &error.at("host", host.0).at("pid", pid));
    }

    /// The tasks of a host have failed. Where all of them are over but others are not, rows may be lost: one has.
    fn fail_tasks(&mut self, host: HostId, error: &Error) {
        if self.live.is_empty() {
            return;
        }
        let mut failed = self.live_on(host);
        if failed.is_empty() {
            failed.extend(self.graph.tasks_on(host).next());
        }
        for task in failed {
            self.live.remove(&task);
            self.tell_master(self.attempt, TaskEvent::Failed(task, error.clone()));
        }
    }

    /// Ends all workers: by their own will, or after a while against it.
    fn stop(mut self, events: &Receiver<Event>) {
        self.live.clear();
        let at = self.in_ms(self.processes.limits.linger_ms);
        for host in self.workers.keys().copied().collect::<Vec<_>>() {
            let told = self.order(host, ToHost::Stop).is_ok();
            if let Some(worker) = self.workers.get_mut(&host) {
                let told = told && worker.messages.is_some() && !worker.lost;
                let at = if told { at } else { self.clock.now() };
                worker.due = Some((at, None));
            }
        }
        while !self.workers.is_empty() {
            if let Some(Event::Silent(host, life)) = self.wait(events)
                && self.is_alive(host, life)
            {
                self.died(host, None);
            }
        }
    }
}
