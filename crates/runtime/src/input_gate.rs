//! The receiving side of a task: [`InputGate`] merges channels into one stream, combines watermarks and idleness,
//! and aligns barriers or records what they overtake.
//!
//! Unaligned snapshots follow Chandy and Lamport (1985): the task's snapshot is taken at the first barrier, and of
//! each channel whose barrier has not arrived, the rows up to it belong to the snapshot. Edges whose rows could not
//! be dealt out again (forward, broadcast, custom) are aligned in either mode, and awaited first.

use std::collections::VecDeque;
use std::sync::Arc;

use flott_core::{BarrierMode, Batch, CheckpointBarrier, CheckpointId, InputId, StreamElement, Timestamp};
use flott_plan::ChannelId;

use crate::channel::ChannelQueue;

/// What the gate gives the task.
#[derive(Debug)]
pub enum GateEvent {
    /// Rows of an input.
    Batch(InputId, Batch),
    /// The clock of the task has risen.
    Watermark(Timestamp),
    /// All channels have gone quiet (`true`) or one is back.
    Idle(bool),
    /// The cut: take the snapshot, pass the barrier on.
    Barrier(CheckpointBarrier),
    /// Every row in flight that belongs to the snapshot is known: the last thing a snapshot needs.
    InFlight(CheckpointId, Vec<(ChannelId, Vec<StreamElement>)>),
    /// A newer checkpoint has begun before this one was complete.
    Superseded(CheckpointId),
    /// Every channel has ended.
    Ended,
    /// Nothing now.
    Pending,
}

struct Input {
    queue: Arc<ChannelQueue>,
    input: InputId,
    may_overtake: bool,
    watermark: Timestamp,
    idle: bool,
    ended: bool,
    /// Its barrier has come; what follows waits for the others.
    blocked: bool,
    /// Elements from before a restore, taken first.
    recovered: VecDeque<StreamElement>,
}

impl Input {
    fn take(&mut self) -> Option<StreamElement> {
        self.recovered.pop_front().or_else(|| self.queue.pop())
    }
}

/// A checkpoint on its way through this gate.
struct Alignment {
    barrier: CheckpointBarrier,
    /// By channel: whether its barrier has come (or the channel has ended).
    arrived: Vec<bool>,
    /// Whether the task was told to take its snapshot.
    begun: bool,
    recorded: Vec<Vec<StreamElement>>,
}

/// The receiving side of a task.
pub struct InputGate {
    inputs: Vec<Input>,
    next: usize,
    clock: Timestamp,
    idle: bool,
    alignment: Option<Alignment>,
    /// The checkpoint whose barriers overtake though they were sent aligned.
    overtake: CheckpointId,
    /// Barriers of checkpoints up to this one come too late and are dropped.
    done: CheckpointId,
    ended: bool,
    /// Events found together with one already given.
    ready: VecDeque<GateEvent>,
}

impl InputGate {
    /// A gate over these channels: (queue, the operator's input, whether barriers may overtake its rows).
    pub fn new(channels: Vec<(Arc<ChannelQueue>, InputId, bool)>, clock: Timestamp) -> Self {
        let inputs = channels
            .into_iter()
            .map(|(queue, input, may_overtake)| Input {
                queue,
                input,
                may_overtake,
                watermark: Timestamp::MIN,
                idle: false,
                ended: false,
                blocked: false,
                recovered: VecDeque::new(),
            })
            .collect();
        Self {
            inputs,
            next: 0,
            clock,
            idle: false,
            alignment: None,
            overtake: CheckpointId(0),
            done: CheckpointId(0),
            ended: false,
            ready: VecDeque::new(),
        }
    }

    /// Channels, in order.
    pub fn channels(&self) -> impl Iterator<Item = &Arc<ChannelQueue>> {
        self.inputs.iter().map(|input| &input.queue)
    }

    /// Puts elements that were in flight at a snapshot before everything channel `index` brings.
    pub fn recover(&mut self, index: usize, elements: impl IntoIterator<Item = StreamElement>) {
        self.inputs[index].recovered.extend(elements);
    }

    /// The clock of the task: the minimum over channels that are neither idle nor ended; it never goes back.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// The checkpoint was given up: channels flow again.
    pub fn abort(&mut self, checkpoint: CheckpointId) {
        self.done = self.done.max(checkpoint);
        if self.alignment.as_ref().is_some_and(|a| a.barrier.id <= checkpoint) {
            self.alignment = None;
            self.inputs.iter_mut().for_each(|input| input.blocked = false);
        }
    }

    /// Barriers of this checkpoint overtake from now on, however they were sent.
    pub fn overtake(&mut self, checkpoint: CheckpointId) {
        self.overtake = checkpoint;
        if let Some(alignment) = &mut self.alignment
            && alignment.barrier.id == checkpoint
        {
            alignment.barrier.mode = BarrierMode::Unaligned;
        }
    }

    /// Cuts the stream for a task whose senders have all ended without passing the barrier on: what is still queued
    /// belongs to the snapshot. `false` if an end has not arrived yet, or waits behind rows that could not be dealt out
    /// again.
    pub fn cut_at_end(&mut self, barrier: CheckpointBarrier) -> bool {
        if barrier.id <= self.done || self.alignment.is_some() {
            return false;
        }
        let rest = self.inputs.iter().map(|input| {
            let queued = match (input.ended, input.may_overtake) {
                (true, _) => Vec::new(),
                (false, true) => input.queue.rest()?,
                (false, false) => return None,
            };
            // A barrier among them is of a checkpoint that was given up.
            let rows = input.recovered.iter().cloned().chain(queued);
            let rows = rows.filter(|element| !matches!(element, StreamElement::Barrier(_)));
            Some((input.queue.id(), rows.collect::<Vec<_>>()))
        });
        let Some(recorded) = rest.collect::<Option<Vec<_>>>() else { return false };
        self.done = barrier.id;
        self.ready.push_back(GateEvent::Barrier(barrier));
        let recorded = recorded.into_iter().filter(|(_, elements)| !elements.is_empty()).collect();
        self.ready.push_back(GateEvent::InFlight(barrier.id, recorded));
        true
    }

    /// What can go on even if the task can take no rows: a barrier that overtakes, and events found before it.
    pub fn poll_barrier(&mut self) -> Option<GateEvent> {
        if self.ready.is_empty() {
            self.look_for_overtaking();
            self.advance_alignment();
        }
        self.ready.pop_front()
    }

    /// The next event. One element of one channel is taken at most; channels take turns.
    pub fn poll(&mut self) -> GateEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            self.look_for_overtaking();
            self.advance_alignment();
            if self.ready.is_empty() && !self.take_one() {
                return GateEvent::Pending;
            }
        }
    }

    /// Takes one element of the channel whose turn it is; whether there was one.
    fn take_one(&mut self) -> bool {
        let channels = self.inputs.len();
        for turn in 0..channels {
            let index = (self.next + turn) % channels;
            let input = &mut self.inputs[index];
            if input.blocked || input.ended {
                continue;
            }
            if let Some(element) = input.take() {
                self.next = (index + 1) % channels;
                self.record(index, &element);
                self.accept(index, element);
                return true;
            }
        }
        false
    }

    /// Rows that pass while their channel's barrier is awaited belong to the snapshot that has begun.
    fn record(&mut self, index: usize, element: &StreamElement) {
        if let Some(alignment) = &mut self.alignment
            && alignment.begun
            && alignment.barrier.mode == BarrierMode::Unaligned
            && !alignment.arrived[index]
            && !matches!(element, StreamElement::Barrier(_))
        {
            alignment.recorded[index].push(element.clone());
        }
    }

    fn accept(&mut self, index: usize, element: StreamElement) {
        let input = &mut self.inputs[index];
        match element {
            StreamElement::Batch(batch) => {
                let to = input.input;
                if std::mem::take(&mut input.idle) {
                    self.combine();
                }
                self.ready.push_back(GateEvent::Batch(to, batch));
            }
            StreamElement::Watermark(at) => {
                input.watermark = input.watermark.max(at);
                input.idle = false;
                self.combine();
            }
            StreamElement::Idle(idle) => {
                input.idle = idle;
                self.combine();
            }
            StreamElement::EndOfInput => {
                input.ended = true;
                input.watermark = Timestamp::MAX;
                self.combine();
                if self.inputs.iter().all(|input| input.ended) && !self.ended {
                    self.ended = true;
                    self.advance_alignment();
                    self.ready.push_back(GateEvent::Ended);
                }
            }
            StreamElement::Barrier(barrier) => self.on_barrier(index, barrier),
        }
    }

    fn combine(&mut self) {
        let idle = self.inputs.iter().any(|input| !input.ended) && self.inputs.iter().all(|i| i.ended || i.idle);
        if idle != self.idle {
            self.idle = idle;
            self.ready.push_back(GateEvent::Idle(idle));
        }
        let low = self.inputs.iter().filter(|input| !input.idle).map(|input| input.watermark).min();
        // The end is told by `Ended`; idle channels hold nobody back, but do not end the stream either.
        if let Some(low) = low.filter(|&low| low > self.clock && low < Timestamp::MAX) {
            self.clock = low;
            self.ready.push_back(GateEvent::Watermark(low));
        }
    }

    fn on_barrier(&mut self, index: usize, barrier: CheckpointBarrier) {
        if barrier.id <= self.done {
            return;
        }
        self.begin(barrier);
        if let Some(alignment) = &mut self.alignment
            && alignment.barrier.id == barrier.id
        {
            alignment.arrived[index] = true;
            let cut = alignment.begun && alignment.barrier.mode == BarrierMode::Unaligned;
            self.inputs[index].blocked = barrier.mode != BarrierMode::AtLeastOnce && !cut;
        }
    }

    /// Makes this barrier's checkpoint the current one, unless an equal or newer one is. One barrier that overtakes
    /// makes its checkpoint overtake: its sender was told before this task, or before the barriers of other senders.
    fn begin(&mut self, mut barrier: CheckpointBarrier) {
        if barrier.id == self.overtake {
            barrier.mode = BarrierMode::Unaligned;
        }
        if let Some(current) = &mut self.alignment {
            if current.barrier.id == barrier.id && barrier.mode == BarrierMode::Unaligned {
                current.barrier.mode = BarrierMode::Unaligned;
            }
            if current.barrier.id >= barrier.id {
                return;
            }
            let old = current.barrier.id;
            self.abort(old);
            self.ready.push_back(GateEvent::Superseded(old));
        }
        let channels = self.inputs.len();
        self.alignment = Some(Alignment {
            barrier,
            arrived: vec![false; channels],
            begun: false,
            recorded: vec![Vec::new(); channels],
        });
    }

    fn look_for_overtaking(&mut self) {
        let waiting = self
            .inputs
            .iter()
            .filter(|input| !input.blocked)
            .filter_map(|input| input.queue.waiting_barrier())
            .filter(|barrier| barrier.mode == BarrierMode::Unaligned || barrier.id == self.overtake)
            .filter(|barrier| barrier.id > self.done)
            .max_by_key(|barrier| barrier.id);
        if let Some(barrier) = waiting {
            self.begin(barrier);
        }
    }

    /// Moves the current checkpoint as far as it goes.
    fn advance_alignment(&mut self) {
        let Some(alignment) = &mut self.alignment else { return };
        let unaligned = alignment.barrier.mode == BarrierMode::Unaligned;
        let there = |index: usize, input: &Input, arrived: &[bool]| input.ended || arrived[index];
        if !alignment.begun {
            let awaited = self
                .inputs
                .iter()
                .enumerate()
                .any(|(i, input)| !(there(i, input, &alignment.arrived) || unaligned && input.may_overtake));
            if awaited {
                return;
            }
            alignment.begun = true;
            self.ready.push_back(GateEvent::Barrier(alignment.barrier));
            // The cut is made: nothing has to wait any more. A channel that did, with the barriers of others on their way
            // behind rows of its sender, would hold up these rows for ever.
            if unaligned {
                self.inputs.iter_mut().for_each(|input| input.blocked = false);
            }
        }
        for (index, input) in self.inputs.iter_mut().enumerate() {
            if unaligned && !alignment.arrived[index] {
                if let Some(overtaken) = input.queue.overtake(alignment.barrier.id) {
                    // Rows recovered and not yet taken are ahead of everything queued. A barrier among them is of a
                    // checkpoint that was given up.
                    let ahead = input.recovered.iter().cloned().chain(overtaken);
                    let ahead = ahead.filter(|element| !matches!(element, StreamElement::Barrier(_)));
                    alignment.recorded[index].extend(ahead);
                    alignment.arrived[index] = true;
                } else if input.ended {
                    alignment.arrived[index] = true;
                }
            }
        }
        let complete = self.inputs.iter().enumerate().all(|(i, input)| there(i, input, &alignment.arrived));
        if complete && let Some(alignment) = self.alignment.take() {
            self.done = alignment.barrier.id;
            self.inputs.iter_mut().for_each(|input| input.blocked = false);
            let ids = self.inputs.iter().map(|input| input.queue.id());
            let recorded = ids.zip(alignment.recorded).filter(|(_, elements)| !elements.is_empty()).collect();
            self.ready.push_back(GateEvent::InFlight(alignment.barrier.id, recorded));
        }
    }
}
