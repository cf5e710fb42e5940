//! The one room where the machine is touched: the system's clock and threads. Everything else is handed a
//! [`Clock`] and a [`Threads`].
#![expect(clippy::disallowed_methods, reason = "this is what the banned calls are replaced by")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::{Clock, Error, Result, Timestamp};

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Ends when the thread has ended.
pub type Joined = Box<dyn FnOnce() + Send>;

/// Starts threads.
pub trait Threads: Send + Sync {
    /// Runs `body` on a thread of its own; the answer waits for its end.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Joined>;

    /// How many threads the machine runs at once.
    fn parallelism(&self) -> usize;
}

/// The machine's threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemThreads;

impl Threads for SystemThreads {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Result<Joined> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(|e| Error::external(format!("cannot start a thread: {e}")))?;
        Ok(Box::new(move || drop(thread.join())))
    }

    fn parallelism(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}
