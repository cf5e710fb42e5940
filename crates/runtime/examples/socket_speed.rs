//! How fast rows go from one task to another over a socket: two I/O threads, one sending and one reading thread, in
//! one process over loopback. `cargo run -p flott-runtime --example socket_speed [batches] [channels]`
#![expect(clippy::disallowed_methods, reason = "an edge reads its own arguments")]

use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::thread::Thread;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field};
use flott_core::{Batch, Clock, StreamElement, SystemClock, SystemThreads, Threads, schema_of};
use flott_plan::{ChannelId, EdgeId, HostId};
use flott_runtime::network::{Hello, Network, NetworkOptions};

const ROWS: u64 = 4096;
const CREDIT: u32 = 8;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(std::thread::current())))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |at: usize, default: u32| std::env::args().nth(at).map_or(Ok(default), |n| n.parse::<u32>());
    let batches = number(1, 50_000)?;
    let channels = number(2, 1)?;
    let schema =
        schema_of(vec![Field::new("key", DataType::UInt64, false), Field::new("value", DataType::UInt64, false)]);
    let columns = (0..2).map(|c| Arc::new((0..ROWS).map(|row| row * 31 + c).collect::<UInt64Array>()) as _).collect();
    let batch = Batch::new(RecordBatch::try_new(Arc::clone(&schema), columns)?);

    let hello = |host| Hello { host: HostId(host), token: "speed".into() };
    let here = Network::start(&SystemThreads, NetworkOptions::default())?;
    let there = Network::start(&SystemThreads, NetworkOptions::default())?;
    let (peer, peers) = mpsc::channel();
    let listener = there.listen("127.0.0.1:0".parse()?, hello(1), move |connection| drop(peer.send(connection)))?;
    let to = here.connect(listener.address(), hello(0))?;
    let from = peers.recv()??;
    to.start(|_| {}, |_| {})?;
    from.start(|_| {}, |_| {})?;

    let id = |from| ChannelId { edge: EdgeId(0), from, to: 0 };
    let queues: Vec<_> =
        (0..channels).map(|c| from.open_receiver(id(c), Arc::clone(&schema), CREDIT)).collect::<Result<_, _>>()?;
    let mut senders: Vec<_> = (0..channels).map(|c| to.open_sender(id(c))).collect::<Result<_, _>>()?;
    let clock = SystemClock::default();
    let start = clock.monotonic_nanos();
    let sending = SystemThreads.spawn(
        "sender",
        Box::new(move || {
            senders.iter().for_each(|sender| sender.set_waker(&waker()));
            let mut left = vec![batches; senders.len()];
            while left.iter().any(|&left| left > 0) {
                let before = left.clone();
                for (sender, left) in senders.iter_mut().zip(&mut left) {
                    while *left > 0 && sender.credit() > 0 {
                        sender.send(StreamElement::Batch(batch.clone()));
                        *left -= 1;
                    }
                }
                if before == left {
                    std::thread::park();
                }
            }
        }),
    )?;
    queues.iter().for_each(|queue| queue.set_receiver(waker()));
    let mut rows = 0;
    while rows < u64::from(batches) * u64::from(channels) * ROWS {
        let before = rows;
        for queue in &queues {
            while let Some(StreamElement::Batch(batch)) = queue.pop() {
                rows += batch.num_rows() as u64;
            }
        }
        if before == rows {
            std::thread::park();
        }
    }
    let seconds = (clock.monotonic_nanos() - start) as f64 / 1e9;
    sending();
    println!(
        "{rows} rows in {seconds:.2} s: {:.1} M rows/s, {:.0} MB/s, at most {} KB queued",
        rows as f64 / seconds / 1e6,
        rows as f64 * 16.0 / seconds / 1e6,
        to.stats().peak_queued_bytes / 1024
    );
    Ok(())
}
