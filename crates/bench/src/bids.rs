//! `bids`: queries over ten million bids in a CSV file, beside DuckDB and DataFusion from PyPI doing the batch
//! equivalent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use flott_connectors::blackhole::Blackhole;
use flott_connectors::files::{FilesSourceConfig, SourceFormat};
use flott_core::{Error, Result, Spec, WatermarkStrategy};
use flott_operators::calc::{self, CalcConfig};
use flott_operators::expr::Expr;
use flott_operators::window_aggregate::{self, WindowAggregateConfig};
use flott_operators::{Call, Function};
use flott_plan::{NodeKind, Partitioning};
use flott_testing::jobs::registry;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::job;
use crate::measure::{self, Measured, Stopwatch, child};
use crate::report::{Runs, Section, compare, compare_heading};

/// The benchmark's name.
pub(crate) const NAME: &str = "bids";
const PEER: &str = "crates/bench/peers/bids.py";
/// 2024-01-01 00:00:00 UTC.
const DAY: &str = "2024-01-01";

/// Where the input is and who the peers run with.
pub(crate) struct Setting {
    /// Folder of the benchmarks' input.
    pub(crate) data: PathBuf,
    /// The interpreter of the virtual environment with DuckDB and DataFusion.
    pub(crate) python: PathBuf,
}

/// Runs every query, contenders in turn. Also the peers' versions.
pub(crate) fn bench(runs: usize, rows: u64, setting: &Setting) -> Result<(Section, Vec<String>)> {
    let file = generate(&setting.data, rows)?;
    let mut names = vec!["flott"];
    if setting.python.is_file() {
        names.extend(["duckdb", "datafusion"]);
    } else {
        eprintln!("bids: no peers, since {} is missing; `make venv` makes it", setting.python.display());
    }
    let mut table = vec![compare_heading()];
    let mut versions = Vec::new();
    for query in ["pass", "tumble"] {
        for threads in ["1", "2"] {
            let mut contenders: Vec<_> =
                names.iter().map(|name| Runs { contender: (*name).to_owned(), runs: Vec::new() }).collect();
            for _ in 0..runs {
                for contender in &mut contenders {
                    let measured = match contender.contender.as_str() {
                        "flott" => child(&[NAME, query, &file.display().to_string(), threads].map(str::to_owned))?,
                        peer => measure::run(
                            Command::new(&setting.python).args([PEER, peer, query]).arg(&file).arg(threads),
                        )?,
                    };
                    contender.runs.push(measured);
                }
            }
            let s = if threads == "1" { "" } else { "s" };
            table.extend(compare(&format!("{query}, {threads} thread{s}"), rows, &contenders)?);
            versions = contenders.iter().filter_map(|c| c.runs.first()?.version.clone()).collect();
        }
    }
    let about = format!(
        "{} M bids `auction,bidder,price,ts` in CSV, in the order of event time, 10,000 a second, 10,000 skewed \
         auctions. *pass*: every column of every row parsed and handed to a sink that forgets it; the peers parse the \
         same and take each column's MAX. *tumble*: rows per auction in windows of 10 s, the watermark 1 s behind; the \
         peers do the GROUP BY over the whole file and count what comes out. The file is in the page cache.",
        rows / 1_000_000
    );
    Ok((Section { name: NAME, about, table }, versions))
}

/// Writes the bids unless they are there. The distribution is that of a squared uniform number for auctions and of a
/// product of two for prices.
fn generate(folder: &Path, rows: u64) -> Result<PathBuf> {
    let failed = |path: &Path, e: &std::io::Error| Error::io("write", path.display(), e);
    let file = folder.join(format!("bids-{rows}.csv"));
    if file.is_file() {
        return Ok(file);
    }
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, &e))?;
    let partial = folder.join(format!(".bids-{rows}.csv"));
    let target = std::fs::File::create(&partial).map_err(|e| failed(&partial, &e))?;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, target);
    let mut random = SmallRng::seed_from_u64(7);
    let mut uniform = || random.random::<f64>();
    for row in 0..rows {
        let ms = row / 10;
        let (second, ms) = (ms / 1000, ms % 1000);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let auction = uniform();
        let auction = (auction * auction * 10_000.0) as u64 + 1000;
        let bidder = (uniform() * 50_000.0) as u64 + 1000;
        let price = (uniform() * uniform() * 100_000.0) as u64 + 100;
        writeln!(out, "{auction},{bidder},{price},{DAY} {hour:02}:{minute:02}:{second:02}.{ms:03}")
            .map_err(|e| failed(&partial, &e))?;
    }
    out.flush().map_err(|e| failed(&partial, &e))?;
    std::fs::rename(&partial, &file).map_err(|e| failed(&file, &e))?;
    Ok(file)
}

/// One run of flott, in this process: query, file, threads.
pub(crate) fn run(args: &[String]) -> Result<Measured> {
    let [query, file, threads] = args else { return Err(Error::internal(format!("{NAME} of {args:?}"))) };
    let threads = threads.parse().map_err(|_| Error::internal(format!("'{threads}' is no number")))?;
    let mut graph = job::graph(threads, &[])?;
    let number = |name| Field::new(name, DataType::Int64, true);
    let time = Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true);
    let schema = Schema::new(vec![number("auction"), number("bidder"), number("price"), time]);
    let format = SourceFormat::Csv { schema, options: Default::default() };
    let config = FilesSourceConfig::new(file, format);
    let watermarks = WatermarkStrategy::for_bounded_out_of_orderness(1_000).with_time_column(3).with_every_rows(4096);
    let watermarks = Some(watermarks).filter(|_| query == "tumble");
    let bids = NodeKind::Source { spec: config.spec()?, watermarks };
    let bids = graph.add("bids", bids, &[], config.schema());
    let last = if query == "tumble" {
        let narrow = CalcConfig::project(vec![("auction".into(), Expr::Column(0)), ("ts".into(), Expr::Column(3))]);
        let schema = narrow.output(&config.schema())?;
        let spec = Spec::new(calc::NAME, &narrow)?;
        let narrow =
            graph.add("narrow", NodeKind::Operator(spec), &[(bids, Partitioning::Forward)], Arc::clone(&schema));
        let count = Call { function: Function::Count, column: None };
        let config =
            WindowAggregateConfig { size_ms: 10_000, offset_ms: 0, time_column: None, aggregates: vec![count] };
        let spec = NodeKind::Operator(Spec::new(window_aggregate::NAME, &config)?);
        graph.add("count", spec, &[(narrow, Partitioning::Hash(vec![0]))], config.output(["count"], &schema, &[0])?)
    } else {
        bids
    };
    job::sink(&mut graph, last, Blackhole::spec()?);
    let mut registry = registry();
    let blackhole = Blackhole::default();
    blackhole.register(&mut registry);
    let watch = Stopwatch::start()?;
    job::run(&graph, &registry, job::clock())?;
    watch.stop(blackhole.rows())
}
