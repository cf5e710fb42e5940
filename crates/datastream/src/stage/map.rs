//! One row for each: [`Map`].

use std::marker::PhantomData;

use flott_core::{Progress, Result};

use super::{Call, Function, Rows, at_row};
use crate::{Outcome, Record};

pub(crate) struct Map<T, F> {
    pub(crate) f: F,
    pub(crate) input: PhantomData<fn(T)>,
}

impl<T, R, F> Function for Map<T, F>
where
    T: Record,
    R: Outcome,
    F: FnMut(T) -> R + Send + 'static,
{
    type In = T;
    type Out = R::Out;

    fn run(&mut self, input: &mut Rows<T>, out: &mut Rows<R::Out>, _call: &mut Call<'_, '_>) -> Result<Progress> {
        out.take_beside(input);
        for (index, row) in input.rows.drain(..).enumerate() {
            let mapped = (self.f)(row).into_result().map_err(|e| at_row(e, out.origins[index]))?;
            out.rows.push(mapped);
        }
        Ok(Progress::Done)
    }
}
