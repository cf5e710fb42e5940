//! Rows that a plan carries itself: the source `collection`. The way back is `collect.rs`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flott_core::{Batch, Error, OperatorInfo, Registry, Result, Source, SourceReader, Spec, SplitEnumerator};
use serde::{Deserialize, Serialize};

use crate::ranges::{RangeReader, split_range};
use crate::splits::PendingSplits;

/// The name of the source in the registry.
pub const NAME: &str = "collection";

/// Rows as part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionConfig {
    /// An Arrow IPC stream in base64.
    pub rows: String,
    /// Contiguous parts to deal out among readers.
    pub splits: u32,
}

impl CollectionConfig {
    /// The columns of `batches`, all of `schema`, in `splits` contiguous parts.
    pub fn new(schema: &Schema, batches: &[RecordBatch], splits: u32) -> Result<Self> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
        for batch in batches {
            writer.write(batch)?;
        }
        Ok(Self { rows: STANDARD.encode(writer.into_inner()?), splits })
    }

    /// The source with this configuration, for a plan.
    pub fn spec(&self) -> Result<Spec> {
        Spec::new(NAME, self)
    }

    fn decode(&self) -> Result<Batch> {
        let bytes = STANDARD
            .decode(&self.rows)
            .map_err(|e| Error::user(format!("expected rows as Arrow IPC in base64: {e}")).at("source", NAME))?;
        let reader = StreamReader::try_new(bytes.as_slice(), None)?;
        let schema = reader.schema();
        let batches = reader.map(|batch| Ok(Batch::new(batch?))).collect::<Result<Vec<_>>>()?;
        if batches.is_empty() {
            return Ok(Batch::new(RecordBatch::new_empty(schema)));
        }
        Batch::concat(&batches)
    }
}

/// Puts the source into `registry`.
pub fn register(registry: &mut Registry) {
    registry.add_source(
        NAME,
        Arc::new(|spec| {
            let config: CollectionConfig = spec.read()?;
            Ok(Box::new(Collection { rows: config.decode()?, splits: config.splits }))
        }),
    );
}

struct Collection {
    rows: Batch,
    splits: u32,
}

impl Source for Collection {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(match restored {
            Some(bytes) => PendingSplits::restore(bytes)?,
            None => PendingSplits::new(split_range(self.rows.num_rows() as u64, self.splits)?),
        }))
    }

    fn reader(&self, _info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        let rows = self.rows.clone();
        Ok(Box::new(RangeReader::new(move |first: u64, count: usize| {
            let first = usize::try_from(first).unwrap_or(usize::MAX);
            if first.checked_add(count).is_none_or(|end| end > rows.num_rows()) {
                let found = rows.num_rows();
                return Err(Error::user(format!("expected the rows of the snapshot, found a collection of {found}")));
            }
            Ok(rows.slice(first, count))
        })))
    }
}
