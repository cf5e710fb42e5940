//! The contract of an operator and all it may touch: [`Operator`], [`Context`].
//!
//! An operator never sees a barrier, a channel, a thread, a wall clock or an async runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::state::timers::Timer;
use crate::state::{KeyedState, Keys};
use crate::{Batch, Error, Metrics, OperatorState, Result, Timestamp};

/// Which input of an operator: 0 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputId(pub u8);

/// Whether a call has done all its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Everything that was due has been emitted.
    Done,
    /// More is to be emitted: call [`Operator::resume`] when the outputs have credit again.
    Again,
}

/// What an operator does to a stream. Only [`Operator::process`] is required.
///
/// Every call does bounded work; what may emit without bound emits a chunk and answers [`Progress::Again`]. The
/// runtime fires timers in chunks and forwards a watermark after the last chunk it caused.
pub trait Operator: Send {
    /// Obtains state handles; restored state is there to be read.
    fn open(&mut self, _ctx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes a batch of one input.
    fn process(&mut self, input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress>;

    /// Goes on after [`Progress::Again`].
    fn resume(&mut self, _ctx: &mut Context<'_>) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// Takes a chunk of due timers, earliest first (a chunk, so that an interpreter is entered once for many).
    fn on_timers(&mut self, _timers: &[Timer], _ctx: &mut Context<'_>) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// The watermark has risen to `at`; called before the timers it makes due. Forwarding it is the runtime's job.
    fn on_watermark(&mut self, _at: Timestamp, _ctx: &mut Context<'_>) -> Result<Progress> {
        Ok(Progress::Done)
    }

    /// A request of [`Context::request`] has been answered.
    fn on_response(&mut self, response: Response, _ctx: &mut Context<'_>) -> Result<Progress> {
        Err(Error::internal(format!("a response {:?} that nobody asked for", response.payload.num_rows())))
    }

    /// A request that was in flight at the snapshot; the default processes its payload again.
    fn reissue(&mut self, payload: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        self.process(InputId(0), payload, ctx)
    }

    /// A snapshot follows: caches go into state, operator state is put into [`Context::operator_state`].
    fn flush(&mut self, _ctx: &mut Context<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether its calls may block (a call into an interpreter, a client without an asynchronous form): its task then
    /// has a thread of its own and holds up no other. Asked once, when the task begins.
    fn blocks(&self) -> bool {
        false
    }

    /// All inputs have ended, after the last watermark, and every request has been answered.
    fn finish(&mut self, _ctx: &mut Context<'_>) -> Result<Progress> {
        Ok(Progress::Done)
    }
}

/// The answer to a request: the payload asked with, and the rows it brought or why there are none.
#[derive(Debug)]
pub struct Response {
    /// What [`Context::request`] was given.
    pub payload: Batch,
    /// What the future gave.
    pub answer: Result<Batch>,
}

/// Work outside the task: a look-up in a database, a call of a service.
pub type RequestFuture = Pin<Box<dyn Future<Output = Result<Batch>> + Send>>;

/// In which order answers come back. No watermark overtakes a request in either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrder {
    /// As asked.
    Ordered,
    /// As they arrive, between two watermarks.
    Unordered,
}

/// A request an operator has begun; the runtime runs it.
pub struct Request {
    /// Comes back with the answer; kept in snapshots until then.
    pub payload: Batch,
    /// The work.
    pub future: RequestFuture,
    /// The order of answers.
    pub order: RequestOrder,
}

/// Which output: 0 is the main one, side outputs follow in the order of their tags in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OutputId(pub u8);

impl OutputId {
    /// The main output.
    pub const MAIN: Self = Self(0);
}

/// What an operator knows of itself.
#[derive(Clone, Debug)]
pub struct OperatorInfo {
    /// The stable id its state is found by.
    pub uid: String,
    /// For people.
    pub name: String,
    /// Which of its parallel tasks this is, from 0.
    pub index: u32,
    /// How many there are.
    pub parallelism: u32,
    /// How many there can ever be.
    pub max_parallelism: u32,
    /// Schemas of the inputs.
    pub inputs: Vec<SchemaRef>,
    /// The schema of the main output.
    pub output: SchemaRef,
    /// Tags and schemas of the side outputs.
    pub side_outputs: Vec<(String, SchemaRef)>,
    /// The key columns of each input; empty where it is not keyed.
    pub keys: Vec<Vec<usize>>,
}

impl OperatorInfo {
    /// The side output of this tag.
    pub fn side_output(&self, tag: &str) -> Option<OutputId> {
        let at = self.side_outputs.iter().position(|(name, _)| name == tag)?;
        u8::try_from(at + 1).ok().map(OutputId)
    }
}

/// What belongs to one operator of a task and outlives the calls: lent through [`Context`].
pub struct Member {
    /// Who the operator is.
    pub info: Arc<OperatorInfo>,
    /// Its keyed state; `None` if it has no keyed input.
    pub state: Option<Box<dyn KeyedState>>,
    /// Its state without keys.
    pub operator_state: OperatorState,
    /// Its counters.
    pub metrics: Metrics,
}

/// A batch on its way out: of which member (several where user functions are fused), to which of its outputs.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The position of the member.
    pub member: usize,
    /// The output of that member.
    pub output: OutputId,
    /// The rows.
    pub batch: Batch,
}

/// Everything an operator may touch, lent for one call.
///
/// A fused operator stands for several members, each with its own name, state, side outputs and metrics:
/// [`Context::member`] turns to one of them. Every other operator has one member and never turns.
pub struct Context<'a> {
    members: &'a mut [Member],
    current: usize,
    out: &'a mut Outbox,
    watermark: Timestamp,
    processing_time: Timestamp,
}

/// Where a call leaves what it emitted and began.
#[derive(Default)]
pub struct Outbox {
    /// Batches, in order.
    pub emitted: Vec<Emitted>,
    /// Requests begun, in order, with the member that asked.
    pub requests: Vec<(usize, Request)>,
}

impl<'a> Context<'a> {
    /// A context for one call, turned to member `current`.
    pub fn new(
        members: &'a mut [Member],
        current: usize,
        out: &'a mut Outbox,
        watermark: Timestamp,
        processing_time: Timestamp,
    ) -> Self {
        debug_assert!(current < members.len());
        Self { members, current, out, watermark, processing_time }
    }

    /// How many members the operator stands for.
    pub fn num_members(&self) -> usize {
        self.members.len()
    }

    /// The member this context is turned to: on a timer or a response, the one that asked for it.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Turns to another member.
    pub fn member(&mut self, index: usize) -> Result<&mut Self> {
        if index >= self.members.len() {
            return Err(Error::internal(format!("member {index} of {}", self.members.len())));
        }
        self.current = index;
        Ok(self)
    }

    /// Who the operator is.
    pub fn info(&self) -> &Arc<OperatorInfo> {
        &self.members[self.current].info
    }

    /// The keyed state of the operator.
    pub fn state(&mut self) -> Result<&mut (dyn KeyedState + 'static)> {
        let member = &mut self.members[self.current];
        match &mut member.state {
            Some(state) => Ok(&mut **state),
            None => {
                let text = "keyed state and timers need a keyed input: call key_by first";
                Err(Error::user(text).at("operator", &member.info.name))
            }
        }
    }

    /// State that belongs to the task, not to a key.
    pub fn operator_state(&mut self) -> &mut OperatorState {
        &mut self.members[self.current].operator_state
    }

    /// The keys of a batch of this input.
    pub fn keys(&self, input: InputId, batch: &Batch) -> Result<Keys> {
        let of_input = self.info().keys.get(usize::from(input.0)).map_or(&[][..], Vec::as_slice);
        let columns: Vec<_> = of_input.iter().map(|&i| batch.column(i).clone()).collect();
        match batch.key_hashes() {
            Some(hashes) => Ok(Keys { columns, hashes: hashes.clone() }),
            None => Keys::of(columns),
        }
    }

    /// Emits a batch to the main output. Never blocks.
    pub fn emit(&mut self, batch: Batch) {
        self.emit_to(OutputId::MAIN, batch);
    }

    /// Emits a batch to an output. Never blocks; empty batches are dropped.
    pub fn emit_to(&mut self, output: OutputId, batch: Batch) {
        if !batch.is_empty() {
            self.out.emitted.push(Emitted { member: self.current, output, batch });
        }
    }

    /// Begins a request; its answer comes to [`Operator::on_response`]. Until then the payload is part of snapshots.
    pub fn request(&mut self, payload: Batch, order: RequestOrder, future: RequestFuture) {
        self.out.requests.push((self.current, Request { payload, future, order }));
    }

    /// The operator's counters.
    pub fn metrics(&self) -> &Metrics {
        &self.members[self.current].metrics
    }

    /// The event-time clock: no row with an earlier or equal event time is expected.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time at the start of this call.
    pub fn processing_time(&self) -> Timestamp {
        self.processing_time
    }
}
