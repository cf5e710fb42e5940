//! The command `flott`: reads arguments, and turns errors into messages and exit codes. What commands do is in their
//! modules.

mod arguments;
mod progress;
mod results;
mod sql;

use std::process::ExitCode;

use clap::Parser;
use flott::Interrupt;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    Interrupt::run(|interrupt| match &arguments.command {
        Command::Sql(sql) => sql::run(sql, interrupt),
    })
}
