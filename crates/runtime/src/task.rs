//! A task: [`Task::step`] does bounded work and says what it waits for. Threads or the simulator drive it from outside.
//!
//! A step reads mail, sends what got credit, then either goes on with a snapshot, or does a unit of work inside the
//! chain, or takes one element of input. Snapshots: the barrier arrives (by mail at a source, else through the gate),
//! the chain comes to rest, caches are flushed node by node, the state is cut, the barrier is passed on; when rows in
//! flight are known too, the task acknowledges.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use flott_checkpoint::{InFlight, TaskSnapshot};
use flott_core::{
    BarrierMode, CheckpointBarrier, CheckpointId, CheckpointKind, Committable, Error, NextSplit, Result, StreamElement,
    Timestamp, Wait,
};
use flott_plan::{ChannelId, TaskId};

use crate::catching::catching;
use crate::chain::{Item, OperatorChain, Ran};
use crate::codec;
use crate::environment::Environment;
use crate::input_gate::{GateEvent, InputGate};
use crate::mailbox::{Mail, Mailbox, TaskCommand};
use crate::result_partition::ResultPartition;
use crate::snapshot::{PendingTaskSnapshot, snapshot_chain};
use crate::source_input::{SourceInput, SourceInputEvent};

/// Units of work of a step.
const UNITS: usize = 16;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Call again.
    Progress,
    /// Call again when the waker was called, or at this point of processing time.
    Blocked(Option<Timestamp>),
    /// Never call again.
    Finished,
}

/// What a task tells the job's master.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum TaskEvent {
    /// A source wants a split.
    NeedSplit(TaskId),
    /// A snapshot is complete.
    Ack(TaskId, CheckpointId, TaskSnapshot),
    /// A snapshot could not be taken, or a newer checkpoint has overtaken it.
    Declined(TaskId, CheckpointId, Error),
    /// The task has ended: what its sinks have prepared since the last snapshot.
    Finished(TaskId, Vec<(String, Vec<Committable>)>),
    /// The task has failed.
    Failed(TaskId, Error),
    /// The task was cancelled.
    Cancelled(TaskId),
}

/// Hears of task events, on any thread.
pub type TaskEvents = Arc<dyn Fn(TaskEvent) + Send + Sync>;

/// Where a task's rows come from.
pub enum TaskInput {
    /// Channels.
    Gate(InputGate),
    /// A source.
    Source(SourceInput),
    /// None: the task had finished before the job was restored, and only says so again.
    Finished,
}

/// A snapshot on its way through the task.
enum Snapshotting {
    /// No.
    No,
    /// Nodes below this one are flushed.
    Flushing(CheckpointBarrier, usize),
    /// The cut is made. Rows in flight into the task are still to be known (`false`), or the barrier is still to leave.
    Taken(CheckpointId, Box<PendingTaskSnapshot>, bool),
}

/// What the master wants of a source, one after the other.
enum Order {
    Trigger(CheckpointBarrier),
    Split(NextSplit),
}

/// One parallel instance of a vertex.
pub struct Task {
    id: TaskId,
    env: Environment,
    mailbox: Arc<Mailbox>,
    waker: Waker,
    events: TaskEvents,
    input: TaskInput,
    chain: OperatorChain,
    snapshotting: Snapshotting,
    /// Checkpoints to begin and splits to take over, in the order in which the master decided them: a split dealt out
    /// after a checkpoint's cut of the enumerator is not yet the reader's at its cut.
    orders: VecDeque<Order>,
    /// A source that stops after a savepoint reads no further.
    stopping: Option<CheckpointId>,
    ended: bool,
    over: bool,
    /// Processing-time timers due by then have fired, or wait for something that wakes the task.
    looked: Timestamp,
}

impl Task {
    /// A task at rest; `waker` makes its driver call `step`.
    pub fn new(
        id: TaskId,
        env: Environment,
        mailbox: Arc<Mailbox>,
        waker: Waker,
        events: TaskEvents,
        input: TaskInput,
        chain: OperatorChain,
    ) -> Self {
        mailbox.set_waker(waker.clone());
        if let TaskInput::Gate(gate) = &input {
            gate.channels().for_each(|queue| queue.set_receiver(waker.clone()));
        }
        chain.partitions.iter().for_each(|partition| partition.set_waker(&waker));
        Self {
            id,
            env,
            mailbox,
            waker,
            events,
            input,
            chain,
            snapshotting: Snapshotting::No,
            orders: VecDeque::new(),
            stopping: None,
            ended: false,
            over: false,
            looked: Timestamp::MIN,
        }
    }

    /// Which task this is.
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// The chain, to look at.
    pub fn chain(&self) -> &OperatorChain {
        &self.chain
    }

    /// Who the task is and what it may be waiting for, for people.
    pub fn describe(&self) -> String {
        let inboxes: Vec<_> = self.chain.nodes.iter().map(|node| (node.inbox.len(), node.ledger.requests())).collect();
        let ended = if self.ended { "ended" } else { "not ended" };
        let backlog: Vec<_> = self.chain.partitions.iter().map(ResultPartition::backlog).collect();
        let snapshotting = matches!(self.snapshotting, Snapshotting::Flushing(..));
        let (name, index) = (self.chain.name(), self.id.index);
        format!(
            "{name}/{index} ({ended}, flushing {snapshotting}, inboxes and requests {inboxes:?}, backlog and credit {backlog:?})"
        )
    }

    /// Bounded work. An error has been reported when this returns `Finished`.
    pub fn step(&mut self) -> Step {
        if self.over {
            return Step::Finished;
        }
        match catching(|| self.try_step()) {
            Ok(step) => step,
            Err(error) => {
                self.fail(error);
                Step::Finished
            }
        }
    }

    /// Ends the task with an error found outside it.
    pub fn fail(&mut self, error: Error) {
        self.over = true;
        self.chain.abandon();
        (self.events)(TaskEvent::Failed(
            self.id,
            error.at("task", format_args!("{}/{}", self.chain.name(), self.id.index)),
        ));
    }

    fn try_step(&mut self) -> Result<Step> {
        self.read_mail()?;
        if self.over {
            return Ok(Step::Finished);
        }
        let mut flowing = self.drain();
        self.acknowledge_complete();
        for _ in 0..UNITS {
            if let Some(step) = self.unit(flowing)? {
                return Ok(step);
            }
            self.start_requests();
            flowing = self.drain();
        }
        Ok(Step::Progress)
    }

    /// Sends what got credit, on every edge. Whether nothing waits any more.
    fn drain(&mut self) -> bool {
        let waiting = self.chain.partitions.iter_mut().filter_map(|partition| (!partition.drain()).then_some(()));
        waiting.count() == 0
    }

    /// One unit of work; `Some` ends the step.
    fn unit(&mut self, flowing: bool) -> Result<Option<Step>> {
        let now = self.env.clock.now();
        self.looked = now;
        if let Snapshotting::Flushing(barrier, next) = self.snapshotting {
            if !flowing && barrier.mode != BarrierMode::Unaligned {
                return self.wait(None);
            }
            return self.go_on_flushing(barrier, next);
        }
        if !flowing {
            // Rows cannot move, but a barrier that overtakes them can.
            if matches!(self.orders.front(), Some(Order::Trigger(b)) if b.mode == BarrierMode::Unaligned)
                && self.begin_at_source()?
            {
                return Ok(None);
            }
            if self.pass_barrier()? {
                return Ok(None);
            }
            return self.wait(None);
        }
        self.chain.wake_timers(now);
        match self.chain.run_one(&self.waker, &*self.env.clock)? {
            Ran::Work => return Ok(None),
            Ran::Waiting(wait) => {
                if self.pass_barrier()? {
                    return Ok(None);
                }
                if self.begin_at_source()? {
                    return Ok(None);
                }
                return self.wait(match wait {
                    Wait::Waker => None,
                    Wait::Until(at) => Some(at),
                });
            }
            Ran::Nothing => {}
        }
        if self.ended {
            if self.chain.is_finished() {
                if let Some(barrier) = self.next_trigger()? {
                    self.flush_for(barrier);
                    return Ok(None);
                }
                return self.finish().map(Some);
            }
            return self.wait(None);
        }
        if self.chain.is_clogged() {
            // Only answers can help; a snapshot need not wait for them.
            if self.pass_barrier()? {
                return Ok(None);
            }
            return if self.begin_at_source()? { Ok(None) } else { self.wait(None) };
        }
        self.take_input()
    }

    /// Lets a barrier pass this task's gate although the task can take no rows; whether there was one.
    fn pass_barrier(&mut self) -> Result<bool> {
        let TaskInput::Gate(gate) = &mut self.input else { return Ok(false) };
        if let Some(Order::Trigger(barrier)) = self.orders.front()
            && barrier.mode == BarrierMode::Unaligned
            && gate.cut_at_end(*barrier)
        {
            self.orders.pop_front();
        }
        let Some(event) = gate.poll_barrier() else { return Ok(false) };
        self.on_gate(event)?;
        Ok(true)
    }

    /// Begins the checkpoint that a source was told of, if there is one.
    fn begin_at_source(&mut self) -> Result<bool> {
        if matches!(self.input, TaskInput::Source(_))
            && let Some(barrier) = self.next_trigger()?
        {
            self.flush_for(barrier);
            return Ok(true);
        }
        Ok(false)
    }

    /// Follows orders up to the next checkpoint to begin.
    fn next_trigger(&mut self) -> Result<Option<CheckpointBarrier>> {
        while let Some(order) = self.orders.pop_front() {
            match (order, &mut self.input) {
                (Order::Trigger(barrier), _) => return Ok(Some(barrier)),
                (Order::Split(split), TaskInput::Source(source)) => source.on_split(split)?,
                (Order::Split(_), _) => {}
            }
        }
        Ok(None)
    }

    fn take_input(&mut self) -> Result<Option<Step>> {
        if self.begin_at_source()? {
            return Ok(None);
        }
        match &mut self.input {
            TaskInput::Gate(gate) => {
                let event = gate.poll();
                if matches!(event, GateEvent::Pending) {
                    return self.wait(None);
                }
                self.on_gate(event)?;
            }
            TaskInput::Source(source) => {
                if self.stopping.is_some() {
                    return self.wait(None);
                }
                match source.poll(&self.waker, &*self.env.clock)? {
                    SourceInputEvent::Rows(pieces) => {
                        for (batch, watermark) in pieces {
                            self.chain.push(Item::Batch(flott_core::InputId(0), batch));
                            if let Some(at) = watermark {
                                self.chain.push(Item::Watermark(at));
                            }
                        }
                    }
                    SourceInputEvent::Watermark(at) => self.chain.push(Item::Watermark(at)),
                    SourceInputEvent::Idle(idle) => self.chain.push(Item::Idle(idle)),
                    SourceInputEvent::NeedSplit => (self.events)(TaskEvent::NeedSplit(self.id)),
                    SourceInputEvent::Wait(Wait::Waker) => return self.wait(None),
                    SourceInputEvent::Wait(Wait::Until(at)) => return self.wait(Some(at)),
                    SourceInputEvent::Ended => self.end(),
                }
            }
            TaskInput::Finished => {
                for partition in &mut self.chain.partitions {
                    partition.broadcast(&StreamElement::EndOfInput)?;
                }
                self.over = true;
                (self.events)(TaskEvent::Finished(self.id, Vec::new()));
                return Ok(Some(Step::Finished));
            }
        }
        Ok(None)
    }

    fn end(&mut self) {
        self.ended = true;
        self.chain.push(Item::Watermark(Timestamp::MAX));
        self.chain.push(Item::End);
    }

    fn on_gate(&mut self, event: GateEvent) -> Result<()> {
        match event {
            GateEvent::Batch(input, batch) => self.chain.push(Item::Batch(input, batch)),
            GateEvent::Watermark(at) => self.chain.push(Item::Watermark(at)),
            GateEvent::Idle(idle) => self.chain.push(Item::Idle(idle)),
            GateEvent::Barrier(barrier) => self.flush_for(barrier),
            GateEvent::InFlight(id, recorded) => self.acknowledge(id, &recorded)?,
            GateEvent::Superseded(id) => {
                self.acknowledge_now();
                let why = Error::external("a newer checkpoint has begun before this one was complete");
                (self.events)(TaskEvent::Declined(self.id, id, why));
            }
            GateEvent::Ended => self.end(),
            GateEvent::Pending => {}
        }
        Ok(())
    }

    fn flush_for(&mut self, barrier: CheckpointBarrier) {
        self.acknowledge_now();
        self.snapshotting = Snapshotting::Flushing(barrier, 0);
    }

    /// Brings the chain to rest, flushing one node after the other, then makes the cut.
    fn go_on_flushing(&mut self, barrier: CheckpointBarrier, next: usize) -> Result<Option<Step>> {
        // Rows that have to be taken first wait for answers, which may wait for a timer (one that gives up, or that
        // sends what was collected).
        if self.chain.holds_bound_rows() {
            self.chain.wake_timers(self.looked);
        }
        if self.chain.run_to_rest(&self.waker, &*self.env.clock)? == Ran::Work {
            return Ok(None);
        }
        if self.chain.holds_bound_rows() {
            return self.wait(None);
        }
        if next < self.chain.nodes.len() {
            self.chain.flush_node(next, self.env.clock.now())?;
            self.snapshotting = Snapshotting::Flushing(barrier, next + 1);
            return Ok(None);
        }
        self.snapshotting = Snapshotting::No;
        let clock = match &self.input {
            TaskInput::Gate(gate) => gate.clock(),
            TaskInput::Source(source) => source.clock(),
            TaskInput::Finished => Timestamp::MAX,
        };
        let splits = match &mut self.input {
            TaskInput::Source(source) => Some(source.snapshot()?),
            TaskInput::Gate(_) | TaskInput::Finished => None,
        };
        let mut pending = snapshot_chain(&mut self.chain, clock, splits)?;
        for partition in &mut self.chain.partitions {
            for (channel, elements) in partition.barrier(barrier)? {
                pending.in_flight.push(in_flight(channel, &elements)?);
            }
        }
        self.snapshotting = Snapshotting::Taken(barrier.id, Box::new(pending), false);
        if let (TaskInput::Source(_), CheckpointKind::Stop) = (&self.input, barrier.kind) {
            self.stopping = Some(barrier.id);
        }
        // No channel brings this task anything that belongs before the cut.
        if self.ended || matches!(self.input, TaskInput::Source(_)) {
            self.acknowledge(barrier.id, &[])?;
        }
        Ok(None)
    }

    /// All rows in flight into the task that belong to the snapshot are known.
    fn acknowledge(&mut self, id: CheckpointId, recorded: &[(ChannelId, Vec<StreamElement>)]) -> Result<()> {
        if let Snapshotting::Taken(taken, pending, known) = &mut self.snapshotting
            && *taken == id
        {
            // What the receiver holds is older than what a sender could not send.
            let received = recorded.iter().map(|(channel, elements)| in_flight(*channel, elements));
            let mut all = received.collect::<Result<Vec<_>>>()?;
            all.append(&mut pending.in_flight);
            pending.in_flight = all;
            *known = true;
        }
        self.acknowledge_complete();
        Ok(())
    }

    /// Tells the master of a snapshot to which nothing can be added any more: the barrier has left the task too, so
    /// that one that is told to overtake finds what it overtakes.
    fn acknowledge_complete(&mut self) {
        if let Snapshotting::Taken(id, _, true) = self.snapshotting
            && !self.chain.partitions.iter().any(|partition| partition.holds_barrier(id))
        {
            self.acknowledge_now();
        }
    }

    /// Tells the master of a snapshot that was cut, even of a checkpoint that was given up: what its sinks have prepared
    /// is carried to the next one. The rest of the work is done aside.
    fn acknowledge_now(&mut self) {
        match std::mem::replace(&mut self.snapshotting, Snapshotting::No) {
            Snapshotting::Taken(id, pending, _) => {
                let (task, events, mailbox) = (self.id, Arc::clone(&self.events), Arc::clone(&self.mailbox));
                (self.env.offload)(Box::new(move || match pending.complete() {
                    Ok(snapshot) => events(TaskEvent::Ack(task, id, snapshot)),
                    Err(error) => mailbox.post(Mail::Broken(error)),
                }));
            }
            other => self.snapshotting = other,
        }
    }

    /// Barriers of this checkpoint overtake from here on.
    fn overtake(&mut self, id: CheckpointId) -> Result<()> {
        if let TaskInput::Gate(gate) = &mut self.input {
            gate.overtake(id);
        }
        match &mut self.snapshotting {
            Snapshotting::Flushing(barrier, _) if barrier.id == id => barrier.mode = BarrierMode::Unaligned,
            Snapshotting::Taken(taken, pending, _) if *taken == id => {
                for partition in &mut self.chain.partitions {
                    for (channel, elements) in partition.overtake(id) {
                        pending.in_flight.push(in_flight(channel, &elements)?);
                    }
                }
            }
            _ => {}
        }
        for order in &mut self.orders {
            if let Order::Trigger(barrier) = order
                && barrier.id == id
            {
                barrier.mode = BarrierMode::Unaligned;
            }
        }
        Ok(())
    }

    /// Nothing can be done now: what is collected is sent, so that a low rate does not mean a long wait.
    fn wait(&mut self, until: Option<Timestamp>) -> Result<Option<Step>> {
        for partition in &mut self.chain.partitions {
            partition.flush()?;
        }
        let timer = self.chain.next_timer().filter(|&at| at > self.looked);
        Ok(Some(Step::Blocked([until, timer].into_iter().flatten().min())))
    }

    fn finish(&mut self) -> Result<Step> {
        // What was prepared for a snapshot must not be forgotten with it.
        self.acknowledge_now();
        let committables = self.chain.prepare_commit()?;
        self.over = true;
        (self.events)(TaskEvent::Finished(self.id, committables));
        Ok(Step::Finished)
    }

    fn read_mail(&mut self) -> Result<()> {
        while let Some(mail) = self.mailbox.take() {
            match mail {
                Mail::Broken(error) => return Err(error),
                Mail::Response(node, number, answer) => self.chain.answer(node, number, answer),
                Mail::Command(TaskCommand::Trigger(barrier)) => self.orders.push_back(Order::Trigger(barrier)),
                Mail::Command(TaskCommand::Complete(id)) => {
                    if let TaskInput::Source(source) = &mut self.input {
                        source.complete(id)?;
                    }
                }
                Mail::Command(TaskCommand::Aborted(id)) => self.abort(id),
                Mail::Command(TaskCommand::Overtake(id)) => self.overtake(id)?,
                Mail::Command(TaskCommand::Split(split)) => self.orders.push_back(Order::Split(split)),
                Mail::Command(TaskCommand::Cancel) => {
                    self.over = true;
                    self.chain.abandon();
                    (self.events)(TaskEvent::Cancelled(self.id));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn abort(&mut self, id: CheckpointId) {
        self.orders.retain(|order| !matches!(order, Order::Trigger(barrier) if barrier.id <= id));
        if self.stopping.is_some_and(|stopping| stopping <= id) {
            self.stopping = None;
        }
        if let TaskInput::Gate(gate) = &mut self.input {
            gate.abort(id);
        }
        let current = match &self.snapshotting {
            Snapshotting::No => return,
            Snapshotting::Flushing(barrier, _) => barrier.id,
            Snapshotting::Taken(taken, ..) => *taken,
        };
        // A cut in the middle of flushing is finished: the barrier has to reach the tasks behind this one.
        if current <= id {
            self.acknowledge_now();
        }
    }

    fn start_requests(&mut self) {
        for (node, number, future) in self.chain.started.drain(..) {
            let mailbox = Arc::clone(&self.mailbox);
            let done = Box::new(move |answer| mailbox.post(Mail::Response(node, number, answer)));
            self.env.requests.start(future, done);
        }
    }
}

fn in_flight(channel: ChannelId, elements: &[StreamElement]) -> Result<InFlight> {
    Ok(InFlight { channel, elements: codec::encode_all(elements)? })
}
