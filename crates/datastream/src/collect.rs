//! Rows back in the program: [`Collected`], and the sink that brings them there.
//!
//! Writers may run in other processes, so rows travel as committables and are added by the committer, which runs in
//! the process that started the job: exactly once, however often a checkpoint is committed again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use flott_core::{Batch, Committable, Committer, Error, OperatorInfo, Result, Sink, SinkWriter, StoredForm};

use crate::record::{Record, RecordReader};

/// A committable: what [`HEADER`] says.
const ROWS: StoredForm = StoredForm::new("collected rows", 1);
/// A writer's entry.
const NEXT: StoredForm = StoredForm::new("the number of the next committable", 1);

/// The rows of a stream, once the job has run.
pub struct Collected<T>(Arc<Mutex<Store<T>>>);

struct Store<T> {
    rows: Vec<T>,
    /// Committables that were added already.
    committed: HashSet<Vec<u8>>,
}

impl<T> Default for Collected<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Store { rows: Vec::new(), committed: HashSet::new() })))
    }
}

impl<T> Clone for Collected<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Collected<T> {
    /// Takes the rows out; rows of one task are in order.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).rows)
    }
}

impl<T> Collected<T> {
    /// A new job begins, whose tasks count from 0.
    pub(crate) fn forget_committed(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).committed.clear();
    }
}

pub(crate) struct CollectSink<T>(Collected<T>);

impl<T> Clone for CollectSink<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Record> CollectSink<T> {
    pub(crate) fn of(collected: &Collected<T>) -> Self {
        Self(collected.clone())
    }
}

impl<T: Record> Sink for CollectSink<T> {
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        let counters = restored.iter().map(|entry| NEXT.decode(entry));
        let next = counters.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
        let read = |batch: &Batch, out: &mut Vec<u8>| -> Result<()> {
            let reader = T::reader(batch.columns().columns())?;
            (0..batch.num_rows()).for_each(|row| reader.get(row).write(out));
            Ok(())
        };
        Ok(Box::new(Writer { task: (info.parallelism, info.index), next, rows: Vec::new(), read }))
    }

    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(Some(Box::new(self.clone())))
    }
}

/// Behind its version a committable begins with the writer's parallelism and task (u32 each) and counter (u64),
/// little-endian, by which it is known again; then rows in their stable form.
const HEADER: usize = 16;

struct Writer<F> {
    task: (u32, u32),
    next: u64,
    rows: Vec<u8>,
    read: F,
}

impl<F: FnMut(&Batch, &mut Vec<u8>) -> Result<()> + Send> SinkWriter for Writer<F> {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        (self.read)(batch, &mut self.rows)
    }

    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = ROWS.begin();
        bytes.reserve_exact(HEADER + self.rows.len());
        bytes.extend(self.task.0.to_le_bytes());
        bytes.extend(self.task.1.to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
        bytes.append(&mut self.rows);
        self.next += 1;
        Ok(vec![Committable(bytes)])
    }

    fn snapshot(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(vec![NEXT.encode(&self.next)?])
    }
}

impl<T: Record> Committer for CollectSink<T> {
    fn commit(&mut self, committables: &[Committable]) -> Result<()> {
        let mut store = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        for Committable(bytes) in committables {
            let body = ROWS.body(bytes)?;
            let (header, mut rows) =
                body.split_at_checked(HEADER).ok_or_else(|| Error::internal("collected rows without a header"))?;
            if !store.committed.insert(header.to_vec()) {
                continue;
            }
            while !rows.is_empty() {
                let row = T::read(&mut rows)?;
                store.rows.push(row);
            }
        }
        Ok(())
    }
}
