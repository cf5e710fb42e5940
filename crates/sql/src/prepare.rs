//! A parsed query before it is planned: refuses what flott cannot run (by name and place, since the planner knows no
//! places), brings the legacy group windows into the form of table functions and gives columns Flink's names.
//! Expressions are in `prepare_expr.rs`.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SetExpr, SetOperator, Spanned, TableAlias, TableFactor,
};
use sqlparser::tokenizer::Span;

use crate::parts::{argument, for_each_expr, parts};
use crate::prepare_expr::{function_arguments, function_name, prepare_expr};
use crate::script::{Fault, Result};
use crate::window::TUMBLE;

/// Checks and rewrites a query in place.
pub(crate) fn prepare(query: &mut Query) -> Result<()> {
    if let Some(with) = &mut query.with {
        if with.recursive {
            return Err(Fault::unsupported("WITH RECURSIVE", with.with_token.0.span));
        }
        for cte in &mut with.cte_tables {
            prepare(&mut cte.query)?;
        }
    }
    if let Some(order) = &query.order_by {
        return Err(Fault::unsupported("ORDER BY", order.span()));
    }
    if let Some(limit) = &query.limit_clause {
        return Err(Fault::unsupported("LIMIT", limit.span()));
    }
    if query.fetch.is_some() {
        return Err(Fault::unsupported("FETCH", query.body.span()));
    }
    if !query.locks.is_empty() || query.for_clause.is_some() || !query.pipe_operators.is_empty() {
        return Err(Fault::unsupported("FOR or |> after a query", query.body.span()));
    }
    prepare_body(&mut query.body)
}

fn prepare_body(body: &mut SetExpr) -> Result<()> {
    let span = body.span();
    match body {
        SetExpr::Select(select) => prepare_select(select),
        SetExpr::Query(query) => prepare(query),
        SetExpr::SetOperation { op, right, .. } => {
            let name = match op {
                SetOperator::Union => "UNION",
                SetOperator::Except | SetOperator::Minus => "EXCEPT",
                SetOperator::Intersect => "INTERSECT",
            };
            Err(Fault::unsupported(name, right.span()))
        }
        SetExpr::Values(_) => Err(Fault::unsupported("VALUES", span)),
        _ => Err(Fault::new("expected a SELECT", span)),
    }
}

fn prepare_select(select: &mut Select) -> Result<()> {
    let start = select.select_token.0.span;
    if select.distinct.is_some() {
        return Err(Fault::unsupported("SELECT DISTINCT", start));
    }
    if select.top.is_some() || select.into.is_some() || select.select_modifiers.is_some() || select.exclude.is_some() {
        return Err(Fault::new("Flink's SELECT has no TOP, INTO, EXCLUDE or modifiers", start));
    }
    if let Some(qualify) = &select.qualify {
        return Err(Fault::unsupported("QUALIFY", qualify.span()));
    }
    if let Some(window) = select.named_window.first() {
        return Err(Fault::unsupported("WINDOW", window.0.span));
    }
    if let Some(by) = select.cluster_by.first().or(select.distribute_by.first()) {
        return Err(Fault::new("Flink's SELECT has no CLUSTER BY or DISTRIBUTE BY", by.span()));
    }
    if !select.sort_by.is_empty()
        || !select.connect_by.is_empty()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
    {
        return Err(Fault::new("Flink's SELECT has no SORT BY, CONNECT BY, LATERAL VIEW or PREWHERE", start));
    }
    prepare_from(select)?;
    legacy_window(select)?;

    let visit = |expr: &mut Expr| prepare_expr(expr);
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => visit(expr)?,
            SelectItem::ExprWithAliases { .. } => {
                return Err(Fault::new("a column has one name", item.span()));
            }
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                if options.opt_exclude.is_some()
                    || options.opt_except.is_some()
                    || options.opt_replace.is_some()
                    || options.opt_rename.is_some()
                    || options.opt_ilike.is_some()
                {
                    return Err(Fault::new("nothing may follow the star", item.span()));
                }
            }
        }
    }
    if let Some(filter) = &mut select.selection {
        visit(filter)?;
    }
    if let Some(having) = &mut select.having {
        visit(having)?;
    }
    match &mut select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => {
            for key in keys {
                if matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)) {
                    return Err(Fault::unsupported("GROUPING SETS, CUBE or ROLLUP", key.span()));
                }
                // A number is a column's position to some and a constant to others.
                if let Expr::Value(constant) = key {
                    return Err(Fault::unsupported("a constant in GROUP BY", constant.span));
                }
                visit(key)?;
            }
        }
        GroupByExpr::Expressions(..) | GroupByExpr::All(_) => {
            return Err(Fault::new("Flink's GROUP BY has no ALL and no modifiers", select.group_by.span()));
        }
    }
    name_columns(&mut select.projection);
    Ok(())
}

/// Flink's names: `EXPR$` and its position for a column that is neither a name nor given one, a number behind a name
/// that is there already.
fn name_columns(projection: &mut [SelectItem]) {
    let mut names: Vec<String> = Vec::new();
    for (position, item) in projection.iter_mut().enumerate() {
        let (expr, wanted) = match item {
            SelectItem::UnnamedExpr(expr) => match &*expr {
                Expr::Identifier(name) => (expr.clone(), name.value.clone()),
                Expr::CompoundIdentifier(parts) => {
                    (expr.clone(), parts.last().map_or_else(String::new, |name| name.value.clone()))
                }
                _ => (expr.clone(), format!("EXPR${position}")),
            },
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.value.clone()),
            _ => continue,
        };
        let mut name = wanted.clone();
        let mut number = 0;
        while names.contains(&name) {
            name = format!("{wanted}{number}");
            number += 1;
        }
        let is_its_name = matches!(&expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && name == wanted;
        if !is_its_name || matches!(item, SelectItem::ExprWithAlias { .. }) {
            let alias = Ident::with_span(expr.span(), name.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        names.push(name);
    }
}

/// Where a column is first written in a prepared query.
pub(crate) fn find_column(query: &mut Query, name: &str) -> Option<Span> {
    let mut found = None;
    for_each_expr(query, &mut |expr| {
        let span = match expr {
            Expr::Identifier(ident) if ident.value == name => Some(ident.span),
            Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|last| last.value == name) => Some(expr.span()),
            _ => None,
        };
        found = found.or(span);
    });
    found
}

fn prepare_from(select: &mut Select) -> Result<()> {
    match select.from.as_mut_slice() {
        [] => Err(Fault::unsupported("a SELECT without FROM", select.select_token.0.span)),
        [one] => {
            if let Some(join) = one.joins.first() {
                return Err(Fault::unsupported("a join", join.relation.span()));
            }
            prepare_relation(&mut one.relation)
        }
        [_, second, ..] => Err(Fault::unsupported("a join (several tables in FROM)", second.relation.span())),
    }
}

fn prepare_relation(relation: &mut TableFactor) -> Result<()> {
    let span = relation.span();
    match relation {
        TableFactor::Table { name, alias, args, with_hints, version, sample, with_ordinality, .. } => {
            if version.is_some() {
                return Err(Fault::unsupported("a temporal table (FOR SYSTEM_TIME AS OF)", span));
            }
            if sample.is_some() || !with_hints.is_empty() || *with_ordinality {
                return Err(Fault::unsupported("TABLESAMPLE, WITH hints or ORDINALITY", span));
            }
            if let Some(args) = args.take() {
                let (name, alias) = (name.clone(), alias.clone());
                return prepare_table_function(relation, &name, args.args, alias, span);
            }
            Ok(())
        }
        TableFactor::TableFunction { expr: Expr::Function(function), alias } => {
            let FunctionArguments::List(list) = &function.args else {
                return Err(Fault::new(format!("expected arguments after {}", function.name), function.name.span()));
            };
            let (name, args, alias) = (function.name.clone(), list.args.clone(), alias.clone());
            prepare_table_function(relation, &name, args, alias, span)
        }
        TableFactor::Function { name, args, alias, lateral: false, .. } => {
            let (name, args, alias) = (name.clone(), args.clone(), alias.clone());
            prepare_table_function(relation, &name, args, alias, span)
        }
        TableFactor::Derived { lateral: false, subquery, sample: None, .. } => prepare(subquery),
        TableFactor::Derived { .. } | TableFactor::Function { .. } => Err(Fault::unsupported("LATERAL", span)),
        TableFactor::NestedJoin { table_with_joins, alias: None } if table_with_joins.joins.is_empty() => {
            *relation = table_with_joins.relation.clone();
            prepare_relation(relation)
        }
        TableFactor::NestedJoin { .. } => Err(Fault::unsupported("a join", span)),
        TableFactor::UNNEST { .. } => Err(Fault::unsupported("UNNEST", span)),
        TableFactor::MatchRecognize { .. } => Err(Fault::unsupported("MATCH_RECOGNIZE", span)),
        TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => Err(Fault::unsupported("PIVOT", span)),
        _ => Err(Fault::unsupported("this kind of table", span)),
    }
}

/// `TUMBLE(TABLE t, DESCRIPTOR(ts), ..)` in any of its three parses becomes the one that `window.rs` plans.
fn prepare_table_function(
    relation: &mut TableFactor,
    name: &ObjectName,
    mut args: Vec<FunctionArg>,
    alias: Option<TableAlias>,
    span: Span,
) -> Result<()> {
    let upper = name.to_string().to_uppercase();
    match upper.as_str() {
        TUMBLE => {}
        "HOP" | "CUMULATE" | "SESSION" => return Err(Fault::unsupported(format!("the window {upper}"), name.span())),
        _ => return Err(Fault::unsupported(format!("the table function {name}"), name.span())),
    }
    for arg in args.iter_mut().filter_map(argument) {
        if let Expr::Subquery(query) = arg {
            prepare(query)?;
        }
    }
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_span(span_or(name.span(), span), TUMBLE))]);
    *relation = TableFactor::Function { lateral: false, name, args, with_ordinality: false, alias };
    Ok(())
}

fn span_or(span: Span, other: Span) -> Span {
    if span == Span::empty() { other } else { span }
}

/// `FROM t GROUP BY TUMBLE(ts, INTERVAL ..), k` means `FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL ..)
/// GROUP BY window_start, window_end, k`, and `TUMBLE_START(..)` means `window_start`.
fn legacy_window(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else {
        return Ok(());
    };
    let mut window = None;
    for (at, key) in keys.iter().enumerate() {
        let Expr::Function(function) = key else { continue };
        match function_name(function).as_str() {
            TUMBLE if window.is_some() => {
                return Err(Fault::new("GROUP BY has more than one window", key.span()));
            }
            TUMBLE => window = Some((at, function.clone())),
            name @ ("HOP" | "SESSION") => {
                return Err(Fault::unsupported(format!("the window {name}"), function.name.span()));
            }
            _ => {}
        }
    }
    let mut auxiliary = Auxiliary { window: None, uses_time: false };
    if let Some((at, function)) = window {
        auxiliary.window = Some(function.args.to_string());
        let span = function.name.span();
        keys.splice(at..=at, [column("window_start", span), column("window_end", span)]);
        if let [from] = select.from.as_mut_slice() {
            from.relation = window_over(from.relation.clone(), &function)?;
        }
    }
    for (position, item) in select.projection.iter_mut().enumerate() {
        // The column has no name of its own, even if it becomes one that has.
        if let SelectItem::UnnamedExpr(expr @ Expr::Function(_)) = item {
            let alias = Ident::with_span(expr.span(), format!("EXPR${position}"));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            auxiliary.rename(expr)?;
        }
    }
    if let Some(having) = &mut select.having {
        auxiliary.rename(having)?;
    }
    if auxiliary.uses_time
        && let GroupByExpr::Expressions(keys, _) = &mut select.group_by
    {
        keys.push(column("window_time", Span::empty()));
    }
    Ok(())
}

fn column(name: &str, span: Span) -> Expr {
    Expr::Identifier(Ident::with_span(span, name))
}

/// The table function that a legacy window over `relation` means.
fn window_over(relation: TableFactor, function: &Function) -> Result<TableFactor> {
    let span = function.name.span();
    let (input, alias) = match relation {
        TableFactor::Table { name, alias, .. } => {
            let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
            let alias = alias.or_else(|| {
                let name = parts.last().cloned()?;
                Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
            });
            let prefix = Ident::with_span(span, "TABLE");
            (Expr::Prefixed { prefix, value: Box::new(Expr::CompoundIdentifier(parts)) }, alias)
        }
        TableFactor::Derived { subquery, alias, .. } => (Expr::Subquery(subquery), alias),
        _ => return Err(Fault::unsupported("a group window over a table function", span)),
    };
    let mut args = function_arguments(function)?.into_iter();
    let time = args.next().ok_or_else(|| Fault::new("expected TUMBLE(time column, size)", span))?;
    let mut descriptor = function.clone();
    descriptor.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_span(span, "DESCRIPTOR"))]);
    if let FunctionArguments::List(list) = &mut descriptor.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(time))];
    }
    let args = [input, Expr::Function(descriptor)].into_iter().chain(args);
    Ok(TableFactor::Function {
        lateral: false,
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::with_span(span, TUMBLE))]),
        args: args.map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect(),
        with_ordinality: false,
        alias,
    })
}

/// `TUMBLE_START(..)`, `TUMBLE_END(..)` and `TUMBLE_ROWTIME(..)`, which become columns of the window.
struct Auxiliary {
    /// The arguments of the window in GROUP BY.
    window: Option<String>,
    uses_time: bool,
}

impl Auxiliary {
    fn rename(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = &*expr else {
            return parts(expr).into_iter().try_for_each(|part| self.rename(part));
        };
        let name = function_name(function);
        let span = function.name.span();
        let replacement = match name.as_str() {
            "TUMBLE_START" => "window_start",
            "TUMBLE_END" => "window_end",
            "TUMBLE_ROWTIME" => "window_time",
            "TUMBLE_PROCTIME" => return Err(Fault::unsupported(name, span)),
            _ => return parts(expr).into_iter().try_for_each(|part| self.rename(part)),
        };
        if self.window.as_ref() != Some(&function.args.to_string()) {
            let message = format!("{name}{} needs the same window in GROUP BY: TUMBLE{0}", function.args);
            return Err(Fault::new(message, span));
        }
        self.uses_time |= replacement == "window_time";
        *expr = column(replacement, span);
        Ok(())
    }
}
