//! Plans as people and as Flink's visualizer read them.

use expect_test::expect;

use crate::notation::graph;

const TEXT: &str = "
    set parallelism.default = 3
    words: source x1
    count: op side=late uid=c <- words hash(0)
    rules: source x1
    match: op max=64 <- count rebalance, rules broadcast @1
    print: sink <- match
    late: sink <- count.1";

#[test]
fn as_text() {
    expect![[r#"
        == Plan of job ==
        1: words (source, uid words, parallelism 1 of 128)
        2: count (operator, uid c, parallelism 3 of 128)
           <- 1 HASH(k)
        3: rules (source, uid rules, parallelism 1 of 128)
        4: match (operator, uid match, parallelism 3 of 64)
           <- 2 REBALANCE into input 0
           <- 3 BROADCAST into input 1
        5: print (sink, uid print, parallelism 3 of 128)
           <- 4 FORWARD
        6: late (sink, uid late, parallelism 3 of 128)
           <- 2 side output late FORWARD
    "#]]
    .assert_eq(&graph(TEXT).explain());
}

#[test]
fn as_json() {
    expect![[r#"
        {
          "nodes": [
            {
              "contents": "words",
              "id": 1,
              "pact": "Data Source",
              "parallelism": 1,
              "type": "words"
            },
            {
              "contents": "count",
              "id": 2,
              "pact": "Operator",
              "parallelism": 3,
              "predecessors": [
                {
                  "id": 1,
                  "ship_strategy": "HASH"
                }
              ],
              "type": "count"
            },
            {
              "contents": "rules",
              "id": 3,
              "pact": "Data Source",
              "parallelism": 1,
              "type": "rules"
            },
            {
              "contents": "match",
              "id": 4,
              "pact": "Operator",
              "parallelism": 3,
              "predecessors": [
                {
                  "id": 2,
                  "ship_strategy": "REBALANCE"
                },
                {
                  "id": 3,
                  "ship_strategy": "BROADCAST"
                }
              ],
              "type": "match"
            },
            {
              "contents": "print",
              "id": 5,
              "pact": "Data Sink",
              "parallelism": 3,
              "predecessors": [
                {
                  "id": 4,
                  "ship_strategy": "FORWARD"
                }
              ],
              "type": "print"
            },
            {
              "contents": "late",
              "id": 6,
              "pact": "Data Sink",
              "parallelism": 3,
              "predecessors": [
                {
                  "id": 2,
                  "ship_strategy": "FORWARD"
                }
              ],
              "type": "late"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&graph(TEXT).explain_json()).unwrap());
}
