//! Scalar expressions as plain data: [`Expr`]. Part of plans, so its encoding is stable; compiled against the schema
//! of the input when an operator opens ([`compile`]).
//!
//! Flink's rules: integers wrap on overflow, an integer divided by zero is an error, floating-point numbers compare as
//! IEEE 754 says. DataFusion evaluates; it plans and executes nothing here.

mod blame;
mod compile;
mod float_compare;
mod java_cast;
mod scalar;
mod text;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

pub use compile::{Compiled, compile, return_field};
pub use scalar::Scalar;
pub use text::sql_text;

/// A scalar expression over the columns of one input.
///
/// ```
/// use flott_operators::expr::{BinaryOp, Expr, Scalar};
/// let expr = Expr::Binary(BinaryOp::Lt, Box::new(Expr::Column(1)), Box::new(Expr::Literal(Scalar::int64(5))));
/// let json = serde_json::to_string(&expr).map_err(|e| e.to_string())?;
/// assert_eq!(json, r#"{"binary":["<",{"column":1},{"literal":["5","Int64"]}]}"#);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Expr {
    /// The column at this index.
    Column(usize),
    /// A constant.
    Literal(Scalar),
    /// `left op right`; operands of different types are brought to a common one.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `NOT e`.
    Not(Box<Expr>),
    /// `-e`.
    Negate(Box<Expr>),
    /// `e IS NULL`.
    IsNull(Box<Expr>),
    /// `e IS NOT NULL`.
    IsNotNull(Box<Expr>),
    /// `CAST(e AS type)`: of a number that does not fit a whole number keeps its low bits, a decimal is NULL; a text
    /// that is no value of the type is an error.
    Cast(Box<Expr>, DataType),
    /// `TRY_CAST(e AS type)`: a text that is no value of the type is NULL; between numbers it is a cast.
    TryCast(Box<Expr>, DataType),
    /// `CASE [operand] WHEN .. THEN .. [ELSE ..] END`.
    Case {
        /// What the `WHEN`s are compared with; `None`: they are conditions.
        operand: Option<Box<Expr>>,
        /// `WHEN`, `THEN`.
        branches: Vec<(Expr, Expr)>,
        /// `ELSE`; `None`: NULL.
        otherwise: Option<Box<Expr>>,
    },
    /// `value [NOT] IN (list)`.
    InList {
        /// What is looked for.
        value: Box<Expr>,
        /// Where.
        list: Vec<Expr>,
        /// With `NOT`.
        negated: bool,
    },
    /// `value [NOT] LIKE pattern`, with `%`, `_` and the escape `\`.
    Like {
        /// The text.
        value: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// With `NOT`.
        negated: bool,
    },
    /// A function by its name in DataFusion's library.
    Call {
        /// The name or an alias of it.
        function: String,
        /// Brought to types the function takes.
        args: Vec<Expr>,
    },
}

/// Operators between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BinaryOp {
    /// `AND`, with SQL's three values.
    #[serde(rename = "and")]
    And,
    /// `OR`, with SQL's three values.
    #[serde(rename = "or")]
    Or,
    /// `=`.
    #[serde(rename = "=")]
    Eq,
    /// `<>`.
    #[serde(rename = "<>")]
    NotEq,
    /// `<`.
    #[serde(rename = "<")]
    Lt,
    /// `<=`.
    #[serde(rename = "<=")]
    LtEq,
    /// `>`.
    #[serde(rename = ">")]
    Gt,
    /// `>=`.
    #[serde(rename = ">=")]
    GtEq,
    /// `IS DISTINCT FROM`.
    #[serde(rename = "is distinct from")]
    IsDistinctFrom,
    /// `IS NOT DISTINCT FROM`.
    #[serde(rename = "is not distinct from")]
    IsNotDistinctFrom,
    /// `+`.
    #[serde(rename = "+")]
    Plus,
    /// `-`.
    #[serde(rename = "-")]
    Minus,
    /// `*`.
    #[serde(rename = "*")]
    Multiply,
    /// `/`.
    #[serde(rename = "/")]
    Divide,
    /// `%`.
    #[serde(rename = "%")]
    Modulo,
    /// `||`.
    #[serde(rename = "||")]
    Concat,
}

impl Expr {
    /// Calls `visit` for the index of every column used.
    pub fn for_each_column(&mut self, visit: &mut impl FnMut(&mut usize)) {
        match self {
            Self::Column(index) => visit(index),
            Self::Literal(_) => {}
            Self::Binary(_, left, right) => {
                left.for_each_column(visit);
                right.for_each_column(visit);
            }
            Self::Not(e)
            | Self::Negate(e)
            | Self::IsNull(e)
            | Self::IsNotNull(e)
            | Self::Cast(e, _)
            | Self::TryCast(e, _) => e.for_each_column(visit),
            Self::Case { operand, branches, otherwise } => {
                for e in operand.iter_mut().chain(otherwise) {
                    e.for_each_column(visit);
                }
                for (when, then) in branches {
                    when.for_each_column(visit);
                    then.for_each_column(visit);
                }
            }
            Self::InList { value, list, .. } => {
                value.for_each_column(visit);
                list.iter_mut().for_each(|e| e.for_each_column(visit));
            }
            Self::Like { value, pattern, .. } => {
                value.for_each_column(visit);
                pattern.for_each_column(visit);
            }
            Self::Call { args, .. } => args.iter_mut().for_each(|e| e.for_each_column(visit)),
        }
    }
}
