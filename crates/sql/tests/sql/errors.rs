//! What is refused, how, and where the caret stands.

use expect_test::{Expect, expect};

use crate::environment;

fn check(statement: &str, expected: &Expect) {
    match environment().execute(statement) {
        Ok(planned) => expected.assert_eq(&format!("planned: {planned:?}")),
        Err(error) => expected.assert_eq(&error.to_string()),
    }
}

#[test]
fn constants_and_conditions_of_the_wrong_type() {
    check(
        "SELECT CAST('x' AS INT) FROM bids",
        &expect![[r#"
        expected INT, found 'x'
          1 | SELECT CAST('x' AS INT) FROM bids
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE ts > '2024'",
        &expect![[r#"
        expected TIMESTAMP(9), found '2024'
          1 | SELECT auction FROM bids WHERE ts > '2024'
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE bidder",
        &expect![[r#"
        expected a condition after WHERE, found 'bids.bidder' of type INT
          1 | SELECT auction FROM bids WHERE bidder
            | ^^^^^^ (line 1, column 1)"#]],
    );
}

#[test]
fn long_lines_are_cut_around_the_caret() {
    let before = "-- not this\nSELECT 'é\t1234567890', auction, auction, auction, auction, auction, auction, ";
    check(
        &format!("{before}auctoin FROM bids"),
        &expect![[r#"
        there is no column 'auctoin'; did you mean 'auction'?
          2 | …tion, auction, auction, auction, auction, auctoin FROM bids
            |                                            ^^^^^^^ (line 2, column 78)"#]],
    );
    check(
        &format!("{before}auctoin, price, price, price, price, price, price, price, price FROM bids"),
        &expect![[r#"
            there is no column 'auctoin'; did you mean 'auction'?
              2 | …tion, auction, auction, auctoin, price, price, price, price, price, pri…
                |                          ^^^^^^^ (line 2, column 78)"#]],
    );
    check(
        &format!("{before}auction FROM bids WHERE"),
        &expect![[r#"
        expected an expression, found the end of the statement
          2 | …ction, auction, auction, auction FROM bids WHERE
            |                                                  ^ (line 2, column 101)"#]],
    );
    check(
        "SELECT auctoin, price, price, price, price, price, price, price, price, price FROM bids",
        &expect![[r#"
        there is no column 'auctoin'; did you mean 'auction'?
          1 | SELECT auctoin, price, price, price, price, price, price, price, price, …
            |        ^^^^^^^ (line 1, column 8)"#]],
    );
}

#[test]
fn spelling() {
    check(
        "SELEC auction FROM bids",
        &expect![[r#"
        expected a statement, found SELEC; did you mean 'SELECT'?
          1 | SELEC auction FROM bids
            | ^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT auction FROM bid",
        &expect![[r#"
        there is no table 'bid'; did you mean 'bids'?
          1 | SELECT auction FROM bid
            |                     ^^^ (line 1, column 21)"#]],
    );
    check(
        "SELECT auctoin FROM bids",
        &expect![[r#"
        there is no column 'auctoin'; did you mean 'auction'?
          1 | SELECT auctoin FROM bids
            |        ^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT b.auction FROM bids",
        &expect![[r#"
        there is no table 'b' with a column 'auction' in FROM
          1 | SELECT b.auction FROM bids
            |        ^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT x.auction FROM bids AS b",
        &expect![[r#"
        there is no table 'x' with a column 'auction' in FROM
          1 | SELECT x.auction FROM bids AS b
            |        ^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT auction\n  FROM bids\n  WHERE pric > 10",
        &expect![[r#"
        there is no column 'pric'; did you mean 'price'?
          3 |   WHERE pric > 10
            |         ^^^^ (line 3, column 9)"#]],
    );
    check(
        "\tSELECT\tauction FROM\tbid",
        &expect![[r#"
        there is no table 'bid'; did you mean 'bids'?
          1 | 	SELECT	auction FROM	bid
            | 	      	            	^^^ (line 1, column 22)"#]],
    );
    check(
        "SELECT auction FROM",
        &expect![[r#"
        expected identifier, found the end of the statement
          1 | SELECT auction FROM
            |                    ^ (line 1, column 20)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE",
        &expect![[r#"
        expected an expression, found the end of the statement
          1 | SELECT auction FROM bids WHERE
            |                               ^ (line 1, column 31)"#]],
    );
    check(
        "SELECT auction FROM bids extra words",
        &expect![[r#"
        expected the end of the statement, found words
          1 | SELECT auction FROM bids extra words
            |                                ^^^^^ (line 1, column 32)"#]],
    );
    check(
        "SELECT \"auction\" FROM bids",
        &expect![[r#"
        strings are written in single quotes ('auction'), identifiers in backticks (`auction`)
          1 | SELECT "auction" FROM bids
            |        ^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT auction FROM bids /*+ OPTIONS('path' = 'x') */",
        &expect![[r#"
        a hint (/*+ .. */) is not supported yet
          1 | SELECT auction FROM bids /*+ OPTIONS('path' = 'x') */
            |                          ^^^ (line 1, column 26)"#]],
    );
}

#[test]
fn queries_that_need_more_than_a_window() {
    check(
        "SELECT DISTINCT auction FROM bids",
        &expect![[r#"
        SELECT DISTINCT is not supported yet
          1 | SELECT DISTINCT auction FROM bids
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT auction FROM bids ORDER BY auction",
        &expect![[r#"
        ORDER BY is not supported yet
          1 | SELECT auction FROM bids ORDER BY auction
            |                                   ^^^^^^^ (line 1, column 35)"#]],
    );
    check(
        "SELECT auction FROM bids LIMIT 3",
        &expect![[r#"
        LIMIT is not supported yet
          1 | SELECT auction FROM bids LIMIT 3
            |                                ^ (line 1, column 32)"#]],
    );
    check(
        "SELECT auction FROM bids UNION ALL SELECT id FROM plain",
        &expect![[r#"
        UNION is not supported yet
          1 | SELECT auction FROM bids UNION ALL SELECT id FROM plain
            |                                    ^^^^^^^^^^^^^^^^^^^^ (line 1, column 36)"#]],
    );
    check(
        "SELECT auction FROM bids JOIN plain ON auction = id",
        &expect![[r#"
        a join is not supported yet
          1 | SELECT auction FROM bids JOIN plain ON auction = id
            |                               ^^^^^ (line 1, column 31)"#]],
    );
    check(
        "SELECT auction FROM bids, plain",
        &expect![[r#"
        a join (several tables in FROM) is not supported yet
          1 | SELECT auction FROM bids, plain
            |                           ^^^^^ (line 1, column 27)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE auction IN (SELECT id FROM plain)",
        &expect![[r#"
        a subquery in an expression is not supported yet
          1 | SELECT auction FROM bids WHERE auction IN (SELECT id FROM plain)
            |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 32)"#]],
    );
    check(
        "SELECT (SELECT MAX(id) FROM plain) FROM bids",
        &expect![[r#"
        a subquery in an expression is not supported yet
          1 | SELECT (SELECT MAX(id) FROM plain) FROM bids
            |         ^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 9)"#]],
    );
    check(
        "SELECT 1",
        &expect![[r#"
        a SELECT without FROM is not supported yet
          1 | SELECT 1
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "VALUES (1, 2)",
        &expect![[r#"
        VALUES is not supported yet
          1 | VALUES (1, 2)
            |        ^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT auction, COUNT(*) FROM bids GROUP BY auction",
        &expect![[r#"
        an aggregate without a window (GROUP BY or none, over a stream) is not supported yet
          1 | SELECT auction, COUNT(*) FROM bids GROUP BY auction
            |                                             ^^^^^^^ (line 1, column 45)"#]],
    );
    check(
        "SELECT COUNT(*) FROM bids",
        &expect![[r#"
        an aggregate without a window (GROUP BY or none, over a stream) is not supported yet
          1 | SELECT COUNT(*) FROM bids
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start",
        &expect![[r#"
            an aggregate over a window whose GROUP BY does not have both window_start and window_end is not supported yet
              1 | SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(t…
                | ^^^^^^ (line 1, column 1)"#]],
    );
}

#[test]
fn windows() {
    check(
        "SELECT auction FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))",
        &expect![[r#"
            the window HOP is not supported yet
              1 | SELECT auction FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' M…
                |                           ^^^ (line 1, column 27)"#]],
    );
    check(
        "SELECT auction, COUNT(*) FROM bids GROUP BY SESSION(ts, INTERVAL '1' HOUR), auction",
        &expect![[r#"
            the window SESSION is not supported yet
              1 | …ion, COUNT(*) FROM bids GROUP BY SESSION(ts, INTERVAL '1' HOUR), auction
                |                                   ^^^^^^^ (line 1, column 45)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE plain, DESCRIPTOR(at_time), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            the window needs a time attribute, but the column at_time is none: its table needs a WATERMARK FOR it
              1 | …TABLE plain, DESCRIPTOR(at_time), INTERVAL '1' HOUR)) GROUP BY window_s…
                |                          ^^^^^^^ (line 1, column 59)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(tss), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            there is no column 'tss'; did you mean 'ts'?
              1 | …(TABLE bids, DESCRIPTOR(tss), INTERVAL '1' HOUR)) GROUP BY window_start…
                |                          ^^^ (line 1, column 58)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(price), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            expected a time attribute, found the column price of type DOUBLE
              1 | …(TABLE bids, DESCRIPTOR(price), INTERVAL '1' HOUR)) GROUP BY window_sta…
                |                          ^^^^^ (line 1, column 58)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MONTH)) GROUP BY window_start, window_end",
        &expect![[r#"
            expected an interval of days to seconds, found one of MONTH
              1 | SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '…
                |                            ^^^^^^ (line 1, column 28)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '0' SECOND)) GROUP BY window_start, window_end",
        &expect![[r#"
            a window needs a positive size
              1 | SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '…
                |                            ^^^^^^ (line 1, column 28)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts))) GROUP BY window_start, window_end",
        &expect![[r#"
            expected TUMBLE(TABLE t, DESCRIPTOR(time column), INTERVAL .. [, INTERVAL ..])
              1 | SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts))) GROUP BY …
                |                            ^^^^^^ (line 1, column 28)"#]],
    );
    check(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), SIZ => INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            TUMBLE has no parameter SIZ; did you mean 'SIZE'?
              1 | …ECOL => DESCRIPTOR(ts), SIZ => INTERVAL '1' HOUR)) GROUP BY window_star…
                |                          ^^^ (line 1, column 82)"#]],
    );
    check(
        "SELECT TUMBLE_START(ts, INTERVAL '2' HOUR), COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        &expect![[r#"
            TUMBLE_START(ts, INTERVAL '2' HOUR) needs the same window in GROUP BY: TUMBLE(ts, INTERVAL '2' HOUR)
              1 | SELECT TUMBLE_START(ts, INTERVAL '2' HOUR), COUNT(*) FROM bids GROUP BY …
                |        ^^^^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT COUNT(*) FROM (SELECT ts + INTERVAL '1' HOUR AS t2 FROM bids) GROUP BY TUMBLE(t2, INTERVAL '1' HOUR)",
        &expect![[r#"
            the window needs a time attribute, but the column t2 is none: its table needs a WATERMARK FOR it
              1 | …RVAL '1' HOUR AS t2 FROM bids) GROUP BY TUMBLE(t2, INTERVAL '1' HOUR)
                |                                                 ^^ (line 1, column 86)"#]],
    );
    check(
        "SELECT auction, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) FROM bids",
        &expect![[r#"
            ROW_NUMBER(..) OVER is not supported yet
              1 | SELECT auction, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY ts) FRO…
                |                 ^^^^^^^^^^ (line 1, column 17)"#]],
    );
    check(
        "SELECT SUM(price) OVER (ORDER BY ts) FROM bids",
        &expect![[r#"
        SUM(..) OVER is not supported yet
          1 | SELECT SUM(price) OVER (ORDER BY ts) FROM bids
            |        ^^^ (line 1, column 8)"#]],
    );
}

#[test]
fn expressions() {
    check(
        "SELECT uper(note) FROM bids",
        &expect![[r#"
        the function UPER is unknown or not supported yet; did you mean 'UPPER'?
          1 | SELECT uper(note) FROM bids
            |        ^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT REGEXP_REPLACE(note, 'a', 'b') FROM bids",
        &expect![[r#"
        the function REGEXP_REPLACE is unknown or not supported yet
          1 | SELECT REGEXP_REPLACE(note, 'a', 'b') FROM bids
            |        ^^^^^^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT MOD(auction) FROM bids",
        &expect![[r#"
        expected 2 arguments of MOD, found 1
          1 | SELECT MOD(auction) FROM bids
            |        ^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT UPPER(note, note) FROM bids",
        &expect![[r#"
        Function 'upper' expects 1 arguments but received 2. No function matches the given name and argument types 'upper(Utf8, Utf8)'. You might need to add explicit type casts.
          1 | SELECT UPPER(note, note) FROM bids
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT note + 1 FROM bids",
        &expect![[r#"
        the operator + between STRING and INT is not supported yet
          1 | SELECT note + 1 FROM bids
            |        ^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT auction || note FROM bids",
        &expect![[r#"
        the operator || between BIGINT and STRING is not supported yet
          1 | SELECT auction || note FROM bids
            |        ^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE note = 5",
        &expect![[r#"
        the operator = between STRING and INT is not supported yet
          1 | SELECT auction FROM bids WHERE note = 5
            |                                ^^^^ (line 1, column 32)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE note IN (1, 2)",
        &expect![[r#"
        IN of STRING and INT is not supported yet
          1 | SELECT auction FROM bids WHERE note IN (1, 2)
            |                                ^^^^ (line 1, column 32)"#]],
    );
    check(
        "SELECT bidder BETWEEN 'a' AND 'b' FROM bids",
        &expect![[r#"
            the operator >= between INT and STRING is not supported yet
              1 | SELECT bidder BETWEEN 'a' AND 'b' FROM bids
                |        ^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT CASE WHEN bidder > 1 THEN note ELSE bidder END FROM bids",
        &expect![[r#"
        CASE of STRING and INT is not supported yet
          1 | SELECT CASE WHEN bidder > 1 THEN note ELSE bidder END FROM bids
            |                                  ^^^^ (line 1, column 34)"#]],
    );
    check(
        "SELECT COALESCE(note, bidder) FROM bids",
        &expect![[r#"
        COALESCE of STRING and INT is not supported yet
          1 | SELECT COALESCE(note, bidder) FROM bids
            |                 ^^^^ (line 1, column 17)"#]],
    );
    check(
        "SELECT cost / 3 FROM bids",
        &expect![[r#"
        the operator / between decimals (cast one to DOUBLE) is not supported yet
          1 | SELECT cost / 3 FROM bids
            |        ^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT CAST(ts AS STRING) FROM bids",
        &expect![[r#"
        a cast from TIMESTAMP(3) to STRING is not supported yet
          1 | SELECT CAST(ts AS STRING) FROM bids
            |             ^^ (line 1, column 13)"#]],
    );
    check(
        "SELECT CAST(price AS STRING) FROM bids",
        &expect![[r#"
        a cast from DOUBLE to STRING is not supported yet
          1 | SELECT CAST(price AS STRING) FROM bids
            |             ^^^^^ (line 1, column 13)"#]],
    );
    check(
        "SELECT CAST(auction AS ARRAY<INT>) FROM bids",
        &expect![[r#"
            a cast to the type ARRAY<INT> is not supported yet
              1 | SELECT CAST(auction AS ARRAY<INT>) FROM bids
                |             ^^^^^^^ (line 1, column 13)"#]],
    );
    check(
        "SELECT auction::INT FROM bids",
        &expect![[r#"
        a cast is written CAST(x AS type)
          1 | SELECT auction::INT FROM bids
            |        ^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT note LIKE 'a!%' ESCAPE '!' FROM bids",
        &expect![[r#"
        LIKE .. ESCAPE is not supported yet
          1 | SELECT note LIKE 'a!%' ESCAPE '!' FROM bids
            |        ^^^^^^^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT note SIMILAR TO 'a' FROM bids",
        &expect![[r#"
        the expression note SIMILAR TO 'a' is not supported yet
          1 | SELECT note SIMILAR TO 'a' FROM bids
            |        ^^^^^^^^^^^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT FLOOR(ts TO HOUR) FROM bids",
        &expect![[r#"
        the expression FLOOR(ts TO HOUR) is not supported yet
          1 | SELECT FLOOR(ts TO HOUR) FROM bids
            |              ^^ (line 1, column 14)"#]],
    );
    check(
        "SELECT EXTRACT(DOW FROM ts) FROM bids",
        &expect![[r#"
        EXTRACT(DOW FROM ..) is not supported yet
          1 | SELECT EXTRACT(DOW FROM ts) FROM bids
            |                         ^^ (line 1, column 25)"#]],
    );
    check(
        "SELECT NULL AS n FROM bids",
        &expect![[r#"
        the column n has no type of SQL (Null): CAST it
          1 | SELECT NULL AS n FROM bids
            | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT auction FROM bids WHERE price",
        &expect![[r#"
            expected a condition after WHERE, found 'bids.price' of type DOUBLE
              1 | SELECT auction FROM bids WHERE price
                | ^^^^^^ (line 1, column 1)"#]],
    );
}

#[test]
fn aggregates_and_types() {
    check(
        "SELECT SUM(note) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            SUM does not take a STRING
              1 | SELECT SUM(note) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL …
                | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT COUNT(DISTINCT note) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            COUNT(DISTINCT ..) is not supported yet
              1 | SELECT COUNT(DISTINCT note) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts)…
                |        ^^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT note, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        &expect![[r#"
            Column in SELECT must be in GROUP BY or an aggregate function
              1 | SELECT note, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTE…
                |        ^^^^ (line 1, column 8)"#]],
    );
    check(
        "SELECT window_start, auction, SUM(*) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, auction",
        &expect![[r#"
            SUM needs an expression, found *
              1 | SELECT window_start, auction, SUM(*) FROM TABLE(TUMBLE(TABLE bids, DESCR…
                | ^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "SELECT k FROM zoned WHERE lt > TIMESTAMP '2026-01-01 00:00:00'",
        &expect![[r#"
            the operator > between TIMESTAMP_LTZ(3) and TIMESTAMP(3) is not supported yet
              1 | SELECT k FROM zoned WHERE lt > TIMESTAMP '2026-01-01 00:00:00'
                |                           ^^ (line 1, column 27)"#]],
    );
    check(
        "SELECT * FROM counts",
        &expect![[r#"
        the table 'counts' can only be written to: its connector is blackhole
          1 | SELECT * FROM counts
            | ^^^^^^ (line 1, column 1)"#]],
    );
}

#[test]
fn sinks_and_statements() {
    check(
        "INSERT INTO count SELECT * FROM bids",
        &expect![[r#"
        there is no table 'count'; did you mean 'counts'?
          1 | INSERT INTO count SELECT * FROM bids
            |             ^^^^^ (line 1, column 13)"#]],
    );
    check(
        "INSERT INTO shown SELECT auction FROM bids",
        &expect![[r#"
        the query gives 1 columns (auction), the sink 'shown' takes 2 (auction, total)
          1 | INSERT INTO shown SELECT auction FROM bids
            |             ^^^^^ (line 1, column 13)"#]],
    );
    check(
        "INSERT INTO shown SELECT note, cost FROM bids",
        &expect![[r#"
        the column 'auction' of the sink 'shown' is BIGINT, the query gives 'note' of type STRING for it: CAST it
          1 | INSERT INTO shown SELECT note, cost FROM bids
            |             ^^^^^ (line 1, column 13)"#]],
    );
    check(
        "INSERT INTO counts SELECT ts, auction, bidder FROM bids",
        &expect![[r#"
        the column 'c' of the sink 'counts' is NOT NULL, but 'bidder' of the query may be NULL
          1 | INSERT INTO counts SELECT ts, auction, bidder FROM bids
            |             ^^^^^^ (line 1, column 13)"#]],
    );
    check(
        "INSERT INTO counts (ws) SELECT ts FROM bids",
        &expect![[r#"
        the column 'c' of 'counts' is NOT NULL and not given
          1 | INSERT INTO counts (ws) SELECT ts FROM bids
            |             ^^^^^^ (line 1, column 13)"#]],
    );
    check(
        "INSERT INTO shown (auction, totl) SELECT auction, cost FROM bids",
        &expect![[r#"
        the table 'shown' has no column 'totl'; did you mean 'total'?
          1 | INSERT INTO shown (auction, totl) SELECT auction, cost FROM bids
            |                             ^^^^ (line 1, column 29)"#]],
    );
    check(
        "INSERT OVERWRITE shown SELECT auction, cost FROM bids",
        &expect![[r#"
        INSERT OVERWRITE is not supported yet
          1 | INSERT OVERWRITE shown SELECT auction, cost FROM bids
            |        ^^^^^^^^^ (line 1, column 8)"#]],
    );
    check(
        "INSERT INTO other.db.shown SELECT auction, cost FROM bids",
        &expect![[r#"
        a catalog or database other than default (other.db.shown) is not supported yet
          1 | INSERT INTO other.db.shown SELECT auction, cost FROM bids
            |             ^^^^^^^^^^^^^^ (line 1, column 13)"#]],
    );
    check(
        "SHOW TABLES",
        &expect![[r#"
        the statement SHOW is not supported yet
          1 | SHOW TABLES
            | ^^^^ (line 1, column 1)"#]],
    );
    check(
        "FROB x",
        &expect![[r#"
        expected a statement, found FROB
          1 | FROB x
            | ^^^^ (line 1, column 1)"#]],
    );
}

/// What DataFusion would run, with another result than Flink's.
#[test]
fn silent_differences() {
    check(
        "SELECT CAST(note AS VARCHAR(2)) FROM bids",
        &expect![[r#"
        a cast to the type VARCHAR(2) is not supported yet
          1 | SELECT CAST(note AS VARCHAR(2)) FROM bids
            |             ^^^^ (line 1, column 13)"#]],
    );
    check(
        "SELECT CAST(ts AS TIMESTAMP(0)) FROM bids",
        &expect![[r#"
        a timestamp of precision 0 (3, 6 and 9 are) is not supported yet
          1 | SELECT CAST(ts AS TIMESTAMP(0)) FROM bids
            |             ^^ (line 1, column 13)"#]],
    );
    check(
        "SELECT COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), 1",
        &expect![[r#"
        a constant in GROUP BY is not supported yet
          1 | SELECT COUNT(*) FROM bids GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), 1
            |                                                                   ^ (line 1, column 67)"#]],
    );
    check(
        "CREATE TABLE seconds (at_s TIMESTAMP(0)) WITH ('connector' = 'print'); INSERT INTO seconds SELECT ts FROM bids",
        &expect![[r#"
            writing a TIMESTAMP(0) is not supported yet (the column 'at_s' of the sink 'seconds'): declare a precision of 3, 6 or 9
              1 | …WITH ('connector' = 'print'); INSERT INTO seconds SELECT ts FROM bids
                |                                            ^^^^^^^ (line 1, column 84)"#]],
    );
}

/// Nothing a user can type may panic: every statement of these, cut off anywhere and with any one word missing.
#[test]
fn broken_statements_are_errors() {
    let statements = [
        "CREATE TEMPORARY TABLE IF NOT EXISTS x (a DECIMAL(5, 2) NOT NULL COMMENT 'c', ts TIMESTAMP(3) WITH LOCAL TIME ZONE, \
         WATERMARK FOR ts AS ts - INTERVAL '1.5' SECOND, PRIMARY KEY (a) NOT ENFORCED) COMMENT 't' \
         WITH ('connector' = 'filesystem', 'path' = 'p', 'format' = 'csv', 'csv.field-delimiter' = ';')",
        "INSERT INTO counts (ws, auction, c) SELECT window_start, auction, COUNT(*) FILTER (WHERE price > 1.5e0) AS c FROM \
         TABLE(TUMBLE(DATA => TABLE bids, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND)) AS w \
         WHERE note LIKE 'a%' GROUP BY window_start, window_end, auction HAVING SUM(bidder) BETWEEN 1 AND 2",
        "EXPLAIN PLAN FOR WITH b AS (SELECT * FROM bids) SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), CASE note WHEN 'a' \
         THEN CAST(1 AS DOUBLE) ELSE -2 END FROM b GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), note",
        "SET 'parallelism.default' = '2'; DROP TABLE IF EXISTS default_catalog.default_database.bids",
    ];
    for statement in statements {
        assert!(environment().execute(statement).is_ok(), "{:?}", environment().execute(statement));
        for (end, _) in statement.char_indices() {
            drop(environment().execute(&statement[..end]));
        }
        let words: Vec<&str> = statement.split_inclusive([' ', '(', ',']).collect();
        for missing in 0..words.len() {
            drop(environment().execute(&[&words[..missing], &words[missing + 1..]].concat().concat()));
        }
    }
}
