//! What all decoders have in common: [`Decoder`].

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flott_core::Result;

use crate::Input;

/// What a decoder found in the bytes it has.
#[derive(Debug, PartialEq)]
#[must_use]
pub enum Decoded {
    /// At least one row.
    Rows(RecordBatch),
    /// No whole row is left: feed more bytes, or say that there are none.
    NeedBytes,
    /// The input, or the part of it that was asked for, is at its end.
    Finished,
}

/// Turns bytes into rows.
///
/// The rows do not depend on how the bytes were cut into pieces. An error is found again by the next call: rows
/// before it have been given out, and [`Input::position`] is the start of the row that is at fault.
pub trait Decoder: Send {
    /// The columns of the batches.
    fn schema(&self) -> &SchemaRef;

    /// The bytes and the position in them.
    fn input(&self) -> &Input;

    /// To feed bytes and to move.
    fn input_mut(&mut self) -> &mut Input;

    /// The next rows, at most `max_rows`.
    fn decode(&mut self, max_rows: usize) -> Result<Decoded>;
}
