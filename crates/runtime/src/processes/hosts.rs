//! The master's side of a job in several processes: [`ProcessHosts`]. A handle: the work is the supervisor's and, for
//! the tasks of this process, that of host 0.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crossbeam_channel::{Sender, unbounded};
use flott_checkpoint::TaskRestore;
use flott_core::{Joined, Registry, Result};
use flott_plan::{ExecutionGraph, HostId, TaskId};

use super::Processes;
use super::host::{HostEvent, HostParts, TaskHost};
use super::protocol::ToHost;
use super::supervisor::{Event, Supervisor};
use crate::driver::Hosts;
use crate::local::{JobControl, JobMetrics, JobOptions, environment};
use crate::mailbox::TaskCommand;
use crate::master::Attempt;
use crate::network::{Hello, Listener, Network, NetworkOptions};

/// This process and its workers. Dropping it ends them.
pub struct ProcessHosts {
    supervisor: Sender<Event>,
    host: Sender<HostEvent>,
    threads: Vec<Joined>,
    metrics: JobMetrics,
    network: Arc<Network>,
    _listener: Listener,
}

impl ProcessHosts {
    /// Hosts with no tasks yet; `control` hears of the tasks. Workers are started with the first attempt.
    pub fn start(
        graph: &Arc<ExecutionGraph>,
        registry: &Registry,
        options: &JobOptions,
        control: &JobControl,
        processes: Processes,
    ) -> Result<Self> {
        let (clock, threads) = (Arc::clone(&options.start.clock), Arc::clone(&options.threads));
        let network = Arc::new(Network::start(&*threads, NetworkOptions::default())?);
        let (supervisor, supervisor_events) = unbounded();
        let (host, host_events) = unbounded();
        let hello = Hello { host: HostId(0), token: processes.token.clone() };
        let peers = supervisor.clone();
        let listener = network.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), hello, move |peer| {
            // Whoever connects after the job has ended is not answered.
            let _ = peers.send(Event::Peer(peer));
        })?;
        let env = environment(&graph.job.config, registry.clone(), Arc::clone(&clock), &threads, options.start.seed)?;
        let said = supervisor.clone();
        let parts = HostParts {
            graph: Arc::clone(graph),
            host: HostId(0),
            env,
            threads: Arc::clone(&threads),
            network: Arc::clone(&network),
            ip: listener.address().ip(),
            token: processes.token.clone(),
            limits: processes.limits,
            tell: Arc::new(move |message| {
                // The supervisor ends only when the job is over.
                let _ = said.send(Event::Said(HostId(0), message));
                Ok(())
            }),
        };
        let task_host = TaskHost::new(parts, host.clone())?;
        let metrics = task_host.metrics().clone();
        let brain = Supervisor::new(
            Arc::clone(graph),
            options.start.seed,
            processes,
            (clock, Arc::clone(&threads)),
            listener.address(),
            (supervisor.clone(), host.clone(), control.sender()),
            metrics.clone(),
        )?;
        let mut hosts = Self { supervisor, host, threads: Vec::new(), metrics, network, _listener: listener };
        hosts.threads.push(threads.spawn("flott-workers", Box::new(move || brain.run(&supervisor_events)))?);
        let body = move || {
            // Host 0 has its master in the same process.
            let _ = task_host.run(&host_events);
        };
        hosts.threads.push(threads.spawn("flott-host", Box::new(body))?);
        Ok(hosts)
    }

    /// Counters of the current attempt.
    pub fn metrics(&self) -> &JobMetrics {
        &self.metrics
    }

    /// Ends tasks, workers and threads, and waits for it.
    pub fn stop(self) {
        drop(self);
    }
}

impl Hosts for ProcessHosts {
    /// Begins; tasks that cannot be made say so later, as failed.
    fn deploy(&mut self, attempt: Attempt, restored: BTreeMap<TaskId, TaskRestore>) -> Result<()> {
        // The supervisor ends only when this is dropped.
        let _ = self.supervisor.send(Event::Deploy(attempt, restored));
        Ok(())
    }

    fn command(&mut self, task: TaskId, command: TaskCommand) {
        let _ = self.supervisor.send(Event::Command(task, command));
    }
}

impl Drop for ProcessHosts {
    fn drop(&mut self) {
        let _ = self.supervisor.send(Event::Stop);
        let _ = self.host.send(HostEvent::Order(ToHost::Stop));
        self.threads.drain(..).for_each(|joined| joined());
        self.network.shutdown();
    }
}
