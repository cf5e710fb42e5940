//! What is checked before anything runs: [`StreamGraph::validate`]. Each fault is one error that names the node.
//!
//! What needs a factory (whether a source has this file, whether an operator has this name) is not known here.

use std::collections::HashMap;

use arrow_schema::{DataType, Schema};
use flott_core::config::{BATCH_ROWS, CHANNEL_CREDIT, MAX_PARALLELISM, PARALLELISM, REQUEST_CAPACITY, WATERMARK_ROWS};
use flott_core::{Config, Error, MAX_PARALLELISM_LIMIT, Result, WatermarkStrategy, check_key_type, type_name};

use crate::{Edge, Node, NodeKind, Partitioning, StreamGraph};

impl StreamGraph {
    /// Checks all that can be known before anything runs; the first fault is the error.
    pub fn validate(&self) -> Result<()> {
        if self.nodes.is_empty() {
            return Err(Error::user("the job has no operators: add a source and a sink").at("job", &self.name));
        }
        if !self.nodes.iter().any(|node| matches!(node.kind, NodeKind::Sink(_))) {
            let text = "the job has no sink, so nothing would come of it: add one to the last stream";
            return Err(Error::user(text).at("job", &self.name));
        }
        check_limits(&self.config)?;
        unique_uids(&self.nodes)?;
        for (index, node) in self.nodes.iter().enumerate() {
            self.check_node(index, node).map_err(|e| e.at("operator", &node.name).at("uid", &node.uid))?;
        }
        Ok(())
    }

    fn check_node(&self, index: usize, node: &Node) -> Result<()> {
        self.check_parallelism(node)?;
        check_side_outputs(node)?;
        check_inputs(node)?;
        for edge in &node.inputs {
            self.check_edge(index, node, edge)?;
        }
        self.check_unions(node)?;
        self.check_key_types(node)?;
        match &node.kind {
            NodeKind::Source { watermarks: Some(strategy), .. } => check_watermarks(strategy, &node.output),
            NodeKind::Watermarks(strategy) => match node.inputs.first().and_then(|edge| self.edge_schema(edge)) {
                Some(schema) => check_watermarks(strategy, schema),
                None => Ok(()),
            },
            NodeKind::Source { watermarks: None, .. } | NodeKind::Operator(_) | NodeKind::Sink(_) => Ok(()),
        }
    }

    fn check_parallelism(&self, node: &Node) -> Result<()> {
        let parallelism = self.parallelism_of(node)?;
        let max = self.max_parallelism_of(node)?;
        let from = |own: Option<u32>, key: &str| match own {
            Some(_) => "set on the operator".to_owned(),
            None => format!("from '{key}'"),
        };
        let max_from = from(node.max_parallelism, MAX_PARALLELISM.key);
        if parallelism == 0 {
            let from = from(node.parallelism, PARALLELISM.key);
            return Err(Error::user(format!("expected a parallelism of at least 1, found 0 ({from})")));
        }
        if max > MAX_PARALLELISM_LIMIT {
            return Err(Error::user(format!(
                "expected a max parallelism of at most {MAX_PARALLELISM_LIMIT}, found {max} ({max_from})"
            )));
        }
        if parallelism > max {
            return Err(Error::user(format!(
                "parallelism {parallelism} is above max parallelism {max} ({max_from}): lower the one or raise the other, \
                 '{}'; state of earlier runs cannot be restored at another max parallelism",
                MAX_PARALLELISM.key
            )));
        }
        Ok(())
    }

    fn check_edge(&self, index: usize, node: &Node, edge: &Edge) -> Result<()> {
        let sender = match self.node(edge.from) {
            Some(sender) if (edge.from.0 as usize) < index => sender,
            Some(later) => {
                let text = format!("it reads '{}', which does not come before it: a job has no cycles", later.name);
                return Err(Error::user(text));
            }
            None => {
                let text = format!("it reads node {}, but the job has {} nodes", edge.from.0, self.nodes.len());
                return Err(Error::user(text));
            }
        };
        if sender.output_schema(edge.output).is_none() {
            return Err(Error::user(no_such_output(sender, edge)));
        }
        let (from, to) = (self.parallelism_of(sender)?, self.parallelism_of(node)?);
        if edge.partitioning == Partitioning::Forward && from != to {
            return Err(Error::user(format!(
                "forward needs the same parallelism on both sides, found {from} of '{}' and {to} here: use rebalance",
                sender.name
            )));
        }
        Ok(())
    }

    /// Edges into one input are a union: same columns, and keyed all the same way or not at all.
    fn check_unions(&self, node: &Node) -> Result<()> {
        let mut first_of: HashMap<u8, &Edge> = HashMap::new();
        for edge in &node.inputs {
            let first = *first_of.entry(edge.input.0).or_insert(edge);
            let (Some(expected), Some(found)) = (self.edge_schema(first), self.edge_schema(edge)) else { continue };
            if let Some(difference) = difference(expected, found) {
                return Err(Error::user(format!(
                    "streams of one input must have the same columns, but '{}' and '{}' differ: {difference}",
                    self.name_of(first),
                    self.name_of(edge)
                ))
                .at("input", edge.input.0));
            }
            if key_columns(first) != key_columns(edge) {
                return Err(Error::user(format!(
                    "streams of one input must be keyed by the same columns or not at all, found {} from '{}' and {} \
                     from '{}'",
                    key_text(first, expected),
                    self.name_of(first),
                    key_text(edge, found),
                    self.name_of(edge)
                ))
                .at("input", edge.input.0));
            }
        }
        Ok(())
    }

    /// Keys are made of columns that are there and of types that can be keys; all keyed inputs have the same key.
    fn check_key_types(&self, node: &Node) -> Result<()> {
        let mut expected: Option<(&Edge, Vec<&DataType>)> = None;
        for edge in &node.inputs {
            let (Some(columns), Some(schema)) = (key_columns(edge), self.edge_schema(edge)) else { continue };
            let types = key_types(columns, schema).map_err(|e| e.at("input", edge.input.0))?;
            match &expected {
                None => expected = Some((edge, types)),
                Some((_, first)) if *first == types => {}
                Some((at, first)) => {
                    return Err(Error::user(format!(
                        "all keyed inputs must have keys of the same types, found {} on input {} and {} on input {}",
                        types_text(first),
                        at.input.0,
                        types_text(&types),
                        edge.input.0
                    )));
                }
            }
        }
        Ok(())
    }

    fn name_of(&self, edge: &Edge) -> &str {
        self.node(edge.from).map_or("", |node| node.name.as_str())
    }
}

/// Options with which nothing would move if they were 0.
fn check_limits(config: &Config) -> Result<()> {
    let limits = [
        (BATCH_ROWS.key, config.get(&BATCH_ROWS)?),
        (REQUEST_CAPACITY.key, config.get(&REQUEST_CAPACITY)?),
        (CHANNEL_CREDIT.key, config.get(&CHANNEL_CREDIT)? as usize),
        (WATERMARK_ROWS.key, config.get(&WATERMARK_ROWS)? as usize),
    ];
    match limits.into_iter().find(|(_, limit)| *limit == 0) {
        Some((key, _)) => Err(Error::user("expected a whole number of at least 1, found 0").at("option", key)),
        None => Ok(()),
    }
}

fn unique_uids(nodes: &[Node]) -> Result<()> {
    let mut seen: HashMap<&str, &Node> = HashMap::new();
    for node in nodes {
        if node.uid.is_empty() {
            let text = "it has an empty uid, by which its state could not be found again: give it one";
            return Err(Error::user(text).at("operator", &node.name));
        }
        if let Some(other) = seen.insert(&node.uid, node) {
            let taken = |uid: &String| nodes.iter().any(|n| n.uid == *uid);
            let free = (2..).map(|i| format!("{}-{i}", node.uid)).find(|uid| !taken(uid)).unwrap_or_default();
            return Err(Error::user(format!(
                "'{}' and '{}' have the same uid: give one of them another, such as '{free}'",
                other.name, node.name
            ))
            .at("uid", &node.uid));
        }
    }
    Ok(())
}

fn check_side_outputs(node: &Node) -> Result<()> {
    for (index, (tag, _)) in node.side_outputs.iter().enumerate() {
        if node.side_outputs[..index].iter().any(|(earlier, _)| earlier == tag) {
            return Err(Error::user(format!("it has two side outputs of the tag '{tag}'")));
        }
    }
    match node.side_outputs.len() {
        0..=255 => Ok(()),
        more => Err(Error::user(format!("it has {more} side outputs, at most 255 are possible"))),
    }
}

fn check_inputs(node: &Node) -> Result<()> {
    let inputs = node.num_inputs();
    match &node.kind {
        NodeKind::Source { .. } if inputs > 0 => return Err(Error::user("a source has no inputs, but this one does")),
        NodeKind::Source { .. } => return Ok(()),
        NodeKind::Operator(_) | NodeKind::Watermarks(_) | NodeKind::Sink(_) if inputs == 0 => {
            return Err(Error::user("it has no inputs: only a source can do without"));
        }
        NodeKind::Watermarks(_) | NodeKind::Sink(_) if inputs > 1 => {
            return Err(Error::user(format!("it has one input, found an edge into input {}", inputs - 1)));
        }
        NodeKind::Operator(_) | NodeKind::Watermarks(_) | NodeKind::Sink(_) => {}
    }
    match (0..inputs).find(|&input| node.inputs.iter().all(|edge| usize::from(edge.input.0) != input)) {
        Some(gap) => Err(Error::user(format!("there are edges into input {} but none into {gap}", inputs - 1))),
        None => Ok(()),
    }
}

fn no_such_output(sender: &Node, edge: &Edge) -> String {
    let name = &sender.name;
    match &sender.kind {
        NodeKind::Sink(_) => format!("it reads '{name}', a sink, which has no outputs"),
        NodeKind::Source { .. } | NodeKind::Operator(_) | NodeKind::Watermarks(_) => format!(
            "it reads output {} of '{name}', which has {}, counted from 0",
            edge.output.0,
            1 + sender.side_outputs.len()
        ),
    }
}

fn check_watermarks(strategy: &WatermarkStrategy, schema: &Schema) -> Result<()> {
    let Some(column) = strategy.time_column else { return Ok(()) };
    let Some(field) = schema.fields().get(column) else {
        let text = format!("the event time is in column {column}, but there are {}", columns_text(schema));
        return Err(Error::user(text));
    };
    match field.data_type() {
        DataType::Timestamp(..) | DataType::Int64 => Ok(()),
        other => {
            let found = type_name(other);
            let text = format!("the event time must be a timestamp or a BIGINT of milliseconds, found {found}");
            Err(Error::user(text).at("column", field.name()))
        }
    }
}

fn key_columns(edge: &Edge) -> Option<&[usize]> {
    match &edge.partitioning {
        Partitioning::Hash(columns) => Some(columns),
        _ => None,
    }
}

fn key_types<'a>(columns: &[usize], schema: &'a Schema) -> Result<Vec<&'a DataType>> {
    if columns.is_empty() {
        return Err(Error::user("a key must have at least one column"));
    }
    let field_of = |column: usize| {
        let field = schema.fields().get(column).ok_or_else(|| {
            Error::user(format!("the key has column {column}, but there are {}", columns_text(schema)))
        })?;
        check_key_type(field.name(), field.data_type()).map(|()| field.data_type())
    };
    columns.iter().map(|&column| field_of(column)).collect()
}

/// The first difference between the columns of two streams; metadata does not count.
fn difference(expected: &Schema, found: &Schema) -> Option<String> {
    let (expected, found) = (expected.fields(), found.fields());
    if expected.len() != found.len() {
        return Some(format!("{} columns and {}", expected.len(), found.len()));
    }
    expected.iter().zip(found.iter()).enumerate().find_map(|(index, (a, b))| {
        let text = |f: &arrow_schema::Field| {
            format!("'{} {}{}'", f.name(), type_name(f.data_type()), if f.is_nullable() { "" } else { " NOT NULL" })
        };
        let same = a.name() == b.name() && a.data_type() == b.data_type() && a.is_nullable() == b.is_nullable();
        (!same).then(|| format!("column {index} is {} and {}", text(a), text(b)))
    })
}

fn columns_text(schema: &Schema) -> String {
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    format!("{} columns: {}", names.len(), names.join(", "))
}

fn key_text(edge: &Edge, schema: &Schema) -> String {
    match key_columns(edge) {
        Some(columns) => format!("key ({})", crate::explain::column_names(columns, schema)),
        None => "no key".to_owned(),
    }
}

fn types_text(types: &[&DataType]) -> String {
    let names: Vec<_> = types.iter().map(|data_type| type_name(data_type)).collect();
    format!("({})", names.join(", "))
}
