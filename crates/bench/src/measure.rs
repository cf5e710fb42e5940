//! One run of one contender in a process of its own: [`child`] starts it, [`Stopwatch`] measures inside it.
//!
//! A process a run, so that the peak of memory and the processor time are the run's and nothing is warm. Reads
//! `/proc`, so the benchmarks run on Linux only.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use flott_core::{Clock, Error, Result, SystemClock};
use serde::{Deserialize, Serialize};

/// Ticks of `/proc/self/stat` in a second, a constant of Linux's interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a run came to; a child prints it as one line of JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Wall time of the job, without the start of the process.
    pub(crate) seconds: f64,
    /// Processor time over the same span.
    pub(crate) cpu_seconds: f64,
    /// The most memory the process ever had.
    pub(crate) peak_rss_bytes: u64,
    /// Rows that came out, to see that contenders did the same.
    pub(crate) rows_out: u64,
    /// Further numbers by name.
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, f64>,
    /// The contender's version, where the child knows it.
    #[serde(default)]
    pub(crate) version: Option<String>,
}

/// Measures a span of this process.
pub(crate) struct Stopwatch {
    clock: SystemClock,
    cpu: f64,
}

impl Stopwatch {
    /// Begins now.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { cpu: cpu_seconds()?, clock: SystemClock::default() })
    }

    /// Ends now.
    pub(crate) fn stop(self, rows_out: u64) -> Result<Measured> {
        let seconds = self.clock.monotonic_nanos() as f64 / 1e9;
        let cpu_seconds = cpu_seconds()? - self.cpu;
        let peak_rss_bytes = peak_rss_bytes()?;
        Ok(Measured { seconds, cpu_seconds, peak_rss_bytes, rows_out, ..Measured::default() })
    }
}

fn read_proc(file: &str) -> Result<String> {
    std::fs::read_to_string(file).map_err(|e| Error::io("read", file, &e))
}

fn cpu_seconds() -> Result<f64> {
    let stat = read_proc("/proc/self/stat")?;
    // Behind the name in parentheses: field 3 and on; 14 and 15 are the times in user and system mode.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    let times: Vec<f64> = fields.into_iter().flatten().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    match times[..] {
        [user, system] => Ok((user + system) / TICKS_PER_SECOND),
        _ => Err(Error::internal("cannot find the processor time in /proc/self/stat")),
    }
}

fn peak_rss_bytes() -> Result<u64> {
    let status = read_proc("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Error::internal("cannot find the peak of memory in /proc/self/status"))
}

/// Runs a command and reads the [`Measured`] it prints last.
pub(crate) fn run(command: &mut Command) -> Result<Measured> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| Error::external(format!("cannot start {shown}: {e}")))?;
    if !output.status.success() {
        return Err(Error::external(format!("{shown} ended with {}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|e| Error::internal(format!("{shown} printed '{last}': {e}")))
}

/// Runs this program again with `args` behind the hidden command `child`.
pub(crate) fn child(args: &[String]) -> Result<Measured> {
    let exe = std::env::current_exe().map_err(|e| Error::external(format!("cannot find this program: {e}")))?;
    run(Command::new(exe).arg("child").args(args))
}

/// Median, least and greatest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The greatest.
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one number.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let n = sorted.len();
        Self { median: (at(n.saturating_sub(1) / 2) + at(n / 2)) / 2.0, min: at(0), max: at(n.saturating_sub(1)) }
    }
}
