//! The demo: departures, cancellations and the mean departure delay of the flights that left New York City in 2013, by
//! airport and hour. `make demo` fetches the flights and runs it.
//!
//! The hour is event time: the one a flight was scheduled for, in a file that is up to a day out of order.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table};
use flott::connectors::{CsvOptions, csv_sink, csv_source};
use flott::prelude::*;
use flott::{Error, JobResult, LocalExecutor, Moment};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Departures, cancellations and mean departure delay by airport and hour.
#[derive(Parser)]
#[command(after_help = "Example: flights --input target/demo/flights.csv --parallelism 2")]
struct Arguments {
    /// The flights, as CSV with a header; `python3 scripts/fetch_flights.py` fetches them
    #[arg(long, default_value = "target/demo/flights.csv")]
    input: PathBuf,
    /// The folder for the result; it takes the place of an earlier one when it is complete
    #[arg(long, default_value = "target/demo/result")]
    output: PathBuf,
    /// Tasks of each operator
    #[arg(long, default_value_t = 2)]
    parallelism: u32,
}

/// A line of the file: the columns this job needs, found by name.
#[derive(Record, Clone, Debug)]
struct Flight {
    /// In minutes; negative where it left early. NULL where it did not leave.
    dep_delay: Option<i64>,
    /// As in 1742 for 17:42. NULL where it did not leave.
    dep_time: Option<i64>,
    origin: String,
    /// The hour it was scheduled for, in UTC.
    time_hour: Timestamp,
}

/// A line of the result.
#[derive(Record, Clone, Debug)]
struct Hour {
    origin: String,
    window_start: Timestamp,
    departures: u64,
    cancellations: u64,
    mean_dep_delay: Option<f64>,
}

/// What is kept of the flights of an airport and hour: departures, cancellations, minutes of delay.
#[derive(Clone)]
struct Count;

impl Aggregate for Count {
    type In = Flight;
    type Accumulator = (u64, u64, i64);
    type Out = (u64, u64, i64);

    fn create(&self) -> Self::Accumulator {
        (0, 0, 0)
    }

    fn add(&self, flight: Flight, (departures, cancellations, minutes): &mut Self::Accumulator) -> Result<()> {
        match flight.dep_time {
            Some(_) => *departures += 1,
            None => *cancellations += 1,
        }
        *minutes += flight.dep_time.and(flight.dep_delay).unwrap_or(0);
        Ok(())
    }

    fn result(&self, counted: &Self::Accumulator) -> Result<Self::Out> {
        Ok(*counted)
    }
}

const SOURCE: &str = "Flights";
/// Where in the folder of the result the parts are until all are there.
const UNFINISHED: &str = ".unfinished";
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: u64 = 24 * 3_600_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let shown = bar.clone();
    LocalExecutor::default()
        .watch(Duration::from_millis(100), move |moment| show_progress(&shown, moment))
        .run(|env| flights(env, &arguments, &bar))
}

fn flights(env: &StreamExecutionEnvironment, arguments: &Arguments, bar: &ProgressBar) -> Result<()> {
    env.set_parallelism(arguments.parallelism);
    let header = CsvOptions { header: true, ..CsvOptions::default() };

    let mut source =
        csv_source::<Flight>(&arguments.input, CsvOptions { null_literal: Some("NA".to_owned()), ..header.clone() });
    source.split_bytes = 4 << 20;
    let event_time = WatermarkStrategy::for_bounded_out_of_orderness(DAY_MS).with_time_column(3);
    let hours = env
        .from_source::<Flight>(SOURCE, source.spec()?, Some(event_time))
        .key_by(|flight| flight.origin.clone())
        .window(TumblingEventTimeWindows::of(HOUR_MS))
        .aggregate_with(Count, |origin, window, (departures, cancellations, minutes)| Hour {
            origin,
            window_start: window.start,
            departures,
            cancellations,
            mean_dep_delay: (departures > 0).then(|| minutes as f64 / departures as f64),
        })
        .name("Hours");
    let unfinished = arguments.output.join(UNFINISHED);
    hours.sink_to("Result", csv_sink(&unfinished, header).spec()?);
    let hours = hours.collect();

    env.stream_graph()?;
    begin_progress(bar, &arguments.input)?;
    remove_parts(&unfinished)?;
    let result = env.execute("New York flights");
    bar.finish_and_clear();
    let result = result?;
    // Only now, that whatever can be wrong with the flights has been right.
    remove_parts(&arguments.output)?;
    move_parts(&unfinished, &arguments.output)?;
    print_summary(&hours.take(), &result, arguments)
}

/// Counts the lines, so that progress has an end.
fn begin_progress(bar: &ProgressBar, input: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io("read", input.display(), &e);
    let mut file = BufReader::with_capacity(1 << 20, File::open(input).map_err(failed)?);
    let mut lines = 0;
    loop {
        let bytes = file.fill_buf().map_err(failed)?;
        let length = bytes.len();
        if length == 0 {
            break;
        }
        lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        file.consume(length);
    }
    if lines == 0 {
        return Err(Error::user("expected a header and flights, found an empty file").at("file", input.display()));
    }
    let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} flights, {msg}");
    bar.set_style(style.map_err(|e| Error::internal(e.to_string()))?);
    bar.set_length(lines.saturating_sub(1));
    Ok(())
}

fn show_progress(bar: &ProgressBar, moment: &Moment<'_>) {
    let operators = moment.metrics.operators();
    let sources = operators.iter().filter(|operator| operator.info.name == SOURCE);
    let read = sources.map(|operator| operator.metrics.counter("numRecordsOut").get()).sum();
    bar.set_message(format!("{} flights/s", grouped(per_second(read, moment.elapsed_ms))));
    bar.set_position(read);
}

/// The sink never overwrites: what an earlier run has left makes room.
fn remove_parts(folder: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io("empty the folder", folder.display(), &e);
    if !folder.exists() {
        return Ok(());
    }
    for part in parts(folder)? {
        fs::remove_file(part).map_err(failed)?;
    }
    Ok(())
}

/// Moves the parts of one folder to another, and removes the folder they were in.
fn move_parts(from: &Path, to: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io("move the result", to.display(), &e);
    for part in parts(from)? {
        if let Some(name) = part.file_name() {
            fs::rename(&part, to.join(name)).map_err(failed)?;
        }
    }
    fs::remove_dir(from).map_err(failed)
}

/// Visible parts and hidden ones.
fn parts(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e: std::io::Error| Error::io("list the folder", folder.display(), &e);
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name.to_string_lossy().trim_start_matches('.').starts_with("part-") {
            parts.push(entry.path());
        }
    }
    parts.sort();
    Ok(parts)
}

fn print_summary(hours: &[Hour], result: &JobResult, arguments: &Arguments) -> Result<()> {
    let count = |wanted: &str| -> u64 {
        let of_name = result.counters.iter().filter(|(operator, counter, _)| format!("{operator}.{counter}") == wanted);
        of_name.map(|(.., count)| count).sum()
    };
    let read = count(&format!("{SOURCE}.numRecordsOut"));
    let late = count("Hours.numLateRecordsDropped");

    let seconds = result.runtime_ms as f64 / 1_000.0;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Flights that left New York City in 2013, by airport:\n{}", totals(hours));
    let worst = worst(hours)?;
    let _ = writeln!(text, "The ten worst hours (UTC) of at least ten departures, by mean delay:\n{worst}");
    let rate = grouped(per_second(read, result.runtime_ms));
    let flights = grouped(read);
    let _ = writeln!(
        text,
        "{flights} flights in {seconds:.2} s with parallelism {}: {rate} flights/s",
        arguments.parallelism
    );
    if late > 0 {
        let _ = writeln!(text, "{} of them came more than a day late and are not counted", grouped(late));
    }
    let _ = writeln!(text, "{} hours, one a line, in:", grouped(hours.len() as u64));
    for part in parts(&arguments.output)? {
        let _ = writeln!(text, "  {}", part.display());
    }
    flott::say(&text)
}

fn totals(hours: &[Hour]) -> Table {
    let mut origins: Vec<_> = hours.iter().map(|hour| hour.origin.as_str()).collect();
    origins.sort_unstable();
    origins.dedup();
    let mut table = table(&["airport", "hours", "departures", "cancellations", "mean delay (min)"]);
    for origin in origins {
        let (mut of_origin, mut departures, mut cancellations, mut minutes) = (0, 0, 0, 0.0);
        for hour in hours.iter().filter(|hour| hour.origin == origin) {
            of_origin += 1;
            departures += hour.departures;
            cancellations += hour.cancellations;
            minutes += hour.mean_dep_delay.unwrap_or(0.0) * hour.departures as f64;
        }
        let mean = if departures > 0 { format!("{:.1}", minutes / departures as f64) } else { String::new() };
        table.add_row([origin.to_owned(), grouped(of_origin), grouped(departures), grouped(cancellations), mean]);
    }
    table
}

fn worst(hours: &[Hour]) -> Result<Table> {
    let mut busy: Vec<_> = hours.iter().filter(|hour| hour.departures >= 10).cloned().collect();
    let mean = |hour: &Hour| hour.mean_dep_delay.unwrap_or(0.0);
    busy.sort_by(|a, b| {
        mean(b).total_cmp(&mean(a)).then_with(|| (a.window_start, &a.origin).cmp(&(b.window_start, &b.origin)))
    });
    busy.truncate(10);
    let mut table = table(&["airport", "hour", "departures", "cancellations", "mean delay (min)"]);
    for (mut cells, hour) in flott::text::cells(&busy)?.into_iter().zip(&busy) {
        cells[1].truncate("2013-01-01 10:00".len());
        cells[4] = format!("{:.1}", mean(hour));
        table.add_row(cells);
    }
    Ok(table)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED).set_header(header.iter().copied());
    for number in 2..header.len() {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn per_second(count: u64, ms: u64) -> u64 {
    count.saturating_mul(1_000) / ms.max(1)
}

/// 336776 as 336,776.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
