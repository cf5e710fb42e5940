//! A connection without sockets, for simulations and tests: [`link`] makes its two ends. They run the same code as over
//! TCP, from handlers to frames; only the stream of bytes is another. Nothing moves by itself: whoever holds the ends
//! says which of them goes on, and how many bytes arrive.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use flott_plan::HostId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Connection, drive};

/// Two ends of one connection, the one in `a` and the one in `b`. In each direction `capacity` bytes at most (at least
/// 1) have left one end and not been read at the other, as in a socket's buffers.
pub fn link(a: HostId, b: HostId, capacity: usize) -> [MemoryEnd; 2] {
    let (to_a, to_b) = (Pipe::new(capacity), Pipe::new(capacity));
    [MemoryEnd::new(b, to_a.clone(), to_b.clone()), MemoryEnd::new(a, to_b, to_a)]
}

/// One end of a connection in memory.
pub struct MemoryEnd {
    connection: Connection,
    /// Until the connection is over.
    life: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    woken: Arc<Woken>,
    incoming: Pipe,
    outgoing: Pipe,
}

impl MemoryEnd {
    fn new(peer: HostId, incoming: Pipe, outgoing: Pipe) -> Self {
        let (connection, started) = Connection::new(peer, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let shared = Arc::clone(connection.shared());
        let life = Box::pin(drive(shared, incoming.clone(), outgoing.clone(), started));
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Self { connection, life: Some(life), woken, incoming, outgoing }
    }

    /// The connection, as this side sees it.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether the connection has ended at this side.
    pub fn is_over(&self) -> bool {
        self.life.is_none()
    }

    /// Whether [`run`](Self::run) has something to do.
    pub fn is_woken(&self) -> bool {
        self.life.is_some() && self.woken.0.load(Ordering::SeqCst)
    }

    /// Goes on until it has to wait: takes in what has arrived, lets leave what fits. Handlers are called from here.
    pub fn run(&mut self) {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Some(life) = &mut self.life
            && life.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        {
            self.life = None;
        }
    }

    /// Bytes on their way to this end.
    pub fn arriving(&self) -> usize {
        let pipe = self.incoming.lock();
        if self.life.is_some() { pipe.bytes.len() - pipe.arrived } else { 0 }
    }

    /// Lets so many more bytes arrive, or all there are if these are fewer.
    pub fn arrive(&self, bytes: usize) {
        let mut pipe = self.incoming.lock();
        pipe.arrived = pipe.bytes.len().min(pipe.arrived.saturating_add(bytes));
        wake(&mut pipe.reader);
    }

    /// The connection breaks: what is on its way in either direction is lost, and both ends find out when they go on.
    pub fn cut(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            let mut pipe = pipe.lock();
            pipe.bytes.clear();
            pipe.arrived = 0;
            pipe.cut = true;
            wake(&mut pipe.reader);
            wake(&mut pipe.writer);
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn wake(waiting: &mut Option<Waker>) {
    if let Some(waker) = waiting.take() {
        waker.wake();
    }
}

/// One direction.
#[derive(Clone)]
struct Pipe(Arc<Mutex<Bytes>>);

struct Bytes {
    /// Written and not yet read.
    bytes: VecDeque<u8>,
    /// Of these, what may be read.
    arrived: usize,
    capacity: usize,
    /// Nothing more will be written.
    ended: bool,
    cut: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        let (bytes, capacity) = (VecDeque::new(), capacity.max(1));
        let empty = Bytes { bytes, arrived: 0, capacity, ended: false, cut: false, reader: None, writer: None };
        Self(Arc::new(Mutex::new(empty)))
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.lock();
        if pipe.arrived == 0 && !pipe.cut && !(pipe.ended && pipe.bytes.is_empty()) {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut left = pipe.arrived.min(out.remaining());
        pipe.arrived -= left;
        while left > 0 {
            let part = pipe.bytes.as_slices().0;
            let length = part.len().min(left);
            out.put_slice(&part[..length]);
            pipe.bytes.drain(..length);
            left -= length;
        }
        wake(&mut pipe.writer);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.lock();
        if pipe.cut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = pipe.capacity - pipe.bytes.len();
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut left = room;
        for slice in slices {
            let length = slice.len().min(left);
            pipe.bytes.extend(&slice[..length]);
            left -= length;
        }
        Poll::Ready(Ok(room - left))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.lock();
        pipe.ended = true;
        wake(&mut pipe.reader);
        Poll::Ready(Ok(()))
    }
}
