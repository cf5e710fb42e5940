//! What a job goes on from: never from something older than its newest checkpoint, and never from what another job
//! has left.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flott_checkpoint::{CheckpointStore, InMemory, Latest, LocalDirectory, Location, Manifest};
use flott_core::{
    CheckpointId, CheckpointKind, Clock, Error, ErrorDomain, Registry, Result, Spec, SystemClock, SystemThreads,
};
use flott_plan::{NodeKind, Partitioning};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobOptions};
use flott_runtime::master::{JobEnd, Note};
use flott_runtime::simulator::{Run, Simulation, simulate};
use flott_testing::jobs::{CommittingSink, Graph, registry};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::row::{Row, hosts, input, lines, schema, simulation, source};

const CHECKPOINTS: &[(&str, &str)] =
    &[("execution.checkpointing.interval", "2 ms"), ("execution.checkpointing.tolerable-failed-checkpoints", "1000")];
const RESTARTS: &[(&str, &str)] =
    &[("restart-strategy.type", "fixed-delay"), ("restart-strategy.fixed-delay.attempts", "1000")];

fn rows(seed: u64) -> Vec<Row> {
    input(&mut SmallRng::seed_from_u64(seed), 3000)
}

/// Source and sink.
fn job(rows: &[Row], options: &[&[(&str, &str)]]) -> Graph {
    let mut graph = Graph::new(&options.concat()).unwrap();
    graph.0.config.set("parallelism.default", "2").unwrap();
    graph.0.config.set("flott.batch.rows", "3").unwrap();
    let from = graph.add("source", NodeKind::Source { spec: source(rows, 4), watermarks: None }, &[], schema());
    let sink = NodeKind::Sink(Spec::new("sink", &()).unwrap());
    graph.add("sink", sink, &[(from, Partitioning::Rebalance)], schema());
    graph
}

fn setting() -> (Registry, CommittingSink) {
    let (mut registry, sink) = (registry(), CommittingSink::default());
    sink.register(&mut registry, "sink");
    (registry, sink)
}

fn simulated(graph: &Graph, registry: &Registry, simulation: Simulation) -> Run {
    let seed = simulation.seed;
    simulate(&Arc::new(graph.tasks(hosts(seed)).unwrap()), registry, simulation).unwrap()
}

/// A run on threads that goes on from the newest checkpoint in a folder.
fn resumed(graph: &Graph, registry: &Registry, folder: &Path) -> Result<JobEnd> {
    let (control, events) = local::control();
    let options = JobOptions {
        threads: Arc::new(SystemThreads),
        start: JobStart {
            clock: Arc::new(SystemClock::default()) as Arc<dyn Clock>,
            store: Box::new(LocalDirectory::new(folder)),
            from: None,
            resume: true,
            allow_non_restored: false,
            seed: 1,
            notes: Box::new(|_| ()),
        },
    };
    local::run(graph.tasks(1)?, registry, options, &events, &control, |_| ())
}

/// Manifests of a folder, the newest first.
fn manifests(folder: &Path) -> Vec<(CheckpointId, std::path::PathBuf)> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let id = path.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap().parse().unwrap();
            (CheckpointId(id), path.join("_metadata"))
        })
        .collect();
    found.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    found
}

#[test]
fn a_damaged_newest_checkpoint_is_not_passed_over() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("the checkpoint is damaged: its checksum does not match", |bytes| bytes[60] ^= 1),
        ("found version 9", |bytes| bytes[4] = 9),
        ("fewer than its header", |bytes| bytes.truncate(20)),
    ];
    // Taken by itself, and one to stop with: both are gone on from.
    for (kind, older) in
        [(CheckpointKind::Stop, true), (CheckpointKind::Checkpoint, true), (CheckpointKind::Stop, false)]
    {
        for (expected, damage) in damages {
            let folder = tempfile::tempdir().unwrap();
            let (registry, sink) = setting();
            let rows = rows(7);
            let graph = job(&rows, &[if older { CHECKPOINTS } else { &[] }]);
            let mut first = simulation(7, &InMemory::default());
            first.store = Box::new(LocalDirectory::new(folder.path()));
            first.trigger = Some((200, kind));
            simulated(&graph, &registry, first);
            let manifests = manifests(folder.path());
            assert_eq!(manifests.len() > 1, older);
            let newest = &manifests[0].1;
            let mut bytes = fs::read(newest).unwrap();
            damage(&mut bytes);
            fs::write(newest, bytes).unwrap();

            let before = sink.rows().unwrap();
            let error = resumed(&graph, &registry, folder.path()).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
            assert!(error.message().ends_with("name one in execution.state-recovery.path"), "{error}");
            assert_eq!(error.place("file"), newest.to_str());
            assert_eq!(sink.rows().unwrap(), before, "nothing ran");

            // As the error says.
            let mut named = job(&rows, &[]);
            let path = if older { manifests[1].1.parent().unwrap() } else { continue };
            named.0.config.set("execution.state-recovery.path", path.to_str().unwrap()).unwrap();
            assert_eq!(resumed(&named, &registry, folder.path()), Ok(JobEnd::Finished));
            let all = sink.rows().unwrap();
            assert!(lines(&rows).iter().all(|row| all.contains(row)));
        }
    }
}

#[test]
fn a_checkpoint_that_is_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, _) = setting();
    let missing = folder.path().join("chk-9");
    let graph = job(&rows(1), &[&[("execution.state-recovery.path", missing.to_str().unwrap())]]);
    let error = resumed(&graph, &registry, folder.path()).unwrap_err();
    assert_eq!((error.domain(), error.place("file")), (ErrorDomain::User, missing.to_str()));
    assert_eq!(error.place("option"), Some("execution.state-recovery.path"));
}

/// A store that is looked into: the first time when the job begins, then once for each restart.
struct Watched<F> {
    store: InMemory,
    looks: AtomicUsize,
    /// (how often it was looked into before, what there is) → what is found.
    look: F,
}

fn watched<F: Fn(usize, Latest) -> Result<Latest> + Send>(look: F) -> Box<Watched<F>> {
    Box::new(Watched { store: InMemory::default(), looks: AtomicUsize::new(0), look })
}

impl<F: Fn(usize, Latest) -> Result<Latest> + Send> CheckpointStore for Watched<F> {
    fn write(&mut self, manifest: &Manifest) -> Result<Location> {
        self.store.write(manifest)
    }

    fn latest(&self) -> Result<Latest> {
        (self.look)(self.looks.fetch_add(1, Ordering::SeqCst), self.store.latest()?)
    }

    fn read(&self, location: &Location) -> Result<Manifest> {
        self.store.read(location)
    }
}

/// A run whose tasks fail now and then.
fn failing(seed: u64, store: Box<dyn CheckpointStore>) -> (Run, Vec<String>) {
    let (registry, sink) = setting();
    let mut simulation = simulation(seed, &InMemory::default());
    simulation.store = store;
    simulation.failures_per_million = 6000;
    let ran = simulated(&job(&rows(seed), &[CHECKPOINTS, RESTARTS]), &registry, simulation);
    (ran, sink.rows().unwrap())
}

fn restarts(ran: &Run, because: &str) -> usize {
    ran.notes.iter().filter(|note| matches!(note, Note::Restarting(e, _) if e.message().contains(because))).count()
}

#[test]
fn a_store_that_is_away_for_a_while_is_asked_again() {
    let mut again = 0;
    for seed in 0..20 {
        let store = watched(|look, latest| match look % 3 {
            1 => Err(Error::external("the disk is away")),
            _ => Ok(latest),
        });
        let (ran, rows) = failing(seed, store);
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(rows, lines(&self::rows(seed)), "seed {seed}");
        again += restarts(&ran, "the disk is away");
    }
    assert!(again > 5, "{again}");
}

#[test]
fn a_restart_never_goes_back_behind_the_newest_checkpoint() {
    let damaged = |look: usize, mut latest: Latest| {
        let newest = latest.manifest.as_ref().map_or(CheckpointId(1), |(_, manifest)| manifest.checkpoint);
        if look > 0 {
            // Newer than all that can be read.
            latest.broken.push((CheckpointId(newest.0 + 1), Error::external("it is damaged").final_()));
        }
        Ok(latest)
    };
    let gone = |look: usize, latest: Latest| Ok(if look > 0 { Latest::default() } else { latest });
    let (mut refused, mut lost) = (0, 0);
    for seed in 0..20 {
        let (ran, rows) = failing(seed, watched(damaged));
        match ran.end {
            Ok(_) => assert_eq!((rows, restarts(&ran, "")), (lines(&self::rows(seed)), 0), "seed {seed}"),
            Err(ref error) => {
                assert!(error.message().starts_with("it is damaged; it is the newest checkpoint"), "{error}");
                assert_eq!(restarts(&ran, ""), 1, "seed {seed}: no restart helps");
                refused += 1;
            }
        }
        let (ran, rows) = failing(seed, watched(gone));
        match ran.end {
            // All failures were before the first checkpoint.
            Ok(_) => assert_eq!(rows, lines(&self::rows(seed)), "seed {seed}"),
            Err(error) => {
                assert!(error.message().starts_with("the checkpoint was complete and is no longer there"), "{error}");
                lost += 1;
            }
        }
    }
    assert!(refused > 5 && lost > 5, "{refused} {lost}");
}

#[test]
fn what_an_earlier_job_has_left_is_not_gone_on_from() {
    let mut restarted = 0;
    for seed in 0..20 {
        // Other rows, stopped in the middle; a damaged one is beside it.
        let store = InMemory::default();
        let (registry, _) = setting();
        let mut first = simulation(seed, &store);
        first.trigger = Some((100, CheckpointKind::Stop));
        simulated(&job(&rows(seed + 100), &[]), &registry, first);
        let left = store.latest().unwrap();
        assert!(left.manifest.is_some());
        let above = left.highest.unwrap().0 + 1;

        let (registry, sink) = setting();
        let mut second = simulation(seed, &InMemory::default());
        let watched = Watched {
            store,
            looks: AtomicUsize::new(0),
            look: move |_, mut latest: Latest| {
                latest.broken.push((CheckpointId(above), Error::user("it is damaged")));
                latest.highest = latest.highest.max(Some(CheckpointId(above)));
                Ok(latest)
            },
        };
        second.store = Box::new(watched);
        second.failures_per_million = 20_000;
        let ran = simulated(&job(&rows(seed), &[CHECKPOINTS, RESTARTS]), &registry, second);
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(sink.rows().unwrap(), lines(&rows(seed)), "seed {seed}");
        restarted += restarts(&ran, "");
    }
    assert!(restarted > 20, "{restarted}");
}

#[test]
fn a_restart_before_the_first_checkpoint_goes_on_from_what_the_job_began_with() {
    let mut restarted = 0;
    for seed in 0..20 {
        let (registry, sink) = setting();
        let (store, graph) = (InMemory::default(), job(&rows(seed), &[RESTARTS]));
        let mut first = simulation(seed, &store);
        first.trigger = Some((100, CheckpointKind::Stop));
        simulated(&graph, &registry, first);
        let mut second = simulation(seed + 50, &InMemory::default());
        second.from = store.latest().unwrap().manifest.map(|(_, manifest)| manifest);
        assert!(second.from.is_some(), "seed {seed}");
        second.failures_per_million = 4000;
        let ran = simulated(&graph, &registry, second);
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}");
        assert_eq!(sink.rows().unwrap(), lines(&rows(seed)), "seed {seed}");
        restarted += restarts(&ran, "");
    }
    assert!(restarted > 5, "{restarted}");
}
