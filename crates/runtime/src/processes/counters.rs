//! The counters of a job's workers: a worker tells what has grown ([`Told`]), the master adds it up ([`Heard`]). On the
//! way operators and names are numbers: both sides number the operators of a host in the order of its tasks and their
//! chains, and a name travels once an attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use flott_core::{Error, Metrics, OperatorInfo, Result};
use flott_plan::{ExecutionGraph, HostId, TaskId};
use serde::{Deserialize, Serialize};

use crate::local::{JobMetrics, OperatorMetrics};
use crate::master::Attempt;

/// Names of counters that a host tells of; those beyond, made from data perhaps, are not told.
const MAX_NAMES: usize = 1 << 12;

/// What has grown since the last time in an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grown {
    /// Names that were not told before, numbered on from those.
    pub names: Vec<String>,
    /// Operator, name, by how much.
    pub by: Vec<(u32, u32, u64)>,
}

/// The operators of a host, as both sides number them.
fn operators_on(graph: &ExecutionGraph, host: HostId) -> Vec<(TaskId, Arc<OperatorInfo>)> {
    let of_task = |task: TaskId| {
        let members = graph.job.vertex(task.vertex).map_or(0, |vertex| vertex.chain.len());
        (0..members)
            .filter_map(move |member| Some((task, Arc::new(graph.job.operator_info(task.vertex, member, task.index)?))))
    };
    graph.tasks_on(host).flat_map(of_task).collect()
}

/// A worker's side: what the master knows.
pub(super) struct Told {
    graph: Arc<ExecutionGraph>,
    host: HostId,
    metrics: JobMetrics,
    attempt: Attempt,
    names: BTreeMap<String, u32>,
    operators: Vec<Operator>,
}

struct Operator {
    task: TaskId,
    number: u32,
    metrics: Metrics,
    told: BTreeMap<u32, u64>,
}

impl Told {
    /// `metrics` are those of this process.
    pub(super) fn new(graph: Arc<ExecutionGraph>, host: HostId, metrics: JobMetrics) -> Self {
        Self { graph, host, metrics, attempt: Attempt(0), names: BTreeMap::new(), operators: Vec::new() }
    }

    /// What the counters of a task, or of all, have grown by since the last time, if any has. The tasks of the attempt
    /// are there by then.
    pub(super) fn grown(&mut self, attempt: Attempt, of: Option<TaskId>) -> Option<Grown> {
        if attempt < self.attempt {
            return None;
        }
        if attempt > self.attempt {
            self.begin(attempt);
        }
        let mut grown = Grown::default();
        for operator in self.operators.iter_mut().filter(|operator| of.is_none_or(|task| operator.task == task)) {
            for (name, count) in operator.metrics.read() {
                let number = match self.names.get(&name) {
                    Some(number) => *number,
                    None if self.names.len() == MAX_NAMES => continue,
                    None => {
                        let number = self.names.len() as u32;
                        grown.names.push(name.clone());
                        self.names.insert(name, number);
                        number
                    }
                };
                // One that is new is told even at zero: then it is there to be seen.
                let told = operator.told.insert(number, count);
                if told != Some(count) {
                    grown.by.push((operator.number, number, count.saturating_sub(told.unwrap_or(0))));
                }
            }
        }
        (!grown.by.is_empty()).then_some(grown)
    }

    fn begin(&mut self, attempt: Attempt) {
        self.attempt = attempt;
        self.names.clear();
        let numbered = operators_on(&self.graph, self.host);
        let numbers: BTreeMap<_, _> = (0..).zip(&numbered).map(|(n, (task, o))| ((*task, o.uid.clone()), n)).collect();
        let operators = self.metrics.operators().into_iter().filter_map(|OperatorMetrics { task, info, metrics }| {
            let number = *numbers.get(&(task, info.uid.clone()))?;
            Some(Operator { task, number, metrics, told: BTreeMap::new() })
        });
        self.operators = operators.collect();
    }
}

/// The master's side: the counters of a worker in an attempt.
pub(super) struct Heard {
    operators: Vec<Metrics>,
    names: Vec<String>,
}

impl Heard {
    /// Shows the operators of a worker, at zero, among the job's.
    pub(super) fn begin(graph: &ExecutionGraph, host: HostId, metrics: &JobMetrics) -> Self {
        let operators = operators_on(graph, host).into_iter();
        let of_host: Vec<_> =
            operators.map(|(task, info)| OperatorMetrics { task, info, metrics: Metrics::default() }).collect();
        let operators = of_host.iter().map(|operator| operator.metrics.clone()).collect();
        metrics.set(host, of_host);
        Self { operators, names: Vec::new() }
    }

    /// Adds what the worker tells.
    pub(super) fn add(&mut self, grown: Grown) -> Result<()> {
        self.names.extend(grown.names);
        for (operator, name, by) in grown.by {
            let of = self.operators.get(operator as usize).zip(self.names.get(name as usize));
            let (operator, name) =
                of.ok_or_else(|| Error::internal("a worker counts for an operator that it lacks"))?;
            operator.counter(name).add(by);
        }
        Ok(())
    }
}
