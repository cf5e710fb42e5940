//! Rows that wait in front of an operator whose requests are at capacity, cut and restored at another parallelism:
//! keyed ones follow their key, those that must stay where they came to (broadcast, global, a user's partitioner) are
//! taken before the cut.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use flott_checkpoint::{CheckpointStore, InMemory};
use flott_core::state::timers::{TimeDomain, Timer};
use flott_core::state::{ListState, TableId, TimerState};
use flott_core::{
    Batch, CheckpointKind, Context, Error, InputId, Namespace, Namespaces, Operator, OperatorInfo, Partitioner,
    Progress, Redistribution, Registry, RequestOrder, Response, Result, Spec,
};
use flott_plan::{NodeKind, Partitioning};
use flott_runtime::master::JobEnd;
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, registry, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::pool::ends;
use super::row::{self, Row, batch, lines, read, schema, simulation};

/// Asks about each batch and gives out, at the end, the answers with the sum of the second input added. Checks that
/// rows are where they belong.
#[derive(Default)]
struct Ask {
    keyed: Option<(TableId, ListState<Row>)>,
    rows: Vec<Row>,
    sum: i64,
    /// Key, task and number of tasks: whether the row belongs there.
    belongs: Option<fn(i64, i64, i64) -> bool>,
}

impl Ask {
    fn keep(&mut self, rows: &Batch, ctx: &mut Context<'_>) -> Result<()> {
        let Some((table, list)) = self.keyed else {
            self.rows.extend(read(rows));
            return Ok(());
        };
        let (keys, mut slots) = (ctx.keys(InputId(0), rows)?, Vec::new());
        let state = ctx.state()?;
        state.locate(table, &keys, Namespaces::All(Namespace::VOID), &mut slots)?;
        for (row, &slot) in read(rows).into_iter().zip(&slots) {
            state.get_mut(list)?.add(slot, row);
        }
        Ok(())
    }
}

impl Operator for Ask {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        if !ctx.info().keys[0].is_empty() {
            let state = ctx.state()?;
            let table = state.open_table("ask", false)?;
            self.keyed = Some((table, state.list(table, "rows")?));
        }
        for entry in ctx.operator_state().get("rows") {
            self.rows.push(postcard::from_bytes(entry)?);
        }
        if let [sum] = ctx.operator_state().get("sum") {
            self.sum = postcard::from_bytes(sum)?;
        }
        Ok(())
    }

    fn process(&mut self, input: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        if input == InputId(1) {
            self.sum += read(&rows).iter().map(|row| row.2).sum::<i64>();
            return Ok(Progress::Done);
        }
        let info = ctx.info();
        let (index, parallelism) = (i64::from(info.index), i64::from(info.parallelism));
        if let Some(belongs) = self.belongs
            && let Some(row) = read(&rows).into_iter().find(|row| !belongs(row.0, index, parallelism))
        {
            return Err(Error::internal(format!("key {} in task {index} of {parallelism}", row.0)));
        }
        self.reissue(rows, ctx)
    }

    /// Requests in flight are dealt out in turn where they have no key, as Flink's are: rows that were taken have had
    /// their place.
    fn reissue(&mut self, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        // As operators do that make their payload themselves: it carries no hash.
        let payload = batch(&read(&rows));
        let answer = batch(&read(&rows).into_iter().map(super::ops::answer).collect::<Vec<_>>());
        ctx.request(payload, RequestOrder::Unordered, Box::pin(async move { Ok(answer) }));
        Ok(Progress::Done)
    }

    fn on_response(&mut self, response: Response, ctx: &mut Context<'_>) -> Result<Progress> {
        self.keep(&response.answer?, ctx)?;
        Ok(Progress::Done)
    }

    fn flush(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let rows = self.rows.iter().map(|row| postcard::to_stdvec(row).map_err(Error::from));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        ctx.operator_state().put("rows", Redistribution::Split, rows);
        ctx.operator_state().put("sum", Redistribution::Broadcast, vec![postcard::to_stdvec(&self.sum)?]);
        Ok(())
    }

    fn finish(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        let mut rows = std::mem::take(&mut self.rows);
        if let Some((table, list)) = self.keyed {
            let state = ctx.state()?;
            for slot in state.slots_of(table, Namespace::VOID, usize::MAX)? {
                rows.append(&mut state.get_mut(list)?.take(slot));
            }
        }
        let rows: Vec<Row> = rows.into_iter().map(|(k, t, v)| (k, t, v + self.sum)).collect();
        ctx.emit(batch(&rows));
        Ok(Progress::Done)
    }
}

/// By the remainder of the key.
struct Remainder;

impl Partitioner for Remainder {
    fn partition(&mut self, rows: &Batch, channels: u32, targets: &mut Vec<u32>) -> Result<()> {
        targets.extend(read(rows).iter().map(|row| (row.0 % i64::from(channels)) as u32));
        Ok(())
    }
}

fn all(sink: &CommittingSink) -> Registry {
    let mut registry = registry();
    let mut add = |name: &str, belongs: Option<fn(i64, i64, i64) -> bool>| {
        let make =
            move |_: &Spec, _: &Arc<OperatorInfo>| Ok(Box::new(Ask { belongs, ..Ask::default() }) as Box<dyn Operator>);
        registry.add_operator(name, Arc::new(make));
    };
    add("ask", None);
    add("ask_custom", Some(|key, task, tasks| key % tasks == task));
    add("ask_global", Some(|_, task, _| task == 0));
    registry.add_partitioner("remainder", Arc::new(|_: &Spec| Ok(Box::new(Remainder))));
    sink.register(&mut registry, "sink");
    registry
}

/// Rows partitioned like this, and factors, broadcast, if there are any.
fn job(parallelism: u32, how: &Partitioning, rows: &[Row], factors: &[Row], unaligned: bool) -> Graph {
    let options = [
        ("flott.batch.rows", "4"),
        ("flott.requests.capacity", "1"),
        ("taskmanager.network.memory.buffers-per-channel", "2"),
        ("execution.checkpointing.unaligned.enabled", if unaligned { "true" } else { "false" }),
    ];
    let mut graph = Graph::new(&options).unwrap();
    let source = |rows: &[Row]| NodeKind::Source { spec: row::source(rows, 2), watermarks: None };
    let main = graph.add("rows", source(rows), &[], schema());
    let name = match how {
        Partitioning::Custom(_) => "ask_custom",
        Partitioning::Global => "ask_global",
        _ => "ask",
    };
    let spec = Spec::new(name, &()).unwrap();
    let mut inputs = vec![(main, how.clone())];
    if !factors.is_empty() {
        inputs.push((graph.add("factors", source(factors), &[], schema()), Partitioning::Broadcast));
    }
    let ask = graph.add("ask", NodeKind::Operator(spec), &inputs, schema());
    for (input, edge) in graph.node(ask).inputs.iter_mut().enumerate() {
        edge.input = InputId(input as u8);
    }
    graph.node(ask).parallelism = Some(parallelism);
    graph.add("sink", NodeKind::Sink(Spec::new("sink", &()).unwrap()), &[(ask, Partitioning::Rebalance)], schema());
    graph
}

#[test]
fn rows_in_front_of_an_operator_at_capacity_come_once_each_and_where_they_belong() {
    let custom = || Partitioning::Custom(Spec::new("remainder", &()).unwrap());
    let cases = [
        ("keyed", Partitioning::Hash(vec![0]), false),
        ("keyed, broadcast beside", Partitioning::Hash(vec![0]), true),
        ("rebalanced, broadcast beside", Partitioning::Rebalance, true),
        ("custom", custom(), false),
        ("custom, broadcast beside", custom(), true),
        ("global", Partitioning::Global, false),
    ];
    for (name, how, broadcast) in cases {
        let mut cuts = 0;
        for seed in 0..50 {
            let mut random = SmallRng::seed_from_u64(seed);
            let rows = row::input(&mut random, 300);
            let factors = if broadcast { row::input(&mut random, 100) } else { Vec::new() };
            let sum: i64 = factors.iter().map(|row| row.2).sum();
            let expected: Vec<Row> =
                rows.iter().map(|row| super::ops::answer(*row)).map(|(k, t, v)| (k, t, v + sum)).collect();
            let (sink, store) = (CommittingSink::default(), InMemory::default());
            sink.break_commits(true);
            let mut first = simulation(seed, &store);
            first.trigger = Some((random.random_range(20..200), CheckpointKind::Checkpoint));
            let unaligned = random.random_bool(0.5);
            let graph = job(random.random_range(1..=4), &how, &rows, &factors, unaligned);
            let ran = simulate(&Arc::new(graph.tasks(1).unwrap()), &all(&sink), first).unwrap();
            let Some((_, from)) = store.latest().unwrap().manifest else {
                assert!(ran.end.is_err(), "{name}, seed {seed}");
                continue;
            };
            cuts += 1;
            sink.break_commits(false);
            let mut second = simulation(seed + 1000, &store);
            second.from = Some(from);
            let graph = job(random.random_range(1..=4), &how, &rows, &factors, unaligned);
            let ran = simulate(&Arc::new(graph.tasks(1).unwrap()), &all(&sink), second).unwrap();
            assert_eq!(ran.end, Ok(JobEnd::Finished), "{name}, seed {seed}");
            assert_eq!(sink.rows().unwrap(), lines(&expected), "{name}, seed {seed}");
        }
        assert!(cuts > 30, "{name}: {cuts} cuts");
    }
}

/// Asks, and has its answers only when a timer of 3 ms gives up waiting; adds the rows of a second input to nothing.
#[derive(Default)]
struct Patient {
    timers: Option<(TableId, TimerState)>,
    waiting: Vec<futures::channel::oneshot::Sender<()>>,
}

impl Operator for Patient {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let state = ctx.state()?;
        let table = state.open_table("patient", false)?;
        self.timers = Some((table, state.timers(table, "due", TimeDomain::ProcessingTime)?));
        Ok(())
    }

    fn process(&mut self, input: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        if input == InputId(1) {
            return Ok(Progress::Done);
        }
        let (table, timers) = self.timers.unwrap();
        let due = ctx.processing_time().saturating_add(3);
        let (keys, mut slots) = (ctx.keys(input, &rows)?, Vec::new());
        let state = ctx.state()?;
        state.locate(table, &keys, Namespaces::All(Namespace::VOID), &mut slots)?;
        slots.iter().try_for_each(|&slot| state.get_mut(timers).map(|timers| timers.register(slot, due)))?;
        let (given, waits) = futures::channel::oneshot::channel();
        self.waiting.push(given);
        let answer = rows.clone();
        let future = async move {
            waits.await.map_err(|_| Error::internal("nobody gave up"))?;
            Ok(answer)
        };
        ctx.request(rows, RequestOrder::Unordered, Box::pin(future));
        Ok(Progress::Done)
    }

    fn on_timers(&mut self, _: &[Timer], _: &mut Context<'_>) -> Result<Progress> {
        self.waiting.drain(..).for_each(|waiting| waiting.send(()).unwrap_or_default());
        Ok(Progress::Done)
    }

    fn on_response(&mut self, response: Response, ctx: &mut Context<'_>) -> Result<Progress> {
        ctx.emit(response.answer?);
        Ok(Progress::Done)
    }
}

#[test]
fn a_snapshot_that_waits_for_rows_to_be_taken_lets_timers_fire() {
    let sink = CommittingSink::default();
    let mut registry = all(&sink);
    let make = |_: &Spec, _: &Arc<OperatorInfo>| Ok(Box::new(Patient::default()) as Box<dyn Operator>);
    registry.add_operator("ask", Arc::new(make));
    let rows = row::input(&mut SmallRng::seed_from_u64(1), 200);
    let mut graph = job(2, &Partitioning::Hash(vec![0]), &rows, &rows, true);
    graph.0.config.set("execution.checkpointing.interval", "1 ms").unwrap();
    let ran = ends("a job of patient operators", move || run(&graph, &registry, None, |_, _| (), |_| ()).unwrap());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert_eq!(sink.rows().unwrap(), lines(&rows));
}
