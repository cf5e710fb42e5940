//! Counters of a job in several processes are all in one place.

use std::collections::BTreeMap;

use flott_runtime::local::{JobControl, JobMetrics};
use flott_runtime::master::{JobEnd, Note};

use super::{CHECKPOINTS, ROWS, heavy, job, open, run, spread, watch};

/// The sums of all counters, by operator and name, and in how many tasks each operator is.
fn counters(metrics: &JobMetrics) -> (BTreeMap<(String, String), u64>, BTreeMap<String, usize>) {
    let (mut sums, mut tasks) = (BTreeMap::new(), BTreeMap::new());
    for operator in metrics.operators() {
        *tasks.entry(operator.info.uid.clone()).or_default() += 1;
        for (name, count) in operator.metrics.read() {
            *sums.entry((operator.info.uid.clone(), name)).or_default() += count;
        }
    }
    (sums, tasks)
}

#[test]
fn counters_are_those_of_all_processes() {
    for parallelism in ["1", "3"] {
        let in_hosts = |hosts| {
            let folder = tempfile::tempdir().unwrap();
            open(folder.path());
            let graph = spread(&job(folder.path(), &[("parallelism.default", parallelism)], heavy(0)), hosts);
            let ran = run(graph, folder.path(), "", None, |_, _| (), |_| ());
            assert_eq!(ran.end, Ok(JobEnd::Finished));
            counters(&ran.metrics)
        };
        let expected = in_hosts(1);
        // Every row is counted once where it comes in.
        let rows = ("sums".to_owned(), "numRecordsIn".to_owned());
        assert_eq!(expected.0[&rows], ROWS as u64);
        for hosts in [2, 3] {
            assert_eq!(in_hosts(hosts), expected, "parallelism {parallelism} in {hosts} processes");
        }
    }
}

#[test]
fn counters_of_workers_grow_while_they_run() {
    let folder = tempfile::tempdir().unwrap();
    // The sums are in the worker: source and sink are here.
    let graph = spread(&job(folder.path(), &[CHECKPOINTS], None), 2);
    let place = folder.path().to_owned();
    // The gate opens when rows were seen in the worker: otherwise the job would not end.
    let steer = move |_: &JobControl, _: &Note, metrics: &JobMetrics| {
        if metrics.sum("sums", "numRecordsIn") > 0 {
            open(&place);
        }
    };
    let ran = watch(graph, folder.path(), "", None, steer, |_| ());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert_eq!(ran.metrics.sum("sums", "numRecordsIn"), ROWS as u64);
}
