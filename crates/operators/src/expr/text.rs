//! Expressions for people: [`sql_text`].

use arrow_schema::{DataType, Schema};
use flott_core::type_name;

use super::{BinaryOp, Expr};

/// An expression as SQL, columns by name.
pub fn sql_text(expr: &Expr, input: &Schema) -> String {
    let text = |e: &Expr| sql_text(e, input);
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
    }
}

pub(super) fn operator_text(op: BinaryOp) -> &'static str {
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
    }
}
