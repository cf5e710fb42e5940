//! Tasks, processes and channels.

use expect_test::expect;
use flott_plan::{EdgeId, ExecutionGraph, HostId, JobGraph, TaskId, VertexId};

use crate::notation::graph;

fn two_vertices(partitioning: &str, senders: u32, receivers: u32) -> ExecutionGraph {
    let text = format!("a: source x{senders} never\n b: sink x{receivers} <- a {partitioning}");
    ExecutionGraph::of(JobGraph::of(&graph(&text)).unwrap(), 1)
}

#[test]
fn receivers_are_the_inverse_of_senders() {
    let edge = EdgeId(0);
    for partitioning in ["forward", "hash(0)", "rebalance", "rescale", "broadcast", "shuffle", "global", "custom"] {
        for (senders, receivers) in (1..=13).flat_map(|s| (1..=13).map(move |r| (s, r))) {
            if partitioning == "forward" && senders != receivers {
                continue;
            }
            let tasks = two_vertices(partitioning, senders, receivers);
            for (from, to) in (0..senders).flat_map(|f| (0..receivers).map(move |t| (f, t))) {
                assert_eq!(
                    tasks.receivers(edge, from).contains(&to),
                    tasks.senders(edge, to).contains(&from),
                    "{partitioning} {senders} -> {receivers}: {from} -> {to}"
                );
            }
            let reached = |n: usize| n >= 1;
            assert!((0..senders).all(|from| reached(tasks.receivers(edge, from).len())));
            assert!((0..receivers).all(|to| reached(tasks.senders(edge, to).len())));
            // All-to-all has a channel for each pair; a pointwise edge one for each task of the wider side.
            let expected = match partitioning {
                "forward" | "rescale" => senders.max(receivers),
                _ => senders * receivers,
            };
            assert_eq!(tasks.channels_of_edge(edge).len(), expected as usize);
        }
    }
}

#[test]
fn rescale_is_flinks_pointwise_distribution() {
    let mut text = String::new();
    for (senders, receivers) in [(2, 4), (4, 2), (3, 5), (5, 3)] {
        let tasks = two_vertices("rescale", senders, receivers);
        let of_sender: Vec<_> = (0..senders).map(|from| tasks.receivers(EdgeId(0), from)).collect();
        text += &format!("{senders} -> {receivers}: {of_sender:?}\n");
    }
    expect![[r#"
        2 -> 4: [[0, 1], [2, 3]]
        4 -> 2: [[0], [0], [1], [1]]
        3 -> 5: [[0, 1], [2, 3], [4]]
        5 -> 3: [[0], [1], [1], [2], [2]]
    "#]]
    .assert_eq(&text);
}

#[test]
fn tasks_are_spread_over_processes() {
    let job = JobGraph::of(&graph("a: source x1\n b: op x3 <- a rebalance\n c: sink x4 <- b rebalance")).unwrap();
    let on = |hosts, host| {
        let tasks = ExecutionGraph::of(job.clone(), hosts);
        let ids = tasks.tasks_on(HostId(host)).map(|t| format!("{}.{}", t.vertex.0, t.index));
        ids.collect::<Vec<_>>().join(" ")
    };
    // By `i * hosts / parallelism`.
    assert_eq!(on(1, 0), "0.0 1.0 1.1 1.2 2.0 2.1 2.2 2.3");
    assert_eq!(on(2, 0), "0.0 1.0 1.1 2.0 2.1");
    assert_eq!(on(2, 1), "1.2 2.2 2.3");
    let tasks = ExecutionGraph::of(job.clone(), 2);
    for (task, host) in &tasks.tasks {
        assert_eq!(tasks.host_of(*task), Some(*host));
    }
    assert_eq!(tasks.host_of(TaskId { vertex: VertexId(1), index: 3 }), None);
}

#[test]
fn what_is_not_there_has_no_channels() {
    let tasks = two_vertices("rescale", 2, 3);
    assert!(tasks.senders(EdgeId(1), 0).is_empty());
    assert!(tasks.senders(EdgeId(0), 3).is_empty());
    assert!(tasks.receivers(EdgeId(0), 2).is_empty());
    assert!(tasks.channels_of_edge(EdgeId(1)).is_empty());
}
