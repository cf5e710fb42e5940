//! Process functions as stages: [`Process`] and [`KeyedProcess`].

use flott_core::state::Namespaces;
use flott_core::state::timers::{TimeDomain, Timer};
use flott_core::{Context, Namespace, Progress, Result, Slot};

use super::reduce::{TABLE, not_open};
use super::{Call, Function, NO_ORIGIN, Rows, at_row};
use crate::process::{
    Collector, KeyedProcessFunction, OpenContext, ProcessContext, ProcessFunction, RowContext, TimerServices,
};
use crate::record::Record;
use crate::side_output::SideOutputs;

pub(crate) struct Process<F> {
    f: F,
    side: SideOutputs,
}

impl<F> Process<F> {
    pub(crate) fn new(f: F) -> Self {
        Self { f, side: SideOutputs::default() }
    }
}

impl<F: ProcessFunction> Function for Process<F> {
    type In = F::In;
    type Out = F::Out;

    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        self.side = SideOutputs::of(ctx.info());
        Ok(())
    }

    fn run(&mut self, input: &mut Rows<F::In>, out: &mut Rows<F::Out>, call: &mut Call<'_, '_>) -> Result<Progress> {
        let (watermark, processing_time) = (call.ctx.watermark(), call.ctx.processing_time());
        let mut row_ctx = RowContext { timestamp: None, watermark, processing_time, side: &mut self.side };
        let mut collector = Collector { rows: out, time: None, origin: NO_ORIGIN };
        for (index, row) in input.rows.drain(..).enumerate() {
            row_ctx.timestamp = input.timed.then(|| flott_core::Timestamp(input.times[index]));
            collector.time = row_ctx.timestamp;
            collector.origin = input.origins[index];
            let processed = self.f.process_element(row, &mut row_ctx, &mut collector);
            processed.map_err(|e| at_row(e, collector.origin))?;
        }
        input.clear();
        self.side.emit(call.ctx)?;
        Ok(Progress::Done)
    }
}

pub(crate) struct KeyedProcess<F> {
    f: F,
    services: Option<TimerServices>,
    side: SideOutputs,
    slots: Vec<Slot>,
}

impl<F> KeyedProcess<F> {
    pub(crate) fn new(f: F) -> Self {
        Self { f, services: None, side: SideOutputs::default(), slots: Vec::new() }
    }
}

impl<F: KeyedProcessFunction> Function for KeyedProcess<F> {
    type In = F::In;
    type Out = F::Out;

    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        self.side = SideOutputs::of(ctx.info());
        let state = ctx.state()?;
        let table = state.open_table(TABLE, false)?;
        self.services = Some(TimerServices {
            event: state.timers(table, "event-time-timers", TimeDomain::EventTime)?,
            processing: state.timers(table, "processing-time-timers", TimeDomain::ProcessingTime)?,
        });
        self.f.open(&mut OpenContext { ctx, table })
    }

    fn run(&mut self, input: &mut Rows<F::In>, out: &mut Rows<F::Out>, call: &mut Call<'_, '_>) -> Result<Progress> {
        let services = self.services.ok_or_else(not_open)?;
        let (watermark, processing_time) = (call.ctx.watermark(), call.ctx.processing_time());
        let keys = call.keys()?;
        let reader = F::Key::reader(&keys.columns)?;
        let state = call.ctx.state()?;
        self.slots.clear();
        let table = services.event.id().table;
        state.locate(table, &keys, Namespaces::All(Namespace::VOID), &mut self.slots)?;
        let mut row_ctx = ProcessContext::<F::Key> {
            state,
            services,
            keys: &reader,
            key: 0,
            slot: Slot(0),
            domain: None,
            row: RowContext { timestamp: None, watermark, processing_time, side: &mut self.side },
        };
        let mut collector = Collector { rows: out, time: None, origin: NO_ORIGIN };
        for (index, row) in input.rows.drain(..).enumerate() {
            row_ctx.key = index;
            row_ctx.slot = self.slots[index];
            row_ctx.row.timestamp = input.timed.then(|| flott_core::Timestamp(input.times[index]));
            collector.time = row_ctx.row.timestamp;
            collector.origin = input.origins[index];
            let processed = self.f.process_element(row, &mut row_ctx, &mut collector);
            processed.map_err(|e| at_row(e, collector.origin))?;
        }
        input.clear();
        self.side.emit(call.ctx)?;
        Ok(Progress::Done)
    }

    fn on_timers(&mut self, timers: &[Timer], out: &mut Rows<F::Out>, ctx: &mut Context<'_>) -> Result<()> {
        let services = self.services.ok_or_else(not_open)?;
        let (watermark, processing_time) = (ctx.watermark(), ctx.processing_time());
        self.slots.clear();
        self.slots.extend(timers.iter().map(|timer| timer.slot));
        let state = ctx.state()?;
        let keys = F::Key::reader(&state.keys_of(services.event.id().table, &self.slots)?)?;
        let mut row_ctx = ProcessContext::<F::Key> {
            state,
            services,
            keys: &keys,
            key: 0,
            slot: Slot(0),
            domain: None,
            row: RowContext { timestamp: None, watermark, processing_time, side: &mut self.side },
        };
        let mut collector = Collector { rows: out, time: None, origin: NO_ORIGIN };
        for (index, timer) in timers.iter().enumerate() {
            let is_event_time = timer.service == services.event.id();
            row_ctx.key = index;
            row_ctx.slot = timer.slot;
            row_ctx.domain = Some(if is_event_time { TimeDomain::EventTime } else { TimeDomain::ProcessingTime });
            // As in Flink, what a processing-time timer gives has no event time.
            row_ctx.row.timestamp = is_event_time.then_some(timer.at);
            collector.time = row_ctx.row.timestamp;
            self.f.on_timer(timer.at, &mut row_ctx, &mut collector)?;
        }
        self.side.emit(ctx)
    }
}
