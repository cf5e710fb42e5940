//! The input of a source task: [`SourceInput`] reads splits, asks for more, and combines their watermarks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use flott_core::{
    Batch, Clock, NextSplit, ReaderContext, Result, SourceEvent, SourceReader, Split, Timestamp, Wait,
    WatermarkStrategy,
};
use serde::{Deserialize, Serialize};

use crate::watermarks::{WatermarkGenerator, WatermarkState};

/// A split in a snapshot, with what its watermark generator has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitState {
    split: Split,
    watermarks: Option<WatermarkState>,
}

/// What the source gives the task.
#[derive(Debug)]
pub enum SourceInputEvent {
    /// Rows, and whether the clock rises behind them.
    Rows(Vec<(Batch, Option<Timestamp>)>),
    /// The clock rises without rows.
    Watermark(Timestamp),
    /// The source has gone quiet; rows or a watermark say that it is back.
    Idle(bool),
    /// A split is wanted; the answer comes as mail.
    NeedSplit,
    /// Nothing until then.
    Wait(Wait),
    /// All splits are read and there will be no more.
    Ended,
}

/// The reader of a source task with its splits' watermarks.
pub struct SourceInput {
    reader: Box<dyn SourceReader>,
    strategy: Option<WatermarkStrategy>,
    generators: BTreeMap<Arc<str>, Option<WatermarkGenerator>>,
    clock: Timestamp,
    max_rows: usize,
    interval_ms: u64,
    asked: bool,
    ask_again: Option<Timestamp>,
    no_more: bool,
    idle: bool,
    last_row: Option<Timestamp>,
}

impl SourceInput {
    /// An input that goes on with these splits.
    pub fn new(
        mut reader: Box<dyn SourceReader>,
        strategy: Option<WatermarkStrategy>,
        restored: Vec<SplitState>,
        clock: Timestamp,
        max_rows: usize,
        interval_ms: u64,
    ) -> Result<Self> {
        let mut generators = BTreeMap::new();
        for SplitState { split, watermarks } in restored {
            let generator = strategy.clone().map(|s| WatermarkGenerator::new(s, watermarks.unwrap_or_default()));
            generators.insert(split.id.clone(), generator);
            reader.add_split(split)?;
        }
        Ok(Self {
            reader,
            strategy,
            generators,
            clock,
            max_rows,
            interval_ms,
            asked: false,
            ask_again: None,
            no_more: false,
            idle: false,
            last_row: None,
        })
    }

    /// The source's clock.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// The answer to a request for a split.
    pub fn on_split(&mut self, answer: NextSplit) -> Result<()> {
        self.asked = false;
        match answer {
            NextSplit::Split(split) => {
                let generator = self.strategy.clone().map(|s| WatermarkGenerator::new(s, WatermarkState::default()));
                self.generators.insert(split.id.clone(), generator);
                self.reader.add_split(split)?;
            }
            NextSplit::Later(at) => self.ask_again = Some(at),
            NextSplit::NoMore => self.no_more = true,
        }
        Ok(())
    }

    /// Whether the reader may block.
    pub fn blocks(&self) -> bool {
        self.reader.blocks()
    }

    /// The splits, for a snapshot.
    pub fn snapshot(&mut self) -> Result<Vec<SplitState>> {
        let splits = self.reader.snapshot()?;
        let state = |split: Split| {
            let watermarks = self.generators.get(&split.id).and_then(|g| g.as_ref().map(WatermarkGenerator::state));
            SplitState { split, watermarks }
        };
        Ok(splits.into_iter().map(state).collect())
    }

    /// A checkpoint is durable.
    pub fn complete(&mut self, id: flott_core::CheckpointId) -> Result<()> {
        self.reader.checkpoint_complete(id)
    }

    /// The next event: bounded work.
    pub fn poll(&mut self, waker: &Waker, clock: &dyn Clock) -> Result<SourceInputEvent> {
        let now = clock.now();
        let context = ReaderContext { waker, clock, max_rows: self.max_rows };
        match self.reader.next_batch(&context)? {
            SourceEvent::Batch(split, batch) => {
                self.last_row = Some(now);
                // Rows tell the readers that the source is back.
                self.idle = false;
                self.rows(&split, batch)
            }
            SourceEvent::SplitFinished(split) => {
                self.generators.remove(&split);
                Ok(self.combine().map_or(SourceInputEvent::Rows(Vec::new()), SourceInputEvent::Watermark))
            }
            SourceEvent::NeedSplit if self.no_more => Ok(SourceInputEvent::Ended),
            SourceEvent::NeedSplit if self.asked => Ok(SourceInputEvent::Wait(Wait::Waker)),
            SourceEvent::NeedSplit => match self.ask_again.filter(|&at| at > now) {
                Some(at) => Ok(SourceInputEvent::Wait(Wait::Until(at))),
                None => {
                    (self.asked, self.ask_again) = (true, None);
                    Ok(SourceInputEvent::NeedSplit)
                }
            },
            SourceEvent::Wait(wait) => Ok(self.quiet(now, wait)),
        }
    }

    fn rows(&mut self, split: &Arc<str>, batch: Batch) -> Result<SourceInputEvent> {
        let mut found = Vec::new();
        match self.generators.get_mut(split) {
            Some(Some(generator)) => generator.process(&batch, |piece, watermark| found.push((piece, watermark)))?,
            _ => found.push((batch, None)),
        }
        for (_, watermark) in &mut found {
            *watermark = watermark.and_then(|at| self.combine_with(split, at));
        }
        Ok(SourceInputEvent::Rows(found))
    }

    /// The clock, if it rises, with this split's watermark taken as given.
    fn combine_with(&mut self, split: &Arc<str>, watermark: Timestamp) -> Option<Timestamp> {
        let others = self.generators.iter().filter(|(id, _)| *id != split).filter_map(|(_, g)| g.as_ref());
        let low = others.map(|g| g.state().sent()).chain([watermark]).min()?;
        self.raise(low)
    }

    fn combine(&mut self) -> Option<Timestamp> {
        let low = self.generators.values().filter_map(|g| g.as_ref()).map(|g| g.state().sent()).min()?;
        self.raise(low)
    }

    fn raise(&mut self, low: Timestamp) -> Option<Timestamp> {
        (low > self.clock).then(|| {
            self.clock = low;
            // A watermark tells the readers that the source is back, as rows do.
            self.idle = false;
            low
        })
    }

    /// Nothing to read: after a while the watermark that is owed is sent, later the source counts as idle.
    fn quiet(&mut self, now: Timestamp, wait: Wait) -> SourceInputEvent {
        let since = *self.last_row.get_or_insert(now);
        let interval = i64::try_from(self.interval_ms).unwrap_or(i64::MAX);
        let owed_at = since.saturating_add(interval);
        if now >= owed_at {
            for generator in self.generators.values_mut().flatten() {
                generator.owed();
            }
            if let Some(at) = self.combine() {
                return SourceInputEvent::Watermark(at);
            }
        }
        let idle_at = self.strategy.as_ref().and_then(|s| s.idle_after_ms).map(|ms| since.saturating_add(ms as i64));
        if !self.idle && idle_at.is_some_and(|at| now >= at) {
            self.idle = true;
            return SourceInputEvent::Idle(true);
        }
        let next = [(self.strategy.is_some() && now < owed_at).then_some(owed_at), idle_at.filter(|_| !self.idle)];
        let next = next.into_iter().flatten().filter(|&at| at > now).min();
        SourceInputEvent::Wait(match (wait, next) {
            (Wait::Until(at), Some(next)) => Wait::Until(at.min(next)),
            (Wait::Waker, Some(next)) => Wait::Until(next),
            (wait, None) => wait,
        })
    }
}
