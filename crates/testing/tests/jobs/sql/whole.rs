//! Windows from SQL, in every way they can be written and run, against a plain loop; the edge to the connectors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use expect_test::expect;
use flott_checkpoint::{CheckpointStore, InMemory};
use flott_connectors::collection::CollectionConfig;
use flott_connectors::files::{FilesSinkConfig, FilesSourceConfig, SinkFormat, SourceFormat};
use flott_connectors::print::PrintConfig;
use flott_connectors::{blackhole, collect};
use flott_core::config::OBJECT_CHAINING;
use flott_core::{CheckpointKind, Config, Spec};
use flott_plan::{NodeKind, TaskId, VertexId};
use flott_runtime::master::JobEnd;
use flott_runtime::simulator::simulate;
use flott_sql::{Planned, PlannedJob, SqlEnvironment};
use flott_testing::jobs::{CommittingSink, Graph, registry, run};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{planned, run_with, simulation, tasks};

/// The most a row is behind the latest before it; no row is late.
const BEHIND_MS: i64 = 400;
const WINDOW_MS: i64 = 1_000;

#[derive(Clone, Debug)]
struct Row {
    key: Option<String>,
    amount: Option<i64>,
    time: i64,
}

/// Rows around the epoch, some of them without key or amount.
fn input(seed: u64, rows: usize) -> Vec<Row> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut latest = -5_000;
    let row = |_| {
        latest += random.random_range(0..20);
        let key = random.random_range(0..12);
        let amount = random.random_range(0..100);
        Row {
            key: (key > 0).then(|| format!("k{key}")),
            amount: (amount % 10 > 0).then_some(amount),
            time: latest - random.random_range(0..BEHIND_MS),
        }
    };
    (0..rows).map(row).collect()
}

/// Dates of these tests are within a day of the epoch.
fn date(ms: i64) -> String {
    let day = if ms < 0 { "1969-12-31" } else { "1970-01-01" };
    let of_day = ms.rem_euclid(86_400_000);
    let (hours, minutes, seconds) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    format!("{day} {hours:02}:{minutes:02}:{seconds:02}.{:03}", of_day % 1_000)
}

fn shown(ms: i64) -> String {
    let text = date(ms).replace(' ', "T");
    text.strip_suffix(".000").map_or_else(|| text.clone(), str::to_owned)
}

fn null_or(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |v| v.to_string())
}

/// Count of rows, count, sum and greatest of amounts, per key and window, of rows with an amount of at least 20.
fn expected(rows: &[Row], by_key: bool, offset: i64) -> Vec<String> {
    let mut groups = BTreeMap::<(Option<String>, i64), Vec<i64>>::new();
    for row in rows {
        let Some(amount) = row.amount.filter(|amount| *amount >= 20) else { continue };
        let start = (row.time - offset).div_euclid(WINDOW_MS) * WINDOW_MS + offset;
        groups.entry((row.key.clone().filter(|_| by_key), start)).or_default().push(amount);
    }
    let line = |((key, start), amounts): ((Option<String>, i64), Vec<i64>)| {
        let key = if by_key { format!("{}, ", null_or(key)) } else { String::new() };
        let (sum, max) = (amounts.iter().sum::<i64>(), amounts.iter().max());
        format!("{key}{}, {}, {}, {sum}, {}", shown(start), shown(start + WINDOW_MS), amounts.len(), null_or(max))
    };
    let mut lines: Vec<_> = groups.into_iter().map(line).collect();
    lines.sort();
    lines
}

const COLUMNS: &str = "k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.4' SECOND";

/// The rows as a folder of files.
fn csv_table(folder: &Path, rows: &[Row], files: usize) -> String {
    for (number, part) in rows.chunks(rows.len().div_ceil(files)).enumerate() {
        let mut text = String::new();
        for row in part {
            let key = null_or(row.key.clone());
            writeln!(text, "{key},{},{}", row.amount.map_or(String::new(), |v| v.to_string()), date(row.time)).unwrap();
        }
        std::fs::write(folder.join(format!("rows-{number}.csv")), text).unwrap();
    }
    let path = folder.display();
    format!(
        "CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv', \
         'csv.null-literal' = 'NULL');"
    )
}

/// The rows as part of the plan.
fn collection_table(rows: &[Row], splits: u32) -> String {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    let fields = [("k", DataType::Utf8), ("v", DataType::Int64), ("ts", time)];
    let schema = Arc::new(Schema::new(fields.map(|(name, t)| Field::new(name, t, true)).to_vec()));
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(rows.iter().map(|row| row.key.as_deref()).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.amount).collect::<Int64Array>()),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.time))),
        ],
    );
    let config = CollectionConfig::new(&schema, &[batch.unwrap()], splits).unwrap();
    format!(
        "CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'collection', 'rows' = '{}', 'splits' = '{splits}');",
        config.rows
    )
}

/// The query in each form there is: statement, whether by key, offset.
const QUERIES: [(&str, bool, i64); 9] = [
    (
        "SELECT k, window_start, window_end, COUNT(*), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), \
         INTERVAL '1' SECOND)) WHERE v >= 20 GROUP BY k, window_start, window_end",
        true,
        0,
    ),
    (
        "SELECT k, window_start, window_end, COUNT(v), SUM(v), MAX(v) FROM TUMBLE(DATA => TABLE t, \
         TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' SECOND, `OFFSET` => INTERVAL '0.25' SECOND) \
         WHERE v >= 20 GROUP BY window_end, window_start, k",
        true,
        250,
    ),
    (
        "SELECT k, TUMBLE_START(ts, INTERVAL '1' SECOND), TUMBLE_END(ts, INTERVAL '1' SECOND), COUNT(*), SUM(v), MAX(v) \
         FROM t WHERE v >= 20 GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k",
        true,
        0,
    ),
    (
        "WITH enough AS (SELECT ts AS at, v, k AS name FROM t WHERE v >= 20) SELECT name, window_start, window_end, \
         COUNT(1), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE enough, DESCRIPTOR(at), INTERVAL '1' SECOND)) \
         GROUP BY name, window_start, window_end, window_time",
        true,
        0,
    ),
    (
        "SELECT * FROM (SELECT k, window_start AS s, window_end AS e, COUNT(v) FILTER (WHERE v >= 20) AS n, \
         SUM(v) FILTER (WHERE v >= 20) AS total, MAX(CASE WHEN v >= 20 THEN v END) AS top FROM TABLE(TUMBLE(\
         (SELECT * FROM t), DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '-2.75' SECOND)) \
         GROUP BY k, window_start, window_end) AS g WHERE n > 0",
        true,
        250,
    ),
    (
        "SELECT k, window_start, window_end, COUNT(*), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), \
         INTERVAL '1' SECOND)) WHERE v >= 20 GROUP BY k, window_start, window_end HAVING COUNT(*) > 0",
        true,
        0,
    ),
    (
        "SELECT window_start, window_end, COUNT(*), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), \
         INTERVAL '1' SECOND)) WHERE v >= 20 GROUP BY window_start, window_end",
        false,
        0,
    ),
    (
        "SELECT TUMBLE_START(x.ts, INTERVAL '1' SECOND), TUMBLE_END(x.ts, INTERVAL '1' SECOND), COUNT(*), SUM(v), MAX(v) \
         FROM t AS x WHERE NOT (v < 20) GROUP BY TUMBLE(x.ts, INTERVAL '1' SECOND)",
        false,
        0,
    ),
    // Of windows of a tenth, windows of a second.
    (
        "SELECT window_start, window_end, SUM(n), SUM(s), MAX(m) FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n, \
         SUM(v) AS s, MAX(v) AS m FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) WHERE v >= 20 \
         GROUP BY k, window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '1' SECOND)) \
         GROUP BY window_start, window_end",
        false,
        0,
    ),
];

/// What must not matter.
const OPTIONS: [[(&str, &str); 3]; 4] = [
    [("parallelism.default", "1"), ("flott.batch.rows", "4096"), ("pipeline.operator-chaining.enabled", "true")],
    [("parallelism.default", "3"), ("flott.batch.rows", "7"), ("pipeline.operator-chaining.enabled", "true")],
    [("parallelism.default", "3"), ("flott.batch.rows", "1"), ("pipeline.operator-chaining.enabled", "false")],
    [("parallelism.default", "1"), ("flott.batch.rows", "100"), ("pipeline.operator-chaining.enabled", "false")],
];

/// Watermarks far more often than by default, so that windows fire in the middle.
const OFTEN: (&str, &str) = ("flott.watermark.rows", "50");

fn with_options(options: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    options.iter().copied().chain([OFTEN]).collect()
}

/// Runs on threads; the committed rows.
fn on_threads(job: &PlannedJob) -> Vec<String> {
    let (mut registry, sink) = (registry(), CommittingSink::default());
    sink.register(&mut registry, collect::NAME);
    let ran = run(&Graph(job.graph.clone()), &registry, None, |_, _| (), |_| ()).unwrap();
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    sink.rows().unwrap()
}

#[test]
fn every_form_gives_what_a_loop_gives() {
    let rows = input(1, 800);
    let folder = tempfile::tempdir().unwrap();
    let files = csv_table(folder.path(), &rows, 3);
    let collection = collection_table(&rows, 4);
    for (number, (query, by_key, offset)) in QUERIES.into_iter().enumerate() {
        let expected = expected(&rows, by_key, offset);
        for table in [&files, &collection] {
            let options = with_options(&OPTIONS[number % 4]);
            let job = planned(&format!("{table}{query}"), &options).unwrap();
            assert_eq!(on_threads(&job), expected, "{query} {options:?}");
        }
    }
}

#[test]
fn options_do_not_matter() {
    let rows = input(2, 1_500);
    let folder = tempfile::tempdir().unwrap();
    let table = csv_table(folder.path(), &rows, 2);
    for (query, by_key, offset) in [QUERIES[0], QUERIES[6]] {
        let expected = expected(&rows, by_key, offset);
        for options in OPTIONS {
            let job = planned(&format!("{table}{query}"), &with_options(&options)).unwrap();
            assert_eq!(on_threads(&job), expected, "{query} {options:?}");
        }
    }
}

fn random_options(random: &mut SmallRng, chaining: bool) -> Vec<(&'static str, String)> {
    vec![
        ("parallelism.default", random.random_range(1..=4).to_string()),
        ("flott.batch.rows", [1, 5, 64, 4096][random.random_range(0..4)].to_string()),
        ("pipeline.operator-chaining.enabled", chaining.to_string()),
        (OFTEN.0, OFTEN.1.to_owned()),
    ]
}

fn plan_with(script: &str, options: &[(&'static str, String)]) -> PlannedJob {
    let options: Vec<_> = options.iter().map(|(key, value)| (*key, value.as_str())).collect();
    planned(script, &options).unwrap()
}

/// Stops with a savepoint somewhere and goes on at another parallelism, twice; slow tasks, any schedule.
#[test]
fn stop_and_restore_at_another_parallelism() {
    let mut stopped = 0;
    let mut parallelisms = BTreeSet::new();
    for seed in 0..60 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = input(seed, 600);
        let (query, by_key, offset) = QUERIES[random.random_range(0..QUERIES.len())];
        let folder = tempfile::tempdir().unwrap();
        let table = match random.random_bool(0.5) {
            true => csv_table(folder.path(), &rows, random.random_range(1..4)),
            false => collection_table(&rows, random.random_range(1..5)),
        };
        let script = format!("{table}{query}");
        let (mut registry, sink) = (registry(), CommittingSink::default());
        sink.register(&mut registry, collect::NAME);
        let store = InMemory::default();
        let chaining = random.random_bool(0.5);
        for part in 0..3 {
            let options = random_options(&mut random, chaining);
            let job = plan_with(&script, &options);
            assert_eq!(job.graph.config.get(&OBJECT_CHAINING), Ok(chaining));
            let mut simulation = simulation(seed + 1_000 * part, &store);
            simulation.from = store.latest().unwrap().manifest.map(|(_, manifest)| manifest);
            simulation.trigger = (part < 2).then(|| (random.random_range(1..150), CheckpointKind::Stop));
            simulation.slow.insert(TaskId { vertex: VertexId(random.random_range(0..3)), index: 0 }, 10);
            match simulate(&tasks(&job).unwrap(), &registry, simulation).unwrap().end {
                Ok(JobEnd::Stopped(_)) => stopped += 1,
                Ok(JobEnd::Finished) => break,
                other => panic!("seed {seed}: {other:?}"),
            }
            parallelisms.insert(options[0].1.clone());
        }
        assert_eq!(sink.rows().unwrap(), expected(&rows, by_key, offset), "seed {seed}: {query}");
    }
    // The test is worth something only if jobs are stopped, and at several parallelisms; how often follows from the seeds.
    assert!(stopped > 60, "{stopped} stops");
    assert!(parallelisms.len() > 2, "{parallelisms:?}");
}

#[test]
fn failures_lose_nothing_and_double_nothing() {
    for seed in 100..120 {
        let mut random = SmallRng::seed_from_u64(seed);
        let rows = input(seed, 600);
        let (query, by_key, offset) = QUERIES[random.random_range(0..QUERIES.len())];
        let mut options = random_options(&mut random, seed % 2 == 0);
        options.extend([
            ("execution.checkpointing.interval", "2 ms".to_owned()),
            ("restart-strategy.type", "fixed-delay".to_owned()),
            ("restart-strategy.fixed-delay.attempts", "1000".to_owned()),
        ]);
        let job = plan_with(&format!("{}{query}", collection_table(&rows, 3)), &options);
        let (mut registry, sink) = (registry(), CommittingSink::default());
        sink.register(&mut registry, collect::NAME);
        let mut simulation = simulation(seed, &InMemory::default());
        simulation.failures_per_million = 3_000;
        let ran = simulate(&tasks(&job).unwrap(), &registry, simulation).unwrap();
        assert_eq!(ran.end, Ok(JobEnd::Finished), "seed {seed}: {:?}", ran.notes);
        assert_eq!(sink.rows().unwrap(), expected(&rows, by_key, offset), "seed {seed}: {query}");
    }
}

/// Lines of all visible files in a folder, sorted.
fn lines_in(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with('.') {
            lines.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_owned));
        }
    }
    lines.sort();
    lines
}

/// From files to files, and the files written read back by another statement.
#[test]
fn what_one_job_writes_another_reads() {
    let rows = input(3, 900);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let table = csv_table(&folder.path().join("in"), &rows, 2);
    let sums = format!(
        "CREATE TABLE sums (k STRING, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT NOT NULL, total DECIMAL(20, 1), top BIGINT) \
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.null-literal' = '-');",
        out.display()
    );
    let script = format!("{table}{sums}INSERT INTO sums {}", QUERIES[0].0);
    let job = planned(&script, &with_options(&OPTIONS[1])).unwrap();
    assert_eq!(job.into.as_deref(), Some("sums"));
    run_with(&job, &registry()).unwrap();
    let expected = expected(&rows, true, 0);
    let csv = |line: &String| {
        let [key, start, end, count, sum, max] = line.split(", ").collect::<Vec<_>>().try_into().unwrap();
        let key = if key == "NULL" { "-" } else { key };
        // What has a blank is quoted; a fraction of nothing is not written.
        let time = |text: &str| format!("\"{}\"", text.replace('T', " "));
        format!("{key},{},{},{count},{sum}.0,{max}", time(start), time(end))
    };
    let mut written: Vec<_> = expected.iter().map(csv).collect();
    written.sort();
    assert_eq!(lines_in(&out), written);

    let back = format!("{sums}SELECT k, s, e, n, CAST(total AS BIGINT), top FROM sums");
    let job = planned(&back, &OPTIONS[1]).unwrap();
    assert_eq!(on_threads(&job), expected);
}

/// The sources and sinks of this script's jobs.
fn specs(script: &str) -> Vec<Spec> {
    let job = planned(script, &[]).unwrap();
    let nodes = job.graph.nodes.into_iter().filter_map(|node| match node.kind {
        NodeKind::Source { spec, .. } | NodeKind::Sink(spec) => Some(spec),
        _ => None,
    });
    nodes.collect()
}

/// SQL writes the connectors' configurations without knowing them: here they are read with every option set.
#[test]
fn connectors_read_what_sql_writes() {
    let from = "CREATE TABLE f (a INT NOT NULL, `b c` STRING) WITH ('connector' = 'filesystem', 'path' = 'file:///in', \
        'format' = 'csv', 'csv.field-delimiter' = '\\t', 'csv.quote-character' = '''', 'csv.null-literal' = 'n/a', \
        'csv.allow-comments' = 'true');";
    let to = "CREATE TABLE s (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '/out', 'format' = 'csv', \
        'csv.disable-quote-character' = 'true');";
    let specs_of = specs(&format!("{from}{to}INSERT INTO s SELECT * FROM f"));
    let [source, sink] = &specs_of[..] else { panic!("{specs_of:?}") };
    let source: FilesSourceConfig = source.read().unwrap();
    assert_eq!(source.path, Path::new("/in"));
    let SourceFormat::Csv { schema, options } = &source.format else { panic!("{source:?}") };
    let fields = vec![Field::new("a", DataType::Int32, false), Field::new("b c", DataType::Utf8, true)];
    assert_eq!(*schema, Schema::new(fields));
    assert_eq!((options.delimiter, options.quote, options.comment), ('\t', Some('\''), Some('#')));
    assert_eq!(options.null_literal.as_deref(), Some("n/a"));
    let sink: FilesSinkConfig = sink.read().unwrap();
    assert_eq!(sink.path, Path::new("/out"));
    let SinkFormat::Csv(options) = sink.format;
    assert_eq!((options.delimiter, options.quote, options.null_literal), (',', None, None));

    let to = "CREATE TABLE s (a INT, b STRING) WITH ('connector' = 'print', 'print-identifier' = 'out', 'standard-error' = 'true');";
    let print: PrintConfig = specs(&format!("{from}{to}INSERT INTO s SELECT * FROM f"))[1].read().unwrap();
    assert_eq!(print, PrintConfig { identifier: Some("out".to_owned()), standard_error: true, plain: false });

    let collection = collection_table(&input(1, 10), 3);
    let to = "CREATE TABLE s (a BIGINT) WITH ('connector' = 'blackhole');";
    let specs_of = specs(&format!("{collection}{to}INSERT INTO s SELECT v FROM t"));
    assert_eq!(specs_of[0].read::<CollectionConfig>().unwrap().splits, 3);
    assert_eq!(specs_of[1].factory, blackhole::NAME);
    run_with(&planned(&format!("{collection}{to}INSERT INTO s SELECT v FROM t"), &[]).unwrap(), &registry()).unwrap();

    // A SELECT prints, where nothing else was asked for.
    let mut sql = SqlEnvironment::new(Config::default());
    let Some(Planned::Job(job)) = sql.execute(&format!("{collection}SELECT v FROM t")).unwrap().pop() else { panic!() };
    let Some(NodeKind::Sink(spec)) = job.graph.nodes.last().map(|node| &node.kind) else { panic!() };
    assert_eq!(spec.read::<PrintConfig>().unwrap(), PrintConfig::default());
}

#[test]
fn explain_says_what_is_kept_until_when() {
    let mut sql = SqlEnvironment::new(Config::default());
    let script = format!("{}EXPLAIN {}", collection_table(&input(1, 10), 1), QUERIES[0].0);
    let planned = sql.execute(&script).unwrap();
    let [Planned::Done(_), Planned::Text(text)] = &planned[..] else { panic!("{planned:?}") };
    expect![[r#"
        == Plan of SELECT k, window_start, window_end, COUNT(*), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE v >= 20 GROUP BY k, window_start, window_end ==
        1: TableSourceScan(table=[t], fields=[k, v, ts], watermark=[ts - 400 ms]) (source, uid source:t, parallelism 1 of 128)
        2: Calc(select=[k, v], where=[v >= 20]) (operator, uid calc:source:t, parallelism 1 of 128)
           <- 1 FORWARD
        3: WindowAggregate(groupBy=[k], window=[TUMBLE(size 1000 ms)], select=[COUNT(*), SUM(v), MAX(v)], state=[until the watermark passes the window]) (operator, uid window_aggregate:source:t:1000+0:k:COUNT(*),SUM(v),MAX(v), parallelism 1 of 128)
           <- 2 HASH(k)
        4: Calc(select=[k, window_start, window_end, COUNT(*) AS EXPR$3, SUM(v) AS EXPR$4, MAX(v) AS EXPR$5]) (operator, uid calc:window_aggregate:source:t:1000+0:k:COUNT(*),SUM(v),MAX(v), parallelism 1 of 128)
           <- 3 FORWARD
        5: Sink(table=[select], fields=[k, window_start, window_end, EXPR$3, EXPR$4, EXPR$5]) (sink, uid sink:select, parallelism 1 of 128)
           <- 4 FORWARD
    "#]].assert_eq(text);
}
