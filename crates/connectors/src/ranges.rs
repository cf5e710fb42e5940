//! Sources whose splits are ranges of row numbers: [`split_range`] and [`RangeReader`].

use std::sync::Arc;

use flott_core::{Batch, ReaderContext, Result, SourceEvent, SourceReader, Split, StoredForm, Wait};
use serde::{Deserialize, Serialize};

/// A [`Range`].
const POSITION: StoredForm = StoredForm::new("the position of a range of rows", 1);

/// Rows `next..end` are to be given out.
#[derive(Serialize, Deserialize)]
struct Range {
    next: u64,
    end: u64,
}

/// Rows `0..rows` in `parts` contiguous splits of nearly the same size, without empty ones.
pub(crate) fn split_range(rows: u64, parts: u32) -> Result<Vec<Split>> {
    let parts = u64::from(parts.max(1));
    // i × rows / parts without overflow.
    let bound = |i: u64| rows / parts * i + rows % parts * i / parts;
    (0..parts)
        .map(|i| (bound(i), bound(i + 1)))
        .filter(|(start, end)| start < end)
        .map(|(start, end)| {
            let position = POSITION.encode(&Range { next: start, end })?;
            Ok(Split { id: format!("rows {start}..{end}").into(), position })
        })
        .collect()
}

/// Reads ranges of rows, one after the other.
pub(crate) struct RangeReader<F> {
    splits: Vec<Active>,
    /// (first row, number of rows) → the rows.
    rows: F,
}

struct Active {
    id: Arc<str>,
    range: Range,
    paused: bool,
}

impl<F> RangeReader<F> {
    pub(crate) fn new(rows: F) -> Self {
        Self { splits: Vec::new(), rows }
    }
}

impl<F: FnMut(u64, usize) -> Result<Batch> + Send> SourceReader for RangeReader<F> {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let range = POSITION.decode(&split.position)?;
        self.splits.push(Active { id: split.id, range, paused: false });
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        if self.splits.is_empty() {
            return Ok(SourceEvent::NeedSplit);
        }
        let Some(index) = self.splits.iter().position(|split| !split.paused) else {
            return Ok(SourceEvent::Wait(Wait::Waker));
        };
        let Active { id, range, .. } = &mut self.splits[index];
        let left = range.end.saturating_sub(range.next);
        if left == 0 {
            return Ok(SourceEvent::SplitFinished(self.splits.remove(index).id));
        }
        let count = usize::try_from(left).map_or(ctx.max_rows, |left| left.min(ctx.max_rows));
        let batch = (self.rows)(range.next, count)?;
        range.next += count as u64;
        Ok(SourceEvent::Batch(id.clone(), batch))
    }

    fn pause(&mut self, split: &str, paused: bool) {
        for active in self.splits.iter_mut().filter(|active| &*active.id == split) {
            active.paused = paused;
        }
    }

    /// Until they end.
    fn has_rows(&self, _split: &str) -> bool {
        true
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        let splits = self.splits.iter();
        splits.map(|split| Ok(Split { id: split.id.clone(), position: POSITION.encode(&split.range)? })).collect()
    }
}
