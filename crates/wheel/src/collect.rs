//! The sink `collect`: rows back to the program, [`Collected`].
//!
//! Writers may run in other processes, so rows travel as committables and are kept by the committer, which runs in the
//! process that started the job: exactly once, however often a checkpoint is committed again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use flott_core::{Batch, Committable, Committer, Error, OperatorInfo, Registry, Result, Sink, SinkWriter};

/// The name of the sink in plans.
const NAME: &str = "collect";

/// The rows of one job. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Collected(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    batches: Vec<RecordBatch>,
    /// Committables that were kept already.
    committed: HashSet<Vec<u8>>,
}

impl Collected {
    /// Puts the sink that collects into this into `registry`.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let collected = self.clone();
        registry.add_sink(NAME, Arc::new(move |_| Ok(Box::new(collected.clone()))));
    }

    /// Takes the rows out; those of one task are in order.
    pub(crate) fn take(&self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).batches)
    }
}

impl Sink for Collected {
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        let mut next = 0;
        for entry in restored {
            let bytes = entry[..].try_into().map_err(|_| Error::internal("a counter of 8 bytes"))?;
            next = u64::from_le_bytes(bytes).max(next);
        }
        Ok(Box::new(Writer { task: (info.parallelism, info.index), next, batches: Vec::new() }))
    }

    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(Some(Box::new(self.clone())))
    }
}

/// A committable: the writer's parallelism and task (u32 each) and counter (u64), little-endian, by which it is known
/// again, then an Arrow IPC stream.
const HEADER: usize = 16;

struct Writer {
    task: (u32, u32),
    next: u64,
    batches: Vec<RecordBatch>,
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.batches.push(batch.columns().clone());
        Ok(())
    }

    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        let batches = std::mem::take(&mut self.batches);
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend(self.task.0.to_le_bytes());
        bytes.extend(self.task.1.to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
        let mut writer = StreamWriter::try_new(bytes, &first.schema())?;
        for batch in &batches {
            writer.write(batch)?;
        }
        self.next += 1;
        Ok(vec![Committable(writer.into_inner()?)])
    }

    fn snapshot(&mut self) -> Result<Vec<Vec<u8>>> {
        // Rows that are still here belong to this checkpoint too: they are prepared after this, under this number.
        let next = self.next + u64::from(!self.batches.is_empty());
        Ok(vec![next.to_le_bytes().to_vec()])
    }
}

impl Committer for Collected {
    fn commit(&mut self, committables: &[Committable]) -> Result<()> {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for Committable(bytes) in committables {
            let (header, rows) =
                bytes.split_at_checked(HEADER).ok_or_else(|| Error::internal("collected rows without a header"))?;
            if !store.committed.insert(header.to_vec()) {
                continue;
            }
            for batch in StreamReader::try_new(rows, None)? {
                store.batches.push(batch?);
            }
        }
        Ok(())
    }
}
