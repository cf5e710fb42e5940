//! A running combination of each key's rows: [`Reduce`].

use flott_core::state::{Namespaces, ValueState};
use flott_core::{Context, Error, Namespace, Progress, Result, Slot};

use super::{Call, Function, Rows, at_row};
use crate::record::Stored;
use crate::{Outcome, Record};

/// The table of a keyed function's state.
pub(crate) const TABLE: &str = "state";

pub(crate) struct Reduce<T, F> {
    f: F,
    so_far: Option<ValueState<Stored<T>>>,
    slots: Vec<Slot>,
}

impl<T, F> Reduce<T, F> {
    pub(crate) fn new(f: F) -> Self {
        Self { f, so_far: None, slots: Vec::new() }
    }
}

pub(crate) fn not_open() -> Error {
    Error::internal("a function was called before it was opened")
}

impl<T, R, F> Function for Reduce<T, F>
where
    T: Record + Clone,
    R: Outcome<Out = T>,
    F: FnMut(T, T) -> R + Send + 'static,
{
    type In = T;
    type Out = T;

    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let state = ctx.state()?;
        let table = state.open_table(TABLE, false)?;
        self.so_far = Some(state.value(table, "reduce")?);
        Ok(())
    }

    fn run(&mut self, input: &mut Rows<T>, out: &mut Rows<T>, call: &mut Call<'_, '_>) -> Result<Progress> {
        let so_far = self.so_far.ok_or_else(not_open)?;
        let keys = call.keys()?;
        let state = call.ctx.state()?;
        self.slots.clear();
        state.locate(so_far.id().table, &keys, Namespaces::All(Namespace::VOID), &mut self.slots)?;
        let column = state.get_mut(so_far)?;
        out.take_beside(input);
        for (index, row) in input.rows.drain(..).enumerate() {
            let value = column.value_mut(self.slots[index]);
            let combined = match value.take() {
                None => row,
                Some(Stored(old)) => (self.f)(old, row).into_result().map_err(|e| at_row(e, out.origins[index]))?,
            };
            out.rows.push(combined.clone());
            *value = Some(Stored(combined));
        }
        Ok(Progress::Done)
    }
}
