//! Any number of rows for each: [`FlatMap`]. The rows of one are taken from their iterator in chunks, so that a row
//! may become more rows than fit in memory.

use std::marker::PhantomData;

use flott_core::{Progress, Result, Timestamp};

use super::{CHUNK_ROWS, Call, Function, Rows, at_row};
use crate::{Outcome, Record};

pub(crate) struct FlatMap<T, F, I: IntoIterator> {
    f: F,
    /// The iterator of a row, where it stopped.
    current: Option<(I::IntoIter, Option<Timestamp>, u32)>,
    /// Whether the rows left were put in reverse, to be taken off the end.
    reversed: bool,
    input: PhantomData<fn(T)>,
}

impl<T, F, I: IntoIterator> FlatMap<T, F, I> {
    pub(crate) fn new(f: F) -> Self {
        Self { f, current: None, reversed: false, input: PhantomData }
    }
}

impl<T, R, I, F> Function for FlatMap<T, F, I>
where
    T: Record,
    R: Outcome,
    I: IntoIterator<Item = R> + 'static,
    I::IntoIter: Send,
    F: FnMut(T) -> I + Send + 'static,
{
    type In = T;
    type Out = R::Out;

    fn run(&mut self, input: &mut Rows<T>, out: &mut Rows<R::Out>, _call: &mut Call<'_, '_>) -> Result<Progress> {
        if !self.reversed {
            input.rows.reverse();
            input.times.reverse();
            input.origins.reverse();
            self.reversed = true;
        }
        loop {
            if let Some((rows, time, origin)) = &mut self.current {
                for row in rows.take(CHUNK_ROWS.saturating_sub(out.rows.len())) {
                    let row = row.into_result().map_err(|e| at_row(e, *origin))?;
                    out.push(row, *time, *origin)?;
                }
                if out.rows.len() >= CHUNK_ROWS {
                    return Ok(Progress::Again);
                }
                self.current = None;
            }
            let (Some(row), Some(origin)) = (input.rows.pop(), input.origins.pop()) else { break };
            let time = if input.timed { input.times.pop().map(Timestamp) } else { None };
            self.current = Some(((self.f)(row).into_iter(), time, origin));
        }
        self.reversed = false;
        Ok(Progress::Done)
    }
}
