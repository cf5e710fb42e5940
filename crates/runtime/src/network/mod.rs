//! Socket channels: many channels over one TCP connection between two processes, with credit (DESIGN §5).
//!
//! - [`Network`] is the process's I/O thread; it listens and connects.
//! - [`handshake`]: who the peer is, and whether it speaks this version.
//! - [`Connection`] opens channels; a sender looks to a task like that of a local channel, and the reader's end is the
//!   same [`crate::channel::ChannelQueue`].
//! - `outbound.rs` writes [`frame`]s, `inbound.rs` reads them.
//! - [`memory`] runs both ends of a connection without sockets, for simulations and tests.
//!
//! What does not live here: which channels exist (the execution graph says), what control bytes mean (the task host
//! says), heartbeats (a machine that vanishes without a FIN is noticed by those who expect to hear from it).

mod connection;
pub mod frame;
pub mod handshake;
mod inbound;
pub mod memory;
mod outbound;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use flott_core::{Error, Joined, Result, Threads};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, Semaphore, mpsc};

pub use connection::{Connection, ConnectionStats};
pub use handshake::Hello;
pub use outbound::MAX_CONTROL_BYTES;

use connection::{Shared, drive};

/// Peers that may be in the middle of their handshake with one listener; others wait in the system's queue.
const MAX_HANDSHAKES: usize = 64;

/// Limits of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// A peer must have connected and said who it is within so many milliseconds.
    pub handshake_ms: u64,
    /// Connections that are still open when the network is shut down get so many milliseconds to close in order.
    pub linger_ms: u64,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self { handshake_ms: 10_000, linger_ms: 2_000 }
    }
}

/// The I/O thread of a process. Dropping it shuts it down.
pub struct Network {
    inner: Arc<Inner>,
    thread: Mutex<Option<Joined>>,
}

struct Inner {
    handle: Handle,
    options: NetworkOptions,
    stop: Notify,
    /// Held by every connection while it lives; the I/O thread waits for the last.
    alive: Mutex<Option<mpsc::Sender<()>>>,
    connections: Mutex<Vec<Weak<Shared>>>,
}

/// Listens until it is dropped.
pub struct Listener {
    address: SocketAddr,
    stop: Arc<Notify>,
}

impl Listener {
    /// Where it listens; the port is a real one even if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

impl Network {
    /// Starts the I/O thread.
    pub fn start(threads: &dyn Threads, options: NetworkOptions) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| Error::external(format!("cannot start the network: {e}")))?;
        let (alive, ended) = mpsc::channel(1);
        let inner = Arc::new(Inner {
            handle: runtime.handle().clone(),
            options,
            stop: Notify::new(),
            alive: Mutex::new(Some(alive)),
            connections: Mutex::default(),
        });
        let thread = threads.spawn("flott-network", {
            let inner = Arc::clone(&inner);
            Box::new(move || run(&runtime, &inner, ended))
        })?;
        Ok(Self { inner, thread: Mutex::new(Some(thread)) })
    }

    /// Listens at `address` (port 0: any free one). Each peer that has introduced itself is handed to `on_peer`, on
    /// the I/O thread, as a connection that waits for [`Connection::start`]; one that has not is handed over as the
    /// error, and listening goes on.
    pub fn listen(
        &self,
        address: SocketAddr,
        hello: Hello,
        on_peer: impl Fn(Result<Connection>) + Send + Sync + 'static,
    ) -> Result<Listener> {
        let refused = |e: std::io::Error| Error::user(format!("cannot listen at {address}: {e}"));
        let socket = std::net::TcpListener::bind(address).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let stop = Arc::new(Notify::new());
        let listener = Listener { address, stop: Arc::clone(&stop) };
        let inner = Arc::clone(&self.inner);
        self.inner.handle.spawn(async move {
            tokio::select! {
                () = accept(inner, socket, hello, Arc::new(on_peer)) => {}
                () = stop.notified() => {}
            }
        });
        Ok(listener)
    }

    /// Connects to a process that listens, and waits for its answer. Not to be called on the I/O thread.
    pub fn connect(&self, address: SocketAddr, hello: Hello) -> Result<Connection> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let inner = Arc::clone(&self.inner);
        self.inner.handle.spawn(async move {
            let connected = async {
                let stream = TcpStream::connect(address)
                    .await
                    .map_err(|e| Error::external(format!("cannot connect: {e}")).at("peer", address))?;
                inner.introduce(stream, address, &hello).await
            };
            let connection = inner.in_time(address, connected).await;
            // Nobody waits any more if the network was dropped meanwhile.
            answer.send(connection).ok();
        });
        answered.recv().unwrap_or_else(|_| Err(Error::external("the network was shut down")))
    }

    /// Closes all connections and waits for the I/O thread to end. Not to be called on it.
    pub fn shutdown(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(joined) = thread {
            self.inner.stop.notify_one();
            joined();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The I/O thread.
fn run(runtime: &Runtime, inner: &Inner, mut ended: mpsc::Receiver<()>) {
    runtime.block_on(async {
        inner.stop.notified().await;
        inner.alive.lock().unwrap_or_else(PoisonError::into_inner).take();
        inner.each_connection(|shared| shared.outbound.close());
        if within(inner.options.linger_ms, ended.recv()).await.is_none() {
            let error = Error::external("the network was shut down before the peer had closed");
            inner.each_connection(|shared| shared.outbound.fail(error.clone()));
            ended.recv().await;
        }
    });
}

impl Inner {
    fn each_connection(&self, act: impl Fn(&Shared)) {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connections.iter().filter_map(Weak::upgrade).for_each(|shared| act(&shared));
    }

    async fn introduce(&self, mut stream: TcpStream, address: SocketAddr, hello: &Hello) -> Result<Connection> {
        stream.set_nodelay(true).map_err(|e| Error::external(format!("cannot set up a connection: {e}")))?;
        let theirs = handshake::shake_hands(&mut stream, address, hello).await?;
        let (connection, started) = Connection::new(theirs.host, address);
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let alive = alive.ok_or_else(|| Error::external("the network was shut down"))?;
        let shared = Arc::clone(connection.shared());
        {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            connections.retain(|connection| connection.strong_count() > 0);
            connections.push(Arc::downgrade(&shared));
        }
        let (input, output) = stream.into_split();
        self.handle.spawn(async move {
            drive(shared, input, output, started).await;
            drop(alive);
        });
        Ok(connection)
    }

    async fn in_time(&self, address: SocketAddr, work: impl Future<Output = Result<Connection>>) -> Result<Connection> {
        let limit = self.options.handshake_ms;
        within(limit, work).await.unwrap_or_else(|| {
            Err(Error::external(format!("the peer has not said who it is within {limit} ms")).at("peer", address))
        })
    }
}

type OnPeer = dyn Fn(Result<Connection>) + Send + Sync;

async fn accept(inner: Arc<Inner>, socket: std::net::TcpListener, hello: Hello, on_peer: Arc<OnPeer>) {
    let broken = |e: std::io::Error| Error::external(format!("listening has ended: {e}"));
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return on_peer(Err(broken(error))),
    };
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    while let Ok(turn) = Arc::clone(&handshakes).acquire_owned().await {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return on_peer(Err(broken(error))),
        };
        let (inner, hello, on_peer) = (Arc::clone(&inner), hello.clone(), Arc::clone(&on_peer));
        let spawner = inner.handle.clone();
        spawner.spawn(async move {
            on_peer(inner.in_time(address, inner.introduce(stream, address, &hello)).await);
            drop(turn);
        });
    }
}

/// The answer of `work`, if it comes in time. A limit on a peer that stays silent can only be real time.
#[expect(clippy::disallowed_methods, reason = "sockets live in real time, not in a job's")]
async fn within<T>(ms: u64, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_millis(ms), work).await.ok()
}
