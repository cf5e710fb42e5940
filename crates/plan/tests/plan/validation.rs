//! What is refused before anything runs, with the words the user reads.

use expect_test::{Expect, expect};
use flott_core::ErrorDomain;
use flott_plan::{JobGraph, StreamGraph};

use crate::notation::graph;

fn check(text: &str, expected: Expect) {
    check_graph(&graph(text), expected);
}

fn check_graph(graph: &StreamGraph, expected: Expect) {
    let error = graph.validate().unwrap_err();
    assert_eq!(error.domain(), ErrorDomain::User);
    assert_eq!(JobGraph::of(graph).unwrap_err(), error);
    expected.assert_eq(&error.to_string());
}

#[test]
fn whole_jobs() {
    check("", expect!["the job has no operators: add a source and a sink (job job)"]);
    check(
        "a: source\n b: op <- a",
        expect!["the job has no sink, so nothing would come of it: add one to the last stream (job job)"],
    );
}

#[test]
fn options() {
    for key in [
        "flott.batch.rows",
        "flott.requests.capacity",
        "flott.watermark.rows",
        "taskmanager.network.memory.buffers-per-channel",
    ] {
        let error = graph(&format!("set {key} = 0\n a: source\n b: sink <- a")).validate().unwrap_err().to_string();
        assert_eq!(error, format!("expected a whole number of at least 1, found 0 (option {key})"));
    }
}

#[test]
fn uids() {
    check(
        "a: source uid=x\n b: sink uid=x <- a",
        expect!["'a' and 'b' have the same uid: give one of them another, such as 'x-2' (uid x)"],
    );
    check(
        "a: source uid=x\n b: op uid=x-2 <- a\n c: sink uid=x <- b",
        expect!["'a' and 'c' have the same uid: give one of them another, such as 'x-3' (uid x)"],
    );
    check(
        "a: source uid=\n b: sink <- a",
        expect!["it has an empty uid, by which its state could not be found again: give it one (operator a)"],
    );
}

#[test]
fn edges() {
    check(
        "a: source\n b: op <- c\n c: sink <- b",
        expect!["it reads 'c', which does not come before it: a job has no cycles (operator b, uid b)"],
    );
    check(
        "a: source\n b: op <- b\n c: sink <- b",
        expect!["it reads 'b', which does not come before it: a job has no cycles (operator b, uid b)"],
    );
    check("a: source\n b: sink <- #7", expect!["it reads node 7, but the job has 2 nodes (operator b, uid b)"]);
    check(
        "a: source\n b: sink <- a.1",
        expect!["it reads output 1 of 'a', which has 1, counted from 0 (operator b, uid b)"],
    );
    check(
        "a: source side=late\n b: sink <- a.2",
        expect!["it reads output 2 of 'a', which has 2, counted from 0 (operator b, uid b)"],
    );
    check(
        "a: source\n b: sink <- a\n c: op <- b",
        expect!["it reads 'b', a sink, which has no outputs (operator c, uid c)"],
    );
    check(
        "a: source side=late side=late\n b: sink <- a",
        expect!["it has two side outputs of the tag 'late' (operator a, uid a)"],
    );
}

#[test]
fn inputs() {
    check(
        "a: source\n b: source <- a\n c: sink <- b",
        expect!["a source has no inputs, but this one does (operator b, uid b)"],
    );
    check("a: op\n b: sink <- a", expect!["it has no inputs: only a source can do without (operator a, uid a)"]);
    check("a: source\n b: sink", expect!["it has no inputs: only a source can do without (operator b, uid b)"]);
    check("a: source\n b: sink <- a @1", expect!["it has one input, found an edge into input 1 (operator b, uid b)"]);
    check(
        "a: source\n b: op <- a, a @2\n c: sink <- b",
        expect!["there are edges into input 2 but none into 1 (operator b, uid b)"],
    );
    check(
        "a: source\n b: wm <- a, a @1\n c: sink <- b",
        expect!["it has one input, found an edge into input 1 (operator b, uid b)"],
    );
}

#[test]
fn parallelism() {
    check(
        "a: source x0\n b: sink <- a",
        expect!["expected a parallelism of at least 1, found 0 (set on the operator) (operator a, uid a)"],
    );
    check(
        "set parallelism.default = 0\n a: source\n b: sink <- a",
        expect!["expected a parallelism of at least 1, found 0 (from 'parallelism.default') (operator a, uid a)"],
    );
    check(
        "a: source x129\n b: sink <- a rebalance",
        expect![
            "parallelism 129 is above max parallelism 128 (from 'pipeline.max-parallelism'): lower the one or raise the other, 'pipeline.max-parallelism'; state of earlier runs cannot be restored at another max parallelism (operator a, uid a)"
        ],
    );
    check(
        "a: source x3 max=2\n b: sink <- a rebalance",
        expect![
            "parallelism 3 is above max parallelism 2 (set on the operator): lower the one or raise the other, 'pipeline.max-parallelism'; state of earlier runs cannot be restored at another max parallelism (operator a, uid a)"
        ],
    );
    check(
        "a: source max=32769\n b: sink <- a",
        expect!["expected a max parallelism of at most 32768, found 32769 (set on the operator) (operator a, uid a)"],
    );
    check(
        "set pipeline.max-parallelism = 40000\n a: source\n b: sink <- a",
        expect![
            "expected a max parallelism of at most 32768, found 40000 (from 'pipeline.max-parallelism') (operator a, uid a)"
        ],
    );
    check(
        "a: source\n b: sink x2 <- a",
        expect![
            "forward needs the same parallelism on both sides, found 1 of 'a' and 2 here: use rebalance (operator b, uid b)"
        ],
    );
    // 2^15 is Flink's upper bound and allowed.
    graph("a: source max=32768\n b: sink <- a").validate().unwrap();
}

#[test]
fn keys() {
    check(
        "a: source\n b: op <- a hash(2)\n c: sink <- b",
        expect!["the key has column 2, but there are 2 columns: k, n (input 0, operator b, uid b)"],
    );
    check(
        "a: source\n b: op <- a hash()\n c: sink <- b",
        expect!["a key must have at least one column (input 0, operator b, uid b)"],
    );
    check(
        "a: source cols=tags:list\n b: op <- a hash(0)\n c: sink <- b",
        expect![
            "a key must be made of booleans, numbers, strings, bytes, dates or times, found List(Int64) (column tags, input 0, operator b, uid b)"
        ],
    );
    check(
        "a: source\n b: op <- a hash(0), a hash(1) @1\n c: sink <- b",
        expect![
            "all keyed inputs must have keys of the same types, found (STRING) on input 0 and (BIGINT) on input 1 (operator b, uid b)"
        ],
    );
    check(
        "a: source\n b: op <- a hash(0), a hash(0+1) @1\n c: sink <- b",
        expect![
            "all keyed inputs must have keys of the same types, found (STRING) on input 0 and (STRING, BIGINT) on input 1 (operator b, uid b)"
        ],
    );
    check(
        "a: source\n b: op <- a hash(0), a hash(1)\n c: sink <- b",
        expect![
            "streams of one input must be keyed by the same columns or not at all, found key (k) from 'a' and key (n) from 'a' (input 0, operator b, uid b)"
        ],
    );
    check(
        "a: source\n b: op <- a hash(0), a rebalance\n c: sink <- b",
        expect![
            "streams of one input must be keyed by the same columns or not at all, found key (k) from 'a' and no key from 'a' (input 0, operator b, uid b)"
        ],
    );
    // Names and positions of key columns may differ between inputs: types decide.
    graph("a: source\n d: source cols=n:int,name:str\n b: op <- a hash(0), d hash(1) @1\n c: sink <- b")
        .validate()
        .unwrap();
    // A keyed input beside a broadcast one.
    graph("a: source\n b: op <- a hash(0), a broadcast @1\n c: sink <- b").validate().unwrap();
}

#[test]
fn unions() {
    check(
        "a: source\n d: source cols=k:str\n u: sink <- a, d",
        expect![
            "streams of one input must have the same columns, but 'a' and 'd' differ: 2 columns and 1 (input 0, operator u, uid u)"
        ],
    );
    check(
        "a: source\n d: source cols=k:str,m:int\n u: sink <- a, d",
        expect![
            "streams of one input must have the same columns, but 'a' and 'd' differ: column 1 is 'n BIGINT' and 'm BIGINT' (input 0, operator u, uid u)"
        ],
    );
    check(
        "a: source\n d: source cols=k:str,n:double\n u: sink <- a, d",
        expect![
            "streams of one input must have the same columns, but 'a' and 'd' differ: column 1 is 'n BIGINT' and 'n DOUBLE' (input 0, operator u, uid u)"
        ],
    );
    check(
        "a: source\n d: source cols=k:str!,n:int\n u: sink <- a, d",
        expect![
            "streams of one input must have the same columns, but 'a' and 'd' differ: column 0 is 'k STRING' and 'k STRING NOT NULL' (input 0, operator u, uid u)"
        ],
    );
}

#[test]
fn event_time() {
    check(
        "a: source time=2\n b: sink <- a",
        expect!["the event time is in column 2, but there are 2 columns: k, n (operator a, uid a)"],
    );
    check(
        "a: source time=0\n b: sink <- a",
        expect![
            "the event time must be a timestamp or a BIGINT of milliseconds, found STRING (column k, operator a, uid a)"
        ],
    );
    check(
        "a: source cols=d:double\n w: wm time=0 <- a\n b: sink <- w",
        expect![
            "the event time must be a timestamp or a BIGINT of milliseconds, found DOUBLE (column d, operator w, uid w)"
        ],
    );
    graph("a: source cols=t:ts time=0\n w: wm time=0 cols=t:ts <- a\n b: sink <- w").validate().unwrap();
    graph("a: source time=1\n w: wm <- a\n b: sink <- w").validate().unwrap();
}
