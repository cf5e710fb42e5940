//! What the Python API calls to write a plan: [`GraphBuilder`].

use std::collections::BTreeMap;

use flott_core::{Error, InputId, OutputId, Result, Spec};
use flott_plan::{Chaining, Edge, Node, NodeId, NodeKind, Partitioning, StreamGraph};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::interpreter::raise;
use crate::{Kind, MemberConfig, TypeInfo};

/// Writes a stream graph, node after node, inputs first. Types and configurations come as JSON.
#[pyclass(module = "flott._engine")]
#[derive(Debug)]
pub struct GraphBuilder {
    graph: StreamGraph,
}

/// What every node has.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct NodeOptions {
    name: String,
    uid: String,
    parallelism: Option<u32>,
    max_parallelism: Option<u32>,
    chaining: String,
    /// (node, how its rows are dealt out)
    inputs: Vec<(u32, String)>,
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 makes arguments out of Python objects")]
impl GraphBuilder {
    #[new]
    fn new(name: String, options: BTreeMap<String, String>) -> PyResult<Self> {
        let mut config = flott_core::Config::default();
        for (key, value) in &options {
            config.set(key, value).map_err(|e| raise(&e))?;
        }
        Ok(Self { graph: StreamGraph { name, config, nodes: Vec::new() } })
    }

    /// Adds a source of a connector whose rows are of a type. Returns the node.
    fn source(&mut self, options: NodeOptions, factory: &str, config: &str, output: &str) -> PyResult<u32> {
        let kind = NodeKind::Source { spec: spec(factory, config), watermarks: None };
        read_type(output).and_then(|of| self.add(options, kind, &of, None)).map_err(|e| raise(&e))
    }

    /// Adds a function. `function` is cloudpickle's bytes; `key` the type of the key for `key_by`.
    fn function(
        &mut self,
        options: NodeOptions,
        kind: &str,
        function: Vec<u8>,
        input: &str,
        output: &str,
        key: Option<&str>,
    ) -> PyResult<u32> {
        self.add_function(options, kind, function, input, output, key).map_err(|e| raise(&e))
    }

    /// Adds a sink of a connector.
    fn sink(&mut self, options: NodeOptions, factory: &str, config: &str, input: &str) -> PyResult<u32> {
        let kind = NodeKind::Sink(spec(factory, config));
        read_type(input).and_then(|of| self.add(options, kind, &of, None)).map_err(|e| raise(&e))
    }

    /// The plan's bytes; refused where something is wrong that can be known before it runs.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let encode = || {
            self.graph.validate()?;
            self.graph.encode()
        };
        encode().map(|bytes| PyBytes::new(py, &bytes)).map_err(|e| raise(&e))
    }
}

impl GraphBuilder {
    fn add_function(
        &mut self,
        options: NodeOptions,
        kind: &str,
        function: Vec<u8>,
        input: &str,
        output: &str,
        key: Option<&str>,
    ) -> Result<u32> {
        let kind = Kind::parse(kind)?;
        let key = key.map(read_type).transpose()?;
        let member = MemberConfig { kind, function, input: read_type(input)?, output: read_type(output)?, key };
        let node = NodeKind::Operator(member.spec()?);
        self.add(options, node, &member.output, member.key.as_ref())
    }

    fn add(&mut self, options: NodeOptions, kind: NodeKind, of: &TypeInfo, key: Option<&TypeInfo>) -> Result<u32> {
        let id = u32::try_from(self.graph.nodes.len()).map_err(|_| Error::user("a job of 2^32 operators"))?;
        let inputs = options.inputs.iter().map(|(from, how)| self.edge(NodeId(*from), how));
        let inputs = inputs.collect::<Result<_>>().map_err(|e| e.at("operator", &options.name))?;
        let output = of.schema(key).map_err(|e| e.at("operator", &options.name))?;
        self.graph.nodes.push(Node {
            uid: options.uid,
            name: options.name,
            kind,
            inputs,
            output,
            side_outputs: Vec::new(),
            parallelism: options.parallelism,
            max_parallelism: options.max_parallelism,
            chaining: match &*options.chaining {
                "head" => Chaining::Head,
                "never" => Chaining::Never,
                _ => Chaining::Always,
            },
        });
        Ok(id)
    }

    fn edge(&self, from: NodeId, how: &str) -> Result<Edge> {
        let partitioning = match how {
            "forward" => Partitioning::Forward,
            "rebalance" => Partitioning::Rebalance,
            "rescale" => Partitioning::Rescale,
            "broadcast" => Partitioning::Broadcast,
            "shuffle" => Partitioning::Shuffle,
            "global" => Partitioning::Global,
            "hash" => {
                let sender = self.graph.node(from).ok_or_else(|| Error::internal("an input that does not exist"))?;
                let fields = sender.output.fields().iter().enumerate();
                Partitioning::Hash(fields.filter(|(_, f)| f.name().starts_with("__key")).map(|(i, _)| i).collect())
            }
            other => return Err(Error::internal(format!("there is no partitioning '{other}'"))),
        };
        Ok(Edge { from, output: OutputId::MAIN, input: InputId(0), partitioning })
    }
}

/// The configuration of a connector is JSON already.
fn spec(factory: &str, config: &str) -> Spec {
    Spec { factory: factory.to_owned(), config: config.as_bytes().to_vec() }
}

fn read_type(json: &str) -> Result<TypeInfo> {
    serde_json::from_str(json).map_err(|e| Error::internal(format!("a type cannot be read: {e}: {json}")))
}
