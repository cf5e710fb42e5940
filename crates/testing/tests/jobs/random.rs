//! Random jobs run in every way: results do not depend on batches, parallelism, chaining, processes, schedules, cuts or
//! failures.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use flott_checkpoint::{CheckpointStore, InMemory, Manifest, TaskState};
use flott_core::CheckpointKind;
use flott_plan::{TaskId, VertexId};
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::{Run, Simulation, simulate};
use flott_testing::jobs::run;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::graphs::{Job, job};
use super::row::{hosts, simulation};

/// Random options: what must not matter.
fn options(random: &mut SmallRng) -> Vec<(&'static str, String)> {
    vec![
        ("pipeline.operator-chaining.enabled", random.random_bool(0.7).to_string()),
        ("flott.batch.rows", [1, 3, 64, 4096][random.random_range(0..4)].to_string()),
        ("taskmanager.network.memory.buffers-per-channel", random.random_range(1..=4).to_string()),
        ("flott.requests.capacity", [1, 2, 100][random.random_range(0..3)].to_string()),
    ]
}

/// Other options for a second run that goes on where a first one stopped: the same chains, since rows in flight need
/// their edge.
fn other_options(random: &mut SmallRng, first: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let mut with = options(random);
    with[0] = first[0].clone();
    with
}

/// Some tasks are slow.
fn slow(job: &Job, random: &mut SmallRng) -> BTreeMap<TaskId, u32> {
    let tasks = job.graph.tasks(1).unwrap().tasks;
    (0..2).map(|_| (tasks[random.random_range(0..tasks.len())].0, random.random_range(2..60))).collect()
}

/// Runs a job in as many processes as its seed says.
fn simulated(job: &Job, simulation: Simulation) -> Run {
    let hosts = hosts(simulation.seed);
    simulated_in(hosts, job, simulation)
}

fn simulated_in(hosts: u32, job: &Job, simulation: Simulation) -> Run {
    let seed = simulation.seed;
    let ran = simulate(&Arc::new(job.graph.tasks(hosts).unwrap()), &job.registry, simulation);
    ran.unwrap_or_else(|error| panic!("seed {seed}, {hosts} hosts: {error}\n{}", job.graph.0.explain()))
}

#[test]
fn schedules_do_not_matter() {
    for seed in 0..150 {
        let mut random = SmallRng::seed_from_u64(seed);
        let job = job(seed, seed, &options(&mut random));
        let mut simulation = simulation(seed, &InMemory::default());
        simulation.slow = slow(&job, &mut random);
        let ran = simulated(&job, simulation);
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        job.check(&format!("seed {seed}"));
    }
}

#[test]
fn threads_do_not_matter() {
    for seed in 0..40 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut with = options(&mut random);
        with.push(("flott.threads", (1 + seed % 3).to_string()));
        with.push(("execution.checkpointing.interval", ["0 ms", "1 ms"][seed as usize % 2].to_string()));
        with.push(("execution.checkpointing.unaligned.enabled", (seed % 4 == 1).to_string()));
        let job = job(seed, seed, &with);
        let ran = run(&job.graph, &job.registry, None, |_, _| (), |_| ()).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        job.check(&format!("seed {seed}"));
    }
}

/// What a manifest holds of rows in flight: bytes on edges, and of requests.
pub(crate) fn in_flight(manifest: &Manifest) -> usize {
    let tasks = manifest.vertices.iter().flat_map(|vertex| &vertex.tasks);
    let snapshots = tasks.filter_map(|task| match task {
        TaskState::Snapshot(snapshot) => Some(snapshot),
        TaskState::Finished => None,
    });
    snapshots.map(|snapshot| snapshot.in_flight.iter().map(|rows| rows.elements.len()).sum::<usize>()).sum()
}

/// A run in which no commit works, with a checkpoint in the middle; then one from that checkpoint, with other tasks.
/// The bytes that were in flight at the cut.
fn cut_and_restored(seed: u64, kind: CheckpointKind, unaligned: bool, timeout: bool) -> Option<usize> {
    cut_and_restored_in([hosts(seed), hosts(seed + 1000)], seed, kind, unaligned, timeout)
}

fn cut_and_restored_in(
    hosts: [u32; 2],
    seed: u64,
    kind: CheckpointKind,
    unaligned: bool,
    timeout: bool,
) -> Option<usize> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut with = options(&mut random);
    let checkpoints = [
        ("execution.checkpointing.unaligned.enabled", unaligned.to_string()),
        ("execution.checkpointing.aligned-checkpoint-timeout", if timeout { "1 ms" } else { "0 ms" }.to_owned()),
    ];
    with.extend(checkpoints.clone());
    let first = job(seed, seed, &with);
    first.sinks.iter().for_each(|sink| sink.break_commits(true));
    let store = InMemory::default();
    let mut simulation_of_first = simulation(seed, &store);
    simulation_of_first.trigger = Some((random.random_range(1..1500), kind));
    simulation_of_first.slow = slow(&first, &mut random);
    let ran = simulated_in(hosts[0], &first, simulation_of_first);
    let from = store.latest().unwrap().manifest.map(|(_, manifest)| manifest);
    if from.is_none() {
        assert!(ran.end.is_err() || first.sinks.iter().all(|sink| sink.rows().unwrap().is_empty()), "seed {seed}");
    }
    first.sinks.iter().for_each(|sink| sink.break_commits(false));

    let mut with = other_options(&mut random, &with);
    with.extend(checkpoints);
    let mut second = job(seed, seed + 7000, &with);
    // What the first run prepared is in its sinks.
    for (index, sink) in first.sinks.iter().enumerate() {
        sink.register(&mut second.registry, &format!("sink{index}"));
    }
    second.sinks = first.sinks;
    let bytes = from.as_ref().map(in_flight);
    let mut simulation_of_second = simulation(seed + 1000, &store);
    simulation_of_second.from = from;
    simulation_of_second.slow = slow(&second, &mut random);
    let ran = simulated_in(hosts[1], &second, simulation_of_second);
    assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}\n{}", second.graph.0.explain());
    second.check(&format!("seed {seed}\n{}", second.graph.0.explain()));
    bytes
}

fn cuts(seeds: std::ops::Range<u64>, kind: CheckpointKind, unaligned: bool, timeout: bool) -> Vec<usize> {
    seeds.filter_map(|seed| cut_and_restored(seed, kind, unaligned, timeout)).collect()
}

#[test]
fn aligned_cuts_do_not_matter() {
    let cuts = cuts(1000..1120, CheckpointKind::Checkpoint, false, false);
    assert!(cuts.len() > 40, "{} cuts", cuts.len());
    assert!(cuts.iter().all(|bytes| *bytes == 0));
}

#[test]
fn savepoints_do_not_matter() {
    let cuts = cuts(2000..2080, CheckpointKind::Stop, true, false);
    assert!(cuts.len() > 30, "{} cuts", cuts.len());
    assert!(cuts.iter().all(|bytes| *bytes == 0));
}

#[test]
fn unaligned_cuts_do_not_matter() {
    let cuts = cuts(3000..3200, CheckpointKind::Checkpoint, true, false);
    // Worth something only with rows in flight.
    assert!(cuts.iter().filter(|bytes| **bytes > 0).count() > 40, "{cuts:?}");
}

#[test]
fn cuts_that_begin_to_overtake_do_not_matter() {
    let cuts = cuts(4000..4120, CheckpointKind::Checkpoint, true, true);
    assert!(cuts.iter().filter(|bytes| **bytes > 0).count() > 20, "{cuts:?}");
}

#[test]
fn finished_tasks_that_are_sent_rows_again_are_alive() {
    // Restored with another parallelism before them; each of these seeds got stuck or lost rows once.
    for (seed, unaligned, timeout) in
        [(1165, false, false), (3219, true, false), (4533, true, false), (4297, true, true), (4533, true, true)]
    {
        cut_and_restored_in([1, 1], seed, CheckpointKind::Checkpoint, unaligned, timeout);
    }
}

#[test]
fn tasks_that_read_from_other_tasks_than_before_go_on_from_no_old_promise() {
    // Sources of another parallelism behind pointwise edges: behind an end or a watermark of the first run rows were lost.
    for (seed, hosts) in [(183_152, [3, 3]), (233_071, [1, 1]), (323_001, [2, 3])] {
        cut_and_restored_in(hosts, seed, CheckpointKind::Checkpoint, true, false);
    }
}

#[test]
fn failures_do_not_matter() {
    let (mut restarts, mut checkpoints) = (0, 0);
    for seed in 5000..5120 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut with = options(&mut random);
        with.push(("execution.checkpointing.interval", "2 ms".into()));
        with.push(("execution.checkpointing.unaligned.enabled", random.random_bool(0.6).to_string()));
        let timeout = ["0 ms", "1 ms"][random.random_range(0..2)];
        with.push(("execution.checkpointing.aligned-checkpoint-timeout", timeout.into()));
        with.push(("execution.checkpointing.tolerable-failed-checkpoints", "1000".into()));
        with.push(("restart-strategy.type", "fixed-delay".into()));
        with.push(("restart-strategy.fixed-delay.attempts", "1000000".into()));
        let job = job(seed, seed, &with);
        let mut simulation = simulation(seed, &InMemory::default());
        simulation.failures_per_million = 2000;
        simulation.slow = slow(&job, &mut random);
        let ran = simulated(&job, simulation);
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}: {:?}", ran.notes);
        job.check(&format!("seed {seed}"));
        restarts += ran.notes.iter().filter(|note| matches!(note, Note::Restarting(..))).count();
        checkpoints += ran.notes.iter().filter(|note| matches!(note, Note::Completed(..))).count();
    }
    assert!(restarts > 60 && checkpoints > 60, "{restarts} restarts, {checkpoints} checkpoints");
}

/// Everything a run can be told by: how it ended, choices, notes, each sink's rows in their order.
fn everything(seed: u64) -> (String, u64, Vec<String>, Vec<Vec<String>>) {
    let options = [
        ("execution.checkpointing.interval", "2 ms"),
        ("execution.checkpointing.unaligned.enabled", if seed.is_multiple_of(2) { "true" } else { "false" }),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1000000"),
    ];
    let job = job(seed, seed, &options.map(|(key, value)| (key, value.to_owned())));
    let mut simulation = simulation(seed, &InMemory::default());
    simulation.slow.insert(TaskId { vertex: VertexId(0), index: 0 }, 60);
    simulation.failures_per_million = 2000;
    let ran = simulated(&job, simulation);
    let rows = job.sinks.iter().map(|sink| sink.rows_in_order().unwrap()).collect();
    (format!("{:?}", ran.end), ran.steps, ran.notes.iter().map(|note| format!("{note:?}")).collect(), rows)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let (mut restarts, mut rows) = (0, 0);
    for seed in 3..13 {
        let run = everything(seed);
        assert_eq!(run, everything(seed), "seed {seed}");
        restarts += run.2.iter().filter(|note| note.starts_with("Restarting")).count();
        rows += run.3.iter().map(Vec::len).sum::<usize>();
    }
    // Worth something only if there is something to compare.
    assert!(restarts > 5 && rows > 1000, "{restarts} restarts, {rows} rows");
}
