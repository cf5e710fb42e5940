//! A sink that takes nothing: unaligned checkpoints complete all the same, aligned ones wait for it, and rows in flight
//! come out of the checkpoint once each, at any parallelism.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use flott_checkpoint::{CheckpointStore, InMemory, Manifest};
use flott_core::{CheckpointKind, Timestamp};
use flott_plan::Partitioning;
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{CommittingSink, Graph, registry, run};

use super::random::in_flight;
use super::row::{Recorded, hosts, lines, simulation};
use super::steady::{Watched, graph};

/// Rows of each of the two splits: more than fit on the way to the sink.
const COUNT: i64 = 3000;

fn expected() -> Vec<String> {
    lines(&(0..2).flat_map(|split| (0..COUNT).map(move |n| (split, n, 2 * n + 1))).collect::<Vec<_>>())
}

/// Source, an operator with requests, sink; unaligned, with this timeout, unless that is `None`.
fn job(parallelism: &str, how: &Partitioning, timeout: Option<&str>) -> Graph {
    let options = [
        ("parallelism.default", parallelism),
        ("flott.batch.rows", "8"),
        ("flott.requests.capacity", "4"),
        ("taskmanager.network.memory.buffers-per-channel", "2"),
        ("execution.checkpointing.interval", "100 ms"),
        ("execution.checkpointing.unaligned.enabled", if timeout.is_some() { "true" } else { "false" }),
        ("execution.checkpointing.aligned-checkpoint-timeout", timeout.unwrap_or("0 ms")),
    ];
    graph(how, &["ask"], "sink", &options)
}

fn setting() -> (flott_core::Registry, CommittingSink, Watched) {
    let (mut registry, sink, watched) = (registry(), CommittingSink::default(), Watched::default());
    watched.register(&mut registry, COUNT, 0);
    super::ops::register(&mut registry);
    sink.register(&mut registry, "sink");
    (registry, sink, watched)
}

#[test]
fn only_barriers_that_overtake_pass_a_held_sink() {
    const HELD_MS: i64 = 5000;
    for (timeout, at_least, below) in [
        // Triggered after 100 ms: without overtaking it is complete when the sink takes rows again, not before.
        (None, HELD_MS - 100, i64::MAX),
        (Some("0 ms"), 0, HELD_MS - 100),
        (Some("50 ms"), 50, HELD_MS - 100),
    ] {
        for seed in 0..5 {
            let (registry, sink, _) = setting();
            sink.hold_until(Timestamp(HELD_MS));
            let tasks = Arc::new(job("2", &Partitioning::Rebalance, timeout).tasks(hosts(seed)).unwrap());
            let ran = simulate(&tasks, &registry, simulation(seed, &InMemory::default())).unwrap();
            assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
            assert_eq!(sink.rows().unwrap(), expected(), "seed {seed}");
            let first = ran.notes.iter().find_map(|note| match note {
                Note::Completed(_, _, ms) => Some(*ms as i64),
                _ => None,
            });
            let first = first.unwrap();
            assert!((at_least..below).contains(&first), "seed {seed}, timeout {timeout:?}: {first} ms");
        }
    }
}

#[test]
fn sources_that_have_ended_do_not_hold_a_checkpoint_up() {
    const HELD_MS: i64 = 5000;
    // Rows of a split: all on the way to the sink, or in its hands already.
    for count in [1, 8, 20] {
        for seed in 0..10 {
            let (mut registry, sink, watched) = setting();
            watched.register(&mut registry, count, 0);
            sink.hold_until(Timestamp(HELD_MS));
            let store = Recorded::default();
            let tasks = Arc::new(job("2", &Partitioning::Rebalance, Some("0 ms")).tasks(hosts(seed)).unwrap());
            let mut first = simulation(seed, &InMemory::default());
            first.store = Box::new(store.clone());
            let ran = simulate(&tasks, &registry, first).unwrap();
            assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
            let first = ran.notes.iter().find_map(|note| match note {
                Note::Completed(id, _, ms) => Some((*id, *ms as i64)),
                _ => None,
            });
            let (id, ms) = first.unwrap();
            assert!(ms < HELD_MS - 100, "seed {seed}, {count} rows: {ms} ms");
            // From that checkpoint the rows come once each.
            let (mut registry, again, watched) = setting();
            watched.register(&mut registry, count, 0);
            again.register(&mut registry, "sink");
            let mut second = simulation(seed + 50, &InMemory::default());
            second.from = store.manifests().into_iter().find(|manifest| manifest.checkpoint == id);
            assert!(second.from.is_some(), "seed {seed}");
            let parallelism = ["1", "2", "3"][seed as usize % 3];
            let again_job = job(parallelism, &Partitioning::Rebalance, Some("0 ms"));
            let tasks = Arc::new(again_job.tasks(hosts(seed + 50)).unwrap());
            let ran = simulate(&tasks, &registry, second).unwrap();
            assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
            let expected = (0..2).flat_map(|split| (0..count).map(move |n| (split, n, 2 * n + 1)));
            assert_eq!(again.rows().unwrap(), lines(&expected.collect::<Vec<_>>()), "seed {seed}, {count} rows");
        }
    }
}

/// Goes on from a checkpoint with the sink released.
#[track_caller]
fn restored(seed: u64, parallelism: &str, how: &Partitioning, from: Manifest, sink: &CommittingSink) {
    let (mut registry, _, _) = setting();
    sink.register(&mut registry, "sink");
    sink.hold(false);
    let mut simulation = simulation(seed + 50, &InMemory::default());
    simulation.from = Some(from);
    let tasks = Arc::new(job(parallelism, how, Some("0 ms")).tasks(hosts(seed + 50)).unwrap());
    let ran = simulate(&tasks, &registry, simulation).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
    assert_eq!(sink.rows().unwrap(), expected(), "seed {seed}");
}

#[test]
fn rows_in_flight_before_a_held_sink_come_once_each_at_another_parallelism() {
    let ways = [Partitioning::Rebalance, Partitioning::Hash(vec![2]), Partitioning::Shuffle];
    for seed in 0..12 {
        let how = &ways[seed as usize % 3];
        let (registry, sink, watched) = setting();
        sink.hold(true);
        let store = InMemory::default();
        let mut first = simulation(seed, &store);
        // A sink that is held and nothing but checkpoints: the run goes on as long as it may.
        first.max_steps = 20_000;
        let tasks = Arc::new(job("2", how, Some("0 ms")).tasks(hosts(seed)).unwrap());
        let stuck = simulate(&tasks, &registry, first).unwrap_err();
        assert!(stuck.message().contains("is stuck"), "seed {seed}: {stuck}");
        let (_, from) = store.latest().unwrap().manifest.unwrap();
        assert!(in_flight(&from) > 0, "seed {seed}");
        // The source was held back too.
        assert!(watched.given() < 2 * COUNT / 2, "seed {seed}: {}", watched.given());
        assert!(sink.rows().unwrap().is_empty());
        restored(seed, ["1", "2", "3", "5"][seed as usize % 4], how, from, &sink);
    }
}

#[test]
fn by_threads_too_and_a_job_blocked_by_its_sink_can_be_cancelled() {
    for (seed, parallelism) in [(0, "1"), (1, "3"), (2, "2")] {
        let (registry, sink, watched) = setting();
        sink.hold(true);
        let before = AtomicI64::new(-1);
        let how = Partitioning::Rebalance;
        let mut graph = job("2", &how, Some("0 ms"));
        graph.0.config.set("execution.checkpointing.interval", "1 ms").unwrap();
        let steer = move |control: &flott_runtime::local::JobControl, note: &Note| {
            if let Note::Completed(_, CheckpointKind::Checkpoint, _) = note {
                // From one checkpoint to the next the source has given nothing: it is blocked.
                let given = watched.given();
                if given > 0 && before.swap(given, Ordering::SeqCst) == given {
                    control.cancel();
                }
            }
        };
        let ran = run(&graph, &registry, None, steer, |_| ()).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Cancelled));
        let from = ran.latest.unwrap();
        assert!(sink.rows().unwrap().is_empty());
        restored(seed, parallelism, &how, from, &sink);
    }
}
