//! Random runs of the window aggregate against a model that knows nothing of slots, slices or chunks.

use std::collections::BTreeMap;

use flott_core::{InputId, Timestamp};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::tables::registry;
use flott_testing::harness::driver::Driver;
use flott_testing::harness::table::{Command, Setup, Table};

fn setup(size: i64, offset: i64) -> Setup {
    let text = format!(
        r#"operator: window_aggregate {{"size_ms": {size}, "offset_ms": {offset}, "aggregates": [
  {{"function": "count"}}, {{"function": "sum", "column": 1}}, {{"function": "min", "column": 1}},
  {{"function": "max", "column": 1}}, {{"function": "avg", "column": 1}}]}}
input 0: user STRING, n BIGINT   key: user
output: user STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), rows BIGINT, sum BIGINT, min BIGINT,
  max BIGINT, avg BIGINT
finish
"#
    );
    Table::parse(&text).unwrap().scenarios.remove(0).setup
}

/// Windows by (end, key), each with the values added; no value for NULL.
#[derive(Default)]
struct Model {
    windows: BTreeMap<(i64, String), Vec<Option<i64>>>,
    late: u64,
}

impl Model {
    fn add(&mut self, watermark: i64, size: i64, offset: i64, key: &str, n: Option<i64>, time: i64) {
        // The least offset + k·size above time.
        let end = offset + ((time - offset).div_euclid(size) + 1) * size;
        if end - 1 <= watermark {
            self.late += 1;
        } else {
            self.windows.entry((end, key.to_owned())).or_default().push(n);
        }
    }

    /// The rows of the windows that `watermark` completes, by end.
    fn fire(&mut self, watermark: i64, size: i64) -> Vec<String> {
        let later = self.windows.split_off(&(watermark.saturating_add(2), String::new()));
        let due = std::mem::replace(&mut self.windows, later);
        let line = |((end, key), values): ((i64, String), Vec<Option<i64>>)| {
            let known: Vec<i64> = values.iter().copied().flatten().collect();
            let text = |n: Option<i64>| n.map_or("NULL".to_owned(), |n| n.to_string());
            let sum = (!known.is_empty()).then(|| known.iter().sum::<i64>());
            let (least, greatest) = (known.iter().min().copied(), known.iter().max().copied());
            let average = sum.map(|sum| sum / known.len() as i64);
            let aggregates = [sum, least, greatest, average].map(text).join(" ");
            format!("= {key} {} {end} {} {aggregates} @{}", end - size, values.len(), end - 1)
        };
        due.into_iter().map(line).collect()
    }
}

/// The end of the window in a line, its third value.
fn end_of(line: &str) -> i64 {
    line.split(' ').nth(3).unwrap().parse().unwrap()
}

fn run(seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let size = random.random_range(1..50);
    let offset = random.random_range(-100..100);
    let setup = setup(size, offset);
    let registry = registry();
    let mut driver = Driver::new(&registry, &setup, random.random_range(1..20)).unwrap();
    let mut model = Model::default();
    let mut watermark = i64::MIN;
    let mut clock = random.random_range(-500..0);
    for _ in 0..random.random_range(1..30) {
        let mut rows = Vec::new();
        for _ in 0..random.random_range(0..40) {
            let key = format!("k{}", random.random_range(0..7));
            let n = random.random_bool(0.8).then(|| random.random_range(-1_000..1_000));
            let time = clock + random.random_range(-60..60);
            model.add(watermark, size, offset, &key, n, time);
            rows.push(format!("{key} {} @{time}", n.map_or("NULL".to_owned(), |n| n.to_string())));
        }
        if !rows.is_empty() {
            let (lines, failed) = driver.run(&Command::Rows(InputId(0), rows));
            assert!(!failed && lines.is_empty(), "seed {seed}: {lines:?}");
        }
        if random.random_bool(0.3) {
            driver.move_to(random.random_range(1..6)).unwrap();
        }
        if random.random_bool(0.5) {
            watermark = watermark.max(clock - random.random_range(0..80));
            check_watermark(&mut driver, &mut model, watermark, size, seed);
        }
        clock += random.random_range(0..40);
    }
    check_watermark(&mut driver, &mut model, i64::MAX, size, seed);
    assert_eq!(driver.metrics().get("numLateRecordsDropped").copied().unwrap_or(0), model.late, "seed {seed}");
}

fn check_watermark(driver: &mut Driver<'_>, model: &mut Model, watermark: i64, size: i64, seed: u64) {
    let (mut lines, failed) = driver.run(&Command::Watermark(Timestamp(watermark)));
    assert!(!failed, "seed {seed}: {lines:?}");
    assert_eq!(lines.pop(), Some(format!("= watermark {}", Timestamp(watermark))), "seed {seed}");
    if driver.parallelism() == 1 {
        assert!(lines.is_sorted_by_key(|line| end_of(line)), "seed {seed}: earlier windows first: {lines:?}");
    }
    lines.sort();
    let mut expected = model.fire(watermark, size);
    expected.sort();
    assert_eq!(lines, expected, "seed {seed}: size {size}, watermark {watermark}");
}

#[test]
fn windows_are_as_the_model_says() {
    (0..300).for_each(run);
}

#[test]
fn many_windows_of_many_keys_fire_in_chunks_in_order() {
    let setup = setup(10, 0);
    let registry = registry();
    let mut driver = Driver::new(&registry, &setup, 4096).unwrap();
    // Three windows of 5,000 keys: each is more than a chunk of 4,096 rows.
    let rows = (0..15_000).map(|i| format!("k{} 1 @{}", i % 5_000, i / 5_000 * 10)).collect();
    driver.run(&Command::Rows(InputId(0), rows));
    let (lines, _) = driver.run(&Command::Watermark(Timestamp(19)));
    assert_eq!(lines.len(), 10_001);
    assert!(lines[..10_000].is_sorted_by_key(|line| end_of(line)));
    let (lines, _) = driver.run(&Command::Finish);
    assert_eq!(lines.len(), 5_001);
}
