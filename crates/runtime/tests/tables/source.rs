//! The input of a source task: splits asked for, their watermarks combined, quiet and idle sources, snapshots.

use std::collections::VecDeque;
use std::task::Waker;

use flott_core::{
    Error, ManualClock, NextSplit, ReaderContext, Result, SourceEvent, SourceReader, Split, Timestamp, Wait,
    WatermarkStrategy,
};
use flott_runtime::source_input::{SourceInput, SourceInputEvent};

use crate::gate::{rows, values};

/// Does as it is told; `w` in a script: wait for the waker.
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
            [split, ref times @ ..] => SourceEvent::Batch(split.into(), rows(times.iter().map(|t| t.parse().unwrap()))),
            _ => return Err(Error::user("cannot follow the script")),
        })
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
fn an_idle_source_is_told_once_and_rows_bring_it_back() {
    let strategy = every(1).map(|s| s.with_idleness(1000));
    let mut table = Table::new(&["a 10", "w", "w", "w", "a 20"], strategy).with_splits(&["a"]);
    table.expect(&["[10] watermark 9", "wait until 200"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait", "[20] watermark 19", "wait until 1200"]);
    table.clock.advance(1000);
    table.expect(&["idle true", "wait"]);
}

#[test]
fn a_watermark_owed_by_an_idle_source_brings_it_back_and_it_is_idle_again() {
    // Idle after 100 ms, but the watermark is owed after 200: readers take the watermark for a sign of life.
    let strategy = every(10).map(|s| s.with_idleness(100));
    let mut table = Table::new(&["a 10"], strategy).with_splits(&["a"]);
    table.expect(&["[10]", "wait until 100"]);
    table.clock.advance(100);
    table.expect(&["idle true", "wait until 200"]);
    table.clock.advance(100);
    table.expect(&["watermark 9", "idle true", "wait"]);
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
