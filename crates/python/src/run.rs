//! The fused operator: a run of Python functions, called for a whole batch under one attachment.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_buffer::ScalarBuffer;
use flott_core::state::{Handle, Keys};
use flott_core::{
    Batch, Context, Counter, Error, InputId, Namespace, Namespaces, Operator, Progress, Result, Slot, state::TableId,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::columns::{self, Misfit};
use crate::interpreter::{self, attach};
use crate::shape::{RunMember, Shape};
use crate::state::ObjectColumn;

/// The table and the state of a reduce.
const TABLE: &str = "reduce";
const STATE: &str = "value";

pub(crate) struct PythonRun {
    members: Vec<RunMember>,
    shape: Shape,
    /// The functions, loaded and opened.
    program: Option<Py<PyAny>>,
    state: Option<(TableId, Handle<ObjectColumn>)>,
    working: WorkingSet,
    /// A batch whose rows have not all left.
    pending: Option<Pending>,
    /// State has been turned into bytes since the last batch.
    is_flushed: bool,
    /// Of each member: rows in and rows out.
    counters: Vec<(Counter, Counter)>,
}

/// What a call needs of the batch it works on.
struct Pending {
    batch: Batch,
    rows: Py<PyList>,
    keys: Option<Keys>,
    /// The values of the batch's keys, in the order of [`WorkingSet::distinct`].
    values: Py<PyList>,
    /// The loop, where it gives chunks.
    chunks: Option<Py<PyAny>>,
}

/// What the loop in Python answers.
struct Answer<'py> {
    /// Rows follow.
    more: bool,
    /// Rows that left, per member.
    counts: Vec<u64>,
    values: Option<Bound<'py, PyList>>,
    keys: Option<Bound<'py, PyList>>,
    origins: Option<Vec<u32>>,
}

/// A chunk of rows on its way out.
struct Chunk {
    more: bool,
    counts: Vec<u64>,
    columns: Vec<ArrayRef>,
    rows: usize,
    origins: Option<Vec<u32>>,
}

/// A chunk of a batch, and what is left of the batch.
struct Step {
    batch: Batch,
    chunk: Chunk,
    pending: Option<Pending>,
}

/// The distinct slots of a batch and, for each row, the position of its own among them.
#[derive(Default)]
struct WorkingSet {
    slots: Vec<Slot>,
    distinct: Vec<Slot>,
    positions: Vec<u32>,
    /// Of a slot, while a batch is indexed.
    position_of: Vec<u32>,
}

impl WorkingSet {
    fn index(&mut self) -> Result<()> {
        const NONE: u32 = u32::MAX;
        self.distinct.clear();
        self.positions.clear();
        let slots = self.slots.iter().map(|slot| slot.index() + 1).max().unwrap_or(0);
        if self.position_of.len() < slots {
            self.position_of.resize(slots, NONE);
        }
        for slot in &self.slots {
            let position = &mut self.position_of[slot.index()];
            if *position == NONE {
                *position = u32::try_from(self.distinct.len()).map_err(|_| Error::internal("a batch of 2^32 keys"))?;
                self.distinct.push(*slot);
            }
            self.positions.push(*position);
        }
        for slot in &self.distinct {
            self.position_of[slot.index()] = NONE;
        }
        Ok(())
    }
}

impl PythonRun {
    pub(crate) fn new(members: Vec<RunMember>) -> Result<Self> {
        let shape = Shape::of(&members)?;
        Ok(Self {
            members,
            shape,
            program: None,
            state: None,
            working: WorkingSet::default(),
            pending: None,
            is_flushed: false,
            counters: Vec::new(),
        })
    }

    /// Looks up the slots of the rows and which of them are distinct.
    fn locate(&mut self, keys: &Keys, ctx: &mut Context<'_>) -> Result<()> {
        let Some((table, _)) = self.state else { return Err(not_open()) };
        self.working.slots.clear();
        let state = ctx.member(0)?.state()?;
        state.locate(table, keys, Namespaces::All(Namespace::VOID), &mut self.working.slots)?;
        self.working.index()
    }

    fn begin<'py>(&self, py: Python<'py>, batch: Batch, keys: Option<Keys>, ctx: &mut Context<'_>) -> Result<Pending> {
        let program = self.program.as_ref().ok_or_else(not_open)?.bind(py);
        let rows = columns::to_python(py, batch.columns().columns(), batch.num_rows(), &self.shape.input)?;
        let values = PyList::empty(py);
        if let (Some(_), Some((_, handle))) = (&keys, self.state) {
            let column = ctx.member(0)?.state()?.get_mut(handle)?;
            for slot in &self.working.distinct {
                values.append(column.take(py, *slot)?).map_err(|e| interpreter::exception(py, &e))?;
            }
        }
        let mut pending =
            Pending { batch, rows: rows.clone().unbind(), keys, values: values.clone().unbind(), chunks: None };
        if self.shape.is_chunked {
            let is_tracked = self.is_tracked(&pending.batch);
            let positions = self.positions(py)?;
            let chunks = program.call_method1("chunks", (is_tracked, rows, values, positions));
            pending.chunks = Some(chunks.map_err(|e| interpreter::exception(py, &e))?.unbind());
        }
        Ok(pending)
    }

    fn positions<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        PyList::new(py, &self.working.positions).map_err(|e| interpreter::exception(py, &e))
    }

    /// Whether it must be known which row in a row out comes from.
    fn is_tracked(&self, batch: &Batch) -> bool {
        !self.shape.is_one_to_one
            && (batch.event_times().is_some() || batch.row_kinds().is_some() || self.shape.producer.is_none())
    }

    /// Runs the loop to its end or to the end of a chunk.
    fn advance(&self, py: Python<'_>, pending: &Pending) -> Result<Chunk> {
        let program = self.program.as_ref().ok_or_else(not_open)?.bind(py);
        let answer = match &pending.chunks {
            Some(chunks) => chunks.bind(py).call_method0("__next__"),
            None => {
                let positions = self.positions(py)?;
                let is_tracked = self.is_tracked(&pending.batch);
                program.call_method1("run", (is_tracked, &pending.rows, &pending.values, positions))
            }
        };
        let answer = answer.map_err(|e| self.failure(py, program, &e))?;
        let (more, counts, values, keys, origins) = answer.extract().map_err(|e| interpreter::exception(py, &e))?;
        self.to_chunk(py, pending, Answer { more, counts, values, keys, origins })
    }

    fn to_chunk(&self, py: Python<'_>, pending: &Pending, answer: Answer<'_>) -> Result<Chunk> {
        let batch = &pending.batch;
        let mut columns = match (&self.shape.producer, &answer.values, &answer.origins) {
            (Some((member, of)), Some(values), _) => columns::from_python(values, of)
                .map_err(|e| self.misfit(*member, &e, self.record_of(py, pending, &answer, e.row)))?,
            (None, _, None) => self.value_columns(batch)?,
            (None, _, Some(origins)) => {
                let kept = batch.take(&UInt32Array::from(origins.clone()))?;
                self.value_columns(&kept)?
            }
            (Some(_), None, _) => return Err(Error::internal("a run answered without values")),
        };
        let rows = match (&answer.values, &answer.origins) {
            (Some(values), _) => values.len(),
            (None, Some(origins)) => origins.len(),
            (None, None) => batch.num_rows(),
        };
        if let (Some(of), Some(keys)) = (&self.shape.key, &answer.keys) {
            let last = self.members.len() - 1;
            let record = |row| match &answer.values {
                Some(values) => values.get_item(row).ok(),
                None => self.record_of(py, pending, &answer, row),
            };
            columns.extend(columns::from_keys(keys, of).map_err(|e| self.misfit(last, &e, record(e.row)))?);
        }
        Ok(Chunk { more: answer.more, counts: answer.counts, columns, rows, origins: answer.origins })
    }

    /// The columns that came in, without those of a key.
    fn value_columns(&self, batch: &Batch) -> Result<Vec<ArrayRef>> {
        let columns = batch.columns().columns().get(..self.shape.input.width());
        columns.map(<[_]>::to_vec).ok_or_else(|| Error::internal("a batch with fewer columns than its type"))
    }

    /// The record that came in and went out as `row`, where that is known.
    fn record_of<'py>(
        &self,
        py: Python<'py>,
        pending: &Pending,
        answer: &Answer<'_>,
        row: usize,
    ) -> Option<Bound<'py, PyAny>> {
        let origin = match &answer.origins {
            Some(origins) => *origins.get(row)? as usize,
            None if self.shape.is_one_to_one => row,
            None => return None,
        };
        pending.rows.bind(py).get_item(origin).ok()
    }

    fn misfit(&self, member: usize, misfit: &Misfit, record: Option<Bound<'_, PyAny>>) -> Error {
        let error = misfit.error().at("operator", &self.members[member].1.name);
        match record {
            Some(record) => error.at("record", columns::look(&record)),
            None => error,
        }
    }

    /// The exception of a function: the user's traceback, the operator and the record it was given.
    fn failure(&self, py: Python<'_>, program: &Bound<'_, PyAny>, error: &PyErr) -> Error {
        let told = program.call_method1("failure", (interpreter::raised(py, error),));
        let told = told.and_then(|told| told.extract::<(Option<usize>, Option<Bound<'_, PyAny>>, String)>());
        let Ok((member, record, text)) = told else { return interpreter::exception(py, error) };
        let mut error = Error::user(text);
        if let Some((_, info)) = member.and_then(|member| self.members.get(member)) {
            error = error.at("operator", &info.name);
        }
        match record {
            Some(record) => error.at("record", columns::look(&record)),
            None => error,
        }
    }

    /// The values of the batch's keys go back where they came from.
    fn write_back(&self, py: Python<'_>, pending: &Pending, ctx: &mut Context<'_>) -> Result<()> {
        let Some((_, handle)) = self.state else { return Ok(()) };
        let column = ctx.member(0)?.state()?.get_mut(handle)?;
        for (slot, value) in self.working.distinct.iter().zip(pending.values.bind(py).iter()) {
            column.put(*slot, value);
        }
        Ok(())
    }

    fn emit(&self, batch: &Batch, chunk: Chunk, ctx: &mut Context<'_>) -> Result<()> {
        for (member, rows) in chunk.counts.iter().enumerate() {
            if let Some((_, out)) = self.counters.get(member) {
                out.add(*rows);
            }
            if let Some((into, _)) = self.counters.get(member + 1) {
                into.add(*rows);
            }
        }
        let last = self.members.len() - 1;
        let ctx = ctx.member(last)?;
        let out = Batch::of(ctx.info().output.clone(), chunk.columns, chunk.rows)?;
        let out = match &chunk.origins {
            None => out.with_event_times(batch.event_times().cloned()).with_row_kinds(batch.row_kinds().cloned()),
            Some(origins) => {
                let gather = |kinds: &ScalarBuffer<u8>| origins.iter().map(|&i| kinds[i as usize]).collect();
                let times = batch.event_times().map(|times| origins.iter().map(|&i| times[i as usize]).collect());
                out.with_event_times(times).with_row_kinds(batch.row_kinds().map(gather))
            }
        };
        ctx.emit(out);
        Ok(())
    }

    /// Runs to the end of a chunk. What is done with is let go of here, while the interpreter is attached.
    fn step(&self, py: Python<'_>, pending: Pending, ctx: &mut Context<'_>) -> Result<Step> {
        let chunk = self.advance(py, &pending)?;
        let batch = pending.batch.clone();
        if chunk.more {
            return Ok(Step { batch, chunk, pending: Some(pending) });
        }
        self.write_back(py, &pending, ctx)?;
        Ok(Step { batch, chunk, pending: None })
    }

    fn take_step(&mut self, step: Step, ctx: &mut Context<'_>) -> Result<Progress> {
        self.emit(&step.batch, step.chunk, ctx)?;
        self.pending = step.pending;
        Ok(if self.pending.is_some() { Progress::Again } else { Progress::Done })
    }
}

impl Operator for PythonRun {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        if self.shape.is_keyed {
            let state = ctx.member(0)?.state()?;
            let table = state.open_table(TABLE, false)?;
            self.state = Some((table, state.open(table, STATE, ObjectColumn::default())?));
        }
        for member in 0..self.members.len() {
            let metrics = ctx.member(member)?.metrics();
            self.counters.push((metrics.counter("numRecordsIn"), metrics.counter("numRecordsOut")));
        }
        if self.shape.has_functions {
            self.program = Some(attach(|py| load(py, &self.members, &self.shape))?);
        }
        Ok(())
    }

    fn process(&mut self, input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        if batch.is_empty() {
            return Ok(Progress::Done);
        }
        if !self.shape.has_functions {
            let columns = self.value_columns(&batch)?;
            let rows = batch.num_rows();
            let chunk =
                Chunk { more: false, counts: vec![rows as u64; self.members.len() - 1], columns, rows, origins: None };
            return self.emit(&batch, chunk, ctx).map(|()| Progress::Done);
        }
        if std::mem::take(&mut self.is_flushed)
            && let Some((_, handle)) = self.state
        {
            ctx.member(0)?.state()?.get_mut(handle)?.forget_bytes();
        }
        let keys = if self.shape.is_keyed { Some(ctx.member(0)?.keys(input, &batch)?) } else { None };
        if let Some(keys) = &keys {
            self.locate(keys, ctx)?;
        }
        let step = attach(|py| {
            let pending = self.begin(py, batch, keys, ctx)?;
            self.step(py, pending, ctx)
        })?;
        self.take_step(step, ctx)
    }

    fn resume(&mut self, ctx: &mut Context<'_>) -> Result<Progress> {
        let Some(pending) = self.pending.take() else { return Ok(Progress::Done) };
        // Slots are of one call only; the order of the distinct ones is that of the rows, so it is the same again.
        if let Some(keys) = &pending.keys {
            self.locate(keys, ctx)?;
        }
        let step = attach(|py| self.step(py, pending, ctx))?;
        self.take_step(step, ctx)
    }

    fn flush(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let Some((_, handle)) = self.state else { return Ok(()) };
        self.is_flushed = true;
        let column = ctx.member(0)?.state()?.get_mut(handle)?;
        attach(|py| column.encode_all(py))
    }

    /// Whatever a function does, it may have to wait for the interpreter.
    fn blocks(&self) -> bool {
        self.shape.has_functions
    }

    fn finish(&mut self, _ctx: &mut Context<'_>) -> Result<Progress> {
        if let Some(program) = self.program.take() {
            attach(|py| {
                {
                    let program = program.into_bound(py);
                    program.call_method0("close").map_err(|e| self.failure(py, &program, &e))
                }
                .map(drop)
            })?;
        }
        Ok(Progress::Done)
    }
}

impl Drop for PythonRun {
    /// A job that failed or was cancelled: the functions' `close` still runs.
    fn drop(&mut self) {
        let Some(program) = self.program.take() else { return };
        Python::try_attach(move |py| {
            let program = program.into_bound(py);
            if let Err(e) = program.call_method0("close") {
                e.write_unraisable(py, Some(&program));
            }
        });
    }
}

/// The functions of the members, out of cloudpickle's bytes, as the loop of this run.
fn load(py: Python<'_>, members: &[RunMember], shape: &Shape) -> Result<Py<PyAny>> {
    let program = py.import("flott._run").and_then(|run| run.call_method1("Program", (shape.producer.is_some(),)));
    let program = program.map_err(|e| interpreter::exception(py, &e))?;
    for (member, info) in members {
        let task = (info.name.as_str(), info.index, info.parallelism, info.max_parallelism);
        let function = PyBytes::new(py, &member.function);
        program
            .call_method1("add", (member.kind.as_str(), function, task))
            .map_err(|e| interpreter::exception(py, &e).at("operator", &info.name))?;
    }
    Ok(program.unbind())
}

fn not_open() -> Error {
    Error::internal("a Python operator was used before it was opened")
}
