//! What a node does, in full: what EXPLAIN shows. Errors and metrics name nodes in short, as Flink does: `Calc[2]`.

use arrow_schema::{DataType, Field, Schema};
use flott_core::type_name;
use flott_operators::Function;
use flott_operators::calc::CalcConfig;
use flott_operators::expr::sql_text;
use flott_operators::window_aggregate::WindowAggregateConfig;

use crate::catalog::{Column, Table};

fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn source_text(table: &Table, schema: &Schema) -> String {
    let watermark = table.watermark.map_or(String::new(), |w| {
        let column = &table.columns[w.column].name;
        match w.out_of_orderness_ms {
            0 => format!(", watermark=[{column}]"),
            ms => format!(", watermark=[{column} - {ms} ms]"),
        }
    });
    format!("TableSourceScan(table=[{}], fields=[{}]{watermark})", table.name, names(schema))
}

pub(crate) fn sink_text(name: &str, schema: &Schema) -> String {
    format!("Sink(table=[{name}], fields=[{}])", names(schema))
}

pub(crate) fn calc_text(config: &CalcConfig, input: &Schema) -> String {
    let mut parts = Vec::new();
    if let Some(project) = &config.project {
        let columns = project.iter().map(|(name, e)| {
            let text = sql_text(e, input);
            if text == *name { text } else { format!("{text} AS {name}") }
        });
        parts.push(format!("select=[{}]", columns.collect::<Vec<_>>().join(", ")));
    }
    if let Some(filter) = &config.filter {
        parts.push(format!("where=[{}]", sql_text(filter, input)));
    }
    format!("Calc({})", parts.join(", "))
}

pub(crate) fn window_aggregate_text(config: &WindowAggregateConfig, keys: &[String], input: &Schema) -> String {
    let mut parts = Vec::new();
    if !keys.is_empty() {
        parts.push(format!("groupBy=[{}]", keys.join(", ")));
    }
    let offset = if config.offset_ms == 0 { String::new() } else { format!(", offset {} ms", config.offset_ms) };
    parts.push(format!("window=[TUMBLE(size {} ms{offset})]", config.size_ms));
    let calls = config.aggregates.iter().map(|call| {
        let argument = call.column.map_or("*", |column| input.field(column).name());
        format!("{}({argument})", function_name(call.function))
    });
    parts.push(format!("select=[{}]", calls.collect::<Vec<_>>().join(", ")));
    parts.push("state=[until the watermark passes the window]".to_owned());
    format!("WindowAggregate({})", parts.join(", "))
}

fn function_name(function: Function) -> &'static str {
    match function {
        Function::Count => "COUNT",
        Function::Sum => "SUM",
        Function::Min => "MIN",
        Function::Max => "MAX",
        Function::Avg => "AVG",
        Function::First => "FIRST_VALUE",
        Function::Last => "LAST_VALUE",
        _ => "?",
    }
}

/// Whether a column of a query may go into a column of a sink: the same type, or one Flink casts to it by itself
/// (wider numbers, other precisions of a timestamp). NULLs may not go where they are not allowed.
pub(crate) fn check_sink_column(sink: &str, column: &Column, given: &Field, expected: &DataType) -> Result<(), String> {
    use DataType as T;
    let found = given.data_type();
    let widens = match (found, expected) {
        (a, b) if a == b => true,
        (T::Null, _) => true,
        (T::Int8, T::Int16 | T::Int32 | T::Int64) | (T::Int16, T::Int32 | T::Int64) | (T::Int32, T::Int64) => true,
        (a, T::Decimal128(..)) => a.is_numeric(),
        (a, T::Float32) => a.is_integer() || matches!(a, T::Decimal128(..)),
        (a, T::Float64) => a.is_numeric(),
        (T::Timestamp(_, a), T::Timestamp(_, b)) => a == b,
        _ => false,
    };
    if !widens {
        return Err(format!(
            "the column '{}' of the sink '{sink}' is {}, the query gives '{}' of type {} for it: CAST it",
            column.name,
            column.flink_type,
            given.name(),
            type_name(found)
        ));
    }
    if !column.flink_type.is_exact() {
        return Err(format!(
            "writing a {} is not supported yet (the column '{}' of the sink '{sink}'): declare a precision of 3, 6 or 9",
            column.flink_type, column.name
        ));
    }
    if !column.nullable && given.is_nullable() {
        return Err(format!(
            "the column '{}' of the sink '{sink}' is NOT NULL, but '{}' of the query may be NULL",
            column.name,
            given.name()
        ));
    }
    Ok(())
}
