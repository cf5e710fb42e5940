//! Aggregates per key and tumbling window: [`WindowAggregate`].
//!
//! State is a table with a namespace for each window, so a watermark looks at the open windows only, and needs no
//! timer for each key. A window [start, end) fires when the watermark reaches end − 1; a row of a window that has
//! fired is late: it is dropped and counted.

use std::marker::PhantomData;

use flott_core::state::columns::Aggregate;
use flott_core::state::{AggregatingState, Namespaces};
use flott_core::{Context, Counter, Error, Namespace, Progress, Result, Slot, Timestamp};

use super::reduce::not_open;
use super::{CHUNK_ROWS, Call, Function, NO_ORIGIN, Rows, at_row};
use crate::Outcome;
use crate::record::{Record, RecordReader, Stored};
use crate::windows::{TimeWindow, TumblingEventTimeWindows};

/// What becomes of a window's result.
pub(crate) trait WindowFunction<K, O>: Send + 'static {
    type Out: Record;
    fn apply(&mut self, key: impl FnOnce() -> K, window: TimeWindow, result: O) -> Result<Self::Out>;
}

/// The result itself.
#[derive(Clone)]
pub(crate) struct ResultOnly;

impl<K, O: Record> WindowFunction<K, O> for ResultOnly {
    type Out = O;

    fn apply(&mut self, _key: impl FnOnce() -> K, _window: TimeWindow, result: O) -> Result<O> {
        Ok(result)
    }
}

/// What the user makes of key, window and result.
#[derive(Clone)]
pub(crate) struct WithWindow<F>(pub(crate) F);

impl<K, O, R: Outcome, F> WindowFunction<K, O> for WithWindow<F>
where
    F: FnMut(K, TimeWindow, O) -> R + Send + 'static,
{
    type Out = R::Out;

    fn apply(&mut self, key: impl FnOnce() -> K, window: TimeWindow, result: O) -> Result<R::Out> {
        (self.0)(key(), window, result).into_result()
    }
}

pub(crate) struct WindowAggregate<K, T, A: Aggregate, W> {
    windows: TumblingEventTimeWindows,
    /// Moved into the state when it is opened.
    aggregate: Option<A>,
    function: W,
    contents: Option<AggregatingState<A>>,
    late: Counter,
    slots: Vec<Slot>,
    namespaces: Vec<Namespace>,
    types: PhantomData<fn(K, T)>,
}

impl<K, T, A: Aggregate, W> WindowAggregate<K, T, A, W> {
    pub(crate) fn new(windows: TumblingEventTimeWindows, aggregate: A, function: W) -> Self {
        Self {
            windows,
            aggregate: Some(aggregate),
            function,
            contents: None,
            late: Counter::default(),
            slots: Vec::new(),
            namespaces: Vec::new(),
            types: PhantomData,
        }
    }
}

impl<K, T, A, W> Function for WindowAggregate<K, T, A, W>
where
    K: Record,
    T: Record,
    A: Aggregate<In = T>,
    W: WindowFunction<K, A::Out>,
{
    type In = T;
    type Out = W::Out;

    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        self.late = ctx.metrics().counter("numLateRecordsDropped");
        let state = ctx.state()?;
        let table = state.open_table("window", true)?;
        let aggregate = self.aggregate.take().ok_or_else(not_open)?;
        self.contents = Some(state.aggregating(table, "window-contents", aggregate)?);
        Ok(())
    }

    fn run(&mut self, input: &mut Rows<T>, _out: &mut Rows<W::Out>, call: &mut Call<'_, '_>) -> Result<Progress> {
        if !input.timed {
            return Err(Error::user(
                "rows have no event time, which windows need: call assign_timestamps_and_watermarks",
            ));
        }
        let contents = self.contents.ok_or_else(not_open)?;
        let watermark = call.ctx.watermark();
        let keys = call.keys()?;
        self.namespaces.clear();
        self.namespaces.extend(input.times.iter().map(|&time| self.windows.assign(Timestamp(time)).namespace()));
        self.slots.clear();
        let state = call.ctx.state()?;
        state.locate(contents.id().table, &keys, Namespaces::Each(&self.namespaces), &mut self.slots)?;
        let column = state.get_mut(contents)?;
        let mut late = 0;
        for (index, row) in input.rows.drain(..).enumerate() {
            if TimeWindow::of(self.namespaces[index]).max_timestamp() <= watermark {
                late += 1;
                continue;
            }
            column.add(self.slots[index], row).map_err(|e| at_row(e, input.origins[index]))?;
        }
        input.clear();
        self.late.add(late);
        Ok(Progress::Done)
    }

    fn on_watermark(&mut self, at: Timestamp, out: &mut Rows<W::Out>, ctx: &mut Context<'_>) -> Result<Progress> {
        let contents = self.contents.ok_or_else(not_open)?;
        let table = contents.id().table;
        let state = ctx.state()?;
        for namespace in state.namespaces(table)? {
            let window = TimeWindow::of(namespace);
            if window.max_timestamp() > at {
                break;
            }
            let room = CHUNK_ROWS.saturating_sub(out.rows.len());
            if room == 0 {
                return Ok(Progress::Again);
            }
            let slots = state.slots_of(table, namespace, room)?;
            let keys = K::reader(&state.keys_of(table, &slots)?)?;
            let column = state.get(contents)?;
            for (index, &slot) in slots.iter().enumerate() {
                if let Some(result) = column.result(slot)? {
                    let row = self.function.apply(|| keys.get(index), window, result)?;
                    out.push(row, Some(window.max_timestamp()), NO_ORIGIN)?;
                }
            }
            state.clear(table, &slots);
            // The slots of this call are used up: what is left of the window comes in the next.
            if slots.len() == room {
                return Ok(Progress::Again);
            }
        }
        Ok(Progress::Done)
    }
}

/// A reduce function as an aggregate: what windows keep.
#[derive(Clone)]
pub(crate) struct ReduceWindow<T, F> {
    pub(crate) f: F,
    pub(crate) rows: PhantomData<fn(T)>,
}

impl<T, R, F> Aggregate for ReduceWindow<T, F>
where
    T: Record + Clone,
    R: Outcome<Out = T>,
    F: Fn(T, T) -> R + Send + 'static,
{
    type In = T;
    type Accumulator = StoredOption<T>;
    type Out = T;

    fn create(&self) -> StoredOption<T> {
        StoredOption(None)
    }

    fn add(&self, value: T, accumulator: &mut StoredOption<T>) -> Result<()> {
        let combined = match accumulator.0.take() {
            None => value,
            Some(Stored(old)) => (self.f)(old, value).into_result()?,
        };
        accumulator.0 = Some(Stored(combined));
        Ok(())
    }

    fn result(&self, accumulator: &StoredOption<T>) -> Result<T> {
        let value = accumulator.0.as_ref().ok_or_else(|| Error::internal("a window without rows"))?;
        Ok(value.0.clone())
    }

    fn merge(&self, into: &mut StoredOption<T>, from: StoredOption<T>) -> Result<()> {
        from.0.map_or(Ok(()), |value| self.add(value.0, into))
    }
}

/// A row of state that may not be there yet.
pub(crate) struct StoredOption<T>(Option<Stored<T>>);

impl<T: Record> flott_core::state::StateValue for StoredOption<T> {
    fn type_name() -> String {
        Stored::<T>::type_name()
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |value| value.encode(out))
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() { Ok(Self(None)) } else { Stored::decode(bytes).map(|value| Self(Some(value))) }
    }
}
