//! One test for each table of `tests/tables`; `UPDATE_EXPECT=1` writes what came out into it. A table names functions
//! of the programs in [`functions`](crate::functions).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use flott_core::{Error, Operator, OperatorFactory, OperatorInfo, Registry, Result, Spec};
use flott_plan::{NodeKind, Partitioning, StreamGraph};

use crate::functions::program;

/// The functions of the program under their operators' names, and the `hashmap` backend.
fn registry() -> Registry {
    let env = program();
    let named = Arc::new(Named { nodes: nodes(&env.stream_graph().unwrap()), program: env.registry() });
    let mut registry = Registry::default();
    for name in named.nodes.keys() {
        registry.add_operator(name, Arc::clone(&named) as Arc<dyn OperatorFactory>);
    }
    registry.add_backend("hashmap", Arc::new(flott_state::HashMapBackend));
    registry
}

/// What a program says of one of its functions.
struct Function {
    spec: Spec,
    input: SchemaRef,
    keys: Vec<usize>,
    output: SchemaRef,
    side_outputs: Vec<(String, SchemaRef)>,
}

/// Functions by name; the "Key By" in front of `sums` is `key_of_sums`.
fn nodes(graph: &StreamGraph) -> BTreeMap<String, Function> {
    let mut nodes = BTreeMap::new();
    for node in &graph.nodes {
        let (NodeKind::Operator(spec), [edge]) = (&node.kind, &node.inputs[..]) else { continue };
        let keys = match &edge.partitioning {
            Partitioning::Hash(columns) => columns.clone(),
            _ => Vec::new(),
        };
        let function = Function {
            spec: spec.clone(),
            input: graph.edge_schema(edge).unwrap().clone(),
            keys,
            output: node.output.clone(),
            side_outputs: node.side_outputs.clone(),
        };
        if !function.keys.is_empty()
            && let Some(key_by) = nodes.remove("Key By")
        {
            nodes.insert(format!("key_of_{}", node.name), key_by);
        }
        assert!(nodes.insert(node.name.clone(), function).is_none(), "two functions are called {}", node.name);
    }
    nodes
}

/// The program's factory behind names that people can read.
struct Named {
    nodes: BTreeMap<String, Function>,
    program: Registry,
}

impl Named {
    /// The name in the plan, if the table says what the plan says.
    fn spec(&self, name: &str, info: &OperatorInfo) -> Result<Spec> {
        let Function { spec, input, keys, output, side_outputs } = &self.nodes[name];
        let side = |outputs: &[(String, SchemaRef)]| -> Vec<_> {
            outputs.iter().map(|(tag, schema)| (tag.clone(), columns(schema))).collect()
        };
        let table = (columns(&info.inputs[0]), &info.keys[0], columns(&info.output), side(&info.side_outputs));
        let program = (columns(input), keys, columns(output), side(side_outputs));
        if table == program {
            return Ok(spec.clone());
        }
        Err(Error::user(format!("the table says {table:?}, the program {program:?}")).at("operator", name))
    }
}

/// Names and types; tables do not say what cannot be NULL.
fn columns(schema: &SchemaRef) -> Vec<String> {
    schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect()
}

impl OperatorFactory for Named {
    fn create(&self, spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
        let spec = self.spec(&spec.factory, info)?;
        self.program.operator(&spec.factory)?.create(&spec, info)
    }

    fn fuse(&self, members: &[(Spec, Arc<OperatorInfo>)]) -> Result<Box<dyn Operator>> {
        let members = members.iter().map(|(spec, info)| Ok((self.spec(&spec.factory, info)?, info.clone())));
        let members = members.collect::<Result<Vec<_>>>()?;
        self.program.operator(&members[0].0.factory)?.fuse(&members)
    }
}

flott_testing::tables!(registry() => filter, flat_map, fused, key_by, map, process, reduce, request, timestamps, window);
