//! What expressions and queries are made of, as far as `prepare` lets them through.
//!
//! sqlparser has visitors of its own, but each makes the compiler write out a thousand functions, for every part of
//! every dialect.

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor,
};

/// The expressions that an expression is made of, in the order in which they are written; none of those that are
/// refused anyway.
pub(crate) fn parts(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::Nested(part)
        | Expr::UnaryOp { expr: part, .. }
        | Expr::IsFalse(part)
        | Expr::IsNotFalse(part)
        | Expr::IsTrue(part)
        | Expr::IsNotTrue(part)
        | Expr::IsNull(part)
        | Expr::IsNotNull(part)
        | Expr::IsUnknown(part)
        | Expr::IsNotUnknown(part)
        | Expr::Cast { expr: part, .. }
        | Expr::Extract { expr: part, .. }
        | Expr::Ceil { expr: part, .. }
        | Expr::Floor { expr: part, .. }
        | Expr::Trim { expr: part, .. } => vec![part],
        Expr::BinaryOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right)
        | Expr::Like { expr: left, pattern: right, .. } => vec![left, right],
        Expr::Between { expr, low, high, .. } => vec![expr, low, high],
        Expr::InList { expr, list, .. } => std::iter::once(&mut **expr).chain(list).collect(),
        Expr::Case { operand, conditions, else_result, .. } => {
            let branches = conditions.iter_mut().flat_map(|case| [&mut case.condition, &mut case.result]);
            operand.as_deref_mut().into_iter().chain(branches).chain(else_result.as_deref_mut()).collect()
        }
        Expr::Function(function) => match &mut function.args {
            FunctionArguments::List(list) => {
                list.args.iter_mut().filter_map(argument).chain(function.filter.as_deref_mut()).collect()
            }
            FunctionArguments::None | FunctionArguments::Subquery(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The expression given as an argument; none for a star.
pub(crate) fn argument(argument: &mut FunctionArg) -> Option<&mut Expr> {
    let (FunctionArg::Unnamed(value)
    | FunctionArg::Named { arg: value, .. }
    | FunctionArg::ExprNamed { arg: value, .. }) = argument;
    match value {
        FunctionArgExpr::Expr(expr) => Some(expr),
        _ => None,
    }
}

/// Calls `visit` for every expression of a query and its subqueries, from the outside in, as they are written.
pub(crate) fn for_each_expr(query: &mut Query, visit: &mut dyn FnMut(&Expr)) {
    let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
    tables.for_each(|table| for_each_expr(&mut table.query, visit));
    match &mut *query.body {
        SetExpr::Select(select) => of_select(select, visit),
        SetExpr::Query(inner) => for_each_expr(inner, visit),
        _ => {}
    }
}

fn of_select(select: &mut Select, visit: &mut dyn FnMut(&Expr)) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            with_parts(expr, visit);
        }
    }
    for from in &mut select.from {
        match &mut from.relation {
            TableFactor::Derived { subquery, .. } => for_each_expr(subquery, visit),
            TableFactor::Function { args, .. } => args.iter_mut().filter_map(argument).for_each(|arg| match arg {
                Expr::Subquery(query) => for_each_expr(query, visit),
                other => with_parts(other, visit),
            }),
            _ => {}
        }
    }
    let keys = match &mut select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter_mut(),
        GroupByExpr::All(_) => [].iter_mut(),
    };
    select.selection.iter_mut().chain(keys).chain(&mut select.having).for_each(|expr| with_parts(expr, visit));
}

fn with_parts(expr: &mut Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(expr);
    parts(expr).into_iter().for_each(|part| with_parts(part, visit));
}
