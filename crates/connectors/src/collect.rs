//! The sink `collect`: rows back to the program that started the job, [`Collected`].
//!
//! Writers may run in other processes, so rows travel as committables and are kept by the committer, which runs in the
//! process that started the job: exactly once, however often a checkpoint is committed again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{RecordBatch, UInt8Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, SchemaBuilder};
use flott_core::{
    Batch, Committable, Committer, Error, OperatorInfo, Registry, Result, RowKind, Sink, SinkWriter, Spec, StoredForm,
};

/// A committable: what [`HEADER`] says.
const ROWS: StoredForm = StoredForm::new("collected rows", 1);
/// A writer's entry.
const NEXT: StoredForm = StoredForm::new("the number of the next committable", 1);

/// The name of the sink in the registry.
pub const NAME: &str = "collect";

/// The rows of one job, as far as they are committed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<Store>>);

#[derive(Debug, Default)]
struct Store {
    batches: Vec<Batch>,
    /// Committables that were kept already.
    committed: HashSet<Vec<u8>>,
}

impl Collected {
    /// Puts the sink that collects into this into `registry`. [`crate::register_all`] does not, since somebody has to
    /// take the rows.
    pub fn register(&self, registry: &mut Registry) {
        let collected = self.clone();
        registry.add_sink(NAME, Arc::new(move |_| Ok(Box::new(collected.clone()))));
    }

    /// The sink, for a plan.
    pub fn spec() -> Result<Spec> {
        Spec::new(NAME, &())
    }

    /// Takes the rows out, with their kinds but without event times; those of one task are in order.
    pub fn take(&self) -> Vec<Batch> {
        std::mem::take(&mut self.store().batches)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Collected {
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        let counters = restored.iter().map(|entry| NEXT.decode(entry));
        let next = counters.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
        Ok(Box::new(Writer { task: (info.parallelism, info.index), next, batches: Vec::new() }))
    }

    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(Some(Box::new(self.clone())))
    }
}

/// Behind its version a committable begins with the writer's parallelism and task (u32 each) and a counter (u64),
/// little-endian, by which it is known again; then an Arrow IPC stream, whose last column is the kinds of the rows.
const HEADER: usize = 16;

struct Writer {
    task: (u32, u32),
    next: u64,
    batches: Vec<RecordBatch>,
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.batches.push(with_kinds(batch)?);
        Ok(())
    }

    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        let batches = std::mem::take(&mut self.batches);
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let mut bytes = ROWS.begin();
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
        Ok(vec![NEXT.encode(&self.next)?])
    }
}

impl Committer for Collected {
    fn commit(&mut self, committables: &[Committable]) -> Result<()> {
        let mut store = self.store();
        for Committable(bytes) in committables {
            let body = ROWS.body(bytes)?;
            let (header, rows) =
                body.split_at_checked(HEADER).ok_or_else(|| Error::internal("collected rows without a header"))?;
            if !store.committed.insert(header.to_vec()) {
                continue;
            }
            for columns in StreamReader::try_new(rows, None)? {
                store.batches.push(without_kinds(columns?)?);
            }
        }
        Ok(())
    }
}

fn with_kinds(batch: &Batch) -> Result<RecordBatch> {
    let kinds = match batch.row_kinds() {
        Some(kinds) => kinds.clone(),
        None => vec![RowKind::Insert as u8; batch.num_rows()].into(),
    };
    let mut fields = SchemaBuilder::from(&*batch.schema());
    fields.push(Field::new("kind", DataType::UInt8, false));
    let mut columns = batch.columns().columns().to_vec();
    columns.push(Arc::new(UInt8Array::new(kinds, None)));
    Ok(RecordBatch::try_new(Arc::new(fields.finish()), columns)?)
}

fn without_kinds(mut columns: RecordBatch) -> Result<Batch> {
    let last = columns.num_columns().checked_sub(1);
    let kinds = columns.remove_column(last.ok_or_else(|| Error::internal("collected rows without kinds"))?);
    let kinds = kinds.as_primitive_opt::<UInt8Type>().ok_or_else(|| Error::internal("kinds of rows as bytes"))?;
    let kinds = kinds.values().iter().any(|kind| *kind != RowKind::Insert as u8).then(|| kinds.values().clone());
    Ok(Batch::new(columns).with_row_kinds(kinds))
}
