//! `neighbours`: channels that share a connection with one whose reader has stopped, beside the same channels without.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Wake, Waker};
use std::thread::Thread;

use arrow_array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use flott_core::key::hash_keys;
use flott_core::{Batch, Error, Result, StreamElement, SystemThreads, schema_of};
use flott_plan::{ChannelId, EdgeId, HostId};
use flott_runtime::channel::{ChannelQueue, ChannelSender};
use flott_runtime::network::{Connection, Hello, Network, NetworkOptions};

use crate::measure::{Measured, Spread, Stopwatch, child};
use crate::report::{Runs, Section};

/// The benchmark's name.
pub(crate) const NAME: &str = "neighbours";

/// Channels whose readers take what comes.
const NEIGHBOURS: u32 = 8;
/// Batches of each of them.
const BATCHES: u32 = 1500;
const ROWS: usize = 4096;
/// Batches that a channel may be ahead of its reader.
const CREDIT: u32 = 8;

/// Runs both cases in turn.
pub(crate) fn bench(runs: usize) -> Result<Section> {
    let mut cases = ["without", "with"].map(|case| Runs { contender: case.to_owned(), runs: Vec::new() });
    for _ in 0..runs {
        for case in &mut cases {
            case.runs.push(child(&[NAME.to_owned(), case.contender.clone()])?);
        }
    }
    let mut table = vec![
        ["blocked channel", "M rows/s: median (min–max)", "against without", "CPU s", "peak queued KiB", "peak MiB"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let rate = |run: &Measured| run.rows_out as f64 / run.seconds / 1e6;
    for case in &cases {
        let rates = Spread::of(case.runs.iter().map(rate));
        // Of runs that followed each other, so that what else the machine does hits both.
        let ratios = Spread::of(case.runs.iter().zip(&cases[0].runs).map(|(run, without)| rate(run) / rate(without)));
        let queued = Spread::of(case.runs.iter().filter_map(|run| run.extra.get("queued").copied()));
        table.push(vec![
            case.contender.clone(),
            format!("{:.1} ({:.1}–{:.1})", rates.median, rates.min, rates.max),
            format!("{:.0} %", ratios.median * 100.0),
            format!("{:.2}", case.cpu_seconds().median),
            format!("{:.0}", queued.max / 1024.0),
            format!("{:.0}", case.peak_mib().median),
        ]);
    }
    let about = format!(
        "{NEIGHBOURS} channels over one loopback connection between two I/O threads, {BATCHES} batches each of {ROWS} \
         rows as they leave an exchange (three columns of 8 bytes and the key's hash), {CREDIT} batches of credit; \
         without and with one more channel, whose sender always has rows and whose reader takes none. The rate is that \
         of the {NEIGHBOURS}; the ratio is the median over neighbouring runs. Queued is the most that ever waited to \
         be written."
    );
    Ok(Section { name: NAME, about, table })
}

/// One run, in this process: `with` or `without`.
pub(crate) fn run(args: &[String]) -> Result<Measured> {
    let blocked = match args {
        [case] if case == "with" => true,
        [case] if case == "without" => false,
        _ => return Err(Error::internal(format!("{NAME} of {args:?}"))),
    };
    let network = || Network::start(&SystemThreads, NetworkOptions::default());
    let (here, there) = (network()?, network()?);
    let (peer, peers) = channel();
    let listener = there.listen(SocketAddr::from(([127, 0, 0, 1], 0)), hello(1), move |connection| {
        peer.send(connection).unwrap_or_default();
    })?;
    let to = here.connect(listener.address(), hello(0))?;
    let from = peers.recv().map_err(|_| Error::internal("nobody has connected"))??;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for end in [&to, &from] {
        let waker = waker.clone();
        end.start(|_| (), move |_| waker.wake())?;
    }
    let mut all = Channels::open(&to, &from, &waker)?;
    let batch = StreamElement::Batch(batch()?);
    let watch = Stopwatch::start()?;
    while all.left() > 0 {
        if blocked && all.blocked.0.credit() > 0 {
            all.blocked.0.send(batch.clone());
        }
        if !all.step(&batch) {
            if let Some(error) = to.error().or_else(|| from.error()) {
                return Err(error);
            }
            std::thread::park();
        }
    }
    let mut measured = watch.stop(u64::from(NEIGHBOURS * BATCHES) * ROWS as u64)?;
    let mut held = 0;
    while all.blocked.1.pop().is_some() {
        held += 1;
    }
    let expected = if blocked { CREDIT } else { 0 };
    if held != expected {
        return Err(Error::internal(format!("expected {expected} batches in the blocked channel, found {held}")));
    }
    measured.extra.insert("queued".to_owned(), to.stats().peak_queued_bytes as f64);
    Ok(measured)
}

/// Both ends of all channels.
struct Channels {
    blocked: (ChannelSender, Arc<ChannelQueue>),
    neighbours: Vec<Neighbour>,
}

struct Neighbour {
    sender: ChannelSender,
    queue: Arc<ChannelQueue>,
    to_send: u32,
    to_take: u32,
}

impl Channels {
    fn open(to: &Connection, from: &Connection, waker: &Waker) -> Result<Self> {
        let open = |index: u32| {
            let id = ChannelId { edge: EdgeId(0), from: index, to: 0 };
            let queue = from.open_receiver(id, schema(), CREDIT)?;
            queue.set_receiver(waker.clone());
            let sender = to.open_sender(id)?;
            sender.set_waker(waker);
            Ok((sender, queue))
        };
        let neighbour =
            |index| open(index).map(|(sender, queue)| Neighbour { sender, queue, to_send: BATCHES, to_take: BATCHES });
        Ok(Self { blocked: open(0)?, neighbours: (1..=NEIGHBOURS).map(neighbour).collect::<Result<_>>()? })
    }

    fn left(&self) -> u32 {
        self.neighbours.iter().map(|neighbour| neighbour.to_take).sum()
    }

    /// Sends a batch and takes one wherever that is possible; whether it was anywhere.
    fn step(&mut self, batch: &StreamElement) -> bool {
        let mut moved = false;
        for neighbour in &mut self.neighbours {
            if neighbour.to_send > 0 && neighbour.sender.credit() > 0 {
                neighbour.sender.send(batch.clone());
                neighbour.to_send -= 1;
                moved = true;
            }
            if neighbour.queue.pop().is_some() {
                neighbour.to_take -= 1;
                moved = true;
            }
        }
        moved
    }
}

fn hello(host: u32) -> Hello {
    Hello { host: HostId(host), token: NAME.to_owned() }
}

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    schema_of(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
        Field::new("time", time, false),
    ])
}

fn batch() -> Result<Batch> {
    let numbers = || 0..ROWS as i64;
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers()));
    let value = Arc::new(Int64Array::from_iter_values(numbers()));
    let time = Arc::new(TimestampMillisecondArray::from_iter_values(numbers()));
    let hashes = hash_keys(&[Arc::clone(&key)])?;
    Ok(Batch::of(schema(), vec![key, value, time], ROWS)?.with_key_hashes(Some(hashes)))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
