//! Watermark generation: [`WatermarkGenerator`] finds event times and cuts a stream of batches where watermarks fall.
//!
//! A watermark follows every `every_rows` rows, counted from the start of the split (or of the task's stream), so
//! its place depends on the rows alone. It promises `latest − out_of_orderness − 1`, as Flink's bounded
//! out-of-orderness generator does.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};
use flott_core::{Batch, Error, Result, Timestamp, WatermarkStrategy};
use serde::{Deserialize, Serialize};

/// What a generator has seen; part of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkState {
    latest: Timestamp,
    since: u32,
    sent: Timestamp,
}

impl Default for WatermarkState {
    fn default() -> Self {
        Self { latest: Timestamp::MIN, since: 0, sent: Timestamp::MIN }
    }
}

impl WatermarkState {
    /// The last watermark.
    pub fn sent(&self) -> Timestamp {
        self.sent
    }
}

/// Finds event times and watermarks of one sequence of rows.
#[derive(Debug)]
pub struct WatermarkGenerator {
    strategy: WatermarkStrategy,
    state: WatermarkState,
}

impl WatermarkGenerator {
    /// A generator that goes on from `state`.
    pub fn new(strategy: WatermarkStrategy, state: WatermarkState) -> Self {
        Self { strategy, state }
    }

    /// What it has seen.
    pub fn state(&self) -> WatermarkState {
        self.state
    }

    /// How it works.
    pub fn strategy(&self) -> &WatermarkStrategy {
        &self.strategy
    }

    /// The first row that has no event time, and an error that says so but not where the row is.
    pub fn row_without_time(&self, batch: &Batch) -> Option<(usize, Error)> {
        let column = self.strategy.time_column?;
        null_time(batch.column(column), batch.schema().field(column).name())
    }

    /// Whether rows have come since the last watermark.
    pub fn has_rows(&self) -> bool {
        self.state.since > 0
    }

    /// Gives rows their event time and calls `out` with pieces in order, each with the watermark behind it.
    pub fn process(&mut self, batch: &Batch, mut out: impl FnMut(Batch, Option<Timestamp>)) -> Result<()> {
        let times = match self.strategy.time_column {
            Some(column) => event_times(batch.column(column), batch.schema().field(column).name())?,
            None => match batch.event_times() {
                Some(times) => times.clone(),
                None => return Err(Error::user("rows have no event time; name the column that holds it")),
            },
        };
        let batch = batch.clone().with_event_times(Some(times.clone()));
        let every = self.strategy.every_rows.max(1);
        let mut from = 0;
        while from < times.len() {
            let rows = ((every - self.state.since) as usize).min(times.len() - from);
            let latest = times[from..from + rows].iter().copied().max().unwrap_or(i64::MIN);
            self.state.latest = self.state.latest.max(Timestamp(latest));
            // At most `every`, which is a u32.
            self.state.since += rows as u32;
            let watermark = if self.state.since == every { self.owed() } else { None };
            let whole = rows == batch.num_rows();
            out(if whole { batch.clone() } else { batch.slice(from, rows) }, watermark);
            from += rows;
        }
        Ok(())
    }

    /// The watermark due now, if it is higher than the last one; counting starts again.
    pub fn owed(&mut self) -> Option<Timestamp> {
        if self.state.latest == Timestamp::MIN {
            self.state.since = 0;
            return None;
        }
        self.state.since = 0;
        let behind = i64::try_from(self.strategy.out_of_orderness_ms).unwrap_or(i64::MAX);
        let watermark = Timestamp(self.state.latest.0.saturating_sub(behind).saturating_sub(1));
        if watermark > self.state.sent {
            self.state.sent = watermark;
            return Some(watermark);
        }
        None
    }
}

fn null_time(column: &ArrayRef, name: &str) -> Option<(usize, Error)> {
    let row = column.nulls().filter(|nulls| nulls.null_count() > 0)?.iter().position(|valid| !valid)?;
    Some((row, Error::user("a row has no event time: it is NULL").at("column", name)))
}

/// The event times of a column in ms: a timestamp of any unit or a BIGINT of ms, never NULL.
fn event_times(column: &ArrayRef, name: &str) -> Result<ScalarBuffer<i64>> {
    if let Some((row, error)) = null_time(column, name) {
        return Err(error.at("row of the batch", row));
    }
    Ok(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().values().clone(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            column.as_primitive::<TimestampMillisecondType>().values().clone()
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            column.as_primitive::<TimestampSecondType>().values().iter().map(|s| s.saturating_mul(1000)).collect()
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().values().iter().map(|us| us.div_euclid(1000)).collect()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => column
            .as_primitive::<TimestampNanosecondType>()
            .values()
            .iter()
            .map(|ns| ns.div_euclid(1_000_000))
            .collect(),
        other => {
            return Err(Error::user(format!("event time must be a TIMESTAMP or a BIGINT of ms, found {other}"))
                .at("column", name));
        }
    })
}
