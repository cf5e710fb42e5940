//! Event time out of a row: [`Timestamps`]. The watermarks that follow from it are the runtime's.

use std::marker::PhantomData;

use flott_core::{Progress, Result, Timestamp};

use super::{Call, Function, Rows, at_row};
use crate::{Outcome, Record};

pub(crate) struct Timestamps<T, F> {
    pub(crate) f: F,
    pub(crate) input: PhantomData<fn(T)>,
}

impl<T, R, F> Function for Timestamps<T, F>
where
    T: Record,
    R: Outcome<Out = Timestamp>,
    F: FnMut(&T) -> R + Send + 'static,
{
    type In = T;
    type Out = T;

    fn run(&mut self, input: &mut Rows<T>, out: &mut Rows<T>, _call: &mut Call<'_, '_>) -> Result<Progress> {
        std::mem::swap(input, out);
        out.times.clear();
        out.timed = true;
        for (row, origin) in out.rows.iter().zip(&out.origins) {
            out.times.push((self.f)(row).into_result().map_err(|e| at_row(e, *origin))?.0);
        }
        Ok(Progress::Done)
    }
}
