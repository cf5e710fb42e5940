//! Which functions a query may call, what types Flink gives them, and which implicit casts are Flink's too.
//!
//! Aggregates are ours by name and type only: they are planned here and run by the operators.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion_common::datatype::DataTypeExt;
use datafusion_common::{DFSchema, Result as DfResult, ScalarValue, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, TypePlanner};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Operator, ScalarUDF, Signature, Volatility,
    binary_expr, cast, lit,
};
use flott_core::type_name;
use sqlparser::ast::BinaryOperator;
use sqlparser::tokenizer::{Location, Span};

use crate::script::Fault;
use crate::types::FlinkType;

/// Aggregates, in upper case.
pub(crate) const AGGREGATES: [&str; 5] = ["AVG", "COUNT", "MAX", "MIN", "SUM"];

/// Scalar functions that DataFusion computes as Flink does; in upper case.
pub(crate) const SCALARS: [&str; 9] =
    ["ABS", "BTRIM", "COALESCE", "LOWER", "LTRIM", "NULLIF", "RTRIM", "SQRT", "UPPER"];

/// The scalar function of this name. The parser turns `FLOOR`, `CEIL` and `EXTRACT` into calls by itself.
pub(crate) fn scalar(name: &str) -> Option<Arc<ScalarUDF>> {
    use datafusion_functions::{core, datetime, math, string};
    Some(match name.to_ascii_uppercase().as_str() {
        "ABS" => math::abs(),
        "BTRIM" | "TRIM" => string::btrim(),
        "CEIL" => math::ceil(),
        "COALESCE" => core::coalesce(),
        "DATE_PART" => datetime::date_part(),
        "FLOOR" => math::floor(),
        "LOWER" => string::lower(),
        "LTRIM" => string::ltrim(),
        "NULLIF" => core::nullif(),
        "RTRIM" => string::rtrim(),
        "SQRT" => math::sqrt(),
        "UPPER" => string::upper(),
        _ => return None,
    })
}

/// The aggregate of this name.
pub(crate) fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    let upper = name.to_ascii_uppercase();
    let name = AGGREGATES.into_iter().find(|known| *known == upper)?;
    let signature = Signature::user_defined(Volatility::Immutable);
    Some(Arc::new(AggregateUDF::new_from_impl(FlinkAggregate { name, signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FlinkAggregate {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for FlinkAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Flink's: SUM and AVG stay in the type of their argument, decimals widen, COUNT is BIGINT NOT NULL.
    fn return_type(&self, arguments: &[DataType]) -> DfResult<DataType> {
        let [argument] = arguments else {
            let text = format!("expected 1 argument of {}, found {}", self.name, arguments.len());
            return Err(Fault::new(text, Span::empty()).into());
        };
        let result = match (self.name, argument) {
            ("COUNT", _) => Some(DataType::Int64),
            ("MIN" | "MAX", t) if FlinkType::of_arrow(t).is_some() => Some(t.clone()),
            ("SUM" | "AVG", t) if t.is_integer() || matches!(t, DataType::Float32 | DataType::Float64) => {
                Some(t.clone())
            }
            ("SUM", DataType::Decimal128(_, scale)) => Some(DataType::Decimal128(38, *scale)),
            ("AVG", DataType::Decimal128(_, scale)) => Some(DataType::Decimal128(38, (*scale).max(6))),
            _ => None,
        };
        let wrong = || Fault::new(format!("{} does not take a {}", self.name, type_name(argument)), Span::empty());
        result.ok_or_else(|| wrong().into())
    }

    fn is_nullable(&self) -> bool {
        self.name != "COUNT"
    }

    fn coerce_types(&self, arguments: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(arguments.to_vec())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        exec_err!("{} is run by the operators", self.name)
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        exec_err!("{} is run by the operators", self.name)
    }
}

/// Where an expression starts, as far as the planner knows: at its first column.
pub(crate) fn span_of(expr: &Expr) -> Span {
    let mut columns: Vec<_> = expr.column_refs().into_iter().filter_map(|c| c.spans.first()).collect();
    columns.sort_by_key(|span| (span.start.line, span.start.column));
    columns.first().map_or(Span::empty(), |span| {
        let at = |line, column| Location::new(line, column);
        Span::new(at(span.start.line, span.start.column), at(span.end.line, span.end.column))
    })
}

/// Flink's rules where DataFusion's planner has its own.
#[derive(Debug)]
pub(crate) struct FlinkExpressions;

impl ExprPlanner for FlinkExpressions {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
        check_operands(&op, &left, &left_type, &right, &right_type)?;
        let left = as_number_beside(left, &left_type, &right_type);
        let right = as_number_beside(right, &right_type, &left_type);
        check_decimals(&op, &left, &right, schema)?;
        Ok(match flink_result(&op, &left_type, &right_type) {
            Some((op, data_type)) => PlannerResult::Planned(cast(binary_expr(left, op, right), data_type)),
            None => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }

    /// `EXTRACT` is a BIGINT.
    fn plan_extract(&self, args: Vec<Expr>) -> DfResult<PlannerResult<Vec<Expr>>> {
        let part = ScalarFunction::new_udf(datafusion_functions::datetime::date_part(), args);
        Ok(PlannerResult::Planned(cast(Expr::ScalarFunction(part), DataType::Int64)))
    }

    /// `COUNT(*)` counts a constant.
    fn plan_aggregate(&self, mut expr: RawAggregateExpr) -> DfResult<PlannerResult<RawAggregateExpr>> {
        #[expect(deprecated, reason = "this is how the planner hands the star over")]
        let star = |e: &Expr| matches!(e, Expr::Wildcard { .. });
        if expr.args.iter().any(star) {
            if expr.func.name() != "COUNT" {
                return Err(
                    Fault::new(format!("{} needs an expression, found *", expr.func.name()), Span::empty()).into()
                );
            }
            expr.args = vec![lit("*")];
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Types written in CASTs are Flink's.
#[derive(Debug)]
pub(crate) struct FlinkTypes;

impl TypePlanner for FlinkTypes {
    fn plan_type_field(&self, written: &sqlparser::ast::DataType) -> DfResult<Option<FieldRef>> {
        Ok(Some(FlinkType::of_ast(written)?.to_arrow().into_nullable_field_ref()))
    }
}

/// Refuses operands that DataFusion would bring together in its own way.
fn check_operands(
    op: &BinaryOperator,
    left: &Expr,
    left_type: &DataType,
    right: &Expr,
    right_type: &DataType,
) -> Result<(), Fault> {
    use BinaryOperator as B;
    let refuse = || {
        let text = format!("the operator {op} between {} and {}", type_name(left_type), type_name(right_type));
        let span = span_of(left);
        Err(Fault::unsupported(text, if span == Span::empty() { span_of(right) } else { span }))
    };
    if left_type.is_null() || right_type.is_null() {
        return Ok(());
    }
    let is_interval = |t: &DataType| matches!(t, DataType::Interval(_));
    let is_timestamp = |t: &DataType| matches!(t, DataType::Timestamp(..));
    let is_text = |t: &DataType| matches!(t, DataType::Utf8);
    match op {
        B::StringConcat if is_text(left_type) && is_text(right_type) => Ok(()),
        B::StringConcat => refuse(),
        B::And | B::Or => Ok(()),
        B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo => {
            let numbers = left_type.is_numeric() && right_type.is_numeric();
            let moves = is_timestamp(left_type) && is_interval(right_type) && matches!(op, B::Plus | B::Minus);
            if numbers || moves { Ok(()) } else { refuse() }
        }
        _ => {
            let numbers = left_type.is_numeric() && right_type.is_numeric();
            if numbers || are_alike(left, left_type, right, right_type) { Ok(()) } else { refuse() }
        }
    }
}

/// The type Flink gives a result where DataFusion gives it another: a remainder is of the divisor's type, and of FLOAT
/// and DOUBLE the first decides.
fn flink_result(op: &BinaryOperator, left: &DataType, right: &DataType) -> Option<(Operator, DataType)> {
    use BinaryOperator as B;
    let mixed = (left, right) == (&DataType::Float32, &DataType::Float64);
    let narrows =
        left.is_signed_integer() && right.is_signed_integer() && left.primitive_width() > right.primitive_width();
    match op {
        B::Plus if mixed => Some((Operator::Plus, DataType::Float32)),
        B::Minus if mixed => Some((Operator::Minus, DataType::Float32)),
        B::Multiply if mixed => Some((Operator::Multiply, DataType::Float32)),
        B::Divide if mixed => Some((Operator::Divide, DataType::Float32)),
        B::Modulo if mixed => Some((Operator::Modulo, DataType::Float32)),
        B::Modulo if narrows => Some((Operator::Modulo, right.clone())),
        _ => None,
    }
}

/// What Flink makes of a number beside one of another kind: beside a decimal an integer is a decimal (for BIGINT with
/// one digit less than DataFusion's) and a floating-point number a DOUBLE, which the decimal becomes then too.
fn as_number_beside(expr: Expr, own: &DataType, other: &DataType) -> Expr {
    let is_decimal = |t: &DataType| matches!(t, DataType::Decimal128(..));
    if own.is_floating() && is_decimal(other) || is_decimal(own) && other.is_floating() {
        return cast(expr, DataType::Float64);
    }
    if !is_decimal(other) {
        return expr;
    }
    let digits = match own {
        DataType::Int8 => 3,
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return expr,
    };
    cast(expr, DataType::Decimal128(digits, 0))
}

/// Where DataFusion's precision and rounding of decimals are not Flink's.
fn check_decimals(op: &BinaryOperator, left: &Expr, right: &Expr, schema: &DFSchema) -> DfResult<()> {
    let (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) =
        (left.get_type(schema)?, right.get_type(schema)?)
    else {
        return Ok(());
    };
    let (p1, s1, p2, s2) = (i32::from(p1), i32::from(s1), i32::from(p2), i32::from(s2));
    let digits = match op {
        BinaryOperator::Plus | BinaryOperator::Minus => (p1 - s1).max(p2 - s2) + s1.max(s2) + 1,
        BinaryOperator::Multiply => p1 + p2 + 1,
        BinaryOperator::Divide | BinaryOperator::Modulo => {
            let text = format!("the operator {op} between decimals (cast one to DOUBLE)");
            return Err(Fault::unsupported(text, span_of(left)).into());
        }
        _ => return Ok(()),
    };
    if digits > 38 {
        let text = format!("the operator {op} between decimals whose result needs {digits} digits, more than 38,");
        return Err(Fault::unsupported(text, span_of(left)).into());
    }
    Ok(())
}

/// Whether a cast, written or implied, gives what Flink's gives.
fn check_cast(expr: &Expr, from: &DataType, to: &DataType) -> Result<(), Fault> {
    use DataType as T;
    let float = |t: &T| matches!(t, T::Float32 | T::Float64);
    let exact = |t: &T| t.is_integer() || matches!(t, T::Decimal128(..));
    let same = match (from, to) {
        (a, b) if a == b => true,
        (T::Null, _) => true,
        (a, b) if (exact(a) || float(a)) && (exact(b) || float(b)) => true,
        (T::Boolean, b) => b.is_integer(),
        (a, T::Boolean) => a.is_integer() || *a == T::Utf8,
        (T::Utf8, b) => exact(b) || float(b) || matches!(b, T::Date32 | T::Timestamp(..) | T::Binary),
        (a, T::Utf8) => exact(a) || matches!(a, T::Date32 | T::Binary),
        (T::Timestamp(..), T::Timestamp(..) | T::Date32) | (T::Date32, T::Timestamp(..)) => true,
        (T::Interval(_), T::Interval(_)) => true,
        _ => false,
    };
    if same {
        return Ok(());
    }
    let text = format!("a cast from {} to {}", type_name(from), type_name(to));
    Err(Fault::unsupported(text, span_of(expr)))
}

/// Refuses a text that is no value of the type it is cast to, which the optimiser would do in its own words.
fn check_constant(value: &Expr, to: &DataType) -> Result<(), Fault> {
    match value {
        Expr::Literal(constant @ ScalarValue::Utf8(Some(text)), _) if constant.cast_to(to).is_err() => {
            Err(Fault::new(format!("expected {}, found '{text}'", type_name(to)), Span::empty()))
        }
        _ => Ok(()),
    }
}

/// Refuses casts, written or implied, and calls that mean something else to Flink.
pub(crate) fn check_casts_and_calls(expr: &Expr, schema: &DFSchema) -> DfResult<()> {
    match expr {
        Expr::Cast(cast) => {
            check_cast(expr, &cast.expr.get_type(schema)?, cast.field.data_type())?;
            Ok(check_constant(&cast.expr, cast.field.data_type())?)
        }
        Expr::TryCast(cast) => Ok(check_cast(expr, &cast.expr.get_type(schema)?, cast.field.data_type())?),
        Expr::ScalarFunction(call) if matches!(call.func.name(), "floor" | "ceil") => {
            for argument in &call.args {
                let data_type = argument.get_type(schema)?;
                if !matches!(data_type, DataType::Float64 | DataType::Float32) {
                    let text = format!("{} of a {}", call.func.name().to_uppercase(), type_name(&data_type));
                    return Err(Fault::unsupported(text, span_of(argument)).into());
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Refuses values of different kinds side by side, before DataFusion finds them a common type of its own.
pub(crate) fn check_alike(expr: &Expr, schema: &DFSchema) -> DfResult<()> {
    let all_alike = |what: &str, values: &[&Expr]| -> DfResult<()> {
        let mut typed = Vec::with_capacity(values.len());
        for value in values {
            typed.push((*value, value.get_type(schema)?));
        }
        let mut typed = typed.iter().filter(|(_, data_type)| !data_type.is_null());
        let Some((first, first_type)) = typed.next() else { return Ok(()) };
        for (other, other_type) in typed {
            if !are_alike(first, first_type, other, other_type) {
                let text = format!("{what} of {} and {}", type_name(first_type), type_name(other_type));
                let span = span_of(first);
                let span = if span == Span::empty() { span_of(other) } else { span };
                return Err(Fault::unsupported(text, span).into());
            }
        }
        Ok(())
    };
    match expr {
        Expr::InList(e) => all_alike("IN", &std::iter::once(&*e.expr).chain(&e.list).collect::<Vec<_>>()),
        Expr::Between(e) => all_alike("BETWEEN", &[&e.expr, &e.low, &e.high]),
        Expr::Case(e) => {
            let whens = e.when_then_expr.iter().map(|(when, _)| &**when);
            if let Some(operand) = &e.expr {
                all_alike("CASE", &std::iter::once(&**operand).chain(whens).collect::<Vec<_>>())?;
            }
            let thens = e.when_then_expr.iter().map(|(_, then)| &**then);
            all_alike("CASE", &thens.chain(e.else_expr.as_deref()).collect::<Vec<_>>())
        }
        Expr::ScalarFunction(call) if matches!(call.func.name(), "coalesce" | "nullif") => {
            all_alike(&call.func.name().to_uppercase(), &call.args.iter().collect::<Vec<_>>())
        }
        _ => Ok(()),
    }
}

/// Whether two values can be compared: both numbers, both of one kind, or a time and its text.
fn are_alike(left: &Expr, left_type: &DataType, right: &Expr, right_type: &DataType) -> bool {
    let is_literal_text = |e: &Expr, t: &DataType| *t == DataType::Utf8 && matches!(e, Expr::Literal(..));
    // DataFusion would make a decimal of a floating-point number, and Flink a FLOAT of a DOUBLE behind one; between
    // operands of an operator both are taken care of.
    let is_decimal = |t: &DataType| matches!(t, DataType::Decimal128(..));
    let mixed = is_decimal(left_type) && right_type.is_floating()
        || left_type.is_floating() && is_decimal(right_type)
        || left_type.is_floating() && right_type.is_floating() && left_type != right_type;
    let alike = (left_type.is_numeric() && right_type.is_numeric() && !mixed)
        || std::mem::discriminant(left_type) == std::mem::discriminant(right_type)
        || (left_type.is_temporal() && is_literal_text(right, right_type))
        || (right_type.is_temporal() && is_literal_text(left, left_type));
    let same_zone = match (left_type, right_type) {
        (DataType::Timestamp(_, a), DataType::Timestamp(_, b)) => a == b,
        _ => true,
    };
    alike && same_zone
}

/// Whether an argument of COUNT is a constant that is never NULL, so that every row counts.
pub(crate) fn is_never_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => !matches!(value, ScalarValue::Null) && !value.is_null(),
        Expr::Cast(cast) => is_never_null(&cast.expr),
        Expr::Alias(alias) => is_never_null(&alias.expr),
        _ => false,
    }
}
