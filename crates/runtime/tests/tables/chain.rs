//! Operators of one task: sinks that wait, chunks, clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use flott_core::{
    Batch, Clock, Context, InputId, ManualClock, Member, Metrics, Operator, OperatorInfo, OperatorState, OutputId,
    Progress, Result, SinkWriter, Timestamp, Wait, WatermarkStrategy,
};
use flott_runtime::chain::{ChainNode, Item, NodeKind, OperatorChain, Ran, Target};
use flott_runtime::watermarks::{WatermarkGenerator, WatermarkState};

use crate::gate::rows;

fn member(name: &str) -> Member {
    let schema = rows([]).schema();
    let info = OperatorInfo {
        uid: name.into(),
        name: name.into(),
        index: 0,
        parallelism: 1,
        max_parallelism: 128,
        inputs: vec![schema.clone()],
        output: schema,
        side_outputs: Vec::new(),
        keys: vec![Vec::new()],
    };
    let (operator_state, metrics) = (OperatorState::default(), Metrics::default());
    Member { info: Arc::new(info), state: None, operator_state, metrics }
}

/// A node that reads the one before it and is read by the nodes named.
fn node(name: &str, kind: NodeKind, readers: &[usize]) -> ChainNode {
    let outputs = readers.iter().map(|&to| (0, OutputId::MAIN, Target::Node(to, InputId(0)))).collect();
    ChainNode::new(kind, vec![member(name)], outputs, Timestamp::MIN)
}

/// For each batch gives the numbers up to that of its first row, one at a time.
struct Count(i64, i64);

impl Operator for Count {
    fn process(&mut self, _: InputId, _: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        self.0 = 0;
        self.resume(ctx)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        ctx.emit(rows([self.0]));
        self.0 += 1;
        Ok(if self.0 < self.1 { Progress::Again } else { Progress::Done })
    }
}

#[derive(Clone, Default)]
struct Sink {
    open: Arc<AtomicBool>,
    written: Arc<std::sync::Mutex<usize>>,
    until: Option<Timestamp>,
}

impl SinkWriter for Sink {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        *self.written.lock().unwrap() += batch.num_rows();
        Ok(())
    }

    fn ready(&mut self, _: &Waker, _: &dyn Clock) -> Result<Option<Wait>> {
        Ok((!self.open.load(Ordering::SeqCst)).then_some(self.until.map_or(Wait::Waker, Wait::Until)))
    }
}

fn run(chain: &mut OperatorChain, to_rest: bool) -> Ran {
    let clock = ManualClock::default();
    loop {
        let run = if to_rest { OperatorChain::run_to_rest } else { OperatorChain::run_one };
        match run(chain, Waker::noop(), &clock).unwrap() {
            Ran::Work => {}
            other => return other,
        }
    }
}

#[test]
fn nothing_piles_up_in_front_of_a_sink_that_waits() {
    // Two branches: rows for the open sink go on until they would need the operator that feeds the closed one too.
    let (closed, open) = (Sink::default(), Sink::default());
    open.open.store(true, Ordering::SeqCst);
    let nodes = vec![
        node("count", NodeKind::Operator(Box::new(Count(0, 1000))), &[1, 2]),
        node("closed", NodeKind::Sink(Box::new(closed.clone())), &[]),
        node("open", NodeKind::Sink(Box::new(open.clone())), &[]),
    ];
    let mut chain = OperatorChain::new(nodes, Vec::new(), 1);
    chain.push(Item::Batch(InputId(0), rows([1])));
    assert_eq!(run(&mut chain, false), Ran::Waiting(Wait::Waker));
    assert_eq!(chain.nodes[1].inbox.len(), 1);
    assert_eq!(*open.written.lock().unwrap(), 1);

    // A snapshot needs every call to come to its end: the rest is part of it.
    assert_eq!(run(&mut chain, true), Ran::Waiting(Wait::Waker));
    assert_eq!(chain.nodes[1].inbox.len(), 1000);
    closed.open.store(true, Ordering::SeqCst);
    assert_eq!(run(&mut chain, false), Ran::Nothing);
    assert_eq!((*closed.written.lock().unwrap(), *open.written.lock().unwrap()), (1000, 1000));
}

#[test]
fn of_two_sinks_that_wait_the_earlier_time_counts() {
    let sink = |until: Option<i64>| Box::new(Sink { until: until.map(Timestamp), ..Sink::default() });
    for (one, other, expected) in [
        (Some(5), Some(3), Wait::Until(Timestamp(3))),
        (Some(3), Some(5), Wait::Until(Timestamp(3))),
        (None, Some(5), Wait::Until(Timestamp(5))),
        (Some(5), None, Wait::Until(Timestamp(5))),
        (None, None, Wait::Waker),
    ] {
        let nodes = vec![
            node("source", NodeKind::Source, &[1, 2]),
            node("one", NodeKind::Sink(sink(one)), &[]),
            node("other", NodeKind::Sink(sink(other)), &[]),
        ];
        let mut chain = OperatorChain::new(nodes, Vec::new(), 1);
        chain.push(Item::Batch(InputId(0), rows([1])));
        assert_eq!(run(&mut chain, false), Ran::Waiting(expected));
    }
}

#[test]
fn a_generator_that_begins_anew_does_not_take_back_a_promise() {
    let strategy = WatermarkStrategy::for_monotonous_timestamps().with_time_column(0).with_every_rows(1);
    let generator = WatermarkGenerator::new(strategy, WatermarkState::default());
    let mut nodes = vec![
        node("watermarks", NodeKind::Watermarks(generator), &[1]),
        node("count", NodeKind::Operator(Box::new(Count(0, 1))), &[]),
    ];
    // As after a restore at another parallelism: the clocks are known, what the generators had seen is not.
    nodes.iter_mut().for_each(|node| node.clock = Timestamp(100));
    let mut chain = OperatorChain::new(nodes, Vec::new(), 1);
    for (row, clock) in [(50, 100), (90, 100), (120, 119), (110, 119)] {
        chain.push(Item::Batch(InputId(0), rows([row])));
        run(&mut chain, false);
        assert_eq!(chain.nodes[1].clock, Timestamp(clock), "after {row}");
    }
}
