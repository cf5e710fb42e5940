//! `flott._engine._testing`: a fused run of a plan, driven by hand, without a runtime. For tests of flott itself.

use std::sync::Arc;

use flott_core::state::snapshot::StateSection;
use flott_core::state::{KeyScope, KeyedState, Keys};
use flott_core::{
    Batch, Context, Error, InputId, KeyGroup, Member, Metrics, Operator, OperatorFactory, OperatorInfo, OperatorState,
    Outbox, Progress, Result, RowKind, StateBackend, Timestamp,
};
use flott_plan::{JobGraph, NodeKind, StreamGraph, VertexId};
use flott_python::{MemberConfig, PythonFactory, TypeInfo, from_python, raise, to_python};
use flott_state::{HashMapBackend, decode_sections, encode_sections};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// The environment variable with which tests of flott ask for what only they have, in their process and its workers.
const TESTING_VARIABLE: &str = "FLOTT_TESTING";

/// Whether tests of flott have asked for what only they have.
#[expect(clippy::disallowed_methods, reason = "workers of a test inherit its environment, and nothing else")]
pub(crate) fn is_on() -> bool {
    std::env::var_os(TESTING_VARIABLE).is_some()
}

/// For tests of flott itself.
#[pymodule]
pub(crate) mod _testing {
    use super::*;

    #[pymodule_export]
    use super::{Harness, Rows};

    /// Set in the environment, jobs have the source `paced`.
    #[pymodule_export]
    const VARIABLE: &str = super::TESTING_VARIABLE;

    /// (how often the interpreter was attached, how often a state value was encoded) in this process.
    #[pyfunction]
    fn counts() -> (u64, u64) {
        flott_python::counts()
    }

    /// The chains of a plan: for each vertex the uids of its members.
    #[pyfunction]
    fn chains(plan: &[u8]) -> PyResult<Vec<Vec<String>>> {
        let job = StreamGraph::decode(plan).and_then(|graph| JobGraph::of(&graph)).map_err(|e| raise(&e))?;
        let uids = |v: &flott_plan::Vertex| v.chain.iter().map(|member| member.node.uid.clone()).collect();
        Ok(job.vertices.iter().map(uids).collect())
    }
}

/// A batch and the types of its values and of its hidden key.
#[pyclass(frozen, module = "flott._engine._testing")]
pub(crate) struct Rows {
    batch: Batch,
    of: TypeInfo,
    key: Option<TypeInfo>,
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The values.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        to_python(py, self.batch.columns().columns(), self.batch.num_rows(), &self.of).map_err(|e| raise(&e))
    }

    /// The keys; `None` where the rows have none.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(key) = &self.key else { return Ok(None) };
        let columns = &self.batch.columns().columns()[self.of.width()..];
        to_python(py, columns, self.batch.num_rows(), key).map(Some).map_err(|e| raise(&e))
    }

    /// Event times in ms; `None` where the rows have none.
    fn times(&self) -> Option<Vec<i64>> {
        self.batch.event_times().map(|times| times.to_vec())
    }

    /// Row kinds; `None` where all are `+I`.
    fn kinds(&self) -> PyResult<Option<Vec<&'static str>>> {
        let Some(kinds) = self.batch.row_kinds() else { return Ok(None) };
        let text = |kind: &u8| RowKind::from_byte(*kind).map(RowKind::as_str);
        kinds.iter().map(text).collect::<Result<_>>().map(Some).map_err(|e| raise(&e))
    }

    /// So many rows from row `at` on.
    fn slice(&self, at: usize, rows: usize) -> Self {
        Self { batch: self.batch.slice(at, rows), of: self.of.clone(), key: self.key.clone() }
    }

    /// The same rows with event times (ms) and row kinds (as bytes).
    #[pyo3(signature = (times = None, kinds = None))]
    fn with_times(&self, times: Option<Vec<i64>>, kinds: Option<Vec<u8>>) -> Self {
        let batch = self.batch.clone().with_event_times(times.map(Into::into)).with_row_kinds(kinds.map(Into::into));
        Self { batch, of: self.of.clone(), key: self.key.clone() }
    }
}

/// A run of Python operators of a plan, given by their uids, in one task.
#[pyclass(unsendable, module = "flott._engine._testing")]
pub(crate) struct Harness {
    operator: Box<dyn Operator>,
    members: Vec<Member>,
    first: MemberConfig,
    last: MemberConfig,
    out: Vec<Batch>,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 makes arguments out of Python objects")]
impl Harness {
    /// `restored`: what `snapshot` of any tasks gave.
    #[new]
    #[pyo3(signature = (plan, uids, index = 0, restored = Vec::new()))]
    fn new(py: Python<'_>, plan: Vec<u8>, uids: Vec<String>, index: u32, restored: Vec<Vec<u8>>) -> PyResult<Self> {
        py.detach(|| Self::open(&plan, &uids, index, &restored)).map_err(|e| raise(&e))
    }

    /// A batch of the type that goes in.
    fn rows(&self, values: &Bound<'_, PyList>) -> PyResult<Rows> {
        let of = self.first.input.clone();
        let batch = from_python(values, &of)
            .map_err(|misfit| misfit.error())
            .and_then(|columns| Batch::of(of.schema(None)?, columns, values.len()));
        Ok(Rows { batch: batch.map_err(|e| raise(&e))?, of, key: None })
    }

    /// Processes a batch, to the end. Returns how many calls that took.
    fn push(&mut self, py: Python<'_>, rows: &Rows) -> PyResult<usize> {
        let batch = rows.batch.clone();
        py.detach(|| self.process(batch)).map_err(|e| raise(&e))
    }

    /// For each row that is to come in, which of the run's parallel tasks owns its key.
    fn owners(&self, rows: &Rows) -> PyResult<Vec<u32>> {
        let info = &self.members[0].info;
        let columns = info.keys[0].iter().map(|&column| rows.batch.column(column).clone()).collect();
        let hashes = Keys::of(columns).map_err(|e| raise(&e))?.hashes;
        let owner = |&hash: &u64| KeyGroup::of(hash, info.max_parallelism).task(info.parallelism, info.max_parallelism);
        Ok(hashes.iter().map(owner).collect())
    }

    /// The batches that came out since the last time.
    fn take(&mut self) -> Vec<Rows> {
        let key = self.last.key.clone();
        let rows = |batch| Rows { batch, of: self.last.output.clone(), key: key.clone() };
        self.out.drain(..).map(rows).collect()
    }

    /// The keyed state of the first member, as bytes.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            self.call(|operator, ctx| operator.flush(ctx).map(|()| Progress::Done)).map(drop)?;
            let Some(state) = &mut self.members[0].state else { return Err(Error::user("it has no state")) };
            encode_sections(&state.snapshot()?.complete()?)
        });
        Ok(PyBytes::new(py, &bytes.map_err(|e| raise(&e))?))
    }

    /// The input has ended.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.call(|operator, ctx| operator.finish(ctx))).map(drop).map_err(|e| raise(&e))
    }

    /// The counters of a member.
    fn metrics(&self, member: usize) -> Vec<(String, u64)> {
        self.members[member].metrics.read()
    }
}

impl Harness {
    fn open(plan: &[u8], uids: &[String], index: u32, restored: &[Vec<u8>]) -> Result<Self> {
        let job = JobGraph::of(&StreamGraph::decode(plan)?)?;
        let members = uids.iter().map(|uid| member_of(&job, uid, index)).collect::<Result<Vec<_>>>()?;
        let configs = members.iter().map(|(spec, _)| MemberConfig::read(spec)).collect::<Result<Vec<_>>>()?;
        let (Some(first), Some(last)) = (configs.first().cloned(), configs.last().cloned()) else {
            return Err(Error::user("name at least one operator"));
        };
        let mut sections = Vec::new();
        for bytes in restored {
            sections.extend(decode_sections(bytes)?);
        }
        let operator = PythonFactory.fuse(&members)?;
        let mut of_first = Some(sections);
        let members = members
            .into_iter()
            .map(|(_, info)| {
                let state = keyed_state(&info, of_first.take().unwrap_or_default())?;
                Ok(Member { info, state, operator_state: OperatorState::default(), metrics: Metrics::default() })
            })
            .collect::<Result<_>>()?;
        let mut harness = Self { operator, members, first, last, out: Vec::new() };
        harness.call(|operator, ctx| operator.open(ctx).map(|()| Progress::Done)).map(drop)?;
        Ok(harness)
    }

    fn process(&mut self, batch: Batch) -> Result<usize> {
        let mut calls = 1;
        let mut progress = self.call(|operator, ctx| operator.process(InputId(0), batch, ctx))?;
        while progress == Progress::Again {
            progress = self.call(|operator, ctx| operator.resume(ctx))?;
            calls += 1;
        }
        Ok(calls)
    }

    fn call(&mut self, call: impl FnOnce(&mut dyn Operator, &mut Context<'_>) -> Result<Progress>) -> Result<Progress> {
        let mut out = Outbox::default();
        let mut ctx = Context::new(&mut self.members, 0, &mut out, Timestamp::MIN, Timestamp(0));
        let progress = call(&mut *self.operator, &mut ctx)?;
        for state in self.members.iter_mut().filter_map(|member| member.state.as_mut()) {
            state.end_call()?;
        }
        self.out.extend(out.emitted.into_iter().map(|emitted| emitted.batch));
        Ok(progress)
    }
}

fn member_of(job: &JobGraph, uid: &str, index: u32) -> Result<(flott_core::Spec, Arc<OperatorInfo>)> {
    for (vertex, at) in (0..).map(VertexId).zip(&job.vertices) {
        let Some(position) = at.chain.iter().position(|member| member.node.uid == uid) else { continue };
        let NodeKind::Operator(spec) = &at.chain[position].node.kind else { continue };
        let info = job.operator_info(vertex, position, index);
        return Ok((spec.clone(), Arc::new(info.ok_or_else(|| Error::internal("an operator without info"))?)));
    }
    Err(Error::user(format!("there is no operator of uid '{uid}'")))
}

fn keyed_state(info: &OperatorInfo, restored: Vec<StateSection>) -> Result<Option<Box<dyn KeyedState>>> {
    let Some((schema, columns)) = info.inputs.first().zip(info.keys.first()).filter(|(_, keys)| !keys.is_empty())
    else {
        return Ok(None);
    };
    let scope = KeyScope {
        key_types: columns.iter().map(|&column| schema.field(column).data_type().clone()).collect(),
        key_groups: KeyGroup::range(info.index, info.parallelism, info.max_parallelism),
        max_parallelism: info.max_parallelism,
    };
    HashMapBackend.create(scope, restored).map(Some)
}
