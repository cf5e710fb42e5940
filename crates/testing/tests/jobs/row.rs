//! Rows of these tests: a key, an event time in ms, a value.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use flott_checkpoint::{CheckpointStore, InMemory, Latest, Location, Manifest};
use flott_connectors::collection::CollectionConfig;
use flott_core::{Batch, Result, Spec, schema_of};
use flott_runtime::simulator::Simulation;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Key, event time, value.
pub(crate) type Row = (i64, i64, i64);

/// How much a row may be behind the latest before it, in ms.
pub(crate) const BEHIND_MS: i64 = 40;

pub(crate) fn schema() -> SchemaRef {
    schema_of(["k", "t", "v"].map(|name| Field::new(name, DataType::Int64, false)).to_vec())
}

/// Rows as a batch, with their event times.
pub(crate) fn batch(rows: &[Row]) -> Batch {
    let of = |pick: fn(&Row) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(pick)));
    let columns = RecordBatch::try_new(schema(), vec![of(|r| r.0), of(|r| r.1), of(|r| r.2)]).unwrap();
    Batch::new(columns).with_event_times(Some(rows.iter().map(|row| row.1).collect()))
}

/// The rows of a batch.
pub(crate) fn read(batch: &Batch) -> Vec<Row> {
    let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values();
    (0..batch.num_rows()).map(|row| (column(0)[row], column(1)[row], column(2)[row])).collect()
}

/// Rows as sinks show them, sorted.
pub(crate) fn lines(rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<_> = rows.iter().map(|(k, t, v)| format!("{k}, {t}, {v}")).collect();
    lines.sort();
    lines
}

/// Random rows, none more than [`BEHIND_MS`] behind the latest before it; some are there twice.
pub(crate) fn input(random: &mut SmallRng, count: usize) -> Vec<Row> {
    let (mut latest, mut rows) = (-200, Vec::new());
    while rows.len() < count {
        latest += random.random_range(0..3);
        let row = (random.random_range(0..20), latest - random.random_range(0..BEHIND_MS), random.random_range(0..100));
        rows.push(row);
        if random.random_bool(0.1) {
            rows.push(row);
        }
    }
    rows
}

/// A source of these rows.
pub(crate) fn source(rows: &[Row], splits: u32) -> Spec {
    CollectionConfig::new(&schema(), &[batch(rows).columns().clone()], splits).unwrap().spec().unwrap()
}

/// Processes of a simulated run.
pub(crate) fn hosts(seed: u64) -> u32 {
    // Not drawn with anything else of the seed, so that it depends on nothing else.
    SmallRng::seed_from_u64(seed ^ 0x405).random_range(1..=3)
}

/// A simulated run without anything special.
pub(crate) fn simulation(seed: u64, store: &InMemory) -> Simulation {
    Simulation {
        seed,
        store: Box::new(store.clone()),
        from: None,
        trigger: None,
        failures_per_million: 0,
        slow: BTreeMap::new(),
        max_steps: 3_000_000,
    }
}

/// A store that remembers all that was ever written; the oldest is the first.
#[derive(Clone, Default)]
pub(crate) struct Recorded(InMemory, Arc<Mutex<Vec<Manifest>>>);

impl Recorded {
    pub(crate) fn manifests(&self) -> Vec<Manifest> {
        self.1.lock().unwrap().clone()
    }
}

impl CheckpointStore for Recorded {
    fn write(&mut self, manifest: &Manifest) -> Result<Location> {
        self.1.lock().unwrap().push(manifest.clone());
        self.0.write(manifest)
    }

    fn latest(&self) -> Result<Latest> {
        self.0.latest()
    }

    fn read(&self, location: &Location) -> Result<Manifest> {
        self.0.read(location)
    }
}
