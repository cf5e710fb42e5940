//! Counters of an operator, with Flink's names: [`Metrics`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A number that only grows; cheap to share and to add to.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one operator in one task, by Flink's metric names (`numRecordsIn`, `numLateRecordsDropped` …).
///
/// ```
/// let metrics = flott_core::Metrics::default();
/// metrics.counter("numLateRecordsDropped").add(2);
/// assert_eq!(metrics.read(), [("numLateRecordsDropped".to_owned(), 2)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<String, Counter>>>);

impl Metrics {
    /// The counter of this name; keep it rather than ask for every batch.
    pub fn counter(&self, name: &str) -> Counter {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(name) {
            return counter.clone();
        }
        counters.entry(name.to_owned()).or_default().clone()
    }

    /// All counters, by name.
    pub fn read(&self) -> Vec<(String, u64)> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|(name, counter)| (name.clone(), counter.get())).collect()
    }
}
