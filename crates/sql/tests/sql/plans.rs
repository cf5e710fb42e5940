//! Queries and the plans they get; graphs that other crates can read.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, RecordBatch, TimestampMillisecondArray, new_null_array};
use arrow_schema::DataType;
use expect_test::{Expect, expect};
use flott_operators::calc::CalcConfig;
use flott_operators::expr::compile;
use flott_operators::window_aggregate::WindowAggregateConfig;
use flott_plan::{JobGraph, NodeKind};
use flott_sql::Planned;

use crate::{environment, plan_of};

fn check(statement: &str, expected: &Expect) {
    expected.assert_eq(&plan_of(statement));
}

#[test]
fn a_filter_and_a_projection_are_one_calc() {
    check(
        "SELECT auction, price * 2 AS double_price FROM bids WHERE price > 10 AND note IS NOT NULL",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[auction, price * 2.0 AS double_price], where=[(price > 10.0) AND note IS NOT NULL])
           <- 1 FORWARD
        3: Sink(table=[select], fields=[auction, double_price])
           <- 2 FORWARD
        auction BIGINT, double_price DOUBLE"#]],
    );
    check(
        "SELECT * FROM bids",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Sink(table=[select], fields=[auction, bidder, price, note, cost, ts])
           <- 1 FORWARD
        auction BIGINT, bidder INT, price DOUBLE, note STRING, cost DECIMAL(10, 2), ts TIMESTAMP(3)"#]],
    );
    check(
        "SELECT auction, bids.auction, price AS auction0, 1 + 1, note IN ('a', 'b') FROM bids",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[auction, auction AS auction0, price AS auction00, 2 AS EXPR$3, (note = 'a') OR (note = 'b') AS EXPR$4])
           <- 1 FORWARD
        3: Sink(table=[select], fields=[auction, auction0, auction00, EXPR$3, EXPR$4])
           <- 2 FORWARD
        auction BIGINT, auction0 BIGINT, auction00 DOUBLE, EXPR$3 INT NOT NULL, EXPR$4 BOOLEAN"#]],
    );
    check(
        "SELECT b.auction FROM (SELECT auction, bidder + 1 AS n FROM bids) AS b WHERE b.n > 5",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[auction], where=[(bidder + 1) > 5])
           <- 1 FORWARD
        3: Sink(table=[select], fields=[auction])
           <- 2 FORWARD
        auction BIGINT"#]],
    );
    check(
        "WITH b AS (SELECT auction AS a FROM bids WHERE bidder = 7) SELECT a FROM b WHERE a < 3",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[auction AS a], where=[(bidder = 7) AND (auction < 3)])
           <- 1 FORWARD
        3: Sink(table=[select], fields=[a])
           <- 2 FORWARD
        a BIGINT"#]],
    );
}

#[test]
fn windows_are_table_functions() {
    let count = "SELECT window_start, auction, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)) \
                 GROUP BY window_start, window_end, auction";
    check(
        count,
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[auction])
           <- 1 FORWARD
        3: WindowAggregate(groupBy=[auction], window=[TUMBLE(size 10000 ms)], select=[COUNT(*)], state=[until the watermark passes the window])
           <- 2 HASH(auction)
        4: Calc(select=[window_start, auction, COUNT(*) AS EXPR$2])
           <- 3 FORWARD
        5: Sink(table=[select], fields=[window_start, auction, EXPR$2])
           <- 4 FORWARD
        window_start TIMESTAMP(3) NOT NULL, auction BIGINT, EXPR$2 BIGINT NOT NULL"#]],
    );
    check(
        "SELECT auction, bidder, window_end, SUM(bidder) AS s, AVG(cost), MIN(price), MAX(note), COUNT(note) \
         FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '-15' MINUTES) \
         WHERE price > 0 GROUP BY auction, window_start, window_end, bidder HAVING COUNT(*) > 1",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[auction, bidder, cost, price, note], where=[price > 0.0])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[auction, bidder], window=[TUMBLE(size 3600000 ms, offset -900000 ms)], select=[SUM(bidder), AVG(cost), MIN(price), MAX(note), COUNT(note), COUNT(*)], state=[until the watermark passes the window])
               <- 2 HASH(auction, bidder)
            4: Calc(select=[auction, bidder, window_end, SUM(bidder) AS s, AVG(cost) AS EXPR$4, MIN(price) AS EXPR$5, MAX(note) AS EXPR$6, COUNT(note) AS EXPR$7], where=[COUNT(*) > 1])
               <- 3 FORWARD
            5: Sink(table=[select], fields=[auction, bidder, window_end, s, EXPR$4, EXPR$5, EXPR$6, EXPR$7])
               <- 4 FORWARD
            auction BIGINT, bidder INT, window_end TIMESTAMP(3) NOT NULL, s INT, EXPR$4 DECIMAL(38, 6), EXPR$5 DOUBLE, EXPR$6 STRING, EXPR$7 BIGINT NOT NULL"#]],
    );
    check(
        "SELECT w.window_end, w.note FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY)) AS w \
         WHERE w.window_start >= TIMESTAMP '2026-01-01 00:00:00' GROUP BY w.note, w.window_start, w.window_end",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[note], where=[CAST(CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) - (((CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) % 86400000) + 86400000) % 86400000) AS TIMESTAMP(3)) >= '2026-01-01T00:00:00'])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[note], window=[TUMBLE(size 86400000 ms)], select=[], state=[until the watermark passes the window])
               <- 2 HASH(note)
            4: Calc(select=[window_end, note])
               <- 3 FORWARD
            5: Sink(table=[select], fields=[window_end, note])
               <- 4 FORWARD
            window_end TIMESTAMP(3) NOT NULL, note STRING"#]],
    );
    check(
        "SELECT COUNT(*) AS n, window_time FROM TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), \
         SIZE => INTERVAL '1' DAY)) GROUP BY window_start, window_end, window_time",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[0 AS $global])
               <- 1 FORWARD
            3: WindowAggregate(window=[TUMBLE(size 86400000 ms)], select=[COUNT(*)], state=[until the watermark passes the window]) in one task
               <- 2 HASH($global)
            4: Calc(select=[COUNT(*) AS n, CAST(CAST(window_end AS BIGINT) + -1 AS TIMESTAMP(3)) AS window_time]) in one task
               <- 3 FORWARD
            5: Sink(table=[select], fields=[n, window_time]) in one task
               <- 4 FORWARD
            n BIGINT NOT NULL, window_time TIMESTAMP(3) NOT NULL"#]],
    );
    check(
        "SELECT window_start, window_end, window_time, auction FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTE))",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[CAST(CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) - (((CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) % 300000) + 300000) % 300000) AS TIMESTAMP(3)) AS window_start, CAST(CAST(CAST(CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) - (((CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) % 300000) + 300000) % 300000) AS TIMESTAMP(3)) AS BIGINT) + 300000 AS TIMESTAMP(3)) AS window_end, CAST(CAST(CAST(CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) - (((CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) % 300000) + 300000) % 300000) AS TIMESTAMP(3)) AS BIGINT) + 299999 AS TIMESTAMP(3)) AS window_time, auction])
               <- 1 FORWARD
            3: Sink(table=[select], fields=[window_start, window_end, window_time, auction])
               <- 2 FORWARD
            window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP(3), auction BIGINT"#]],
    );
    check(
        "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE zoned, DESCRIPTOR(lt), INTERVAL '5' MINUTE)) GROUP BY k, window_start, window_end, window_time",
        &expect![[r#"
            1: TableSourceScan(table=[zoned], fields=[k, lt], watermark=[lt])
            2: Calc(select=[k])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[k], window=[TUMBLE(size 300000 ms)], select=[COUNT(*)], state=[until the watermark passes the window])
               <- 2 HASH(k)
            4: Calc(select=[k, COUNT(*) AS EXPR$1])
               <- 3 FORWARD
            5: Sink(table=[select], fields=[k, EXPR$1])
               <- 4 FORWARD
            k STRING, EXPR$1 BIGINT NOT NULL"#]],
    );
}

/// The window of a row is found by rounding down, before the epoch too: `t - floor_mod(t - offset, size)`.
#[test]
fn windows_of_rows_are_computed() {
    let statement = "SELECT window_start, window_end, window_time FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), \
        INTERVAL '10' SECOND, INTERVAL '3' SECOND))";
    let planned = environment().execute(statement).unwrap();
    let [Planned::Job(job)] = &planned[..] else { panic!("{planned:?}") };
    let NodeKind::Operator(calc) = &job.graph.nodes[1].kind else { panic!() };
    let calc: CalcConfig = calc.read().unwrap();
    let times = [0, 2_999, 3_000, 12_999, -1, -7_000, -7_001, -17_000];
    let schema = job.graph.nodes[0].output.clone();
    let columns = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Timestamp(..) => Arc::new(TimestampMillisecondArray::from(times.to_vec())) as ArrayRef,
        other => new_null_array(other, times.len()),
    });
    let rows = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
    let mut windows = Vec::new();
    for (_, expr) in calc.project.unwrap() {
        let column = compile(&expr, &schema).unwrap().evaluate(&rows).unwrap();
        windows.push(column.as_primitive::<TimestampMillisecondType>().values().to_vec());
    }
    let starts = [-7_000, -7_000, 3_000, 3_000, -7_000, -7_000, -17_000, -17_000];
    assert_eq!(windows[0], starts);
    assert_eq!(windows[1], starts.map(|start| start + 10_000));
    assert_eq!(windows[2], starts.map(|start| start + 9_999));
}

#[test]
fn legacy_windows_are_the_same_plans() {
    check(
        "SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS rt, auction, SUM(price) \
         FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), auction",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[auction, price])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[auction], window=[TUMBLE(size 3600000 ms)], select=[SUM(price)], state=[until the watermark passes the window])
               <- 2 HASH(auction)
            4: Calc(select=[window_start AS EXPR$0, CAST(CAST(window_end AS BIGINT) + -1 AS TIMESTAMP(3)) AS rt, auction, SUM(price) AS EXPR$3])
               <- 3 FORWARD
            5: Sink(table=[select], fields=[EXPR$0, rt, auction, EXPR$3])
               <- 4 FORWARD
            EXPR$0 TIMESTAMP(3) NOT NULL, rt TIMESTAMP(3) NOT NULL, auction BIGINT, EXPR$3 DOUBLE"#]],
    );
    check(
        "SELECT b.auction, COUNT(*) FROM bids AS b WHERE b.price > 1 GROUP BY b.auction, TUMBLE(b.ts, INTERVAL '1' HOUR) \
         HAVING TUMBLE_END(b.ts, INTERVAL '1' HOUR) > TIMESTAMP '2026-01-01 00:00:00'",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[auction], where=[(price > 1.0) AND (CAST(CAST(CAST(CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) - (((CAST(CAST(ts AS TIMESTAMP(3)) AS BIGINT) % 3600000) + 3600000) % 3600000) AS TIMESTAMP(3)) AS BIGINT) + 3600000 AS TIMESTAMP(3)) > '2026-01-01T00:00:00')])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[auction], window=[TUMBLE(size 3600000 ms)], select=[COUNT(*)], state=[until the watermark passes the window])
               <- 2 HASH(auction)
            4: Calc(select=[auction, COUNT(*) AS EXPR$1])
               <- 3 FORWARD
            5: Sink(table=[select], fields=[auction, EXPR$1])
               <- 4 FORWARD
            auction BIGINT, EXPR$1 BIGINT NOT NULL"#]],
    );
}

#[test]
fn windows_over_windows() {
    check(
        "SELECT window_start, MAX(n) FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n \
           FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) \
           GROUP BY window_start, window_end, window_time, auction), DESCRIPTOR(wt), INTERVAL '1' HOUR)) \
         GROUP BY window_start, window_end",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[auction])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[auction], window=[TUMBLE(size 60000 ms)], select=[COUNT(*)], state=[until the watermark passes the window])
               <- 2 HASH(auction)
            4: Calc(select=[0 AS $global, COUNT(*)])
               <- 3 FORWARD
            5: WindowAggregate(window=[TUMBLE(size 3600000 ms)], select=[MAX(COUNT(*))], state=[until the watermark passes the window]) in one task
               <- 4 HASH($global)
            6: Calc(select=[window_start, MAX(COUNT(*)) AS EXPR$1]) in one task
               <- 5 FORWARD
            7: Sink(table=[select], fields=[window_start, EXPR$1]) in one task
               <- 6 FORWARD
            window_start TIMESTAMP(3) NOT NULL, EXPR$1 BIGINT"#]],
    );
}

#[test]
fn aggregates_of_expressions() {
    check(
        "SELECT auction % 2, COUNT(*) FILTER (WHERE price > 1), SUM(CASE WHEN note = 'x' THEN 1 ELSE 0 END), \
           SUM(price * 2), COUNT(1), COUNT(*) \
         FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY auction % 2, window_start, window_end",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[CAST(auction % 2 AS INT), CASE WHEN price > 1.0 THEN '*' END, CASE WHEN note = 'x' THEN 1 ELSE 0 END, price * 2.0])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[CAST(auction % 2 AS INT)], window=[TUMBLE(size 10000 ms)], select=[COUNT(CASE WHEN price > 1.0 THEN '*' END), SUM(CASE WHEN note = 'x' THEN 1 ELSE 0 END), SUM(price * 2.0), COUNT(*), COUNT(*)], state=[until the watermark passes the window])
               <- 2 HASH(CAST(auction % 2 AS INT))
            4: Calc(select=[CAST(auction % 2 AS INT) AS EXPR$0, COUNT(CASE WHEN price > 1.0 THEN '*' END) AS EXPR$1, SUM(CASE WHEN note = 'x' THEN 1 ELSE 0 END) AS EXPR$2, SUM(price * 2.0) AS EXPR$3, COUNT(*) AS EXPR$4, COUNT(*)$0 AS EXPR$5])
               <- 3 FORWARD
            5: Sink(table=[select], fields=[EXPR$0, EXPR$1, EXPR$2, EXPR$3, EXPR$4, EXPR$5])
               <- 4 FORWARD
            EXPR$0 INT, EXPR$1 BIGINT NOT NULL, EXPR$2 INT, EXPR$3 DOUBLE, EXPR$4 BIGINT NOT NULL, EXPR$5 BIGINT NOT NULL"#]],
    );
}

#[test]
fn types_are_flinks() {
    check(
        "SELECT bidder + 1, bidder + 3000000000, 0.908 * auction, 1.5e0, bidder / 2, MOD(auction, 123), -bidder, price / 2 FROM bids",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[bidder + 1 AS EXPR$0, CAST(bidder AS BIGINT) + 3000000000 AS EXPR$1, 0.908 * CAST(auction AS DECIMAL(19, 0)) AS EXPR$2, 1.5 AS EXPR$3, bidder / 2 AS EXPR$4, CAST(auction % 123 AS INT) AS EXPR$5, -bidder AS EXPR$6, price / 2.0 AS EXPR$7])
               <- 1 FORWARD
            3: Sink(table=[select], fields=[EXPR$0, EXPR$1, EXPR$2, EXPR$3, EXPR$4, EXPR$5, EXPR$6, EXPR$7])
               <- 2 FORWARD
            EXPR$0 INT, EXPR$1 BIGINT, EXPR$2 DECIMAL(24, 3), EXPR$3 DOUBLE NOT NULL, EXPR$4 INT, EXPR$5 INT, EXPR$6 INT, EXPR$7 DOUBLE"#]],
    );
    check(
        "SELECT CONCAT(note, 'x', UPPER(note)), CAST(note AS INT), TRY_CAST(note AS DECIMAL(5, 1)), CAST(ts AS DATE), YEAR(ts), EXTRACT(HOUR FROM ts), ts + INTERVAL '1' DAY FROM bids",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[(note || 'x') || UPPER(note) AS EXPR$0, CAST(note AS INT) AS EXPR$1, TRY_CAST(note AS DECIMAL(5, 1)) AS EXPR$2, CAST(ts AS DATE) AS EXPR$3, CAST(DATE_PART('YEAR', ts) AS BIGINT) AS EXPR$4, CAST(DATE_PART('HOUR', ts) AS BIGINT) AS EXPR$5, ts + '1 days' AS EXPR$6])
               <- 1 FORWARD
            3: Sink(table=[select], fields=[EXPR$0, EXPR$1, EXPR$2, EXPR$3, EXPR$4, EXPR$5, EXPR$6])
               <- 2 FORWARD
            EXPR$0 STRING, EXPR$1 INT, EXPR$2 DECIMAL(5, 1), EXPR$3 DATE, EXPR$4 BIGINT, EXPR$5 BIGINT, EXPR$6 TIMESTAMP(3)"#]],
    );
    check(
        "SELECT COALESCE(note, 'none'), NULLIF(bidder, 0), note LIKE 'a%', bidder IN (1, 2), price BETWEEN 1 AND 2, TRIM(note), FLOOR(price), ABS(bidder) FROM bids",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[CASE WHEN note IS NOT NULL THEN note ELSE 'none' END AS EXPR$0, NULLIF(bidder, 0) AS EXPR$1, note LIKE 'a%' AS EXPR$2, (bidder = 1) OR (bidder = 2) AS EXPR$3, (price >= 1.0) AND (price <= 2.0) AS EXPR$4, BTRIM(note) AS EXPR$5, FLOOR(price) AS EXPR$6, CASE WHEN bidder < 0 THEN -bidder ELSE bidder END AS EXPR$7])
               <- 1 FORWARD
            3: Sink(table=[select], fields=[EXPR$0, EXPR$1, EXPR$2, EXPR$3, EXPR$4, EXPR$5, EXPR$6, EXPR$7])
               <- 2 FORWARD
            EXPR$0 STRING NOT NULL, EXPR$1 INT, EXPR$2 BOOLEAN, EXPR$3 BOOLEAN, EXPR$4 BOOLEAN, EXPR$5 STRING, EXPR$6 DOUBLE, EXPR$7 INT"#]],
    );
    check(
        "SELECT note LIKE 'a%', bidder IN (1, 2, 3, 4), price BETWEEN 1 AND 2, (price > 1) IS NOT TRUE, CASE bidder WHEN 1 THEN 'one' END, ts > '2026-01-01 00:00:00' FROM bids",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[note LIKE 'a%' AS EXPR$0, bidder IN (1, 2, 3, 4) AS EXPR$1, (price >= 1.0) AND (price <= 2.0) AS EXPR$2, (price > 1.0) IS DISTINCT FROM true AS EXPR$3, CASE bidder WHEN 1 THEN 'one' END AS EXPR$4, ts > '2026-01-01T00:00:00' AS EXPR$5])
               <- 1 FORWARD
            3: Sink(table=[select], fields=[EXPR$0, EXPR$1, EXPR$2, EXPR$3, EXPR$4, EXPR$5])
               <- 2 FORWARD
            EXPR$0 BOOLEAN, EXPR$1 BOOLEAN, EXPR$2 BOOLEAN, EXPR$3 BOOLEAN, EXPR$4 STRING, EXPR$5 BOOLEAN"#]],
    );
}

#[test]
fn inserts_fit_their_sinks() {
    check(
        "INSERT INTO counts SELECT window_start, auction, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)) \
         GROUP BY window_start, window_end, auction",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[auction])
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[auction], window=[TUMBLE(size 10000 ms)], select=[COUNT(*)], state=[until the watermark passes the window])
               <- 2 HASH(auction)
            4: Calc(select=[window_start AS ws, auction, COUNT(*) AS c])
               <- 3 FORWARD
            5: Sink(table=[counts], fields=[ws, auction, c])
               <- 4 FORWARD
            ws TIMESTAMP(3) NOT NULL, auction BIGINT, c BIGINT NOT NULL"#]],
    );
    check(
        "INSERT INTO shown SELECT auction, cost FROM bids",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[auction, CAST(cost AS DECIMAL(20, 3)) AS total])
           <- 1 FORWARD
        3: Sink(table=[shown], fields=[auction, total])
           <- 2 FORWARD
        auction BIGINT, total DECIMAL(20, 3)"#]],
    );
    check(
        "INSERT INTO shown (total) SELECT 0.908 * auction FROM bids",
        &expect![[r#"
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
        2: Calc(select=[NULL AS auction, CAST(0.908 * CAST(auction AS DECIMAL(19, 0)) AS DECIMAL(20, 3)) AS total])
           <- 1 FORWARD
        3: Sink(table=[shown], fields=[auction, total])
           <- 2 FORWARD
        auction BIGINT, total DECIMAL(20, 3)"#]],
    );
    check(
        "INSERT INTO default_catalog.default_database.shown (total, auction) SELECT bidder, auction FROM bids",
        &expect![[r#"
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms])
            2: Calc(select=[auction, CAST(bidder AS DECIMAL(20, 3)) AS total])
               <- 1 FORWARD
            3: Sink(table=[shown], fields=[auction, total])
               <- 2 FORWARD
            auction BIGINT, total DECIMAL(20, 3)"#]],
    );
}

#[test]
fn uids_come_from_structure() {
    let uids = |statement: &str| {
        let planned = environment().execute(statement).unwrap();
        let [Planned::Job(job)] = &planned[..] else { panic!("{planned:?}") };
        job.graph.nodes.iter().map(|node| node.uid.clone()).collect::<Vec<_>>()
    };
    let window = "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) ";
    let by_auction = "GROUP BY window_start, window_end, auction";
    let plain = uids(&format!("INSERT INTO counts SELECT window_start, auction, COUNT(*) {window} {by_auction}"));
    expect![[r#"
        source:bids
        calc:source:bids
        window_aggregate:source:bids:3600000+0:auction:COUNT(*)
        calc:window_aggregate:source:bids:3600000+0:auction:COUNT(*)
        sink:counts"#]]
    .assert_eq(&plain.join("\n"));
    // A filter, an alias and the legacy form change nothing of the state, so its uid stays.
    let others = [
        format!("INSERT INTO counts SELECT window_start, auction, COUNT(*) {window} WHERE price > 3 {by_auction}"),
        "INSERT INTO counts SELECT TUMBLE_START(b.ts, INTERVAL '1' HOUR), b.auction, COUNT(1) FROM bids b \
         GROUP BY b.auction, TUMBLE(b.ts, INTERVAL '1' HOUR)"
            .to_owned(),
    ];
    for other in &others {
        assert_eq!(uids(other), plain, "{other}");
    }
    let with_sum = uids(&format!("SELECT auction, COUNT(*), SUM(price) {window} {by_auction}"));
    assert_ne!(with_sum[2], plain[2]);
}

#[test]
fn graphs_are_what_others_read() {
    let statement = "INSERT INTO counts SELECT window_start, auction, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, \
        DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE price > 1 GROUP BY window_start, window_end, auction";
    let planned = environment().execute(statement).unwrap();
    let [Planned::Job(job)] = &planned[..] else { panic!("{planned:?}") };
    assert_eq!(job.into.as_deref(), Some("counts"));
    let mut text = String::new();
    for node in &job.graph.nodes {
        let spec = match &node.kind {
            NodeKind::Source { spec, watermarks } => {
                text.push_str(&format!("{watermarks:?}\n"));
                spec
            }
            NodeKind::Operator(spec) | NodeKind::Sink(spec) => spec,
            NodeKind::Watermarks(_) => panic!("the source has the watermarks"),
        };
        text.push_str(&format!("{} {}\n", spec.factory, String::from_utf8_lossy(&spec.config)));
    }
    expect![[r#"
        Some(WatermarkStrategy { time_column: Some(5), out_of_orderness_ms: 1000, every_rows: 0, idle_after_ms: None })
        files {"format":{"csv":{"options":{"empty_is_null":false},"schema":{"fields":[{"data_type":"Int64","dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"auction","nullable":true},{"data_type":"Int32","dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"bidder","nullable":true},{"data_type":"Float64","dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"price","nullable":true},{"data_type":"Utf8","dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"note","nullable":true},{"data_type":{"Decimal128":[10,2]},"dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"cost","nullable":true},{"data_type":{"Timestamp":["Millisecond",null]},"dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"ts","nullable":true}],"metadata":{}}}},"path":"/data/bids"}
        calc {"filter":{"binary":[">",{"column":2},{"literal":["1.0","Float64"]}]},"project":[["auction",{"column":0}]]}
        window_aggregate {"size_ms":10000,"offset_ms":0,"time_column":null,"aggregates":[{"function":"count","column":null}]}
        calc {"filter":null,"project":[["ws",{"column":1}],["auction",{"column":0}],["c",{"column":3}]]}
        blackhole null
    "#]].assert_eq(&text);
    let NodeKind::Operator(calc) = &job.graph.nodes[1].kind else { panic!() };
    let calc: CalcConfig = calc.read().unwrap();
    assert_eq!(calc.output(&job.graph.nodes[0].output).unwrap(), job.graph.nodes[1].output);
    let NodeKind::Operator(window) = &job.graph.nodes[2].kind else { panic!() };
    assert_eq!(window.read::<WindowAggregateConfig>().unwrap().size_ms, 10_000);
    // Source and calc in a chain; aggregate, calc and sink behind the exchange.
    assert_eq!(JobGraph::of(&job.graph).unwrap().vertices.len(), 2);
}
