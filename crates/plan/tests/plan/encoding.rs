//! Plans as bytes: golden files, and every way bytes can be wrong.

use expect_test::{ExpectFile, expect, expect_file};
use flott_plan::{ExecutionGraph, JobGraph, StreamGraph};

use crate::notation::graph;

fn example() -> StreamGraph {
    graph(
        "set parallelism.default = 2
         words: source cols=word:str,at:ts,n:int!,x:double,tags:list time=1 every=100
         times: wm cols=word:str,at:ts,n:int!,x:double,tags:list time=1 <- words
         count: op side=late uid=c max=64 <- times hash(0+2)
         other: op head <- count rebalance, count.1 rescale @1
         print: sink x1 never <- other broadcast, other shuffle, other global, other custom",
    )
}

fn hex(bytes: &[u8]) -> String {
    let lines: Vec<String> =
        bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    lines.join("\n") + "\n"
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Bytes are those of the file, so a plan of this version stays readable; a change needs a new version and new files.
fn golden(bytes: &[u8], file: ExpectFile) {
    file.assert_eq(&hex(bytes));
}

#[test]
fn golden_files() {
    let graph = example();
    let job = JobGraph::of(&graph).unwrap();
    let tasks = ExecutionGraph::of(job.clone(), 2);
    golden(&graph.encode().unwrap(), expect_file!["../golden/stream_graph.v1.hex"]);
    golden(&job.encode().unwrap(), expect_file!["../golden/job_graph.v1.hex"]);
    golden(&tasks.encode().unwrap(), expect_file!["../golden/execution_graph.v1.hex"]);
    assert_eq!(StreamGraph::decode(&unhex(include_str!("../golden/stream_graph.v1.hex"))).unwrap(), graph);
    assert_eq!(JobGraph::decode(&unhex(include_str!("../golden/job_graph.v1.hex"))).unwrap(), job);
    assert_eq!(ExecutionGraph::decode(&unhex(include_str!("../golden/execution_graph.v1.hex"))).unwrap(), tasks);
}

#[test]
fn wrong_bytes_are_refused_with_the_reason() {
    let good = example().encode().unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("empty", Vec::new()),
        ("another magic", with(0, b'X')),
        ("a later version", with(4, 2)),
        ("a much later version", with(5, 1)),
        ("another kind", with(6, 3)),
        ("an unknown kind", with(6, 9)),
        ("cut in the header", good[..6].to_vec()),
        ("cut in the body", good[..good.len() - 1].to_vec()),
        ("too long", [&good[..], &[0, 0]].concat()),
        ("a name that is not UTF-8", with(8, 0xff)),
    ];
    let mut text = String::new();
    for (case, bytes) in cases {
        text += &format!("{case}: {}\n", StreamGraph::decode(&bytes).unwrap_err());
    }
    expect![[r#"
        empty: expected a stream graph, found 0 bytes, fewer than its header
        another magic: expected a stream graph, found bytes that are no plan of flott
        a later version: expected a plan of version 1, found version 2: use the same flott on both sides
        a much later version: expected a plan of version 1, found version 257: use the same flott on both sides
        another kind: expected a stream graph, found an execution graph
        an unknown kind: expected a stream graph, found a graph of unknown kind 9
        cut in the header: expected a stream graph, found 6 bytes, fewer than its header
        cut in the body: found a stream graph that is cut off after 399 bytes
        too long: found a stream graph with 2 bytes too many
        a name that is not UTF-8: found a stream graph that is damaged: Tried to parse invalid utf-8
    "#]]
    .assert_eq(&text);
}

#[test]
fn every_truncation_is_an_error() {
    let graph = example();
    let job = JobGraph::of(&graph).unwrap();
    let tasks = ExecutionGraph::of(job.clone(), 2).encode().unwrap();
    let (graph, job) = (graph.encode().unwrap(), job.encode().unwrap());
    assert!((0..graph.len()).all(|end| StreamGraph::decode(&graph[..end]).is_err()));
    assert!((0..job.len()).all(|end| JobGraph::decode(&job[..end]).is_err()));
    assert!((0..tasks.len()).all(|end| ExecutionGraph::decode(&tasks[..end]).is_err()));
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let good = JobGraph::of(&example()).unwrap();
    let check = |damage: fn(&mut JobGraph)| {
        let mut job = good.clone();
        damage(&mut job);
        let bytes = job.encode().unwrap();
        let error = JobGraph::decode(&bytes).unwrap_err();
        assert_eq!(error.message(), "found a job graph that is damaged: its parts do not fit together");
        let tasks = ExecutionGraph { job, tasks: Vec::new() };
        assert!(ExecutionGraph::decode(&tasks.encode().unwrap()).is_err());
    };
    check(|job| job.vertices[0].parallelism = 0);
    check(|job| job.vertices[0].parallelism = 129);
    check(|job| job.vertices[0].max_parallelism = 40_000);
    check(|job| job.vertices[0].chain.clear());
    check(|job| job.vertices[1].chain[0].keys.clear());
    check(|job| job.vertices[1].inputs[0].0 = 99);
    check(|job| job.edges[0].input.0 = 1);
    check(|job| job.edges[0].to.0 = 99);
    check(|job| job.edges[0].from.0 = 99);
    check(|job| job.vertices[0].chain[0].outputs[0].to = flott_plan::ChainTarget::Edge(flott_plan::EdgeId(99)));

    let mut tasks = ExecutionGraph::of(good, 2);
    tasks.tasks.swap(0, 1);
    let error = ExecutionGraph::decode(&tasks.encode().unwrap()).unwrap_err();
    assert_eq!(error.message(), "found an execution graph that is damaged: its parts do not fit together");
}
