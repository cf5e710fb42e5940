//! Rows on their way between nodes: [`Flow`], with what its columns and its [`Window`] are made of. Here too: how
//! expressions are put together. Who makes flows is in `lower.rs`.

use arrow_schema::{DataType, Field, TimeUnit};
use flott_operators::expr::{BinaryOp, Expr, Scalar};
use flott_plan::NodeId;

use crate::script::{Fault, Result};

/// What a column of a flow is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// Of the node's columns.
    Expr(Expr),
    /// Likewise, and its value is the event time of the row.
    Rowtime(Expr),
    /// The start of the flow's window.
    WindowStart,
    /// Its end, exclusive.
    WindowEnd,
    /// Its last millisecond: the event time of what is computed from the window.
    WindowTime,
}

/// A tumbling window over the event time of the rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) size_ms: i64,
    pub(crate) offset_ms: i64,
    /// The event time, a timestamp.
    pub(crate) time: Expr,
}

/// Rows on their way: those of a node for which a condition holds, and columns made of the node's.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) node: NodeId,
    pub(crate) filter: Option<Expr>,
    pub(crate) columns: Vec<(Content, Field)>,
    pub(crate) window: Option<Window>,
}

impl Flow {
    /// The expression a column is, with windows computed from the event time.
    pub(crate) fn expr(&self, column: usize) -> Result<Expr> {
        let Some((content, _)) = self.columns.get(column) else {
            return Err(Fault::internal(format!("column {column} of a flow of {}", self.columns.len())));
        };
        match (content, &self.window) {
            (Content::Expr(e) | Content::Rowtime(e), _) => Ok(e.clone()),
            (Content::WindowStart, Some(window)) => Ok(window.start()),
            (Content::WindowEnd, Some(window)) => Ok(shift(window.start(), window.size_ms)),
            (Content::WindowTime, Some(window)) => {
                Ok(zoned(shift(window.start(), window.size_ms - 1), self.columns[column].1.data_type()))
            }
            (_, None) => Err(Fault::internal("a window column without window")),
        }
    }
}

const MILLIS: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

impl Window {
    /// The start of the window of a row: `t - floor_mod(t - offset, size)`, right before the epoch too.
    fn start(&self) -> Expr {
        let number = |n| Expr::Literal(Scalar::int64(n));
        let time = cast_to(cast_to(self.time.clone(), &MILLIS), &DataType::Int64);
        let from_offset = match self.offset_ms {
            0 => time.clone(),
            offset => binary(BinaryOp::Minus, time.clone(), number(offset)),
        };
        let remainder = binary(BinaryOp::Modulo, from_offset, number(self.size_ms));
        let positive = binary(BinaryOp::Plus, remainder, number(self.size_ms));
        let into_window = binary(BinaryOp::Modulo, positive, number(self.size_ms));
        cast_to(binary(BinaryOp::Minus, time, into_window), &MILLIS)
    }
}

/// A timestamp of milliseconds, moved.
pub(crate) fn shift(time: Expr, ms: i64) -> Expr {
    let number = cast_to(time, &DataType::Int64);
    cast_to(binary(BinaryOp::Plus, number, Expr::Literal(Scalar::int64(ms))), &MILLIS)
}

/// A timestamp of milliseconds as this type, which may be of a time zone.
pub(crate) fn zoned(time: Expr, data_type: &DataType) -> Expr {
    if *data_type == MILLIS { time } else { cast_to(time, data_type) }
}

pub(crate) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

pub(crate) fn cast_to(expr: Expr, data_type: &DataType) -> Expr {
    Expr::Cast(Box::new(expr), data_type.clone())
}
