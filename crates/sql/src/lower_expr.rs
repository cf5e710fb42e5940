//! From DataFusion's expressions to the operators' serialisable ones, columns replaced by what they are made of.

use arrow_schema::DataType;
use datafusion_common::DFSchema;
use datafusion_expr::{self as df, ExprSchemable, Operator};
use flott_operators::expr::{BinaryOp, Expr, Scalar};

use crate::flow::{Flow, binary, cast_to};
use crate::functions::span_of;
use crate::narrowing::NARROW;
use crate::script::{Fault, Result};

/// The expression over the columns of the flow's node.
pub(crate) fn lower_expr(expr: &df::Expr, input: &DFSchema, flow: &Flow) -> Result<Expr> {
    let inner = |e: &df::Expr| lower_expr(e, input, flow);
    let boxed = |e: &df::Expr| lower_expr(e, input, flow).map(Box::new);
    let is_boolean = |e: &df::Expr, value: bool, negated: bool| {
        let literal = Expr::Literal(Scalar::boolean(value));
        let op = if negated { BinaryOp::IsDistinctFrom } else { BinaryOp::IsNotDistinctFrom };
        Ok(binary(op, inner(e)?, literal))
    };
    match expr {
        df::Expr::Alias(alias) => inner(&alias.expr),
        df::Expr::Column(column) => flow.expr(input.index_of_column(column)?),
        df::Expr::Literal(value, _) => Ok(Expr::Literal(Scalar::from_datafusion(value).map_err(Fault::of_operators)?)),
        df::Expr::BinaryExpr(e) => Ok(binary(operator(e.op, expr)?, inner(&e.left)?, inner(&e.right)?)),
        df::Expr::Not(e) => Ok(Expr::Not(boxed(e)?)),
        df::Expr::Negative(e) => Ok(Expr::Negate(boxed(e)?)),
        df::Expr::IsNull(e) | df::Expr::IsUnknown(e) => Ok(Expr::IsNull(boxed(e)?)),
        df::Expr::IsNotNull(e) | df::Expr::IsNotUnknown(e) => Ok(Expr::IsNotNull(boxed(e)?)),
        df::Expr::IsTrue(e) => is_boolean(e, true, false),
        df::Expr::IsFalse(e) => is_boolean(e, false, false),
        df::Expr::IsNotTrue(e) => is_boolean(e, true, true),
        df::Expr::IsNotFalse(e) => is_boolean(e, false, true),
        df::Expr::Between(e) => {
            let low = binary(BinaryOp::GtEq, inner(&e.expr)?, inner(&e.low)?);
            let high = binary(BinaryOp::LtEq, inner(&e.expr)?, inner(&e.high)?);
            let between = binary(BinaryOp::And, low, high);
            Ok(if e.negated { Expr::Not(Box::new(between)) } else { between })
        }
        df::Expr::Cast(e) => Ok(cast_to(inner(&e.expr)?, e.field.data_type())),
        df::Expr::TryCast(e) => Ok(Expr::TryCast(boxed(&e.expr)?, e.field.data_type().clone())),
        df::Expr::Case(e) => {
            let branches = e.when_then_expr.iter().map(|(when, then)| Ok((inner(when)?, inner(then)?)));
            Ok(Expr::Case {
                operand: e.expr.as_deref().map(boxed).transpose()?,
                branches: branches.collect::<Result<_>>()?,
                otherwise: e.else_expr.as_deref().map(boxed).transpose()?,
            })
        }
        df::Expr::InList(e) => {
            let list = e.list.iter().map(inner).collect::<Result<_>>()?;
            Ok(Expr::InList { value: boxed(&e.expr)?, list, negated: e.negated })
        }
        df::Expr::Like(e) if e.escape_char.is_none() && !e.case_insensitive => {
            Ok(Expr::Like { value: boxed(&e.expr)?, pattern: boxed(&e.pattern)?, negated: e.negated })
        }
        df::Expr::ScalarFunction(call) if call.func.name() == NARROW => match call.args.as_slice() {
            [argument] => Ok(cast_to(inner(argument)?, &expr.get_type(input)?)),
            _ => Err(Fault::internal("a cast of several values")),
        },
        df::Expr::ScalarFunction(call) => {
            if let Some(written) = in_our_words(call.func.name(), &call.args, &expr.get_type(input)?, &inner)? {
                return Ok(written);
            }
            let args = call.args.iter().map(inner).collect::<Result<_>>()?;
            Ok(Expr::Call { function: call.func.name().to_owned(), args })
        }
        other => Err(Fault::unsupported(format!("the expression {other}"), span_of(other))),
    }
}

/// Functions where the library's is not Java's, as a CASE: ABS of the least INT is itself, SQRT of a negative number is
/// NaN, and to NULLIF -0.0 is 0.0.
fn in_our_words(
    function: &str,
    args: &[df::Expr],
    data_type: &DataType,
    lower: &impl Fn(&df::Expr) -> Result<Expr>,
) -> Result<Option<Expr>> {
    let literal = |text: &str| Expr::Literal(Scalar(Some(text.to_owned()), data_type.clone()));
    let case = |condition, then, otherwise| {
        Ok(Some(Expr::Case { operand: None, branches: vec![(condition, then)], otherwise: Some(Box::new(otherwise)) }))
    };
    match (function, args) {
        ("abs", [value]) if data_type.is_integer() => {
            let value = lower(value)?;
            let negated = Expr::Negate(Box::new(value.clone()));
            case(binary(BinaryOp::Lt, value.clone(), literal("0")), negated, value)
        }
        ("sqrt", [value]) => {
            let value = lower(value)?;
            let root = Expr::Call { function: function.to_owned(), args: vec![value.clone()] };
            case(binary(BinaryOp::Lt, value, literal("0")), literal("NaN"), root)
        }
        ("nullif", [value, other]) if data_type.is_floating() => {
            let (value, other) = (lower(value)?, lower(other)?);
            let null = Expr::Literal(Scalar(None, data_type.clone()));
            case(binary(BinaryOp::Eq, value.clone(), other), null, value)
        }
        _ => Ok(None),
    }
}

fn operator(op: Operator, expr: &df::Expr) -> Result<BinaryOp> {
    Ok(match op {
        Operator::And => BinaryOp::And,
        Operator::Or => BinaryOp::Or,
        Operator::Eq => BinaryOp::Eq,
        Operator::NotEq => BinaryOp::NotEq,
        Operator::Lt => BinaryOp::Lt,
        Operator::LtEq => BinaryOp::LtEq,
        Operator::Gt => BinaryOp::Gt,
        Operator::GtEq => BinaryOp::GtEq,
        Operator::IsDistinctFrom => BinaryOp::IsDistinctFrom,
        Operator::IsNotDistinctFrom => BinaryOp::IsNotDistinctFrom,
        Operator::Plus => BinaryOp::Plus,
        Operator::Minus => BinaryOp::Minus,
        Operator::Multiply => BinaryOp::Multiply,
        Operator::Divide => BinaryOp::Divide,
        Operator::Modulo => BinaryOp::Modulo,
        Operator::StringConcat => BinaryOp::Concat,
        other => return Err(Fault::unsupported(format!("the operator {other}"), span_of(expr))),
    })
}
