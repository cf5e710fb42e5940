//! Windows of event time: [`TumblingEventTimeWindows`] says which window a row is in, [`TimeWindow`] is one.

use flott_core::{Namespace, Timestamp};

/// A window [start, end) of event time, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeWindow {
    /// The first point of time in it.
    pub start: Timestamp,
    /// The first point of time after it.
    pub end: Timestamp,
}

impl TimeWindow {
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self { start: Timestamp(namespace.0), end: Timestamp(namespace.1) }
    }

    pub(crate) fn namespace(self) -> Namespace {
        Namespace(self.start.0, self.end.0)
    }

    /// The last point of time in it: the event time of its results.
    pub fn max_timestamp(self) -> Timestamp {
        self.end.saturating_add(-1)
    }
}

/// Windows of one length, one after the other: [offset + n × size, offset + (n + 1) × size).
///
/// ```
/// use flott_datastream::{Timestamp, TumblingEventTimeWindows};
/// let windows = TumblingEventTimeWindows::of(10);
/// assert_eq!(windows.assign(Timestamp(-1)).start, Timestamp(-10));
/// assert_eq!(windows.offset(-3).assign(Timestamp(7)).start, Timestamp(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TumblingEventTimeWindows {
    size_ms: i64,
    offset_ms: i64,
}

impl TumblingEventTimeWindows {
    /// Windows of this length in ms, which must be above 0.
    pub fn of(size_ms: i64) -> Self {
        Self { size_ms, offset_ms: 0 }
    }

    /// Moves all windows by this many ms; may be negative.
    #[must_use]
    pub fn offset(self, offset_ms: i64) -> Self {
        Self { offset_ms, ..self }
    }

    pub(crate) fn size_ms(self) -> i64 {
        self.size_ms
    }

    /// The window a point of time is in.
    pub fn assign(&self, at: Timestamp) -> TimeWindow {
        // The remainder of a difference that may not fit in 64 bits.
        let into = (i128::from(at.0) - i128::from(self.offset_ms)).rem_euclid(i128::from(self.size_ms.max(1)));
        let start = i64::try_from(i128::from(at.0) - into).unwrap_or(i64::MIN);
        TimeWindow { start: Timestamp(start), end: Timestamp(start.saturating_add(self.size_ms)) }
    }
}
