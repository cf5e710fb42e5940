//! Functions that see more than a row: [`ProcessFunction`], [`KeyedProcessFunction`] and what they may touch.

use std::sync::Arc;

use flott_core::state::timers::TimeDomain;
use flott_core::state::{KeyedState, TableId, TimerState};
use flott_core::{Context, OperatorInfo, Result, Slot, Timestamp};

use crate::record::{Record, RecordReader};
use crate::side_output::{OutputTag, SideOutputs};
use crate::stage::Rows;

/// A function on the rows of a key, with state and timers (Flink's `KeyedProcessFunction`). Every task has a clone.
///
/// ```
/// use flott_datastream::*;
///
/// /// Emits how many rows a key had when none came for ten seconds.
/// #[derive(Clone, Default)]
/// struct CountUntilQuiet {
///     count: ValueState<u64>,
///     last: ValueState<i64>,
/// }
///
/// impl KeyedProcessFunction for CountUntilQuiet {
///     type Key = String;
///     type In = (String, Timestamp);
///     type Out = (String, u64);
///
///     fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
///         self.count = ctx.value_state("count")?;
///         self.last = ctx.value_state("last")?;
///         Ok(())
///     }
///
///     fn process_element(
///         &mut self,
///         row: Self::In,
///         ctx: &mut ProcessContext<'_, String>,
///         _out: &mut Collector<'_, Self::Out>,
///     ) -> Result<()> {
///         let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
///         self.count.update(ctx, count)?;
///         self.last.update(ctx, row.1.millis())?;
///         ctx.register_event_time_timer(row.1.saturating_add(10_000))
///     }
///
///     fn on_timer(
///         &mut self,
///         at: Timestamp,
///         ctx: &mut ProcessContext<'_, String>,
///         out: &mut Collector<'_, Self::Out>,
///     ) -> Result<()> {
///         let last = self.last.value(ctx)?.copied().unwrap_or(0);
///         if at == Timestamp(last).saturating_add(10_000) {
///             out.collect((ctx.current_key(), self.count.value(ctx)?.copied().unwrap_or(0)))?;
///             self.count.clear(ctx)?;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait KeyedProcessFunction: Clone + Send + 'static {
    /// The key.
    type Key: Record;
    /// Rows taken.
    type In: Record;
    /// Rows given.
    type Out: Record;

    /// Opens state; runs once in every task before any row.
    fn open(&mut self, _ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Takes a row; the state `ctx` leads to is that of its key.
    fn process_element(
        &mut self,
        row: Self::In,
        ctx: &mut ProcessContext<'_, Self::Key>,
        out: &mut Collector<'_, Self::Out>,
    ) -> Result<()>;

    /// A timer of the current key is due; [`ProcessContext::time_domain`] says on which clock.
    fn on_timer(
        &mut self,
        _at: Timestamp,
        _ctx: &mut ProcessContext<'_, Self::Key>,
        _out: &mut Collector<'_, Self::Out>,
    ) -> Result<()> {
        Ok(())
    }
}

/// A function on rows without key that may use side outputs and see time (Flink's `ProcessFunction`).
pub trait ProcessFunction: Clone + Send + 'static {
    /// Rows taken.
    type In: Record;
    /// Rows given.
    type Out: Record;

    /// Takes a row.
    fn process_element(
        &mut self,
        row: Self::In,
        ctx: &mut RowContext<'_>,
        out: &mut Collector<'_, Self::Out>,
    ) -> Result<()>;
}

/// Takes the rows a function gives. Each has the event time of the row or timer it is given for.
pub struct Collector<'a, T> {
    pub(crate) rows: &'a mut Rows<T>,
    pub(crate) time: Option<Timestamp>,
    pub(crate) origin: u32,
}

impl<T> Collector<'_, T> {
    /// Gives a row.
    pub fn collect(&mut self, row: T) -> Result<()> {
        self.rows.push(row, self.time, self.origin)
    }
}

/// What a function may touch while it opens.
pub struct OpenContext<'c, 'a> {
    pub(crate) ctx: &'c mut Context<'a>,
    pub(crate) table: TableId,
}

impl OpenContext<'_, '_> {
    /// Which task of which operator this is.
    pub fn info(&self) -> &Arc<OperatorInfo> {
        self.ctx.info()
    }

    pub(crate) fn table(&self) -> TableId {
        self.table
    }

    pub(crate) fn state(&mut self) -> Result<&mut (dyn KeyedState + 'static)> {
        self.ctx.state()
    }
}

/// What a process function without key may touch.
pub struct RowContext<'a> {
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) watermark: Timestamp,
    pub(crate) processing_time: Timestamp,
    pub(crate) side: &'a mut SideOutputs,
}

impl RowContext<'_> {
    /// The event time of the row, if it has one.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// The event-time clock.
    pub fn current_watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time.
    pub fn current_processing_time(&self) -> Timestamp {
        self.processing_time
    }

    /// Gives a row to a side output; dropped where nobody reads it.
    pub fn output<S: Record>(&mut self, tag: OutputTag<S>, row: S) -> Result<()> {
        self.side.add(tag, row, self.timestamp)
    }
}

/// The two timer services of a function.
#[derive(Clone, Copy)]
pub(crate) struct TimerServices {
    pub(crate) event: TimerState,
    pub(crate) processing: TimerState,
}

impl TimerServices {
    fn of(self, domain: TimeDomain) -> TimerState {
        match domain {
            TimeDomain::EventTime => self.event,
            TimeDomain::ProcessingTime => self.processing,
        }
    }
}

/// What a keyed process function may touch: the state and timers of the current key, time, side outputs.
pub struct ProcessContext<'a, K: Record> {
    pub(crate) state: &'a mut (dyn KeyedState + 'static),
    pub(crate) services: TimerServices,
    pub(crate) keys: &'a K::Reader,
    /// The row of `keys` that is the current key, and its place in the state.
    pub(crate) key: usize,
    pub(crate) slot: Slot,
    pub(crate) domain: Option<TimeDomain>,
    pub(crate) row: RowContext<'a>,
}

impl<K: Record> ProcessContext<'_, K> {
    /// The key whose state and timers this context leads to.
    pub fn current_key(&self) -> K {
        self.keys.get(self.key)
    }

    /// The event time of the row or of the event-time timer, if there is one.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.row.timestamp
    }

    /// The clock of the timer that is due; `None` while a row is processed.
    pub fn time_domain(&self) -> Option<TimeDomain> {
        self.domain
    }

    /// The event-time clock.
    pub fn current_watermark(&self) -> Timestamp {
        self.row.watermark
    }

    /// Processing time.
    pub fn current_processing_time(&self) -> Timestamp {
        self.row.processing_time
    }

    /// Calls `on_timer` for the current key when the watermark reaches `at`; the same time twice is one timer.
    pub fn register_event_time_timer(&mut self, at: Timestamp) -> Result<()> {
        self.register(TimeDomain::EventTime, at)
    }

    /// Calls `on_timer` for the current key at a point of processing time.
    pub fn register_processing_time_timer(&mut self, at: Timestamp) -> Result<()> {
        self.register(TimeDomain::ProcessingTime, at)
    }

    /// Takes an event-time timer of the current key back.
    pub fn delete_event_time_timer(&mut self, at: Timestamp) -> Result<()> {
        self.delete(TimeDomain::EventTime, at)
    }

    /// Takes a processing-time timer of the current key back.
    pub fn delete_processing_time_timer(&mut self, at: Timestamp) -> Result<()> {
        self.delete(TimeDomain::ProcessingTime, at)
    }

    /// Gives a row to a side output; dropped where nobody reads it.
    pub fn output<S: Record>(&mut self, tag: OutputTag<S>, row: S) -> Result<()> {
        self.row.output(tag, row)
    }

    fn register(&mut self, domain: TimeDomain, at: Timestamp) -> Result<()> {
        self.state.get_mut(self.services.of(domain))?.register(self.slot, at);
        Ok(())
    }

    fn delete(&mut self, domain: TimeDomain, at: Timestamp) -> Result<()> {
        self.state.get_mut(self.services.of(domain))?.delete(self.slot, at);
        Ok(())
    }

    pub(crate) fn place(&self) -> (&(dyn KeyedState + 'static), Slot) {
        (self.state, self.slot)
    }

    pub(crate) fn place_mut(&mut self) -> (&mut (dyn KeyedState + 'static), Slot) {
        (self.state, self.slot)
    }
}
