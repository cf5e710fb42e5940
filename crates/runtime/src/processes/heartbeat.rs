//! Who has been silent for too long, given times: [`Heartbeats`]. It reads no clock, asks nobody and ends nobody.
//!
//! Times are ms of a clock that only goes forward: neither a clock that is set nor a machine that sleeps with all its
//! processes makes anybody late.

use std::collections::BTreeMap;

/// What one side knows of the others that must give a sign of life.
#[derive(Clone, Debug)]
pub struct Heartbeats<P> {
    interval_ms: u64,
    timeout_ms: u64,
    /// When they are asked next.
    next_ms: u64,
    /// When each was heard last.
    heard_ms: BTreeMap<P, u64>,
}

/// What is to be done at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat<P> {
    /// Ask everybody for a sign of life.
    pub ask: bool,
    /// Who is late, and for how many ms nothing was heard of it.
    pub late: Vec<(P, u64)>,
}

impl<P: Ord + Copy> Heartbeats<P> {
    /// Nobody yet. Who was not heard of for longer than the timeout is late.
    pub fn new(interval_ms: u64, timeout_ms: u64) -> Self {
        Self { interval_ms: interval_ms.max(1), timeout_ms, next_ms: 0, heard_ms: BTreeMap::new() }
    }

    /// A sign of life, the first or a further one.
    pub fn heard(&mut self, of: P, now_ms: u64) {
        if self.heard_ms.is_empty() {
            self.next_ms = now_ms;
        }
        self.heard_ms.insert(of, now_ms);
    }

    /// Whether it says something is its own business from now on.
    pub fn forget(&mut self, of: P) {
        self.heard_ms.remove(&of);
    }

    /// When there is something to do; `None` where there is nobody.
    pub fn due_ms(&self) -> Option<u64> {
        let first_late = self.heard_ms.values().min()?.saturating_add(self.timeout_ms).saturating_add(1);
        Some(self.next_ms.min(first_late))
    }

    /// What is to be done now. One who is late is forgotten.
    ///
    /// Comes this much later than it was due, this process itself did not run, and what it has not heard in that time
    /// is nobody's fault: all others may have stood still with it, as those of a terminal do after Ctrl-Z.
    pub fn beat(&mut self, now_ms: u64) -> Beat<P> {
        let Some(due) = self.due_ms().filter(|due| *due <= now_ms) else {
            return Beat { ask: false, late: Vec::new() };
        };
        let absent = now_ms - due;
        if absent >= self.interval_ms {
            self.heard_ms.values_mut().for_each(|heard| *heard = heard.saturating_add(absent).min(now_ms));
        }
        let silence = |heard: &u64| now_ms.saturating_sub(*heard);
        let late = self.heard_ms.iter().map(|(of, heard)| (*of, silence(heard)));
        let late: Vec<_> = late.filter(|(_, silent)| *silent > self.timeout_ms).collect();
        late.iter().for_each(|(of, _)| self.forget(*of));
        let ask = self.next_ms <= now_ms;
        if ask {
            self.next_ms = now_ms.saturating_add(self.interval_ms);
        }
        Beat { ask, late }
    }
}
