//! The smallest program that writes files: the even ones of many numbers as CSV, by parallel tasks. Ctrl-C ends it:
//! no part of a file is left.
//!
//!     cargo run -p flott --example numbers -- FOLDER [UP_TO] [--workers N]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Once;
use std::time::Duration;

use clap::Parser;
use flott::LocalExecutor;
use flott::connectors::{CsvOptions, csv_sink};

/// Writes the even numbers as CSV.
#[derive(Parser)]
struct Arguments {
    /// The folder for the files
    folder: PathBuf,
    /// The last number; without it, end the program with Ctrl-C
    #[arg(default_value_t = i64::MAX - 1)]
    up_to: i64,
    /// Processes beside this one that take part
    #[arg(long, default_value_t = 0)]
    workers: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let begun = Once::new();
    let say_begun = move || begun.call_once(|| eprintln!("writing; Ctrl-C ends it"));
    LocalExecutor::default()
        .workers(arguments.workers)
        .watch(Duration::from_millis(20), move |moment| {
            let operators = moment.metrics.operators();
            let sinks = operators.iter().filter(|operator| operator.info.name == "Evens");
            let rows: u64 = sinks.map(|sink| sink.metrics.counter("numRecordsIn").get()).sum();
            // More than the batches that tasks have in hand: some are written.
            if rows > 100_000 {
                say_begun();
            }
        })
        .run(|env| {
            env.set_parallelism(1 + arguments.workers.max(1));
            env.from_sequence(1, arguments.up_to)
                .filter(|number| number % 2 == 0)
                .sink_to("Evens", csv_sink(&arguments.folder, CsvOptions::default()).spec()?);
            env.execute("even numbers").map(drop)
        })
}
