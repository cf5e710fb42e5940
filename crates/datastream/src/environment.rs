//! Where a program begins and ends: [`StreamExecutionEnvironment`] collects what is written and hands it to an
//! [`Executor`].

use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::config::{Config, MAX_PARALLELISM, OBJECT_CHAINING, PARALLELISM};
use flott_core::{Error, OutputId, Registry, Result, Spec, WatermarkStrategy, schema_of};
use flott_plan::{Chaining, NodeId, NodeKind, StreamGraph};

use crate::collection::CollectionSource;
use crate::graph::{Draft, Upstream, assemble};
use crate::stage::fused::{ClosureFactory, Closures};
use crate::stage::{Function, Stage, Typed};
use crate::{DataStream, Record};

/// Runs jobs. This crate knows no runtime: whoever does (the crate `flott`, a test) brings one.
pub trait Executor: Send + Sync {
    /// Runs a job to its end. `registry` holds the program's own functions, sources and sinks; the executor adds
    /// what it knows itself.
    fn execute(&self, graph: StreamGraph, registry: Registry) -> Result<JobResult>;
}

/// What is known of a job that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct JobResult {
    /// The job's name.
    pub job_name: String,
    /// How long it ran, in ms.
    pub runtime_ms: u64,
    /// Counters, summed over tasks: (operator's name, counter, count).
    pub counters: Vec<(String, String, u64)>,
}

/// The beginning of every program: makes streams, holds settings, runs the job.
///
/// ```
/// use flott_datastream::StreamExecutionEnvironment;
///
/// let env = StreamExecutionEnvironment::new();
/// let words = env.from_collection(vec!["to be".to_owned(), "or not to be".to_owned()]);
/// let counts = words
///     .flat_map(|line| line.split(' ').map(|word| (word.to_owned(), 1_u64)).collect::<Vec<_>>())
///     .key_by(|(word, _)| word.clone())
///     .reduce(|a, b| (a.0, a.1 + b.1));
/// let _result = counts.collect();
/// let graph = env.stream_graph()?;
/// assert_eq!(graph.nodes[2].name, "Key By");
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Clone)]
pub struct StreamExecutionEnvironment(Arc<Mutex<Program>>);

/// Parts of a sequence that tasks may read at once; one task reads them in order.
const SEQUENCE_SPLITS: u32 = 16;

/// What was written so far.
#[derive(Default)]
struct Program {
    config: Config,
    drafts: Vec<Draft>,
    registry: Registry,
    closures: Arc<Closures>,
    /// The first mistake; the builder's methods go on, [`StreamExecutionEnvironment::stream_graph`] reports it.
    mistake: Option<Error>,
    executor: Option<Arc<dyn Executor>>,
    /// What is to be done before a job of this program starts.
    before_start: Vec<Arc<dyn Fn() + Send + Sync>>,
}

impl Default for StreamExecutionEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamExecutionEnvironment {
    /// An environment without settings, and without an executor.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// An environment whose jobs `executor` runs.
    pub fn with_executor(executor: Arc<dyn Executor>) -> Self {
        let env = Self::new();
        env.lock().executor = Some(executor);
        env
    }

    fn lock(&self) -> MutexGuard<'_, Program> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first mistake for [`StreamExecutionEnvironment::stream_graph`].
    pub(crate) fn note(&self, mistake: Error) {
        self.lock().mistake.get_or_insert(mistake);
    }

    fn settle(&self, result: Result<()>) {
        if let Err(mistake) = result {
            self.note(mistake);
        }
    }

    /// Replaces all options.
    pub fn configure(&self, config: Config) -> &Self {
        self.lock().config = config;
        self
    }

    /// Sets an option under its key, Flink's where Flink has it.
    pub fn set(&self, key: &str, value: &str) -> &Self {
        let set = self.lock().config.set(key, value);
        self.settle(set);
        self
    }

    /// The options set so far.
    pub fn config(&self) -> Config {
        self.lock().config.clone()
    }

    /// Tasks of an operator that does not say otherwise.
    pub fn set_parallelism(&self, parallelism: u32) -> &Self {
        self.set(PARALLELISM.key, &parallelism.to_string())
    }

    /// Key groups of an operator that does not say otherwise: the most tasks it can ever have.
    pub fn set_max_parallelism(&self, max_parallelism: u32) -> &Self {
        self.set(MAX_PARALLELISM.key, &max_parallelism.to_string())
    }

    /// Gives every operator tasks of its own.
    pub fn disable_operator_chaining(&self) -> &Self {
        self.set(OBJECT_CHAINING.key, "false")
    }

    /// A stream of these rows, in order, from one task.
    pub fn from_collection<T: Record>(&self, rows: impl IntoIterator<Item = T>) -> DataStream<T> {
        let rows: Vec<T> = rows.into_iter().collect();
        let source = CollectionSource::of(&rows);
        let name = self.unique("collection");
        self.lock().registry.add_source(&name, Arc::new(move |_| Ok(Box::new(source.clone()))));
        let stream = self.source("collection", "Collection Source", Spec { factory: name, config: Vec::new() }, None);
        stream.set_parallelism(1)
    }

    /// The whole numbers from `from` to `to`, both included.
    pub fn from_sequence(&self, from: i64, to: i64) -> DataStream<i64> {
        self.built_in(
            "sequence",
            "Sequence Source",
            "sequence",
            &serde_json::json!({ "from": from, "to": to, "splits": SEQUENCE_SPLITS }),
        )
    }

    /// The lines of a file, or of all files in a folder.
    pub fn read_text(&self, path: impl AsRef<Path>) -> DataStream<String> {
        self.files("text", "Text Source", path.as_ref(), &"lines".into())
    }

    /// The rows of a CSV file, or of all in a folder. Their first line names the columns, which are found by name: the
    /// files must have `T`'s, and may have others.
    pub fn read_csv<T: Record>(&self, path: impl AsRef<Path>) -> DataStream<T> {
        let csv = serde_json::json!({ "schema": schema_of(T::fields()), "options": { "header": true } });
        self.files("csv", "CSV Source", path.as_ref(), &serde_json::json!({ "csv": csv }))
    }

    fn files<T: Record>(
        &self,
        word: &'static str,
        name: &str,
        path: &Path,
        format: &serde_json::Value,
    ) -> DataStream<T> {
        self.built_in(word, name, "files", &serde_json::json!({ "path": path, "format": format }))
    }

    fn built_in<T: Record>(
        &self,
        word: &'static str,
        name: &str,
        factory: &str,
        config: &serde_json::Value,
    ) -> DataStream<T> {
        let spec = Spec::new(factory, config).unwrap_or_else(|mistake| {
            self.note(mistake);
            Spec { factory: factory.to_owned(), config: Vec::new() }
        });
        self.source(word, name, spec, None)
    }

    /// A stream of any source whose columns are `T`'s. With a strategy, event time and watermarks are found in the
    /// source, by split; its time column counts from 0.
    pub fn from_source<T: Record>(
        &self,
        name: &str,
        source: Spec,
        watermarks: Option<WatermarkStrategy>,
    ) -> DataStream<T> {
        self.source("source", name, source, watermarks)
    }

    fn source<T: Record>(
        &self,
        word: &'static str,
        name: &str,
        spec: Spec,
        watermarks: Option<WatermarkStrategy>,
    ) -> DataStream<T> {
        let kind = NodeKind::Source { spec, watermarks };
        self.add(word, name, kind, Vec::new(), T::fields())
    }

    /// The job as data: what would be executed, or the first mistake in it.
    pub fn stream_graph(&self) -> Result<StreamGraph> {
        self.named_stream_graph("flott job")
    }

    fn named_stream_graph(&self, name: &str) -> Result<StreamGraph> {
        let program = self.lock();
        match &program.mistake {
            Some(mistake) => Err(mistake.clone()),
            None => assemble(name, &program.config, &program.drafts),
        }
    }

    /// The functions, collections and handles of this program by the names its plan gives them. Closures never
    /// travel: every process of a job runs the program up to here and so has the same registry.
    pub fn registry(&self) -> Registry {
        self.lock().registry.clone()
    }

    /// Runs the job to its end.
    pub fn execute(&self, name: &str) -> Result<JobResult> {
        let graph = self.named_stream_graph(name)?;
        let executor = self.lock().executor.clone().ok_or_else(|| {
            Error::user("this environment has nothing to run jobs with: make it with the crate flott, or with_executor")
        })?;
        let before_start = self.lock().before_start.clone();
        before_start.iter().for_each(|hook| hook());
        executor.execute(graph, self.registry())
    }

    /// A name in the registry that nothing else in this program has.
    pub(crate) fn unique(&self, word: &str) -> String {
        format!("{word}#{}", self.lock().drafts.len())
    }

    /// Adds a node.
    pub(crate) fn add<T: Record>(
        &self,
        word: &'static str,
        name: &str,
        kind: NodeKind,
        inputs: Vec<Upstream>,
        output: Vec<arrow_schema::Field>,
    ) -> DataStream<T> {
        let mut program = self.lock();
        // Ids are numbered by u32, as in the plan.
        let id = NodeId(program.drafts.len() as u32);
        program.drafts.push(Draft {
            word,
            uid: None,
            name: name.to_owned(),
            kind,
            inputs,
            output: schema_of(output),
            side_outputs: Vec::new(),
            parallelism: None,
            max_parallelism: None,
            like: None,
            chaining: Chaining::default(),
        });
        drop(program);
        let upstream = Upstream { from: id, output: OutputId::MAIN, partitioning: None };
        DataStream { env: self.clone(), upstreams: vec![upstream], rows: PhantomData }
    }

    /// Gives `part` the parallelism of `whole`, whatever it will be.
    pub(crate) fn alike(&self, part: NodeId, whole: NodeId) {
        self.change(part, |draft| draft.like = Some(whole));
    }

    /// Adds a function; every task gets its own from `make`.
    pub(crate) fn add_function<F: Function>(
        &self,
        (word, name): (&'static str, &str),
        inputs: Vec<Upstream>,
        hidden: Vec<arrow_schema::Field>,
        fusible: bool,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> DataStream<F::Out> {
        let factory = self.unique(word);
        {
            let mut program = self.lock();
            let closures = program.closures.clone();
            closures.add(&factory, Box::new(move || Box::new(Typed::new(make())) as Box<dyn Stage>));
            program.registry.add_operator(&factory, Arc::new(ClosureFactory { closures, fusible }));
        }
        let mut fields = F::Out::fields();
        fields.extend(hidden);
        self.add(word, name, NodeKind::Operator(Spec { factory, config: Vec::new() }), inputs, fields)
    }

    /// Changes the registry.
    pub(crate) fn register(&self, change: impl FnOnce(&mut Registry)) {
        change(&mut self.lock().registry);
    }

    /// Calls `hook` before each run of this program.
    pub(crate) fn before_start(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.lock().before_start.push(Arc::new(hook));
    }

    /// Changes a node.
    pub(crate) fn change(&self, node: NodeId, change: impl FnOnce(&mut Draft)) {
        if let Some(draft) = self.lock().drafts.get_mut(node.0 as usize) {
            change(draft);
        }
    }
}
