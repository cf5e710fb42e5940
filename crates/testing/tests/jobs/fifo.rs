//! Channels are first in, first out: whatever the selector, the parallelism, the processes, the batches and the
//! barriers that overtake, a receiver gets the rows of each sender in the order they were sent, and none is missing.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flott_checkpoint::InMemory;
use flott_core::{
    Batch, NextSplit, OperatorInfo, Partitioner, ReaderContext, Registry, Result, Sink, SinkWriter, Source,
    SourceEvent, SourceReader, Spec, Split, SplitEnumerator, Wait,
};
use flott_plan::{NodeKind, Partitioning, TaskId, VertexId};
use flott_runtime::master::JobEnd;
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{Graph, registry, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::random::in_flight;
use super::row::{Recorded, Row, batch, hosts, read, schema, simulation};

/// Rows of each sender.
const COUNT: i64 = 400;

/// One of each selector; rows are (sender, number, something).
fn selectors() -> [Partitioning; 8] {
    [
        Partitioning::Forward,
        Partitioning::Hash(vec![2]),
        Partitioning::Rebalance,
        Partitioning::Rescale,
        Partitioning::Broadcast,
        Partitioning::Shuffle,
        Partitioning::Global,
        Partitioning::Custom(Spec::new("by_number", &()).unwrap()),
    ]
}

/// By receiver and sender, the numbers of the rows in the order in which they came.
type Numbers = BTreeMap<(u32, i64), Vec<i64>>;

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Numbers>>);

impl Received {
    fn check(&self, senders: u32, receivers: u32, how: &Partitioning, what: &str) {
        let received = self.0.lock().unwrap();
        for ((receiver, sender), numbers) in received.iter() {
            let in_order = numbers.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(in_order, "{what}: rows of sender {sender} at receiver {receiver}: {numbers:?}");
        }
        let copies = if *how == Partitioning::Broadcast { receivers } else { 1 };
        for sender in 0..i64::from(senders) {
            let of_sender = received.iter().filter(|((_, from), _)| *from == sender);
            let mut numbers: Vec<i64> = of_sender.flat_map(|(_, numbers)| numbers).copied().collect();
            numbers.sort_unstable();
            let expected = (0..COUNT).flat_map(|number| (0..copies).map(move |_| number));
            assert!(numbers.into_iter().eq(expected), "{what}: each row of sender {sender}");
        }
    }
}

/// Gives each reader one split: its own rows.
struct Stamped(u64);

struct Splits(Vec<u32>);

impl Source for Stamped {
    fn enumerator(&self, _: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(Splits(Vec::new())))
    }

    fn reader(&self, info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        let random = SmallRng::seed_from_u64(self.0 ^ u64::from(info.index));
        Ok(Box::new(Reader { sender: i64::from(info.index), random, next: None }))
    }
}

impl SplitEnumerator for Splits {
    fn next_split(&mut self, reader: u32, _: u32) -> Result<NextSplit> {
        if self.0.contains(&reader) {
            return Ok(NextSplit::NoMore);
        }
        self.0.push(reader);
        Ok(NextSplit::Split(Split { id: reader.to_string().into(), position: Vec::new() }))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

struct Reader {
    sender: i64,
    random: SmallRng,
    next: Option<i64>,
}

impl SourceReader for Reader {
    fn add_split(&mut self, _: Split) -> Result<()> {
        self.next = Some(0);
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        let Some(next) = self.next else { return Ok(SourceEvent::NeedSplit) };
        let split = self.sender.to_string();
        if next == COUNT {
            self.next = None;
            return Ok(SourceEvent::SplitFinished(split.into()));
        }
        // What is collected is sent when the task waits.
        if self.random.random_bool(0.1) {
            return Ok(SourceEvent::Wait(Wait::Until(ctx.clock.now().saturating_add(1))));
        }
        let to = (next + self.random.random_range(1..=ctx.max_rows.min(20) as i64)).min(COUNT);
        let rows: Vec<Row> = (next..to).map(|number| (self.sender, number, self.random.random_range(0..50))).collect();
        self.next = Some(to);
        Ok(SourceEvent::Batch(split.into(), batch(&rows)))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        Ok(Vec::new())
    }
}

struct Receiver {
    received: Received,
    index: u32,
}

impl Sink for Received {
    fn writer(&self, info: &Arc<OperatorInfo>, _: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Receiver { received: self.clone(), index: info.index }))
    }
}

impl SinkWriter for Receiver {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let mut received = self.received.0.lock().unwrap();
        for (sender, number, _) in read(batch) {
            received.entry((self.index, sender)).or_default().push(number);
        }
        Ok(())
    }
}

struct ByNumber;

impl Partitioner for ByNumber {
    fn partition(&mut self, batch: &Batch, tasks: u32, out: &mut Vec<u32>) -> Result<()> {
        out.extend(read(batch).iter().map(|(_, number, _)| (number * 7 / 3) as u32 % tasks));
        Ok(())
    }
}

/// A job from a seed: sources and sinks with one edge between them.
struct Case {
    graph: Graph,
    registry: Registry,
    received: Received,
    tasks: [u32; 2],
}

fn case(seed: u64, how: &Partitioning, random: &mut SmallRng) -> Case {
    let (mut registry, received) = (registry(), Received::default());
    registry.add_source("stamped", Arc::new(move |_: &Spec| Ok(Box::new(Stamped(seed)))));
    registry.add_partitioner("by_number", Arc::new(|_: &Spec| Ok(Box::new(ByNumber))));
    let sink = received.clone();
    registry.add_sink("received", Arc::new(move |_: &Spec| Ok(Box::new(sink.clone()))));
    let options = [
        ("pipeline.operator-chaining.enabled", "false".to_owned()),
        ("flott.batch.rows", ["1", "5", "64"][random.random_range(0..3)].to_owned()),
        ("taskmanager.network.memory.buffers-per-channel", random.random_range(1..=4).to_string()),
        ("execution.checkpointing.interval", "1 ms".to_owned()),
        ("execution.checkpointing.unaligned.enabled", "true".to_owned()),
        ("flott.threads", random.random_range(1..=3).to_string()),
    ];
    let mut graph = Graph::new(&options.each_ref().map(|(key, value)| (*key, value.as_str()))).unwrap();
    let spec = |name: &str| Spec::new(name, &()).unwrap();
    let senders = random.random_range(1..=4);
    let receivers = if *how == Partitioning::Forward { senders } else { random.random_range(1..=4) };
    let source = graph.add("source", NodeKind::Source { spec: spec("stamped"), watermarks: None }, &[], schema());
    let sink = graph.add("sink", NodeKind::Sink(spec("received")), &[(source, how.clone())], schema());
    graph.node(source).parallelism = Some(senders);
    graph.node(sink).parallelism = Some(receivers);
    Case { graph, registry, received, tasks: [senders, receivers] }
}

#[test]
fn rows_of_a_sender_keep_their_order_in_every_schedule() {
    for (index, how) in selectors().iter().enumerate() {
        let mut overtaken = 0;
        for seed in 0..25 {
            let seed = 100 * index as u64 + seed;
            let mut random = SmallRng::seed_from_u64(seed);
            let Case { graph, registry, received, tasks } = case(seed, how, &mut random);
            let store = Recorded::default();
            let mut simulation = simulation(seed, &InMemory::default());
            simulation.store = Box::new(store.clone());
            simulation.slow = (0..4)
                .map(|index| (TaskId { vertex: VertexId(1), index }, random.random_range(1..40)))
                .collect::<BTreeMap<_, _>>();
            let hosts = hosts(seed);
            let ran = simulate(&Arc::new(graph.tasks(hosts).unwrap()), &registry, simulation).unwrap();
            assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
            received.check(tasks[0], tasks[1], how, &format!("{how:?}, seed {seed}, {hosts} hosts"));
            overtaken += store.manifests().iter().map(in_flight).sum::<usize>();
        }
        // Worth something only where barriers did overtake rows.
        assert_eq!(overtaken > 0, how.may_overtake(), "{how:?}");
    }
}

#[test]
fn rows_of_a_sender_keep_their_order_on_threads() {
    for (index, how) in selectors().iter().enumerate() {
        for seed in 0..4 {
            let seed = 1000 + 100 * index as u64 + seed;
            let Case { graph, registry, received, tasks } = case(seed, how, &mut SmallRng::seed_from_u64(seed));
            let ran = run(&graph, &registry, None, |_, _| (), |_| ()).unwrap();
            assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
            received.check(tasks[0], tasks[1], how, &format!("{how:?}, seed {seed}, threads"));
        }
    }
}
