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
    /// Rows between watermarks; at least 1.
    pub every_rows: u32,
    /// A source without rows for so long (ms, processing time) holds nobody back; `None`: it does.
    pub idle_after_ms: Option<u64>,
}
