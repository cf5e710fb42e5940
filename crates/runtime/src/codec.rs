//! Stream elements as bytes: on the wire and, for rows in flight, in snapshots. Both sides know the schema from the
//! plan, so only rows travel (an Arrow IPC record batch message without its schema). Only stored elements have a version:
//! the two ends of a connection have agreed on theirs.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::SchemaRef;
use flott_core::{Batch, CheckpointBarrier, Error, Result, StoredForm, StreamElement, Timestamp};
use serde::{Deserialize, Serialize};

/// Raised with every change of an element's form.
const ROWS_IN_FLIGHT: StoredForm = StoredForm::new("rows in flight", 1);

/// An element without its rows.
#[derive(Serialize, Deserialize)]
enum Head {
    Batch { event_times: bool, row_kinds: bool, key_hashes: bool, rows: u32, message: u32, body: u32 },
    Watermark(Timestamp),
    Idle(bool),
    Barrier(CheckpointBarrier),
    EndOfInput,
}

/// Appends an element. A batch is followed by its columns and the vectors beside them.
pub fn encode(element: &StreamElement, out: &mut Vec<u8>) -> Result<()> {
    let head = match element {
        StreamElement::Batch(batch) => return encode_batch(batch, out),
        StreamElement::Watermark(at) => Head::Watermark(*at),
        StreamElement::Idle(idle) => Head::Idle(*idle),
        StreamElement::Barrier(barrier) => Head::Barrier(*barrier),
        StreamElement::EndOfInput => Head::EndOfInput,
    };
    push_head(&head, out)
}

fn push_head(head: &Head, out: &mut Vec<u8>) -> Result<()> {
    let bytes = postcard::to_stdvec(head)?;
    // A head is a few dozen bytes.
    out.push(u8::try_from(bytes.len()).map_err(|_| Error::internal("an element's head is too long"))?);
    out.extend(bytes);
    Ok(())
}

fn encode_batch(batch: &Batch, out: &mut Vec<u8>) -> Result<()> {
    let options = IpcWriteOptions::default();
    let mut dictionaries = DictionaryTracker::new(false);
    let (_, encoded) = IpcDataGenerator::default()
        .encode(batch.columns(), &mut dictionaries, &options, &mut IpcWriteContext::default())
        .map_err(|e| Error::internal(format!("rows cannot be encoded: {e}")))?;
    let length = |n: usize| u32::try_from(n).map_err(|_| Error::user("a batch is larger than 4 GiB"));
    // Head and padding, rows, and 17 bytes a row beside them.
    out.reserve_exact(128 + encoded.ipc_message.len() + 17 * batch.num_rows() + encoded.arrow_data.len());
    push_head(
        &Head::Batch {
            event_times: batch.event_times().is_some(),
            row_kinds: batch.row_kinds().is_some(),
            key_hashes: batch.key_hashes().is_some(),
            rows: length(batch.num_rows())?,
            message: length(encoded.ipc_message.len())?,
            body: length(encoded.arrow_data.len())?,
        },
        out,
    )?;
    out.extend(&encoded.ipc_message);
    if let Some(times) = batch.event_times() {
        out.extend(times.inner().as_slice());
    }
    if let Some(hashes) = batch.key_hashes() {
        out.extend(hashes.inner().as_slice());
    }
    if let Some(kinds) = batch.row_kinds() {
        out.extend(kinds.inner().as_slice());
    }
    // Columns read in place must be aligned.
    out.resize(out.len().next_multiple_of(64), 0);
    out.extend(&encoded.arrow_data);
    Ok(())
}

/// Reads an element written by [`encode`]; the bytes are exactly one element. Columns share the memory where it is
/// aligned.
pub fn decode(bytes: &Buffer, schema: &SchemaRef) -> Result<StreamElement> {
    let cut = || Error::external("an element from another process or a snapshot is cut short").final_();
    let (length, rest) = bytes.split_first().ok_or_else(cut)?;
    let head = rest.get(..usize::from(*length)).ok_or_else(cut)?;
    let mut at = 1 + head.len();
    Ok(match postcard::from_bytes(head)? {
        Head::Watermark(timestamp) => StreamElement::Watermark(timestamp),
        Head::Idle(idle) => StreamElement::Idle(idle),
        Head::Barrier(barrier) => StreamElement::Barrier(barrier),
        Head::EndOfInput => StreamElement::EndOfInput,
        Head::Batch { event_times, row_kinds, key_hashes, rows, message, body: body_length } => {
            let rows = rows as usize;
            let mut part = |length: usize| {
                let from = at;
                at = from.saturating_add(length);
                if at <= bytes.len() { Ok(bytes.slice_with_length(from, length)) } else { Err(cut()) }
            };
            let message = part(message as usize)?;
            let times = event_times.then(|| part(rows * 8)).transpose()?;
            let hashes = key_hashes.then(|| part(rows * 8)).transpose()?;
            let kinds = row_kinds.then(|| part(rows)).transpose()?;
            let body = at.next_multiple_of(64);
            // Arrow panics where its buffers are not all there.
            if body.checked_add(body_length as usize) != Some(bytes.len()) {
                return Err(cut());
            }
            let columns = decode_columns(&message, &bytes.slice(body), schema)?;
            if columns.num_rows() != rows {
                return Err(cut());
            }
            StreamElement::Batch(
                Batch::new(columns)
                    .with_event_times(times.map(|b| ScalarBuffer::from(aligned::<i64>(b))))
                    .with_key_hashes(hashes.map(|b| ScalarBuffer::from(aligned::<u64>(b))))
                    .with_row_kinds(kinds.map(ScalarBuffer::from)),
            )
        }
    })
}

/// The same bytes where a vector of `T` may lie.
fn aligned<T>(bytes: Buffer) -> Buffer {
    if bytes.as_ptr().align_offset(align_of::<T>()) == 0 { bytes } else { Buffer::from(bytes.as_slice()) }
}

fn decode_columns(message: &Buffer, body: &Buffer, schema: &SchemaRef) -> Result<RecordBatch> {
    let broken =
        |what: &str| Error::external(format!("rows from another process or a snapshot are broken: {what}")).final_();
    let message = arrow_ipc::root_as_message(message).map_err(|e| broken(&e.to_string()))?;
    let header = message.header_as_record_batch().ok_or_else(|| broken("no rows where rows were expected"))?;
    let none = HashMap::new();
    arrow_ipc::reader::read_record_batch(body, header, Arc::clone(schema), &none, None, &message.version())
        .map_err(|e| broken(&e.to_string()))
}

/// Elements one after the other, each with its length in front, behind a version; the form of rows in flight in
/// snapshots.
pub fn encode_all<'a>(elements: impl IntoIterator<Item = &'a StreamElement>) -> Result<Vec<u8>> {
    let mut out = ROWS_IN_FLIGHT.begin();
    for element in elements {
        let mut one = Vec::new();
        encode(element, &mut one)?;
        out.extend((one.len() as u64).to_le_bytes());
        out.extend(one);
    }
    Ok(out)
}

/// Reads what [`encode_all`] wrote.
pub fn decode_all(bytes: &[u8], schema: &SchemaRef) -> Result<Vec<StreamElement>> {
    let cut = || Error::external("rows in flight end in the middle of one").final_();
    let mut bytes = ROWS_IN_FLIGHT.body(bytes)?;
    let mut elements = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (one, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        elements.push(decode(&Buffer::from(one), schema)?);
        bytes = rest;
    }
    Ok(elements)
}
