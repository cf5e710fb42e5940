//! The input of a source task: splits asked for, their watermarks combined, quiet and idle sources, snapshots.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use arrow_array::{Int64Array, RecordBatch};
use flott_core::{
    Batch, Error, ManualClock, NextSplit, ReaderContext, Result, SourceEvent, SourceReader, Split, Timestamp, Wait,
    WatermarkStrategy,
};
use flott_runtime::source_input::{SourceInput, SourceInputEvent};

use crate::gate::values;

/// Does as it is told; `w` in a script: wait for the waker; rows are their event times.
#[derive(Default)]
struct Scripted {
    script: VecDeque<&'static str>,
    splits: Vec<Split>,
}

impl SourceReader for Scripted {
    fn add_split(&mut self, split: Split) -> Result<()> {
        self.splits.push(split);
        Ok(())
    }

    fn next_batch(&mut self, _: &ReaderContext<'_>) -> Result<SourceEvent> {
        let line = self.script.pop_front().unwrap_or("w");
        Ok(match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["w"] => SourceEvent::Wait(Wait::Waker),
            ["need"] => SourceEvent::NeedSplit,
            ["finished", split] => SourceEvent::SplitFinished(split.into()),
            [split, ref times @ ..] => {
                let times: Vec<Option<i64>> = times.iter().map(|t| t.parse().ok()).collect();
                let column = Arc::new(Int64Array::from(times));
                SourceEvent::Batch(split.into(), Batch::new(RecordBatch::try_from_iter([("n", column as _)])?))
            }
            _ => return Err(Error::user("cannot follow the script")),
        })
    }

    /// One that is called so is held back by others.
    fn has_rows(&self, split: &str) -> bool {
        split == "held"
    }

    fn at_row(&self, error: Error, row: usize) -> Error {
        error.at("line", 100 + row)
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        Ok(self.splits.clone())
    }
}

fn split(id: &str) -> Split {
    Split { id: id.into(), position: Vec::new() }
}

fn text(event: &SourceInputEvent) -> String {
    match event {
        SourceInputEvent::Rows(pieces) => {
            let piece = |(batch, at): &(_, Option<Timestamp>)| {
                format!("{:?}{}", values(batch), at.map_or(String::new(), |at| format!(" watermark {at}")))
            };
            pieces.iter().map(piece).collect::<Vec<_>>().join(", ")
        }
        SourceInputEvent::Watermark(at) => format!("watermark {at}"),
        SourceInputEvent::Idle(idle) => format!("idle {idle}"),
        SourceInputEvent::NeedSplit => "need split".into(),
        SourceInputEvent::Wait(Wait::Waker) => "wait".into(),
        SourceInputEvent::Wait(Wait::Until(at)) => format!("wait until {at}"),
        SourceInputEvent::Ended => "ended".into(),
    }
}

struct Table {
    input: SourceInput,
    clock: ManualClock,
}

impl Table {
    /// A source that owes its watermark after 200 ms.
    fn new(script: &[&'static str], strategy: Option<WatermarkStrategy>) -> Self {
        let reader = Scripted { script: script.iter().copied().collect(), splits: Vec::new() };
        let input = SourceInput::new(Box::new(reader), strategy, Vec::new(), Timestamp::MIN, 100, 200).unwrap();
        Self { input, clock: ManualClock::new(Timestamp(0)) }
    }

    fn with_splits(mut self, ids: &[&str]) -> Self {
        ids.iter().for_each(|id| self.input.on_split(NextSplit::Split(split(id))).unwrap());
        self
    }

    #[track_caller]
    fn expect(&mut self, events: &[&str]) {
        for expected in events {
            let event = self.input.poll(Waker::noop(), &self.clock).unwrap();
            assert_eq!(text(&event), *expected);
        }
    }
}

fn every(rows: u32) -> Option<WatermarkStrategy> {
    Some(WatermarkStrategy::for_monotonous_timestamps().with_time_column(0).with_every_rows(rows))
}

fn idle_after(ms: u64, rows: u32) -> Option<WatermarkStrategy> {
    every(rows).map(|strategy| strategy.with_idleness(ms))
}

#[test]
fn a_split_is_asked_for_once_and_the_end_is_the_last_answer() {
    let mut table = Table::new(&["need"; 9], None);
    table.expect(&["need split", "wait", "wait"]);
    table.input.on_split(NextSplit::Later(Timestamp(50))).unwrap();
    table.expect(&["wait until 50", "wait until 50"]);
    table.clock.advance(50);
    table.expect(&["need split", "wait"]);
    table.input.on_split(NextSplit::NoMore).unwrap();
    table.expect(&["ended"]);
}

#[test]
fn the_clock_is_the_lowest_of_the_splits() {
    let script = ["a 10 20", "b 5", "b 6", "a 30", "b 40", "finished a", "finished b"];
    let mut table = Table::new(&script, every(1)).with_splits(&["a", "b"]);
    table.expect(&[
        "[10], [20]",
        "[5] watermark 4",
        "[6] watermark 5",
        "[30]",
        "[40] watermark 29",
        "watermark 39",
        "",
    ]);
}

#[test]
fn a_quiet_source_sends_the_watermark_it_owes() {
    let mut table = Table::new(&["a 10 20"], every(10)).with_splits(&["a"]);
    table.expect(&["[10, 20]", "wait until 200"]);
    table.clock.advance(200);
    table.expect(&["watermark 19", "wait"]);
}

#[test]
fn a_slow_source_sends_the_watermark_it_owes_although_it_is_never_quiet_for_long() {
    let mut table = Table::new(&["a 10", "w", "a 20", "w", "a 30", "w"], every(10)).with_splits(&["a"]);
    table.expect(&["[10]", "wait until 200"]);
    table.clock.advance(150);
    table.expect(&["[20]", "wait until 200"]);
    table.clock.advance(150);
    table.expect(&["[30]", "watermark 29", "wait"]);
}

#[test]
fn an_idle_source_is_told_once_and_rows_bring_it_back() {
    let mut table = Table::new(&["a 10", "w", "w", "w", "a 20"], idle_after(1000, 1)).with_splits(&["a"]);
    table.expect(&["[10] watermark 9", "wait until 1000"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait", "[20] watermark 19", "wait until 2000"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait"]);
}

#[test]
fn what_is_owed_is_sent_before_a_source_is_idle() {
    // Idle after 100 ms, but a watermark is owed for up to 200.
    let mut table = Table::new(&["a 10"], idle_after(100, 10)).with_splits(&["a"]);
    table.expect(&["[10]", "wait until 100"]);
    table.clock.advance(100);
    table.expect(&["watermark 9", "idle true", "wait"]);
}

#[test]
fn a_silent_split_holds_nobody_back() {
    let script = ["a 10", "b 5", "w", "a 20", "w", "a 30", "w", "w", "w", "w", "a 40", "b 35", "b 50"];
    let mut table = Table::new(&script, idle_after(1000, 1)).with_splits(&["a", "b", "c"]);
    // `c` has no row yet.
    table.expect(&["[10]", "[5]", "wait until 1000"]);
    table.clock.advance(600);
    table.expect(&["[20]", "wait until 1000"]);
    table.clock.advance(400);
    // `b` and `c` are idle.
    table.expect(&["[30]", "watermark 29", "wait until 2000"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait"]);
    // One that is back counts from its next watermark on; the clock never goes back.
    table.expect(&["[40] watermark 39", "[35]", "[50]", "wait until 3000"]);
}

#[test]
fn a_source_without_splits_is_idle_and_a_new_split_brings_it_back() {
    let mut table = Table::new(&["need"; 4], idle_after(1000, 1));
    table.expect(&["need split", "wait until 1000"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait"]);
    let mut table = table.with_splits(&["a"]);
    table.expect(&["idle false", "wait until 2000"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait"]);
}

#[test]
fn a_split_is_passed_over_some_times_before_it_is_idle() {
    // The task is held back for longer than a split may be silent: nobody knows whether `b` has rows.
    let script = ["a 10", "a 20", "b 15", "a 30", "a 31", "a 32", "a 33", "a 34", "a 35", "a 36", "a 37", "a 38"];
    let mut table = Table::new(&script, idle_after(1000, 1)).with_splits(&["a", "b"]);
    table.expect(&["[10]"]);
    table.clock.advance(60_000);
    table.expect(&["[20]", "[15] watermark 14"]);
    for at in 30..37 {
        table.clock.advance(60_000);
        table.expect(&[&format!("[{at}]")]);
    }
    // An eighth of the time for each: now it is idle.
    table.clock.advance(60_000);
    table.expect(&["[37] watermark 36", "[38] watermark 37"]);
}

#[test]
fn a_split_whose_turn_has_not_come_is_not_idle() {
    let script = ["a 10", "a 20", "a 30", "w"];
    let mut table = Table::new(&script, idle_after(2, 1)).with_splits(&["a", "held"]);
    table.expect(&["[10]"]);
    for at in [20, 30] {
        table.clock.advance(1000);
        table.expect(&[&format!("[{at}]")]);
    }
    table.expect(&["wait until 2002"]);
    table.clock.advance(1000);
    table.expect(&["wait"]);
}

#[test]
fn a_row_without_event_time_is_placed_by_its_reader() {
    let mut table = Table::new(&["a 10 NULL"], every(1)).with_splits(&["a"]);
    let error = table.input.poll(Waker::noop(), &table.clock).unwrap_err();
    assert_eq!(error.to_string(), "a row has no event time: it is NULL (column n, line 101)");
}

#[test]
fn splits_go_on_where_they_were_with_what_their_generators_had_seen() {
    let script = ["a 10 20", "b 5"];
    let mut table = Table::new(&script, every(3)).with_splits(&["a", "b"]);
    table.expect(&["[10, 20]", "[5]"]);
    let splits = table.input.snapshot().unwrap();
    let bytes: Vec<Vec<u8>> = splits.iter().map(|split| postcard::to_stdvec(split).unwrap()).collect();
    let restored = bytes.iter().map(|bytes| postcard::from_bytes(bytes).unwrap()).collect();
    let reader = Scripted { script: ["a 30", "b 6 7", "a 40"].into(), splits: Vec::new() };
    let clock = table.input.clock();
    let input = SourceInput::new(Box::new(reader), every(3), restored, clock, 100, 200).unwrap();
    let mut table = Table { input, clock: ManualClock::new(Timestamp(0)) };
    // The third row of `a` since its last watermark, then that of `b`.
    table.expect(&["[30]", "[6, 7] watermark 6", "[40]"]);
}
