//! `cargo xtask bench`: whole jobs, run as users run them, beside peers on the same input.
//!
//! Each run is a process of its own (this program again, behind the hidden command `child`); contenders take turns, so
//! that what else the machine does hits all of them. Results go to `docs/benchmarks.md`.

mod bids;
mod job;
mod keyed_count;
mod latency;
mod measure;
mod neighbours;
mod pairs;
mod report;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use flott_core::{Error, Result};

use measure::Measured;
use report::Section;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ALL: [&str; 6] = [keyed_count::NAME, bids::NAME, latency::LATENCY, latency::IDLE, neighbours::NAME, "alloc"];

/// Benchmarks of flott beside its peers
#[derive(Parser)]
#[command(name = "cargo xtask bench", subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    hidden: Option<Hidden>,
    /// Which: keyed-count, bids, latency, idle, neighbours, alloc; all of them where none is named
    names: Vec<String>,
    /// Runs of each contender
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Rows of keyed-count and bids, in millions
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Put the results into this page; without it they are only printed
    #[arg(long)]
    page: Option<PathBuf>,
    /// Where the input is generated
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
    /// The Python environment with the peers; else FLOTT_VENV, which make sets, else target/venv
    #[arg(long)]
    venv: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Hidden {
    /// One run in this process
    #[command(hide = true)]
    Child { args: Vec<String> },
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(Hidden::Child { args }) = &args.hidden {
        let measured = run_child(args)?;
        println!("{}", serde_json::to_string(&measured).map_err(|e| Error::internal(e.to_string()))?);
        return Ok(());
    }
    if let Some(unknown) = args.names.iter().find(|name| !ALL.contains(&name.as_str())) {
        return Err(Error::user(format!("there is no benchmark '{unknown}'; there are {}", ALL.join(", "))));
    }
    if args.runs == 0 || args.millions == 0 {
        return Err(Error::user("expected at least one run and a million rows"));
    }
    for name in ALL.iter().filter(|name| args.names.is_empty() || args.names.iter().any(|n| n == *name)) {
        let (section, versions) = bench(name, args)?;
        let (command, runs) = match *name {
            keyed_count::NAME | bids::NAME => {
                (format!("{name} --runs {} --millions {}", args.runs, args.millions), args.runs)
            }
            latency::LATENCY | neighbours::NAME => (format!("{name} --runs {}", args.runs), args.runs),
            _ => ((*name).to_owned(), 1),
        };
        let command = format!("cargo xtask bench {command}");
        let setting = report::setting(runs, &versions);
        report::publish(&section, &command, &setting, args.page.as_deref())?;
    }
    Ok(())
}

fn bench(name: &str, args: &Args) -> Result<(Section, Vec<String>)> {
    let rows = args.millions * 1_000_000;
    match name {
        keyed_count::NAME => Ok((keyed_count::bench(args.runs, rows)?, Vec::new())),
        bids::NAME => {
            let python = args.venv.clone().unwrap_or_else(venv).join("bin").join("python");
            bids::bench(args.runs, rows, &bids::Setting { data: args.data.clone(), python })
        }
        latency::LATENCY => Ok((latency::bench_latency(args.runs)?, Vec::new())),
        latency::IDLE => Ok((latency::bench_idle()?, Vec::new())),
        neighbours::NAME => Ok((neighbours::bench(args.runs)?, Vec::new())),
        _ => Ok((alloc()?, Vec::new())),
    }
}

#[expect(clippy::disallowed_methods, reason = "an edge may ask its environment where things are")]
fn venv() -> PathBuf {
    std::env::var_os("FLOTT_VENV").map_or_else(|| "target/venv".into(), PathBuf::from)
}

fn run_child(args: &[String]) -> Result<Measured> {
    match args.split_first() {
        Some((name, rest)) if name == keyed_count::NAME => keyed_count::run(rest),
        Some((name, rest)) if name == bids::NAME => bids::run(rest),
        Some((name, rest)) if name == neighbours::NAME => neighbours::run(rest),
        Some((name, rest)) if name == latency::LATENCY || name == latency::IDLE => latency::run(rest),
        _ => Err(Error::internal(format!("a run of {args:?}"))),
    }
}

/// Counting needs an allocator that counts, so it is a program of its own.
fn alloc() -> Result<Section> {
    let program = ["run", "--quiet", "-p", "flott-bench", "--profile", "bench", "--bin", "flott-bench-alloc"];
    let output = Command::new("cargo").args(program).output();
    let output = output.map_err(|e| Error::external(format!("cannot start cargo: {e}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::external(format!("flott-bench-alloc ended with {}: {why}", output.status)));
    }
    let table: Vec<Vec<String>> = serde_json::from_slice(&output.stdout)
        .map_err(|e| Error::internal(format!("flott-bench-alloc printed no table: {e}")))?;
    let about = "Calls of the allocator (malloc, calloc, realloc) of a job over numbers in batches of 4096 rows: what \
                 twice the rows cost more, so that starting the job does not count. The jobs: \
                 a source into a sink; with a filter, a projection, an exchange by key over a local channel between.";
    Ok(Section { name: "alloc", about: about.to_owned(), table })
}
