//! Casts that lose something, hidden from DataFusion's optimiser: it takes `CAST(i AS TINYINT) = 44` for `i = 44`, which
//! is wrong where 300 becomes 44. They are functions while it runs and casts again when the plan is lowered.

use arrow_schema::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// The name of the function.
pub(crate) const NARROW: &str = "narrow$";

/// A cast to `to`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Narrow {
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Narrow {
    fn name(&self) -> &str {
        NARROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    /// As a cast, which has the name of what it casts.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|e| e.schema_name().to_string()).collect())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("a cast is run by the operators")
    }
}

/// Whether every value of `from` has its own value in `to`.
fn keeps(from: &DataType, to: &DataType) -> bool {
    let digits = |t: &DataType| match t {
        DataType::Int8 => Some((3, 0)),
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => Some((i32::from(*precision), i32::from(*scale))),
        _ => None,
    };
    match (digits(from), digits(to)) {
        (Some((p1, s1)), Some((p2, s2))) => p2 - s2 >= p1 - s1 && s2 >= s1,
        _ => !(from.is_numeric() && (to.is_integer() || matches!(to, DataType::Decimal128(..)))),
    }
}

/// Puts functions in the place of casts that lose something.
pub(crate) fn hide_narrowing_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let hidden = plan.transform_up(|node| {
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        node.map_expressions(|expr| expr.transform_up(|inner| hide(inner, &schema)))
    })?;
    Ok(hidden.data)
}

fn hide(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let narrows = |e: &Expr, to: &DataType| -> Result<bool> {
        // A literal that fits may become another literal.
        let fits = matches!(e, Expr::Literal(value, _) if value.cast_to(to).is_ok());
        Ok(!fits && !keeps(&e.get_type(schema)?, to))
    };
    let (inner, to) = match expr {
        Expr::Cast(cast) if narrows(&cast.expr, cast.field.data_type())? => (cast.expr, cast.field),
        Expr::TryCast(cast) if narrows(&cast.expr, cast.field.data_type())? => (cast.expr, cast.field),
        other => return Ok(Transformed::no(other)),
    };
    let narrow = Narrow { to: to.data_type().clone(), signature: Signature::any(1, Volatility::Stable) };
    let function = ScalarUDF::new_from_impl(narrow).into();
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))))
}
