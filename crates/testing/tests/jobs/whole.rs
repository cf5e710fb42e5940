//! Sums per key and event-time window of random rows, against a plain loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use flott_checkpoint::{CheckpointStore, InMemory};
use flott_connectors::collection::CollectionConfig;
use flott_core::{CheckpointKind, Result, Spec, WatermarkStrategy};
use flott_operators::calc::CalcConfig;
use flott_operators::expr::{BinaryOp, Expr, Scalar};
use flott_operators::window_aggregate::WindowAggregateConfig;
use flott_plan::{NodeKind, Partitioning, TaskId, VertexId};
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, registry, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::random::in_flight;
use super::row::{hosts, simulation};

const BEHIND_MS: i64 = 40;
const WINDOW_MS: i64 = 100;
const ROWS: usize = 3000;

/// Rows (key, time, amount), each at most `BEHIND_MS` behind the latest before it, so that none is late.
fn input(seed: u64) -> Vec<(i64, i64, i64)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut latest = -500;
    let mut rows = Vec::new();
    for _ in 0..ROWS {
        latest += random.random_range(0..3);
        rows.push((
            random.random_range(0..20),
            latest - random.random_range(0..BEHIND_MS),
            random.random_range(0..100),
        ));
    }
    rows
}

/// What a plain loop makes of them: amounts of at least 10, per key and window.
fn expected(rows: &[(i64, i64, i64)]) -> Vec<String> {
    let mut sums = BTreeMap::<(i64, i64), (i64, i64)>::new();
    for &(key, time, amount) in rows.iter().filter(|(_, _, amount)| *amount >= 10) {
        let sum = sums.entry((key, time.div_euclid(WINDOW_MS) * WINDOW_MS)).or_default();
        *sum = (sum.0 + 1, sum.1 + amount);
    }
    let mut lines: Vec<_> =
        sums.into_iter().map(|((key, start), (count, sum))| format!("{key}, {start}, {count}, {sum}")).collect();
    lines.sort();
    lines
}

fn column(index: usize) -> Expr {
    Expr::Column(index)
}

/// The job: source with watermarks, filter, window sums by key, window start as a number, sink.
fn job(rows: &[(i64, i64, i64)], splits: u32, options: &[(&str, &str)]) -> Result<Graph> {
    let fields = ["k", "t", "v"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let of = |pick: fn(&(i64, i64, i64)) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(pick)));
    let batch = RecordBatch::try_new(schema.clone(), vec![of(|r| r.0), of(|r| r.1), of(|r| r.2)])?;
    let mut graph = Graph::new(options)?;
    let strategy = WatermarkStrategy {
        time_column: Some(1),
        out_of_orderness_ms: BEHIND_MS as u64,
        every_rows: 50,
        idle_after_ms: None,
    };
    let spec = CollectionConfig::new(&schema, &[batch], splits)?.spec()?;
    let source = graph.add("source", NodeKind::Source { spec, watermarks: Some(strategy) }, &[], schema.clone());
    let enough = Expr::Binary(BinaryOp::GtEq, Box::new(column(2)), Box::new(Expr::Literal(Scalar::int64(10))));
    let filter = Spec::new("calc", &CalcConfig::filter(enough))?;
    let filter = graph.add("filter", NodeKind::Operator(filter), &[(source, Partitioning::Forward)], schema.clone());
    let sums: WindowAggregateConfig = serde_json::from_value(serde_json::json!({
        "size_ms": WINDOW_MS,
        "aggregates": [{"function": "count"}, {"function": "sum", "column": 2}],
    }))
    .map_err(|e| flott_core::Error::internal(e.to_string()))?;
    let output = sums.output(["n", "sum"], &schema, &[0])?;
    let sums = NodeKind::Operator(Spec::new("window_aggregate", &sums)?);
    let sums = graph.add("sums", sums, &[(filter, Partitioning::Hash(vec![0]))], output.clone());
    let start = Expr::Cast(Box::new(column(1)), DataType::Int64);
    let names = [("k", column(0)), ("start", start), ("n", column(3)), ("sum", column(4))];
    let project = CalcConfig::project(names.map(|(name, expr)| (name.to_owned(), expr)).to_vec());
    let output = project.output(&output)?;
    let project = NodeKind::Operator(Spec::new("calc", &project)?);
    let project = graph.add("project", project, &[(sums, Partitioning::Forward)], output.clone());
    let sink = NodeKind::Sink(Spec::new("sink", &())?);
    graph.add("sink", sink, &[(project, Partitioning::Rebalance)], output);
    Ok(graph)
}

#[test]
fn threads_give_what_a_loop_gives() {
    for (seed, parallelism, batch, splits, chaining) in
        [(1, "1", "4096", 1, "true"), (2, "3", "7", 3, "true"), (3, "2", "1", 5, "false"), (4, "4", "100", 4, "false")]
    {
        let rows = input(seed);
        let options = [
            ("parallelism.default", parallelism),
            ("flott.batch.rows", batch),
            ("pipeline.operator-chaining.enabled", chaining),
        ];
        let graph = job(&rows, splits, &options).unwrap();
        let (mut registry, sink) = (registry(), CommittingSink::default());
        sink.register(&mut registry, "sink");
        let ran = run(&graph, &registry, None, |_, _| (), |_| ()).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(sink.rows().unwrap(), expected(&rows), "seed {seed}");
    }
}

/// Random options from a seed: what must not matter.
fn options(random: &mut SmallRng) -> Vec<(&'static str, String)> {
    vec![
        ("parallelism.default", random.random_range(1..=4).to_string()),
        ("flott.batch.rows", [1, 3, 64, 4096][random.random_range(0..4)].to_string()),
        ("pipeline.operator-chaining.enabled", random.random_bool(0.5).to_string()),
        ("taskmanager.network.memory.buffers-per-channel", random.random_range(1..=4).to_string()),
    ]
}

fn as_refs(options: &[(&'static str, String)]) -> Vec<(&'static str, &'static str)> {
    options.iter().map(|(key, value)| (*key, &*value.clone().leak())).collect()
}

#[test]
fn schedules_do_not_matter() {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = input(seed);
        let graph = job(&rows, random.random_range(1..6), &as_refs(&options(&mut random))).unwrap();
        let (mut registry, sink) = (registry(), CommittingSink::default());
        sink.register(&mut registry, "sink");
        let mut simulation = simulation(seed, &InMemory::default());
        simulation.slow.insert(TaskId { vertex: VertexId(random.random_range(0..3)), index: 0 }, 20);
        let ran = simulate(&Arc::new(graph.tasks(hosts(seed)).unwrap()), &registry, simulation).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(sink.rows().unwrap(), expected(&rows), "seed {seed}");
    }
}

/// A run with a cut in the middle, and one that goes on from there at another parallelism. The bytes that were in flight
/// at the cut; none if the job finished before it.
fn cut_and_restored(seed: u64, kind: CheckpointKind, unaligned: bool) -> Option<usize> {
    let mut random = SmallRng::seed_from_u64(seed);
    let rows = input(seed);
    let (mut registry, sink) = (registry(), CommittingSink::default());
    sink.register(&mut registry, "sink");
    let splits = random.random_range(1..6);
    let mut with = options(&mut random);
    with.push(("execution.checkpointing.unaligned.enabled", unaligned.to_string()));
    let graph = job(&rows, splits, &as_refs(&with)).unwrap();
    let store = InMemory::default();
    let mut first = simulation(seed, &store);
    first.trigger = Some((random.random_range(1..300), kind));
    // A job that would go on after its cut ends there, since it cannot commit what it has prepared.
    let goes_on = kind != CheckpointKind::Stop;
    sink.break_commits(goes_on);
    let ran = simulate(&Arc::new(graph.tasks(hosts(seed)).unwrap()), &registry, first).unwrap();
    sink.break_commits(false);
    let from = store.latest().unwrap().manifest.map(|(_, manifest)| manifest);
    match (&ran.end, &from) {
        (Ok(JobEnd::Stopped(_)), Some(_)) if !goes_on => {}
        (Err(_), _) if goes_on => {}
        (Ok(JobEnd::Finished), None) if !goes_on => assert_eq!(sink.rows().unwrap(), expected(&rows), "seed {seed}"),
        other => panic!("seed {seed}: {other:?}"),
    }
    let from = from?;
    let bytes = in_flight(&from);
    let mut with = options(&mut random);
    // Restored at any parallelism, but with the same chains: rows in flight need their edge.
    with[2] = ("pipeline.operator-chaining.enabled", with_chaining(&graph));
    let graph = job(&rows, splits, &as_refs(&with)).unwrap();
    let mut second = simulation(seed + 1000, &store);
    second.from = Some(from);
    let ran = simulate(&Arc::new(graph.tasks(hosts(seed + 1000)).unwrap()), &registry, second).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
    assert_eq!(sink.rows().unwrap(), expected(&rows), "seed {seed}");
    Some(bytes)
}

fn with_chaining(graph: &Graph) -> String {
    graph.0.config.get(&flott_core::config::OBJECT_CHAINING).unwrap().to_string()
}

#[test]
fn stop_and_restore_at_another_parallelism() {
    for (seeds, unaligned) in [(0..60, false), (100..160, true)] {
        let cuts: Vec<_> = seeds.filter_map(|seed| cut_and_restored(seed, CheckpointKind::Stop, unaligned)).collect();
        // A savepoint is aligned whatever the options say. Of 60 jobs few are finished before it.
        assert!(cuts.len() > 40 && cuts.iter().all(|bytes| *bytes == 0), "{cuts:?}");
    }
}

#[test]
fn unaligned_checkpoints_are_restored_at_another_parallelism() {
    let cuts = (100..160).filter_map(|seed| cut_and_restored(seed, CheckpointKind::Checkpoint, true));
    let cuts: Vec<_> = cuts.collect();
    // Worth something only with rows in flight: nearly all of the 60 have some.
    assert!(cuts.iter().filter(|bytes| **bytes > 0).count() > 40, "{cuts:?}");
}

#[test]
fn failures_lose_nothing_and_double_nothing() {
    let mut restarts = 0;
    let mut checkpoints = BTreeSet::new();
    for seed in 200..240 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = input(seed);
        let (mut registry, sink) = (registry(), CommittingSink::default());
        sink.register(&mut registry, "sink");
        let mut with = options(&mut random);
        with.push(("execution.checkpointing.interval", "2 ms".into()));
        with.push(("execution.checkpointing.unaligned.enabled", random.random_bool(0.5).to_string()));
        with.push(("restart-strategy.type", "fixed-delay".into()));
        with.push(("restart-strategy.fixed-delay.attempts", "1000000".into()));
        let graph = job(&rows, random.random_range(1..6), &as_refs(&with)).unwrap();
        let mut simulation = simulation(seed, &InMemory::default());
        simulation.failures_per_million = 3000;
        let ran = simulate(&Arc::new(graph.tasks(hosts(seed)).unwrap()), &registry, simulation).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}: {:?}", ran.notes);
        assert_eq!(sink.rows().unwrap(), expected(&rows), "seed {seed}");
        restarts += ran.notes.iter().filter(|note| matches!(note, Note::Restarting(..))).count();
        checkpoints.extend(ran.notes.iter().filter_map(|note| match note {
            Note::Completed(id, ..) => Some((seed, *id)),
            _ => None,
        }));
    }
    // The test is worth something only if both happen; how often follows from the seeds.
    assert!(restarts > 10, "{restarts} restarts");
    assert!(checkpoints.len() > 10, "{} checkpoints", checkpoints.len());
}
