//! Ctrl-C: [`Interrupt`] cancels the jobs of a program, so that sinks can clear away what is not committed.

use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::{Error, Result, SystemThreads, Threads};
use flott_runtime::local::JobControl;
use flott_runtime::processes::LiveWorkers;
use signal_hook::consts::SIGINT;

use crate::report::complain;
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

/// Cancels jobs on SIGINT, SIGTERM and, where there is one (not on Windows), SIGHUP. Clones are one.
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
    /// to do. On Linux, a program that was started with SIGHUP ignored (`nohup`) goes on ignoring that.
    pub fn on_signals() -> Result<Self> {
        let mut of_process = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interrupt) = &*of_process {
            return Ok(interrupt.clone());
        }
        let interrupt = Self::default();
        let heard = interrupt.clone();
        let is_worker = worker::seat()?.is_some();
        let hear = move |signal| {
            if !is_worker {
                heard.hear(signal);
            }
        };
        let body = signals(hear).map_err(|e| Error::external(format!("cannot listen for Ctrl-C: {e}")).final_())?;
        // Nobody waits for this thread: it ends with the process.
        let _ = SystemThreads.spawn("flott-signals", body)?;
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
                complain("cancelled: what was not committed is gone");
                ExitCode::from(interrupt.exit_code())
            }
            (Err(error), _) => {
                complain(&report(&error));
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

/// What a thread does that hears the signals, which are asked for here.
#[cfg(unix)]
fn signals(hear: impl FnMut(i32) + Send + 'static) -> std::io::Result<Box<dyn FnOnce() + Send>> {
    use signal_hook::consts::{SIGHUP, SIGTERM};

    let wanted = [SIGINT, SIGTERM].into_iter().chain(Some(SIGHUP).filter(|hangup| !is_ignored(*hangup)));
    let mut signals = signal_hook::iterator::Signals::new(wanted)?;
    Ok(Box::new(move || signals.forever().for_each(hear)))
}

/// Whether this process was started with a signal ignored. Only Linux tells without unsafe code.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 == 1)
}

/// What a thread does that hears the signals, which are asked for here.
#[cfg(not(unix))]
fn signals(mut hear: impl FnMut(i32) + Send + 'static) -> std::io::Result<Box<dyn FnOnce() + Send>> {
    /// How long a person waits for an answer to Ctrl-C, at most.
    const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

    let raised = flags::Raised::new()?;
    Ok(Box::new(move || {
        loop {
            raised.take().for_each(&mut hear);
            std::thread::park_timeout(LOOK_EVERY);
        }
    }))
}

/// Signals where nothing can wait for them: each raises a flag, to be looked at.
#[cfg(any(not(unix), test))]
mod flags {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::consts::{SIGINT, SIGTERM};

    pub(super) struct Raised([(i32, Arc<AtomicBool>); 2]);

    impl Raised {
        pub(super) fn new() -> std::io::Result<Self> {
            let flags = [SIGINT, SIGTERM].map(|signal| (signal, Arc::new(AtomicBool::new(false))));
            for (signal, flag) in &flags {
                signal_hook::flag::register(*signal, Arc::clone(flag))?;
            }
            Ok(Self(flags))
        }

        /// Those that have come since the last look.
        pub(super) fn take(&self) -> impl Iterator<Item = i32> {
            self.0.iter().filter(|(_, flag)| flag.swap(false, Ordering::SeqCst)).map(|(signal, _)| *signal)
        }
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGINT, SIGTERM};

    use super::flags::Raised;

    #[test]
    fn a_signal_is_found_once() {
        let raised = Raised::new().unwrap();
        assert_eq!(raised.take().next(), None);
        for signal in [SIGTERM, SIGINT, SIGTERM] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(raised.take().collect::<Vec<_>>(), [signal]);
        }
        assert_eq!(raised.take().next(), None);
    }
}
