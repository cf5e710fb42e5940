//! Flow control in simulated runs: first in, first out; never more batches in flight than credit; a slow sink leaves
//! memory flat and the source at its pace.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use flott_checkpoint::InMemory;
use flott_core::Spec;
use flott_plan::{ExecutionGraph, NodeKind, Partitioning, TaskId, VertexId};
use flott_runtime::master::JobEnd;
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, registry};

use super::row::{hosts, schema, simulation};
use super::steady::{Watched, graph};

/// Rows of each of the two splits.
const COUNT: i64 = 6000;
const BATCH: i64 = 8;

/// Ways for rows to go; by each, rows of one sender reach one receiver in order.
fn ways() -> [Partitioning; 6] {
    [
        Partitioning::Hash(vec![2]),
        Partitioning::Rebalance,
        Partitioning::Rescale,
        Partitioning::Shuffle,
        Partitioning::Global,
        Partitioning::Forward,
    ]
}

/// The most batches that can exist at once: on each channel its credit, one collected, and what one unit of work leaves
/// waiting (a batch cut in two by what was collected); in each task one taken, and one on its way through the chain.
fn bound(tasks: &ExecutionGraph, credit: i64) -> i64 {
    let edges = (0..tasks.job.edges.len()).map(|edge| tasks.channels_of_edge(flott_plan::EdgeId(edge as u32)).len());
    edges.sum::<usize>() as i64 * (credit + 3) + 2 * tasks.tasks.len() as i64
}

/// Runs the job; what was seen, and the bound.
fn slow_run(seed: u64, credit: u32, how: &Partitioning, pause: i64, slow: u32) -> (Watched, i64) {
    let (mut registry, watched) = (registry(), Watched::default());
    watched.register(&mut registry, COUNT, pause);
    super::ops::register(&mut registry);
    let (credits, parallelism) = (credit.to_string(), (1 + seed % 3).to_string());
    let options = [
        ("parallelism.default", parallelism.as_str()),
        ("flott.batch.rows", "8"),
        ("taskmanager.network.memory.buffers-per-channel", &credits),
        ("pipeline.operator-chaining.enabled", if seed.is_multiple_of(2) { "true" } else { "false" }),
    ];
    let tasks = Arc::new(graph(how, &["calc"], "steady", &options).tasks(hosts(seed)).unwrap());
    let mut simulation = simulation(seed, &InMemory::default());
    let last = VertexId(tasks.job.vertices.len() as u32 - 1);
    simulation.slow = (0..4).map(|index| (TaskId { vertex: last, index }, slow)).collect();
    let ran = simulate(&tasks, &registry, simulation).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
    (watched, bound(&tasks, i64::from(credit)))
}

#[test]
fn channels_are_first_in_first_out_and_keep_to_their_credit() {
    // `ChannelQueue::push` checks the credit of every batch.
    const { assert!(cfg!(debug_assertions)) };
    for credit in 1..=4 {
        for (index, how) in ways().iter().enumerate() {
            let seed = u64::from(credit) * 10 + index as u64;
            let (watched, _) = slow_run(seed, credit, how, 0, 5);
            let rows = watched.rows();
            assert_eq!(rows.len() as i64, 2 * COUNT, "seed {seed}");
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), rows.len(), "seed {seed}: each row once");
            // With one task of each kind there is one way only, and rows of a split keep its order throughout.
            if seed.is_multiple_of(3) {
                let mut latest = BTreeMap::new();
                for (split, number, _) in rows {
                    assert!(latest.insert(split, number) < Some(number), "seed {seed}: {number} of split {split}");
                }
            }
        }
    }
}

#[test]
fn a_slow_sink_leaves_memory_flat_and_the_source_at_its_pace() {
    for credit in 1..=4 {
        for (index, how) in ways().iter().enumerate() {
            let seed = u64::from(credit) * 100 + index as u64;
            // Slow by waiting, or by stepping once in 100 turns.
            let (pause, slow) = if index % 2 == 0 { (100, 1) } else { (0, 100) };
            let (watched, bound) = slow_run(seed, credit, how, pause, slow);
            let (batches, rows) = (watched.most_batches(), watched.most_rows());
            assert!(batches <= bound, "seed {seed}: {batches} batches at once, at most {bound}");
            assert!(rows <= bound * BATCH, "seed {seed}: {rows} rows behind, at most {}", bound * BATCH);
            // All there ever were are many times more.
            assert!(watched.given() >= 3 * bound * BATCH, "{} rows against {bound} batches", watched.given());
        }
    }
}

/// Rows that three sinks get in the first `steps` steps, between two processes; with or without a fourth beside them that
/// takes nothing.
fn rows_of_neighbours(seed: u64, steps: u64, beside_held: bool) -> usize {
    let (mut registry, watched, held) = (registry(), Watched::default(), CommittingSink::default());
    watched.register(&mut registry, 1_000_000, 0);
    held.register(&mut registry, "held");
    held.hold(true);
    let options = [
        ("parallelism.default", "2"),
        ("flott.batch.rows", "8"),
        ("taskmanager.network.memory.buffers-per-channel", ["1", "2", "8"][seed as usize % 3]),
    ];
    let mut graph = Graph::new(&options).unwrap();
    let spec = |name: &str| Spec::new(name, &()).unwrap();
    for number in 0..4 {
        // The first one's sink is held.
        let sink = if number == 0 { "held" } else { "steady" };
        if number > 0 || beside_held {
            let source = NodeKind::Source { spec: spec("steady"), watermarks: None };
            let source = graph.add(&format!("source{number}"), source, &[], schema());
            let inputs = [(source, Partitioning::Rebalance)];
            graph.add(&format!("sink{number}"), NodeKind::Sink(spec(sink)), &inputs, schema());
        }
    }
    let mut simulation = simulation(seed, &InMemory::default());
    simulation.max_steps = steps;
    let stuck = simulate(&Arc::new(graph.tasks(2).unwrap()), &registry, simulation).unwrap_err();
    assert!(stuck.message().contains("is stuck"), "seed {seed}: {stuck}");
    watched.rows().len()
}

#[test]
fn a_held_sink_leaves_its_neighbours_on_the_same_connection_their_rate() {
    // The rate after a while: until then the held one's credit is used up. The same seed is the same run, only longer.
    let rate = |beside_held| {
        let rows = |seed, steps| rows_of_neighbours(seed, steps, beside_held);
        (0..6).map(|seed| rows(seed, 60_000) - rows(seed, 10_000)).sum::<usize>()
    };
    let (alone, beside) = (rate(false), rate(true));
    assert!(beside * 100 >= alone * 95, "{beside} rows beside a held sink, {alone} without");
}

#[test]
fn a_timer_that_cannot_fire_yet_is_no_reason_to_step() {
    let (mut registry, watched) = (registry(), Watched::default());
    watched.register(&mut registry, 200, 100);
    super::ops::register(&mut registry);
    let options = [("flott.batch.rows", "4"), ("taskmanager.network.memory.buffers-per-channel", "1")];
    // Rows kept back for 5 ms, in front of a sink that takes a batch of 4 every 100 ms: timers are due most of the time.
    let graph = graph(&Partitioning::Hash(vec![0]), &["delay"], "steady", &options);
    let ran = simulate(&Arc::new(graph.tasks(1).unwrap()), &registry, simulation(1, &InMemory::default())).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    // A task that steps without need keeps virtual time at 1 ms for 64 steps: 10 s of it would be 640,000 steps.
    assert!(ran.steps < 10_000, "{} steps", ran.steps);
}
