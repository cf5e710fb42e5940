//! The input gate as text tables. A table opens with its channels and goes on line by line:
//!
//! ```text
//! channels 0 0 1!          three channels into inputs 0, 0 and 1; `!`: barriers may not overtake there
//! 1 < rows 4 5             channel 1 brings rows (also: watermark 7, idle, active, barrier 1 aligned, end)
//! end-cut 7                the senders have all ended: cut here
//! 0 recover rows 3         channel 0 has elements from before a restore
//! overtake 1 | abort 1     the master's commands
//! poll = rows 0: 4 5       every event until nothing is left, separated by `;`
//! once = rows 0: 4 5       the next event
//! barrier = -              every event that can go on though the task takes no rows; `-`: none
//! ```
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod checkpoints;
mod overtaking;
mod time;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use flott_core::{
    BarrierMode, Batch, CheckpointBarrier, CheckpointId, CheckpointKind, InputId, StreamElement, Timestamp, schema_of,
};
use flott_plan::{ChannelId, EdgeId};
use flott_runtime::channel::ChannelQueue;
use flott_runtime::input_gate::{GateEvent, InputGate};

/// Rows of one column.
pub(crate) fn rows(values: impl IntoIterator<Item = i64>) -> Batch {
    let schema = schema_of(vec![Field::new("v", DataType::Int64, false)]);
    Batch::new(RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from_iter_values(values))]).unwrap())
}

/// The values of the first column.
pub(crate) fn values(batch: &Batch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// An element as tables write it.
pub(crate) fn element_text(element: &StreamElement) -> String {
    match element {
        StreamElement::Batch(batch) => format!("rows{}", join(&values(batch))),
        StreamElement::Watermark(at) => format!("watermark {at}"),
        StreamElement::Idle(true) => "idle".into(),
        StreamElement::Idle(false) => "active".into(),
        StreamElement::Barrier(barrier) => barrier_text(barrier),
        StreamElement::EndOfInput => "end".into(),
    }
}

fn barrier_text(barrier: &CheckpointBarrier) -> String {
    format!("barrier {} {}", barrier.id, format!("{:?}", barrier.mode).to_lowercase())
}

fn join(values: &[i64]) -> String {
    values.iter().map(|value| format!(" {value}")).collect()
}

/// A barrier of a checkpoint.
pub(crate) fn barrier(id: u64, mode: BarrierMode) -> CheckpointBarrier {
    CheckpointBarrier { id: CheckpointId(id), kind: CheckpointKind::Checkpoint, mode }
}

/// Reads an element as tables write it.
pub(crate) fn element(text: &str) -> StreamElement {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["rows", ref numbers @ ..] => StreamElement::Batch(rows(numbers.iter().map(|n| n.parse().unwrap()))),
        ["watermark", at] => StreamElement::Watermark(Timestamp(at.parse().unwrap())),
        ["idle"] => StreamElement::Idle(true),
        ["active"] => StreamElement::Idle(false),
        ["barrier", id, mode] => {
            let modes = [BarrierMode::Aligned, BarrierMode::Unaligned, BarrierMode::AtLeastOnce];
            let mode = modes.into_iter().find(|m| format!("{m:?}").to_lowercase() == mode).unwrap();
            StreamElement::Barrier(barrier(id.parse().unwrap(), mode))
        }
        ["end"] => StreamElement::EndOfInput,
        _ => panic!("no element: '{text}'"),
    }
}

fn event_text(event: &GateEvent) -> String {
    match event {
        GateEvent::Batch(input, batch) => format!("rows {}:{}", input.0, join(&values(batch))),
        GateEvent::Watermark(at) => format!("watermark {at}"),
        GateEvent::Idle(true) => "idle".into(),
        GateEvent::Idle(false) => "active".into(),
        GateEvent::Barrier(barrier) => barrier_text(barrier),
        GateEvent::InFlight(id, recorded) => {
            let channels = recorded.iter().map(|(channel, elements)| {
                let elements: Vec<_> = elements.iter().map(element_text).collect();
                format!(" {}=[{}]", channel.from, elements.join(", "))
            });
            format!("in flight {id}:{}", channels.collect::<String>())
        }
        GateEvent::Superseded(id) => format!("superseded {id}"),
        GateEvent::Ended => "ended".into(),
        GateEvent::Pending => "-".into(),
    }
}

struct Table {
    queues: Vec<Arc<ChannelQueue>>,
    gate: InputGate,
}

impl Table {
    fn new(channels: &str) -> Self {
        let mut queues = Vec::new();
        let mut of_gate = Vec::new();
        for (from, text) in channels.split_whitespace().enumerate() {
            let queue = ChannelQueue::new(ChannelId { edge: EdgeId(0), from: from as u32, to: 0 }, 1000);
            let input = InputId(text.trim_end_matches('!').parse().unwrap());
            of_gate.push((Arc::clone(&queue), input, !text.ends_with('!')));
            queues.push(queue);
        }
        Self { queues, gate: InputGate::new(of_gate, Timestamp::MIN) }
    }

    /// Follows a line; of one that asks for events, those found and those expected.
    fn follow(&mut self, line: &str) -> Option<(String, String)> {
        if let Some((ask, expected)) = line.split_once('=') {
            let mut found = Vec::new();
            match ask.trim() {
                "once" => found.push(event_text(&self.gate.poll())),
                "poll" => loop {
                    match self.gate.poll() {
                        GateEvent::Pending => break,
                        event => found.push(event_text(&event)),
                    }
                },
                "barrier" => found.extend(std::iter::from_fn(|| self.gate.poll_barrier()).map(|e| event_text(&e))),
                other => panic!("cannot ask for '{other}'"),
            }
            let found = if found.is_empty() { "-".into() } else { found.join("; ") };
            return Some((found, expected.trim().to_owned()));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["overtake", id] => self.gate.overtake(CheckpointId(id.parse().unwrap())),
            ["end-cut", id] => assert!(self.gate.cut_at_end(barrier(id.parse().unwrap(), BarrierMode::Unaligned))),
            ["abort", id] => self.gate.abort(CheckpointId(id.parse().unwrap())),
            [channel, "<", ..] => {
                let (_, text) = line.split_once('<').unwrap();
                self.queues[channel.parse::<usize>().unwrap()].push(element(text));
            }
            [channel, "recover", ..] => {
                let (_, text) = line.split_once("recover").unwrap();
                self.gate.recover(channel.parse().unwrap(), [element(text)]);
            }
            _ => panic!("cannot follow '{line}'"),
        }
        None
    }
}

/// Follows a table; fails at the first line whose events are others than it says.
#[track_caller]
pub(crate) fn check(text: &str) {
    let mut lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let (_, channels) = lines.next().unwrap();
    let mut table = Table::new(channels.strip_prefix("channels").unwrap());
    for (number, line) in lines {
        if let Some((found, expected)) = table.follow(line) {
            assert_eq!(found, expected, "line {} of the table: {line}", number + 1);
        }
    }
}
