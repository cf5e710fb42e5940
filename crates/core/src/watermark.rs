//! How event time is found and how far it is behind: [`WatermarkStrategy`].

use serde::{Deserialize, Serialize};

/// Where the event time of a row is and what the watermark promises.
///
/// A watermark follows every `every_rows` rows of a split (or of a task, in the middle of a job), so where it falls
/// depends on the rows alone: not on batches, restarts or chaining. A quiet source sends the one it owes after
/// `pipeline.auto-watermark-interval`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkStrategy {
    /// The column with the event time: a timestamp of any unit or a BIGINT of ms; `None`: rows have theirs already.
    pub time_column: Option<usize>,
    /// How late a row may be behind the latest row before it, in ms (Flink's bounded out-of-orderness; 0: monotonous).
    pub out_of_orderness_ms: u64,
    /// Rows between watermarks; 0: as many as the job's `flott.watermark.rows` says.
    pub every_rows: u32,
    /// A source without rows for so long (ms, processing time) holds nobody back; `None`: it does.
    pub idle_after_ms: Option<u64>,
}

impl WatermarkStrategy {
    /// Rows come at most `ms` behind the latest row before them.
    ///
    /// ```
    /// use flott_core::WatermarkStrategy;
    /// let strategy = WatermarkStrategy::for_bounded_out_of_orderness(5_000).with_time_column(2).with_idleness(60_000);
    /// assert_eq!(strategy.time_column, Some(2));
    /// ```
    pub fn for_bounded_out_of_orderness(ms: u64) -> Self {
        Self { time_column: None, out_of_orderness_ms: ms, every_rows: 0, idle_after_ms: None }
    }

    /// Rows come in the order of their event time.
    pub fn for_monotonous_timestamps() -> Self {
        Self::for_bounded_out_of_orderness(0)
    }

    /// The event time is in this column, counted from 0.
    #[must_use]
    pub fn with_time_column(self, column: usize) -> Self {
        Self { time_column: Some(column), ..self }
    }

    /// A source without rows for so long (ms) holds nobody back.
    #[must_use]
    pub fn with_idleness(self, ms: u64) -> Self {
        Self { idle_after_ms: Some(ms), ..self }
    }

    /// A watermark follows every so many rows, whatever the job says.
    #[must_use]
    pub fn with_every_rows(self, rows: u32) -> Self {
        Self { every_rows: rows, ..self }
    }
}
