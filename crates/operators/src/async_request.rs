//! Asks something outside the task for each batch and emits the answers (Flink's async I/O).
//!
//! Who asks and how is a closure, so this operator is made by [`factory`] under a name of the caller's choosing.
//! Order, capacity and snapshots of requests in flight are the runtime's.

use std::sync::Arc;

use flott_core::{
    Batch, Context, Error, InputId, Operator, OperatorFactory, OperatorInfo, Progress, RequestFuture, RequestOrder,
    Response, Result, Spec,
};

/// Begins a request for the rows of a batch.
pub type Ask = Arc<dyn Fn(Batch) -> RequestFuture + Send + Sync>;

/// Makes operators that `ask`. `rows_per_request` is the most rows of a request; at least 1.
///
/// An answer whose rows have no event times takes those of the rows it was asked for: one for one, or all from the
/// only one.
pub fn factory(ask: Ask, order: RequestOrder, rows_per_request: usize) -> Arc<dyn OperatorFactory> {
    Arc::new(move |_: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
        Ok(Box::new(AsyncRequest { ask: ask.clone(), order, rows_per_request: rows_per_request.max(1) }))
    })
}

struct AsyncRequest {
    ask: Ask,
    order: RequestOrder,
    rows_per_request: usize,
}

impl Operator for AsyncRequest {
    fn process(&mut self, _input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        for start in (0..batch.num_rows()).step_by(self.rows_per_request) {
            let payload = batch.slice(start, self.rows_per_request.min(batch.num_rows() - start));
            let future = (self.ask)(payload.clone());
            ctx.request(payload, self.order, future);
        }
        Ok(Progress::Done)
    }

    fn on_response(&mut self, response: Response, ctx: &mut Context<'_>) -> Result<Progress> {
        let here = |e: Error| e.at("operator", &ctx.info().name);
        let answer = response.answer.and_then(|answer| with_times(answer, &response.payload)).map_err(here)?;
        ctx.emit(answer);
        Ok(Progress::Done)
    }
}

fn with_times(answer: Batch, asked: &Batch) -> Result<Batch> {
    let Some(times) = asked.event_times() else { return Ok(answer) };
    if answer.event_times().is_some() || answer.is_empty() {
        return Ok(answer);
    }
    if answer.num_rows() == asked.num_rows() {
        return Ok(answer.with_event_times(Some(times.clone())));
    }
    if asked.num_rows() == 1 {
        let repeated = vec![times[0]; answer.num_rows()];
        return Ok(answer.with_event_times(Some(repeated.into())));
    }
    let text = "an answer of another number of rows than asked for must bring their event times";
    Err(Error::user(format!("{text}: {} asked for, {} answered", asked.num_rows(), answer.num_rows())))
}
