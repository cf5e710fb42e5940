//! The main of a worker process: [`run_worker`].

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use flott_core::{Clock, Error, Registry, Result, Threads};
use flott_plan::ExecutionGraph;

use super::host::{HostEvent, HostParts, TaskHost, Tell};
use super::protocol::{FromHost, ToHost};
use super::seat::Seat;
use crate::local::environment;
use crate::network::{Connection, Hello, Network, NetworkOptions};
use crate::task::TaskEvent;

/// Runs a worker until its master tells it to stop; an error, also that the master is gone, is for standard error:
/// the master reads it there. `registry` is that of the master: the same program, the same names.
///
/// The process must end after this, whatever threads are left: one may be stuck in a task's code.
pub fn run_worker(seat: &Seat, registry: Registry, clock: Arc<dyn Clock>, threads: Arc<dyn Threads>) -> Result<()> {
    let network = Arc::new(Network::start(&*threads, NetworkOptions::default())?);
    let connection = network.connect(seat.address, Hello { host: seat.host, token: seat.token.clone() })?;
    let (inbox, events) = unbounded();
    listen_to_master(&connection, &inbox)?;
    let Some((graph, seed, limits)) = first_order(&events)? else { return Ok(()) };
    let env = environment(&graph.job.config, registry, clock, &threads, seed)?;
    let tell: Tell = {
        let connection = connection.clone();
        Arc::new(move |message| tell_master(&connection, &message))
    };
    let (token, ip) = (seat.token.clone(), seat.address.ip());
    let parts =
        HostParts { graph, host: seat.host, env, threads, network: Arc::clone(&network), ip, token, limits, tell };
    let result = TaskHost::new(parts, inbox)?.run(&events);
    network.shutdown();
    result
}

fn listen_to_master(connection: &Connection, inbox: &Sender<HostEvent>) -> Result<()> {
    let (orders, ended) = (inbox.clone(), inbox.clone());
    let on_control = move |bytes: Vec<u8>| {
        let event = ToHost::decode(&bytes).map_or_else(HostEvent::MasterGone, HostEvent::Order);
        let _ = orders.send(event);
    };
    let on_end = move |result: Result<()>| {
        let error = result.err().unwrap_or_else(|| Error::external("the master has closed the connection"));
        let _ = ended.send(HostEvent::MasterGone(error));
    };
    connection.start(on_control, on_end)
}

type Job = (Arc<ExecutionGraph>, u64, super::ProcessLimits);

/// The job, which comes first; `None` if there is none for this worker any more.
fn first_order(events: &Receiver<HostEvent>) -> Result<Option<Job>> {
    match events.recv() {
        Ok(HostEvent::Order(ToHost::Job { graph, seed, limits })) => {
            Ok(Some((Arc::new(ExecutionGraph::decode(&graph)?), seed, limits)))
        }
        Ok(HostEvent::Order(ToHost::Stop)) => Ok(None),
        Ok(HostEvent::MasterGone(error)) => Err(error),
        _ => Err(Error::internal("a worker was ordered about before it was told its job")),
    }
}

/// Sends to the master. What is too large for a message is the fault of the checkpoint or task it belongs to; where
/// nothing can be sent the connection ends, and with it the worker.
fn tell_master(connection: &Connection, message: &FromHost) {
    let send = |message: &FromHost| message.encode().and_then(|bytes| connection.send_control(bytes));
    let Err(error) = send(message) else { return };
    let instead = match message {
        FromHost::Task(attempt, TaskEvent::Ack(task, id, _)) => {
            FromHost::Task(*attempt, TaskEvent::Declined(*task, *id, error.clone()))
        }
        FromHost::Task(attempt, TaskEvent::Finished(task, _)) => {
            FromHost::Task(*attempt, TaskEvent::Failed(*task, error.clone()))
        }
        _ => return connection.fail(error),
    };
    if send(&instead).is_err() {
        connection.fail(error);
    }
}
