//! Who hears of a job while it goes on is no part of it.
#![allow(clippy::panic, clippy::unwrap_used, reason = "what is tested, and helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use flott_core::{CheckpointKind, Spec};
use flott_plan::{NodeKind, Partitioning};
use flott_runtime::local::JobControl;
use flott_runtime::master::{JobEnd, Note};
use flott_testing::jobs::{CommittingSink, Graph, registry, run};

use super::row::{lines, schema, source};

#[test]
fn who_cannot_be_told_does_not_fail_the_job() {
    let sink = CommittingSink::default();
    let mut registry = registry();
    sink.register(&mut registry, "sink");
    let mut graph = Graph::new(&[("restart-strategy.type", "none")]).unwrap();
    let rows: Vec<_> = (0..100).map(|n| (n, n, n)).collect();
    let source = graph.add("source", NodeKind::Source { spec: source(&rows, 4), watermarks: None }, &[], schema());
    let to = NodeKind::Sink(Spec::new("sink", &()).unwrap());
    graph.add("sink", to, &[(source, Partitioning::Rebalance)], schema());
    let told = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&told);
    let cannot_hear = move |_: &JobControl, _: &Note| {
        heard.fetch_add(1, Ordering::SeqCst);
        panic!("nobody listens");
    };
    // It may be complete, given up or refused: it is told in any case.
    let ask = |control: &JobControl| control.trigger(CheckpointKind::Savepoint);
    let ran = run(&graph, &registry, None, cannot_hear, ask).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert!(told.load(Ordering::SeqCst) > 0);
    assert_eq!(sink.rows().unwrap(), lines(&rows));
}
