//! Drives the parallel tasks of one operator, or of a fused run, through the core contract: [`Driver`].
//!
//! It does what the contract asks of a runtime and nothing more: no channel, thread or barrier.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};

use arrow_array::UInt32Array;
use flott_core::state::snapshot::StateSection;
use flott_core::state::timers::TimeDomain;
use flott_core::state::{KeyScope, Keys};
use flott_core::{
    Batch, Context, Error, InputId, KeyGroup, KeyedState, Member, Metrics, Operator, OperatorInfo, OperatorState,
    Outbox, OutputId, Progress, Registry, Request, RequestOrder, Response, Result, Spec, Timestamp,
};

use super::rows::{parse_rows, print_rows};
use super::table::{Command, MemberSetup, Setup};

const MAX_PARALLELISM: u32 = 128;

/// How a table is run.
#[derive(Clone, Copy, Debug)]
pub struct Variation {
    /// For messages.
    pub name: &'static str,
    /// The most rows in a batch, timers in a chunk and slots in a time.
    pub chunk: usize,
    /// After every step the tasks are replaced, through a snapshot, by so many.
    pub restore_each: Option<u32>,
}

struct Task {
    operator: Box<dyn Operator>,
    /// The first is the keyed one if any is: an exchange ends a run.
    members: Vec<Member>,
}

/// What a watermark waits behind, and the watermarks that wait.
#[expect(clippy::large_enum_variant, reason = "a handful in a test")]
enum Pending {
    Request { task: usize, request: Request, answer: Option<Result<Batch>> },
    Watermark(Timestamp),
}

impl Pending {
    /// Answers a request, whose future must be ready.
    fn complete(&mut self) -> Result<()> {
        let Self::Request { request, answer, .. } = self else { return Ok(()) };
        let mut context = std::task::Context::from_waker(Waker::noop());
        match request.future.as_mut().poll(&mut context) {
            Poll::Ready(ready) => *answer = Some(ready),
            Poll::Pending => return Err(Error::user("a request of a table must be answered at once")),
        }
        Ok(())
    }
}

enum SavedPending {
    /// What was asked with, and whether the answer had come and waited for its turn.
    Request(Batch, bool),
    Watermark(Timestamp),
}

struct Snapshot {
    sections: Vec<StateSection>,
    /// For each member its state in every task.
    operator: Vec<Vec<OperatorState>>,
    watermark: Timestamp,
    pending: Vec<SavedPending>,
}

/// The tasks of one operator or fused run.
pub struct Driver<'a> {
    registry: &'a Registry,
    setup: &'a Setup,
    chunk: usize,
    tasks: Vec<Task>,
    watermark: Timestamp,
    now: Timestamp,
    pending: VecDeque<Pending>,
    rows_seen: usize,
    saved: Option<Snapshot>,
    past_metrics: BTreeMap<String, u64>,
    lines: Vec<String>,
}

impl<'a> Driver<'a> {
    /// Opens the tasks of `setup`.
    pub fn new(registry: &'a Registry, setup: &'a Setup, chunk: usize) -> Result<Self> {
        let mut driver = Self {
            registry,
            setup,
            chunk,
            tasks: Vec::new(),
            watermark: Timestamp::MIN,
            now: Timestamp(0),
            pending: VecDeque::new(),
            rows_seen: 0,
            saved: None,
            past_metrics: BTreeMap::new(),
            lines: Vec::new(),
        };
        driver.start(setup.parallelism, &[], &[])?;
        Ok(driver)
    }

    fn start(&mut self, parallelism: u32, sections: &[StateSection], operator: &[Vec<OperatorState>]) -> Result<()> {
        self.tasks.clear();
        for index in 0..parallelism {
            let specs = self.specs(index, parallelism)?;
            let [(first, info), rest @ ..] = &specs[..] else {
                return Err(Error::user("the table has no 'operator:' line"));
            };
            let factory = self.registry.operator(&first.factory)?;
            let run = if rest.is_empty() { factory.create(first, info)? } else { factory.fuse(&specs)? };
            let mut members = Vec::new();
            for (at, (_, info)) in specs.into_iter().enumerate() {
                let old = operator.get(at).map_or(&[][..], Vec::as_slice);
                members.push(Member {
                    state: if at == 0 { self.keyed_state(index, parallelism, sections)? } else { None },
                    operator_state: OperatorState::redistribute(old, index, parallelism),
                    metrics: Metrics::default(),
                    info,
                });
            }
            self.tasks.push(Task { operator: run, members });
            self.call(index as usize, |operator, ctx| operator.open(ctx).map(|()| Progress::Done))?;
        }
        Ok(())
    }

    /// What each member is made of in one task.
    fn specs(&self, index: u32, parallelism: u32) -> Result<Vec<(Spec, Arc<OperatorInfo>)>> {
        let (mut inputs, mut keys): (Vec<_>, Vec<_>) = self.setup.inputs.iter().cloned().unzip();
        let mut specs = Vec::new();
        for MemberSetup { spec, output, sides } in &self.setup.members {
            let output =
                output.clone().ok_or_else(|| Error::user(format!("'{}' has no 'output:' line", spec.factory)))?;
            let info = OperatorInfo {
                uid: spec.factory.clone(),
                name: spec.factory.clone(),
                index,
                parallelism,
                max_parallelism: MAX_PARALLELISM,
                inputs: std::mem::replace(&mut inputs, vec![output.clone()]),
                output,
                side_outputs: sides.clone(),
                keys: std::mem::replace(&mut keys, vec![Vec::new()]),
            };
            specs.push((spec.clone(), Arc::new(info)));
        }
        Ok(specs)
    }

    fn keyed_state(
        &self,
        index: u32,
        parallelism: u32,
        sections: &[StateSection],
    ) -> Result<Option<Box<dyn KeyedState>>> {
        let Some((schema, keys)) = self.setup.inputs.iter().find(|(_, keys)| !keys.is_empty()) else {
            return Ok(None);
        };
        let scope = KeyScope {
            key_types: keys.iter().map(|&i| schema.field(i).data_type().clone()).collect(),
            key_groups: KeyGroup::range(index, parallelism, MAX_PARALLELISM),
            max_parallelism: MAX_PARALLELISM,
        };
        self.registry.backend("hashmap")?.create(scope, sections.to_vec()).map(Some)
    }

    /// Does a command and answers with the lines it gave; after an error the driver is of no more use.
    pub fn run(&mut self, command: &Command) -> (Vec<String>, bool) {
        let done = match command {
            Command::Rows(input, rows) => self.rows(*input, rows),
            Command::Watermark(at) => {
                self.pending.push_back(Pending::Watermark(*at));
                self.drain()
            }
            Command::Time(now) => self.processing_time(*now),
            Command::Snapshot => self.snapshot().map(|snapshot| self.saved = Some(snapshot)),
            Command::Restore(parallelism) => match self.saved.take() {
                Some(saved) => self.restore(&saved, *parallelism).map(|()| self.saved = Some(saved)),
                None => Err(Error::user("there is no snapshot to restore")),
            },
            Command::Answer(row) => self.answer(row.as_deref()),
            Command::Finish => self.finish(),
            Command::Metrics => {
                let metrics = self.metrics();
                self.lines.extend(metrics.into_iter().map(|(name, count)| format!("= {name} {count}")));
                Ok(())
            }
        };
        let failed = done.is_err();
        if let Err(error) = done {
            self.lines.push(format!("= error: {error}"));
        }
        (std::mem::take(&mut self.lines), failed)
    }

    /// Replaces all tasks, through a snapshot, by `parallelism` new ones.
    pub fn move_to(&mut self, parallelism: u32) -> Result<()> {
        let snapshot = self.snapshot()?;
        self.restore(&snapshot, parallelism)
    }

    /// Rows go to the tasks that own them.
    fn feed(&mut self, input: InputId, batch: &Batch) -> Result<()> {
        for (task, part) in self.route(input, batch)? {
            self.call(task, |operator, ctx| operator.process(input, part, ctx))?;
        }
        self.drain()
    }

    /// How many tasks there are.
    pub fn parallelism(&self) -> usize {
        self.tasks.len()
    }

    /// The counters of all tasks, added up, restarts included; those of a run with their member's name.
    pub fn metrics(&self) -> BTreeMap<String, u64> {
        let mut sum = self.past_metrics.clone();
        for member in self.tasks.iter().flat_map(|task| &task.members) {
            let of = if self.setup.members.len() == 1 { String::new() } else { format!("{}.", member.info.name) };
            for (name, count) in member.metrics.read() {
                *sum.entry(of.clone() + &name).or_default() += count;
            }
        }
        sum
    }

    fn rows(&mut self, input: InputId, rows: &[String]) -> Result<()> {
        let Some((schema, _)) = self.setup.inputs.get(usize::from(input.0)) else {
            return Err(Error::user(format!("the table has no 'input {}:' line", input.0)));
        };
        for rows in rows.chunks(self.chunk) {
            let rows: Vec<_> = rows.iter().map(String::as_str).collect();
            let batch = parse_rows(schema, &rows)?;
            self.feed(input, &batch)?;
        }
        Ok(())
    }

    /// Each task's rows: by key group where the input is keyed, else in turn.
    fn route(&mut self, input: InputId, batch: &Batch) -> Result<Vec<(usize, Batch)>> {
        let (_, keys) = &self.setup.inputs[usize::from(input.0)];
        let parallelism = self.tasks.len();
        let mut batch = batch.clone();
        let owners: Vec<usize> = if keys.is_empty() {
            let start = self.rows_seen;
            self.rows_seen += batch.num_rows();
            (start..self.rows_seen).map(|row| row % parallelism).collect()
        } else {
            let hashes = Keys::of(keys.iter().map(|&i| batch.column(i).clone()).collect())?.hashes;
            let owner =
                |&hash: &u64| KeyGroup::of(hash, MAX_PARALLELISM).task(parallelism as u32, MAX_PARALLELISM) as usize;
            let owners = hashes.iter().map(owner).collect();
            batch = batch.with_key_hashes(Some(hashes));
            owners
        };
        let mut parts = Vec::new();
        for task in 0..parallelism {
            let rows: Vec<u32> = (0..batch.num_rows()).filter(|&r| owners[r] == task).map(|r| r as u32).collect();
            if rows.len() == batch.num_rows() {
                parts.push((task, batch.clone()));
            } else if !rows.is_empty() {
                parts.push((task, batch.take(&UInt32Array::from(rows))?));
            }
        }
        Ok(parts)
    }

    /// One call and, while there is more to emit, the resumptions of it.
    fn call(
        &mut self,
        task: usize,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> Result<Progress>,
    ) -> Result<()> {
        let mut progress = self.call_once(task, call)?;
        while progress == Progress::Again {
            progress = self.call_once(task, |operator, ctx| operator.resume(ctx))?;
        }
        Ok(())
    }

    fn call_once(
        &mut self,
        index: usize,
        call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> Result<Progress>,
    ) -> Result<Progress> {
        let task = &mut self.tasks[index];
        let mut out = Outbox::default();
        let mut ctx = Context::new(&mut task.members, 0, &mut out, self.watermark, self.now);
        let progress = call(&mut *task.operator, &mut ctx)?;
        if let Some(state) = &mut task.members[0].state {
            state.end_call()?;
        }
        for emitted in out.emitted {
            let mark = match emitted.output {
                OutputId::MAIN if emitted.member + 1 == self.setup.members.len() => "=".to_owned(),
                OutputId::MAIN => return Err(Error::internal("rows between the members of a run are nobody else's")),
                OutputId(n) => format!("={}", self.setup.members[emitted.member].sides[usize::from(n) - 1].0),
            };
            self.lines.extend(print_rows(&emitted.batch)?.into_iter().map(|row| format!("{mark} {row}")));
        }
        for (member, request) in out.requests {
            if member != 0 {
                return Err(Error::internal("the tables know requests of the first member only"));
            }
            self.pending.push_back(Pending::Request { task: index, request, answer: None });
        }
        Ok(progress)
    }

    /// Delivers answers and watermarks as far as the order of requests allows.
    fn drain(&mut self) -> Result<()> {
        while let Some(at) = self.deliverable() {
            match self.pending.remove(at) {
                Some(Pending::Watermark(at)) => self.raise_watermark(at)?,
                Some(Pending::Request { task, request, answer: Some(answer) }) => {
                    let response = Response { payload: request.payload, answer };
                    self.call(task, |operator, ctx| operator.on_response(response, ctx))?;
                }
                Some(Pending::Request { .. }) | None => return Ok(()),
            }
        }
        Ok(())
    }

    fn deliverable(&self) -> Option<usize> {
        for (i, pending) in self.pending.iter().enumerate() {
            match pending {
                Pending::Watermark(_) => return (i == 0).then_some(0),
                Pending::Request { answer: Some(_), .. } => return Some(i),
                Pending::Request { request, .. } if request.order == RequestOrder::Ordered => return None,
                Pending::Request { .. } => {}
            }
        }
        None
    }

    fn raise_watermark(&mut self, at: Timestamp) -> Result<()> {
        self.watermark = self.watermark.max(at);
        let at = self.watermark;
        for task in 0..self.tasks.len() {
            self.call(task, |operator, ctx| operator.on_watermark(at, ctx))?;
            self.fire(task, TimeDomain::EventTime, at)?;
        }
        self.lines.push(format!("= watermark {at}"));
        Ok(())
    }

    fn processing_time(&mut self, now: Timestamp) -> Result<()> {
        self.now = self.now.max(now);
        for task in 0..self.tasks.len() {
            self.fire(task, TimeDomain::ProcessingTime, self.now)?;
        }
        self.drain()
    }

    fn fire(&mut self, task: usize, domain: TimeDomain, up_to: Timestamp) -> Result<()> {
        if self.tasks[task].members[0].state.is_none() {
            return Ok(());
        }
        let limit = self.chunk;
        let mut more = true;
        while more {
            self.call(task, |operator, ctx| {
                let mut due = Vec::new();
                more = ctx.state()?.due_timers(domain, up_to, limit, &mut due)?;
                if due.is_empty() { Ok(Progress::Done) } else { operator.on_timers(&due, ctx) }
            })?;
        }
        Ok(())
    }

    fn answer(&mut self, row: Option<&str>) -> Result<()> {
        let mut found = false;
        for pending in &mut self.pending {
            let Pending::Request { request, answer: None, .. } = pending else { continue };
            if row.is_none_or(|row| print_rows(&request.payload).is_ok_and(|rows| rows.iter().any(|r| r == row))) {
                pending.complete()?;
                found = true;
            }
        }
        if !found {
            return Err(Error::user("no such request is in flight"));
        }
        self.drain()
    }

    fn finish(&mut self) -> Result<()> {
        self.pending.push_back(Pending::Watermark(Timestamp::MAX));
        self.drain()?;
        if !self.pending.is_empty() {
            return Err(Error::user("the input ended while requests are in flight: answer them first"));
        }
        for task in 0..self.tasks.len() {
            self.call(task, |operator, ctx| operator.finish(ctx))?;
        }
        self.drain()
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        let mut sections = Vec::new();
        let mut operator = vec![Vec::new(); self.setup.members.len()];
        for task in 0..self.tasks.len() {
            self.call(task, |operator, ctx| operator.flush(ctx).map(|()| Progress::Done))?;
            for (member, of_tasks) in self.tasks[task].members.iter_mut().zip(&mut operator) {
                if let Some(state) = &mut member.state {
                    sections.extend(state.snapshot()?.complete()?);
                }
                of_tasks.push(member.operator_state.clone());
            }
        }
        let pending = self.pending.iter().map(|pending| match pending {
            Pending::Request { request, answer, .. } => {
                SavedPending::Request(request.payload.clone(), answer.is_some())
            }
            Pending::Watermark(at) => SavedPending::Watermark(*at),
        });
        Ok(Snapshot { sections, operator, watermark: self.watermark, pending: pending.collect() })
    }

    fn restore(&mut self, saved: &Snapshot, parallelism: u32) -> Result<()> {
        self.past_metrics = self.metrics();
        self.pending.clear();
        self.watermark = saved.watermark;
        self.start(parallelism, &saved.sections, &saved.operator)?;
        for task in &self.tasks {
            let unclaimed = task.members[0].state.as_ref().map_or_else(Vec::new, |state| state.unclaimed());
            if !unclaimed.is_empty() {
                return Err(Error::user(format!("restored state that nobody asked for: {}", unclaimed.join(", "))));
            }
        }
        for pending in &saved.pending {
            match pending {
                SavedPending::Watermark(at) => self.pending.push_back(Pending::Watermark(*at)),
                SavedPending::Request(payload, answered) => {
                    let before = self.pending.len();
                    for (task, part) in self.route(InputId(0), payload)? {
                        self.call(task, |operator, ctx| operator.reissue(part, ctx))?;
                    }
                    // A service that has answered once answers again.
                    if *answered {
                        self.pending.range_mut(before..).try_for_each(Pending::complete)?;
                    }
                }
            }
        }
        Ok(())
    }
}
