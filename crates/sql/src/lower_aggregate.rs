//! GROUP BY over a window: a calc for keys and arguments, an exchange by the keys, the window aggregate.

use arrow_schema::{DataType, Field};
use datafusion_expr as df;
use flott_core::check_key_type;
use flott_operators::expr::{Expr, Scalar, return_field, sql_text};
use flott_operators::window_aggregate::{self, WindowAggregateConfig};
use flott_operators::{Call, Function};
use flott_plan::{NodeKind, Partitioning};
use sqlparser::tokenizer::Span;

use crate::explain;
use crate::flow::{Content, Flow, Window, shift, zoned};
use crate::functions::{is_never_null, span_of};
use crate::lower::{Does, Lowering, edge, spec, unaliased};
use crate::lower_expr::lower_expr;
use crate::script::{Fault, Result};

/// What a group expression is.
enum Key {
    /// A key of the operator, by position.
    Plain(usize),
    Start,
    End,
    Time,
}

/// The columns an aggregate reads, each once, under different names.
#[derive(Default)]
struct Inputs(Vec<(String, Expr, DataType)>);

impl Inputs {
    fn position(&mut self, name: &str, expr: Expr, data_type: DataType) -> usize {
        if let Some(found) = self.0.iter().position(|(_, e, t)| *e == expr && *t == data_type) {
            return found;
        }
        let name = unique(name, |n| self.0.iter().any(|(taken, ..)| taken == n));
        self.0.push((name, expr, data_type));
        self.0.len() - 1
    }
}

/// A name that is not taken: by others, or by the window's columns in the output.
fn unique(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let taken = |n: &str| taken(n) || n == "window_start" || n == "window_end";
    let mut unique = name.to_owned();
    let mut number = 0;
    while taken(&unique) {
        unique = format!("{name}${number}");
        number += 1;
    }
    unique
}

impl Lowering<'_> {
    pub(crate) fn aggregate(&mut self, aggregate: &df::Aggregate) -> Result<Flow> {
        let flow = self.lower(&aggregate.input)?;
        let input = aggregate.input.schema();
        let mut inputs = Inputs::default();
        let mut keys = Vec::new();
        let mut num_keys = 0;
        for (expr, field) in aggregate.group_expr.iter().zip(aggregate.schema.fields()) {
            let content = match unaliased(expr) {
                df::Expr::Column(column) => flow.columns[input.index_of_column(column)?].0.clone(),
                expr => Content::Expr(lower_expr(expr, input, &flow)?),
            };
            keys.push(match content {
                Content::WindowStart => Key::Start,
                Content::WindowEnd => Key::End,
                Content::WindowTime => Key::Time,
                Content::Expr(key) | Content::Rowtime(key) => {
                    check_key_type(field.name(), field.data_type())
                        .map_err(|e| Fault::new(e.to_string(), span_of(expr)))?;
                    let name = sql_text(&key, &self.node(flow.node).output);
                    let at = inputs.position(&name, key, field.data_type().clone());
                    num_keys = num_keys.max(at + 1);
                    Key::Plain(at)
                }
            });
        }
        let window = window_of(aggregate, &flow, &keys)?;

        let mut calls = Vec::new();
        let fields = &aggregate.schema.fields()[keys.len()..];
        let mut names: Vec<String> = Vec::new();
        for expr in &aggregate.aggr_expr {
            let (name, call) = self.call(expr, input, &flow, &mut inputs)?;
            names.push(name);
            calls.push(call);
        }
        let described = names.join(",");
        // An operator without keys has no keyed state: a constant is the key, so that one task has all rows.
        let global = num_keys == 0;
        if global {
            for call in &mut calls {
                call.column = call.column.map(|column| column + 1);
            }
            let constant = Expr::Literal(Scalar(Some("0".to_owned()), DataType::Int8));
            inputs.0.insert(0, ("$global".to_owned(), constant, DataType::Int8));
            num_keys = 1;
        }
        let key_names: Vec<_> = inputs.0[..num_keys].iter().map(|(name, ..)| name.clone()).collect();
        let from = self.calc(flow.node, flow.filter, inputs.0)?;

        let key_columns: Vec<usize> = (0..num_keys).collect();
        let config = WindowAggregateConfig {
            size_ms: window.size_ms,
            offset_ms: window.offset_ms,
            time_column: None,
            aggregates: calls,
        };
        let schema = self.node(from).output.clone();
        for at in 0..names.len() {
            let (before, name) = (&names[..at], &names[at]);
            names[at] = unique(name, |n| before.iter().chain(&key_names).any(|taken| taken == n));
        }
        let output =
            config.output(names.iter().map(String::as_str), &schema, &key_columns).map_err(Fault::of_operators)?;
        let shown_keys = if global { &[][..] } else { &key_names };
        let text = explain::window_aggregate_text(&config, shown_keys, &schema);
        let does = Does { short: "WindowAggregate".to_owned(), text };
        // What the layout of the state depends on, and nothing else: a filter or another projection keeps it.
        let uid = format!(
            "window_aggregate:{}:{}+{}:{}:{described}",
            self.node(from).uid.trim_start_matches("calc:"),
            config.size_ms,
            config.offset_ms,
            shown_keys.join(",")
        );
        let kind = NodeKind::Operator(spec(window_aggregate::NAME, &config)?);
        let parallelism = global.then_some(1);
        let inputs = vec![edge(from, Partitioning::Hash(key_columns))];
        let node = self.add(&uid, does, kind, inputs, output, parallelism);

        let start = Expr::Column(num_keys);
        let end = Expr::Column(num_keys + 1);
        let mut columns: Vec<(Content, Field)> = Vec::new();
        for (key, field) in keys.iter().zip(aggregate.schema.fields()) {
            let content = match key {
                Key::Plain(at) => Content::Expr(Expr::Column(*at)),
                Key::Start => Content::Expr(start.clone()),
                Key::End => Content::Expr(end.clone()),
                Key::Time => Content::Rowtime(zoned(shift(end.clone(), -1), field.data_type())),
            };
            columns.push((content, field.as_ref().clone()));
        }
        for (at, field) in fields.iter().enumerate() {
            columns.push((Content::Expr(Expr::Column(num_keys + 2 + at)), field.as_ref().clone()));
        }
        Ok(Flow { node, filter: None, columns, window: None })
    }

    fn call(
        &self,
        expr: &df::Expr,
        input: &datafusion_common::DFSchema,
        flow: &Flow,
        inputs: &mut Inputs,
    ) -> Result<(String, Call)> {
        let df::Expr::AggregateFunction(call) = unaliased(expr) else {
            return Err(Fault::unsupported(format!("the aggregate {expr}"), span_of(expr)));
        };
        let params = &call.params;
        let name = call.func.name();
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Err(Fault::unsupported(format!("{name} with DISTINCT, ORDER BY or null treatment"), span_of(expr)));
        }
        let [argument] = params.args.as_slice() else {
            return Err(Fault::new(format!("expected 1 argument of {name}"), span_of(expr)));
        };
        let function = match name {
            "COUNT" => Function::Count,
            "SUM" => Function::Sum,
            "MIN" => Function::Min,
            "MAX" => Function::Max,
            "AVG" => Function::Avg,
            _ => return Err(Fault::unsupported(format!("the aggregate {name}"), span_of(expr))),
        };
        let filter = params.filter.as_deref().map(|e| lower_expr(e, input, flow)).transpose()?;
        if function == Function::Count && filter.is_none() && is_never_null(argument) {
            return Ok(("COUNT(*)".to_owned(), Call { function, column: None }));
        }
        let mut value = lower_expr(argument, input, flow)?;
        // Aggregates pass over NULLs, so a FILTER is a CASE.
        if let Some(condition) = filter {
            value = Expr::Case { operand: None, branches: vec![(condition, value)], otherwise: None };
        }
        let schema = &self.node(flow.node).output;
        let field = return_field("argument", &value, schema).map_err(Fault::of_operators)?;
        let text = sql_text(&value, schema);
        let column = Some(inputs.position(&text, value, field.data_type().clone()));
        Ok((format!("{name}({text})"), Call { function, column }))
    }
}

/// The window that the aggregate is over; without one its state would grow for ever and its results change.
fn window_of(aggregate: &df::Aggregate, flow: &Flow, keys: &[Key]) -> Result<Window> {
    let span = aggregate.aggr_expr.iter().chain(&aggregate.group_expr).map(span_of).find(|s| *s != Span::empty());
    let span = span.unwrap_or_else(Span::empty);
    let has = |wanted: fn(&Key) -> bool| keys.iter().any(wanted);
    match &flow.window {
        Some(window) if has(|k| matches!(k, Key::Start)) && has(|k| matches!(k, Key::End)) => Ok(window.clone()),
        Some(_) => Err(Fault::unsupported(
            "an aggregate over a window whose GROUP BY does not have both window_start and window_end",
            span,
        )),
        None => Err(Fault::unsupported("an aggregate without a window (GROUP BY or none, over a stream)", span)),
    }
}
