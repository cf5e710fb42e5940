//! Ctrl-C: [`Interrupt`] cancels the jobs of a program, so that sinks can clear away what is not committed.

use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::{Error, Result, SystemThreads, Threads};
use flott_runtime::local::JobControl;
use flott_runtime::processes::LiveWorkers;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{report, worker};

const CANCELLED: &str = "the job was cancelled";

/// The error of a job that was cancelled.
pub(crate) fn cancelled(job: &str) -> Error {
    Error::user(CANCELLED).at("job", job)
}

/// Whether this is the error of a job that was cancelled: nothing is wrong with it.
pub fn is_cancelled(error: &Error) -> bool {
    error.message() == CANCELLED
}

/// Cancels jobs on SIGINT, SIGTERM and SIGHUP. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The first signal.
    asked: Option<i32>,
    jobs: Vec<Running>,
    next: u64,
}

#[derive(Debug)]
struct Running {
    number: u64,
    control: JobControl,
    workers: LiveWorkers,
}

/// A process hears its signals once, whoever asks.
static OF_PROCESS: Mutex<Option<Interrupt>> = Mutex::new(None);

impl Interrupt {
    /// Hears the signals from now on; asked again, it gives the same. The first signal cancels the running jobs. Where
    /// no job runs, and on a second one, the process ends at once: its workers are killed, what is not committed stays
    /// hidden, and the exit code is that of the signal. A worker hears nothing: the process it works for tells it what
    /// to do. A program that was started with SIGHUP ignored (`nohup`) goes on ignoring that.
    pub fn on_signals() -> Result<Self> {
        let mut of_process = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interrupt) = &*of_process {
            return Ok(interrupt.clone());
        }
        let interrupt = Self::default();
        let heard = interrupt.clone();
        let is_worker = worker::seat()?.is_some();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_hangup_ignored());
        let mut signals =
            Signals::new(wanted).map_err(|e| Error::external(format!("cannot listen for Ctrl-C: {e}")).final_())?;
        let body = move || {
            for signal in signals.forever().filter(|_| !is_worker) {
                heard.hear(signal);
            }
        };
        // Nobody waits for this thread: it ends with the process.
        let _ = SystemThreads.spawn("flott-signals", Box::new(body))?;
        *of_process = Some(interrupt.clone());
        Ok(interrupt)
    }

    /// The body of a `main` that signals interrupt. An error is printed to standard error in plain words (exit code 1);
    /// a job that a signal has cancelled gives the exit code of that.
    pub fn run(main: impl FnOnce(&Self) -> Result<()>) -> ExitCode {
        let interrupt = Self::on_signals();
        let result = interrupt.as_ref().map_err(Error::clone).and_then(main);
        match (result, interrupt) {
            (Ok(()), _) => ExitCode::SUCCESS,
            (Err(error), Ok(interrupt)) if is_cancelled(&error) => {
                eprintln!("cancelled: what was not committed is gone");
                ExitCode::from(interrupt.exit_code())
            }
            (Err(error), _) => {
                eprintln!("{}", report(&error));
                ExitCode::FAILURE
            }
        }
    }

    /// Whether a signal has come.
    pub fn was_asked(&self) -> bool {
        self.lock().asked.is_some()
    }

    /// The exit code of a program that a signal has ended, as shells have it: 128 and its number, so 130 for Ctrl-C, 143
    /// for SIGTERM, 129 for SIGHUP.
    pub fn exit_code(&self) -> u8 {
        exit_code(self.lock().asked.unwrap_or(SIGINT))
    }

    fn hear(&self, signal: i32) {
        let mut state = self.lock();
        if state.asked.is_some() || state.jobs.is_empty() {
            state.jobs.iter().for_each(|job| job.workers.kill());
            process::exit(exit_code(signal).into());
        }
        state.asked = Some(signal);
        state.jobs.iter().for_each(|job| job.control.cancel());
    }

    /// A job and its workers run while the answer is kept; one that begins too late is cancelled at once.
    pub(crate) fn guard(&self, control: &JobControl, workers: &LiveWorkers) -> Guard {
        let mut state = self.lock();
        if state.asked.is_some() {
            control.cancel();
        }
        state.next += 1;
        let number = state.next;
        state.jobs.push(Running { number, control: control.clone(), workers: workers.clone() });
        Guard { interrupt: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the job off the list when it is over.
pub(crate) struct Guard {
    interrupt: Interrupt,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.interrupt.lock().jobs.retain(|job| job.number != self.number);
    }
}

fn exit_code(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128))
}

/// Whether this process was started with SIGHUP ignored. Only Linux tells without unsafe code.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (SIGHUP - 1) & 1 == 1)
}
