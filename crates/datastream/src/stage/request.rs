//! Work outside the task: [`Requests`] hands a batch of rows to a user's future and emits what it answers.
//!
//! The payload is the batch that came in, so a snapshot can ask again. The runtime keeps order, capacity and
//! watermarks; such a function is never fused, since its rows leave in another call than they came.

use std::future::Future;
use std::marker::PhantomData;

use flott_core::{Batch, Error, Progress, RequestOrder, Response, Result};

use super::{Call, Function, Rows, decode_rows};
use crate::Record;
use crate::outcome::user_error;
use crate::record::to_columns;

pub(crate) struct Requests<T, F> {
    pub(crate) f: F,
    pub(crate) order: RequestOrder,
    pub(crate) input: PhantomData<fn(T)>,
}

impl<T, U, E, Fut, F> Function for Requests<T, F>
where
    T: Record,
    U: Record,
    E: std::fmt::Display + 'static,
    Fut: Future<Output = Result<Vec<U>, E>> + Send + 'static,
    F: FnMut(Vec<T>) -> Fut + Send + 'static,
{
    type In = T;
    type Out = U;

    fn run(&mut self, input: &mut Rows<T>, _out: &mut Rows<U>, call: &mut Call<'_, '_>) -> Result<Progress> {
        let payload = call.source()?.clone();
        let asked = input.rows.len();
        let rows = std::mem::take(&mut input.rows);
        input.clear();
        let answer = (self.f)(rows);
        let schema = call.ctx.info().output.clone();
        let future = Box::pin(async move {
            let rows = answer.await.map_err(|e| user_error(&e))?;
            if rows.len() != asked {
                let text = format!("expected an answer for each of {asked} rows, found {}", rows.len());
                return Err(Error::user(text));
            }
            Batch::of(schema, to_columns(&rows), asked)
        });
        call.ctx.request(payload, self.order, future);
        Ok(Progress::Done)
    }

    fn on_response(&mut self, response: Response, out: &mut Rows<U>) -> Result<()> {
        let answer = response.answer?.with_event_times(response.payload.event_times().cloned());
        decode_rows(&answer, out)
    }
}
