//! The rows a condition holds for: [`Filter`].

use std::marker::PhantomData;

use flott_core::{Progress, Result};

use super::{Call, Function, Rows, at_row};
use crate::{Outcome, Record};

pub(crate) struct Filter<T, F> {
    pub(crate) f: F,
    pub(crate) input: PhantomData<fn(T)>,
}

impl<T, R, F> Function for Filter<T, F>
where
    T: Record,
    R: Outcome<Out = bool>,
    F: FnMut(&T) -> R + Send + 'static,
{
    type In = T;
    type Out = T;

    fn run(&mut self, input: &mut Rows<T>, out: &mut Rows<T>, _call: &mut Call<'_, '_>) -> Result<Progress> {
        std::mem::swap(input, out);
        let mut kept = 0;
        for row in 0..out.rows.len() {
            if (self.f)(&out.rows[row]).into_result().map_err(|e| at_row(e, out.origins[row]))? {
                out.rows.swap(kept, row);
                out.origins[kept] = out.origins[row];
                if out.timed {
                    out.times[kept] = out.times[row];
                }
                kept += 1;
            }
        }
        out.rows.truncate(kept);
        out.origins.truncate(kept);
        out.times.truncate(kept);
        Ok(Progress::Done)
    }
}
