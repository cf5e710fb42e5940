//! The command `flott`: reads arguments, and turns errors into messages and exit codes. What commands do is in their
//! modules.

mod arguments;
mod progress;
mod results;
mod sql;

use std::process::ExitCode;

use clap::Parser;
use flott::{INTERRUPTED, Interrupt, is_cancelled, report};

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = Interrupt::on_signals().and_then(|interrupt| match &arguments.command {
        Command::Sql(sql) => sql::run(sql, &interrupt),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_cancelled(&error) => {
            eprintln!("cancelled: what was not committed is gone");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("{}", report(&error));
            ExitCode::FAILURE
        }
    }
}
