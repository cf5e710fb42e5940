//! Scripts in; plans, messages and errors out. Whole jobs are run by crates that know the runtime.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod errors;
mod plans;
mod rooms;
mod statements;

use std::sync::Arc;

use flott_core::{Config, OperatorInfo, Registry};
use flott_plan::NodeKind;
use flott_sql::{Planned, PlannedJob, SqlEnvironment};

/// The tables of the tests.
const TABLES: &str = "
CREATE TABLE bids (auction BIGINT, bidder INT, price DOUBLE, note STRING, cost DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '/data/bids', 'format' = 'csv');
CREATE TABLE plain (id BIGINT NOT NULL, at_time TIMESTAMP(3), day_of DATE, ok BOOLEAN)
  WITH ('connector' = 'filesystem', 'path' = 'plain.csv', 'format' = 'csv');
CREATE TABLE zoned (k STRING, lt TIMESTAMP_LTZ(3), WATERMARK FOR lt AS lt)
  WITH ('connector' = 'filesystem', 'path' = 'zoned.csv', 'format' = 'csv');
CREATE TABLE counts (ws TIMESTAMP(3), auction BIGINT, c BIGINT NOT NULL) WITH ('connector' = 'blackhole');
CREATE TABLE shown (auction BIGINT, total DECIMAL(20, 3)) WITH ('connector' = 'print');
";

fn environment() -> SqlEnvironment {
    let mut config = Config::default();
    config.set("parallelism.default", "3").unwrap();
    let mut sql = SqlEnvironment::new(config);
    sql.execute(TABLES).unwrap();
    sql
}

/// The plan of one statement, without uids and parallelism, and the columns its sink gets; or the error.
fn plan_of(statement: &str) -> String {
    let planned = match environment().execute(statement) {
        Ok(planned) => planned,
        Err(error) => return error.to_string(),
    };
    let [Planned::Job(job)] = &planned[..] else { panic!("{planned:?}") };
    make_operators(job);
    let plan = job.explain();
    let mut text: String = plan
        .lines()
        .skip(1)
        .map(|line| match (line.find(" (source, "), line.find(" (operator, "), line.find(" (sink, ")) {
            (Some(at), ..) | (_, Some(at), _) | (.., Some(at)) => {
                let tasks = if line.contains("parallelism 1 of 128") { " in one task" } else { "" };
                format!("{}{tasks}\n", &line[..at])
            }
            _ => format!("{line}\n"),
        })
        .collect();
    text.push_str(&columns_of(job));
    text
}

/// Makes every operator of the graph, which checks its configuration against the declared inputs and outputs.
fn make_operators(job: &PlannedJob) {
    let mut registry = Registry::default();
    flott_operators::register_all(&mut registry);
    for node in &job.graph.nodes {
        let NodeKind::Operator(spec) = &node.kind else { continue };
        let inputs = node.inputs.iter().map(|edge| job.graph.edge_schema(edge).unwrap().clone());
        let info = OperatorInfo {
            uid: node.uid.clone(),
            name: node.name.clone(),
            index: 0,
            parallelism: 1,
            max_parallelism: 128,
            inputs: inputs.collect(),
            output: node.output.clone(),
            side_outputs: Vec::new(),
            keys: node.keys(),
        };
        if let Err(error) = registry.operator(&spec.factory).unwrap().create(spec, &Arc::new(info)) {
            panic!("{error}");
        }
    }
}

fn columns_of(job: &PlannedJob) -> String {
    let columns = job.output.fields().iter().map(|f| {
        let null = if f.is_nullable() { "" } else { " NOT NULL" };
        format!("{} {}{null}", f.name(), flott_sql::FlinkType::of_arrow(f.data_type()).unwrap())
    });
    columns.collect::<Vec<_>>().join(", ")
}
