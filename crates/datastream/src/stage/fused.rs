//! The operator of a run of stages: [`Fused`], and the factory by which plans name them: [`Closures`].
//!
//! Work is done at the most downstream stage that has some, so what waits between stages stays small. A run of one is
//! the same operator with one stage. numRecordsIn of the first and numRecordsOut of the last member are counted by
//! the runtime, which sees those rows; the ones between stages are counted here.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use flott_core::state::timers::Timer;
use flott_core::{
    Batch, Context, Counter, Error, InputId, Operator, OperatorFactory, OperatorInfo, Progress, Response, Result, Spec,
    Timestamp,
};

use super::{Call, Link, Stage};

/// Makes a stage, a new one for every task.
pub(crate) type MakeStage = Box<dyn Fn() -> Box<dyn Stage> + Send + Sync>;

/// The functions of a program by the names its plan gives them.
#[derive(Default)]
pub(crate) struct Closures(RwLock<BTreeMap<String, MakeStage>>);

impl Closures {
    pub(crate) fn add(&self, name: &str, make: MakeStage) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), make);
    }

    fn stage(&self, spec: &Spec) -> Result<Box<dyn Stage>> {
        let closures = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let make = closures.get(&spec.factory).ok_or_else(|| {
            Error::user(format!(
                "this program has no function '{}': every process of a job must run the same program with the same \
                 arguments",
                spec.factory
            ))
        })?;
        Ok(make())
    }
}

/// The factory of a program's functions.
pub(crate) struct ClosureFactory {
    pub(crate) closures: Arc<Closures>,
    /// Whether neighbours may be fused.
    pub(crate) fusible: bool,
}

impl OperatorFactory for ClosureFactory {
    fn create(&self, spec: &Spec, _info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Fused::of(vec![self.closures.stage(spec)?])))
    }

    fn language(&self) -> Option<&'static str> {
        self.fusible.then_some("rust")
    }

    fn fuse(&self, members: &[(Spec, Arc<OperatorInfo>)]) -> Result<Box<dyn Operator>> {
        let stages = members.iter().map(|(spec, _)| self.closures.stage(spec)).collect::<Result<_>>()?;
        Ok(Box::new(Fused::of(stages)))
    }
}

struct Fused {
    stages: Vec<Box<dyn Stage>>,
    /// Rows before stage `i` are in link `i`; the last link is the run's output.
    links: Vec<Box<dyn Link>>,
    /// Stages that have more to give before they take anything.
    again: Vec<bool>,
    /// Behind each stage but the last: its numRecordsOut and its successor's numRecordsIn.
    between: Vec<(Counter, Counter)>,
    /// The batch in work.
    source: Option<Batch>,
    /// A watermark, and the stage it comes to next.
    watermark: Option<(usize, Timestamp)>,
}

impl Fused {
    fn of(stages: Vec<Box<dyn Stage>>) -> Self {
        let mut links: Vec<_> = stages.iter().map(|stage| stage.new_input()).collect();
        links.extend(stages.last().map(|stage| stage.new_output()));
        let again = vec![false; stages.len()];
        Self { stages, links, again, between: Vec::new(), source: None, watermark: None }
    }

    /// Calls stage `index` with its output, then passes on what it gave. An error says which function and which record.
    fn call<R>(
        &mut self,
        index: usize,
        ctx: &mut Context<'_>,
        call: impl FnOnce(&mut dyn Stage, &mut dyn Link, &mut dyn Link, &mut Call<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let ctx = ctx.member(index)?;
        let source = self.source.as_ref();
        let (before, behind) = self.links.split_at_mut(index + 1);
        let (input, output) = (&mut *before[index], &mut *behind[0]);
        let batch = if index == 0 { source } else { None };
        let outcome = call(&mut *self.stages[index], input, output, &mut Call { batch, ctx })
            .map_err(|e| with_record(e, source).at("operator", &ctx.info().name))?;
        if let Some((out, into)) = self.between.get(index) {
            let rows = self.links[index + 1].len() as u64;
            out.add(rows);
            into.add(rows);
        } else {
            let schema = ctx.info().output.clone();
            while self.links[index + 1].len() > 0 {
                let batch = self.stages[index].encode(&mut *self.links[index + 1], &schema)?;
                ctx.emit(batch);
            }
        }
        Ok(outcome)
    }

    /// Works off all rows between stages, most downstream first; `Again` once a stage with more to give has given.
    fn drive(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        let mut more = false;
        loop {
            let waiting = |&index: &usize| self.again[index] || self.links[index].len() > 0;
            let Some(index) = (0..self.stages.len()).rev().find(waiting) else { break };
            if more && self.again[index] {
                return Ok(Progress::Again);
            }
            let progress = self.call(index, ctx, |stage, input, out, call| stage.run(input, out, call))?;
            self.again[index] = progress == Progress::Again;
            more |= self.again[index];
        }
        self.source = None;
        Ok(Progress::Done)
    }

    /// Goes on with rows, then with a watermark on its way through the stages.
    fn advance(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        while self.drive(ctx)? == Progress::Done {
            let Some((index, at)) = self.watermark else { return Ok(Progress::Done) };
            if index == self.stages.len() {
                self.watermark = None;
                return Ok(Progress::Done);
            }
            let progress = self.call(index, ctx, |stage, _, out, call| stage.on_watermark(at, out, call.ctx))?;
            if progress == Progress::Done {
                self.watermark = Some((index + 1, at));
            } else {
                // It gives more in the next call; what it gave goes down now.
                return self.drive(ctx).map(|_| Progress::Again);
            }
        }
        Ok(Progress::Again)
    }
}

/// Adds the record an error is about, if the error says which row.
fn with_record(error: Error, source: Option<&Batch>) -> Error {
    let row = error.place("row").and_then(|row| row.parse::<usize>().ok());
    match (row, source) {
        (Some(row), Some(batch)) if row < batch.num_rows() => error.at("record", row_text(batch, row)),
        _ => error,
    }
}

/// A row for people: `{user: 7, url: /index}`.
fn row_text(batch: &Batch, row: usize) -> String {
    let schema = batch.schema();
    let visible = schema.fields().iter().zip(batch.columns().columns()).filter(|(f, _)| !f.name().starts_with("__key"));
    let options = FormatOptions::default().with_null("NULL");
    let text = |(field, column): (&Arc<arrow_schema::Field>, &arrow_array::ArrayRef)| {
        let value = ArrayFormatter::try_new(column, &options).map(|f| f.value(row).to_string());
        format!("{}: {}", field.name(), value.unwrap_or_else(|_| "?".to_owned()))
    };
    format!("{{{}}}", visible.map(text).collect::<Vec<_>>().join(", "))
}

impl Operator for Fused {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        for (index, stage) in self.stages.iter_mut().enumerate() {
            let ctx = ctx.member(index)?;
            stage.open(ctx).map_err(|e| e.at("operator", &ctx.info().name))?;
        }
        for index in 1..self.stages.len() {
            let out = ctx.member(index - 1)?.metrics().counter("numRecordsOut");
            self.between.push((out, ctx.member(index)?.metrics().counter("numRecordsIn")));
        }
        Ok(())
    }

    fn process(&mut self, _input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let decoded = self.stages[0].decode(&batch, &mut *self.links[0]);
        decoded.map_err(|e| with_record(e, Some(&batch)).at("operator", &ctx.info().name))?;
        self.source = Some(batch);
        self.advance(ctx)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        self.advance(ctx)
    }

    fn on_timers(&mut self, timers: &[Timer], ctx: &mut Context<'_>) -> Result<Progress> {
        let member = ctx.current();
        self.call(member, ctx, |stage, _, out, call| stage.on_timers(timers, out, call.ctx))?;
        self.advance(ctx)
    }

    fn on_watermark(&mut self, at: Timestamp, ctx: &mut Context<'_>) -> Result<Progress> {
        self.watermark = Some((0, at));
        self.advance(ctx)
    }

    fn on_response(&mut self, response: Response, ctx: &mut Context<'_>) -> Result<Progress> {
        let member = ctx.current();
        self.call(member, ctx, |stage, _, out, _| stage.on_response(response, out))?;
        self.advance(ctx)
    }
}
