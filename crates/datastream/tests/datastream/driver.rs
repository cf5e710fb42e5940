//! Runs a whole graph in one thread through the operator contract, node by node, at parallelism 1: [`Driver`], an
//! executor for tests.
//!
//! It can fuse runs of functions or not, cut batches, and replace every operator through a snapshot between any two
//! elements: none of this may change what comes out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use flott_core::state::KeyScope;
use flott_core::state::snapshot::StateSection;
use flott_core::state::timers::TimeDomain;
use flott_core::*;
use flott_datastream::{Executor, JobResult};
use flott_plan::{Node, NodeId, NodeKind, Partitioning, StreamGraph};
use flott_state::HashMapBackend;

/// How a graph is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) fuse: bool,
    pub(crate) batch_rows: usize,
    pub(crate) restore: bool,
}

pub(crate) const MODES: [Mode; 4] = [
    Mode { fuse: true, batch_rows: 4096, restore: false },
    Mode { fuse: false, batch_rows: 4096, restore: false },
    Mode { fuse: true, batch_rows: 1, restore: false },
    Mode { fuse: true, batch_rows: 3, restore: true },
];

/// Counters of all operators that ran: by (operator's name, counter).
pub(crate) type Counters = Arc<Mutex<HashMap<(String, String), u64>>>;

pub(crate) struct Driver {
    pub(crate) mode: Mode,
    pub(crate) counters: Counters,
}

impl Driver {
    pub(crate) fn new(mode: Mode) -> Self {
        Self { mode, counters: Counters::default() }
    }
}

type Streams = HashMap<(NodeId, OutputId), Vec<StreamElement>>;

impl Executor for Driver {
    fn execute(&self, graph: StreamGraph, registry: Registry) -> Result<JobResult> {
        let mut registry = registry;
        registry.add_backend("hashmap", Arc::new(HashMapBackend));
        let mut streams = Streams::new();
        let mut done = 0;
        while done < graph.nodes.len() {
            let run = if self.mode.fuse { fused_run(&graph, &registry, done)? } else { 1 };
            self.run(&graph, &registry, done..done + run, &mut streams)?;
            done += run;
        }
        Ok(JobResult::default())
    }
}

fn language(node: &Node, registry: &Registry) -> Result<Option<&'static str>> {
    match &node.kind {
        NodeKind::Operator(spec) => Ok(registry.operator(&spec.factory)?.language()),
        _ => Ok(None),
    }
}

/// How many nodes from `first` on are one run: each reads only the one before, which nobody else reads.
fn fused_run(graph: &StreamGraph, registry: &Registry, first: usize) -> Result<usize> {
    let mut length = 1;
    while let Some(node) = graph.nodes.get(first + length) {
        let before = first + length - 1;
        let reads_it = |n: &Node| n.inputs.iter().any(|e| e.from.0 as usize == before && e.output == OutputId::MAIN);
        let readers = graph.nodes.iter().filter(|n| reads_it(n)).count();
        let forward = matches!(&node.inputs[..], [e] if e.partitioning == Partitioning::Forward && reads_it(node));
        let same = language(&graph.nodes[before], registry)?.is_some()
            && language(node, registry)? == language(&graph.nodes[before], registry)?;
        if readers != 1 || !forward || !same {
            break;
        }
        length += 1;
    }
    Ok(length)
}

impl Driver {
    fn run(
        &self,
        graph: &StreamGraph,
        registry: &Registry,
        nodes: std::ops::Range<usize>,
        streams: &mut Streams,
    ) -> Result<()> {
        let first = &graph.nodes[nodes.start];
        let input = input_of(first, streams);
        match &first.kind {
            NodeKind::Source { spec, watermarks } => {
                assert!(watermarks.is_none(), "this driver has no watermarks in sources");
                let rows = read(&*registry.source(&spec.factory)?(spec)?, first)?;
                streams.insert((NodeId(nodes.start as u32), OutputId::MAIN), self.cut(rows)?);
            }
            NodeKind::Watermarks(strategy) => {
                let out = with_watermarks(&input, strategy, graph.watermark_rows_of(strategy)?)?;
                streams.insert((NodeId(nodes.start as u32), OutputId::MAIN), self.cut(out)?);
            }
            NodeKind::Sink(spec) => write(&*registry.sink(&spec.factory)?(spec)?, first, &input)?,
            NodeKind::Operator(_) => {
                let mut task = Task::new(graph, registry, nodes, &[])?;
                let mut out = Streams::new();
                for element in input {
                    task.take(element, &mut out)?;
                    if self.mode.restore {
                        task = task.restored(graph, registry)?;
                    }
                }
                task.finish(&mut out)?;
                let mut counters = self.counters.lock().unwrap();
                for member in &task.members {
                    for (counter, count) in member.metrics.read() {
                        *counters.entry((member.info.name.clone(), counter)).or_default() += count;
                    }
                }
                for (output, elements) in out {
                    streams.insert(output, self.cut(elements)?);
                }
            }
        }
        Ok(())
    }

    /// Batches of at most so many rows.
    fn cut(&self, elements: Vec<StreamElement>) -> Result<Vec<StreamElement>> {
        let mut out = Vec::new();
        for element in elements {
            let StreamElement::Batch(batch) = element else {
                out.push(element);
                continue;
            };
            for from in (0..batch.num_rows()).step_by(self.mode.batch_rows) {
                let rows = self.mode.batch_rows.min(batch.num_rows() - from);
                out.push(StreamElement::Batch(batch.slice(from, rows)));
            }
        }
        Ok(out)
    }
}

/// The streams a node reads, one after the other; of several only rows and the last watermark.
fn input_of(node: &Node, streams: &Streams) -> Vec<StreamElement> {
    let of = |edge: &flott_plan::Edge| streams.get(&(edge.from, edge.output)).cloned().unwrap_or_default();
    match &node.inputs[..] {
        [edge] => of(edge),
        edges => {
            let all = edges.iter().flat_map(of);
            all.filter(|element| matches!(element, StreamElement::Batch(_))).collect()
        }
    }
}

fn info(node: &Node, graph: Option<&StreamGraph>) -> Arc<OperatorInfo> {
    let schema = |edge: &flott_plan::Edge| graph.and_then(|g| g.edge_schema(edge).cloned());
    Arc::new(OperatorInfo {
        uid: node.uid.clone(),
        name: node.name.clone(),
        index: 0,
        parallelism: 1,
        max_parallelism: 128,
        inputs: node.inputs.iter().take(1).filter_map(schema).collect(),
        output: node.output.clone(),
        side_outputs: node.side_outputs.clone(),
        keys: vec![match node.inputs.first().map(|edge| &edge.partitioning) {
            Some(Partitioning::Hash(columns)) => columns.clone(),
            _ => Vec::new(),
        }],
    })
}

fn read(source: &dyn Source, node: &Node) -> Result<Vec<StreamElement>> {
    let mut splits = source.enumerator(None)?;
    let mut reader = source.reader(&info(node, None))?;
    let clock = ManualClock::default();
    let ctx = ReaderContext { waker: Waker::noop(), clock: &clock, max_rows: 4096 };
    let mut out = Vec::new();
    loop {
        match reader.next_batch(&ctx)? {
            SourceEvent::Batch(_, batch) => out.push(StreamElement::Batch(batch)),
            SourceEvent::SplitFinished(_) => {
                let restored = splits.snapshot()?;
                splits = source.enumerator(Some(&restored))?;
            }
            SourceEvent::NeedSplit => match splits.next_split(0, 1)? {
                NextSplit::Split(split) => {
                    // Through its snapshot, as after a restore.
                    reader.add_split(split)?;
                    let kept = reader.snapshot()?;
                    reader = source.reader(&info(node, None))?;
                    kept.into_iter().try_for_each(|split| reader.add_split(split))?;
                }
                NextSplit::NoMore => return Ok(out),
                NextSplit::Later(_) => return Err(Error::internal("a source that waits")),
            },
            SourceEvent::Wait(_) => return Err(Error::internal("a source that waits")),
        }
    }
}

fn with_watermarks(
    input: &[StreamElement],
    strategy: &WatermarkStrategy,
    every_rows: u32,
) -> Result<Vec<StreamElement>> {
    let (mut latest, mut rows, mut out) = (i64::MIN, 0, Vec::new());
    for element in input {
        let StreamElement::Batch(batch) = element else { continue };
        for row in 0..batch.num_rows() {
            let time = batch.event_time(row).ok_or_else(|| Error::internal("rows without time"))?;
            latest = latest.max(time.0);
            rows += 1;
            out.push(StreamElement::Batch(batch.slice(row, 1)));
            if rows % every_rows == 0 {
                let behind = strategy.out_of_orderness_ms as i64 + 1;
                out.push(StreamElement::Watermark(Timestamp(latest - behind)));
            }
        }
    }
    Ok(out)
}

fn write(sink: &dyn Sink, node: &Node, input: &[StreamElement]) -> Result<()> {
    let mut committer = sink.committer()?.ok_or_else(|| Error::internal("a sink that commits"))?;
    let mut writer = sink.writer(&info(node, None), &[])?;
    for element in input {
        if let StreamElement::Batch(batch) = element {
            writer.write(batch)?;
            let committables = writer.prepare_commit()?;
            let state = writer.snapshot()?;
            writer = sink.writer(&info(node, None), &state)?;
            // Twice, as after a restore.
            committer.commit(&committables)?;
            committer.commit(&committables)?;
        }
    }
    Ok(())
}

/// A run of nodes as one operator.
struct Task {
    nodes: std::ops::Range<usize>,
    operator: Box<dyn Operator>,
    members: Vec<Member>,
    watermark: Timestamp,
    processing_time: Timestamp,
}

type Call<'a> = &'a mut dyn FnMut(&mut dyn Operator, &mut Context<'_>) -> Result<Progress>;

impl Task {
    fn new(
        graph: &StreamGraph,
        registry: &Registry,
        nodes: std::ops::Range<usize>,
        restored: &[Vec<StateSection>],
    ) -> Result<Self> {
        let mut specs = Vec::new();
        let mut members = Vec::new();
        for (at, node) in graph.nodes[nodes.clone()].iter().enumerate() {
            let NodeKind::Operator(spec) = &node.kind else { return Err(Error::internal("no operator")) };
            let info = info(node, Some(graph));
            specs.push((spec.clone(), info.clone()));
            let key_types: Vec<_> = match info.inputs.first() {
                Some(schema) => info.keys[0].iter().map(|&c| schema.field(c).data_type().clone()).collect(),
                None => Vec::new(),
            };
            let keyed = !key_types.is_empty();
            let scope = KeyScope { key_types, key_groups: 0..128, max_parallelism: 128 };
            let sections = restored.get(at).cloned().unwrap_or_default();
            let state = if keyed { Some(registry.backend("hashmap")?.create(scope, sections)?) } else { None };
            members.push(Member { info, state, operator_state: OperatorState::default(), metrics: Metrics::default() });
        }
        let factory = registry.operator(&specs[0].0.factory)?;
        let operator = match &specs[..] {
            [(spec, info)] => factory.create(spec, info)?,
            _ => factory.fuse(&specs)?,
        };
        let (watermark, processing_time) = (Timestamp::MIN, Timestamp(0));
        let mut task = Self { nodes, operator, members, watermark, processing_time };
        task.call(0, &mut |op, ctx| op.open(ctx).map(|()| Progress::Done), &mut Streams::new())?;
        Ok(task)
    }

    /// The same task, made anew from its snapshot.
    fn restored(mut self, graph: &StreamGraph, registry: &Registry) -> Result<Self> {
        self.call(0, &mut |op, ctx| op.flush(ctx).map(|()| Progress::Done), &mut Streams::new())?;
        let mut sections = Vec::new();
        for member in &mut self.members {
            sections.push(match &mut member.state {
                Some(state) => state.snapshot()?.complete()?,
                None => Vec::new(),
            });
        }
        let mut new = Self::new(graph, registry, self.nodes.clone(), &sections)?;
        new.watermark = self.watermark;
        for (new, old) in new.members.iter_mut().zip(self.members) {
            for (counter, count) in old.metrics.read() {
                new.metrics.counter(&counter).add(count);
            }
        }
        Ok(new)
    }

    fn call(&mut self, member: usize, call: Call<'_>, out: &mut Streams) -> Result<()> {
        let mut outbox = Outbox::default();
        let mut progress = self.once(member, call, &mut outbox)?;
        while progress == Progress::Again {
            progress = self.once(0, &mut |op, ctx| op.resume(ctx), &mut outbox)?;
        }
        for emitted in outbox.emitted {
            assert!(emitted.batch.num_rows() <= 4096, "a batch of {} rows", emitted.batch.num_rows());
            self.members[emitted.member].metrics.counter("numRecordsOut").add(emitted.batch.num_rows() as u64);
            let node = NodeId((self.nodes.start + emitted.member) as u32);
            out.entry((node, emitted.output)).or_default().push(StreamElement::Batch(emitted.batch));
        }
        for (member, request) in outbox.requests {
            let answer = futures::executor::block_on(request.future);
            let mut response = Some(Response { payload: request.payload, answer });
            self.call(member, &mut |op, ctx| op.on_response(response.take().unwrap(), ctx), out)?;
        }
        Ok(())
    }

    fn once(&mut self, member: usize, call: Call<'_>, outbox: &mut Outbox) -> Result<Progress> {
        let mut ctx = Context::new(&mut self.members, member, outbox, self.watermark, self.processing_time);
        let progress = call(&mut *self.operator, &mut ctx)?;
        for state in self.members.iter_mut().filter_map(|m| m.state.as_mut()) {
            state.end_call()?;
        }
        Ok(progress)
    }

    fn take(&mut self, element: StreamElement, out: &mut Streams) -> Result<()> {
        match element {
            StreamElement::Batch(batch) => {
                self.members[0].metrics.counter("numRecordsIn").add(batch.num_rows() as u64);
                self.call(0, &mut |op, ctx| op.process(InputId(0), batch.clone(), ctx), out)
            }
            StreamElement::Watermark(at) if at > self.watermark => {
                self.watermark = at;
                self.call(0, &mut |op, ctx| op.on_watermark(at, ctx), out)?;
                for member in 0..self.members.len() {
                    while let Some(timers) = self.due(member, TimeDomain::EventTime, at)? {
                        self.call(member, &mut |op, ctx| op.on_timers(&timers, ctx), out)?;
                    }
                }
                let last = NodeId(self.nodes.end as u32 - 1);
                out.entry((last, OutputId::MAIN)).or_default().push(StreamElement::Watermark(at));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn due(&mut self, member: usize, domain: TimeDomain, at: Timestamp) -> Result<Option<Vec<state::timers::Timer>>> {
        let Some(state) = &mut self.members[member].state else { return Ok(None) };
        let mut timers = Vec::new();
        state.due_timers(domain, at, 2, &mut timers)?;
        Ok((!timers.is_empty()).then_some(timers))
    }

    /// Processing time passes by a second, then the input ends.
    fn finish(&mut self, out: &mut Streams) -> Result<()> {
        self.processing_time = Timestamp(1000);
        for member in 0..self.members.len() {
            while let Some(timers) = self.due(member, TimeDomain::ProcessingTime, self.processing_time)? {
                self.call(member, &mut |op, ctx| op.on_timers(&timers, ctx), out)?;
            }
        }
        self.take(StreamElement::Watermark(Timestamp::MAX), out)?;
        self.call(0, &mut |op, ctx| op.finish(ctx), out)
    }
}
