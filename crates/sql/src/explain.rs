//! Names of nodes, which say what a node does: what EXPLAIN and the dashboard show.

use arrow_schema::{DataType, Field, Schema};
use flott_operators::Function;
use flott_operators::calc::CalcConfig;
use flott_operators::expr::{BinaryOp, Expr};
use flott_operators::window_aggregate::WindowAggregateConfig;

use crate::catalog::{Column, Table};
use crate::types::type_name;

fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn source_name(table: &Table, schema: &Schema) -> String {
    let watermark = table.watermark.map_or(String::new(), |w| {
        let column = &table.columns[w.column].name;
        match w.out_of_orderness_ms {
            0 => format!(", watermark=[{column}]"),
            ms => format!(", watermark=[{column} - {ms} ms]"),
        }
    });
    format!("TableSourceScan(table=[{}], fields=[{}]{watermark})", table.name, names(schema))
}

pub(crate) fn sink_name(name: &str, schema: &Schema) -> String {
    format!("Sink(table=[{name}], fields=[{}])", names(schema))
}

pub(crate) fn calc_name(config: &CalcConfig, input: &Schema) -> String {
    let mut parts = Vec::new();
    if let Some(project) = &config.project {
        let columns = project.iter().map(|(name, e)| {
            let text = expr_text(e, input);
            if text == *name { text } else { format!("{text} AS {name}") }
        });
        parts.push(format!("select=[{}]", columns.collect::<Vec<_>>().join(", ")));
    }
    if let Some(filter) = &config.filter {
        parts.push(format!("where=[{}]", expr_text(filter, input)));
    }
    format!("Calc({})", parts.join(", "))
}

pub(crate) fn window_aggregate_name(config: &WindowAggregateConfig, keys: &[String], input: &Schema) -> String {
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

/// An expression as SQL, columns by name.
pub(crate) fn expr_text(expr: &Expr, input: &Schema) -> String {
    let text = |e: &Expr| expr_text(e, input);
    // An operand of an operator is put in parentheses where it is one itself.
    let operand = |e: &Expr| if matches!(e, Expr::Binary(..)) { format!("({})", text(e)) } else { text(e) };
    let list = |all: &[Expr]| all.iter().map(text).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Column(index) => input.fields().get(*index).map_or_else(|| index.to_string(), |f| f.name().clone()),
        Expr::Literal(value) => match (&value.0, &value.1) {
            (None, _) => "NULL".to_owned(),
            (Some(value), t) if t.is_numeric() || *t == DataType::Boolean => value.clone(),
            (Some(value), _) => format!("'{}'", value.replace('\'', "''")),
        },
        Expr::Binary(op, left, right) => format!("{} {} {}", operand(left), operator_text(*op), operand(right)),
        Expr::Not(e) => format!("NOT {}", operand(e)),
        Expr::Negate(e) => format!("-{}", operand(e)),
        Expr::IsNull(e) => format!("{} IS NULL", operand(e)),
        Expr::IsNotNull(e) => format!("{} IS NOT NULL", operand(e)),
        Expr::Cast(e, to) => format!("CAST({} AS {})", text(e), type_name(to)),
        Expr::TryCast(e, to) => format!("TRY_CAST({} AS {})", text(e), type_name(to)),
        Expr::Case { operand, branches, otherwise } => {
            let operand = operand.as_ref().map_or(String::new(), |e| format!(" {}", text(e)));
            let branches = branches.iter().map(|(when, then)| format!(" WHEN {} THEN {}", text(when), text(then)));
            let otherwise = otherwise.as_ref().map_or(String::new(), |e| format!(" ELSE {}", text(e)));
            format!("CASE{operand}{}{otherwise} END", branches.collect::<String>())
        }
        Expr::InList { value, list: values, negated } => {
            format!("{}{} IN ({})", operand(value), if *negated { " NOT" } else { "" }, list(values))
        }
        Expr::Like { value, pattern, negated } => {
            format!("{}{} LIKE {}", operand(value), if *negated { " NOT" } else { "" }, text(pattern))
        }
        Expr::Call { function, args } => format!("{}({})", function.to_uppercase(), list(args)),
        other => format!("{other:?}"),
    }
}

fn operator_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::And => "AND",
        BinaryOp::Or => "OR",
        BinaryOp::Eq => "=",
        BinaryOp::NotEq => "<>",
        BinaryOp::Lt => "<",
        BinaryOp::LtEq => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::GtEq => ">=",
        BinaryOp::IsDistinctFrom => "IS DISTINCT FROM",
        BinaryOp::IsNotDistinctFrom => "IS NOT DISTINCT FROM",
        BinaryOp::Plus => "+",
        BinaryOp::Minus => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        BinaryOp::Concat => "||",
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
