//! Operators of these tests, for what the built-in ones do not do: side outputs, a broadcast input, processing-time
//! timers, output in chunks.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use flott_core::state::timers::{TimeDomain, Timer};
use flott_core::state::{ListState, TableId, TimerState};
use flott_core::{
    Batch, Context, Error, InputId, Namespace, Namespaces, Operator, OperatorInfo, OutputId, Progress, Redistribution,
    Registry, RequestFuture, RequestOrder, Result, Spec, Timestamp,
};
use flott_operators::async_request;

use super::row::{Row, batch, read};

/// Puts them into `registry` by these names: split, scale, delay, explode, ask, ask_unordered, fail.
pub(crate) fn register(registry: &mut Registry) {
    let mut add = |name: &str, make: fn() -> Box<dyn Operator>| {
        registry.add_operator(name, Arc::new(move |_: &Spec, _: &Arc<OperatorInfo>| Ok(make())));
    };
    add("split", || Box::new(Split));
    add("scale", || Box::new(Scale::default()));
    add("delay", || Box::new(Delay::default()));
    add("explode", || Box::new(Explode::default()));
    let answer = |rows: Batch| -> RequestFuture {
        let answers: Vec<Row> = read(&rows).into_iter().map(answer).collect();
        Box::pin(async move { Ok(batch(&answers)) })
    };
    registry.add_operator("ask", async_request::factory(Arc::new(answer), RequestOrder::Ordered, 3));
    registry.add_operator("ask_unordered", async_request::factory(Arc::new(answer), RequestOrder::Unordered, 2));
}

/// What a request is answered with.
pub(crate) fn answer((k, t, v): Row) -> Row {
    (k, t, 2 * v + 1)
}

/// Copies that `explode` makes of a row.
pub(crate) fn copies((k, t, v): Row) -> impl Iterator<Item = Row> {
    (0..v % 3).map(move |copy| (k, t, v + copy))
}

/// Even values to the main output, odd ones to the first side output.
struct Split;

impl Operator for Split {
    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let (even, odd): (Vec<Row>, Vec<Row>) = read(&rows).into_iter().partition(|row| row.2 % 2 == 0);
        ctx.emit(batch(&even));
        ctx.emit_to(OutputId(1), batch(&odd));
        Ok(Progress::Done)
    }
}

/// Adds to each row of the first input the sum of the second, which is broadcast; when that is known: at the end.
#[derive(Default)]
struct Scale {
    rows: Vec<Row>,
    sum: i64,
}

impl Operator for Scale {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        for entry in ctx.operator_state().get("rows") {
            self.rows.extend(postcard::from_bytes::<Vec<Row>>(entry)?);
        }
        if let [sum] = ctx.operator_state().get("sum") {
            self.sum = postcard::from_bytes(sum)?;
        }
        Ok(())
    }

    fn process(&mut self, input: InputId, rows: Batch, _: &mut Context<'_>) -> Result<Progress> {
        match input {
            InputId(0) => self.rows.extend(read(&rows)),
            _ => self.sum += read(&rows).iter().map(|row| row.2).sum::<i64>(),
        }
        Ok(Progress::Done)
    }

    fn on_watermark(&mut self, at: Timestamp, ctx: &mut Context<'_>) -> Result<Progress> {
        if at == Timestamp::MAX {
            let rows: Vec<Row> = self.rows.drain(..).map(|(k, t, v)| (k, t, v + self.sum)).collect();
            ctx.emit(batch(&rows));
        }
        Ok(Progress::Done)
    }

    fn flush(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let rows = self.rows.chunks(10).map(|rows| postcard::to_stdvec(rows).map_err(Error::from));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let sum = postcard::to_stdvec(&self.sum)?;
        ctx.operator_state().put("rows", Redistribution::Split, rows);
        ctx.operator_state().put("sum", Redistribution::Broadcast, vec![sum]);
        Ok(())
    }
}

/// Keeps rows back until 5 ms of processing time have passed for their key, or the end has come.
#[derive(Default)]
struct Delay(Option<(TableId, ListState<Row>, TimerState)>);

impl Delay {
    /// Gives out the rows of a few keys; whether there were any.
    fn drain(&self, ctx: &mut Context<'_>) -> Result<bool> {
        let (table, rows, _) = self.0.unwrap();
        let state = ctx.state()?;
        let slots = state.slots_of(table, Namespace::VOID, 2)?;
        let mut out = Vec::new();
        for &slot in &slots {
            out.extend_from_slice(state.get(rows)?.values(slot));
        }
        state.clear(table, &slots);
        ctx.emit(batch(&out));
        Ok(!slots.is_empty())
    }
}

impl Operator for Delay {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let state = ctx.state()?;
        let table = state.open_table("delay", false)?;
        let rows = state.list(table, "rows")?;
        self.0 = Some((table, rows, state.timers(table, "due", TimeDomain::ProcessingTime)?));
        Ok(())
    }

    fn process(&mut self, input: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let (table, list, timers) = self.0.unwrap();
        let due = ctx.processing_time().saturating_add(5);
        let keys = ctx.keys(input, &rows)?;
        let (state, mut slots) = (ctx.state()?, Vec::new());
        state.locate(table, &keys, Namespaces::All(Namespace::VOID), &mut slots)?;
        for (row, &slot) in read(&rows).into_iter().zip(&slots) {
            state.get_mut(list)?.add(slot, row);
            state.get_mut(timers)?.register(slot, due);
        }
        Ok(Progress::Done)
    }

    fn on_timers(&mut self, timers: &[Timer], ctx: &mut Context<'_>) -> Result<Progress> {
        let (_, list, _) = self.0.unwrap();
        let mut out = Vec::new();
        for timer in timers {
            out.append(&mut ctx.state()?.get_mut(list)?.take(timer.slot));
        }
        ctx.emit(batch(&out));
        Ok(Progress::Done)
    }

    fn on_watermark(&mut self, at: Timestamp, ctx: &mut Context<'_>) -> Result<Progress> {
        if at == Timestamp::MAX { self.resume(ctx) } else { Ok(Progress::Done) }
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        Ok(if self.drain(ctx)? { Progress::Again } else { Progress::Done })
    }
}

/// Gives [`copies`] of each row, two rows at a time.
#[derive(Default)]
struct Explode(Vec<Row>);

impl Operator for Explode {
    fn process(&mut self, _: InputId, rows: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        self.0 = read(&rows).into_iter().flat_map(copies).collect();
        self.resume(ctx)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        let from = self.0.len().saturating_sub(2);
        ctx.emit(batch(&self.0.split_off(from)));
        Ok(if self.0.is_empty() { Progress::Done } else { Progress::Again })
    }
}
