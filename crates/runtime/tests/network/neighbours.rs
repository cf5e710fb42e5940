//! Connections in memory, turn by turn: a channel whose reader stands still leaves its neighbours their rate and memory
//! flat; bytes arrive in any pieces; a connection breaks anywhere.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use flott_core::{Result, StreamElement, Timestamp};
use flott_plan::HostId;
use flott_runtime::channel::{ChannelQueue, ChannelSender};
use flott_runtime::network::memory::{MemoryEnd, link};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{batch, id, numbers, values};

/// A link between hosts 0 and 1 that has begun, and how it ended at each side.
pub(super) fn started(capacity: usize) -> ([MemoryEnd; 2], [Receiver<Result<()>>; 2]) {
    let ends = link(HostId(0), HostId(1), capacity);
    let ended = ends.each_ref().map(|end| {
        let (end_of, ended) = channel();
        end.connection().start(|_| (), move |result| end_of.send(result).unwrap_or_default()).unwrap();
        ended
    });
    (ends, ended)
}

/// Lets everything arrive that is on its way.
pub(super) fn settle(ends: &mut [MemoryEnd; 2]) {
    while ends.iter().any(|end| end.is_woken() || end.arriving() > 0) {
        for end in ends.iter_mut() {
            end.arrive(usize::MAX);
            end.run();
        }
    }
}

/// Lets so many bytes go from the first end to the second, if there are as many.
fn carry(ends: &mut [MemoryEnd; 2], bytes: usize) {
    let mut left = bytes;
    loop {
        ends[0].run();
        let arriving = ends[1].arriving().min(left);
        ends[1].arrive(arriving);
        ends[1].run();
        left -= arriving;
        if arriving == 0 {
            break;
        }
    }
}

/// What the first channel's reader does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    Absent,
    Flowing,
    Blocked,
}

#[derive(Debug)]
struct Shape {
    credit: u32,
    neighbours: u32,
    /// Rows of a batch of the first channel, and of its neighbours.
    rows: [u64; 2],
    capacity: usize,
    /// Bytes that arrive in a turn.
    rate: usize,
}

impl Shape {
    fn of(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        Self {
            credit: random.random_range(1..=4),
            neighbours: random.random_range(1..=6),
            rows: [0; 2].map(|_| [1, 50, 1000][random.random_range(0..3)]),
            capacity: [1000, 64 << 10, 1 << 20][random.random_range(0..3)],
            rate: random.random_range(2_000..40_000),
        }
    }

    /// The most bytes of a batch: 8 a row, and under 1000 beside them.
    fn batch_bytes(&self) -> usize {
        1000 + 8 * *self.rows.iter().max().unwrap() as usize
    }
}

const TURNS: usize = 600;

/// Rows of each neighbour, with a sender for each channel that always has rows.
fn rows_of_neighbours(shape: &Shape, first: First) -> Vec<u64> {
    let (mut ends, _ended) = started(shape.capacity);
    let channels = 1 + shape.neighbours;
    let open: Vec<u32> = (0..channels).filter(|&c| c > 0 || first != First::Absent).collect();
    let queues: Vec<(u32, Arc<ChannelQueue>)> = open
        .iter()
        .map(|&c| (c, ends[1].connection().open_receiver(id(c), numbers(), shape.credit).unwrap()))
        .collect();
    let mut senders: Vec<(u32, ChannelSender)> =
        open.iter().map(|&c| (c, ends[0].connection().open_sender(id(c)).unwrap())).collect();
    settle(&mut ends);
    let mut taken = vec![0; channels as usize];
    // Batches with credit; watermarks of under 100 bytes, one behind each batch and one on its own. What one call writes
    // counts until all of it is written, and its credit may be back by then: twice as much.
    let of_channel = shape.credit as usize * shape.batch_bytes() + (shape.credit as usize + 1) * 100;
    let limit = 2 * channels as usize * of_channel;
    for turn in 0..TURNS {
        for (c, sender) in &mut senders {
            let rows = shape.rows[usize::from(*c > 0)];
            while sender.credit() > 0 {
                sender.send(batch(0..rows));
            }
            // Needs no credit, and must not pile up.
            sender.send(StreamElement::Watermark(Timestamp(turn as i64)));
        }
        let queued = ends[0].connection().stats().queued_bytes;
        assert!(queued <= limit, "{queued} of {limit} bytes queued in turn {turn}: {shape:?}");
        carry(&mut ends, shape.rate);
        for (c, queue) in &queues {
            assert!(queue.batches() <= shape.credit as usize, "{} batches in turn {turn}", queue.batches());
            while (*c > 0 || first == First::Flowing)
                && let Some(element) = queue.pop()
            {
                if let StreamElement::Batch(_) = element {
                    taken[*c as usize] += values(&element).len() as u64;
                }
            }
        }
        ends[1].run();
        ends[0].arrive(usize::MAX);
        ends[0].run();
    }
    if let (First::Blocked, (_, queue)) = (first, &queues[0]) {
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        // Its batches, and one watermark behind each.
        assert!(left.len() <= 2 * shape.credit as usize + 1, "{} elements for a reader that takes none", left.len());
    }
    taken.split_off(1)
}

#[test]
fn a_blocked_channel_leaves_its_neighbours_their_rate_and_memory_flat() {
    for seed in 0..16 {
        let shape = Shape::of(seed);
        let rows = |first| rows_of_neighbours(&shape, first);
        let (absent, blocked, flowing) = (rows(First::Absent), rows(First::Blocked), rows(First::Flowing));
        for (index, (blocked, absent)) in blocked.iter().zip(&absent).enumerate() {
            assert!(
                *absent > 0 && blocked * 100 >= absent * 95,
                "seed {seed}, neighbour {index}: {blocked} of {absent}"
            );
        }
        // One that takes its share leaves them less than one that stands still.
        assert!(flowing.iter().sum::<u64>() <= blocked.iter().sum(), "seed {seed}: {flowing:?}, {blocked:?}");
    }
}

#[test]
fn frames_arrive_in_any_pieces() {
    for seed in 0..20 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut ends, _ended) = started(random.random_range(1..3000));
        let queue = ends[1].connection().open_receiver(id(0), numbers(), 2).unwrap();
        let mut sender = ends[0].connection().open_sender(id(0)).unwrap();
        let (mut sent, mut found) = (0, Vec::new());
        while found.len() < 300 {
            match random.random_range(0..4) {
                0 if sender.credit() > 0 && sent < 300 => {
                    let rows = random.random_range(1..20).min(300 - sent);
                    sender.send(batch(sent..sent + rows));
                    sent += rows;
                }
                1 => found.extend(queue.pop().iter().flat_map(values)),
                2 => ends[random.random_range(0..2)].run(),
                _ => ends[random.random_range(0..2)].arrive(random.random_range(1..200)),
            }
        }
        assert!(found.into_iter().eq(0..300), "seed {seed}");
    }
}

#[test]
fn a_link_that_is_cut_ends_both_sides() {
    let (mut ends, ended) = started(1 << 20);
    let queue = ends[1].connection().open_receiver(id(0), numbers(), 9).unwrap();
    let mut sender = ends[0].connection().open_sender(id(0)).unwrap();
    settle(&mut ends);
    (0..9).for_each(|n| sender.send(batch(n..n + 1)));
    ends[0].run();
    // In the middle of the second batch.
    let length = ends[1].arriving() / 9;
    ends[1].arrive(length + length / 2);
    ends[1].run();
    ends[0].cut();
    settle(&mut ends);
    sender.send(StreamElement::EndOfInput);
    assert_eq!(queue.pop().iter().flat_map(values).collect::<Vec<_>>(), [0]);
    assert!(queue.pop().is_none());
    for (ended, expected) in
        ended.iter().zip(["the process at the other side has ended or was killed", "in the middle of a frame"])
    {
        let error = ended.recv().unwrap().unwrap_err();
        assert!(error.is_retryable() && error.message().contains(expected), "{error}");
    }
    assert!(ends.iter().all(MemoryEnd::is_over));
    assert_eq!(ends[0].connection().stats().queued_bytes, 0);
}

#[test]
fn a_link_closes_in_order() {
    let (mut ends, ended) = started(100);
    let queue = ends[1].connection().open_receiver(id(0), numbers(), 9).unwrap();
    let mut sender = ends[0].connection().open_sender(id(0)).unwrap();
    settle(&mut ends);
    (0..9).for_each(|n| sender.send(batch(n..n + 1)));
    ends[0].connection().close();
    settle(&mut ends);
    let found: Vec<_> = std::iter::from_fn(|| queue.pop()).flat_map(|element| values(&element)).collect();
    assert!(found.into_iter().eq(0..9));
    ended.iter().for_each(|ended| assert_eq!(ended.recv().unwrap(), Ok(())));
}
