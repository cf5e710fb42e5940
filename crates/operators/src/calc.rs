//! Filter and projection in one (SQL's `SELECT expressions FROM input WHERE condition`).
//!
//! Event times and row kinds go with their rows. A batch whose rows are all kept is not copied; of one that loses
//! rows only the columns that the projection reads are.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::ScalarBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::filter::{FilterBuilder, FilterPredicate};
use flott_core::{Batch, Context, Error, InputId, Operator, OperatorInfo, Progress, Result, Spec, type_name};
use serde::{Deserialize, Serialize};

use crate::check_output;
use crate::expr::{Compiled, Expr, compile, return_field};

/// The name in the registry.
pub const NAME: &str = "calc";

/// The most of a record that an error shows.
const RECORD_CHARS: usize = 500;

/// What to keep and what to give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalcConfig {
    /// Rows for which this is true stay; `None`: all.
    #[serde(default)]
    pub filter: Option<Expr>,
    /// Names and expressions of the output; `None`: the input's columns.
    #[serde(default)]
    pub project: Option<Vec<(String, Expr)>>,
}

impl CalcConfig {
    /// Only a filter.
    pub fn filter(condition: Expr) -> Self {
        Self { filter: Some(condition), project: None }
    }

    /// Only a projection.
    pub fn project(columns: Vec<(String, Expr)>) -> Self {
        Self { filter: None, project: Some(columns) }
    }

    /// The columns it gives for this input; an expression that does not fit is refused with the column's name.
    pub fn output(&self, input: &SchemaRef) -> Result<SchemaRef> {
        if let Some(filter) = &self.filter {
            let field = return_field("of the filter", filter, input)?;
            if field.data_type() != &arrow_schema::DataType::Boolean {
                return Err(Error::user(format!("expected a condition, found {}", type_name(field.data_type()))));
            }
        }
        let Some(project) = &self.project else { return Ok(input.clone()) };
        let fields = project.iter().map(|(name, e)| return_field(name, e, input).map_err(|e| e.at("column", name)));
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }
}

/// Makes the operator from a [`CalcConfig`].
pub fn create(spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
    let here = |e: Error| e.at("operator", &info.name);
    let config: CalcConfig = spec.read()?;
    let [input] = &info.inputs[..] else {
        return Err(here(Error::internal(format!("expected one input, found {}", info.inputs.len()))));
    };
    check_output(info, config.output(input).map_err(here)?.as_ref())?;
    let filter = config.filter.as_ref().map(|e| compile(e, input)).transpose().map_err(here)?;
    let projection = config.project.map(|p| Projection::new(p, input, info)).transpose().map_err(here)?;
    Ok(Box::new(Calc { filter, projection, info: info.clone() }))
}

struct Calc {
    filter: Option<Compiled>,
    projection: Option<Projection>,
    info: Arc<OperatorInfo>,
}

/// Expressions over the columns they read, and those columns of the input.
struct Projection {
    columns: Vec<usize>,
    narrow: SchemaRef,
    expressions: Vec<Compiled>,
}

impl Projection {
    fn new(project: Vec<(String, Expr)>, input: &SchemaRef, info: &OperatorInfo) -> Result<Self> {
        let mut expressions: Vec<Expr> = project.into_iter().map(|(_, e)| e).collect();
        let mut columns: Vec<usize> = Vec::new();
        for e in &mut expressions {
            e.for_each_column(&mut |index| {
                *index = columns.iter().position(|c| c == index).unwrap_or_else(|| {
                    columns.push(*index);
                    columns.len() - 1
                });
            });
        }
        let narrow = Arc::new(input.project(&columns)?);
        let names = info.output.fields().iter();
        let expressions =
            expressions.iter().zip(names).map(|(e, f)| compile(e, &narrow).map_err(|e| e.at("column", f.name())));
        Ok(Self { expressions: expressions.collect::<Result<_>>()?, columns, narrow })
    }

    fn read(&self, input: &RecordBatch) -> Vec<ArrayRef> {
        self.columns.iter().map(|&i| input.column(i).clone()).collect()
    }

    fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize, output: &SchemaRef) -> Result<RecordBatch> {
        let narrow = with_rows(self.narrow.clone(), columns, rows)?;
        let named = self.expressions.iter().zip(output.fields());
        let values = named.map(|(e, field)| e.evaluate(&narrow).map_err(|e| e.at("column", field.name())));
        with_rows(output.clone(), values.collect::<Result<_>>()?, rows)
    }
}

fn with_rows(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows)))?)
}

impl Operator for Calc {
    fn process(&mut self, _input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let out = self.calc(&batch).map_err(|e| self.at_record(e, &batch).at("operator", &self.info.name))?;
        if let Some(out) = out {
            ctx.emit(out);
        }
        Ok(Progress::Done)
    }
}

impl Calc {
    /// The error with the first row that gives one by itself.
    fn at_record(&self, error: Error, batch: &Batch) -> Error {
        let failing =
            (0..batch.num_rows()).map(|row| batch.slice(row, 1)).find_map(|row| Some((self.calc(&row).err()?, row)));
        let Some((error, row)) = failing else { return error };
        let options = FormatOptions::default().with_null("NULL");
        let schema = row.schema();
        let values = row.columns().columns().iter().zip(schema.fields()).map(|(column, field)| {
            let value = ArrayFormatter::try_new(column, &options).and_then(|value| value.value(0).try_to_string());
            format!("{} = {}", field.name(), value.unwrap_or_else(|_| "?".to_owned()))
        });
        let record = values.collect::<Vec<_>>().join(", ");
        let shown = record.char_indices().nth(RECORD_CHARS).map_or(&*record, |(end, _)| &record[..end]);
        error.at("record", format_args!("[{shown}]"))
    }

    fn calc(&self, batch: &Batch) -> Result<Option<Batch>> {
        let kept = match &self.filter {
            Some(filter) => filter.holds(batch.columns())?,
            None => None,
        };
        // Hashes of the old columns mean nothing for the new ones.
        let Some(kept) = kept else {
            let out = batch.clone().with_key_hashes(None);
            return Ok(Some(match &self.projection {
                None => out,
                Some(p) => {
                    let columns = p.evaluate(p.read(batch.columns()), batch.num_rows(), &self.info.output)?;
                    out.with_columns(columns)?
                }
            }));
        };
        let rows = kept.true_count();
        if rows == 0 {
            return Ok(None);
        }
        let predicate = predicate(&kept, batch.columns().num_columns());
        let input =
            self.projection.as_ref().map_or_else(|| batch.columns().columns().to_vec(), |p| p.read(batch.columns()));
        let columns = input.iter().map(|column| predicate.filter(column)).collect::<Result<Vec<_>, _>>()?;
        let columns = match &self.projection {
            None => with_rows(batch.schema(), columns, rows)?,
            Some(p) => p.evaluate(columns, rows, &self.info.output)?,
        };
        let times = batch.event_times().map(|times| filter_buffer::<Int64Type>(&predicate, times)).transpose()?;
        let kinds = batch.row_kinds().map(|kinds| filter_buffer::<UInt8Type>(&predicate, kinds)).transpose()?;
        Ok(Some(Batch::new(columns).with_event_times(times).with_row_kinds(kinds)))
    }
}

/// The rows to keep, prepared once for all columns.
fn predicate(kept: &BooleanArray, columns: usize) -> FilterPredicate {
    let builder = FilterBuilder::new(kept);
    if columns > 0 { builder.optimize().build() } else { builder.build() }
}

fn filter_buffer<T: ArrowPrimitiveType>(
    predicate: &FilterPredicate,
    values: &ScalarBuffer<T::Native>,
) -> Result<ScalarBuffer<T::Native>> {
    let kept = predicate.filter(&PrimitiveArray::<T>::new(values.clone(), None))?;
    match kept.as_any().downcast_ref::<PrimitiveArray<T>>() {
        Some(kept) => Ok(kept.values().clone()),
        None => Err(Error::internal(format!("a filter made {} of numbers", kept.data_type()))),
    }
}
