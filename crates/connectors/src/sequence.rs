//! A source of whole numbers in order: `sequence`, one column `value` (BIGINT NOT NULL).

use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::{DataType, Field, SchemaRef};
use flott_core::{
    Batch, Error, OperatorInfo, Registry, Result, Source, SourceReader, Spec, SplitEnumerator, schema_of,
};
use serde::{Deserialize, Serialize};

use crate::ranges::{RangeReader, split_range};
use crate::splits::PendingSplits;

/// Its name in the registry.
pub const NAME: &str = "sequence";

/// The numbers `from..=to`; none where `from > to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceConfig {
    /// The first number.
    pub from: i64,
    /// The last number.
    pub to: i64,
    /// Contiguous parts to deal out among readers.
    #[serde(default = "one")]
    pub splits: u32,
}

fn one() -> u32 {
    1
}

impl SequenceConfig {
    /// The source with this configuration, for a plan.
    pub fn spec(&self) -> Result<Spec> {
        Spec::new(NAME, self)
    }
}

/// The schema of its rows.
pub fn schema() -> SchemaRef {
    schema_of(vec![Field::new("value", DataType::Int64, false)])
}

/// Puts the source into `registry`.
pub fn register(registry: &mut Registry) {
    registry.add_source(NAME, Arc::new(|spec| Ok(Box::new(Sequence(spec.read()?)))));
}

struct Sequence(SequenceConfig);

impl Source for Sequence {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        if let Some(bytes) = restored {
            return Ok(Box::new(PendingSplits::restore(bytes)?));
        }
        let SequenceConfig { from, to, splits } = self.0;
        let count =
            if from > to { 0 } else { u64::try_from(i128::from(to) - i128::from(from) + 1).unwrap_or(u64::MAX) };
        if count > i64::MAX.unsigned_abs() {
            return Err(Error::user(format!("expected a sequence of fewer than 2^63 numbers, found {from} to {to}")));
        }
        Ok(Box::new(PendingSplits::new(split_range(count, splits)?)))
    }

    fn reader(&self, _info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        let (from, schema) = (self.0.from, schema());
        Ok(Box::new(RangeReader::new(move |first: u64, count: usize| {
            let first = from.wrapping_add_unsigned(first);
            let values: Int64Array =
                (0..count as u64).map(|i| first.wrapping_add_unsigned(i)).collect::<Vec<_>>().into();
            Batch::of(schema.clone(), vec![Arc::new(values)], count)
        })))
    }
}
