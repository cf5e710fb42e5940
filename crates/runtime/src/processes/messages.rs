//! Messages of any length over the control frames of a connection: [`Messages`] cuts them to pieces, so that nothing
//! else on the connection waits behind a large one, and puts the pieces of the other side together. What a message
//! says is in `protocol.rs`.
//!
//! ```text
//! piece   bytes · tag u8        tag 0: the message goes on in the next piece, 1: this was its last
//! taken   u64 · tag 2           so many bytes of pieces have come since the last time
//! ```
//!
//! At most about [`WINDOW_BYTES`] are on their way; the rest waits here, within a limit, except for what is sent in full
//! knowledge of its size ([`Messages::send_beyond`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::{Error, Result};
use flott_plan::HostId;

use crate::network::Connection;

/// The longest piece.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of pieces that may be on their way before the other side says that it has taken some.
const WINDOW_BYTES: usize = 16 << 20;

/// A side says what it has taken once it is so much: well below the window, so that the sender need not stop.
const TAKEN_BYTES: usize = 4 << 20;

const MORE: u8 = 0;
const LAST: u8 = 1;
const TAKEN: u8 = 2;

/// Sends and takes messages over a connection, in order.
pub struct Messages {
    connection: Connection,
    outgoing: Mutex<Outgoing>,
    limit: AtomicUsize,
    frames: AtomicU64,
}

#[derive(Default)]
struct Outgoing {
    waiting: VecDeque<Waiting>,
    /// Of those that count.
    waiting_bytes: usize,
    on_the_way: usize,
}

struct Waiting {
    message: Vec<u8>,
    /// From where on it is still to be sent.
    from: usize,
    /// Against the limit of what may wait.
    counts: bool,
}

/// The message of the other side that is coming in.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Bytes of pieces since the other side was told.
    taken: usize,
}

impl Messages {
    /// Messages over a connection that has not been started. `limit`: how many bytes may wait to be sent, and how long
    /// a message may be that comes.
    pub fn new(connection: Connection, limit: usize) -> Arc<Self> {
        Arc::new(Self { connection, outgoing: Mutex::default(), limit: limit.into(), frames: 0.into() })
    }

    /// Another limit from now on.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many frames have come, the smallest sign that the other side runs: it gives one for every few MiB it takes.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// The process at the other end.
    pub fn peer(&self) -> HostId {
        self.connection.peer()
    }

    /// Ends the connection at once; `error` becomes its end here.
    pub fn fail(&self, error: Error) {
        self.connection.fail(error);
    }

    /// Begins to send and take. Both handlers run on the I/O thread and must not block: `on_message` gets what the
    /// other side sends, in order; `on_end` as in [`Connection::start`].
    pub fn start(
        self: &Arc<Self>,
        mut on_message: impl FnMut(Vec<u8>) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let (messages, mut incoming) = (Arc::clone(self), Incoming::default());
        let on_control = move |frame| match messages.take(frame, &mut incoming) {
            Ok(Some(message)) => on_message(message),
            Ok(None) => {}
            Err(error) => messages.fail(error),
        };
        self.connection.start(on_control, on_end)
    }

    /// Sends a message, without blocking. Refused, and nothing of it is sent, where more would wait than may, or when
    /// the connection is known to have ended.
    pub fn send(&self, message: Vec<u8>) -> Result<()> {
        self.add(message, true)
    }

    /// As [`Messages::send`], whatever waits already: the limit holds for this message alone, and others do not wait
    /// less for it. For what the sender keeps in memory anyway.
    pub fn send_beyond(&self, message: Vec<u8>) -> Result<()> {
        self.add(message, false)
    }

    fn add(&self, message: Vec<u8>, counts: bool) -> Result<()> {
        let mut outgoing = self.lock();
        let (bytes, limit) = (message.len(), self.limit.load(Ordering::Relaxed));
        let waiting = if counts { outgoing.waiting_bytes.saturating_add(bytes) } else { bytes };
        if waiting > limit {
            let text = format!("expected at most {limit} bytes to wait for a process of the job, found {waiting}");
            return Err(Error::user(text).at("bytes of the message", bytes));
        }
        if let Some(error) = self.connection.error() {
            return Err(error);
        }
        if counts {
            outgoing.waiting_bytes = waiting;
        }
        outgoing.waiting.push_back(Waiting { message, from: 0, counts });
        self.push(&mut outgoing)
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands pieces to the connection, as many as may be on their way.
    fn push(&self, outgoing: &mut Outgoing) -> Result<()> {
        while outgoing.on_the_way < WINDOW_BYTES
            && let Some(Waiting { mut message, from, counts }) = outgoing.waiting.pop_front()
        {
            let to = message.len().min(from + PIECE_BYTES);
            let is_last = to == message.len();
            let mut piece = if from == 0 && is_last {
                std::mem::take(&mut message)
            } else {
                let mut piece = Vec::with_capacity(to - from + 1);
                piece.extend_from_slice(&message[from..to]);
                piece
            };
            piece.push(if is_last { LAST } else { MORE });
            if counts {
                outgoing.waiting_bytes -= to - from;
            }
            outgoing.on_the_way += piece.len();
            if !is_last {
                outgoing.waiting.push_front(Waiting { message, from: to, counts });
            }
            self.connection.send_control(piece)?;
        }
        Ok(())
    }

    /// Takes a control frame; the message it completes.
    fn take(&self, mut frame: Vec<u8>, incoming: &mut Incoming) -> Result<Option<Vec<u8>>> {
        self.frames.fetch_add(1, Ordering::Relaxed);
        let length = frame.len();
        let tag = frame.pop();
        match tag {
            Some(MORE | LAST) => {
                incoming.taken += length;
                if incoming.taken >= TAKEN_BYTES {
                    let mut taken = (std::mem::take(&mut incoming.taken) as u64).to_le_bytes().to_vec();
                    taken.push(TAKEN);
                    self.connection.send_control(taken)?;
                }
                let (found, limit) = (incoming.bytes.len() + frame.len(), self.limit.load(Ordering::Relaxed));
                if found > limit {
                    let text = format!("expected at most {limit} bytes in a message of a process, found more");
                    return Err(Error::user(text).at("host", self.peer().0));
                }
                if incoming.bytes.is_empty() {
                    incoming.bytes = frame;
                } else {
                    incoming.bytes.extend_from_slice(&frame);
                }
                Ok((tag == Some(LAST)).then(|| std::mem::take(&mut incoming.bytes)))
            }
            Some(TAKEN) => {
                let taken = frame.as_slice().try_into().map(u64::from_le_bytes).map_err(|_| broken())?;
                let mut outgoing = self.lock();
                let taken = usize::try_from(taken).ok().and_then(|taken| outgoing.on_the_way.checked_sub(taken));
                outgoing.on_the_way = taken.ok_or_else(broken)?;
                self.push(&mut outgoing)?;
                Ok(None)
            }
            _ => Err(broken()),
        }
    }
}

fn broken() -> Error {
    Error::internal("a process of the job sent something that is no piece of a message")
}
