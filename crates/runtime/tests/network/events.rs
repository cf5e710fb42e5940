//! Watermarks and idleness where they wait: a queue, a connection's writer, a channel that is not open yet. Whatever is
//! left out, a reader ends up knowing the same, and a run of events takes no memory.

use std::sync::Arc;

use flott_core::{BarrierMode, CheckpointBarrier, CheckpointId, CheckpointKind, StreamElement, Timestamp};
use flott_runtime::channel::ChannelQueue;
use flott_runtime::network::memory::MemoryEnd;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::neighbours::{settle, started};
use super::{batch, id, numbers};

/// Where elements wait.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// A channel's queue at its reader.
    Queue,
    /// What a connection has not written yet.
    Outbound,
    /// A channel whose reader has not opened it: without batches, since nobody has given credit.
    Held,
}

const PLACES: [Place; 3] = [Place::Queue, Place::Outbound, Place::Held];

/// What a reader knows of a channel, as an input gate understands it: watermark, idleness.
type Known = (i64, bool);

/// What is known in front of each batch, barrier and end, and at last.
fn known(elements: &[StreamElement]) -> Vec<(Known, String)> {
    let (mut watermark, mut idle) = (i64::MIN, false);
    let mut known = Vec::new();
    for element in elements {
        match element {
            StreamElement::Watermark(at) => (watermark, idle) = (watermark.max(at.0), false),
            StreamElement::Idle(now) => idle = *now,
            StreamElement::Batch(batch) => {
                known.push(((watermark, idle), format!("{} rows", batch.num_rows())));
                idle = false;
            }
            other => known.push(((watermark, idle), format!("{other:?}"))),
        }
    }
    known.push(((watermark, idle), "nothing more".into()));
    known
}

fn barrier(number: u64) -> StreamElement {
    let (kind, mode) = (CheckpointKind::Checkpoint, BarrierMode::Aligned);
    StreamElement::Barrier(CheckpointBarrier { id: CheckpointId(number), kind, mode })
}

/// Mostly events, with watermarks that also go back.
fn random_elements(random: &mut SmallRng, place: Place) -> Vec<StreamElement> {
    let count = random.random_range(1..40);
    let mut elements: Vec<_> = (0..count)
        .map(|n| match random.random_range(0..12) {
            0 if place != Place::Held => batch(0..random.random_range(1..5)),
            1 => barrier(n),
            2..7 => StreamElement::Watermark(Timestamp(random.random_range(0..10))),
            _ => StreamElement::Idle(random.random()),
        })
        .collect();
    elements.extend(random.random_bool(0.5).then_some(StreamElement::EndOfInput));
    elements
}

/// What arrives of these elements: `goes_on` says, after each, whether whoever empties the place does so for a moment.
fn through(place: Place, elements: &[StreamElement], mut goes_on: impl FnMut() -> bool) -> Vec<StreamElement> {
    const CREDIT: u32 = 64;
    let mut found = Vec::new();
    if place == Place::Queue {
        let queue = ChannelQueue::new(id(0), CREDIT);
        for element in elements {
            queue.push(element.clone());
            found.extend(goes_on().then(|| queue.pop()).flatten());
        }
        found.extend(std::iter::from_fn(|| queue.pop()));
        return found;
    }
    // Less than a frame fits on the way: the writer stands still in the middle of one.
    let (mut ends, _ended) = started(50);
    let open = |ends: &[_; 2]| open_receiver(&ends[1], CREDIT);
    let mut sender = ends[0].connection().open_sender(id(0)).unwrap();
    let opened = (place == Place::Outbound).then(|| open(&ends));
    settle(&mut ends);
    for element in elements {
        sender.send(element.clone());
        if goes_on() {
            ends[0].run();
            ends[1].arrive(usize::MAX);
            ends[1].run();
        }
    }
    let queue = opened.unwrap_or_else(|| open(&ends));
    settle(&mut ends);
    assert!(ends.iter().all(|end| end.connection().error().is_none()), "{:?}", ends[0].connection().error());
    std::iter::from_fn(|| queue.pop()).collect()
}

fn open_receiver(end: &MemoryEnd, credit: u32) -> Arc<ChannelQueue> {
    end.connection().open_receiver(id(0), numbers(), credit).unwrap()
}

/// Events in a row.
fn longest_run(elements: &[StreamElement]) -> usize {
    let is_event = |element: &StreamElement| matches!(element, StreamElement::Watermark(_) | StreamElement::Idle(_));
    elements.split(|element| !is_event(element)).map(<[_]>::len).max().unwrap_or_default()
}

#[test]
fn a_reader_ends_up_knowing_the_same() {
    for place in PLACES {
        for seed in 0..2000 {
            let mut random = SmallRng::seed_from_u64(seed);
            let elements = random_elements(&mut random, place);
            let often = [0.0, 0.2, 0.8][random.random_range(0..3)];
            let found = through(place, &elements, || random.random_bool(often));
            assert_eq!(known(&found), known(&elements), "{place:?}, seed {seed}: {elements:?} gave {found:?}");
            if often == 0.0 {
                assert!(longest_run(&found) <= 2, "{place:?}, seed {seed}: {found:?}");
            }
        }
    }
}

#[test]
fn what_is_left_of_a_run() {
    let (watermark, idle) = (|at| StreamElement::Watermark(Timestamp(at)), StreamElement::Idle);
    for (sent, left) in [
        (vec![watermark(1), watermark(2)], vec![watermark(2)]),
        (vec![watermark(2), watermark(1)], vec![watermark(2)]),
        (vec![idle(true), watermark(1)], vec![watermark(1)]),
        (vec![idle(true), idle(false)], vec![idle(false)]),
        (vec![watermark(1), idle(true)], vec![watermark(1), idle(true)]),
        (vec![watermark(1), idle(true), idle(false)], vec![watermark(1)]),
        (vec![watermark(1), idle(true), watermark(2)], vec![watermark(2)]),
        (vec![watermark(2), idle(true), watermark(1)], vec![watermark(2)]),
        (vec![watermark(1), barrier(1), watermark(2)], vec![watermark(1), barrier(1), watermark(2)]),
        (
            vec![watermark(1), idle(true), StreamElement::EndOfInput],
            vec![watermark(1), idle(true), StreamElement::EndOfInput],
        ),
    ] {
        for place in PLACES {
            let found = through(place, &sent, || false);
            assert_eq!(format!("{found:?}"), format!("{left:?}"), "{place:?}: {sent:?}");
        }
    }
}

/// As many as would end the attempt, were each of them held, and more.
#[test]
fn events_in_turn_take_no_memory_while_nobody_takes_them() {
    const EVENTS: i64 = 70_000;
    let in_turn = |at| [StreamElement::Watermark(Timestamp(at)), StreamElement::Idle(true), StreamElement::Idle(false)];
    let elements: Vec<_> = (0..EVENTS).flat_map(in_turn).collect();
    for place in PLACES {
        let found = through(place, &elements, || false);
        assert_eq!(format!("{found:?}"), format!("[Watermark(Timestamp({}))]", EVENTS - 1), "{place:?}");
    }
    let (mut ends, _ended) = started(50);
    let _queue = open_receiver(&ends[1], 1);
    let mut sender = ends[0].connection().open_sender(id(0)).unwrap();
    settle(&mut ends);
    elements.into_iter().for_each(|element| sender.send(element));
    // Two frames of a 20-byte header, and an event in under 30 bytes.
    let peak = ends[0].connection().stats().peak_queued_bytes;
    assert!(peak <= 2 * 50, "{peak} bytes queued");
}
