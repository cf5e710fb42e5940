//! One process's part of a job: [`TaskHost`], a loop that follows the master's orders. It makes the attempt's
//! connections, then the tasks, hands them their commands, and reports what breaks.
//!
//! Between two hosts the one of the higher number connects. A host with all its connections starts its tasks at once:
//! credit keeps rows back until the other side has opened its channels.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_schema::SchemaRef;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use flott_checkpoint::TaskRestore;
use flott_core::{Clock, Error, Result, Threads, Timestamp};
use flott_plan::{ChannelId, EdgeId, ExecutionGraph, HostId, TaskId};

use super::ProcessLimits;
use super::counters::Told;
use super::heartbeat::Heartbeats;
use super::protocol::{FromHost, ToHost, attempt_token, task_over};
use crate::channel::{ChannelQueue, ChannelSender};
use crate::deploy::RemoteChannels;
use crate::driver::Hosts;
use crate::environment::Environment;
use crate::local::{JobMetrics, LocalHosts};
use crate::mailbox::TaskCommand;
use crate::master::Attempt;
use crate::network::{Connection, Hello, Listener, Network};
use crate::task::TaskEvent;

/// Hears what a host says, on any thread. An error: this snapshot cannot be told, and the attempt has failed.
pub(super) type Tell = Arc<dyn Fn(FromHost) -> Result<()> + Send + Sync>;

/// What a host's loop is woken by.
pub(super) enum HostEvent {
    /// The master wants something.
    Order(ToHost),
    /// A peer has connected.
    Peer(Attempt, Connection),
    /// A connection to a peer has ended.
    Lost(Attempt, Error),
    /// What a task says could not be told: the attempt has failed.
    Broken(Attempt, Error),
    /// Nothing more comes from a task.
    Over(Attempt, TaskId),
    /// The connection to the master has ended.
    MasterGone(Error),
}

/// What a host is made of.
pub(super) struct HostParts {
    pub(super) graph: Arc<ExecutionGraph>,
    pub(super) host: HostId,
    pub(super) env: Environment,
    pub(super) threads: Arc<dyn Threads>,
    pub(super) network: Arc<Network>,
    /// Where to listen.
    pub(super) ip: IpAddr,
    pub(super) token: String,
    pub(super) limits: ProcessLimits,
    pub(super) tell: Tell,
}

/// One process's part of a job.
pub(super) struct TaskHost {
    parts: HostParts,
    clock: Arc<dyn Clock>,
    local: LocalHosts,
    /// Where callbacks of connections and tasks put their events.
    inbox: Sender<HostEvent>,
    /// The hosts with which this one shares channels.
    peers: BTreeSet<HostId>,
    restored: BTreeMap<TaskId, TaskRestore>,
    current: Option<Current>,
    /// Why tasks of this attempt are cancelled here: to the master they fail, also one that finishes meanwhile.
    cause: Cause,
    counters: Counters,
    /// When the master is told next how they have grown.
    counters_due: Option<Timestamp>,
    /// Whether the master still says something; in its own process it needs not.
    master: Option<Heartbeats<HostId>>,
}

type Cause = Arc<Mutex<Option<(Attempt, Error)>>>;

/// What the master knows of this process's counters; `None` in its own, where it sees them.
type Counters = Option<Arc<Mutex<Told>>>;

/// The attempt under way.
struct Current {
    attempt: Attempt,
    phase: Phase,
    connections: BTreeMap<HostId, Connection>,
    _listener: Option<Listener>,
    live: BTreeSet<TaskId>,
    /// Something broke; unless the master ends the attempt for a better reason by then, this is it.
    broken: Option<(Timestamp, Error)>,
}

enum Phase {
    /// For connections; commands wait for the tasks.
    Connecting(Vec<(TaskId, TaskCommand)>),
    Running,
    /// No task was made, and none will be.
    GivenUp,
}

impl TaskHost {
    /// A host that waits for orders; its callbacks write to `inbox`, which [`TaskHost::run`] reads.
    pub(super) fn new(parts: HostParts, inbox: Sender<HostEvent>) -> Result<Self> {
        let (cause, metrics) = (Cause::default(), JobMetrics::default());
        let told = || Arc::new(Mutex::new(Told::new(Arc::clone(&parts.graph), parts.host, metrics.clone())));
        let counters = (parts.host != HostId(0)).then(told);
        let report = {
            let (cause, counters) = (Arc::clone(&cause), counters.clone());
            let (tell, inbox) = (Arc::clone(&parts.tell), inbox.clone());
            Arc::new(move |attempt, event| {
                let over = task_over(&event);
                if let Some(task) = over {
                    tell_counters(&counters, attempt, Some(task), &tell);
                }
                if let Err(error) = tell(FromHost::Task(attempt, failed_if_caused(attempt, event, &cause))) {
                    // At once, so that the task cannot finish as if it had been heard.
                    *lock(&cause) = Some((attempt, error.clone()));
                    let _ = inbox.send(HostEvent::Broken(attempt, error));
                }
                if let Some(task) = over {
                    // After its end the loop needs to know nothing.
                    let _ = inbox.send(HostEvent::Over(attempt, task));
                }
            })
        };
        let (graph, env) = (Arc::clone(&parts.graph), parts.env.clone());
        let clock = Arc::clone(&env.clock);
        let local = LocalHosts::start(graph, parts.host, env, Arc::clone(&parts.threads), report, metrics)?;
        let peers = peers_of(&parts.graph, parts.host)?;
        let (restored, current, counters_due) = (BTreeMap::new(), None, None);
        let limits = parts.limits;
        let master = counters.as_ref().map(|_| Heartbeats::new(limits.heartbeat_ms, limits.heartbeat_timeout_ms));
        Ok(Self { parts, clock, local, inbox, peers, restored, current, cause, counters, counters_due, master })
    }

    /// Counters of the current attempt in this process.
    pub(super) fn metrics(&self) -> &JobMetrics {
        self.local.metrics()
    }

    /// Follows orders until it is told to stop, or the master is gone, which is the error. No task runs after that,
    /// except one that does not listen to its cancellation: its thread is left behind for the process's end.
    pub(super) fn run(mut self, events: &Receiver<HostEvent>) -> Result<()> {
        self.hear_master();
        let result = loop {
            let due = self.due();
            match (receive(events, &*self.clock, due), due) {
                (Ok(HostEvent::Order(ToHost::Stop)) | Err(RecvTimeoutError::Disconnected), _) => break Ok(()),
                (Ok(HostEvent::MasterGone(error)), _) => break Err(error),
                (Ok(event), _) => self.handle(event),
                (Err(RecvTimeoutError::Timeout), Some(due)) => {
                    if let Some(ms) = self.silence_of_master() {
                        break Err(silent_master(ms));
                    }
                    self.on_time(due);
                }
                (Err(RecvTimeoutError::Timeout), None) => {}
            }
        };
        self.end(events);
        result
    }

    /// When there is something to do without an event.
    fn due(&self) -> Option<Timestamp> {
        let master = self.master.as_ref().and_then(Heartbeats::due_ms);
        let master = master.map(|at| self.in_ms(at.saturating_sub(steady_ms(&*self.clock))));
        let current = self.current.as_ref();
        let broken = current.and_then(|current| current.broken.as_ref()).map(|(at, _)| *at);
        let counters = self.counters_due.filter(|_| current.is_some_and(|current| !current.live.is_empty()));
        [master, broken, counters].into_iter().flatten().min()
    }

    /// The master has said something.
    fn hear_master(&mut self) {
        if let Some(master) = &mut self.master {
            master.heard(HostId(0), steady_ms(&*self.clock));
        }
    }

    /// For how many ms the master has said nothing, if that is too long.
    fn silence_of_master(&mut self) -> Option<u64> {
        let beat = self.master.as_mut()?.beat(steady_ms(&*self.clock));
        beat.late.first().map(|(_, ms)| *ms)
    }

    fn handle(&mut self, event: HostEvent) {
        if let HostEvent::Order(_) = event {
            self.hear_master();
        }
        match event {
            HostEvent::Order(ToHost::Restore(task, restored)) => {
                self.restored.insert(task, restored);
            }
            HostEvent::Order(ToHost::Deploy(attempt)) => self.deploy(attempt),
            HostEvent::Order(ToHost::Peers(attempt, addresses)) if self.is_current(attempt) => {
                self.connect(attempt, &addresses);
            }
            HostEvent::Order(ToHost::Command(task, command)) => self.command(task, command),
            HostEvent::Peer(attempt, connection) if self.is_current(attempt) => self.connected(attempt, connection),
            HostEvent::Lost(attempt, error) | HostEvent::Broken(attempt, error) if self.is_current(attempt) => {
                self.broke(error);
            }
            HostEvent::Over(attempt, task) => {
                if let Some(current) = self.current.as_mut().filter(|current| current.attempt == attempt) {
                    current.live.remove(&task);
                }
            }
            // Of an earlier attempt, seen by the loop, or answered where it came in.
            HostEvent::Order(ToHost::Job { .. } | ToHost::Peers(..) | ToHost::AreYouThere | ToHost::Stop)
            | HostEvent::Peer(..)
            | HostEvent::Lost(..)
            | HostEvent::Broken(..)
            | HostEvent::MasterGone(_) => {}
        }
    }

    fn is_current(&self, attempt: Attempt) -> bool {
        self.current.as_ref().is_some_and(|current| current.attempt == attempt)
    }

    /// A new attempt: the old one's connections go, new ones may come.
    fn deploy(&mut self, attempt: Attempt) {
        self.leave();
        let live = self.parts.graph.tasks_on(self.parts.host).collect();
        let mut current = Current {
            attempt,
            phase: Phase::Connecting(Vec::new()),
            connections: BTreeMap::new(),
            _listener: None,
            live,
            broken: None,
        };
        let listening = self.listen(attempt);
        match listening {
            Ok(listener) => {
                say(&self.parts.tell, FromHost::Listening(attempt, listener.address()));
                current._listener = Some(listener);
                self.current = Some(current);
                self.start_if_connected();
            }
            Err(error) => {
                self.current = Some(current);
                self.give_up(&error);
            }
        }
    }

    fn in_ms(&self, ms: u64) -> Timestamp {
        in_ms(&*self.clock, ms)
    }

    fn listen(&self, attempt: Attempt) -> Result<Listener> {
        let inbox = self.inbox.clone();
        self.parts.network.listen(SocketAddr::new(self.parts.ip, 0), self.hello(attempt), move |peer| {
            // Whoever cannot introduce himself is none of ours.
            if let Ok(connection) = peer {
                let _ = inbox.send(HostEvent::Peer(attempt, connection));
            }
        })
    }

    fn hello(&self, attempt: Attempt) -> Hello {
        Hello { host: self.parts.host, token: attempt_token(&self.parts.token, attempt) }
    }

    fn connect(&mut self, attempt: Attempt, addresses: &[(HostId, SocketAddr)]) {
        let limit = self.parts.limits.start_ms;
        let late = format!("the processes of the job have not connected to each other within {limit} ms");
        let late = Some((self.in_ms(limit), Error::external(late)));
        match &mut self.current {
            Some(current) if matches!(current.phase, Phase::Connecting(_)) => current.broken = late,
            _ => return,
        }
        for (peer, address) in addresses {
            if *peer < self.parts.host && self.peers.contains(peer) {
                match self.parts.network.connect(*address, self.hello(attempt)) {
                    Ok(connection) => self.connected(attempt, connection),
                    Err(error) => return self.broke(error.at("host", peer.0)),
                }
            }
        }
    }

    fn connected(&mut self, attempt: Attempt, connection: Connection) {
        let peer = connection.peer();
        let expected = self.peers.contains(&peer);
        let Some(current) = &mut self.current else { return };
        if !expected || !matches!(current.phase, Phase::Connecting(_)) || current.connections.contains_key(&peer) {
            return connection.fail(Error::internal("a connection that nobody expects"));
        }
        debug_assert_eq!(attempt, current.attempt);
        current.connections.insert(peer, connection);
        self.start_if_connected();
    }

    /// Makes the tasks once every peer is there.
    fn start_if_connected(&mut self) {
        let Some(current) = &mut self.current else { return };
        let connected = self.peers.iter().all(|peer| current.connections.contains_key(peer));
        if !connected || !matches!(current.phase, Phase::Connecting(_)) {
            return;
        }
        current.broken = None;
        let restored = std::mem::take(&mut self.restored);
        let started =
            self.local.deploy_over(current.attempt, &restored, &Remote(&current.connections)).and_then(|()| {
                current.connections.values().try_for_each(|connection| {
                    let (attempt, ended) = (current.attempt, self.inbox.clone());
                    let on_end = move |result: Result<()>| {
                        if let Err(error) = result {
                            let _ = ended.send(HostEvent::Lost(attempt, error));
                        }
                    };
                    connection.start(|_| (), on_end)
                })
            });
        match started {
            Ok(()) => {
                let due = self.counters.as_ref().map(|_| self.parts.limits.counters_ms.max(1));
                self.counters_due = due.map(|ms| in_ms(&*self.clock, ms));
                let waiting = std::mem::replace(&mut current.phase, Phase::Running);
                if let Phase::Connecting(commands) = waiting {
                    commands.into_iter().for_each(|(task, command)| self.local.command(task, command));
                }
            }
            Err(error) => self.give_up(&error),
        }
    }

    fn command(&mut self, task: TaskId, command: TaskCommand) {
        let Some(current) = &mut self.current else { return };
        match &mut current.phase {
            Phase::Running => self.local.command(task, command),
            // All tasks are cancelled or none.
            Phase::Connecting(_) | Phase::GivenUp if command == TaskCommand::Cancel => {
                current.phase = Phase::GivenUp;
                current.broken = None;
                if current.live.remove(&task) {
                    say(&self.parts.tell, FromHost::Task(current.attempt, TaskEvent::Cancelled(task)));
                }
            }
            Phase::Connecting(waiting) => waiting.push((task, command)),
            Phase::GivenUp => {}
        }
    }

    /// A connection broke. A fault of the job itself is reported at once; where the other side has just gone, whoever
    /// watches that process knows more.
    fn broke(&mut self, error: Error) {
        let wait = if error.is_retryable() { self.parts.limits.grace_ms } else { 0 };
        let at = self.in_ms(wait);
        if let Some(current) = &mut self.current
            && !current.live.is_empty()
            && current.broken.as_ref().is_none_or(|(due, _)| at < *due)
        {
            current.broken = Some((at, error));
        }
    }

    /// It is `now` at least: counters are told, and what broke was perhaps not ended for a better reason.
    fn on_time(&mut self, now: Timestamp) {
        if self.counters_due.is_some_and(|at| at <= now) {
            self.counters_due = Some(self.in_ms(self.parts.limits.counters_ms.max(1)));
            if let Some(current) = &self.current {
                tell_counters(&self.counters, current.attempt, None, &self.parts.tell);
            }
        }
        let Some(current) = &mut self.current else { return };
        let Some((_, error)) = current.broken.take_if(|(at, _)| *at <= now) else { return };
        match current.phase {
            Phase::Running => {
                *lock(&self.cause) = Some((current.attempt, error));
                self.cancel();
            }
            Phase::Connecting(_) | Phase::GivenUp => self.give_up(&error),
        }
    }

    /// The tasks of this attempt cannot be made: each has failed.
    fn give_up(&mut self, error: &Error) {
        let Some(current) = &mut self.current else { return };
        current.phase = Phase::GivenUp;
        current.broken = None;
        for task in std::mem::take(&mut current.live) {
            say(&self.parts.tell, FromHost::Task(current.attempt, TaskEvent::Failed(task, error.clone())));
        }
        current.connections.values().for_each(|connection| connection.fail(error.clone()));
    }

    fn cancel(&mut self) {
        if let Some(current) = &self.current
            && matches!(current.phase, Phase::Running)
        {
            current.live.iter().for_each(|&task| self.local.command(task, TaskCommand::Cancel));
        }
    }

    /// Leaves the attempt: its tasks are over.
    fn leave(&mut self) {
        self.counters_due = None;
        if let Some(current) = self.current.take() {
            current.connections.values().for_each(Connection::close);
        }
    }

    fn end(mut self, events: &Receiver<HostEvent>) {
        self.cancel();
        if let Some(current) = &mut self.current
            && !matches!(current.phase, Phase::Running)
        {
            current.live.clear();
        }
        let due = self.in_ms(self.parts.limits.linger_ms);
        let live = |host: &Self| host.current.as_ref().is_some_and(|current| !current.live.is_empty());
        while live(&self) {
            match receive(events, &*self.clock, Some(due)) {
                Ok(event @ HostEvent::Over(..)) => self.handle(event),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        let over = !live(&self);
        self.leave();
        if over {
            self.local.stop();
        }
    }
}

/// The next event, waiting until `due` at most.
pub(super) fn receive<T>(
    events: &Receiver<T>,
    clock: &dyn Clock,
    due: Option<Timestamp>,
) -> Result<T, RecvTimeoutError> {
    match due {
        None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(at) => {
            let wait = u64::try_from(at.0.saturating_sub(clock.now().0)).unwrap_or(0);
            events.recv_timeout(Duration::from_millis(wait))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says what is no snapshot.
fn say(tell: &Tell, message: FromHost) {
    // What cannot be told then is the end of the connection, which comes as an event.
    let _ = tell(message);
}

/// Ms of a clock that only goes forward.
pub(super) fn steady_ms(clock: &dyn Clock) -> u64 {
    clock.monotonic_nanos() / 1_000_000
}

/// Why a worker ends that has heard nothing for so long.
pub(super) fn silent_master(ms: u64) -> Error {
    Error::external(format!(
        "the process that runs the job has said nothing for {ms} ms: it is stopped, or the machine lacks memory or \
         time for it; this worker ends"
    ))
}

fn in_ms(clock: &dyn Clock, ms: u64) -> Timestamp {
    clock.now().saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Tells what has grown. Nobody comes between: what is told builds on what was told before.
fn tell_counters(counters: &Counters, attempt: Attempt, of: Option<TaskId>, tell: &Tell) {
    let Some(told) = counters else { return };
    let mut told = lock(told);
    if let Some(grown) = told.grown(attempt, of) {
        say(tell, FromHost::Counters(attempt, grown));
    }
}

fn failed_if_caused(attempt: Attempt, event: TaskEvent, cause: &Cause) -> TaskEvent {
    match (event, &*lock(cause)) {
        (TaskEvent::Cancelled(task) | TaskEvent::Finished(task, _), Some((of, error))) if *of == attempt => {
            TaskEvent::Failed(task, error.clone())
        }
        (event, _) => event,
    }
}

/// The hosts that share a channel with `host`.
fn peers_of(graph: &ExecutionGraph, host: HostId) -> Result<BTreeSet<HostId>> {
    let of = |vertex, index| {
        let host = graph.host_of(TaskId { vertex, index });
        host.ok_or_else(|| Error::internal("a channel of a task that is not in the plan"))
    };
    let mut peers = BTreeSet::new();
    for (id, edge) in (0..).map(EdgeId).zip(&graph.job.edges) {
        for channel in graph.channels_of_edge(id) {
            let ends = (of(edge.from, channel.from)?, of(edge.to, channel.to)?);
            match ends {
                (from, to) if from == to => {}
                (from, to) if from == host => drop(peers.insert(to)),
                (from, to) if to == host => drop(peers.insert(from)),
                _ => {}
            }
        }
    }
    Ok(peers)
}

/// Channels over the connections of an attempt.
struct Remote<'a>(&'a BTreeMap<HostId, Connection>);

impl Remote<'_> {
    fn connection(&self, peer: HostId) -> Result<&Connection> {
        self.0
            .get(&peer)
            .ok_or_else(|| Error::internal("a channel to a process without a connection").at("host", peer.0))
    }
}

impl RemoteChannels for Remote<'_> {
    fn open_receiver(&self, peer: HostId, id: ChannelId, schema: &SchemaRef, credit: u32) -> Result<Arc<ChannelQueue>> {
        self.connection(peer)?.open_receiver(id, Arc::clone(schema), credit)
    }

    fn open_sender(&self, peer: HostId, channel: ChannelId) -> Result<ChannelSender> {
        self.connection(peer)?.open_sender(channel)
    }
}
