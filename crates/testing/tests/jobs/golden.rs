//! A checkpoint of a whole job as the first release wrote it: what is in `tests/golden/checkpoint_v1` restores for ever.
//!
//! It was cut in the middle of everything: splits half read, watermark generators in sources and behind one, requests
//! and rows in flight, open windows, parts written but not committed. A later form of any of these gets a version of
//! its own and a folder beside this one; this one stays as it is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flott_checkpoint::{CheckpointStore, InMemory, Latest, Location, Manifest, TaskSnapshot, TaskState};
use flott_connectors::files::{FilesSinkConfig, FilesSourceConfig, SinkFormat, SourceFormat};
use flott_core::{CheckpointKind, OperatorState, Redistribution, Registry, Result, Spec, WatermarkStrategy};
use flott_formats::csv::CsvOptions;
use flott_operators::calc::CalcConfig;
use flott_operators::expr::Expr;
use flott_operators::window_aggregate::WindowAggregateConfig;
use flott_plan::{NodeKind, Partitioning, TaskId, VertexId};
use flott_runtime::master::JobEnd;
use flott_runtime::simulator::simulate;
use flott_testing::jobs::{Graph, registry};
use tempfile::TempDir;

use super::row::{BEHIND_MS, Row, schema, simulation, source};

const WINDOW_MS: i64 = 100;

/// The folder of the job has a name of this length, so that another one can take its place in stored paths.
const FOLDER_BYTES: usize = 120;

/// Rows by arithmetic, so that they are the same for ever; none more than [`BEHIND_MS`] behind.
fn rows(of: i64) -> Vec<Row> {
    (0..400).map(|n| ((n * 13 + of) % 10, 3 * n - n * 7 % BEHIND_MS, n * 31 % 97 + of)).collect()
}

/// What a plain loop makes of them.
fn expected() -> Vec<String> {
    let mut sums = BTreeMap::<(i64, i64), (i64, i64)>::new();
    for row in rows(0).into_iter().chain(rows(1000)) {
        let (k, t, v) = super::ops::answer(row);
        let sum = sums.entry((k, t.div_euclid(WINDOW_MS) * WINDOW_MS)).or_default();
        *sum = (sum.0 + 1, sum.1 + v);
    }
    let mut lines: Vec<_> = sums.iter().map(|((k, start), (n, sum))| format!("{k},{start},{n},{sum}")).collect();
    lines.sort();
    lines
}

struct Place {
    _temporary: TempDir,
    folder: PathBuf,
}

impl Place {
    /// A folder with the input, and with these parts, not committed yet.
    fn new(parts: &[(String, Vec<u8>)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let missing = FOLDER_BYTES - temporary.path().to_str().unwrap().len() - 1;
        let folder = temporary.path().join("x".repeat(missing));
        fs::create_dir_all(folder.join("out")).unwrap();
        let lines: String = rows(0).iter().map(|(k, t, v)| format!("{k},{t},{v}\n")).collect();
        fs::write(folder.join("in.csv"), lines).unwrap();
        for (name, content) in parts {
            fs::write(folder.join("out").join(format!(".{name}")), content).unwrap();
        }
        Self { _temporary: temporary, folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// Committed lines, sorted.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for entry in fs::read_dir(self.out()).unwrap() {
            let path = entry.unwrap().path();
            if !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
                lines.extend(fs::read_to_string(path).unwrap().lines().map(str::to_owned));
            }
        }
        lines.sort();
        lines
    }
}

/// Files with watermarks of their own and a collection with a generator behind it; united, asked about, summed up per
/// key and window; into files.
fn job(place: &Place, parallelism: u32) -> Graph {
    let mut graph = Graph::new(&[
        ("flott.batch.rows", "4"),
        ("taskmanager.network.memory.buffers-per-channel", "2"),
        ("execution.checkpointing.unaligned.enabled", "true"),
    ])
    .unwrap();
    graph.0.config.set("parallelism.default", &parallelism.to_string()).unwrap();
    let watermarks =
        WatermarkStrategy::for_bounded_out_of_orderness(BEHIND_MS as u64).with_time_column(1).with_every_rows(30);
    let format = SourceFormat::Csv { schema: schema().as_ref().clone(), options: CsvOptions::default() };
    let files = FilesSourceConfig { split_bytes: 700, ..FilesSourceConfig::new(place.folder.join("in.csv"), format) };
    let files = NodeKind::Source { spec: files.spec().unwrap(), watermarks: Some(watermarks.clone()) };
    let files = graph.add("files", files, &[], schema());
    let collection = NodeKind::Source { spec: source(&rows(1000), 4), watermarks: None };
    let collection = graph.add("collection", collection, &[], schema());
    let generator = NodeKind::Watermarks(watermarks);
    let generator = graph.add("generator", generator, &[(collection, Partitioning::Forward)], schema());

    let ask = NodeKind::Operator(Spec::new("ask", &()).unwrap());
    let both = [(files, Partitioning::Rebalance), (generator, Partitioning::Rebalance)];
    let asked = graph.add("ask", ask, &both, schema());
    let sums: WindowAggregateConfig = serde_json::from_value(serde_json::json!({
        "size_ms": WINDOW_MS,
        "aggregates": [{"function": "count"}, {"function": "sum", "column": 2}],
    }))
    .unwrap();
    let output = sums.output(["n", "sum"], &schema(), &[0]).unwrap();
    let sums = NodeKind::Operator(Spec::new("window_aggregate", &sums).unwrap());
    let sums = graph.add("sums", sums, &[(asked, Partitioning::Hash(vec![0]))], output.clone());
    let start = Expr::Cast(Box::new(Expr::Column(1)), arrow_schema::DataType::Int64);
    let names = [("k", Expr::Column(0)), ("start", start), ("n", Expr::Column(3)), ("sum", Expr::Column(4))];
    let project = CalcConfig::project(names.map(|(name, expr)| (name.to_owned(), expr)).to_vec());
    let output = project.output(&output).unwrap();
    let project = NodeKind::Operator(Spec::new("calc", &project).unwrap());
    let project = graph.add("project", project, &[(sums, Partitioning::Forward)], output.clone());
    let sink = FilesSinkConfig { path: place.out(), format: SinkFormat::Csv(CsvOptions::default()) };
    graph.add("sink", NodeKind::Sink(sink.spec().unwrap()), &[(project, Partitioning::Rebalance)], output);
    graph
}

fn all_parts() -> Registry {
    let mut registry = registry();
    super::ops::register(&mut registry);
    registry
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/checkpoint_v1")
}

/// The folder's name in the golden file.
fn placeholder() -> String {
    format!("/golden/{}", "x".repeat(FOLDER_BYTES - "/golden/".len()))
}

/// The same checkpoint of a job in another folder.
fn moved(manifest: &Manifest, from: &str, to: &str) -> Manifest {
    assert_eq!((from.len(), to.len()), (FOLDER_BYTES, FOLDER_BYTES));
    let mut bytes = postcard::to_stdvec(manifest).unwrap();
    while let Some(at) = find(&bytes, from.as_bytes()) {
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    }
    postcard::from_bytes(&bytes).unwrap()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The checkpoint, and the parts that it promises to commit.
fn stored() -> (Manifest, Vec<(String, Vec<u8>)>) {
    let manifest = Manifest::decode(&fs::read(golden().join("_metadata")).unwrap()).unwrap();
    let mut parts = Vec::new();
    for entry in fs::read_dir(golden().join("parts")).unwrap() {
        let path = entry.unwrap().path();
        parts.push((path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()));
    }
    (manifest, parts)
}

fn tasks<'m>(manifest: &'m mut Manifest, member: &'m str) -> impl Iterator<Item = &'m mut TaskSnapshot> {
    let vertices = manifest.vertices.iter_mut().filter(move |vertex| vertex.members.iter().any(|uid| uid == member));
    vertices.flat_map(|vertex| &mut vertex.tasks).filter_map(|task| match task {
        TaskState::Snapshot(snapshot) => Some(snapshot),
        TaskState::Finished => None,
    })
}

/// Whether something of every kind is in the checkpoint.
fn holds_everything(manifest: &Manifest) -> bool {
    let mut manifest = manifest.clone();
    let splits = |state: &OperatorState| state.get("flott.splits").len();
    let mut of_sources =
        |uid| tasks(&mut manifest, uid).map(|task| splits(&task.members[0].operator_state)).sum::<usize>();
    let (files, collection) = (of_sources("files"), of_sources("collection"));
    // A request holds its rows: more bytes than clocks and marks have.
    let requests = tasks(&mut manifest, "ask").any(|task| task.runtime.len() > 400);
    let windows = tasks(&mut manifest, "sums").all(|task| task.members[0].keyed.iter().any(|s| !s.groups.is_empty()));
    let mut in_flight = |uid| tasks(&mut manifest, uid).any(|task| !task.in_flight.is_empty());
    let rows = in_flight("ask") && in_flight("sums");
    let left = manifest.enumerators.iter().all(|(_, left)| left.len() > 2);
    let parts = manifest.committables.iter().flat_map(|(_, parts)| parts).count();
    files > 0 && collection > 0 && requests && windows && rows && left && parts > 0
}

#[test]
fn the_first_checkpoint_restores_to_the_right_result() {
    let (manifest, parts) = stored();
    assert!(holds_everything(&manifest));
    for (seed, parallelism) in [(1, 1), (2, 2), (3, 3), (4, 2), (5, 4)] {
        let place = Place::new(&parts);
        let mut restored = simulation(seed, &InMemory::default());
        restored.from = Some(moved(&manifest, &placeholder(), place.folder.to_str().unwrap()));
        let tasks = job(&place, parallelism).tasks(super::row::hosts(seed)).unwrap();
        let ran = simulate(&Arc::new(tasks), &all_parts(), restored).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "parallelism {parallelism}");
        assert_eq!(place.lines(), expected(), "parallelism {parallelism}");
    }
}

/// Says that the bytes are of a version to come.
fn newer(bytes: &mut [u8]) {
    assert_eq!(bytes[0], 1);
    bytes[0] = 7;
}

/// Of the entries of an operator's state.
fn newer_entries(state: &mut OperatorState, name: &str, newer: impl Fn(&mut [u8])) {
    let mut entries = state.get(name).to_vec();
    entries.iter_mut().for_each(|entry| newer(entry));
    state.put(name, Redistribution::Split, entries);
}

#[test]
fn every_form_of_a_later_version_is_refused_by_name() {
    type Change = fn(&mut Manifest);
    let forms: [(&str, Change); 7] = [
        ("the runtime's state of a task", |m| tasks(m, "sums").for_each(|task| newer(&mut task.runtime))),
        ("rows in flight", |m| {
            tasks(m, "sums").flat_map(|task| &mut task.in_flight).for_each(|rows| newer(&mut rows.elements));
        }),
        ("a split of a source", |m| {
            tasks(m, "files").for_each(|t| newer_entries(&mut t.members[0].operator_state, "flott.splits", newer));
        }),
        ("the position in a file", |m| {
            // Its path follows, with its length in one byte.
            let position = |entry: &mut [u8]| {
                let at = find(entry, b"/golden/").unwrap() - 2;
                newer(&mut entry[at..]);
            };
            tasks(m, "files").for_each(|t| newer_entries(&mut t.members[0].operator_state, "flott.splits", position));
        }),
        ("the splits that are left", |m| m.enumerators.iter_mut().for_each(|(_, left)| newer(left))),
        ("a part of a files sink", |m| {
            m.committables.iter_mut().flat_map(|(_, parts)| parts).for_each(|part| newer(&mut part.0));
        }),
        ("the number of the next part", |m| {
            tasks(m, "sink").for_each(|task| {
                let sink = task.members.iter_mut().find(|member| member.uid == "sink").unwrap();
                newer_entries(&mut sink.operator_state, "flott.writer", newer);
            });
        }),
    ];
    let (manifest, parts) = stored();
    for (what, change) in forms {
        let mut changed = manifest.clone();
        change(&mut changed);
        assert_ne!(changed, manifest);
        let place = Place::new(&parts);
        let mut restored = simulation(1, &InMemory::default());
        restored.from = Some(moved(&changed, &placeholder(), place.folder.to_str().unwrap()));
        let tasks = Arc::new(job(&place, 2).tasks(1).unwrap());
        let error = simulate(&tasks, &all_parts(), restored).unwrap().end.unwrap_err();
        let expected = format!("expected version 1 of {what}, found 7: written by a newer flott");
        assert_eq!(error.message(), expected, "{error}");
    }
}

/// A store that keeps the first checkpoint, and what was in the folder of the job when it was taken.
struct Recording {
    store: InMemory,
    folder: PathBuf,
}

impl CheckpointStore for Recording {
    fn write(&mut self, manifest: &Manifest) -> Result<Location> {
        if holds_everything(manifest) && !golden().exists() {
            fs::create_dir_all(golden().join("parts")).unwrap();
            let moved = moved(manifest, self.folder.to_str().unwrap(), &placeholder());
            fs::write(golden().join("_metadata"), moved.encode()?).unwrap();
            for entry in fs::read_dir(self.folder.join("out")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_owned();
                fs::copy(&path, golden().join("parts").join(name)).unwrap();
            }
        }
        self.store.write(manifest)
    }

    fn latest(&self) -> Result<Latest> {
        self.store.latest()
    }

    fn read(&self, location: &Location) -> Result<Manifest> {
        self.store.read(location)
    }
}

/// How the golden files were made; they are made once, where they are not there.
#[test]
#[ignore = "writes the golden files"]
fn record() {
    for seed in 0..500 {
        let place = Place::new(&[]);
        let mut first = simulation(seed, &InMemory::default());
        first.store = Box::new(Recording { store: InMemory::default(), folder: place.folder.clone() });
        first.trigger = Some((150 + seed * 3, CheckpointKind::Checkpoint));
        first.slow = (0..2).map(|index| (TaskId { vertex: VertexId(3), index }, 20)).collect();
        let ran = simulate(&Arc::new(job(&place, 2).tasks(1).unwrap()), &all_parts(), first).unwrap();
        assert_eq!((ran.end, place.lines()), (Ok(JobEnd::Finished), expected()), "seed {seed}");
        if golden().exists() {
            return;
        }
    }
    panic!("no checkpoint holds everything");
}
