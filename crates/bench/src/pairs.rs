//! Pairs of 64-bit numbers, made on the fly: the source `bench_pairs` and the same numbers as an iterator.

use std::sync::Arc;

use arrow_array::{Int64Array, TimestampMillisecondArray};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use flott_core::key::fmix64;
use flott_core::{
    Batch, NextSplit, OperatorInfo, ReaderContext, Registry, Result, Source, SourceEvent, SourceReader, Spec, Split,
    SplitEnumerator, schema_of,
};
use serde::{Deserialize, Serialize};

/// Its name in the registry.
pub(crate) const NAME: &str = "bench_pairs";

/// Which pairs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Pairs {
    /// How many.
    pub(crate) rows: u64,
    /// Keys are below this, each as likely as the others.
    pub(crate) keys: u64,
    /// Readers.
    pub(crate) parts: u64,
}

impl Pairs {
    /// The pair of this number: MurmurHash3's finaliser is a cheap generator with a number for a seed.
    #[inline]
    pub(crate) fn pair(self, number: u64) -> (u64, u64) {
        let random = u128::from(fmix64(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 7));
        // The high half of the product: below `keys`.
        (((random * u128::from(self.keys)) >> 64) as u64, number)
    }

    /// Numbers of the pairs of one part.
    pub(crate) fn part(self, part: u64) -> std::ops::Range<u64> {
        self.rows * part / self.parts..self.rows * (part + 1) / self.parts
    }

    /// The source, for a plan.
    pub(crate) fn spec(self) -> Result<Spec> {
        Spec::new(NAME, &self)
    }
}

/// `key` BIGINT, `value` TIMESTAMP(3): the second number is also what a window looks at.
pub(crate) fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    schema_of(vec![Field::new("key", DataType::Int64, false), Field::new("value", time, false)])
}

/// Puts the source into `registry`.
pub(crate) fn register(registry: &mut Registry) {
    registry.add_source(NAME, Arc::new(|spec| Ok(Box::new(PairsSource(spec.read()?)))));
}

struct PairsSource(Pairs);

impl Source for PairsSource {
    fn enumerator(&self, _restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        Ok(Box::new(Parts { next: 0, parts: self.0.parts }))
    }

    fn reader(&self, _info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(PairsReader { pairs: self.0, schema: schema(), split: None }))
    }
}

/// Deals out parts; the benchmark takes no snapshots, so that nothing is restored.
struct Parts {
    next: u64,
    parts: u64,
}

impl SplitEnumerator for Parts {
    fn next_split(&mut self, _reader: u32, _parallelism: u32) -> Result<NextSplit> {
        if self.next == self.parts {
            return Ok(NextSplit::NoMore);
        }
        let part = self.next;
        self.next += 1;
        Ok(NextSplit::Split(Split { id: format!("part {part}").into(), position: part.to_le_bytes().to_vec() }))
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

struct PairsReader {
    pairs: Pairs,
    schema: SchemaRef,
    split: Option<(Arc<str>, std::ops::Range<u64>)>,
}

impl SourceReader for PairsReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let part = split.position.as_slice().try_into().map_or(0, u64::from_le_bytes);
        self.split = Some((split.id, self.pairs.part(part)));
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        let Some((id, range)) = &mut self.split else { return Ok(SourceEvent::NeedSplit) };
        if range.is_empty() {
            let id = Arc::clone(id);
            self.split = None;
            return Ok(SourceEvent::SplitFinished(id));
        }
        let end = range.end.min(range.start + ctx.max_rows as u64);
        let rows = range.start..end;
        range.start = end;
        let pairs = self.pairs;
        let keys: Vec<i64> = rows.clone().map(|number| pairs.pair(number).0 as i64).collect();
        let values: Vec<i64> = rows.map(|number| pairs.pair(number).1 as i64).collect();
        let count = keys.len();
        let keys = Arc::new(Int64Array::from(keys));
        let values = Arc::new(TimestampMillisecondArray::from(values));
        Ok(SourceEvent::Batch(Arc::clone(id), Batch::of(Arc::clone(&self.schema), vec![keys, values], count)?))
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        Ok(Vec::new())
    }
}
