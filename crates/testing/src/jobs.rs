//! Whole jobs in tests: a short way to write a graph, sinks that can be watched, and runs by threads or simulated.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::SchemaRef;
use flott_checkpoint::{CheckpointStore, InMemory, Manifest};
use flott_core::{
    Batch, Clock, Committable, Committer, Config, Error, InputId, OperatorInfo, OutputId, Registry, Result, Sink,
    SinkWriter, Spec, SystemClock, SystemThreads, Threads, Timestamp, Wait,
};
use flott_plan::{Chaining, Edge, ExecutionGraph, JobGraph, Node, NodeId, NodeKind, Partitioning, StreamGraph};
use flott_runtime::driver::JobStart;
use flott_runtime::local::{self, JobControl, JobOptions};
use flott_runtime::master::{JobEnd, Note};
use flott_state::HashMapBackend;

/// Writes a stream graph node by node.
#[derive(Debug)]
pub struct Graph(pub StreamGraph);

impl Graph {
    /// A graph without nodes, with these options.
    pub fn new(options: &[(&str, &str)]) -> Result<Self> {
        let mut config = Config::default();
        options.iter().try_for_each(|(key, value)| config.set(key, value))?;
        Ok(Self(StreamGraph { name: "test".into(), config, nodes: Vec::new() }))
    }

    /// Adds a node whose uid and name are `uid`; each input is a node and how its rows come.
    pub fn add(&mut self, uid: &str, kind: NodeKind, inputs: &[(NodeId, Partitioning)], output: SchemaRef) -> NodeId {
        let inputs = inputs.iter().map(|(from, partitioning)| Edge {
            from: *from,
            output: OutputId::MAIN,
            input: InputId(0),
            partitioning: partitioning.clone(),
        });
        self.0.nodes.push(Node {
            uid: uid.into(),
            name: uid.into(),
            kind,
            inputs: inputs.collect(),
            output,
            side_outputs: Vec::new(),
            parallelism: None,
            max_parallelism: None,
            chaining: Chaining::Always,
        });
        NodeId(self.0.nodes.len() as u32 - 1)
    }

    /// The node, to change.
    pub fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.0.nodes[id.0 as usize]
    }

    /// Its tasks, spread over this many processes.
    pub fn tasks(&self, hosts: u32) -> Result<ExecutionGraph> {
        Ok(ExecutionGraph::of(JobGraph::of(&self.0)?, hosts))
    }
}

/// Everything built in.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    flott_connectors::register_all(&mut registry);
    flott_operators::register_all(&mut registry);
    registry.add_backend("hashmap", Arc::new(HashMapBackend));
    registry
}

/// The rows of batches as text, one a row: `a, b`; sorted.
pub fn rows<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Result<Vec<String>> {
    let mut rows = rows_in_order(batches)?;
    rows.sort();
    Ok(rows)
}

fn rows_in_order<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    let options = FormatOptions::default().with_null("NULL");
    for batch in batches {
        let columns = batch.columns().columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(", "));
        }
    }
    Ok(rows)
}

/// A sink whose rows are seen when they are committed, once each however often the commit is repeated. It can be held:
/// then it takes nothing.
#[derive(Clone, Default)]
pub struct CommittingSink(Arc<Shared>);

#[derive(Default)]
struct Shared {
    committed: Mutex<(BTreeSet<Vec<u8>>, Vec<Batch>)>,
    prepared: Mutex<Vec<Vec<Batch>>>,
    held: AtomicBool,
    broken: AtomicBool,
    held_until: Mutex<Option<Timestamp>>,
    wakers: Mutex<Vec<Waker>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommittingSink {
    /// Puts the sink into `registry` as `name`.
    pub fn register(&self, registry: &mut Registry, name: &str) {
        let sink = self.clone();
        registry.add_sink(name, Arc::new(move |_: &Spec| Ok(Box::new(sink.clone()))));
    }

    /// Committed rows as text, sorted.
    pub fn rows(&self) -> Result<Vec<String>> {
        rows(&lock(&self.0.committed).1)
    }

    /// Committed rows as text, in the order in which they were written and committed.
    pub fn rows_in_order(&self) -> Result<Vec<String>> {
        rows_in_order(&lock(&self.0.committed).1)
    }

    /// The sink takes nothing before this point of processing time.
    pub fn hold_until(&self, at: Timestamp) {
        *lock(&self.0.held_until) = Some(at);
    }

    /// Lets every commit fail, or no longer: what a job has prepared is then only in its checkpoints.
    pub fn break_commits(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::SeqCst);
    }

    /// Holds the sink (it takes nothing) or lets it go.
    pub fn hold(&self, held: bool) {
        self.0.held.store(held, Ordering::SeqCst);
        if !held {
            lock(&self.0.wakers).drain(..).for_each(Waker::wake);
        }
    }
}

impl Sink for CommittingSink {
    fn writer(&self, _: &Arc<OperatorInfo>, _: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Writer { shared: Arc::clone(&self.0), rows: Vec::new() }))
    }

    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(Some(Box::new(self.clone())))
    }
}

struct Writer {
    shared: Arc<Shared>,
    rows: Vec<Batch>,
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.rows.push(batch.clone());
        Ok(())
    }

    fn ready(&mut self, waker: &Waker, clock: &dyn Clock) -> Result<Option<Wait>> {
        let until = *lock(&self.shared.held_until);
        if let Some(at) = until.filter(|&at| clock.now() < at) {
            return Ok(Some(Wait::Until(at)));
        }
        if !self.shared.held.load(Ordering::SeqCst) {
            return Ok(None);
        }
        lock(&self.shared.wakers).push(waker.clone());
        // It may have been let go in between.
        Ok(self.shared.held.load(Ordering::SeqCst).then_some(Wait::Waker))
    }

    fn snapshot(&mut self) -> Result<Vec<Vec<u8>>> {
        if self.rows.is_empty() { Ok(Vec::new()) } else { Err(Error::internal("a snapshot before prepare_commit")) }
    }

    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        // Rows stay in this process: the committable is where they are.
        let mut prepared = lock(&self.shared.prepared);
        prepared.push(std::mem::take(&mut self.rows));
        Ok(vec![Committable((prepared.len() as u64 - 1).to_le_bytes().to_vec())])
    }
}

impl Committer for CommittingSink {
    fn commit(&mut self, committables: &[Committable]) -> Result<()> {
        if self.0.broken.load(Ordering::SeqCst) {
            return Err(Error::external("the test lets every commit fail"));
        }
        let mut committed = lock(&self.0.committed);
        for Committable(at) in committables {
            if committed.0.insert(at.clone()) {
                let index =
                    at.as_slice().try_into().map(u64::from_le_bytes).map_err(|_| Error::internal("not ours"))?;
                committed.1.extend(lock(&self.0.prepared)[index as usize].iter().cloned());
            }
        }
        Ok(())
    }
}

/// How [`run`] ran.
#[derive(Debug)]
pub struct Ran {
    /// How the job ended.
    pub end: Result<JobEnd>,
    /// The newest checkpoint.
    pub latest: Option<Manifest>,
}

/// Runs a graph on threads to its end; `steer` may act on it from the notes it hears.
pub fn run(
    graph: &Graph,
    registry: &Registry,
    from: Option<Manifest>,
    mut steer: impl FnMut(&JobControl, &Note) + Send + 'static,
    begin: impl FnOnce(&JobControl),
) -> Result<Ran> {
    let (control, events) = local::control();
    let store = InMemory::default();
    let steering = control.clone();
    let options = JobOptions {
        threads: Arc::new(SystemThreads) as Arc<dyn Threads>,
        start: JobStart {
            clock: Arc::new(SystemClock::default()),
            store: Box::new(store.clone()),
            from,
            resume: false,
            allow_non_restored: false,
            seed: 1,
            notes: Box::new(move |note| steer(&steering, note)),
        },
    };
    begin(&control);
    let end = local::run(graph.tasks(1)?, registry, options, &events, &control, |_| ());
    Ok(Ran { end, latest: store.latest()?.manifest.map(|(_, manifest)| manifest) })
}
