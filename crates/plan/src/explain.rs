//! Plans for people: [`StreamGraph::explain`] as text, [`StreamGraph::explain_json`] for Flink's plan visualizer.

use std::fmt::Write as _;

use arrow_schema::Schema;
use serde_json::{Value, json};

use crate::{Edge, Node, NodeKind, Partitioning, StreamGraph};

impl StreamGraph {
    /// The plan as text: a block for each node, inputs first, numbered from 1 as in [`StreamGraph::explain_json`].
    ///
    /// A line `<- 1 HASH(word)` says which node is read and how rows find the tasks. What cannot be known (the default
    /// parallelism of a graph with a broken configuration) reads `?`.
    pub fn explain(&self) -> String {
        let mut text = format!("== Plan of {} ==\n", self.name);
        for (index, node) in self.nodes.iter().enumerate() {
            let number = |n: flott_core::Result<u32>| n.map_or("?".to_owned(), |n| n.to_string());
            let parallelism = number(self.parallelism_of(node));
            let max = number(self.max_parallelism_of(node));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{}: {} ({}, uid {}, parallelism {parallelism} of {max})",
                index + 1,
                node.name,
                node.kind.name(),
                node.uid
            );
            if self.is_left_out(index) {
                text.push_str("   left out: nobody reads it\n");
            }
            for edge in &node.inputs {
                let _ = writeln!(text, "   <- {}", self.explain_edge(node, edge));
            }
        }
        text
    }

    fn explain_edge(&self, reader: &Node, edge: &Edge) -> String {
        let mut text = (u64::from(edge.from.0) + 1).to_string();
        if let Some(tag) = self.node(edge.from).and_then(|sender| sender.side_output_tag(edge.output)) {
            let _ = write!(text, " side output {tag}");
        }
        let _ = write!(text, " {}", edge.partitioning.name());
        if let (Partitioning::Hash(columns), Some(schema)) = (&edge.partitioning, self.edge_schema(edge)) {
            let _ = write!(text, "({})", column_names(columns, schema));
        }
        if reader.num_inputs() > 1 {
            let _ = write!(text, " into input {}", edge.input.0);
        }
        text
    }

    /// The plan in the shape of Flink's `StreamExecutionEnvironment.getExecutionPlan`, which its plan visualizer reads.
    pub fn explain_json(&self) -> Value {
        let nodes = self.nodes.iter().enumerate().map(|(index, node)| {
            let mut value = json!({
                "id": index + 1,
                "type": node.name,
                "pact": node.kind.pact(),
                "contents": node.name,
                "parallelism": self.parallelism_of(node).ok(),
            });
            if !node.inputs.is_empty() {
                value["predecessors"] = node.inputs.iter().map(predecessor).collect();
            }
            value
        });
        json!({ "nodes": nodes.collect::<Vec<_>>() })
    }
}

fn predecessor(edge: &Edge) -> Value {
    json!({ "id": u64::from(edge.from.0) + 1, "ship_strategy": edge.partitioning.name() })
}

impl NodeKind {
    /// A word for plans.
    fn name(&self) -> &'static str {
        match self {
            Self::Source { .. } => "source",
            Self::Operator(_) => "operator",
            Self::Watermarks(_) => "watermarks",
            Self::Sink(_) => "sink",
        }
    }

    /// Flink's word in execution plans.
    fn pact(&self) -> &'static str {
        match self {
            Self::Source { .. } => "Data Source",
            Self::Operator(_) | Self::Watermarks(_) => "Operator",
            Self::Sink(_) => "Data Sink",
        }
    }
}

/// The names of these columns, with commas; a column that is not there by its number.
pub(crate) fn column_names(columns: &[usize], schema: &Schema) -> String {
    let name = |&column: &usize| schema.fields().get(column).map_or(column.to_string(), |f| f.name().clone());
    columns.iter().map(name).collect::<Vec<_>>().join(", ")
}
