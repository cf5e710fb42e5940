//! Socket channels over real loopback connections, and over memory. Here: what the tests share.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod channels;
mod codec;
mod events;
mod faults;
mod neighbours;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Wake, Waker};
use std::thread::Thread;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, SchemaRef};
use flott_core::{Batch, Joined, Result, StreamElement, SystemThreads, Threads, schema_of};
use flott_plan::{ChannelId, EdgeId, HostId};
use flott_runtime::channel::{ChannelQueue, ChannelSender};
use flott_runtime::network::{Connection, Hello, Listener, Network, NetworkOptions};

fn hello(host: u32) -> Hello {
    Hello { host: HostId(host), token: "job 7, attempt 1".into() }
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn network() -> Network {
    Network::start(&SystemThreads, NetworkOptions::default()).unwrap()
}

fn listen(network: &Network, host: u32) -> (Listener, Receiver<Result<Connection>>) {
    let (peer, peers) = channel();
    let listener = network.listen(anywhere(), hello(host), move |connection| peer.send(connection).unwrap()).unwrap();
    (listener, peers)
}

/// One end of a connection with what its handlers were told.
struct End {
    network: Network,
    connection: Connection,
    control: Receiver<Vec<u8>>,
    ended: Receiver<Result<()>>,
}

fn start(network: Network, connection: Connection) -> End {
    let ((message, control), (end, ended)) = (channel(), channel());
    connection
        .start(move |bytes| message.send(bytes).unwrap_or_default(), move |result| end.send(result).unwrap_or_default())
        .unwrap();
    End { network, connection, control, ended }
}

/// Two processes (here: two I/O threads) and the connection between them.
fn pair() -> (End, End) {
    let (here, there) = (network(), network());
    let (listener, peers) = listen(&there, 1);
    let to = here.connect(listener.address(), hello(0)).unwrap();
    let from = peers.recv().unwrap().unwrap();
    (start(here, to), start(there, from))
}

fn id(from: u32) -> ChannelId {
    ChannelId { edge: EdgeId(3), from, to: 1 }
}

fn numbers() -> SchemaRef {
    schema_of(vec![Field::new("number", DataType::UInt64, false)])
}

fn batch(numbers_of: std::ops::Range<u64>) -> StreamElement {
    let column = Arc::new(numbers_of.collect::<UInt64Array>());
    StreamElement::Batch(Batch::new(RecordBatch::try_new(numbers(), vec![column]).unwrap()))
}

/// The numbers in a batch of [`batch`].
fn values(element: &StreamElement) -> Vec<u64> {
    let StreamElement::Batch(batch) = element else { panic!("expected a batch, found {element:?}") };
    batch.column(0).as_any().downcast_ref::<UInt64Array>().unwrap().values().to_vec()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

/// Takes the next element, waiting for it.
fn pop(queue: &ChannelQueue) -> StreamElement {
    queue.set_receiver(waker());
    loop {
        match queue.pop() {
            Some(element) => return element,
            None => std::thread::park(),
        }
    }
}

/// Waits until a batch may be sent, and sends it.
fn send(sender: &mut ChannelSender, element: StreamElement) {
    sender.set_waker(&waker());
    while matches!(element, StreamElement::Batch(_)) && sender.credit() == 0 {
        std::thread::park();
    }
    sender.send(element);
}

fn spawn(body: impl FnOnce() + Send + 'static) -> Joined {
    SystemThreads.spawn("test", Box::new(body)).unwrap()
}
