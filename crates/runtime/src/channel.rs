//! A channel between two tasks: first in, first out, with credit in batches.
//!
//! Both ends of a channel within a process share one [`ChannelQueue`]; a channel between processes has a queue at
//! the receiver, filled by the connection, and a [`RemoteSender`] at the other side. Credit counts batches sent and
//! not yet taken by the receiver: only batches need it, so a watermark or barrier is never stuck behind it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use flott_core::{CheckpointId, StreamElement};
use flott_plan::ChannelId;

/// The receiver's side of a channel: elements that arrived and were not taken yet.
pub struct ChannelQueue {
    id: ChannelId,
    state: Mutex<QueueState>,
    /// Elements in the queue, to look without locking.
    length: AtomicUsize,
    /// Barriers in the queue, likewise.
    barriers: AtomicUsize,
}

struct QueueState {
    elements: VecDeque<StreamElement>,
    credit: u32,
    receiver: Option<Waker>,
    sender: Option<Waker>,
    /// Called with the credit to give back, instead of adding it here, when the sender is in another process.
    give_back: Option<Box<dyn Fn(u32) + Send>>,
}

/// Which of two neighbours a reader needs.
pub(crate) enum Needed {
    Both,
    Last,
    Next,
}

/// Events need no credit, so of a run of them, without rows, a barrier or the end in between, only what the reader needs
/// stays: one watermark and whether the sender has gone quiet after it.
pub(crate) fn needed(last: &StreamElement, next: &StreamElement) -> Needed {
    use StreamElement::{Idle, Watermark};
    match (last, next) {
        // Nothing new; a watermark ends idleness by itself.
        (Watermark(old), Watermark(new)) if old > new => Needed::Last,
        (Watermark(_), Idle(false)) => Needed::Last,
        (Watermark(_), Watermark(_)) | (Idle(_), Watermark(_) | Idle(_)) => Needed::Next,
        _ => Needed::Both,
    }
}

/// Adds an element behind those that wait, in the place of those that it makes needless.
pub(crate) fn append(waiting: &mut VecDeque<StreamElement>, next: StreamElement) {
    while let Some(last) = waiting.back() {
        match needed(last, &next) {
            Needed::Last => return,
            Needed::Next => waiting.pop_back(),
            Needed::Both => break,
        };
    }
    waiting.push_back(next);
}

impl ChannelQueue {
    /// An empty channel with room for `credit` batches.
    pub fn new(id: ChannelId, credit: u32) -> Arc<Self> {
        let state = QueueState { elements: VecDeque::new(), credit, receiver: None, sender: None, give_back: None };
        Arc::new(Self { id, state: Mutex::new(state), length: AtomicUsize::new(0), barriers: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which channel this is.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Wakes the receiving task from now on when something arrives.
    pub fn set_receiver(&self, waker: Waker) {
        self.lock().receiver = Some(waker);
    }

    /// Wakes the sending task from now on when credit returns.
    pub fn set_sender(&self, waker: Waker) {
        self.lock().sender = Some(waker);
    }

    /// The sender is in another process: credit is handed to `give_back`.
    pub fn set_remote_sender(&self, give_back: impl Fn(u32) + Send + 'static) {
        self.lock().give_back = Some(Box::new(give_back));
    }

    /// Adds an element; the sender has made sure of credit.
    pub fn push(&self, element: StreamElement) {
        let mut state = self.lock();
        let is_barrier = matches!(element, StreamElement::Barrier(_));
        match element {
            StreamElement::Batch(_) => {
                debug_assert!(state.credit > 0 || state.give_back.is_some(), "a batch without credit on {:?}", self.id);
                state.credit = state.credit.saturating_sub(1);
            }
            StreamElement::Barrier(_) => {
                self.barriers.fetch_add(1, Ordering::Release);
            }
            _ => {}
        }
        let was_empty = state.elements.is_empty();
        append(&mut state.elements, element);
        self.length.store(state.elements.len(), Ordering::Release);
        // A receiver that left elements behind knows of them; only a barrier may be looked for out of turn.
        if (was_empty || is_barrier)
            && let Some(waker) = &state.receiver
        {
            waker.wake_by_ref();
        }
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }

    /// Batches that may be sent now.
    pub fn credit(&self) -> u32 {
        self.lock().credit
    }

    /// Batches that wait here for the receiver.
    pub fn batches(&self) -> usize {
        self.lock().elements.iter().filter(|element| matches!(element, StreamElement::Batch(_))).count()
    }

    /// Takes the next element; the credit of a batch returns to the sender.
    pub fn pop(&self) -> Option<StreamElement> {
        if self.is_empty() {
            return None;
        }
        let mut state = self.lock();
        let element = state.elements.pop_front()?;
        self.length.fetch_sub(1, Ordering::Release);
        match element {
            StreamElement::Batch(_) => match &state.give_back {
                Some(give_back) => give_back(1),
                None => {
                    state.credit += 1;
                    if state.credit == 1
                        && let Some(waker) = &state.sender
                    {
                        waker.wake_by_ref();
                    }
                }
            },
            StreamElement::Barrier(_) => {
                self.barriers.fetch_sub(1, Ordering::Release);
            }
            _ => {}
        }
        Some(element)
    }

    /// The newest barrier waiting in the queue, wherever it is: those before it were given up.
    pub fn waiting_barrier(&self) -> Option<flott_core::CheckpointBarrier> {
        if self.barriers.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().elements.iter().rev().find_map(|element| match element {
            StreamElement::Barrier(barrier) => Some(*barrier),
            _ => None,
        })
    }

    /// Copies of all that is queued (sharing the rows), if the sender's end is the last of it.
    pub fn rest(&self) -> Option<Vec<StreamElement>> {
        let state = self.lock();
        matches!(state.elements.back(), Some(StreamElement::EndOfInput))
            .then(|| state.elements.iter().cloned().collect())
    }

    /// Takes the barrier of this checkpoint out of the queue, ahead of what it has overtaken, which is returned (as
    /// copies that share the rows) and stays queued. `None` if it has not arrived.
    pub fn overtake(&self, checkpoint: CheckpointId) -> Option<Vec<StreamElement>> {
        if self.barriers.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut state = self.lock();
        let at = state
            .elements
            .iter()
            .position(|element| matches!(element, StreamElement::Barrier(b) if b.id == checkpoint))?;
        state.elements.remove(at);
        self.length.fetch_sub(1, Ordering::Release);
        self.barriers.fetch_sub(1, Ordering::Release);
        Some(state.elements.iter().take(at).cloned().collect())
    }
}

/// The sender's side of a channel to another process.
pub struct RemoteSender {
    credit: Arc<RemoteCredit>,
    send: Box<dyn FnMut(StreamElement) + Send>,
    announce: Box<dyn Fn(u32) + Send>,
    /// What was announced last.
    backlog: u32,
}

/// Credit that the other process has given.
#[derive(Default)]
pub struct RemoteCredit {
    credit: AtomicUsize,
    sender: Mutex<Option<Waker>>,
}

impl RemoteCredit {
    /// More credit has come.
    pub fn add(&self, credit: u32) {
        let before = self.credit.fetch_add(credit as usize, Ordering::AcqRel);
        if before == 0
            && let Some(waker) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner)
        {
            waker.wake_by_ref();
        }
    }
}

impl RemoteSender {
    /// A sender that hands elements to `send`, which puts them on the connection in order and never blocks: what may
    /// wait there is bounded by the credit. `announce` tells the reader how much waits for its credit.
    pub fn new(
        credit: Arc<RemoteCredit>,
        send: impl FnMut(StreamElement) + Send + 'static,
        announce: impl Fn(u32) + Send + 'static,
    ) -> Self {
        Self { credit, send: Box::new(send), announce: Box::new(announce), backlog: 0 }
    }
}

/// The sending end of a channel.
pub enum ChannelSender {
    /// To a task of this process.
    Local(Arc<ChannelQueue>),
    /// To a task of another process.
    Remote(RemoteSender),
}

impl ChannelSender {
    /// Wakes the sending task from now on when credit returns.
    pub fn set_waker(&self, waker: &Waker) {
        match self {
            Self::Local(queue) => queue.set_sender(waker.clone()),
            Self::Remote(remote) => {
                *remote.credit.sender.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
            }
        }
    }

    /// Batches that may be sent now.
    pub fn credit(&self) -> u32 {
        match self {
            Self::Local(queue) => queue.credit(),
            Self::Remote(remote) => u32::try_from(remote.credit.credit.load(Ordering::Acquire)).unwrap_or(u32::MAX),
        }
    }

    /// Sends an element; a batch only with credit.
    pub fn send(&mut self, element: StreamElement) {
        match self {
            Self::Local(queue) => queue.push(element),
            Self::Remote(remote) => {
                if matches!(element, StreamElement::Batch(_)) {
                    remote.credit.credit.fetch_sub(1, Ordering::AcqRel);
                }
                (remote.send)(element);
            }
        }
    }
    /// So many elements wait here for credit: told to a reader in another process, if it is news.
    pub fn announce_backlog(&mut self, elements: usize) {
        if let Self::Remote(remote) = self {
            let elements = u32::try_from(elements).unwrap_or(u32::MAX);
            if std::mem::replace(&mut remote.backlog, elements) != elements {
                (remote.announce)(elements);
            }
        }
    }
}
