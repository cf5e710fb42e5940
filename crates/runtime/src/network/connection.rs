//! A connection between two processes: [`Connection`] opens channels over it; [`drive`] is its life on the I/O thread.
//!
//! The receiver opens a channel first: its credit frame lets the sender send. Until that has come, the sender has no
//! credit and the connection holds back its events, so nothing reaches a process that does not know the channel.
//! Batches are encoded on the thread of the task that sends, decoded on the I/O thread, which never blocks: credit
//! bounds what a channel's queue may hold.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use flott_core::{Error, Result, StreamElement};
use flott_plan::{ChannelId, HostId};
use futures::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::frame::{Frame, FrameHeader, FrameKind};
use super::inbound::FrameReader;
use super::outbound::{Note, Outbound, write_frames};
use crate::channel::{self, ChannelQueue, ChannelSender, RemoteCredit, RemoteSender};
use crate::codec;

/// Channels of one connection and direction. A peer that names more has gone mad.
const MAX_CHANNELS: usize = 1 << 20;

/// Elements that may wait for a channel to be opened: of events in a row two at most, so these are barriers, mostly.
const MAX_HELD_EVENTS: usize = 1 << 16;

/// A connection to another process of the same execution. Clones are the same connection.
///
/// It belongs to one attempt of a job: after a failure a new one is made, so frames of an old attempt cannot arrive in
/// a new one.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    start: Arc<Mutex<Option<oneshot::Sender<Handlers>>>>,
}

/// What one connection has in memory and has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Bytes waiting to be written.
    pub queued_bytes: usize,
    /// The most that ever waited.
    pub peak_queued_bytes: usize,
}

/// What a connection tells its holder; called on the I/O thread, so they must not block.
pub(super) struct Handlers {
    on_control: Box<dyn FnMut(Vec<u8>) + Send>,
    on_end: Box<dyn FnOnce(Result<()>) + Send>,
}

pub(super) struct Shared {
    peer: HostId,
    address: SocketAddr,
    pub(super) outbound: Arc<Outbound>,
    receivers: Mutex<HashMap<ChannelId, Arc<Receiver>, foldhash::fast::RandomState>>,
    senders: Mutex<HashMap<ChannelId, Arc<Sender>, foldhash::fast::RandomState>>,
}

/// This process reads the channel.
struct Receiver {
    schema: SchemaRef,
    queue: Arc<ChannelQueue>,
    /// Batches that the peer may still send.
    credit: Arc<AtomicU32>,
    /// Batches that have come.
    received: AtomicU64,
    backlog: AtomicU32,
}

/// This process writes the channel.
struct Sender {
    credit: Arc<RemoteCredit>,
    taken: AtomicBool,
    /// The peer has opened the channel.
    open: AtomicBool,
    held: Mutex<VecDeque<StreamElement>>,
    /// Batches that were sent.
    sent: AtomicU64,
    last: Mutex<LastFrame>,
    backlog: Arc<Note>,
}

/// The last frame of a channel: its number, and what is in it if more may be added to that.
#[derive(Default)]
struct LastFrame {
    number: u64,
    /// Watermarks and idleness; none if it is anything else.
    events: VecDeque<StreamElement>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    fn new(channel: ChannelId) -> Arc<Self> {
        Arc::new(Self {
            credit: Arc::default(),
            taken: AtomicBool::new(false),
            open: AtomicBool::new(false),
            held: Mutex::default(),
            sent: AtomicU64::new(0),
            last: Mutex::default(),
            backlog: Note::new(channel, FrameKind::Backlog),
        })
    }

    fn send(&self, channel: ChannelId, element: StreamElement, outbound: &Outbound) -> Result<()> {
        if matches!(element, StreamElement::Batch(_)) {
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
        if !self.open.load(Ordering::Acquire) {
            let mut held = lock(&self.held);
            // The channel may have been opened meanwhile.
            if !self.open.load(Ordering::Acquire) {
                return hold(&mut held, element).map_err(|e| at_channel(e, channel));
            }
        }
        self.push(channel, &element, outbound)
    }

    fn push(&self, channel: ChannelId, element: &StreamElement, outbound: &Outbound) -> Result<()> {
        let frame = |element: &StreamElement| {
            let mut body = Vec::new();
            codec::encode(element, &mut body)?;
            Frame::new(channel, kind_of(element), body).map_err(|e| at_channel(e, channel))
        };
        let mut last = lock(&self.last);
        let is_event = matches!(element, StreamElement::Watermark(_) | StreamElement::Idle(_));
        if is_event && !last.events.is_empty() {
            // It needs no credit: while the last frame waits to be written, it holds all that is to be known.
            channel::append(&mut last.events, element.clone());
            let frames = last.events.iter().map(frame).collect::<Result<Vec<_>>>()?;
            if frames.into_iter().reduce(Frame::and).is_some_and(|frame| outbound.replace(last.number, frame)) {
                return Ok(());
            }
        }
        last.number = outbound.push(frame(element)?);
        last.events.clear();
        last.events.extend(is_event.then(|| element.clone()));
        Ok(())
    }

    /// More credit from the peer; the first opens the channel.
    fn give(&self, channel: ChannelId, credit: u32, outbound: &Outbound) -> Result<()> {
        if !self.open.load(Ordering::Acquire) {
            let mut held = lock(&self.held);
            for element in std::mem::take(&mut *held) {
                self.push(channel, &element, outbound)?;
            }
            self.open.store(true, Ordering::Release);
        }
        self.credit.add(credit);
        Ok(())
    }
}

fn hold(held: &mut VecDeque<StreamElement>, element: StreamElement) -> Result<()> {
    if matches!(element, StreamElement::Batch(_)) {
        return Err(Error::internal("a batch was sent without credit"));
    }
    channel::append(held, element);
    match held.len() {
        0..=MAX_HELD_EVENTS => Ok(()),
        _ => Err(Error::external(format!("the peer has not opened a channel after {MAX_HELD_EVENTS} events"))),
    }
}

fn kind_of(element: &StreamElement) -> FrameKind {
    match element {
        StreamElement::Batch(_) => FrameKind::Data,
        StreamElement::Barrier(_) => FrameKind::Barrier,
        StreamElement::Watermark(_) | StreamElement::Idle(_) | StreamElement::EndOfInput => FrameKind::Event,
    }
}

fn at_channel(error: Error, channel: ChannelId) -> Error {
    error.at("channel", format!("{} from task {} to task {}", channel.edge.0, channel.from, channel.to))
}

impl Connection {
    pub(super) fn new(peer: HostId, address: SocketAddr) -> (Self, oneshot::Receiver<Handlers>) {
        let (start, started) = oneshot::channel();
        let shared =
            Shared { peer, address, outbound: Arc::default(), receivers: Mutex::default(), senders: Mutex::default() };
        (Self { shared: Arc::new(shared), start: Arc::new(Mutex::new(Some(start))) }, started)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The process at the other end.
    pub fn peer(&self) -> HostId {
        self.shared.peer
    }

    /// Where the other end is.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Begins to read and write. Nothing is read before, so handlers and channels set up first miss nothing; what is
    /// sent before waits. Both handlers run on the I/O thread and must not block:
    /// `on_control` gets the bytes of each [`Connection::send_control`] of the peer, in order;
    /// `on_end` is called once, with `Ok` after both sides have closed, or with the error that ended the connection,
    /// which names the peer. Channels then stay as they are: nothing more arrives, and what is sent is dropped.
    pub fn start(
        &self,
        on_control: impl FnMut(Vec<u8>) + Send + 'static,
        on_end: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        let handlers = Handlers { on_control: Box::new(on_control), on_end: Box::new(on_end) };
        let start = lock(&self.start).take().ok_or_else(|| Error::internal("a connection was started twice"))?;
        start.send(handlers).map_err(|_| self.error().unwrap_or_else(|| Error::external("the network was shut down")))
    }

    /// Opens a channel that this process reads, and tells the peer: it may send `credit` batches (at least one) ahead
    /// of the reader.
    pub fn open_receiver(&self, channel: ChannelId, schema: SchemaRef, credit: u32) -> Result<Arc<ChannelQueue>> {
        let credit = credit.max(1);
        let queue = ChannelQueue::new(channel, credit);
        let note = Note::new(channel, FrameKind::Credit);
        let left = Arc::new(AtomicU32::new(credit));
        queue.set_remote_sender({
            let (note, left, outbound) = (Arc::clone(&note), Arc::clone(&left), Arc::clone(&self.shared.outbound));
            move |credit| {
                left.fetch_add(credit, Ordering::AcqRel);
                outbound.add_to(&note, credit);
            }
        });
        let receiver = Receiver {
            schema,
            queue: Arc::clone(&queue),
            credit: left,
            received: AtomicU64::new(0),
            backlog: AtomicU32::new(0),
        };
        let mut receivers = lock(&self.shared.receivers);
        if receivers.insert(channel, Arc::new(receiver)).is_some() {
            return Err(at_channel(Error::internal("a channel was opened twice for reading"), channel));
        }
        drop(receivers);
        self.shared.outbound.add_to(&note, credit);
        Ok(queue)
    }

    /// Opens a channel that this process writes. It has no credit until the peer has opened it too.
    pub fn open_sender(&self, channel: ChannelId) -> Result<ChannelSender> {
        let sender = self.shared.sender(channel)?;
        if sender.taken.swap(true, Ordering::AcqRel) {
            return Err(at_channel(Error::internal("a channel was opened twice for writing"), channel));
        }
        let (to_send, to_announce) = (Arc::clone(&self.shared.outbound), Arc::clone(&self.shared.outbound));
        let credit = Arc::clone(&sender.credit);
        let announcing = Arc::clone(&sender);
        let send = move |element| {
            if let Err(error) = sender.send(channel, element, &to_send) {
                to_send.fail(error);
            }
        };
        // Only the latest number travels, and none before the peer has opened the channel.
        let announce = move |waiting| {
            if announcing.open.load(Ordering::Acquire) {
                to_announce.set(&announcing.backlog, waiting);
            }
        };
        Ok(ChannelSender::Remote(RemoteSender::new(credit, send, announce)))
    }

    /// What waits at the sender of a channel that this process reads, in elements, as last announced.
    pub fn backlog(&self, channel: ChannelId) -> u32 {
        lock(&self.shared.receivers).get(&channel).map_or(0, |receiver| receiver.backlog.load(Ordering::Relaxed))
    }

    /// Batches of a channel that this process has sent. What the other side has not yet [received](Self::received) of
    /// them is on its way.
    pub fn sent(&self, channel: ChannelId) -> u64 {
        lock(&self.shared.senders).get(&channel).map_or(0, |sender| sender.sent.load(Ordering::Relaxed))
    }

    /// Batches of a channel that have arrived in this process.
    pub fn received(&self, channel: ChannelId) -> u64 {
        lock(&self.shared.receivers).get(&channel).map_or(0, |receiver| receiver.received.load(Ordering::Relaxed))
    }

    /// Sends bytes to the holder of the connection at the other side, in order, without blocking. Refused when it is
    /// closed, or when the peer has stopped taking them and memory for what waits is used up.
    pub fn send_control(&self, bytes: Vec<u8>) -> Result<()> {
        self.shared.outbound.push_control(bytes).map_err(|e| e.at("host", self.shared.peer.0))
    }

    /// Writes what is queued and then ends the connection in order; the peer does the same in turn. Does not wait.
    pub fn close(&self) {
        self.shared.outbound.close();
    }

    /// Ends the connection at once; `error` becomes its end here.
    pub fn fail(&self, error: Error) {
        self.shared.outbound.fail(error);
    }

    /// The error that ended the connection.
    pub fn error(&self) -> Option<Error> {
        self.shared.outbound.error()
    }

    /// Memory held and carried.
    pub fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            queued_bytes: self.shared.outbound.queued_bytes.load(Ordering::Relaxed),
            peak_queued_bytes: self.shared.outbound.peak_queued_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn sender(&self, channel: ChannelId) -> Result<Arc<Sender>> {
        let mut senders = lock(&self.senders);
        if !senders.contains_key(&channel) && senders.len() >= MAX_CHANNELS {
            return Err(Error::internal(format!("a connection carries more than {MAX_CHANNELS} channels")));
        }
        Ok(Arc::clone(senders.entry(channel).or_insert_with(|| Sender::new(channel))))
    }

    fn receiver(&self, channel: ChannelId) -> Result<Arc<Receiver>> {
        let receiver = lock(&self.receivers).get(&channel).cloned();
        receiver.ok_or_else(|| Error::internal("the peer sent to a channel that is not open"))
    }

    fn receive(&self, header: FrameHeader, body: Vec<u8>, handlers: &mut Handlers) -> Result<()> {
        let channel = header.channel;
        match header.kind {
            FrameKind::Data | FrameKind::Barrier | FrameKind::Event => self.receive_element(header, body),
            FrameKind::Credit => self.sender(channel)?.give(channel, number(&body), &self.outbound),
            FrameKind::Backlog => {
                self.receiver(channel)?.backlog.store(number(&body), Ordering::Relaxed);
                Ok(())
            }
            FrameKind::Control => {
                (handlers.on_control)(body);
                Ok(())
            }
            FrameKind::Goodbye => Ok(()),
        }
    }

    fn receive_element(&self, header: FrameHeader, body: Vec<u8>) -> Result<()> {
        let receiver = self.receiver(header.channel)?;
        if header.kind == FrameKind::Data {
            let spend = |credit: u32| credit.checked_sub(1);
            receiver
                .credit
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, spend)
                .map_err(|_| Error::internal("the peer sent a batch without credit"))?;
            receiver.received.fetch_add(1, Ordering::Relaxed);
        }
        let element = codec::decode(&Buffer::from_vec(body), &receiver.schema)?;
        if kind_of(&element) != header.kind {
            return Err(Error::internal(format!("the peer sent a {:?} frame that holds none", header.kind)));
        }
        receiver.queue.push(element);
        Ok(())
    }

    /// Reads frames until the peer has said goodbye.
    async fn read_frames(
        &self,
        mut reader: FrameReader<impl AsyncRead + Unpin>,
        handlers: &mut Handlers,
    ) -> Result<()> {
        while let Some((header, body)) = reader.next().await? {
            if header.kind == FrameKind::Goodbye {
                self.outbound.close();
                return Ok(());
            }
            self.receive(header, body, handlers).map_err(|e| match header.kind {
                FrameKind::Control => e,
                _ => at_channel(e, header.channel),
            })?;
        }
        Err(Error::external("the connection was lost: the process at the other side has ended or was killed"))
    }

    async fn run(
        &self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        handlers: &mut Handlers,
    ) -> Result<()> {
        let both = async {
            let reading = self.read_frames(FrameReader::new(input), handlers);
            tokio::try_join!(reading, write_frames(&self.outbound, output)).map(|_| ())
        };
        tokio::select! {
            // In this order, so that a simulation repeats itself.
            biased;
            result = both => result,
            failure = self.outbound.failure() => Err(failure),
        }
    }
}

/// The body of a frame whose length was checked with its header.
fn number(body: &[u8]) -> u32 {
    body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The life of a connection, over any two streams of bytes.
pub(super) async fn drive(
    shared: Arc<Shared>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    started: oneshot::Receiver<Handlers>,
) {
    let started = tokio::select! {
        // Whoever has started the connection is told how it ended, even if it failed at the same time.
        biased;
        started = started => started.ok(),
        _ = shared.outbound.failure() => None,
    };
    let Some(mut handlers) = started else {
        shared.outbound.end(Some(&Error::external("the connection was given up before it started")));
        return;
    };
    let result = AssertUnwindSafe(shared.run(input, output, &mut handlers)).catch_unwind().await;
    let result = result
        .unwrap_or_else(|_| Err(Error::internal("the I/O thread panicked")))
        .map_err(|e| e.at("host", shared.peer.0).at("peer", shared.address));
    shared.outbound.end(result.as_ref().err());
    // Queues and credits belong to their tasks; the connection lets go of them.
    lock(&shared.receivers).clear();
    lock(&shared.senders).clear();
    (handlers.on_end)(result);
}
