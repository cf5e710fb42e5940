//! Keeps the first row of each key, and forgets the key some event time later.

use std::sync::Arc;

use arrow_array::UInt32Array;
use flott_core::state::columns::DenseColumn;
use flott_core::state::timers::{TimeDomain, Timer};
use flott_core::state::{Handle, TableId, TimerState};
use flott_core::{
    Batch, Context, Error, InputId, Namespace, Namespaces, Operator, OperatorInfo, Progress, Result, Slot, Spec,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::check_insert_only;

/// The name in the registry.
pub const NAME: &str = "deduplicate";

/// How long a key is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeduplicateConfig {
    /// After the event time of the first row, in ms; `None`: for ever.
    #[serde(default)]
    pub ttl_ms: Option<u32>,
}

/// Makes the operator from a [`DeduplicateConfig`].
pub fn create(spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
    let config: DeduplicateConfig = spec.read()?;
    crate::check_output(info, &info.inputs[0])?;
    Ok(Box::new(Deduplicate { ttl_ms: config.ttl_ms, state: None, slots: Vec::new(), first: Vec::new() }))
}

#[derive(Clone, Copy)]
struct State {
    table: TableId,
    seen: Handle<DenseColumn<bool>>,
    forget: TimerState,
}

struct Deduplicate {
    ttl_ms: Option<u32>,
    state: Option<State>,
    slots: Vec<Slot>,
    first: Vec<u32>,
}

impl Deduplicate {
    fn state(&self) -> Result<State> {
        self.state.ok_or_else(|| Error::internal("not opened"))
    }
}

impl Operator for Deduplicate {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let state = ctx.state()?;
        let table = state.open_table("deduplicate", false)?;
        let seen = state.open(table, "seen", DenseColumn::default())?;
        let forget = state.timers(table, "forget", TimeDomain::EventTime)?;
        self.state = Some(State { table, seen, forget });
        Ok(())
    }

    fn process(&mut self, input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        check_insert_only(&batch, ctx.info())?;
        let State { table, seen, forget } = self.state()?;
        let keys = ctx.keys(input, &batch)?;
        let state = ctx.state()?;
        self.slots.clear();
        state.locate(table, &keys, Namespaces::All(Namespace::VOID), &mut self.slots)?;

        self.first.clear();
        let column = state.get_mut(seen)?;
        for (row, slot) in self.slots.iter().enumerate() {
            if !std::mem::replace(&mut column.filled[slot.index()], true) {
                self.first.push(row as u32);
            }
        }
        if let (Some(ttl), false) = (self.ttl_ms, self.first.is_empty()) {
            let times = batch.event_times().ok_or_else(|| {
                Error::user("a time to live needs event time: assign timestamps first").at("operator", NAME)
            })?;
            let timers = state.get_mut(forget)?;
            for &row in &self.first {
                let row = row as usize;
                timers.register(self.slots[row], Timestamp(times[row]).saturating_add(ttl.into()));
            }
        }
        if self.first.len() == batch.num_rows() {
            ctx.emit(batch);
        } else {
            ctx.emit(batch.take(&UInt32Array::from(std::mem::take(&mut self.first)))?);
        }
        Ok(Progress::Done)
    }

    fn on_timers(&mut self, timers: &[Timer], ctx: &mut Context<'_>) -> Result<Progress> {
        let State { table, .. } = self.state()?;
        self.slots.clear();
        self.slots.extend(timers.iter().map(|timer| timer.slot));
        ctx.state()?.clear(table, &self.slots);
        Ok(Progress::Done)
    }
}
