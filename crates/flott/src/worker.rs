//! A job in several processes: the program is its own worker.
//!
//! The process that runs a job starts the same binary with the same arguments and a [`Seat`] in its environment. That
//! process runs the program up to `execute`, where it has the same functions under the same names, and takes part in
//! the job instead of running one; then it ends.
#![expect(clippy::disallowed_methods, reason = "how a process is started is in its arguments and its environment")]

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::process::{self, Command};
use std::sync::Arc;

use flott_core::{Error, Registry, Result, SystemClock, SystemThreads};
use flott_runtime::processes::{ProcessLimits, Processes, SEAT_VARIABLE, Seat, run_worker};

use crate::report;

/// The worker that this process is; `None` where it is none. A program that does more before `execute` than to build
/// its graph (empties a folder, asks a question) asks this first.
pub fn seat() -> Result<Option<Seat>> {
    match env::var(SEAT_VARIABLE) {
        Ok(text) => text.parse().map(Some),
        Err(_) => Ok(None),
    }
}

/// Takes part in the job of another process until that has ended; then this process ends.
pub(crate) fn serve(seat: &Seat, registry: Registry) -> ! {
    match run_worker(seat, registry, Arc::new(SystemClock::default()), Arc::new(SystemThreads)) {
        Ok(()) => process::exit(0),
        Err(error) => {
            eprintln!("{}", report(&error));
            process::exit(1)
        }
    }
}

/// Workers that are this program again.
pub(crate) fn processes() -> Result<Processes> {
    let program = env::current_exe()
        .map_err(|e| Error::external(format!("cannot find out which program this is: {e}")).final_())?;
    let launcher = move |seat: &Seat| {
        let mut command = Command::new(&program);
        command.args(env::args_os().skip(1)).env(SEAT_VARIABLE, seat.to_string());
        Ok(command)
    };
    Ok(Processes { launcher: Arc::new(launcher), token: token(), limits: ProcessLimits::default() })
}

/// 128 bits that others cannot guess: a keyed hash whose keys come from the operating system.
fn token() -> String {
    let keys = RandomState::new();
    format!("{:016x}{:016x}", keys.hash_one(0), keys.hash_one(1))
}
