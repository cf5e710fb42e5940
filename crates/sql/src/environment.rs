//! [`SqlEnvironment`]: statements in, stream graphs out.

use std::sync::Arc;

use arrow_schema::{Field, SchemaRef};
use flott_core::{Config, Error, Result, Spec, type_name};
use flott_plan::StreamGraph;
use sqlparser::ast::{Ident, ObjectName, Query, Spanned};
use sqlparser::tokenizer::Span;

use crate::catalog::Catalog;
use crate::flow::{Content, Flow};
use crate::lower::{Lowering, schema};
use crate::planner::plan;
use crate::script::{self, Fault, Script, did_you_mean};
use crate::statements::{Statement, split, table_name};
use crate::types::FlinkType;

/// What a statement came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Planned {
    /// A job to run.
    Job(PlannedJob),
    /// Something to read: a plan.
    Text(String),
    /// Nothing more to do: a table was made, an option set.
    Done(String),
}

/// The job of an INSERT or a SELECT.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedJob {
    /// The job.
    pub graph: StreamGraph,
    /// The columns its sink gets.
    pub output: SchemaRef,
    /// The table written to; `None`: a SELECT, whose rows go to the sink given by
    /// [`SqlEnvironment::with_select_sink`].
    pub into: Option<String>,
    /// What each node does.
    descriptions: Vec<String>,
}

impl PlannedJob {
    /// The plan as EXPLAIN shows it: each node by what it does, not by its name.
    pub fn explain(&self) -> String {
        let mut graph = self.graph.clone();
        for (node, text) in graph.nodes.iter_mut().zip(&self.descriptions) {
            node.name.clone_from(text);
        }
        graph.explain()
    }
}

/// Tables and options of a session.
///
/// ```
/// use flott_core::Config;
/// use flott_sql::{Planned, SqlEnvironment};
/// let mut sql = SqlEnvironment::new(Config::default());
/// let planned = sql.execute(
///     "CREATE TABLE bids (auction BIGINT, price DOUBLE) WITH ('connector' = 'filesystem', 'path' = 'b', 'format' = 'csv');
///      SELECT auction FROM bids WHERE price > 10;",
/// )?;
/// assert!(matches!(&planned[..], [Planned::Done(_), Planned::Job(job)] if job.graph.nodes.len() == 3));
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Debug)]
pub struct SqlEnvironment {
    catalog: Catalog,
    config: Config,
    select_sink: Spec,
}

impl SqlEnvironment {
    /// An environment without tables; jobs get this configuration, and what SET adds to it. A SELECT prints.
    pub fn new(config: Config) -> Self {
        // The sink `print` with no option set.
        let select_sink = Spec { factory: "print".to_owned(), config: b"{}".to_vec() };
        Self { catalog: Catalog::default(), config, select_sink }
    }

    /// The same with another sink for the rows of SELECTs.
    #[must_use]
    pub fn with_select_sink(mut self, sink: Spec) -> Self {
        self.select_sink = sink;
        self
    }

    /// The options that jobs get.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Plans the statements of a script in order; nothing runs. The first that cannot be planned is the error, with
    /// line, column and a caret; those before it have had their effect.
    pub fn execute(&mut self, sql: &str) -> Result<Vec<Planned>> {
        let script = Script::new(sql);
        let statements = split(&script).map_err(|fault| script.error(fault))?;
        let mut planned = Vec::with_capacity(statements.len());
        for tokens in statements {
            let (start, text) = (tokens.start(), tokens.text(&script));
            let result = tokens.parse().and_then(|statement| self.plan_statement(statement, text));
            planned.push(result.map_err(|fault| script.error(fault.or_at(start)))?);
        }
        Ok(planned)
    }

    fn plan_statement(&mut self, statement: Statement, text: &str) -> script::Result<Planned> {
        match statement {
            Statement::CreateTable(create) => {
                let name = self.catalog.create(create)?;
                Ok(Planned::Done(format!("table {name} created")))
            }
            Statement::DropTable { name, if_exists } => {
                let name = self.catalog.drop(&name, if_exists)?;
                Ok(Planned::Done(format!("table {name} dropped")))
            }
            Statement::Set { key, value, span } => {
                self.config.set(&key, &value).map_err(|e: Error| Fault::new(e.to_string(), span))?;
                Ok(Planned::Done(format!("{key} = {value}")))
            }
            Statement::Insert { table, columns, query } => self.insert(&table, &columns, *query).map(Planned::Job),
            Statement::Query(query) => self.select(*query, text).map(Planned::Job),
            Statement::Explain(inner) => {
                let before = ["EXPLAIN", "PLAN", "FOR", "EXECUTE"];
                let words = text.split_whitespace();
                let words = words.skip_while(|word| before.iter().any(|b| b.eq_ignore_ascii_case(word)));
                let text = words.collect::<Vec<_>>().join(" ");
                match self.plan_statement(*inner, &text)? {
                    Planned::Job(job) => Ok(Planned::Text(job.explain())),
                    other => Ok(other),
                }
            }
        }
    }

    fn insert(&self, table: &ObjectName, columns: &[Ident], query: Query) -> script::Result<PlannedJob> {
        let at = table.span();
        let name = table_name(table)?;
        let sink = Arc::clone(self.catalog.get(&name).map_err(|fault| fault.or_at(at))?);
        let mut targets = Vec::with_capacity(columns.len());
        for column in columns {
            let found = sink.columns.iter().position(|c| c.name == column.value).ok_or_else(|| {
                let hint = did_you_mean(&column.value, sink.columns.iter().map(|c| c.name.as_str()));
                Fault::new(format!("the table '{name}' has no column '{}'{hint}", column.value), column.span)
            })?;
            if targets.contains(&found) {
                return Err(Fault::new(format!("the column '{}' is given twice", column.value), column.span));
            }
            targets.push(found);
        }
        if columns.is_empty() {
            targets.extend(0..sink.columns.len());
        }
        let plan = plan(&self.catalog, query)?;
        let mut lowering = Lowering::new(&self.catalog, &format!("insert-into_{name}"), &self.config);
        let flow = lowering.lower(&plan)?;
        lowering.insert(&flow, &sink, &targets, at)?;
        finish(lowering, Some(name))
    }

    fn select(&self, query: Query, text: &str) -> script::Result<PlannedJob> {
        let plan = plan(&self.catalog, query)?;
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lowering = Lowering::new(&self.catalog, &name, &self.config);
        let flow = lowering.lower(&plan)?;
        let flow = nameable(flow)?;
        let from = lowering.materialise(&flow)?;
        lowering.sink(from, "select", self.select_sink.clone());
        finish(lowering, None)
    }
}

/// Refuses columns whose type SQL cannot name.
fn nameable(flow: Flow) -> script::Result<Flow> {
    let Flow { node, filter, columns, window } = flow;
    let check = |(content, field): (Content, Field)| match FlinkType::of_arrow(field.data_type()) {
        Some(_) => Ok((content, field)),
        None => {
            let text =
                format!("the column {} has no type of SQL ({}): CAST it", field.name(), type_name(field.data_type()));
            Err(Fault::new(text, Span::empty()))
        }
    };
    let columns = columns.into_iter().map(check).collect::<script::Result<_>>()?;
    Ok(Flow { node, filter, columns, window })
}

fn finish(lowering: Lowering<'_>, into: Option<String>) -> script::Result<PlannedJob> {
    let Lowering { graph, descriptions, .. } = lowering;
    graph.validate().map_err(|e| match e.domain() {
        flott_core::ErrorDomain::Internal => Fault::internal(e.to_string()),
        _ => Fault::new(e.to_string(), Span::empty()),
    })?;
    let output = graph.nodes.last().map_or_else(|| schema(Vec::new()), |sink| Arc::clone(&sink.output));
    Ok(PlannedJob { graph, output, into, descriptions })
}
