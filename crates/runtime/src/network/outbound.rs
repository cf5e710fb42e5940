//! The sending half of a connection: [`Outbound`] is filled by any thread without blocking, [`write_frames`] empties
//! it on the I/O thread.
//!
//! What waits here is bounded: batches by the credit of their channels, events to one watermark and one idleness behind
//! each batch or barrier ([`append`](crate::channel::append)), control frames by [`MAX_CONTROL_BYTES`], credit and
//! backlog to one frame a channel, because numbers not yet written add up.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::{Error, Result};
use flott_plan::ChannelId;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use super::frame::{Frame, FrameKind, MAX_BODY_BYTES, NO_CHANNEL};

/// Control frames waiting to be written may hold so many bytes: one of the longest and some more.
pub const MAX_CONTROL_BYTES: usize = MAX_BODY_BYTES as usize + (16 << 20);

/// What one system call is given at most. Credit that comes meanwhile waits for no more than this.
const WRITE_BYTES: usize = 1 << 20;
const WRITE_FRAMES: usize = 128;

/// A number for the peer about one channel. It waits in the queue at most once, with its latest value.
pub(super) struct Note {
    channel: ChannelId,
    kind: FrameKind,
    number: AtomicU32,
    listed: AtomicBool,
}

impl Note {
    pub(super) fn new(channel: ChannelId, kind: FrameKind) -> Arc<Self> {
        Arc::new(Self { channel, kind, number: AtomicU32::new(0), listed: AtomicBool::new(false) })
    }

    /// The frame to write, if there is something to say. Credit is given once; a backlog is a level.
    fn frame(&self) -> Option<Frame> {
        self.listed.store(false, Ordering::SeqCst);
        let number = match self.kind {
            FrameKind::Credit => Some(self.number.swap(0, Ordering::SeqCst)).filter(|&n| n > 0),
            _ => Some(self.number.load(Ordering::SeqCst)),
        };
        number.map(|number| Frame::number(self.channel, self.kind, number))
    }
}

/// Frames on their way to the peer.
#[derive(Default)]
pub(super) struct Outbound {
    queue: Mutex<Queue>,
    /// The writer has something to do.
    ready: Notify,
    /// The connection is to end at once.
    failed: Notify,
    pub(super) queued_bytes: AtomicUsize,
    pub(super) peak_queued_bytes: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Frames that were taken out: the number of the first one waiting.
    taken: u64,
    notes: Vec<Arc<Note>>,
    control_bytes: usize,
    closing: bool,
    /// Goodbye has been said, or the connection has ended: nothing is taken any more.
    over: bool,
    failure: Option<Error>,
}

/// What the writer does next.
enum Next {
    Write,
    Wait,
    Finish,
}

impl Outbound {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a frame of a channel; the answer is its number. After the end of the connection it is dropped: whoever
    /// holds the connection has been told.
    pub(super) fn push(&self, frame: Frame) -> u64 {
        let mut queue = self.lock();
        let number = queue.taken + queue.frames.len() as u64;
        if !queue.over {
            self.add(&mut queue, frame);
        }
        number
    }

    /// Puts a frame in the place of an earlier one, if that is still waiting; whether it was.
    pub(super) fn replace(&self, number: u64, frame: Frame) -> bool {
        let mut queue = self.lock();
        let place = number.checked_sub(queue.taken).and_then(|at| usize::try_from(at).ok());
        let Some(old) = place.and_then(|at| queue.frames.get_mut(at)) else { return false };
        let (before, after) = (old.num_bytes(), frame.num_bytes());
        *old = frame;
        let queued = self.queued_bytes.fetch_add(after, Ordering::Relaxed) + after - before;
        self.queued_bytes.fetch_sub(before, Ordering::Relaxed);
        self.peak_queued_bytes.fetch_max(queued, Ordering::Relaxed);
        true
    }

    pub(super) fn push_control(&self, body: Vec<u8>) -> Result<()> {
        let frame = Frame::new(NO_CHANNEL, FrameKind::Control, body)?;
        let mut queue = self.lock();
        if queue.over || queue.closing {
            return Err(queue.failure.clone().unwrap_or_else(|| Error::external("the connection is closed")));
        }
        if queue.control_bytes + frame.num_bytes() > MAX_CONTROL_BYTES {
            return Err(Error::external(format!(
                "expected the peer to take messages, found {} bytes of them waiting",
                queue.control_bytes
            )));
        }
        queue.control_bytes += frame.num_bytes();
        self.add(&mut queue, frame);
        Ok(())
    }

    fn add(&self, queue: &mut Queue, frame: Frame) {
        let queued = self.queued_bytes.fetch_add(frame.num_bytes(), Ordering::Relaxed) + frame.num_bytes();
        self.peak_queued_bytes.fetch_max(queued, Ordering::Relaxed);
        queue.frames.push_back(frame);
        self.ready.notify_one();
    }

    /// So much more credit for the peer.
    pub(super) fn add_to(&self, note: &Arc<Note>, number: u32) {
        note.number.fetch_add(number, Ordering::SeqCst);
        self.list(note);
    }

    /// The level is now this.
    pub(super) fn set(&self, note: &Arc<Note>, number: u32) {
        note.number.store(number, Ordering::SeqCst);
        self.list(note);
    }

    fn list(&self, note: &Arc<Note>) {
        if note.listed.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut queue = self.lock();
        if !queue.over {
            queue.notes.push(Arc::clone(note));
            self.ready.notify_one();
        }
    }

    /// Writes what is queued, says goodbye and ends.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.ready.notify_one();
    }

    /// Ends at once with this error; the first one counts.
    pub(super) fn fail(&self, error: Error) {
        let mut queue = self.lock();
        queue.over = true;
        queue.failure.get_or_insert(error);
        self.failed.notify_one();
    }

    /// Waits for [`Outbound::fail`].
    pub(super) async fn failure(&self) -> Error {
        loop {
            if let Some(error) = &self.lock().failure {
                return error.clone();
            }
            self.failed.notified().await;
        }
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// The connection has ended: memory is given back, later frames are dropped.
    pub(super) fn end(&self, failure: Option<&Error>) {
        let mut queue = self.lock();
        queue.over = true;
        queue.failure = queue.failure.take().or_else(|| failure.cloned());
        queue.frames = VecDeque::new();
        queue.notes = Vec::new();
        self.queued_bytes.store(0, Ordering::Relaxed);
    }

    /// Moves frames for one system call to `out`; credit first, because it is what the other side waits for.
    fn take(&self, out: &mut Vec<Frame>) -> Next {
        let mut queue = self.lock();
        let notes = queue.notes.len().min(WRITE_FRAMES);
        out.extend(queue.notes.drain(..notes).filter_map(|note| note.frame()));
        self.queued_bytes.fetch_add(out.iter().map(Frame::num_bytes).sum(), Ordering::Relaxed);
        let mut bytes = 0;
        while bytes < WRITE_BYTES
            && out.len() < WRITE_FRAMES
            && let Some(frame) = queue.frames.pop_front()
        {
            queue.taken += 1;
            bytes += frame.num_bytes();
            if frame.header[16] == FrameKind::Control as u8 {
                queue.control_bytes -= frame.num_bytes();
            }
            out.push(frame);
        }
        match out.is_empty() {
            false => Next::Write,
            true if !queue.notes.is_empty() => Next::Write,
            true if queue.closing => {
                queue.over = true;
                Next::Finish
            }
            true => Next::Wait,
        }
    }
}

/// Writes until the connection is closed and all is written.
pub(super) async fn write_frames(outbound: &Outbound, mut stream: impl AsyncWrite + Unpin) -> Result<()> {
    let lost = |e: std::io::Error| Error::external(format!("cannot write to the connection: {e}"));
    let mut frames = Vec::new();
    loop {
        match outbound.take(&mut frames) {
            Next::Write => {
                write_all(&mut stream, &frames).await.map_err(lost)?;
                let written = frames.drain(..).map(|frame| frame.num_bytes()).sum();
                outbound.queued_bytes.fetch_sub(written, Ordering::Relaxed);
            }
            Next::Wait => outbound.ready.notified().await,
            Next::Finish => break,
        }
    }
    write_all(&mut stream, &[Frame::goodbye()]).await.map_err(lost)?;
    // The peer may have gone already, having said goodbye itself.
    stream.shutdown().await.or(Ok(()))
}

async fn write_all(stream: &mut (impl AsyncWrite + Unpin), frames: &[Frame]) -> std::io::Result<()> {
    let mut slices = Vec::with_capacity(frames.len() * 2);
    for frame in frames {
        slices.push(IoSlice::new(&frame.header));
        slices.push(IoSlice::new(&frame.body));
    }
    let mut rest = slices.as_mut_slice();
    // Also steps over empty bodies.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let written = stream.write_vectored(rest).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}
