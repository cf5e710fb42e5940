//! Event time and processing time: [`Timestamp`] and the [`Clock`] through which alone the wall clock is read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time in milliseconds since 1970-01-01T00:00:00Z; negative before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Before every event: the watermark of a stream that has promised nothing yet.
    pub const MIN: Self = Self(i64::MIN);
    /// After every event: the watermark of a bounded stream that has ended.
    pub const MAX: Self = Self(i64::MAX);

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// `self + ms`, stopping at [`Timestamp::MIN`] and [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MIN => f.write_str("-inf"),
            Self::MAX => f.write_str("+inf"),
            Self(ms) => write!(f, "{ms}"),
        }
    }
}

/// The only way to the wall clock. The edges hand in the real one, the simulator and tests a virtual one.
pub trait Clock: Send + Sync {
    /// Processing time in milliseconds since the epoch.
    fn now(&self) -> Timestamp;
    /// Nanoseconds from an arbitrary start, never going back; for durations.
    fn monotonic_nanos(&self) -> u64;
}

/// A clock that stands still until it is told otherwise.
///
/// ```
/// use flott_core::{Clock, ManualClock, Timestamp};
/// let clock = ManualClock::new(Timestamp(5));
/// clock.advance(10);
/// assert_eq!(clock.now(), Timestamp(15));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock(std::sync::atomic::AtomicI64);

impl ManualClock {
    /// A clock standing at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(start.0.into())
    }

    /// Moves the clock forward by `ms` milliseconds.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn monotonic_nanos(&self) -> u64 {
        self.now().0.max(0).unsigned_abs().saturating_mul(1_000_000)
    }
}
