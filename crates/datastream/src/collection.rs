//! A program's own rows as a source: [`CollectionSource`]. They do not travel: every process of the job has them.

use std::sync::Arc;

use flott_core::{
    Batch, Error, NextSplit, OperatorInfo, ReaderContext, Result, Source, SourceEvent, SourceReader, Split,
    SplitEnumerator, StoredForm, schema_of,
};

use crate::Record;
use crate::record::to_columns;

/// One split.
const SPLIT: &str = "collection";
/// The number of rows already given.
const POSITION: StoredForm = StoredForm::new("the position in a collection", 1);
/// Whether the split was dealt out.
const DEALT: StoredForm = StoredForm::new("whether a collection was dealt out", 1);

#[derive(Clone)]
pub(crate) struct CollectionSource(Result<Batch>);

impl CollectionSource {
    pub(crate) fn of<T: Record>(rows: &[T]) -> Self {
        Self(Batch::of(schema_of(T::fields()), to_columns(rows), rows.len()))
    }
}

fn split(at: usize) -> Result<Split> {
    Ok(Split { id: SPLIT.into(), position: POSITION.encode(&(at as u64))? })
}

impl Source for CollectionSource {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        let dealt = restored.map(|bytes| DEALT.decode(bytes)).transpose()?;
        Ok(Box::new(OneSplit { dealt: dealt.unwrap_or(false) }))
    }

    fn reader(&self, _info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(Reader { rows: self.0.clone()?, at: None }))
    }
}

struct OneSplit {
    dealt: bool,
}

impl SplitEnumerator for OneSplit {
    fn next_split(&mut self, _reader: u32, _parallelism: u32) -> Result<NextSplit> {
        if std::mem::replace(&mut self.dealt, true) {
            return Ok(NextSplit::NoMore);
        }
        Ok(NextSplit::Split(split(0)?))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        DEALT.encode(&self.dealt)
    }
}

struct Reader {
    rows: Batch,
    /// The next row, while it has the split.
    at: Option<usize>,
}

impl SourceReader for Reader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let at = usize::try_from(POSITION.decode::<u64>(&split.position)?).unwrap_or(usize::MAX);
        if at > self.rows.num_rows() {
            let text =
                format!("the collection had {at} rows when the snapshot was taken, now {}", self.rows.num_rows());
            return Err(Error::user(text));
        }
        self.at = Some(at);
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        let Some(at) = self.at else { return Ok(SourceEvent::NeedSplit) };
        let rows = (self.rows.num_rows() - at).min(ctx.max_rows);
        if rows == 0 {
            self.at = None;
            return Ok(SourceEvent::SplitFinished(SPLIT.into()));
        }
        self.at = Some(at + rows);
        Ok(SourceEvent::Batch(SPLIT.into(), self.rows.slice(at, rows)))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        self.at.map(split).into_iter().collect()
    }
}
