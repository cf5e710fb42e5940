//! Aggregates per key and event-time window, columnar; tumbling windows so far.
//!
//! Rows are added to *slices*: a slice is named by its bounds, and its accumulators are dense vectors in the state. A
//! tumbling window is one slice; windows that overlap will be made of several, each row still added to one.
//!
//! A window `[start, end)` fires when the watermark reaches `end - 1`, earlier windows first, in chunks. A row of a
//! window that has fired is dropped and counted.

mod slices;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, PrimitiveArray, TimestampMillisecondArray, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use flott_core::state::TableId;
use flott_core::{
    Batch, Context, Counter, Error, InputId, Namespace, Namespaces, Operator, OperatorInfo, Progress, Result, Slot,
    Spec, Timestamp, type_name,
};
use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregates, Call};
use crate::{check_insert_only, check_output};
use slices::{Slices, SlicesOf};

/// The name in the registry.
pub const NAME: &str = "window_aggregate";

/// The most rows emitted in a call.
const CHUNK_ROWS: usize = 4096;

/// Tumbling windows and what to aggregate in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowAggregateConfig {
    /// The length of a window, in ms; at least 1.
    pub size_ms: i64,
    /// Where windows begin, in ms after the epoch; may be negative.
    #[serde(default)]
    pub offset_ms: i64,
    /// The column with the event time, a timestamp; `None`: the batches' event times.
    #[serde(default)]
    pub time_column: Option<usize>,
    /// In the order of the output.
    pub aggregates: Vec<Call>,
}

impl WindowAggregateConfig {
    /// The columns it gives: the `keys` of the input, `window_start`, `window_end`, the aggregates under `names`.
    pub fn output<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        input: &Schema,
        keys: &[usize],
    ) -> Result<SchemaRef> {
        let mut fields: Vec<Field> = keys.iter().map(|&key| input.field(key).clone()).collect();
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        fields.push(Field::new("window_start", time.clone(), false));
        fields.push(Field::new("window_end", time, false));
        for (call, name) in self.aggregates.iter().zip(names) {
            fields.push(call.output(name, input)?);
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    fn check(&self, info: &OperatorInfo) -> Result<()> {
        if self.size_ms < 1 {
            return Err(Error::user(format!("expected a window of at least 1 ms, found {} ms", self.size_ms)));
        }
        let [input] = &info.inputs[..] else {
            return Err(Error::internal(format!("expected one input, found {}", info.inputs.len())));
        };
        let keys = info.keys.first().map_or(&[][..], Vec::as_slice);
        let names = info.output.fields().iter().skip(keys.len() + 2).map(|field| field.name().as_str());
        let gives = self.output(names, input, keys)?;
        check_output(info, &gives)?;
        match self.time_column.map(|column| input.field(column)) {
            Some(field) if !matches!(field.data_type(), DataType::Timestamp(..)) => {
                Err(Error::user(format!("expected a TIMESTAMP, found {}", type_name(field.data_type())))
                    .at("column", field.name()))
            }
            _ => Ok(()),
        }
    }
}

/// Makes the operator from a [`WindowAggregateConfig`].
pub fn create(spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
    let config: WindowAggregateConfig = spec.read()?;
    config.check(info).map_err(|e| e.at("operator", &info.name))?;
    let slices = Slices::new(config.size_ms, config.offset_ms);
    Ok(Box::new(WindowAggregate {
        config,
        slices,
        opened: None,
        next_end: None,
        due: VecDeque::new(),
        namespaces: Vec::new(),
        slots: Vec::new(),
    }))
}

struct Opened {
    info: Arc<OperatorInfo>,
    table: TableId,
    aggregates: Aggregates,
    late: Counter,
}

struct WindowAggregate {
    config: WindowAggregateConfig,
    slices: Slices,
    opened: Option<Opened>,
    /// The end of the earliest window that holds rows, so that most watermarks cost one comparison.
    next_end: Option<i64>,
    /// Windows the watermark has reached, in the order they fire; empty between watermarks.
    due: VecDeque<Namespace>,
    namespaces: Vec<Namespace>,
    slots: Vec<Slot>,
}

impl Operator for WindowAggregate {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let info = ctx.info().clone();
        let keys = info.keys.first().map_or(&[][..], Vec::as_slice);
        let late = ctx.metrics().counter("numLateRecordsDropped");
        let state = ctx.state()?;
        let table = state.open_table("windows", true)?;
        let aggregates = Aggregates::open(&self.config.aggregates, &info.inputs[0], keys, state, table)?;
        self.next_end = state.namespaces(table)?.first().map(|window| window.1);
        self.opened = Some(Opened { info, table, aggregates, late });
        Ok(())
    }

    fn process(&mut self, input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let opened = self.opened.as_ref().ok_or_else(|| Error::internal("not opened"))?;
        check_insert_only(&batch, &opened.info)?;
        if batch.is_empty() {
            return Ok(Progress::Done);
        }
        let times = self.event_times(&batch).map_err(|e| e.at("operator", &opened.info.name))?;
        let mut batch = batch;
        let namespaces = match self.slices.of(&times, &mut self.namespaces) {
            SlicesOf::One(slice) if slice.1.saturating_sub(1) <= ctx.watermark().0 => {
                opened.late.add(batch.num_rows() as u64);
                return Ok(Progress::Done);
            }
            SlicesOf::One(slice) => {
                self.next_end = Some(self.next_end.map_or(slice.1, |end| end.min(slice.1)));
                Namespaces::All(slice)
            }
            SlicesOf::Each { earliest } => {
                let mut earliest = earliest;
                if earliest.1.saturating_sub(1) <= ctx.watermark().0 {
                    let in_time = keep_in_time(&mut self.namespaces, ctx.watermark());
                    opened.late.add((batch.num_rows() - in_time.len()) as u64);
                    let Some(first) = self.namespaces.iter().min() else { return Ok(Progress::Done) };
                    earliest = *first;
                    batch = batch.take(&UInt32Array::from(in_time))?;
                }
                self.next_end = Some(self.next_end.map_or(earliest.1, |end| end.min(earliest.1)));
                Namespaces::Each(&self.namespaces)
            }
        };
        let keys = ctx.keys(input, &batch)?;
        let state = ctx.state()?;
        self.slots.clear();
        state.locate(opened.table, &keys, namespaces, &mut self.slots)?;
        opened.aggregates.add(state, &self.slots, &batch)?;
        Ok(Progress::Done)
    }

    fn on_watermark(&mut self, at: Timestamp, ctx: &mut Context<'_>) -> Result<Progress> {
        if self.next_end.is_none_or(|end| end.saturating_sub(1) > at.0) {
            return Ok(Progress::Done);
        }
        let opened = self.opened.as_ref().ok_or_else(|| Error::internal("not opened"))?;
        let mut windows = ctx.state()?.namespaces(opened.table)?;
        let later = windows.split_off(windows.partition_point(|window| window.1.saturating_sub(1) <= at.0));
        self.next_end = later.first().map(|window| window.1);
        self.due = windows.into();
        self.resume(ctx)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        let opened = self.opened.as_ref().ok_or_else(|| Error::internal("not opened"))?;
        let state = ctx.state()?;
        self.slots.clear();
        self.namespaces.clear();
        while let Some(&window) = self.due.front() {
            let room = CHUNK_ROWS - self.slots.len();
            if room == 0 {
                break;
            }
            let found = state.slots_of(opened.table, window, room)?;
            if found.len() < room {
                self.due.pop_front();
            }
            self.namespaces.resize(self.namespaces.len() + found.len(), window);
            self.slots.extend(found);
            if self.slots.len() == CHUNK_ROWS {
                break;
            }
        }
        let mut columns = state.keys_of(opened.table, &self.slots)?;
        let bound = |of: fn(&Namespace) -> i64| -> ArrayRef {
            Arc::new(TimestampMillisecondArray::from_iter_values(self.namespaces.iter().map(of)))
        };
        columns.push(bound(|window| window.0));
        columns.push(bound(|window| window.1));
        columns.extend(opened.aggregates.results(state, &self.slots)?);
        state.clear(opened.table, &self.slots);
        let out = Batch::of(opened.info.output.clone(), columns, self.slots.len())?;
        let times: ScalarBuffer<i64> = self.namespaces.iter().map(|window| window.1.saturating_sub(1)).collect();
        ctx.emit(out.with_event_times(Some(times)));
        Ok(if self.due.is_empty() { Progress::Done } else { Progress::Again })
    }
}

impl WindowAggregate {
    /// The event time of every row, in ms.
    fn event_times(&self, batch: &Batch) -> Result<ScalarBuffer<i64>> {
        let Some(column) = self.config.time_column else {
            let times = batch.event_times().cloned();
            return times.ok_or_else(|| Error::user("windows need event time: assign timestamps first"));
        };
        let array = batch.column(column);
        if array.null_count() > 0 {
            let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or_default();
            let text = "expected an event time, found NULL";
            return Err(Error::user(text).at("row", row).at("column", batch.schema().field(column).name()));
        }
        Ok(match array.data_type() {
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                array.as_primitive::<TimestampMillisecondType>().values().clone()
            }
            DataType::Timestamp(unit, _) => to_millis(array, *unit)?,
            other => return Err(Error::internal(format!("event time in {other}"))),
        })
    }
}

/// Milliseconds, rounded down: a microsecond before a window is before it.
fn to_millis(array: &ArrayRef, unit: TimeUnit) -> Result<ScalarBuffer<i64>> {
    let plain = arrow_cast::cast(array, &DataType::Int64)?;
    let values: &PrimitiveArray<arrow_array::types::Int64Type> = plain.as_primitive();
    let values = values.values().iter();
    Ok(match unit {
        TimeUnit::Second => values.map(|t| t.saturating_mul(1_000)).collect(),
        TimeUnit::Millisecond => values.copied().collect(),
        TimeUnit::Microsecond => values.map(|t| t.div_euclid(1_000)).collect(),
        TimeUnit::Nanosecond => values.map(|t| t.div_euclid(1_000_000)).collect(),
    })
}

/// Removes the windows that have fired; the rows that stay.
fn keep_in_time(windows: &mut Vec<Namespace>, watermark: Timestamp) -> Vec<u32> {
    let mut rows = Vec::with_capacity(windows.len());
    let mut row = 0;
    windows.retain(|window| {
        let in_time = window.1.saturating_sub(1) > watermark.0;
        if in_time {
            rows.push(row);
        }
        row += 1;
        in_time
    });
    rows
}
