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

/// Where others have rows, a split is passed over at least so often before it counts as idle: the task may have been
/// held back for long, and a split with rows has not been asked for them all that time.
const TURNS: i64 = 8;

/// A split that is being read, as far as its watermarks go.
struct ActiveSplit {
    generator: Option<WatermarkGenerator>,
    /// When it gave rows; for a new one, when the reader first had nothing.
    last_row: Option<Timestamp>,
    /// For how long, in ms, only other splits have given rows.
    passed_over: i64,
    /// Since when there are rows that no watermark follows yet.
    owes_since: Option<Timestamp>,
    /// It holds the clock back no longer.
    idle: bool,
}

impl ActiveSplit {
    fn new(strategy: Option<&WatermarkStrategy>, state: Option<WatermarkState>) -> Self {
        let generator = strategy.map(|s| WatermarkGenerator::new(s.clone(), state.unwrap_or_default()));
        Self { generator, last_row: None, passed_over: 0, owes_since: None, idle: false }
    }

    /// When it is to send what it owes, at the latest before it is idle.
    fn owed_at(&self, interval: i64, idle_after: Option<i64>) -> Option<Timestamp> {
        let at = self.owes_since?.saturating_add(interval);
        Some(self.idle_at(idle_after).map_or(at, |idle| idle.min(at)))
    }

    /// When it becomes idle, unless it gives rows.
    fn idle_at(&self, idle_after: Option<i64>) -> Option<Timestamp> {
        let since = self.last_row.filter(|_| !self.idle)?;
        idle_after.map(|ms| since.saturating_add(ms))
    }

    /// What it has promised, unless it is idle.
    fn sent(&self) -> Option<Timestamp> {
        self.generator.as_ref().filter(|_| !self.idle).map(|generator| generator.state().sent())
    }
}

/// The reader of a source task with its splits' watermarks.
pub struct SourceInput {
    reader: Box<dyn SourceReader>,
    strategy: Option<WatermarkStrategy>,
    splits: BTreeMap<Arc<str>, ActiveSplit>,
    clock: Timestamp,
    max_rows: usize,
    interval_ms: u64,
    asked: bool,
    ask_again: Option<Timestamp>,
    no_more: bool,
    idle: bool,
    /// Since when there is no split.
    empty_since: Option<Timestamp>,
    /// When the reader was asked last.
    polled: Option<Timestamp>,
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
        let mut splits = BTreeMap::new();
        for SplitState { split, watermarks } in restored {
            splits.insert(split.id.clone(), ActiveSplit::new(strategy.as_ref(), watermarks));
            reader.add_split(split)?;
        }
        Ok(Self {
            reader,
            strategy,
            splits,
            clock,
            max_rows,
            interval_ms,
            asked: false,
            ask_again: None,
            no_more: false,
            idle: false,
            empty_since: None,
            polled: None,
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
                self.empty_since = None;
                self.splits.insert(split.id.clone(), ActiveSplit::new(self.strategy.as_ref(), None));
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
            let generator = self.splits.get(&split.id).and_then(|active| active.generator.as_ref());
            SplitState { watermarks: generator.map(WatermarkGenerator::state), split }
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
        let since_polled = now.0.saturating_sub(self.polled.replace(now).unwrap_or(now).0);
        let context = ReaderContext { waker, clock, max_rows: self.max_rows };
        match self.reader.next_batch(&context)? {
            SourceEvent::Batch(split, batch) => {
                // Rows tell the readers that the source is back.
                self.idle = false;
                let mut pieces = self.rows(&split, batch, now)?;
                let raised = self.pass_over_others(&split, since_polled);
                match (pieces.last_mut(), raised) {
                    (Some((_, watermark)), Some(_)) => *watermark = raised,
                    (None, Some(at)) => return Ok(SourceInputEvent::Watermark(at)),
                    (_, None) => {}
                }
                Ok(SourceInputEvent::Rows(pieces))
            }
            SourceEvent::SplitFinished(split) => {
                self.splits.remove(&split);
                Ok(self.combine().map_or(SourceInputEvent::Rows(Vec::new()), SourceInputEvent::Watermark))
            }
            SourceEvent::NeedSplit if self.no_more => Ok(SourceInputEvent::Ended),
            SourceEvent::NeedSplit if self.asked => Ok(self.quiet(now, Wait::Waker)),
            SourceEvent::NeedSplit => match self.ask_again.filter(|&at| at > now) {
                Some(at) => Ok(self.quiet(now, Wait::Until(at))),
                None => {
                    (self.asked, self.ask_again) = (true, None);
                    Ok(SourceInputEvent::NeedSplit)
                }
            },
            SourceEvent::Wait(wait) => Ok(self.quiet(now, wait)),
        }
    }

    fn rows(&mut self, id: &Arc<str>, batch: Batch, now: Timestamp) -> Result<Vec<(Batch, Option<Timestamp>)>> {
        let Some(ActiveSplit { generator: Some(generator), last_row, passed_over, owes_since, idle }) =
            self.splits.get_mut(id)
        else {
            return Ok(vec![(batch, None)]);
        };
        (*last_row, *passed_over, *idle) = (Some(now), 0, false);
        if let Some((row, error)) = generator.row_without_time(&batch) {
            return Err(self.reader.at_row(error, row));
        }
        let mut found = Vec::new();
        generator.process(&batch, |piece, watermark| found.push((piece, watermark)))?;
        let before = owes_since.filter(|_| found.iter().all(|(_, watermark)| watermark.is_none()));
        *owes_since = generator.has_rows().then_some(before.unwrap_or(now));
        for (_, watermark) in &mut found {
            *watermark = watermark.and_then(|at| self.combine_with(id, at));
        }
        Ok(found)
    }

    /// Another split has given rows, so long after the reader was asked before. A split that this happens to for long
    /// enough counts as idle; the clock, if it rises.
    fn pass_over_others(&mut self, id: &Arc<str>, since_polled: i64) -> Option<Timestamp> {
        let idle_after = self.idle_after()?;
        let time = since_polled.min((idle_after / TURNS).max(1));
        let mut changed = false;
        for (other, split) in self.splits.iter_mut().filter(|(other, split)| *other != id && !split.idle) {
            split.passed_over += time;
            split.idle = split.passed_over >= idle_after && !self.reader.has_rows(other);
            changed |= split.idle;
        }
        if changed { self.combine() } else { None }
    }

    /// The clock, if it rises, with this split's watermark taken as given.
    fn combine_with(&mut self, id: &Arc<str>, watermark: Timestamp) -> Option<Timestamp> {
        let others = self.splits.iter().filter(|(other, _)| *other != id).filter_map(|(_, split)| split.sent());
        let low = others.chain([watermark]).min()?;
        self.raise(low)
    }

    /// The clock, if it rises: the lowest of the splits that are not idle.
    fn combine(&mut self) -> Option<Timestamp> {
        let low = self.splits.values().filter_map(ActiveSplit::sent).min()?;
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

    fn idle_after(&self) -> Option<i64> {
        let ms = self.strategy.as_ref()?.idle_after_ms?;
        Some(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// Nothing to read: after a while watermarks that are owed are sent, later splits without rows count as idle, and
    /// the source where all do.
    fn quiet(&mut self, now: Timestamp, wait: Wait) -> SourceInputEvent {
        let (interval, idle_after) = (i64::try_from(self.interval_ms).unwrap_or(i64::MAX), self.idle_after());
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        for split in self.splits.values_mut() {
            split.last_row.get_or_insert(now);
            if is_due(split.owed_at(interval, idle_after)) {
                split.owes_since = None;
                split.generator.as_mut().and_then(WatermarkGenerator::owed);
            }
        }
        if let Some(at) = self.combine() {
            return SourceInputEvent::Watermark(at);
        }
        for (id, split) in &mut self.splits {
            split.idle |= is_due(split.idle_at(idle_after)) && !self.reader.has_rows(id);
        }
        if let Some(at) = self.combine() {
            return SourceInputEvent::Watermark(at);
        }
        let no_split = self.splits.is_empty().then(|| *self.empty_since.get_or_insert(now));
        let empty_until = no_split.zip(idle_after).map(|(since, ms)| since.saturating_add(ms));
        let idle = idle_after.is_some() && if no_split.is_some() { is_due(empty_until) } else { self.all_idle() };
        if idle != self.idle {
            self.idle = idle;
            return SourceInputEvent::Idle(idle);
        }
        let of_splits = self.splits.values().flat_map(|s| [s.owed_at(interval, idle_after), s.idle_at(idle_after)]);
        match of_splits.chain([empty_until]).flatten().filter(|&at| at > now).min() {
            Some(next) => SourceInputEvent::Wait(match wait {
                Wait::Until(at) => Wait::Until(at.min(next)),
                Wait::Waker => Wait::Until(next),
            }),
            None => SourceInputEvent::Wait(wait),
        }
    }

    fn all_idle(&self) -> bool {
        self.splits.values().all(|split| split.idle)
    }
}
