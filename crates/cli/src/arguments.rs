//! What can be written after `flott`: [`Arguments`]. Help is here too, and teaches by example.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use flott_core::Config;

/// flott, a stream processor: run Flink SQL on this machine, without a JVM.
#[derive(Debug, Parser)]
#[command(name = "flott", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run SQL statements: a file of them, or those given with -e
    #[command(after_help = SQL_EXAMPLES, override_usage = SQL_USAGE)]
    Sql(Sql),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("statements").required(true).args(["file", "execute"]))]
pub(crate) struct Sql {
    /// A file of statements, each ended by ';'; - reads standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Statements to run
    #[arg(short, long, value_name = "STATEMENTS")]
    pub(crate) execute: Option<String>,

    /// Set an option, such as parallelism.default=4; may be repeated
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = option)]
    pub(crate) options: Vec<(String, String)>,

    /// How the rows of a SELECT are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table, when the statement has ended; long ones are cut
    Table,
    /// CSV with a header, all rows, as they come
    Csv,
}

/// Reads `key=value`; an unknown key or a value of the wrong type is a mistake in the use of the command.
fn option(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected key=value, such as parallelism.default=4")?;
    let (key, value) = (key.trim(), value.trim());
    Config::default().set(key, value).map_err(|e| e.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

const EXIT_CODES: &str = "\
Examples:
  flott sql -f job.sql
  flott sql -D parallelism.default=4 -f job.sql
  flott sql --help

Exit codes: 0 done, 1 a statement or its job failed, 2 wrong use of the command,
130 ended by Ctrl-C.";

const SQL_USAGE: &str = "flott sql [-D KEY=VALUE]... [--format FORMAT] (-f FILE | -e STATEMENTS)";

const SQL_EXAMPLES: &str = "\
Examples:

  See what is in a CSV file:

    flott sql -e \"
      CREATE TABLE orders (customer STRING, amount DOUBLE, at TIMESTAMP(3))
      WITH ('connector' = 'filesystem', 'path' = 'orders.csv',
            'format' = 'csv');
      SELECT * FROM orders WHERE amount > 100\"

  Write hourly sums to a folder, with four tasks of each operator:

    flott sql -D parallelism.default=4 -f job.sql

  where job.sql is

    CREATE TABLE orders (
      customer STRING, amount DOUBLE, at TIMESTAMP(3),
      WATERMARK FOR at AS at - INTERVAL '5' MINUTE
    ) WITH ('connector' = 'filesystem', 'path' = 'orders.csv',
            'format' = 'csv');

    CREATE TABLE hourly (customer STRING, hour_start TIMESTAMP(3), total DOUBLE)
    WITH ('connector' = 'filesystem', 'path' = 'hourly', 'format' = 'csv');

    INSERT INTO hourly
    SELECT customer, window_start, SUM(amount)
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' HOUR))
    GROUP BY customer, window_start, window_end;

  See the plan of a statement instead of running it: EXPLAIN SELECT ...

All statements are planned before the first one runs. Ctrl-C ends the running
job; files it had not finished do not appear.";
