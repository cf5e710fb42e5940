//! From an optimised logical plan to the nodes of a stream graph.
//!
//! Filters and projections are gathered in a [`Flow`] (`flow.rs`) and become one calc where something needs real
//! columns: an exchange, a sink. A window costs nothing until then: an aggregate takes it as its own, anyone else gets
//! columns.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_expr::{self as df, LogicalPlan};
use flott_core::{Config, InputId, OutputId, Spec, WatermarkStrategy};
use flott_operators::calc::{self, CalcConfig};
use flott_operators::expr::{BinaryOp, Expr, Scalar, return_field};
use flott_plan::{Chaining, Edge, Node, NodeId, NodeKind, Partitioning, StreamGraph};
use sqlparser::tokenizer::Span;

use crate::catalog::{Catalog, Table};
use crate::explain;
use crate::flow::{Content, Flow, Window, binary, cast_to};
use crate::lower_expr::lower_expr;
use crate::script::{Fault, Result};
use crate::window::Tumble;

/// Builds the graph of one statement.
pub(crate) struct Lowering<'a> {
    catalog: &'a Catalog,
    pub(crate) graph: StreamGraph,
    /// What each node of the graph does, in full.
    pub(crate) descriptions: Vec<String>,
}

/// What a node does: in short, for its name, and in full.
pub(crate) struct Does {
    pub(crate) short: String,
    pub(crate) text: String,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(catalog: &'a Catalog, name: &str, config: &Config) -> Self {
        let graph = StreamGraph { name: name.to_owned(), config: config.clone(), nodes: Vec::new() };
        Self { catalog, graph, descriptions: Vec::new() }
    }

    /// The rows that `plan` gives.
    pub(crate) fn lower(&mut self, plan: &LogicalPlan) -> Result<Flow> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.lower(&alias.input),
            LogicalPlan::Projection(projection) => self.project(projection),
            LogicalPlan::Filter(filter) => {
                let mut flow = self.lower(&filter.input)?;
                let condition = lower_expr(&filter.predicate, filter.input.schema(), &flow)?;
                flow.filter = Some(match flow.filter.take() {
                    None => condition,
                    Some(before) => binary(BinaryOp::And, before, condition),
                });
                Ok(flow)
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<Tumble>() {
                Some(tumble) => self.tumble(tumble),
                None => Err(Fault::internal(format!("the plan has a node {}", extension.node.name()))),
            },
            other => {
                let text = other.display().to_string();
                let construct = text.split([':', ' ']).next().unwrap_or_default();
                Err(Fault::unsupported(format!("a query with {construct}"), Span::empty()))
            }
        }
    }

    fn scan(&mut self, scan: &df::TableScan) -> Result<Flow> {
        if !scan.filters.is_empty() || scan.fetch.is_some() {
            return Err(Fault::internal("a filter or limit was pushed into a source that takes none"));
        }
        let table = Arc::clone(self.catalog.get(scan.table_name.table())?);
        let asked = scan.projection.clone().unwrap_or_else(|| (0..table.columns.len()).collect());
        let mut read = asked.clone();
        if let Some(watermark) = table.watermark {
            read.push(watermark.column);
        }
        read.sort_unstable();
        read.dedup();
        // A reader must give something for a query that only counts rows.
        if read.is_empty() {
            read.push(0);
        }
        let (spec, given) = table.connector.source(&table.name, &table.schema(), &read)?;
        let schema = Arc::new(table.schema().project(&given).map_err(|e| Fault::internal(e.to_string()))?);
        let position = |column: usize| given.iter().position(|&c| c == column);
        let watermarks = table.watermark.map(|w| WatermarkStrategy {
            time_column: position(w.column),
            ..WatermarkStrategy::for_bounded_out_of_orderness(w.out_of_orderness_ms)
        });
        let does = Does { short: format!("Source: {}", table.name), text: explain::source_text(&table, &schema) };
        let kind = NodeKind::Source { spec, watermarks };
        let node = self.add(&format!("source:{}", table.name), does, kind, Vec::new(), schema.clone(), None);
        let columns = asked.into_iter().map(|column| {
            let at = position(column).unwrap_or_default();
            let is_rowtime = table.watermark.is_some_and(|w| w.column == column);
            let content = if is_rowtime { Content::Rowtime } else { Content::Expr };
            (content(Expr::Column(at)), schema.field(at).clone())
        });
        Ok(Flow { node, filter: None, columns: columns.collect(), window: None })
    }

    fn project(&mut self, projection: &df::Projection) -> Result<Flow> {
        let mut flow = self.lower(&projection.input)?;
        let input = projection.input.schema();
        let mut columns = Vec::with_capacity(projection.expr.len());
        for (expr, field) in projection.expr.iter().zip(projection.schema.fields()) {
            let content = match unaliased(expr) {
                df::Expr::Column(column) => flow.columns[input.index_of_column(column)?].0.clone(),
                expr => Content::Expr(lower_expr(expr, input, &flow)?),
            };
            columns.push((content, field.as_ref().clone()));
        }
        flow.columns = columns;
        Ok(flow)
    }

    fn tumble(&mut self, tumble: &Tumble) -> Result<Flow> {
        let flow = self.lower(&tumble.input)?;
        let df::Expr::Column(column) = &tumble.time else {
            return Err(Fault::internal("a window over an expression"));
        };
        let at = tumble.input.schema().index_of_column(column)?;
        let Content::Rowtime(time) = flow.columns[at].0.clone() else {
            let text = format!(
                "the window needs a time attribute, but the column {} is none: its table needs a WATERMARK FOR it",
                column.name
            );
            return Err(Fault::new(text, crate::functions::span_of(&tumble.time)));
        };
        let mut columns = Vec::new();
        for (at, (content, field)) in flow.columns.iter().enumerate() {
            let content = match content {
                Content::Rowtime(e) => Content::Rowtime(e.clone()),
                _ => Content::Expr(flow.expr(at)?),
            };
            columns.push((content, field.clone()));
        }
        let schema = datafusion_expr::UserDefinedLogicalNodeCore::schema(tumble);
        let window_columns = [Content::WindowStart, Content::WindowEnd, Content::WindowTime];
        for (content, field) in window_columns.into_iter().zip(&schema.fields()[columns.len()..]) {
            columns.push((content, field.as_ref().clone()));
        }
        let window = Window { size_ms: tumble.size_ms, offset_ms: tumble.offset_ms, time };
        Ok(Flow { node: flow.node, filter: flow.filter, columns, window: Some(window) })
    }

    /// Makes the columns of a flow the columns of a node: a calc, or none where the node has just these.
    pub(crate) fn materialise(&mut self, flow: &Flow) -> Result<NodeId> {
        let columns = (0..flow.columns.len()).map(|at| {
            let field = &flow.columns[at].1;
            Ok((field.name().clone(), flow.expr(at)?, field.data_type().clone()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.calc(flow.node, flow.filter.clone(), columns)
    }

    /// A calc that gives these columns: name, expression, type.
    pub(crate) fn calc(
        &mut self,
        from: NodeId,
        filter: Option<Expr>,
        columns: Vec<(String, Expr, DataType)>,
    ) -> Result<NodeId> {
        let input = Arc::clone(&self.node(from).output);
        let same = |(at, (name, e, _)): (usize, &(String, Expr, DataType))| {
            *e == Expr::Column(at) && input.field(at).name() == name
        };
        if filter.is_none() && columns.len() == input.fields().len() && columns.iter().enumerate().all(same) {
            return Ok(from);
        }
        let mut project = Vec::with_capacity(columns.len());
        for (name, expr, data_type) in columns {
            let gives = return_field(&name, &expr, &input).map_err(Fault::of_operators)?;
            let expr = if *gives.data_type() == data_type { expr } else { cast_to(expr, &data_type) };
            project.push((name, expr));
        }
        let config = CalcConfig { filter, project: Some(project) };
        let output = config.output(&input).map_err(Fault::of_operators)?;
        let does = Does { short: "Calc".to_owned(), text: explain::calc_text(&config, &input) };
        let kind = NodeKind::Operator(spec(calc::NAME, &config)?);
        let uid = format!("calc:{}", self.node(from).uid);
        Ok(self.add(&uid, does, kind, vec![forward(from)], output, self.node(from).parallelism))
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.graph.nodes[id.0 as usize]
    }

    /// Adds a node. Its uid says what it is and what it reads; the second of a kind gets a number. Its name has its
    /// number in the plan, as with Flink's `table.exec.simplify-operator-name-enabled`.
    pub(crate) fn add(
        &mut self,
        uid: &str,
        does: Does,
        kind: NodeKind,
        inputs: Vec<Edge>,
        output: SchemaRef,
        parallelism: Option<u32>,
    ) -> NodeId {
        let taken = |uid: &str| self.graph.nodes.iter().any(|node| node.uid == uid);
        let mut unique = uid.to_owned();
        let mut number = 2;
        while taken(&unique) {
            unique = format!("{uid}#{number}");
            number += 1;
        }
        // A script has far fewer than 2^32 nodes.
        let id = NodeId(u32::try_from(self.graph.nodes.len()).unwrap_or(u32::MAX));
        self.descriptions.push(does.text);
        self.graph.nodes.push(Node {
            uid: unique,
            name: format!("{}[{}]", does.short, u64::from(id.0) + 1),
            kind,
            inputs,
            output,
            side_outputs: Vec::new(),
            parallelism,
            max_parallelism: None,
            chaining: Chaining::Always,
        });
        id
    }

    /// The sink of an INSERT: the query's columns by position under the sink's names and types.
    pub(crate) fn insert(&mut self, flow: &Flow, sink: &Table, columns: &[usize], span: Span) -> Result<()> {
        if flow.columns.len() != columns.len() {
            let names = |c: &[usize]| c.iter().map(|&c| sink.columns[c].name.as_str()).collect::<Vec<_>>().join(", ");
            let given: Vec<_> = flow.columns.iter().map(|(_, f)| f.name().as_str()).collect();
            let text = format!(
                "the query gives {} columns ({}), the sink '{}' takes {} ({})",
                given.len(),
                given.join(", "),
                sink.name,
                columns.len(),
                names(columns)
            );
            return Err(Fault::new(text, span));
        }
        let mut out = Vec::with_capacity(sink.columns.len());
        for (target, column) in sink.columns.iter().enumerate() {
            let expected = sink.arrow_type(target);
            let Some(source) = columns.iter().position(|&c| c == target) else {
                if !column.nullable {
                    let text = format!("the column '{}' of '{}' is NOT NULL and not given", column.name, sink.name);
                    return Err(Fault::new(text, span));
                }
                out.push((column.name.clone(), Expr::Literal(Scalar(None, expected.clone())), expected));
                continue;
            };
            let found = &flow.columns[source].1;
            explain::check_sink_column(&sink.name, column, found, &expected).map_err(|text| Fault::new(text, span))?;
            out.push((column.name.clone(), flow.expr(source)?, expected));
        }
        let from = self.calc(flow.node, flow.filter.clone(), out)?;
        let sink_spec = sink.connector.sink(&sink.name).map_err(|fault| fault.or_at(span))?;
        self.sink(from, &sink.name, sink_spec);
        Ok(())
    }

    /// A sink over a node.
    pub(crate) fn sink(&mut self, from: NodeId, name: &str, spec: Spec) {
        let output = Arc::clone(&self.node(from).output);
        let parallelism = self.node(from).parallelism;
        let does = Does { short: format!("Sink: {name}"), text: explain::sink_text(name, &output) };
        self.add(&format!("sink:{name}"), does, NodeKind::Sink(spec), vec![forward(from)], output, parallelism);
    }
}

/// The expression under its name.
pub(crate) fn unaliased(expr: &df::Expr) -> &df::Expr {
    match expr {
        df::Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

pub(crate) fn edge(from: NodeId, partitioning: Partitioning) -> Edge {
    Edge { from, output: OutputId(0), input: InputId(0), partitioning }
}

fn forward(from: NodeId) -> Edge {
    edge(from, Partitioning::Forward)
}

pub(crate) fn spec(name: &str, config: &impl serde::Serialize) -> Result<Spec> {
    Spec::new(name, config).map_err(Fault::of_operators)
}

/// A schema of these fields.
pub(crate) fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
