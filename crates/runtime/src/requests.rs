//! Requests in flight of one operator: [`Ledger`] keeps their order, holds watermarks behind them, and is part of
//! snapshots.

use std::collections::VecDeque;

use flott_core::{Batch, Request, RequestOrder, Response, Result, StreamElement, Timestamp};

use crate::channel::{Needed, needed};

enum Entry {
    Request {
        number: u64,
        member: usize,
        order: RequestOrder,
        payload: Batch,
        answer: Option<Result<Batch>>,
    },
    /// A watermark or idleness.
    Event(StreamElement),
}

/// Something whose turn has come.
#[expect(clippy::large_enum_variant, reason = "lives for one call")]
pub enum Due {
    /// An answer for this member.
    Response(usize, Response),
    /// Every request before it is answered.
    Watermark(Timestamp),
    /// Likewise.
    Idle(bool),
}

/// What a snapshot keeps of an entry.
pub enum Held {
    /// A request's member and payload, to be issued again.
    Request(usize, Batch),
    /// A watermark behind requests.
    Watermark(Timestamp),
    /// Idleness behind requests.
    Idle(bool),
}

/// Requests in flight of one operator, oldest first.
#[derive(Default)]
pub struct Ledger {
    entries: VecDeque<Entry>,
    next: u64,
    requests: usize,
}

impl Ledger {
    /// Adds a request; its number is what an answer is matched by.
    pub fn add(&mut self, member: usize, request: &Request) -> u64 {
        let number = self.next;
        self.next += 1;
        self.requests += 1;
        let (payload, order) = (request.payload.clone(), request.order);
        self.entries.push_back(Entry::Request { number, member, order, payload, answer: None });
        number
    }

    /// Requests not yet handed back to the operator.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Holds a watermark until every request before it is answered.
    pub fn hold_watermark(&mut self, at: Timestamp) {
        self.hold(StreamElement::Watermark(at));
    }

    /// Holds idleness likewise.
    pub fn hold_idle(&mut self, idle: bool) {
        self.hold(StreamElement::Idle(idle));
    }

    /// As in a channel, of events in a row only what a reader needs is held.
    fn hold(&mut self, event: StreamElement) {
        while let Some(Entry::Event(last)) = self.entries.back() {
            match needed(last, &event) {
                Needed::Last => return,
                Needed::Next => self.entries.pop_back(),
                Needed::Both => break,
            };
        }
        self.entries.push_back(Entry::Event(event));
    }

    /// Notes an answer; one to a request from before a restart is dropped.
    pub fn answer(&mut self, of: u64, result: Result<Batch>) {
        let entry = self.entries.iter_mut().find_map(|entry| match entry {
            Entry::Request { number, answer, .. } if *number == of => Some(answer),
            _ => None,
        });
        if let Some(answer) = entry {
            *answer = Some(result);
        }
    }

    /// Where the next due entry is.
    fn due(&self) -> Option<usize> {
        for (index, entry) in self.entries.iter().enumerate() {
            match entry {
                Entry::Request { answer: Some(_), order, .. } if index == 0 || *order == RequestOrder::Unordered => {
                    return Some(index);
                }
                Entry::Request { order: RequestOrder::Unordered, .. } => {}
                Entry::Request { .. } => return None,
                Entry::Event(_) => return (index == 0).then_some(0),
            }
        }
        None
    }

    /// Whether something's turn has come.
    pub fn is_due(&self) -> bool {
        self.due().is_some()
    }

    /// Takes what is due next.
    pub fn take(&mut self) -> Option<Due> {
        let index = self.due()?;
        match self.entries.remove(index)? {
            Entry::Request { member, payload, answer: Some(answer), .. } => {
                self.requests -= 1;
                Some(Due::Response(member, Response { payload, answer }))
            }
            Entry::Event(StreamElement::Watermark(at)) => Some(Due::Watermark(at)),
            Entry::Event(StreamElement::Idle(idle)) => Some(Due::Idle(idle)),
            Entry::Request { .. } | Entry::Event(_) => None,
        }
    }

    /// What a snapshot keeps, in order. An answer not yet handed over is asked for again after a restore.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Request { member, payload, .. } => Some(Held::Request(*member, payload.clone())),
            Entry::Event(StreamElement::Watermark(at)) => Some(Held::Watermark(*at)),
            Entry::Event(StreamElement::Idle(idle)) => Some(Held::Idle(*idle)),
            Entry::Event(_) => None,
        })
    }
}
