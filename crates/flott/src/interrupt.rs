//! Ctrl-C: [`Interrupt`] cancels the jobs of a program, so that sinks can clear away what is not committed.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::{Error, Result};
use flott_runtime::local::JobControl;

use crate::{INTERRUPTED, worker};

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
    asked: bool,
    jobs: Vec<(u64, JobControl)>,
    next: u64,
}

impl Interrupt {
    /// Hears the signals from now on; a process can do that once. Where no job runs, and on a second signal, the
    /// process ends at once, with exit code 130. A worker goes on: the process it works for tells it what to do.
    pub fn on_signals() -> Result<Self> {
        let interrupt = Self::default();
        let heard = interrupt.clone();
        let is_worker = worker::seat()?.is_some();
        let handler = move || {
            if is_worker {
                return;
            }
            let mut state = heard.lock();
            if state.asked || state.jobs.is_empty() {
                process::exit(INTERRUPTED.into());
            }
            state.asked = true;
            state.jobs.iter().for_each(|(_, job)| job.cancel());
        };
        ctrlc::set_handler(handler).map_err(|e| Error::external(format!("cannot listen for Ctrl-C: {e}")).final_())?;
        Ok(interrupt)
    }

    /// Whether a signal has come.
    pub fn was_asked(&self) -> bool {
        self.lock().asked
    }

    /// A job runs while the answer is kept; one that begins too late is cancelled at once.
    pub(crate) fn guard(&self, job: &JobControl) -> Guard {
        let mut state = self.lock();
        if state.asked {
            job.cancel();
        }
        state.next += 1;
        let number = state.next;
        state.jobs.push((number, job.clone()));
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
        self.interrupt.lock().jobs.retain(|(number, _)| *number != self.number);
    }
}
