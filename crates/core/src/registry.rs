//! How plans name things and the runtime makes them: [`Spec`], [`Registry`] and the factories.
//!
//! The runtime knows no operator, connector, language or state backend by name: an edge (the command line, the
//! wheel, the façade) fills a registry and hands it over.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::nearest;
use crate::{Error, Operator, OperatorInfo, Result, Sink, Source, StateBackend};

/// What to make: a name in the registry and the configuration its factory reads. Plain data, part of plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The factory.
    pub factory: String,
    /// Its configuration, in the factory's own encoding; [`Spec::new`] writes JSON.
    pub config: Vec<u8>,
}

impl Spec {
    /// A spec whose configuration is `config` as JSON.
    ///
    /// ```
    /// let spec = flott_core::Spec::new("limit", &3)?;
    /// assert_eq!(spec.read::<usize>()?, 3);
    /// # Ok::<(), flott_core::Error>(())
    /// ```
    pub fn new(factory: &str, config: &impl Serialize) -> Result<Self> {
        let config = serde_json::to_vec(config)
            .map_err(|e| Error::internal(format!("cannot encode the configuration: {e}")).at("operator", factory))?;
        Ok(Self { factory: factory.to_owned(), config })
    }

    /// Reads a configuration written by [`Spec::new`].
    pub fn read<C: DeserializeOwned>(&self) -> Result<C> {
        serde_json::from_slice(&self.config)
            .map_err(|e| Error::user(format!("its configuration cannot be read: {e}")).at("operator", &self.factory))
    }
}

/// Makes operators.
pub trait OperatorFactory: Send + Sync {
    /// An operator.
    fn create(&self, spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>>;

    /// Neighbours in a chain that name the same language here are made one operator by [`OperatorFactory::fuse`].
    fn language(&self) -> Option<&'static str> {
        None
    }

    /// One operator for a run of at least two members, all of this language; called on the first one's factory.
    fn fuse(&self, members: &[(Spec, Arc<OperatorInfo>)]) -> Result<Box<dyn Operator>> {
        Err(Error::internal(format!("{} operators cannot be fused", members.len())))
    }
}

impl<F> OperatorFactory for F
where
    F: Fn(&Spec, &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> + Send + Sync,
{
    fn create(&self, spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
        self(spec, info)
    }
}

/// Makes sources of one kind.
pub type SourceFactory = Arc<dyn Fn(&Spec) -> Result<Box<dyn Source>> + Send + Sync>;
/// Makes sinks of one kind.
pub type SinkFactory = Arc<dyn Fn(&Spec) -> Result<Box<dyn Sink>> + Send + Sync>;
/// Chooses the task of each row: (the batch, how many tasks) → one index a row.
pub type PartitionerFactory = Arc<dyn Fn(&Spec) -> Result<Box<dyn Partitioner>> + Send + Sync>;

/// A user's own way of dealing rows to tasks.
pub trait Partitioner: Send {
    /// The task of each row, below `tasks`, appended to `out`.
    fn partition(&mut self, batch: &crate::Batch, tasks: u32, out: &mut Vec<u32>) -> Result<()>;
}

/// Everything that can be named in a plan.
#[derive(Clone, Default)]
pub struct Registry {
    operators: BTreeMap<String, Arc<dyn OperatorFactory>>,
    sources: BTreeMap<String, SourceFactory>,
    sinks: BTreeMap<String, SinkFactory>,
    partitioners: BTreeMap<String, PartitionerFactory>,
    backends: BTreeMap<String, Arc<dyn StateBackend>>,
}

macro_rules! entries {
    ($add:ident, $get:ident, $field:ident, $factory:ty, $word:literal) => {
        #[doc = concat!("Adds a ", $word, "; the last of a name wins.")]
        pub fn $add(&mut self, name: &str, factory: $factory) {
            self.$field.insert(name.to_owned(), factory);
        }

        #[doc = concat!("The ", $word, " of this name, or an error with the nearest name.")]
        pub fn $get(&self, name: &str) -> Result<&$factory> {
            self.$field.get(name).ok_or_else(|| unknown($word, name, self.$field.keys().map(String::as_str)))
        }
    };
}

impl Registry {
    entries!(add_operator, operator, operators, Arc<dyn OperatorFactory>, "operator");
    entries!(add_source, source, sources, SourceFactory, "source");
    entries!(add_sink, sink, sinks, SinkFactory, "sink");
    entries!(add_partitioner, partitioner, partitioners, PartitionerFactory, "partitioner");
    entries!(add_backend, backend, backends, Arc<dyn StateBackend>, "state backend");
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("operators", &self.operators.keys())
            .field("sources", &self.sources.keys())
            .field("sinks", &self.sinks.keys())
            .field("backends", &self.backends.keys())
            .finish_non_exhaustive()
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<_> = known.collect();
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean '{near}'?"),
        None => format!("; there are: {}", known.join(", ")),
    };
    Error::user(format!("there is no {what} '{name}'{hint}"))
}
