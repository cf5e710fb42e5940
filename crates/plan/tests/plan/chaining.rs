//! Graphs in, vertices and edges out. The rules are those of Flink's `StreamingJobGraphGenerator.isChainable`.

use expect_test::{Expect, expect};
use flott_core::InputId;
use flott_plan::{ChainTarget, JobGraph, NodeKind, VertexId};

use crate::notation::{graph, render};

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&render(&JobGraph::of(&graph(text)).unwrap()));
}

#[test]
fn forward_neighbours_share_a_task() {
    check(
        "a: source\n b: op <- a\n c: op <- b\n d: sink <- c",
        expect![[r#"
        0: a -> b -> c -> d x1 of 128
    "#]],
    );
}

#[test]
fn a_source_that_nobody_reads_is_left_out() {
    let text = "a: source\n unread: source\n b: op <- a\n c: op <- b\n d: sink <- b rebalance";
    check(
        text,
        expect![[r#"
            0: a -> b -> c x1 of 128
            1: d x1 of 128
               0 <- 0.b.0 REBALANCE []
        "#]],
    );
    let plan = graph(text).explain();
    assert!(
        plan.contains("2: unread (source, uid unread, parallelism 1 of 128)\n   left out: nobody reads it"),
        "{plan}"
    );
}

#[test]
fn every_other_partitioning_ends_a_chain() {
    check(
        "a: source\n b: op <- a hash(0)\n c: op <- b rebalance\n d: op <- c rescale\n e: op <- d broadcast
         f: op <- e shuffle\n g: op <- f global\n h: sink <- g custom",
        expect![[r#"
            0: a x1 of 128
            1: b x1 of 128
               0 <- 0.a.0 HASH [0]
            2: c x1 of 128
               0 <- 1.b.0 REBALANCE []
            3: d x1 of 128
               0 <- 2.c.0 RESCALE []
            4: e x1 of 128
               0 <- 3.d.0 BROADCAST []
            5: f x1 of 128
               0 <- 4.e.0 SHUFFLE []
            6: g x1 of 128
               0 <- 5.f.0 GLOBAL []
            7: h x1 of 128
               0 <- 6.g.0 CUSTOM []
        "#]],
    );
}

#[test]
fn members_after_a_keyed_head_are_not_keyed() {
    check(
        "a: source\n sum: op <- a hash(0)\n map: op <- sum\n s: sink <- map",
        expect![[r#"
        0: a x1 of 128
        1: sum -> map -> s x1 of 128
           0 <- 0.a.0 HASH [0]
    "#]],
    );
    let job = JobGraph::of(&graph("a: source\n sum: op <- a hash(0)\n s: sink <- sum")).unwrap();
    assert_eq!(job.vertices[1].chain[0].keys, [vec![0]]);
    assert_eq!(job.vertices[1].chain[1].keys, [Vec::<usize>::new()]);
}

#[test]
fn another_parallelism_ends_a_chain() {
    check(
        "set parallelism.default = 2\n a: source x1\n b: op <- a rebalance\n c: sink x2 <- b",
        expect![[r#"
        0: a x1 of 128
        1: b -> c x2 of 128
           0 <- 0.a.0 REBALANCE []
    "#]],
    );
}

#[test]
fn another_max_parallelism_ends_a_chain() {
    check(
        "a: source\n b: op max=64 <- a\n c: sink max=64 <- b",
        expect![[r#"
        0: a x1 of 128
        1: b -> c x1 of 64
           0 <- 0.a.0 FORWARD []
    "#]],
    );
}

#[test]
fn options_end_a_chain() {
    check(
        "a: source\n b: op head <- a\n c: op <- b\n d: op never <- c\n e: sink <- d",
        expect![[r#"
        0: a x1 of 128
        1: b -> c x1 of 128
           0 <- 0.a.0 FORWARD []
        2: d x1 of 128
           0 <- 1.c.0 FORWARD []
        3: e x1 of 128
           0 <- 2.d.0 FORWARD []
    "#]],
    );
    check(
        "set pipeline.operator-chaining.enabled = false\n a: source\n b: op <- a\n c: sink <- b",
        expect![[r#"
        0: a x1 of 128
        1: b x1 of 128
           0 <- 0.a.0 FORWARD []
        2: c x1 of 128
           0 <- 1.b.0 FORWARD []
    "#]],
    );
}

#[test]
fn a_chain_can_branch_and_end_in_side_outputs() {
    check(
        "a: source\n b: op side=late <- a\n c: op <- b\n d: sink <- c\n e: sink <- b.1\n f: sink x2 <- b rebalance",
        expect![[r#"
            0: a -> b -> (c -> d, e) x1 of 128
            1: f x2 of 128
               0 <- 0.b.0 REBALANCE []
        "#]],
    );
}

#[test]
fn a_union_and_a_second_input_begin_a_vertex() {
    check(
        "a: source\n b: source\n u: op <- a, b\n s: sink <- u",
        expect![[r#"
        0: a x1 of 128
        1: b x1 of 128
        2: u -> s x1 of 128
           0 <- 0.a.0 FORWARD []
           0 <- 1.b.0 FORWARD []
    "#]],
    );
    check(
        "a: source\n b: source\n j: op <- a hash(0), b hash(0) @1\n s: sink <- j",
        expect![[r#"
        0: a x1 of 128
        1: b x1 of 128
        2: j -> s x1 of 128
           0 <- 0.a.0 HASH [0]
           1 <- 1.b.0 HASH [0]
    "#]],
    );
    check(
        "a: source\n m: op <- a\n j: op <- a, m @1\n s: sink <- j",
        expect![[r#"
        0: a -> m x1 of 128
        1: j -> s x1 of 128
           0 <- 0.a.0 FORWARD []
           1 <- 0.m.0 FORWARD []
    "#]],
    );
    check(
        "a: source\n b: source\n j: op <- a hash(1), b broadcast @1\n s: sink <- j",
        expect![[r#"
        0: a x1 of 128
        1: b x1 of 128
        2: j -> s x1 of 128
           0 <- 0.a.0 HASH [1]
           1 <- 1.b.0 BROADCAST []
    "#]],
    );
}

#[test]
fn members_know_their_columns() {
    let job = JobGraph::of(&graph(
        "a: source cols=x:int\n b: op side=late cols=y:str <- a\n c: op cols=z:int <- b
         j: op x2 cols=w:int,v:int <- c hash(0), b.1 rebalance @1\n s: sink cols=w:int,v:int x2 <- j",
    ))
    .unwrap();
    let info = |vertex, position| job.operator_info(VertexId(vertex), position, 0).unwrap();
    let names = |schemas: &[arrow_schema::SchemaRef]| {
        schemas.iter().map(|s| s.field(0).name().clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&info(0, 0).inputs), "");
    assert_eq!(names(&info(0, 1).inputs), "x");
    assert_eq!(names(&info(0, 2).inputs), "y");
    // `side=late` takes the columns said before it: here the default ones.
    assert_eq!(names(&info(1, 0).inputs), "z k");
    assert_eq!(info(1, 0).keys, [vec![0], vec![]]);
    assert_eq!(info(1, 0).parallelism, 2);
    assert_eq!(names(&info(1, 1).inputs), "w");
    assert!(job.operator_info(VertexId(1), 2, 0).is_none());
    assert_eq!(job.vertices[0].chain[0].outputs[0].to, ChainTarget::Member { index: 1, input: InputId(0) });
}

#[test]
fn the_distance_of_watermarks_is_the_jobs_where_nothing_is_said() {
    // 4096 is the option's default.
    for (option, distances) in [("", [4096, 4096, 5]), ("set flott.watermark.rows = 7\n ", [7, 7, 5])] {
        let text = format!(
            "{option}a: source time=1 every=0\n b: source time=1 every=5\n w: wm every=0 <- a\n s: sink <- w, b"
        );
        let job = JobGraph::of(&graph(&text)).unwrap();
        let kinds = job.vertices.iter().flat_map(|vertex| &vertex.chain).map(|member| &member.node.kind);
        let found = kinds.filter_map(|kind| match kind {
            NodeKind::Source { watermarks: Some(strategy), .. } | NodeKind::Watermarks(strategy) => {
                Some(strategy.every_rows)
            }
            _ => None,
        });
        assert_eq!(found.collect::<Vec<_>>(), distances, "{option}");
    }
}
