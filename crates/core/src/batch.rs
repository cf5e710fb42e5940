//! Rows between operators: [`Batch`], an Arrow record batch with what streaming adds to it.
//!
//! Everything a batch holds is shared and immutable: cloning and slicing copy no rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Timestamp};

/// What a row does to the changelog (Flink's `RowKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a new row.
    Insert = 0,
    /// `-U`: the former content of a row about to be updated.
    UpdateBefore = 1,
    /// `+U`: the new content of an updated row.
    UpdateAfter = 2,
    /// `-D`: the last content of a removed row.
    Delete = 3,
}

impl RowKind {
    /// The kind stored as `byte` in [`Batch::row_kinds`].
    pub fn from_byte(byte: u8) -> Result<Self> {
        match byte {
            0 => Ok(Self::Insert),
            1 => Ok(Self::UpdateBefore),
            2 => Ok(Self::UpdateAfter),
            3 => Ok(Self::Delete),
            other => Err(Error::internal(format!("{other} is no row kind"))),
        }
    }

    /// Flink's short form: `+I`, `-U`, `+U`, `-D`.
    pub fn as_str(self) -> &'static str {
        ["+I", "-U", "+U", "-D"][self as usize]
    }
}

/// Rows between operators.
///
/// Beside the columns a batch may carry, each with one entry a row: event times (ms; absent: none), row kinds
/// (absent: all `+I`) and key hashes (present on keyed edges; [`crate::KeyGroup::of`] gives the key group, so rows
/// in flight can be split again at another parallelism).
#[derive(Clone, Debug)]
pub struct Batch {
    columns: RecordBatch,
    event_times: Option<ScalarBuffer<i64>>,
    row_kinds: Option<ScalarBuffer<u8>>,
    key_hashes: Option<ScalarBuffer<u64>>,
}

impl Batch {
    /// A batch of inserted rows without event time.
    pub fn new(columns: RecordBatch) -> Self {
        Self { columns, event_times: None, row_kinds: None, key_hashes: None }
    }

    /// A batch of `arrays` under `schema`; refused where they do not fit each other.
    pub fn of(schema: SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<Self> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .map(Self::new)
            .map_err(|e| Error::internal(format!("columns do not fit their schema: {e}")))
    }

    /// Rows in the batch.
    pub fn num_rows(&self) -> usize {
        self.columns.num_rows()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.num_rows() == 0
    }

    /// The columns.
    pub fn columns(&self) -> &RecordBatch {
        &self.columns
    }

    /// Column `index`.
    pub fn column(&self, index: usize) -> &ArrayRef {
        self.columns.column(index)
    }

    /// The schema of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.columns.schema()
    }

    /// Event times in ms, one a row.
    pub fn event_times(&self) -> Option<&ScalarBuffer<i64>> {
        self.event_times.as_ref()
    }

    /// The event time of one row, if the batch has event times.
    pub fn event_time(&self, row: usize) -> Option<Timestamp> {
        self.event_times.as_ref().map(|times| Timestamp(times[row]))
    }

    /// Row kinds as bytes, one a row; `None` means all `+I`.
    pub fn row_kinds(&self) -> Option<&ScalarBuffer<u8>> {
        self.row_kinds.as_ref()
    }

    /// Key hashes, one a row; present on keyed edges.
    pub fn key_hashes(&self) -> Option<&ScalarBuffer<u64>> {
        self.key_hashes.as_ref()
    }

    /// The same rows with these event times (one a row, ms).
    #[must_use]
    pub fn with_event_times(mut self, times: Option<ScalarBuffer<i64>>) -> Self {
        debug_assert!(times.as_ref().is_none_or(|t| t.len() == self.num_rows()));
        self.event_times = times;
        self
    }

    /// The same rows with these kinds (one a row).
    #[must_use]
    pub fn with_row_kinds(mut self, kinds: Option<ScalarBuffer<u8>>) -> Self {
        debug_assert!(kinds.as_ref().is_none_or(|k| k.len() == self.num_rows()));
        self.row_kinds = kinds;
        self
    }

    /// The same rows with these key hashes (one a row).
    #[must_use]
    pub fn with_key_hashes(mut self, hashes: Option<ScalarBuffer<u64>>) -> Self {
        debug_assert!(hashes.as_ref().is_none_or(|h| h.len() == self.num_rows()));
        self.key_hashes = hashes;
        self
    }

    /// Other columns for the same rows: event times, kinds and hashes stay.
    pub fn with_columns(mut self, columns: RecordBatch) -> Result<Self> {
        if columns.num_rows() != self.num_rows() {
            return Err(Error::internal(format!("{} rows replaced by {}", self.num_rows(), columns.num_rows())));
        }
        self.columns = columns;
        Ok(self)
    }

    /// `length` rows from `offset`, sharing the memory.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        Self {
            columns: self.columns.slice(offset, length),
            event_times: self.event_times.as_ref().map(|t| t.slice(offset, length)),
            row_kinds: self.row_kinds.as_ref().map(|k| k.slice(offset, length)),
            key_hashes: self.key_hashes.as_ref().map(|h| h.slice(offset, length)),
        }
    }

    /// The rows at `indices`, in that order, copied.
    pub fn take(&self, indices: &UInt32Array) -> Result<Self> {
        let rows = indices.values();
        let columns = self
            .columns
            .columns()
            .iter()
            .map(|column| arrow_select::take::take(column, indices, None))
            .collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        Ok(Self {
            columns: RecordBatch::try_new_with_options(self.schema(), columns, &options)?,
            event_times: self.event_times.as_ref().map(|t| rows.iter().map(|&i| t[i as usize]).collect()),
            row_kinds: self.row_kinds.as_ref().map(|k| rows.iter().map(|&i| k[i as usize]).collect()),
            key_hashes: self.key_hashes.as_ref().map(|h| rows.iter().map(|&i| h[i as usize]).collect()),
        })
    }

    /// The rows of all `batches` (same schema, at least one batch) in order, copied; one batch is returned as it is.
    pub fn concat(batches: &[Self]) -> Result<Self> {
        let [first, rest @ ..] = batches else {
            return Err(Error::internal("nothing to concatenate"));
        };
        if rest.is_empty() {
            return Ok(first.clone());
        }
        let columns = arrow_select::concat::concat_batches(&first.schema(), batches.iter().map(|b| &b.columns))?;
        let rows = columns.num_rows();
        let mut whole = Self::new(columns);
        if batches.iter().any(|b| b.event_times.is_some()) {
            let mut times = Vec::with_capacity(rows);
            for batch in batches {
                let part = batch.event_times.as_ref();
                times.extend_from_slice(part.ok_or_else(|| Error::internal("some rows have no event time"))?);
            }
            whole.event_times = Some(times.into());
        }
        if batches.iter().any(|b| b.row_kinds.is_some()) {
            let mut kinds = Vec::with_capacity(rows);
            for batch in batches {
                match &batch.row_kinds {
                    Some(part) => kinds.extend_from_slice(part),
                    None => kinds.resize(kinds.len() + batch.num_rows(), RowKind::Insert as u8),
                }
            }
            whole.row_kinds = Some(kinds.into());
        }
        if batches.iter().all(|b| b.key_hashes.is_some()) {
            let parts = batches.iter().filter_map(|b| b.key_hashes.as_deref());
            whole.key_hashes = Some(parts.flatten().copied().collect::<Vec<_>>().into());
        }
        Ok(whole)
    }

    /// Bytes of these rows alone, not of the buffers they may be a slice of.
    pub fn num_bytes(&self) -> usize {
        let columns: usize = self
            .columns
            .columns()
            .iter()
            .map(|c| c.to_data().get_slice_memory_size().unwrap_or_else(|_| c.get_array_memory_size()))
            .sum();
        let rows = self.num_rows();
        columns
            + self.event_times.as_ref().map_or(0, |_| rows * 8)
            + self.row_kinds.as_ref().map_or(0, |_| rows)
            + self.key_hashes.as_ref().map_or(0, |_| rows * 8)
    }
}

/// A schema that is compared and shared by pointer.
pub fn schema_of(fields: Vec<arrow_schema::Field>) -> SchemaRef {
    Arc::new(arrow_schema::Schema::new(fields))
}
