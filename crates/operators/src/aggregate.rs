//! Aggregate functions over columns: which there are, their types, and their accumulators in keyed state.
//!
//! Several calls share an accumulator where they can: `AVG(x)` is `SUM(x)` by `COUNT(x)`. Accumulators are named by
//! function and column in the state, so their layout does not depend on the order of the calls.

mod accumulator;
mod result;

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema};
use flott_core::state::{KeyedState, TableId};
use flott_core::{Batch, Error, Result, Slot, type_name};
use serde::{Deserialize, Serialize};

use accumulator::{Accumulator, Kind};

/// An aggregate function. All but `COUNT` of no column pass over NULLs; of no values all but `COUNT` give NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Function {
    /// `COUNT(x)`, and `COUNT(*)` where it has no column. BIGINT.
    Count,
    /// `SUM(x)` of `x`'s type, wrapping; of a decimal with precision 38, NULL where that overflows.
    Sum,
    /// `MIN(x)`; NaN is the greatest number, text goes by bytes.
    Min,
    /// `MAX(x)`.
    Max,
    /// `AVG(x)` of `x`'s type, truncated towards zero for integers; of a decimal `DECIMAL(38, max(6, scale))`.
    Avg,
    /// The first value that came.
    First,
    /// The last value that came.
    Last,
}

/// An aggregate function and the column it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// What to compute.
    pub function: Function,
    /// Of which column; `None` for `COUNT(*)`.
    #[serde(default)]
    pub column: Option<usize>,
}

impl Call {
    /// The field it gives under this name; a column it cannot be computed of is refused.
    pub fn output(&self, name: &str, input: &Schema) -> Result<Field> {
        use DataType::*;
        let Some(field) = self.field(input)? else {
            return match self.function {
                Function::Count => Ok(Field::new(name, Int64, false)),
                other => Err(Error::user(format!("{other:?} needs a column")).at("column", name)),
            };
        };
        let of = field.data_type();
        let gives = match (self.function, of) {
            (Function::Count, _) => return Ok(Field::new(name, Int64, false)),
            (Function::Sum, Decimal128(_, scale)) => Decimal128(DECIMAL128_MAX_PRECISION, *scale),
            (Function::Avg, Decimal128(_, scale)) => Decimal128(DECIMAL128_MAX_PRECISION, (*scale).max(6)),
            (Function::Sum | Function::Avg, Int8 | Int16 | Int32 | Int64 | Float32 | Float64) => of.clone(),
            (Function::Sum | Function::Avg, _) => return Err(self.refuse(field)),
            _ if accumulator::can_keep(of) => of.clone(),
            _ => return Err(self.refuse(field)),
        };
        Ok(Field::new(name, gives, true))
    }

    fn refuse(&self, field: &Field) -> Error {
        Error::user(format!("{:?} of {} is not possible", self.function, type_name(field.data_type())))
            .at("column", field.name())
    }

    fn field<'a>(&self, input: &'a Schema) -> Result<Option<&'a Field>> {
        let Some(index) = self.column else { return Ok(None) };
        match input.fields().get(index) {
            Some(field) => Ok(Some(field)),
            None => {
                let text = format!("column {index} of an input with {} columns", input.fields().len());
                Err(Error::internal(text))
            }
        }
    }

    /// The accumulators its result is made of.
    fn kinds(&self) -> Vec<Kind> {
        match self.function {
            Function::Count => vec![Kind::Count],
            Function::Sum => vec![Kind::Sum],
            Function::Min => vec![Kind::Min],
            Function::Max => vec![Kind::Max],
            Function::Avg => vec![Kind::Sum, Kind::Count],
            Function::First => vec![Kind::First],
            Function::Last => vec![Kind::Last],
        }
    }
}

/// The accumulators of several calls in a table of state.
pub(crate) struct Aggregates {
    accumulators: Vec<Box<dyn Accumulator>>,
    /// What each result is made of: accumulators, by index, and how.
    results: Vec<(Function, Vec<usize>, DataType)>,
}

impl Aggregates {
    /// Opens the accumulators in `table`; `keys` are the columns of the input's key. Beside the calls' own there is
    /// always a count of rows, so that a slot with rows is never empty.
    pub(crate) fn open(
        calls: &[Call],
        input: &Schema,
        keys: &[usize],
        state: &mut (dyn KeyedState + 'static),
        table: TableId,
    ) -> Result<Self> {
        let mut aggregates = Self { accumulators: Vec::new(), results: Vec::new() };
        let mut opened: Vec<(Kind, Option<usize>)> = Vec::new();
        let mut index_of = |kind, column, accumulators: &mut Vec<Box<dyn Accumulator>>| -> Result<usize> {
            if let Some(found) = opened.iter().position(|&o| o == (kind, column)) {
                return Ok(found);
            }
            accumulators.push(accumulator::open(kind, column, input, keys, state, table)?);
            opened.push((kind, column));
            Ok(opened.len() - 1)
        };
        index_of(Kind::Count, None, &mut aggregates.accumulators)?;
        for call in calls {
            let gives = call.output("of the result", input)?.data_type().clone();
            let never_null = call.field(input)?.is_none_or(|field| !field.is_nullable());
            let mut parts = Vec::new();
            for kind in call.kinds() {
                let column = call.column.filter(|_| kind != Kind::Count || !never_null);
                parts.push(index_of(kind, column, &mut aggregates.accumulators)?);
            }
            aggregates.results.push((call.function, parts, gives));
        }
        Ok(aggregates)
    }

    /// Adds each row to its slot.
    pub(crate) fn add(&self, state: &mut (dyn KeyedState + 'static), slots: &[Slot], rows: &Batch) -> Result<()> {
        self.accumulators.iter().try_for_each(|a| a.add(state, slots, rows))
    }

    /// Adds each row to its slot and gives every call's result after each row.
    pub(crate) fn add_running(
        &self,
        state: &mut (dyn KeyedState + 'static),
        slots: &[Slot],
        rows: &Batch,
    ) -> Result<Vec<ArrayRef>> {
        let parts = self.accumulators.iter().map(|a| a.add_running(state, slots, rows)).collect::<Result<Vec<_>>>()?;
        self.combine(&parts)
    }

    /// Every call's result for these slots.
    pub(crate) fn results(&self, state: &(dyn KeyedState + 'static), slots: &[Slot]) -> Result<Vec<ArrayRef>> {
        let parts = self.accumulators.iter().map(|a| a.values(state, slots)).collect::<Result<Vec<_>>>()?;
        self.combine(&parts)
    }

    fn combine(&self, accumulated: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let one = |(function, parts, gives): &(Function, Vec<usize>, DataType)| {
            let parts: Vec<ArrayRef> = parts.iter().map(|&i| Arc::clone(&accumulated[i])).collect();
            result::combine(*function, &parts, gives)
        };
        self.results.iter().map(one).collect()
    }
}
