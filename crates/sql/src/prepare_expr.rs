//! A parsed expression before it is planned: an allow-list of what means the same to Flink and to DataFusion, the rest
//! refused where it stands; Flink's types for literals.

use sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, ExactNumberInfo, Expr, ExtractSyntax, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, TimezoneInfo, TrimWhereField, TypedString, UnaryOperator,
    Value, ValueWithSpan,
};
use sqlparser::tokenizer::Span;

use crate::functions::{AGGREGATES, SCALARS};
use crate::interval::interval_millis;
use crate::parts::parts;
use crate::script::{Fault, Result, did_you_mean};
use crate::types::FlinkType;

/// Checks and rewrites an expression in place.
pub(crate) fn prepare_expr(expr: &mut Expr) -> Result<()> {
    check(expr)?;
    parts(expr).into_iter().try_for_each(prepare_expr)?;
    // After its parts, so that what is put in its place is not looked at again.
    if let Some(new) = rewrite(expr)? {
        *expr = new;
    }
    Ok(())
}

/// A function's name in upper case: Flink's functions have no case.
pub(crate) fn function_name(function: &Function) -> String {
    function.name.to_string().to_uppercase()
}

/// The arguments of a function; names, stars and clauses between them are refused.
pub(crate) fn function_arguments(function: &Function) -> Result<Vec<Expr>> {
    let refused = || Fault::new(format!("expected plain arguments of {}", function.name), function.name.span());
    let FunctionArguments::List(list) = &function.args else {
        return Err(refused());
    };
    let plain = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Ok(e.clone()),
        _ => Err(refused()),
    });
    plain.collect()
}

/// Functions that are a part of a date: name, field.
const FIELDS: [(&str, DateTimeField); 8] = [
    ("YEAR", DateTimeField::Year),
    ("QUARTER", DateTimeField::Quarter),
    ("MONTH", DateTimeField::Month),
    ("DAYOFMONTH", DateTimeField::Day),
    ("DAYOFYEAR", DateTimeField::Doy),
    ("HOUR", DateTimeField::Hour),
    ("MINUTE", DateTimeField::Minute),
    ("SECOND", DateTimeField::Second),
];

/// Functions that become operators.
const OPERATORS: [&str; 2] = ["CONCAT", "MOD"];

fn check(expr: &Expr) -> Result<()> {
    let span = expr.span();
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_) | Expr::Case { .. } => Ok(()),
        Expr::IsFalse(_) | Expr::IsNotFalse(_) | Expr::IsTrue(_) | Expr::IsNotTrue(_) => Ok(()),
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => Ok(()),
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) | Expr::InList { .. } | Expr::Between { .. } => Ok(()),
        Expr::BinaryOp { op, .. } => match op {
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::StringConcat
            | BinaryOperator::Gt
            | BinaryOperator::Lt
            | BinaryOperator::GtEq
            | BinaryOperator::LtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::And
            | BinaryOperator::Or => Ok(()),
            other => Err(Fault::new(format!("Flink has no operator {other}"), span)),
        },
        Expr::UnaryOp { op: UnaryOperator::Plus | UnaryOperator::Minus | UnaryOperator::Not, .. } => Ok(()),
        Expr::Like { any: false, pattern, escape_char, .. } => check_like(pattern, escape_char.as_ref(), span),
        Expr::Cast { kind: CastKind::Cast | CastKind::TryCast, data_type, array: false, format: None, .. } => {
            FlinkType::of_ast(data_type).map(drop).map_err(|fault| fault.or_at(span))
        }
        Expr::Cast { .. } => Err(Fault::new("a cast is written CAST(x AS type)", span)),
        Expr::Extract { field, syntax: ExtractSyntax::From, .. } => check_field(field, span),
        Expr::Ceil { field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime), .. } => Ok(()),
        Expr::Floor { field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime), .. } => Ok(()),
        Expr::Trim { trim_what: None, trim_characters: None, trim_where, .. } => match trim_where {
            None | Some(TrimWhereField::Both | TrimWhereField::Leading | TrimWhereField::Trailing) => Ok(()),
        },
        Expr::Value(value) => check_value(value),
        Expr::TypedString(typed) => match typed.data_type {
            DataType::Date | DataType::Timestamp(..) => Ok(()),
            ref other => Err(Fault::unsupported(format!("a literal of type {other}"), span)),
        },
        Expr::Interval(interval) => interval_millis(interval, span).map(drop),
        Expr::Function(function) => check_function(function),
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            Err(Fault::unsupported("a subquery in an expression", span))
        }
        other => Err(Fault::unsupported(format!("the expression {other}"), span)),
    }
}

/// DataFusion's LIKE escapes with a backslash where Flink's does not escape at all.
fn check_like(pattern: &Expr, escape: Option<&ValueWithSpan>, span: Span) -> Result<()> {
    match (pattern, escape) {
        (_, Some(_)) => Err(Fault::unsupported("LIKE .. ESCAPE", span)),
        (Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }), None) if !text.contains('\\') => {
            Ok(())
        }
        _ => Err(Fault::unsupported("LIKE with a pattern that is no literal or has a backslash", span)),
    }
}

fn check_field(field: &DateTimeField, span: Span) -> Result<()> {
    if FIELDS.iter().any(|(_, f)| f == field) {
        Ok(())
    } else {
        Err(Fault::unsupported(format!("EXTRACT({field} FROM ..)"), span))
    }
}

fn check_value(value: &ValueWithSpan) -> Result<()> {
    match &value.value {
        Value::Number(number, _) if !number.contains(['.', 'e', 'E']) && number.parse::<i64>().is_err() => {
            Err(Fault::new(format!("expected a BIGINT, found {number}: a larger number is a text to CAST"), value.span))
        }
        Value::Number(..) | Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
        other => Err(Fault::unsupported(format!("the literal {other}"), value.span)),
    }
}

fn check_function(function: &Function) -> Result<()> {
    let name = function_name(function);
    let span = function.name.span();
    if function.over.is_some() {
        return Err(Fault::unsupported(format!("{name}(..) OVER"), span));
    }
    let is_aggregate = AGGREGATES.contains(&name.as_str());
    let known = SCALARS.iter().copied().chain(FIELDS.iter().map(|(name, _)| *name)).chain(OPERATORS);
    let known = known.chain(AGGREGATES);
    if !known.clone().any(|k| k == name) {
        let hint = did_you_mean(&name, known);
        return Err(Fault::new(format!("the function {name} is unknown or not supported yet{hint}"), span));
    }
    if !function.within_group.is_empty() || function.null_treatment.is_some() {
        return Err(Fault::unsupported(format!("{name} with WITHIN GROUP or null treatment"), span));
    }
    if function.filter.is_some() && !is_aggregate {
        return Err(Fault::new(format!("{name} is no aggregate: it takes no FILTER"), span));
    }
    if let FunctionArguments::List(list) = &function.args {
        if list.duplicate_treatment == Some(sqlparser::ast::DuplicateTreatment::Distinct) {
            return Err(Fault::unsupported(format!("{name}(DISTINCT ..)"), span));
        }
        if !list.clauses.is_empty() {
            return Err(Fault::unsupported(format!("a clause in {name}(..)"), span));
        }
    }
    Ok(())
}

fn rewrite(expr: &Expr) -> Result<Option<Expr>> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), span }) => Ok(typed_number(expr, number, *span)),
        Expr::TypedString(typed) => Ok(typed_time(expr, typed)),
        // As comparisons, whose operands are brought together as Flink does.
        Expr::Between { expr: value, negated, low, high } => {
            let low = binary((**value).clone(), BinaryOperator::GtEq, (**low).clone());
            let high = binary((**value).clone(), BinaryOperator::LtEq, (**high).clone());
            let between = binary(low, BinaryOperator::And, high);
            let not = |e| Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(e) }));
            Ok(Some(if *negated { not(between) } else { between }))
        }
        Expr::Function(function) => rewrite_function(function),
        _ => Ok(None),
    }
}

/// A timestamp of up to three digits behind the second is kept in milliseconds.
fn typed_time(expr: &Expr, typed: &TypedString) -> Option<Expr> {
    let (DataType::Timestamp(..), Value::SingleQuotedString(text)) = (&typed.data_type, &typed.value.value) else {
        return None;
    };
    let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    (digits <= 3).then(|| cast(expr.clone(), DataType::Timestamp(Some(3), TimezoneInfo::None)))
}

/// Flink's type of a number: INT where it fits, BIGINT where it fits, DECIMAL with a point, DOUBLE with an exponent.
/// The planner finds BIGINT by itself.
fn typed_number(expr: &Expr, number: &str, span: Span) -> Option<Expr> {
    if number.parse::<i32>().is_ok() {
        return Some(cast(expr.clone(), DataType::Int(None)));
    }
    if number.contains(['e', 'E']) {
        let text = Value::SingleQuotedString(number.to_owned());
        return Some(cast(Expr::Value(ValueWithSpan { value: text, span }), DataType::Double(ExactNumberInfo::None)));
    }
    // Flink counts every digit as written: 0.05 is a DECIMAL(3, 2).
    let (precision, scale) = (number.len() - 1, number.split_once('.')?.1.len());
    let info = ExactNumberInfo::PrecisionAndScale(precision.min(38) as u64, scale as i64);
    Some(cast(expr.clone(), DataType::Decimal(info)))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn rewrite_function(function: &Function) -> Result<Option<Expr>> {
    let name = function_name(function);
    if let Some((_, field)) = FIELDS.iter().find(|(n, _)| *n == name) {
        let [argument] = exactly(function)?;
        let expr = Box::new(argument);
        return Ok(Some(Expr::Extract { field: field.clone(), syntax: ExtractSyntax::From, expr }));
    }
    match name.as_str() {
        "MOD" => {
            let [left, right] = exactly(function)?;
            Ok(Some(binary(left, BinaryOperator::Modulo, right)))
        }
        // As || it gives NULL where an argument is NULL, as Flink's does and DataFusion's does not.
        "CONCAT" => {
            let arguments = function_arguments(function)?.into_iter();
            let chain = arguments.reduce(|left, right| binary(left, BinaryOperator::StringConcat, right));
            chain.map(Some).ok_or_else(|| Fault::new("expected arguments of CONCAT", function.name.span()))
        }
        _ => Ok(None),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let nested = |e| Box::new(Expr::Nested(Box::new(e)));
    Expr::Nested(Box::new(Expr::BinaryOp { left: nested(left), op, right: nested(right) }))
}

fn exactly<const N: usize>(function: &Function) -> Result<[Expr; N]> {
    let arguments = function_arguments(function)?;
    let found = arguments.len();
    let plural = if N == 1 { "" } else { "s" };
    arguments.try_into().map_err(|_| {
        let message = format!("expected {N} argument{plural} of {}, found {found}", function.name);
        Fault::new(message, function.name.span())
    })
}
