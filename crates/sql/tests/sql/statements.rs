//! The splitter, CREATE TABLE, SET, DROP and EXPLAIN.

use expect_test::{Expect, expect};
use flott_core::{Config, Spec};
use flott_plan::NodeKind;
use flott_sql::{Planned, SqlEnvironment};

use crate::environment;

/// What each statement of a script came to, a line each; or the error.
fn check(script: &str, expected: &Expect) {
    let text = match environment().execute(script) {
        Err(error) => error.to_string(),
        Ok(planned) => {
            let lines = planned.iter().map(|p| match p {
                Planned::Job(job) => format!("job {}", job.graph.name),
                Planned::Text(text) => text.clone(),
                Planned::Done(text) => format!("done: {text}"),
                other => format!("{other:?}"),
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    expected.assert_eq(&text);
}

#[test]
fn scripts_are_split_at_semicolons_only() {
    check("", &expect![[""]]);
    check(" ; ;; -- nothing\n; /* ; */ ;", &expect![[""]]);
    check("SELECT auction FROM bids", &expect!["job SELECT auction FROM bids"]);
    check(
        "SELECT ';' AS a FROM bids; SELECT auction -- not; here\n FROM /* nor; here */ bids;",
        &expect![[r#"
        job SELECT ';' AS a FROM bids
        job SELECT auction -- not; here FROM /* nor; here */ bids"#]],
    );
    check(
        "SELECT 'it''s; fine' AS `a;b` FROM bids; SET 'parallelism.default' = '2';",
        &expect![[r#"
        job SELECT 'it''s; fine' AS `a;b` FROM bids
        done: parallelism.default = 2"#]],
    );
    check("/* a /* nested */ SELECT auction FROM bids", &expect!["job SELECT auction FROM bids"]);
    check(
        "SELECT 'open FROM bids;\nSELECT 1",
        &expect![[r#"
        unterminated string literal
          1 | SELECT 'open FROM bids;
            |        ^ (line 1, column 8)"#]],
    );
    check(
        "SELECT `open FROM bids",
        &expect![[r#"
        expected close delimiter '`' before EOF.
          1 | SELECT `open FROM bids
            |        ^ (line 1, column 8)"#]],
    );
    check(
        "/* open",
        &expect![[r#"
        unexpected EOF while in a multi-line comment
          1 | /* open
            |        ^ (line 1, column 8)"#]],
    );
}

#[test]
fn tables_are_created_in_all_forms() {
    let with = "WITH ('connector' = 'filesystem', 'path' = 'p', 'format' = 'csv')";
    for columns in [
        "a INT",
        "a TINYINT, b SMALLINT, c INTEGER, d BIGINT NOT NULL, e FLOAT, f DOUBLE PRECISION NULL, g DECIMAL, h DEC(5), i NUMERIC(5, 2)",
        "a CHAR, b CHAR(3), c VARCHAR(10), d STRING, e BINARY(4), f VARBINARY(9), g BYTES, h BOOLEAN COMMENT 'yes'",
        "a DATE, b TIME, c TIME(3) WITHOUT TIME ZONE, d TIMESTAMP, e TIMESTAMP(3), f TIMESTAMP_LTZ(9), g TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "`select` INT, `a b` STRING",
        "a INT PRIMARY KEY NOT ENFORCED, b INT",
        "a INT, b INT, CONSTRAINT pk PRIMARY KEY (a, b) NOT ENFORCED",
        "ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
        "WATERMARK FOR ts AS ts - INTERVAL '0.5' SECOND, ts TIMESTAMP_LTZ(3)",
    ] {
        let script = format!("CREATE TABLE x ({columns}) {with}");
        if let Err(error) = environment().execute(&script) {
            panic!("{error}");
        }
    }
    let in_full = "CREATE TEMPORARY TABLE IF NOT EXISTS default_database.x (a INT) COMMENT 'c'";
    check(
        &format!("{in_full} {with}; DROP TABLE x; DROP TABLE IF EXISTS x"),
        &expect![[r#"
        done: table x created
        done: table x dropped
        done: table x dropped"#]],
    );
    check(
        &format!("CREATE TABLE IF NOT EXISTS bids (a INT) {with}; SELECT price FROM bids"),
        &expect![[r#"
        done: table bids created
        job SELECT price FROM bids"#]],
    );
}

#[test]
fn create_table_is_refused_where_it_is_wrong() {
    let with = "WITH ('connector' = 'print')";
    check(
        &format!("CREATE TABLE bids (a INT) {with}"),
        &expect![[r#"
        the table 'bids' exists already
          1 | CREATE TABLE bids (a INT) WITH ('connector' = 'print')
            |              ^^^^ (line 1, column 14)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT, a STRING) {with}"),
        &expect![[r#"
        the column a is there twice
          1 | CREATE TABLE x (a INT, a STRING) WITH ('connector' = 'print')
            |                        ^ (line 1, column 24)"#]],
    );
    check(
        &format!("CREATE TABLE x (\n  a BIGNT,\n  b INT\n) {with}"),
        &expect![[r#"
        there is no type 'BIGNT'; did you mean 'BIGINT'?
          2 |   a BIGNT,
            |     ^^^^^ (line 2, column 5)"#]],
    );
    check(
        &format!("CREATE TABLE x (a ROW<b INT>) {with}"),
        &expect![[r#"
        the type ROW is not supported yet
          1 | CREATE TABLE x (a ROW<b INT>) WITH ('connector' = 'print')
            |                   ^^^ (line 1, column 19)"#]],
    );
    check(
        &format!("CREATE TABLE x (a DECIMAL(40, 2)) {with}"),
        &expect![[r#"
        expected DECIMAL(p, s) with p from 1 to 38 and s from 0 to p, found DECIMAL(40, 2)
          1 | CREATE TABLE x (a DECIMAL(40, 2)) WITH ('connector' = 'print')
            |                   ^^^^^^^ (line 1, column 19)"#]],
    );
    check(
        &format!("CREATE TABLE x (a TIMESTAMP(12)) {with}"),
        &expect![[r#"
        expected a precision from 0 to 9, found 12
          1 | CREATE TABLE x (a TIMESTAMP(12)) WITH ('connector' = 'print')
            |                   ^^^^^^^^^ (line 1, column 19)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT, b AS a + 1) {with}"),
        &expect![[r#"
        the computed column b is not supported yet
          1 | CREATE TABLE x (a INT, b AS a + 1) WITH ('connector' = 'print')
            |                        ^ (line 1, column 24)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT METADATA) {with}"),
        &expect![[r#"
        the metadata column a is not supported yet
          1 | CREATE TABLE x (a INT METADATA) WITH ('connector' = 'print')
            |                 ^ (line 1, column 17)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT, PRIMARY KEY (a)) {with}"),
        &expect![[r#"
        a PRIMARY KEY must be NOT ENFORCED: flott does not own the data
          1 | CREATE TABLE x (a INT, PRIMARY KEY (a)) WITH ('connector' = 'print')
            |                        ^^^^^^^ (line 1, column 24)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT, PRIMARY KEY (b) NOT ENFORCED) {with}"),
        &expect![[r#"
            there is no column 'b'
              1 | CREATE TABLE x (a INT, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' =…
                |                                     ^ (line 1, column 37)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT, WATERMARK FOR a AS a) {with}"),
        &expect![[r#"
        a watermark needs a TIMESTAMP(3) or TIMESTAMP_LTZ(3), found INT
          1 | CREATE TABLE x (a INT, WATERMARK FOR a AS a) WITH ('connector' = 'print')
            |                                      ^ (line 1, column 38)"#]],
    );
    check(
        &format!("CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR tz AS tz) {with}"),
        &expect![[r#"
            there is no column 'tz'
              1 | CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR tz AS tz) WITH ('connecto…
                |                                                ^^ (line 1, column 48)"#]],
    );
    check(
        &format!("CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MONTH) {with}"),
        &expect![[r#"
            expected an interval of days to seconds, found one of MONTH
              1 | …3), WATERMARK FOR ts AS ts - INTERVAL '1' MONTH) WITH ('connector' = 'p…
                |                          ^^^^^^^^^^^^^^^^^ (line 1, column 54)"#]],
    );
    check(
        &format!("CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR ts AS ts + INTERVAL '1' SECOND) {with}"),
        &expect![[r#"
            a watermark other than 'ts' or 'ts - INTERVAL ..' is not supported yet
              1 | …3), WATERMARK FOR ts AS ts + INTERVAL '1' SECOND) WITH ('connector' = '…
                |                          ^^^^^^^^^^^^^^^^^ (line 1, column 54)"#]],
    );
    check(
        "CREATE TABLE x (a INT) PARTITIONED BY (a)",
        &expect![[r#"
        CREATE TABLE .. PARTITIONED is not supported yet
          1 | CREATE TABLE x (a INT) PARTITIONED BY (a)
            |                        ^^^^^^^^^^^ (line 1, column 24)"#]],
    );
    check(
        "CREATE TABLE x",
        &expect![[r#"
        expected (, found the end of the statement
          1 | CREATE TABLE x
            |               ^ (line 1, column 15)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'print'",
        &expect![[r#"
        expected ), found the end of the statement
          1 | CREATE TABLE x (a INT) WITH ('connector' = 'print'
            |                                                   ^ (line 1, column 51)"#]],
    );
    check(
        "CREATE VIEW v AS SELECT 1",
        &expect![[r#"
        CREATE VIEW is not supported yet
          1 | CREATE VIEW v AS SELECT 1
            |        ^^^^ (line 1, column 8)"#]],
    );
    check(
        "DROP TABLE bid",
        &expect![[r#"
        there is no table 'bid'; did you mean 'bids'?
          1 | DROP TABLE bid
            |            ^^^ (line 1, column 12)"#]],
    );
}

#[test]
fn options_are_checked() {
    check(
        "CREATE TABLE x (a INT)",
        &expect![[r#"
        the table 'x' needs the option 'connector'
          1 | CREATE TABLE x (a INT)
            |              ^ (line 1, column 14)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('conector' = 'print')",
        &expect![[r#"
        the table 'x' needs the option 'connector'; is it 'conector'?
          1 | CREATE TABLE x (a INT) WITH ('conector' = 'print')
            |              ^ (line 1, column 14)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'file_system')",
        &expect![[r#"
        there is no connector 'file_system', or flott does not support it yet; did you mean 'filesystem'?
          1 | CREATE TABLE x (a INT) WITH ('connector' = 'file_system')
            |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 30)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv')",
        &expect![[r#"
            the table 'x' needs the option 'path' of the connector 'filesystem'
              1 | CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv…
                |              ^ (line 1, column 14)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'path' = 'p', 'format' = 'cvs')",
        &expect![[r#"
            there is no format 'cvs', or flott does not support it yet; did you mean 'csv'?
              1 | …r' = 'filesystem', 'path' = 'p', 'format' = 'cvs')
                |                                   ^^^^^^^^^^^^^^^^ (line 1, column 72)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'path' = 's3://b/p', 'format' = 'csv')",
        &expect![[r#"
            the file system s3 is not supported yet
              1 | … ('connector' = 'filesystem', 'path' = 's3://b/p', 'format' = 'csv')
                |                                ^^^^^^^^^^^^^^^^^^^ (line 1, column 58)"#]],
    );
    let csv = "'connector' = 'filesystem', 'path' = 'p', 'format' = 'csv'";
    check(
        &format!("CREATE TABLE x (a INT) WITH ({csv},\n 'csv.field-delimeter' = ';')"),
        &expect![[r#"
        the connector 'filesystem' has no option 'csv.field-delimeter', or flott does not support it yet; did you mean 'csv.field-delimiter'?
          2 |  'csv.field-delimeter' = ';')
            |  ^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 2, column 2)"#]],
    );
    check(
        &format!("CREATE TABLE x (a INT) WITH ({csv}, 'csv.field-delimiter' = ';;')"),
        &expect![[r#"
            expected one ASCII character for 'csv.field-delimiter', found ';;'
              1 | … 'p', 'format' = 'csv', 'csv.field-delimiter' = ';;')
                |                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 90)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'print', 'standard-error' = 'maybe')",
        &expect![[r#"
            expected true or false for 'standard-error', found 'maybe'
              1 | …('connector' = 'print', 'standard-error' = 'maybe')
                |                          ^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 53)"#]],
    );
    check(
        "CREATE TABLE x (a INT) WITH ('connector' = 'print', 'standard-error' = 'true', 'standard-error' = 'true')",
        &expect![[r#"
            the option 'standard-error' is given twice
              1 | …andard-error' = 'true', 'standard-error' = 'true')
                |                          ^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 80)"#]],
    );
    check(
        "SET 'paralelism.default' = '2'",
        &expect![[r#"
        there is no option 'paralelism.default'; did you mean 'parallelism.default'?
          1 | SET 'paralelism.default' = '2'
            |     ^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 5)"#]],
    );
    check(
        "SET 'parallelism.default' = 'two'",
        &expect![[r#"
        expected a whole number, found 'two' (option parallelism.default)
          1 | SET 'parallelism.default' = 'two'
            |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ (line 1, column 5)"#]],
    );
    check(
        "SET parallelism = 2",
        &expect![[r#"
        expected an option in quotes, as in SET 'parallelism.default' = '2', found parallelism
          1 | SET parallelism = 2
            |     ^^^^^^^^^^^ (line 1, column 5)"#]],
    );
}

#[test]
fn options_reach_source_and_sink() {
    let script = "
        CREATE TABLE a (k STRING) WITH ('connector' = 'filesystem', 'path' = 'file:///d/in', 'format' = 'csv',
          'csv.field-delimiter' = '\\t', 'csv.disable-quote-character' = 'true', 'csv.allow-comments' = 'TRUE',
          'csv.null-literal' = 'n/a');
        CREATE TABLE p (k STRING) WITH ('connector' = 'print', 'print-identifier' = 'out');
        CREATE TABLE f (k STRING) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv',
          'csv.quote-character' = '|');
        CREATE TABLE c (k STRING) WITH ('connector' = 'collection', 'rows' = 'AAAA', 'splits' = '2');
        SET 'flott.watermark.rows' = '7';
        INSERT INTO p SELECT * FROM a;
        INSERT INTO f SELECT * FROM c;
        SELECT * FROM a;";
    let mut sql = SqlEnvironment::new(Config::default()).with_select_sink(Spec::new("kept", &1).unwrap());
    let mut specs = Vec::new();
    for planned in sql.execute(script).unwrap() {
        let Planned::Job(job) = planned else { continue };
        for node in [job.graph.nodes.first().unwrap(), job.graph.nodes.last().unwrap()] {
            let (NodeKind::Source { spec, .. } | NodeKind::Sink(spec)) = &node.kind else { panic!() };
            specs.push(format!("{} {}", spec.factory, String::from_utf8_lossy(&spec.config)));
        }
    }
    expect![[r##"
        files {"format":{"csv":{"options":{"comment":"#","delimiter":"\t","null_literal":"n/a","quote":null},"schema":{"fields":[{"data_type":"Utf8","dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"k","nullable":true}],"metadata":{}}}},"path":"/d/in"}
        print {"identifier":"out","standard_error":false}
        collection {"rows":"AAAA","splits":2}
        files {"format":{"csv":{"empty_is_null":false,"quote":"|"}},"path":"out"}
        files {"format":{"csv":{"options":{"comment":"#","delimiter":"\t","null_literal":"n/a","quote":null},"schema":{"fields":[{"data_type":"Utf8","dict_id":0,"dict_is_ordered":false,"metadata":{},"name":"k","nullable":true}],"metadata":{}}}},"path":"/d/in"}
        kept 1"##]].assert_eq(&specs.join("\n"));
}

#[test]
fn explain_shows_the_plan() {
    check(
        "EXPLAIN SELECT auction FROM bids WHERE price > 1",
        &expect![[r#"
        == Plan of SELECT auction FROM bids WHERE price > 1 ==
        1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms]) (source, uid source:bids, parallelism 3 of 128)
        2: Calc(select=[auction], where=[price > 1.0]) (operator, uid calc:source:bids, parallelism 3 of 128)
           <- 1 FORWARD
        3: Sink(table=[select], fields=[auction]) (sink, uid sink:select, parallelism 3 of 128)
           <- 2 FORWARD
    "#]],
    );
    check(
        "EXPLAIN PLAN FOR INSERT INTO counts SELECT window_start, auction, COUNT(*) FROM TABLE(TUMBLE(TABLE bids, \
         DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY auction, window_start, window_end",
        &expect![[r#"
            == Plan of insert-into_counts ==
            1: TableSourceScan(table=[bids], fields=[auction, bidder, price, note, cost, ts], watermark=[ts - 1000 ms]) (source, uid source:bids, parallelism 3 of 128)
            2: Calc(select=[auction]) (operator, uid calc:source:bids, parallelism 3 of 128)
               <- 1 FORWARD
            3: WindowAggregate(groupBy=[auction], window=[TUMBLE(size 3600000 ms)], select=[COUNT(*)], state=[until the watermark passes the window]) (operator, uid window_aggregate:source:bids:3600000+0:auction:COUNT(*), parallelism 3 of 128)
               <- 2 HASH(auction)
            4: Calc(select=[window_start AS ws, auction, COUNT(*) AS c]) (operator, uid calc:window_aggregate:source:bids:3600000+0:auction:COUNT(*), parallelism 3 of 128)
               <- 3 FORWARD
            5: Sink(table=[counts], fields=[ws, auction, c]) (sink, uid sink:counts, parallelism 3 of 128)
               <- 4 FORWARD
        "#]],
    );
    check(
        "EXPLAIN CHANGELOG_MODE SELECT auction FROM bids",
        &expect![[r#"
        EXPLAIN CHANGELOG_MODE is not supported yet
          1 | EXPLAIN CHANGELOG_MODE SELECT auction FROM bids
            |         ^^^^^^^^^^^^^^ (line 1, column 9)"#]],
    );
    check(
        "EXPLAIN DROP TABLE bids",
        &expect![[r#"
        expected a SELECT or INSERT to explain
          1 | EXPLAIN DROP TABLE bids
            | ^^^^^^^ (line 1, column 1)"#]],
    );
    check(
        "EXECUTE INSERT INTO shown SELECT auction, cost FROM bids; EXECUTE STATEMENT SET BEGIN END",
        &expect![[r#"
            EXECUTE STATEMENT is not supported yet
              1 | …TO shown SELECT auction, cost FROM bids; EXECUTE STATEMENT SET BEGIN END
                |                                           ^^^^^^^ (line 1, column 59)"#]],
    );
}
