//! [`DataStream`]: rows of one type on their way, and what can be done with them.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use flott_core::{Error, OutputId, RequestOrder, Result, Spec, Timestamp, WatermarkStrategy, schema_of};
use flott_plan::{Chaining, NodeId, NodeKind, Partitioning};

use crate::collect::{CollectSink, Collected};
use crate::environment::StreamExecutionEnvironment;
use crate::graph::{Draft, Upstream, no_single_node};
use crate::partitioner::RowPartitioner;
use crate::process::ProcessFunction;
use crate::side_output::OutputTag;
use crate::stage::filter::Filter;
use crate::stage::flat_map::FlatMap;
use crate::stage::key_by::{KeyBy, key_fields};
use crate::stage::map::Map;
use crate::stage::process::Process;
use crate::stage::request::Requests;
use crate::stage::timestamps::Timestamps;
use crate::{KeyedStream, Outcome, Record};

/// Rows of type `T` on their way. Cheap to clone; every use of one stream sees all of its rows.
///
/// Functions take rows and return a row, or a `Result` of one ([`Outcome`]); an error ends the job and names the
/// operator and the record. Every task works on a clone of the function, so what a function captures is its task's.
/// Mistakes that can only be seen in the whole (a uid given twice) are reported by
/// [`StreamExecutionEnvironment::stream_graph`] and `execute`.
pub struct DataStream<T> {
    pub(crate) env: StreamExecutionEnvironment,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) rows: PhantomData<fn(T)>,
}

impl<T> Clone for DataStream<T> {
    fn clone(&self) -> Self {
        Self { env: self.env.clone(), upstreams: self.upstreams.clone(), rows: PhantomData }
    }
}

/// Makes clones of a function for the tasks; the function itself need not be `Sync`.
pub(crate) fn cloner<F: Clone + Send + 'static>(f: F) -> impl Fn() -> F + Send + Sync + 'static {
    let f = Mutex::new(f);
    move || f.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What a stream is made of.
impl<T: Record> DataStream<T> {
    /// One row for each row.
    pub fn map<R, F>(&self, f: F) -> DataStream<R::Out>
    where
        R: Outcome + 'static,
        F: FnMut(T) -> R + Clone + Send + 'static,
    {
        let f = cloner(f);
        self.function(("map", "Map"), move || Map { f: f(), input: PhantomData })
    }

    /// The rows for which `f` is true.
    pub fn filter<R, F>(&self, f: F) -> DataStream<T>
    where
        R: Outcome<Out = bool> + 'static,
        F: FnMut(&T) -> R + Clone + Send + 'static,
    {
        let f = cloner(f);
        self.function(("filter", "Filter"), move || Filter { f: f(), input: PhantomData })
    }

    /// Any number of rows for each row: all that can be iterated over, such as a `Vec` or an `Option`.
    pub fn flat_map<R, I, F>(&self, f: F) -> DataStream<R::Out>
    where
        R: Outcome + 'static,
        I: IntoIterator<Item = R> + 'static,
        I::IntoIter: Send,
        F: FnMut(T) -> I + Clone + Send + 'static,
    {
        let f = cloner(f);
        self.function(("flat_map", "Flat Map"), move || FlatMap::<T, F, I>::new(f()))
    }

    /// What a [`ProcessFunction`] makes of each row.
    pub fn process<F: ProcessFunction<In = T>>(&self, f: F) -> DataStream<F::Out> {
        let f = cloner(f);
        self.function(("process", "Process"), move || Process::new(f()))
    }

    /// Rows of the same key go to the same task; what follows keeps state by key. A key is any record.
    ///
    /// The key is computed once, before the exchange, by an operator "Key By" of its own (fused with functions before
    /// it), and travels in hidden columns.
    pub fn key_by<K, F>(&self, f: F) -> KeyedStream<K, T>
    where
        K: Record,
        F: FnMut(&T) -> K + Clone + Send + 'static,
    {
        let columns = T::fields().len();
        let hidden = key_fields::<K>();
        let key_columns = (columns..columns + hidden.len()).collect();
        let f = cloner(f);
        let make = move || KeyBy::<T, K, F>::new(f());
        let stream = self.env.add_function(("key_by", "Key By"), self.upstreams.clone(), hidden, true, make);
        // The keys of one stream are computed where its rows are.
        if let ([from], [to]) = (&self.upstreams[..], &stream.upstreams[..])
            && from.partitioning.is_none()
        {
            self.env.alike(to.from, from.from);
        }
        KeyedStream::new(stream.partitioned(&Partitioning::Hash(key_columns)))
    }

    /// The rows of both streams, in no particular order between them.
    #[must_use]
    pub fn union(&self, other: &DataStream<T>) -> DataStream<T> {
        let mut both = self.clone();
        both.upstreams.extend(other.upstreams.iter().cloned());
        both
    }

    /// Gives rows event time, and watermarks that follow `strategy` (whose time column is not used).
    pub fn assign_timestamps_and_watermarks<R, F>(&self, mut strategy: WatermarkStrategy, f: F) -> DataStream<T>
    where
        R: Outcome<Out = Timestamp> + 'static,
        F: FnMut(&T) -> R + Clone + Send + 'static,
    {
        let f = cloner(f);
        let timed = self.function(("timestamps", "Timestamps"), move || Timestamps { f: f(), input: PhantomData });
        strategy.time_column = None;
        let kind = NodeKind::Watermarks(strategy);
        let stream = self.env.add("watermarks", "Timestamps/Watermarks", kind, timed.upstreams.clone(), T::fields());
        if let ([part], [whole]) = (&timed.upstreams[..], &stream.upstreams[..]) {
            self.env.alike(part.from, whole.from);
        }
        stream
    }

    /// Asks something outside for each batch of rows (Flink's async I/O); `f` answers one row for each, in order.
    ///
    /// `order` says how answers of different batches follow each other; a watermark never overtakes them.
    pub fn async_request<U, E, Fut, F>(&self, order: RequestOrder, f: F) -> DataStream<U>
    where
        U: Record,
        E: std::fmt::Display + 'static,
        Fut: Future<Output = Result<Vec<U>, E>> + Send + 'static,
        F: FnMut(Vec<T>) -> Fut + Clone + Send + 'static,
    {
        let f = cloner(f);
        let make = move || Requests::<T, F> { f: f(), order, input: PhantomData };
        self.env.add_function(("async", "Async Request"), self.upstreams.clone(), Vec::new(), false, make)
    }

    /// The rows that the operator gave to a side output.
    pub fn get_side_output<S: Record>(&self, tag: OutputTag<S>) -> DataStream<S> {
        let mut output = OutputId::MAIN;
        let node = self.node("a side output");
        let schema = schema_of(S::fields());
        let mut clash = None;
        self.change(node, |draft| {
            let known = draft.side_outputs.iter().position(|(name, _)| name == tag.name());
            let index = known.unwrap_or(draft.side_outputs.len());
            match draft.side_outputs.get(index) {
                None => draft.side_outputs.push((tag.name().to_owned(), schema)),
                Some((_, earlier)) if *earlier == schema => {}
                Some(_) => clash = Some(format!("the side output '{}' was asked for with two types", tag.name())),
            }
            // More than 255 are refused when the graph is validated.
            output = OutputId(u8::try_from(index + 1).unwrap_or(u8::MAX));
        });
        if let Some(text) = clash {
            self.env.note(Error::user(text));
        }
        let from = node.unwrap_or(NodeId(0));
        let upstreams = vec![Upstream { from, output, partitioning: None }];
        DataStream { env: self.env.clone(), upstreams, rows: PhantomData }
    }

    fn function<F: crate::stage::Function>(
        &self,
        names: (&'static str, &str),
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> DataStream<F::Out> {
        self.env.add_function(names, self.upstreams.clone(), Vec::new(), true, make)
    }
}

/// How rows find the tasks of what follows.
impl<T: Record> DataStream<T> {
    /// In turn to all tasks.
    #[must_use]
    pub fn rebalance(&self) -> Self {
        self.partitioned(&Partitioning::Rebalance)
    }

    /// In turn to a neighbouring share of the tasks.
    #[must_use]
    pub fn rescale(&self) -> Self {
        self.partitioned(&Partitioning::Rescale)
    }

    /// Every row to every task.
    #[must_use]
    pub fn broadcast(&self) -> Self {
        self.partitioned(&Partitioning::Broadcast)
    }

    /// To random tasks.
    #[must_use]
    pub fn shuffle(&self) -> Self {
        self.partitioned(&Partitioning::Shuffle)
    }

    /// Every row to the first task.
    #[must_use]
    pub fn global(&self) -> Self {
        self.partitioned(&Partitioning::Global)
    }

    /// To the task of the same index, which must be there.
    #[must_use]
    pub fn forward(&self) -> Self {
        self.partitioned(&Partitioning::Forward)
    }

    /// To the task that `f(row, tasks)` says, below `tasks`.
    #[must_use]
    pub fn partition_custom<F>(&self, f: F) -> Self
    where
        F: FnMut(&T, u32) -> u32 + Clone + Send + 'static,
    {
        let name = self.env.unique("partitioner");
        let f = cloner(f);
        self.env.register(|registry| {
            registry.add_partitioner(&name, Arc::new(move |_| Ok(Box::new(RowPartitioner::new(f())))));
        });
        self.partitioned(&Partitioning::Custom(Spec { factory: name, config: Vec::new() }))
    }

    pub(crate) fn partitioned(&self, partitioning: &Partitioning) -> Self {
        let mut stream = self.clone();
        stream.upstreams.iter_mut().for_each(|up| up.partitioning = Some(partitioning.clone()));
        stream
    }
}

/// Settings of the operator a stream comes from.
impl<T: Record> DataStream<T> {
    /// The stable id by which the operator's state is found on restore; unique in the job.
    ///
    /// Without one it is made of the operator's place: the uid of the operator it reads, `/` and what it is (`map`,
    /// `reduce` …), with `-2` and so on where that is taken. It stays while the way to the operator stays.
    #[must_use]
    pub fn uid(self, uid: &str) -> Self {
        self.set("a uid", |draft| draft.uid = Some(uid.to_owned()))
    }

    /// The operator's name in plans, errors and metrics.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.set("a name", |draft| draft.name = name.to_owned())
    }

    /// The operator's tasks.
    #[must_use]
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        self.set("a parallelism", |draft| draft.parallelism = Some(parallelism))
    }

    /// The operator's key groups.
    #[must_use]
    pub fn set_max_parallelism(self, max_parallelism: u32) -> Self {
        self.set("a max parallelism", |draft| draft.max_parallelism = Some(max_parallelism))
    }

    /// The operator shares a task only with those after it.
    #[must_use]
    pub fn start_new_chain(self) -> Self {
        self.set("chaining", |draft| draft.chaining = Chaining::Head)
    }

    /// The operator shares a task with nobody.
    #[must_use]
    pub fn disable_chaining(self) -> Self {
        self.set("chaining", |draft| draft.chaining = Chaining::Never)
    }

    fn set(self, what: &str, change: impl FnOnce(&mut Draft)) -> Self {
        let node = self.node(what);
        self.change(node, change);
        self
    }

    /// The one operator whose main output this stream is, untouched; a mistake is noted where there is none.
    fn node(&self, what: &str) -> Option<NodeId> {
        match &self.upstreams[..] {
            [Upstream { from, output: OutputId::MAIN, partitioning: None }] => Some(*from),
            _ => {
                self.env.note(no_single_node(what));
                None
            }
        }
    }

    fn change(&self, node: Option<NodeId>, change: impl FnOnce(&mut Draft)) {
        if let Some(node) = node {
            self.env.change(node, change);
        }
    }
}

/// Where a stream ends.
impl<T: Record> DataStream<T> {
    /// Writes the rows to any sink.
    pub fn sink_to(&self, name: &str, sink: Spec) -> DataStreamSink {
        self.sink("sink", name, sink)
    }

    /// Writes the rows to standard output.
    pub fn print(&self) -> DataStreamSink {
        let spec = Spec { factory: "print".to_owned(), config: br#"{"plain":true}"#.to_vec() };
        self.sink("print", "Print to Std. Out", spec)
    }

    /// Keeps the rows for the program that runs the job: they are in the handle when the job has ended, and after
    /// each checkpoint those before it.
    pub fn collect(&self) -> Collected<T> {
        let collected = Collected::default();
        let name = self.env.unique("collect");
        let sink = CollectSink::of(&collected);
        let of_job = collected.clone();
        self.env.before_start(move || of_job.forget_committed());
        self.env.register(|registry| registry.add_sink(&name, Arc::new(move |_| Ok(Box::new(sink.clone())))));
        self.sink("collect", "Collect", Spec { factory: name, config: Vec::new() });
        collected
    }

    fn sink(&self, word: &'static str, name: &str, spec: Spec) -> DataStreamSink {
        let kind = NodeKind::Sink(spec);
        DataStreamSink(self.env.add::<bool>(word, name, kind, self.upstreams.clone(), T::fields()))
    }
}

/// A sink, for its settings.
pub struct DataStreamSink(DataStream<bool>);

impl DataStreamSink {
    /// The stable id by which the sink's state is found on restore.
    pub fn uid(self, uid: &str) -> Self {
        Self(self.0.uid(uid))
    }

    /// The sink's name in plans, errors and metrics.
    pub fn name(self, name: &str) -> Self {
        Self(self.0.name(name))
    }

    /// The sink's tasks.
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        Self(self.0.set_parallelism(parallelism))
    }

    /// The sink shares a task with nobody.
    pub fn disable_chaining(self) -> Self {
        Self(self.0.disable_chaining())
    }
}
