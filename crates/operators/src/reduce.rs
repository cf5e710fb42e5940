//! Running aggregates per key: for each row the key's aggregates after it (Flink's keyed `reduce`, `sum`, `min` …).

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use flott_core::state::TableId;
use flott_core::{
    Batch, Context, Error, InputId, Namespace, Namespaces, Operator, OperatorInfo, Progress, Result, Slot, Spec,
};
use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregates, Call};
use crate::{check_insert_only, check_output};

/// The name in the registry.
pub const NAME: &str = "reduce";

/// The columns of the output: aggregates of the input's columns. A column that is the same in all rows of a key,
/// such as the key itself, is a `first`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReduceConfig {
    /// In the order of the output.
    pub columns: Vec<Call>,
}

impl ReduceConfig {
    /// The columns it gives, under these names.
    pub fn output<'a>(&self, names: impl IntoIterator<Item = &'a str>, input: &Schema) -> Result<SchemaRef> {
        let fields = self.columns.iter().zip(names).map(|(call, name)| call.output(name, input));
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }
}

/// Makes the operator from a [`ReduceConfig`].
pub fn create(spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
    let config: ReduceConfig = spec.read()?;
    let [input] = &info.inputs[..] else {
        let text = format!("expected one input, found {}", info.inputs.len());
        return Err(Error::internal(text).at("operator", &info.name));
    };
    let names = info.output.fields().iter().map(|field| field.name().as_str());
    check_output(info, config.output(names, input).map_err(|e| e.at("operator", &info.name))?.as_ref())?;
    Ok(Box::new(Reduce { config, opened: None, slots: Vec::new() }))
}

struct Reduce {
    config: ReduceConfig,
    opened: Option<(TableId, Aggregates)>,
    slots: Vec<Slot>,
}

impl Operator for Reduce {
    fn open(&mut self, ctx: &mut Context<'_>) -> Result<()> {
        let info = ctx.info().clone();
        let keys = info.keys.first().map_or(&[][..], Vec::as_slice);
        let state = ctx.state()?;
        let table = state.open_table("reduce", false)?;
        self.opened = Some((table, Aggregates::open(&self.config.columns, &info.inputs[0], keys, state, table)?));
        Ok(())
    }

    fn process(&mut self, input: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        let info = ctx.info().clone();
        check_insert_only(&batch, &info)?;
        let Some((table, aggregates)) = &self.opened else { return Err(Error::internal("not opened")) };
        let keys = ctx.keys(input, &batch)?;
        let state = ctx.state()?;
        self.slots.clear();
        state.locate(*table, &keys, Namespaces::All(Namespace::VOID), &mut self.slots)?;
        let columns = aggregates.add_running(state, &self.slots, &batch)?;
        let out = Batch::of(info.output.clone(), columns, batch.num_rows())?;
        ctx.emit(out.with_event_times(batch.event_times().cloned()));
        Ok(Progress::Done)
    }
}
