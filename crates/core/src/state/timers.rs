//! Timers: a state like any other (so they are snapshotted, restored and rescaled with their key), with a queue
//! in time order beside it that is rebuilt on restore.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::{ColumnId, Namespace, Slot, StateColumn, StateKind};
use crate::{Error, Result, Timestamp};

/// Which clock a timer listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeDomain {
    /// The watermark.
    EventTime,
    /// The wall clock.
    ProcessingTime,
}

/// A timer that is due. Its slot is valid for the call in which it is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The timer service it was registered with.
    pub service: ColumnId,
    /// The (key, namespace) it was registered for.
    pub slot: Slot,
    /// The namespace of the slot.
    pub namespace: Namespace,
    /// When it was due.
    pub at: Timestamp,
}

/// The timers of a service: a set of timestamps for each slot. A timestamp registered twice fires once.
#[derive(Debug)]
pub struct TimerColumn {
    domain: TimeDomain,
    timers: Vec<BTreeSet<Timestamp>>,
    queue: BinaryHeap<Reverse<(Timestamp, Slot)>>,
    cleared: Vec<Slot>,
}

impl TimerColumn {
    /// A service without timers.
    pub fn new(domain: TimeDomain) -> Self {
        Self { domain, timers: Vec::new(), queue: BinaryHeap::new(), cleared: Vec::new() }
    }

    /// The clock it listens to.
    pub fn domain(&self) -> TimeDomain {
        self.domain
    }

    /// Registers a timer.
    pub fn register(&mut self, slot: Slot, at: Timestamp) {
        if self.timers[slot.index()].insert(at) {
            self.queue.push(Reverse((at, slot)));
        }
    }

    /// Removes a timer; one that is not there is none.
    pub fn delete(&mut self, slot: Slot, at: Timestamp) {
        // Its entry in the queue is passed over when it comes up.
        self.remove(slot, at);
    }

    fn remove(&mut self, slot: Slot, at: Timestamp) -> bool {
        let timers = &mut self.timers[slot.index()];
        let was_there = timers.remove(&at);
        if was_there && timers.is_empty() {
            self.cleared.push(slot);
        }
        was_there
    }

    /// When the earliest timer is due.
    pub fn earliest(&mut self) -> Option<Timestamp> {
        while let Some(&Reverse((at, slot))) = self.queue.peek() {
            if self.timers[slot.index()].contains(&at) {
                return Some(at);
            }
            self.queue.pop();
        }
        None
    }

    /// Takes the earliest timer if it is due at or before `up_to`.
    pub fn pop(&mut self, up_to: Timestamp) -> Option<(Timestamp, Slot)> {
        if self.earliest()? > up_to {
            return None;
        }
        let Reverse((at, slot)) = self.queue.pop()?;
        self.remove(slot, at);
        Some((at, slot))
    }
}

impl StateColumn for TimerColumn {
    fn kind(&self) -> StateKind {
        StateKind::Timers
    }
    fn value_type(&self) -> String {
        format!("{:?}", self.domain)
    }
    fn grow(&mut self, slots: usize) {
        self.timers.resize_with(slots.max(self.timers.len()), BTreeSet::new);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        self.timers[slot.index()].is_empty()
    }
    fn clear(&mut self, slot: Slot) {
        self.timers[slot.index()].clear();
        self.cleared.push(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        for at in &self.timers[slot.index()] {
            out.extend(at.0.to_le_bytes());
        }
        Ok(())
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        let (times, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Error::external("stored timers end in the middle of one").final_());
        }
        for time in times {
            self.register(slot, Timestamp(i64::from_le_bytes(*time)));
        }
        Ok(())
    }
    fn merge(&mut self, into: Slot, from: Slot) -> Result<()> {
        for at in std::mem::take(&mut self.timers[from.index()]) {
            self.register(into, at);
        }
        self.cleared.push(from);
        Ok(())
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        out.append(&mut self.cleared);
    }
    fn as_timers(&mut self) -> Option<&mut TimerColumn> {
        Some(self)
    }
}
