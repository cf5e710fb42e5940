//! What programs become: nodes, edges, uids, and specs that the connectors can read.

use expect_test::{Expect, expect};
use flott_core::Registry;
use flott_datastream::*;
use flott_plan::{Chaining, NodeKind};

#[derive(Record, Clone)]
struct Flight {
    origin: String,
    delay: Option<f64>,
    time: Timestamp,
}

fn check(program: impl Fn(&StreamExecutionEnvironment), expected: &Expect) {
    let env = StreamExecutionEnvironment::new();
    program(&env);
    expected.assert_eq(&env.stream_graph().unwrap().explain());
}

#[test]
fn word_count() {
    check(
        |env| {
            let lines = env.read_text("in.txt");
            let words = lines.flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
            let counts = words.map(|word| (word, 1_u64)).key_by(|row| row.0.clone()).reduce(|a, b| (a.0, a.1 + b.1));
            counts.uid("counts").name("Counts").set_parallelism(2).print();
        },
        &expect![[r#"
            == Plan of flott job ==
            1: Text Source (source, uid text, parallelism 1 of 128)
            2: Flat Map (operator, uid text/flat_map, parallelism 1 of 128)
               <- 1 FORWARD
            3: Map (operator, uid text/flat_map/map, parallelism 1 of 128)
               <- 2 FORWARD
            4: Key By (operator, uid text/flat_map/map/key_by, parallelism 1 of 128)
               <- 3 FORWARD
            5: Counts (operator, uid counts, parallelism 2 of 128)
               <- 4 HASH(__key0)
            6: Print to Std. Out (sink, uid counts/print, parallelism 1 of 128)
               <- 5 REBALANCE
        "#]],
    );
}

#[test]
fn windows_side_outputs_and_partitionings() {
    check(
        |env| {
            env.set_parallelism(2);
            let flights = env.read_csv::<Flight>("flights.csv");
            let strategy = WatermarkStrategy::for_bounded_out_of_orderness(1000);
            let timed = flights.assign_timestamps_and_watermarks(strategy, |flight| flight.time);
            let keyed = timed.key_by(|flight| (flight.origin.clone(), flight.delay.is_some()));
            let last = keyed
                .window(TumblingEventTimeWindows::of(3_600_000))
                .reduce_with(|_, b| b, |key, window, flight| (key.0, window.start, flight.delay));
            last.rebalance().map(|row| row.0).start_new_chain().collect();
            let _ = last.broadcast().map(|row| row.1).map(|row| row).disable_chaining().print().name("Out").uid("out");
            last.partition_custom(|_, tasks| tasks - 1).union(&last.shuffle()).print();
            last.global().map(|row| row.2).set_parallelism(1).key_by(Option::is_some).reduce(|a, _| a).print();
        },
        &expect![[r#"
            == Plan of flott job ==
            1: CSV Source (source, uid csv, parallelism 2 of 128)
            2: Timestamps (operator, uid csv/timestamps, parallelism 2 of 128)
               <- 1 FORWARD
            3: Timestamps/Watermarks (watermarks, uid csv/timestamps/watermarks, parallelism 2 of 128)
               <- 2 FORWARD
            4: Key By (operator, uid csv/timestamps/watermarks/key_by, parallelism 2 of 128)
               <- 3 FORWARD
            5: Tumbling Window (operator, uid csv/timestamps/watermarks/key_by/window, parallelism 2 of 128)
               <- 4 HASH(__key0, __key1)
            6: Map (operator, uid csv/timestamps/watermarks/key_by/window/map, parallelism 2 of 128)
               <- 5 REBALANCE
            7: Collect (sink, uid csv/timestamps/watermarks/key_by/window/map/collect, parallelism 2 of 128)
               <- 6 FORWARD
            8: Map (operator, uid csv/timestamps/watermarks/key_by/window/map-2, parallelism 2 of 128)
               <- 5 BROADCAST
            9: Map (operator, uid csv/timestamps/watermarks/key_by/window/map-2/map, parallelism 2 of 128)
               <- 8 FORWARD
            10: Out (sink, uid out, parallelism 2 of 128)
               <- 9 FORWARD
            11: Print to Std. Out (sink, uid csv/timestamps/watermarks/key_by/window/print, parallelism 2 of 128)
               <- 5 CUSTOM
               <- 5 SHUFFLE
            12: Map (operator, uid csv/timestamps/watermarks/key_by/window/map-3, parallelism 1 of 128)
               <- 5 GLOBAL
            13: Key By (operator, uid csv/timestamps/watermarks/key_by/window/map-3/key_by, parallelism 1 of 128)
               <- 12 FORWARD
            14: Keyed Reduce (operator, uid csv/timestamps/watermarks/key_by/window/map-3/key_by/reduce, parallelism 2 of 128)
               <- 13 HASH(__key0)
            15: Print to Std. Out (sink, uid csv/timestamps/watermarks/key_by/window/map-3/key_by/reduce/print, parallelism 2 of 128)
               <- 14 FORWARD
        "#]],
    );
}

#[test]
fn a_keyed_edge_has_hidden_columns() {
    let env = StreamExecutionEnvironment::new();
    let rows = env.from_collection(vec![(1_i64, "a".to_owned())]);
    rows.key_by(|row| (row.1.clone(), row.0)).reduce(|a, _| a).collect();
    let graph = env.stream_graph().unwrap();
    let columns = |node: usize| graph.nodes[node].output.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>();
    assert_eq!(columns(1), ["f0", "f1", "__key0", "__key1"]);
    assert_eq!(columns(2), ["f0", "f1"]);
}

/// Adding an unrelated branch leaves generated uids as they are.
#[test]
fn uids_come_from_the_place() {
    let uids = |with_branch: bool| {
        let env = StreamExecutionEnvironment::new();
        let rows = env.from_collection(vec![1_i64]).uid("rows");
        if with_branch {
            rows.filter(|_| true).print();
        }
        rows.map(|n| n).map(|n| n).collect();
        let graph = env.stream_graph().unwrap();
        graph.nodes.into_iter().map(|node| node.uid).collect::<Vec<_>>()
    };
    assert_eq!(uids(false), ["rows", "rows/map", "rows/map/map", "rows/map/map/collect"]);
    assert!(uids(false).iter().all(|uid| uids(true).contains(uid)));
}

#[test]
fn the_strategy_of_a_source_takes_the_jobs_distance() {
    let env = StreamExecutionEnvironment::new();
    env.set("flott.watermark.rows", "7");
    let strategy = WatermarkStrategy::for_monotonous_timestamps().with_time_column(2);
    env.from_source::<Flight>("Flights", Spec::new("x", &()).unwrap(), Some(strategy)).print();
    let job = flott_plan::JobGraph::of(&env.stream_graph().unwrap()).unwrap();
    let NodeKind::Source { watermarks, .. } = &job.vertices[0].chain[0].node.kind else { panic!() };
    assert_eq!(watermarks.as_ref().unwrap().every_rows, 7);
}

#[test]
fn settings_reach_the_node() {
    let env = StreamExecutionEnvironment::new();
    env.set_max_parallelism(64).disable_operator_chaining();
    let rows = env.from_collection(vec![1_i64]).map(|n| n).set_max_parallelism(16).disable_chaining();
    rows.print();
    let graph = env.stream_graph().unwrap();
    assert_eq!((graph.nodes[1].max_parallelism, graph.nodes[1].chaining), (Some(16), Chaining::Never));
    assert_eq!(graph.nodes[0].parallelism, Some(1));
    assert!(!graph.config.get(&flott_core::config::OBJECT_CHAINING).unwrap());
}

/// The configurations written here without knowing the connectors are theirs.
#[test]
fn connectors_read_the_specs() {
    let mut registry = Registry::default();
    flott_connectors::register_all(&mut registry);
    let env = StreamExecutionEnvironment::new();
    env.from_sequence(1, 3).print();
    env.read_text("in.txt").print();
    env.read_csv::<Flight>("in.csv").print();
    let mut made = 0;
    for node in env.stream_graph().unwrap().nodes {
        match &node.kind {
            NodeKind::Source { spec, .. } => made += usize::from(registry.source(&spec.factory).unwrap()(spec).is_ok()),
            NodeKind::Sink(spec) => made += usize::from(registry.sink(&spec.factory).unwrap()(spec).is_ok()),
            NodeKind::Operator(_) | NodeKind::Watermarks(_) => {}
        }
    }
    assert_eq!(made, 6);
}
