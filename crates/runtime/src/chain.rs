//! The operators of one task: [`OperatorChain`] passes batches and watermarks from node to node.
//!
//! Work is done in units, the most downstream node first, so what waits inside a chain stays small. A node that
//! answered `Again` goes on before it takes anything new; a watermark is forwarded after the last row it caused.

use std::collections::VecDeque;
use std::task::Waker;

use flott_core::state::timers::{TimeDomain, Timer};
use flott_core::{
    Batch, Clock, Committable, Context, Emitted, Error, InputId, Member, Operator, Outbox, OutputId, Progress,
    RequestFuture, Result, SinkWriter, Timestamp, Wait,
};

use crate::catching::regardless;
use crate::requests::{Due, Ledger};
use crate::result_partition::ResultPartition;
use crate::watermarks::WatermarkGenerator;

/// Timers handed to an operator at once.
const TIMER_CHUNK: usize = 1024;

/// What waits in front of a node.
#[derive(Clone, Debug)]
pub enum Item {
    /// Rows of an input.
    Batch(InputId, Batch),
    /// A request from before a restore: member and payload.
    Reissue(usize, Batch),
    /// The clock has risen.
    Watermark(Timestamp),
    /// The stream has gone quiet or is back.
    Idle(bool),
    /// Nothing follows.
    End,
}

/// What a node of a chain does.
pub enum NodeKind {
    /// The rows of a source pass through.
    Source,
    /// An operator, or several fused.
    Operator(Box<dyn Operator>),
    /// Event time in the middle of a job.
    Watermarks(WatermarkGenerator),
    /// A sink.
    Sink(Box<dyn SinkWriter>),
}

/// Where an output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A later node of the chain.
    Node(usize, InputId),
    /// A result partition of the task.
    Partition(usize),
}

/// A node of a chain.
pub struct ChainNode {
    /// What it does.
    pub kind: NodeKind,
    /// Who it is; several where operators are fused.
    pub members: Vec<Member>,
    /// Readers of (member, output).
    pub outputs: Vec<(usize, OutputId, Target)>,
    /// What waits in front of it.
    pub inbox: VecDeque<Item>,
    /// Its event-time clock.
    pub clock: Timestamp,
    /// Requests in flight.
    pub ledger: Ledger,
    /// `finish` was called, perhaps before a restore: it is called once.
    pub finished: bool,
    again: bool,
    /// A watermark whose timers are firing.
    firing: Option<Timestamp>,
    /// Processing-time timers are firing.
    firing_processing: bool,
    /// The end was taken; whether it was passed on.
    ending: bool,
    ended: bool,
}

impl ChainNode {
    /// A node that has seen nothing.
    pub fn new(
        kind: NodeKind,
        members: Vec<Member>,
        outputs: Vec<(usize, OutputId, Target)>,
        clock: Timestamp,
    ) -> Self {
        Self {
            kind,
            members,
            outputs,
            inbox: VecDeque::new(),
            clock,
            ledger: Ledger::default(),
            finished: false,
            again: false,
            firing: None,
            firing_processing: false,
            ending: false,
            ended: false,
        }
    }

    fn name(&self) -> String {
        self.members.iter().map(|m| m.info.name.as_str()).collect::<Vec<_>>().join(" → ")
    }

    fn in_call(&self) -> bool {
        // A node at its end that waits for answers is in none: a timer may be what they wait for.
        let ending = self.ending && !self.ended && self.ledger.is_empty();
        self.again || self.firing.is_some() || self.firing_processing || ending
    }
}

/// What a unit of work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// Something was done.
    Work,
    /// There is nothing to do without new input or answers.
    Nothing,
    /// A sink cannot take more now.
    Waiting(Wait),
}

/// What to wait for where two sinks wait: wakers are registered, so a time is all that can be missed.
fn sooner(one: Option<Wait>, other: Wait) -> Wait {
    match (one, other) {
        (Some(Wait::Until(one)), Wait::Until(other)) => Wait::Until(one.min(other)),
        (Some(Wait::Until(at)), Wait::Waker) => Wait::Until(at),
        (_, other) => other,
    }
}

/// A request that was begun: (node, number, work).
pub type Started = (usize, u64, RequestFuture);

/// The operators of one task.
pub struct OperatorChain {
    /// Inputs come first.
    pub nodes: Vec<ChainNode>,
    /// The task's edges.
    pub partitions: Vec<ResultPartition>,
    /// Requests begun since the runtime last looked.
    pub started: Vec<Started>,
    /// Requests a node may have in flight.
    pub request_capacity: usize,
    /// Rows came to this task and must not be given to another: a snapshot waits until its operators have taken them.
    pub bound: bool,
    outbox: Outbox,
    timers: Vec<Timer>,
    /// Nodes whose rows would only pile up in front of a sink that waits; valid within a call.
    behind: Vec<bool>,
}

impl OperatorChain {
    /// A chain of these nodes, the first of which takes the task's input.
    pub fn new(nodes: Vec<ChainNode>, partitions: Vec<ResultPartition>, request_capacity: usize) -> Self {
        let (outbox, timers) = (Outbox::default(), Vec::new());
        let behind = vec![false; nodes.len()];
        Self { nodes, partitions, started: Vec::new(), request_capacity, bound: false, outbox, timers, behind }
    }

    /// Calls `open` of every operator.
    pub fn open(&mut self, now: Timestamp) -> Result<()> {
        for index in 0..self.nodes.len() {
            self.call(index, 0, now, |operator, ctx| operator.open(ctx).map(|()| Progress::Done))?;
        }
        Ok(())
    }

    /// Gives the chain's first node something to do.
    pub fn push(&mut self, item: Item) {
        self.nodes[0].inbox.push_back(item);
    }

    /// Whether every node has passed on the end.
    pub fn is_finished(&self) -> bool {
        self.nodes.iter().all(|node| node.ended)
    }

    /// Whether new input would have to wait for something inside.
    pub fn is_clogged(&self) -> bool {
        self.nodes.iter().any(|node| !node.inbox.is_empty())
    }

    /// Whether rows wait for answers that a snapshot has to wait for too.
    pub fn holds_bound_rows(&self) -> bool {
        let holds = |node: &ChainNode| {
            matches!(node.kind, NodeKind::Operator(_)) && node.inbox.iter().any(|item| matches!(item, Item::Batch(..)))
        };
        self.bound && self.nodes.iter().any(holds)
    }

    /// Whether a call of any operator, sink or state may block.
    pub fn blocks(&self) -> bool {
        let blocks = |node: &ChainNode| match &node.kind {
            NodeKind::Operator(operator) => operator.blocks(),
            NodeKind::Sink(writer) => writer.blocks(),
            NodeKind::Source | NodeKind::Watermarks(_) => false,
        };
        self.nodes.iter().any(blocks)
            || self.members().any(|member| member.state.as_ref().is_some_and(|state| state.blocks()))
    }

    fn is_runnable(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        if node.again || node.firing.is_some() || node.firing_processing || node.ledger.is_due() {
            return true;
        }
        if node.ending && !node.ended {
            return node.ledger.is_empty();
        }
        match node.inbox.front() {
            None => false,
            Some(Item::Batch(..) | Item::Reissue(..)) => node.ledger.requests() < self.request_capacity,
            Some(_) => true,
        }
    }

    /// Does a unit of work, if there is any. Nothing is done that would pile up in front of a sink that waits.
    pub fn run_one(&mut self, waker: &Waker, clock: &dyn Clock) -> Result<Ran> {
        self.run(waker, clock, false)
    }

    /// Does a unit of work, also in front of a sink that waits: before a snapshot every call has to come to its end.
    pub fn run_to_rest(&mut self, waker: &Waker, clock: &dyn Clock) -> Result<Ran> {
        self.run(waker, clock, true)
    }

    fn run(&mut self, waker: &Waker, clock: &dyn Clock, to_rest: bool) -> Result<Ran> {
        let mut waiting = None;
        for index in (0..self.nodes.len()).rev() {
            if waiting.is_some() && !to_rest {
                let behind =
                    |(_, _, to): &(usize, OutputId, Target)| matches!(to, Target::Node(to, _) if self.behind[*to]);
                self.behind[index] = self.nodes[index].outputs.iter().any(behind);
                if self.behind[index] {
                    continue;
                }
            }
            if !self.is_runnable(index) {
                continue;
            }
            let node = &mut self.nodes[index];
            if let NodeKind::Sink(writer) = &mut node.kind
                && matches!(node.inbox.front(), Some(Item::Batch(..)))
                && let Some(wait) = writer.ready(waker, clock)?
            {
                if waiting.is_none() {
                    self.behind.fill(false);
                }
                self.behind[index] = true;
                waiting = Some(sooner(waiting, wait));
                continue;
            }
            self.run_node(index, clock.now()).map_err(|e| match e.place("operator") {
                Some(_) => e,
                None => e.at("operator", self.nodes[index].name()),
            })?;
            return Ok(Ran::Work);
        }
        Ok(waiting.map_or(Ran::Nothing, Ran::Waiting))
    }

    fn run_node(&mut self, index: usize, now: Timestamp) -> Result<()> {
        let node = &mut self.nodes[index];
        if node.again {
            return self.call(index, 0, now, |operator, ctx| operator.resume(ctx));
        }
        if let Some(at) = node.firing {
            return self.fire(index, TimeDomain::EventTime, at, now);
        }
        if node.firing_processing {
            return self.fire(index, TimeDomain::ProcessingTime, now, now);
        }
        if let Some(due) = node.ledger.take() {
            return match due {
                Due::Response(member, response) => {
                    self.call(index, member, now, |operator, ctx| operator.on_response(response, ctx))
                }
                Due::Watermark(at) => self.forward(index, &Item::Watermark(at)),
                Due::Idle(idle) => self.forward(index, &Item::Idle(idle)),
            };
        }
        if node.ending {
            // Every answer has come; `finish` may ask once more.
            if !std::mem::replace(&mut node.finished, true) {
                return self.call(index, 0, now, |operator, ctx| operator.finish(ctx));
            }
            node.ended = true;
            return self.forward(index, &Item::End);
        }
        let Some(item) = node.inbox.pop_front() else { return Ok(()) };
        match &mut node.kind {
            NodeKind::Source => self.pass(index, item),
            NodeKind::Operator(_) => self.operate(index, item, now),
            NodeKind::Watermarks(_) => self.find_watermarks(index, item),
            NodeKind::Sink(_) => self.write(index, item),
        }
    }

    fn pass(&mut self, index: usize, item: Item) -> Result<()> {
        match item {
            Item::Batch(_, batch) => {
                let batch = Emitted { member: 0, output: OutputId::MAIN, batch };
                self.route(index, batch)
            }
            Item::Watermark(at) => {
                self.nodes[index].clock = at;
                self.forward(index, &Item::Watermark(at))
            }
            Item::End => {
                self.nodes[index].ending = true;
                Ok(())
            }
            Item::Reissue(..) => Err(Error::internal("a request without an operator")),
            Item::Idle(_) => self.forward(index, &item),
        }
    }

    fn operate(&mut self, index: usize, item: Item, now: Timestamp) -> Result<()> {
        match item {
            Item::Batch(input, batch) => {
                self.nodes[index].members[0].metrics.counter("numRecordsIn").add(batch.num_rows() as u64);
                self.call(index, 0, now, |operator, ctx| operator.process(input, batch, ctx))
            }
            Item::Reissue(member, batch) => self.call(index, member, now, |operator, ctx| operator.reissue(batch, ctx)),
            Item::Watermark(at) => {
                let node = &mut self.nodes[index];
                node.clock = at;
                node.firing = Some(at);
                self.call(index, 0, now, |operator, ctx| operator.on_watermark(at, ctx))
            }
            Item::Idle(idle) if self.nodes[index].ledger.is_empty() => self.forward(index, &Item::Idle(idle)),
            Item::Idle(idle) => {
                self.nodes[index].ledger.hold_idle(idle);
                Ok(())
            }
            Item::End => {
                self.nodes[index].ending = true;
                Ok(())
            }
        }
    }

    fn find_watermarks(&mut self, index: usize, item: Item) -> Result<()> {
        let mut found = VecDeque::new();
        let NodeKind::Watermarks(generator) = &mut self.nodes[index].kind else { return Ok(()) };
        match item {
            Item::Batch(_, batch) => {
                generator.process(&batch, |piece, watermark| found.push_back((piece, watermark)))?;
            }
            // Its own watermarks replace those before it; only the end is everybody's.
            Item::Watermark(Timestamp::MAX) | Item::Idle(_) => return self.forward(index, &item),
            Item::Watermark(_) => {}
            Item::End => self.nodes[index].ending = true,
            Item::Reissue(..) => return Err(Error::internal("a request without an operator")),
        }
        for (batch, watermark) in found {
            self.route(index, Emitted { member: 0, output: OutputId::MAIN, batch })?;
            // Restored at another parallelism, a generator begins anew, but what was promised holds.
            if let Some(at) = watermark.filter(|&at| at > self.nodes[index].clock) {
                self.nodes[index].clock = at;
                self.forward(index, &Item::Watermark(at))?;
            }
        }
        Ok(())
    }

    fn write(&mut self, index: usize, item: Item) -> Result<()> {
        let node = &mut self.nodes[index];
        let NodeKind::Sink(writer) = &mut node.kind else { return Ok(()) };
        match item {
            Item::Batch(_, batch) => {
                node.members[0].metrics.counter("numRecordsIn").add(batch.num_rows() as u64);
                writer.write(&batch)
            }
            Item::Watermark(at) => {
                node.clock = at;
                writer.on_watermark(at)
            }
            Item::End => {
                node.ending = true;
                writer.flush()
            }
            Item::Idle(_) => Ok(()),
            Item::Reissue(..) => Err(Error::internal("a request without an operator")),
        }
    }

    /// Hands over a chunk of due timers; when there are none, the watermark that made them due goes on.
    fn fire(&mut self, index: usize, domain: TimeDomain, up_to: Timestamp, now: Timestamp) -> Result<()> {
        let mut timers = std::mem::take(&mut self.timers);
        for member in 0..self.nodes[index].members.len() {
            timers.clear();
            if let Some(state) = &mut self.nodes[index].members[member].state {
                state.due_timers(domain, up_to, TIMER_CHUNK, &mut timers)?;
            }
            if !timers.is_empty() {
                let fired = self.call(index, member, now, |operator, ctx| operator.on_timers(&timers, ctx));
                self.timers = timers;
                return fired;
            }
        }
        self.timers = timers;
        let node = &mut self.nodes[index];
        if domain == TimeDomain::ProcessingTime {
            node.firing_processing = false;
            return Ok(());
        }
        node.firing = None;
        if node.ledger.is_empty() {
            return self.forward(index, &Item::Watermark(up_to));
        }
        node.ledger.hold_watermark(up_to);
        Ok(())
    }

    /// One call of an operator, and what it left behind.
    fn call(
        &mut self,
        index: usize,
        member: usize,
        now: Timestamp,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> Result<Progress>,
    ) -> Result<()> {
        let mut outbox = std::mem::take(&mut self.outbox);
        let node = &mut self.nodes[index];
        let clock = node.clock;
        let NodeKind::Operator(operator) = &mut node.kind else {
            self.outbox = outbox;
            return Ok(());
        };
        let progress = call(&mut **operator, &mut Context::new(&mut node.members, member, &mut outbox, clock, now))?;
        node.again = progress == Progress::Again;
        for state in node.members.iter_mut().filter_map(|m| m.state.as_mut()) {
            state.end_call()?;
        }
        for (member, request) in outbox.requests.drain(..) {
            let number = node.ledger.add(member, &request);
            self.started.push((index, number, request.future));
        }
        for emitted in outbox.emitted.drain(..) {
            self.route(index, emitted)?;
        }
        self.outbox = outbox;
        Ok(())
    }

    fn route(&mut self, index: usize, emitted: Emitted) -> Result<()> {
        let Emitted { member, output, batch } = emitted;
        self.nodes[index].members[member].metrics.counter("numRecordsOut").add(batch.num_rows() as u64);
        for at in 0..self.nodes[index].outputs.len() {
            let (from, of, target) = self.nodes[index].outputs[at];
            if from == member && of == output {
                match target {
                    Target::Node(to, input) => self.nodes[to].inbox.push_back(Item::Batch(input, batch.clone())),
                    Target::Partition(to) => self.partitions[to].emit(&batch)?,
                }
            }
        }
        Ok(())
    }

    /// Passes a watermark, idleness or the end to every reader of the node.
    fn forward(&mut self, index: usize, item: &Item) -> Result<()> {
        for at in 0..self.nodes[index].outputs.len() {
            let (_, _, target) = self.nodes[index].outputs[at];
            // A reader of several outputs (a union with a side output) hears of it once.
            if self.nodes[index].outputs[..at].iter().any(|(_, _, earlier)| *earlier == target) {
                continue;
            }
            match target {
                Target::Node(to, _) => self.nodes[to].inbox.push_back(item.clone()),
                Target::Partition(to) => {
                    let element = match item {
                        Item::Watermark(at) => flott_core::StreamElement::Watermark(*at),
                        Item::Idle(idle) => flott_core::StreamElement::Idle(*idle),
                        Item::End => flott_core::StreamElement::EndOfInput,
                        Item::Batch(..) | Item::Reissue(..) => {
                            return Err(Error::internal("rows are routed, not forwarded"));
                        }
                    };
                    self.partitions[to].broadcast(&element)?;
                }
            }
        }
        Ok(())
    }

    /// Tells every reader outside the task the clock it was told before a restore.
    pub fn announce(&mut self) -> Result<()> {
        for index in 0..self.nodes.len() {
            let clock = self.nodes[index].clock;
            // A watermark behind requests has not been passed on yet; it will be.
            if clock == Timestamp::MIN || !self.nodes[index].inbox.is_empty() {
                continue;
            }
            for at in 0..self.nodes[index].outputs.len() {
                if let (_, _, Target::Partition(to)) = self.nodes[index].outputs[at] {
                    self.partitions[to].broadcast(&flott_core::StreamElement::Watermark(clock))?;
                }
            }
        }
        Ok(())
    }

    /// Starts firing processing-time timers that are due. Nodes in the middle of something else go first.
    pub fn wake_timers(&mut self, now: Timestamp) {
        for node in self.nodes.iter_mut().filter(|node| !node.in_call()) {
            let next =
                node.members.iter_mut().filter_map(|m| m.state.as_mut()?.next_timer(TimeDomain::ProcessingTime)).min();
            node.firing_processing = next.is_some_and(|at| at <= now);
        }
    }

    /// The earliest processing-time timer.
    pub fn next_timer(&mut self) -> Option<Timestamp> {
        let members = self.nodes.iter_mut().flat_map(|node| &mut node.members);
        members.filter_map(|m| m.state.as_mut()?.next_timer(TimeDomain::ProcessingTime)).min()
    }

    /// Notes the answer of a request.
    pub fn answer(&mut self, node: usize, number: u64, answer: Result<Batch>) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.ledger.answer(number, answer);
        }
    }

    /// Empties the caches of node `index` into its state. What it emits is for the nodes behind it.
    pub fn flush_node(&mut self, index: usize, now: Timestamp) -> Result<()> {
        if let NodeKind::Sink(writer) = &mut self.nodes[index].kind {
            writer.flush()?;
        }
        self.call(index, 0, now, |operator, ctx| operator.flush(ctx).map(|()| Progress::Done))
    }

    /// What sinks have prepared: (uid, committables).
    pub fn prepare_commit(&mut self) -> Result<Vec<(String, Vec<Committable>)>> {
        let mut prepared = Vec::new();
        for node in &mut self.nodes {
            if let NodeKind::Sink(writer) = &mut node.kind {
                let committables = writer.prepare_commit()?;
                if !committables.is_empty() {
                    prepared.push((node.members[0].info.uid.clone(), committables));
                }
            }
        }
        Ok(prepared)
    }

    /// Leaves nothing unfinished behind: the job has failed or was cancelled.
    pub fn abandon(&mut self) {
        for node in &mut self.nodes {
            if let NodeKind::Sink(writer) = &mut node.kind {
                regardless(|| writer.abandon());
            }
        }
    }

    /// Who the chain's operators are, for messages.
    pub fn name(&self) -> String {
        self.nodes.iter().map(ChainNode::name).collect::<Vec<_>>().join(" → ")
    }

    /// Every member, in order.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.nodes.iter().flat_map(|node| &node.members)
    }
}
