//! The main of a worker process: [`run_worker`].

use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use flott_core::{Clock, Error, Registry, Result, Threads};
use flott_plan::ExecutionGraph;

use super::host::{HostEvent, HostParts, TaskHost, Tell, receive, silent_master};
use super::protocol::{FromHost, ToHost, at_task};
use super::seat::Seat;
use super::{Messages, ProcessLimits};
use crate::local::environment;
use crate::network::{Hello, Network, NetworkOptions};
use crate::task::TaskEvent;

/// Runs a worker until its master tells it to stop; an error, also that the master is gone, is for standard error:
/// the master reads it there. `registry` is that of the master: the same program, the same names.
///
/// The process must end after this, whatever threads are left: one may be stuck in a task's code.
pub fn run_worker(seat: &Seat, registry: Registry, clock: Arc<dyn Clock>, threads: Arc<dyn Threads>) -> Result<()> {
    let network = Arc::new(Network::start(&*threads, NetworkOptions::default())?);
    let connection = network.connect(seat.address, Hello { host: seat.host, token: seat.token.clone() })?;
    let messages = Messages::new(connection, ProcessLimits::default().message_bytes);
    let (inbox, events) = unbounded();
    listen_to_master(&messages, &inbox)?;
    let Some((graph, seed, limits)) = first_order(&events, &*clock)? else { return Ok(()) };
    messages.set_limit(limits.message_bytes);
    let env = environment(&graph.job.config, registry, clock, &threads, seed)?;
    let tell: Tell = {
        let graph = Arc::clone(&graph);
        Arc::new(move |message| tell_master(&graph, &messages, &message))
    };
    let (token, ip) = (seat.token.clone(), seat.address.ip());
    let parts =
        HostParts { graph, host: seat.host, env, threads, network: Arc::clone(&network), ip, token, limits, tell };
    let result = TaskHost::new(parts, inbox)?.run(&events);
    network.shutdown();
    result
}

/// Puts into `inbox` what the master says. A question for a sign of life is answered here: the loop may be making tasks,
/// which takes as long as what they are restored from is large.
fn listen_to_master(messages: &Arc<Messages>, inbox: &Sender<HostEvent>) -> Result<()> {
    let (orders, ended) = (inbox.clone(), inbox.clone());
    let answers = Arc::clone(messages);
    let on_message = move |bytes: Vec<u8>| {
        let event = ToHost::decode(&bytes).map_or_else(HostEvent::MasterGone, HostEvent::Order);
        if let HostEvent::Order(ToHost::AreYouThere) = event {
            // An answer that cannot be sent is not missed: what waits is a sign of life, too.
            let _ = FromHost::Alive.encode().and_then(|bytes| answers.send(bytes));
        }
        let _ = orders.send(event);
    };
    let on_end = move |result: Result<()>| {
        let error = result.err().unwrap_or_else(|| Error::external("the master has closed the connection"));
        let _ = ended.send(HostEvent::MasterGone(error));
    };
    messages.start(on_message, on_end)
}

type Job = (Arc<ExecutionGraph>, u64, ProcessLimits);

/// The job, which comes first; `None` if there is none for this worker any more. It says for how long its master may be
/// silent; until then it is the default.
fn first_order(events: &Receiver<HostEvent>, clock: &dyn Clock) -> Result<Option<Job>> {
    let limit = ProcessLimits::default().heartbeat_timeout_ms;
    let due = clock.now().saturating_add(i64::try_from(limit).unwrap_or(i64::MAX));
    match receive(events, clock, Some(due)) {
        Ok(HostEvent::Order(ToHost::Job { graph, seed, limits })) => {
            Ok(Some((Arc::new(ExecutionGraph::decode(&graph)?), seed, limits)))
        }
        Ok(HostEvent::Order(ToHost::Stop)) => Ok(None),
        Ok(HostEvent::MasterGone(error)) => Err(error),
        Err(RecvTimeoutError::Timeout) => Err(silent_master(limit)),
        _ => Err(Error::internal("a worker was ordered about before it was told its job")),
    }
}

/// Sends to the master. A snapshot that is too long is an error: what its sinks have prepared must not be lost with it.
/// A task whose last words are too long has failed; where nothing at all can be sent the connection ends, and with it
/// the worker.
fn tell_master(graph: &ExecutionGraph, messages: &Messages, message: &FromHost) -> Result<()> {
    let send = |message: &FromHost| message.encode().and_then(|bytes| messages.send(bytes));
    let Err(error) = send(message) else { return Ok(()) };
    match message {
        FromHost::Task(_, TaskEvent::Ack(task, id, _)) => {
            return Err(at_task(error, graph, *task).at("checkpoint", id));
        }
        FromHost::Task(attempt, TaskEvent::Finished(task, _)) => {
            let failed = TaskEvent::Failed(*task, at_task(error.clone(), graph, *task));
            if send(&FromHost::Task(*attempt, failed)).is_err() {
                messages.fail(error);
            }
        }
        _ => messages.fail(error),
    }
    Ok(())
}
