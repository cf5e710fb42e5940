//! A job in several processes: the program is its own worker.
//!
//! The process that runs a job starts the same binary with the same arguments and a [`Seat`] in its environment. That
//! process runs the program up to `execute`, where it has the same functions under the same names, and takes part in
//! the job instead of running one; then it ends.
//!
//! So it comes only as far as the first `execute`, and knows the functions of that: only the first job of a program may
//! have workers. A later one that asks for some is refused.
#![expect(clippy::disallowed_methods, reason = "how a process is started is in its arguments and its environment")]

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flott_core::{Config, Error, Registry, Result, SystemClock, SystemThreads};
use flott_runtime::processes::{LiveWorkers, ProcessLimits, Processes, SEAT_VARIABLE, Seat, run_worker};

use crate::report;
use crate::report::complain;

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
            complain(&report(&error));
            process::exit(1)
        }
    }
}

/// A job of this process has begun, or has failed to.
static HAS_EXECUTED: AtomicBool = AtomicBool::new(false);

/// A job of this process begins. Refused where it is to have workers and is not the first, also if the first has failed:
/// a worker takes part in the first.
pub(crate) fn begin(workers: u32) -> Result<()> {
    let is_first = !HAS_EXECUTED.swap(true, Ordering::Relaxed);
    if is_first || workers == 0 {
        return Ok(());
    }
    Err(Error::user(format!(
        "expected a job with {workers} workers to be the first of its program, found one before it: a worker is the \
         program again, which it runs only up to its first `execute`. Write one program for each job with workers, or \
         run this one first and the others without workers"
    )))
}

/// Workers that are this program again.
pub(crate) fn processes(config: &Config, live: &LiveWorkers) -> Result<Processes> {
    let program = env::current_exe()
        .map_err(|e| Error::external(format!("cannot find out which program this is: {e}")).final_())?;
    let launcher = move |seat: &Seat| {
        let mut command = Command::new(&program);
        command.args(env::args_os().skip(1)).env(SEAT_VARIABLE, seat.to_string());
        Ok(command)
    };
    let (limits, live) = (ProcessLimits::of(config)?, live.clone());
    Ok(Processes { launcher: Arc::new(launcher), token: token(), limits, live })
}

/// 128 bits that others cannot guess: a keyed hash whose keys come from the operating system.
fn token() -> String {
    let keys = RandomState::new();
    format!("{:016x}{:016x}", keys.hash_one(0), keys.hash_one(1))
}
