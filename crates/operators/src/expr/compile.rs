//! From [`Expr`] to DataFusion's physical expression, with operands brought to common types on the way.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion_common::DataFusionError;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::type_coercion::binary::{BinaryTypeCoercer, comparison_coercion};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{Operator, ScalarUDF};
use datafusion_physical_expr::expressions::{
    Column, Literal, binary, case, cast, in_list, is_not_null, is_null, like, negative, not, try_cast,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use flott_core::config::nearest;
use flott_core::{Error, Result, type_name};

use super::blame::blame;
use super::float_compare::FloatCompare;
use super::java_cast::JavaCast;
use super::{BinaryOp, Expr};

/// An expression ready to be evaluated on batches of one schema.
#[derive(Clone, Debug)]
pub struct Compiled {
    physical: Physical,
    /// What it was made of, to say what failed.
    source: Arc<Expr>,
}

impl Compiled {
    /// The value of every row. An error names the part of the expression that failed, and the value it failed on.
    pub fn evaluate(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        evaluate(&self.physical, rows).map_err(|e| blame(&self.source, rows, e))
    }

    /// Which rows a condition holds for, NULL counted as no; `None`: for all of them.
    pub fn holds(&self, rows: &RecordBatch) -> Result<Option<BooleanArray>> {
        let value = self.evaluate(rows)?;
        let Some(holds) = value.as_any().downcast_ref::<BooleanArray>() else {
            return Err(Error::internal(format!("a condition gives {}", type_name(value.data_type()))));
        };
        Ok((holds.true_count() < holds.len()).then(|| holds.clone()))
    }

    /// The column this is, if it is nothing else.
    pub fn as_column(&self) -> Option<usize> {
        self.physical.downcast_ref::<Column>().map(Column::index)
    }
}

/// Compiles `expr` against the schema of the input.
pub fn compile(expr: &Expr, input: &Schema) -> Result<Compiled> {
    Ok(Compiled { physical: physical(expr, input)?, source: Arc::new(expr.clone()) })
}

/// The type of `expr` and whether it can be NULL, under this name.
pub fn return_field(name: &str, expr: &Expr, input: &Schema) -> Result<Field> {
    let compiled = physical(expr, input)?;
    let data_type = compiled.data_type(input).map_err(|e| of_datafusion(&e))?;
    let nullable = compiled.nullable(input).map_err(|e| of_datafusion(&e))?;
    Ok(Field::new(name, data_type, nullable))
}

pub(super) const DIVIDED_BY_ZERO: &str = "an integer was divided by zero";

/// What DataFusion refuses is the query's or the data's fault.
fn of_datafusion(error: &DataFusionError) -> Error {
    let text = error.find_root().strip_backtrace();
    let text = text.rsplit_once("error: ").map_or(text.as_str(), |(_, rest)| rest);
    Error::user(if text.contains("Divide by zero") { DIVIDED_BY_ZERO } else { text })
}

type Physical = Arc<dyn PhysicalExpr>;

/// The value of every row, with DataFusion's words where there is none.
pub(super) fn evaluate(physical: &Physical, rows: &RecordBatch) -> Result<ArrayRef> {
    physical.evaluate(rows).and_then(|value| value.into_array(rows.num_rows())).map_err(|e| of_datafusion(&e))
}

pub(super) fn physical(expr: &Expr, input: &Schema) -> Result<Physical> {
    let inner = |e: &Expr| physical(e, input);
    let built = match expr {
        Expr::Column(index) => {
            let field = input.fields().get(*index).ok_or_else(|| {
                Error::internal(format!("column {index} of an input with {} columns", input.fields().len()))
            })?;
            return Ok(Arc::new(Column::new(field.name(), *index)));
        }
        Expr::Literal(value) => return Ok(Arc::new(Literal::new(value.to_datafusion()?))),
        Expr::Binary(op, left, right) => return binary_op(*op, inner(left)?, inner(right)?, input),
        Expr::Not(e) => not(to_type(inner(e)?, &DataType::Boolean, input)?),
        Expr::Negate(e) => negative(inner(e)?, input),
        Expr::IsNull(e) => is_null(inner(e)?),
        Expr::IsNotNull(e) => is_not_null(inner(e)?),
        Expr::Cast(e, data_type) => {
            let e = inner(e)?;
            if JavaCast::takes(&type_of(&e, input)?, data_type) {
                return Ok(Arc::new(JavaCast::new(e, data_type.clone())));
            }
            cast(e, input, data_type.clone())
        }
        // Between numbers Flink's two casts do the same.
        Expr::TryCast(e, data_type) => {
            let e = inner(e)?;
            if JavaCast::takes(&type_of(&e, input)?, data_type) {
                return Ok(Arc::new(JavaCast::new(e, data_type.clone())));
            }
            try_cast(e, input, data_type.clone())
        }
        Expr::Case { operand, branches, otherwise } => {
            return case_when(operand.as_deref(), branches, otherwise.as_deref(), input);
        }
        Expr::InList { value, list, negated } => {
            let mut all = vec![inner(value)?];
            for e in list {
                all.push(inner(e)?);
            }
            let mut all = to_common_type(all, input)?;
            let value = all.remove(0);
            if type_of(&value, input)?.is_floating() {
                return any_equal(&value, all, *negated, input);
            }
            in_list(value, all, negated, input)
        }
        Expr::Like { value, pattern, negated } => {
            let value = to_type(inner(value)?, &DataType::Utf8, input)?;
            let pattern = to_type(inner(pattern)?, &DataType::Utf8, input)?;
            like(*negated, false, value, pattern, input)
        }
        Expr::Call { function, args } => return call(function, args, input),
    };
    built.map_err(|e| of_datafusion(&e))
}

fn type_of(e: &Physical, input: &Schema) -> Result<DataType> {
    e.data_type(input).map_err(|e| of_datafusion(&e))
}

/// `e` as this type; nothing is done where it is that already.
fn to_type(e: Physical, data_type: &DataType, input: &Schema) -> Result<Physical> {
    cast(e, input, data_type.clone()).map_err(|e| of_datafusion(&e))
}

fn to_common_type(all: Vec<Physical>, input: &Schema) -> Result<Vec<Physical>> {
    let mut types = all.iter().map(|e| type_of(e, input)).collect::<Result<Vec<_>>>()?.into_iter();
    let mut common = types.next().unwrap_or(DataType::Null);
    for next in types {
        common = comparison_coercion(&common, &next).ok_or_else(|| {
            Error::user(format!("{} and {} have no common type", type_name(&common), type_name(&next)))
        })?;
    }
    all.into_iter().map(|e| to_type(e, &common, input)).collect()
}

fn binary_op(op: BinaryOp, left: Physical, right: Physical, input: &Schema) -> Result<Physical> {
    let op = operator(op);
    let (left_type, right_type) = (type_of(&left, input)?, type_of(&right, input)?);
    let coercer = BinaryTypeCoercer::new(&left_type, &op, &right_type);
    let (to_left, to_right) = coercer.get_input_types().map_err(|e| of_datafusion(&e))?;
    let (left, right) = (to_type(left, &to_left, input)?, to_type(right, &to_right, input)?);
    if to_left.is_floating() && to_left == to_right && FloatCompare::takes(op) {
        return Ok(Arc::new(FloatCompare::new(left, op, right)));
    }
    binary(left, op, right, input).map_err(|e| of_datafusion(&e))
}

/// `IN` of floating-point numbers, whose equality is not that of their bits.
fn any_equal(value: &Physical, list: Vec<Physical>, negated: bool, input: &Schema) -> Result<Physical> {
    let mut any: Option<Physical> = None;
    for other in list {
        let equal: Physical = Arc::new(FloatCompare::new(Arc::clone(value), Operator::Eq, other));
        any = Some(match any {
            None => equal,
            Some(any) => binary(any, Operator::Or, equal, input).map_err(|e| of_datafusion(&e))?,
        });
    }
    let any = any.ok_or_else(|| Error::internal("IN of an empty list"))?;
    if negated { not(any).map_err(|e| of_datafusion(&e)) } else { Ok(any) }
}

fn operator(op: BinaryOp) -> Operator {
    match op {
        BinaryOp::And => Operator::And,
        BinaryOp::Or => Operator::Or,
        BinaryOp::Eq => Operator::Eq,
        BinaryOp::NotEq => Operator::NotEq,
        BinaryOp::Lt => Operator::Lt,
        BinaryOp::LtEq => Operator::LtEq,
        BinaryOp::Gt => Operator::Gt,
        BinaryOp::GtEq => Operator::GtEq,
        BinaryOp::IsDistinctFrom => Operator::IsDistinctFrom,
        BinaryOp::IsNotDistinctFrom => Operator::IsNotDistinctFrom,
        BinaryOp::Plus => Operator::Plus,
        BinaryOp::Minus => Operator::Minus,
        BinaryOp::Multiply => Operator::Multiply,
        BinaryOp::Divide => Operator::Divide,
        BinaryOp::Modulo => Operator::Modulo,
        BinaryOp::Concat => Operator::StringConcat,
    }
}

fn case_when(
    operand: Option<&Expr>,
    branches: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    input: &Schema,
) -> Result<Physical> {
    let mut whens = operand.into_iter().map(|e| physical(e, input)).collect::<Result<Vec<_>>>()?;
    let mut thens = Vec::new();
    for (when, then) in branches {
        whens.push(physical(when, input)?);
        thens.push(physical(then, input)?);
    }
    if let Some(otherwise) = otherwise {
        thens.push(physical(otherwise, input)?);
    }
    let mut whens = match operand {
        Some(_) => to_common_type(whens, input)?,
        None => whens.into_iter().map(|e| to_type(e, &DataType::Boolean, input)).collect::<Result<_>>()?,
    };
    let mut operand = operand.map(|_| whens.remove(0));
    if let Some(value) = operand.take_if(|e| e.data_type(input).is_ok_and(|t| t.is_floating())) {
        let equal = |when| -> Physical { Arc::new(FloatCompare::new(Arc::clone(&value), Operator::Eq, when)) };
        whens = whens.into_iter().map(equal).collect();
    }
    let mut thens = to_common_type(thens, input)?;
    let otherwise = otherwise.and_then(|_| thens.pop());
    let branches = whens.into_iter().zip(thens).collect();
    case(operand, branches, otherwise).map_err(|e| of_datafusion(&e))
}

fn call(name: &str, args: &[Expr], input: &Schema) -> Result<Physical> {
    let function = function(name)?;
    let args = args.iter().map(|e| physical(e, input)).collect::<Result<Vec<_>>>()?;
    let fields: Vec<FieldRef> =
        args.iter().map(|e| e.return_field(input)).collect::<Result<_, _>>().map_err(|e| of_datafusion(&e))?;
    let wanted = fields_with_udf(&fields, function.as_ref()).map_err(|e| of_datafusion(&e))?;
    let args = args.into_iter().zip(wanted).map(|(e, field)| to_type(e, field.data_type(), input));
    let config = Arc::new(ConfigOptions::default());
    let call = ScalarFunctionExpr::try_new(function, args.collect::<Result<_>>()?, input, config);
    Ok(Arc::new(call.map_err(|e| of_datafusion(&e))?))
}

/// The function of this name or alias.
fn function(name: &str) -> Result<Arc<ScalarUDF>> {
    let functions = datafusion_functions::all_default_functions();
    let found = functions.iter().find(|f| f.name() == name || f.aliases().iter().any(|alias| alias == name));
    found.cloned().ok_or_else(|| {
        let hint = nearest(name, functions.iter().map(|f| f.name()));
        let hint = hint.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        Error::user(format!("there is no function '{name}'{hint}"))
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array, Int64Array, StringArray};

    use super::*;
    use crate::expr::Scalar;

    fn rows() -> RecordBatch {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("i", Arc::new(Int32Array::from(vec![Some(i32::MAX), Some(-7), None]))),
            ("b", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ("f", Arc::new(Float64Array::from(vec![0.5, -0.0, 2.0]))),
            ("s", Arc::new(StringArray::from(vec![Some("ann"), Some("bob"), None]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn eval(json: &str) -> String {
        let expr: Expr = serde_json::from_str(json).unwrap();
        let rows = rows();
        let value = match compile(&expr, &rows.schema()).and_then(|e| e.evaluate(&rows)) {
            Ok(value) => value,
            Err(error) => return error.to_string(),
        };
        let options = arrow_cast::display::FormatOptions::new().with_null("NULL");
        let format = arrow_cast::display::ArrayFormatter::try_new(&value, &options).unwrap();
        (0..3).map(|row| format.value(row).to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn expressions_give_what_sql_says() {
        let table = [
            // Java's int addition: 2147483647 + 1 = -2147483648.
            (r#"{"binary":["+",{"column":0},{"literal":["1","Int32"]}]}"#, "-2147483648 -6 NULL"),
            (r#"{"binary":["*",{"column":0},{"column":1}]}"#, "2147483647 -14 NULL"),
            // Truncated towards zero, remainder with the sign of the dividend.
            (r#"{"binary":["/",{"column":0},{"literal":["2","Int32"]}]}"#, "1073741823 -3 NULL"),
            (r#"{"binary":["%",{"column":0},{"literal":["2","Int32"]}]}"#, "1 -1 NULL"),
            (
                r#"{"binary":["/",{"column":1},{"literal":["0","Int64"]}]}"#,
                "an integer was divided by zero (expression b / 0)",
            ),
            (r#"{"binary":["/",{"column":2},{"literal":["0","Float64"]}]}"#, "inf NaN inf"),
            (r#"{"negate":{"column":0}}"#, "-2147483647 7 NULL"),
            (r#"{"binary":["and",{"is_null":{"column":0}},{"literal":[null,"Boolean"]}]}"#, "false false NULL"),
            (r#"{"not":{"binary":[">",{"column":0},{"column":1}]}}"#, "false true NULL"),
            (r#"{"binary":["is distinct from",{"column":0},{"literal":[null,"Int32"]}]}"#, "true true false"),
            (r#"{"cast":[{"column":2},"Int32"]}"#, "0 0 2"),
            // Java's narrowing: 2147483647 & 0xff = -1, -7 & 0xff = -7.
            (r#"{"cast":[{"column":0},"Int8"]}"#, "-1 -7 NULL"),
            (r#"{"cast":[{"binary":["*",{"column":2},{"literal":["1e30","Float64"]}]},"Int16"]}"#, "-1 0 -1"),
            (r#"{"cast":[{"column":1},{"Decimal128":[2,2]}]}"#, "NULL NULL NULL"),
            // IEEE 754: -0.0 = 0.0, and nothing equals NaN.
            (r#"{"binary":[">=",{"column":2},{"literal":["0","Float64"]}]}"#, "true true true"),
            (r#"{"binary":["<",{"column":2},{"literal":["NaN","Float64"]}]}"#, "false false false"),
            (
                r#"{"in_list":{"value":{"column":2},"list":[{"literal":["0","Float64"]},{"literal":["2","Float64"]}],"negated":true}}"#,
                "true false false",
            ),
            (r#"{"cast":[{"column":3},"Int32"]}"#, "expected INT, found 'ann' (expression CAST(s AS INT))"),
            (r#"{"try_cast":[{"column":3},"Int32"]}"#, "NULL NULL NULL"),
            (
                r#"{"in_list":{"value":{"column":1},"list":[{"literal":["2","Int32"]}],"negated":true}}"#,
                "true false true",
            ),
            (
                r#"{"like":{"value":{"column":3},"pattern":{"literal":["_n%","Utf8"]},"negated":false}}"#,
                "true false NULL",
            ),
            (
                r#"{"case":{"operand":{"column":1},"branches":[[{"literal":["1","Int64"]},{"column":0}]],"otherwise":{"column":2}}}"#,
                "2147483647.0 -0.0 2.0",
            ),
            (
                r#"{"case":{"operand":null,"branches":[[{"is_null":{"column":0}},{"literal":["x","Utf8"]}]],"otherwise":null}}"#,
                "NULL NULL x",
            ),
            (r#"{"call":{"function":"upper","args":[{"column":3}]}}"#, "ANN BOB NULL"),
            (r#"{"call":{"function":"abs","args":[{"column":1}]}}"#, "1 2 3"),
            (
                r#"{"call":{"function":"uper","args":[{"column":3}]}}"#,
                "there is no function 'uper'; did you mean 'upper'?",
            ),
            (r#"{"binary":["||",{"column":3},{"literal":["!","Utf8"]}]}"#, "ann! bob! NULL"),
        ];
        for (json, expected) in table {
            assert_eq!(eval(json), expected, "{json}");
        }
    }

    #[test]
    fn types_are_known_before_any_row() {
        let schema = rows().schema();
        let sum = Expr::Binary(BinaryOp::Plus, Box::new(Expr::Column(0)), Box::new(Expr::Column(1)));
        assert_eq!(return_field("sum", &sum, &schema).unwrap().data_type(), &DataType::Int64);
        let wrong =
            Expr::Binary(BinaryOp::Plus, Box::new(Expr::Column(3)), Box::new(Expr::Literal(Scalar::boolean(true))));
        assert!(return_field("wrong", &wrong, &schema).is_err());
    }
}
