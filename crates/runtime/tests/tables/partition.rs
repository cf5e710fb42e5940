//! Result partitions: where each selector sends rows, how batches are cut and collected, and barriers that overtake.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use flott_core::{BarrierMode, Batch, Error, KeyGroup, Partitioner, Result, StreamElement, Timestamp, hash_keys};
use flott_plan::{ChannelId, EdgeId};
use flott_runtime::channel::{ChannelQueue, ChannelSender, RemoteCredit, RemoteSender};
use flott_runtime::result_partition::{ChannelSelector, ResultPartition};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::gate::{barrier, element_text, rows, values};

/// A partition over so many channels, each with this credit.
struct Table {
    queues: Vec<Arc<ChannelQueue>>,
    partition: ResultPartition,
}

impl Table {
    fn new(selector: ChannelSelector, channels: u32, credit: u32, batch_rows: usize, may_overtake: bool) -> Self {
        let id = |to| ChannelId { edge: EdgeId(0), from: 0, to };
        let queues: Vec<_> = (0..channels).map(|to| ChannelQueue::new(id(to), credit)).collect();
        let senders = queues.iter().map(|queue| (queue.id(), ChannelSender::Local(Arc::clone(queue)))).collect();
        Self { queues, partition: ResultPartition::new(selector, senders, batch_rows, may_overtake) }
    }

    /// Takes everything that has arrived, by channel.
    fn arrived(&self) -> Vec<String> {
        let all = |queue: &Arc<ChannelQueue>| {
            std::iter::from_fn(|| queue.pop()).map(|element| element_text(&element)).collect::<Vec<_>>().join("; ")
        };
        self.queues.iter().map(all).collect()
    }

    /// Rows by channel after a flush, however they were cut.
    fn rows(&mut self) -> Vec<Vec<i64>> {
        let mut found = vec![Vec::new(); self.queues.len()];
        self.partition.flush().unwrap();
        loop {
            for (queue, found) in self.queues.iter().zip(&mut found) {
                while let Some(element) = queue.pop() {
                    if let StreamElement::Batch(batch) = element {
                        found.extend(values(&batch));
                    }
                }
            }
            if self.partition.drain() && self.queues.iter().all(|queue| queue.is_empty()) {
                return found;
            }
        }
    }
}

fn text(overtaken: &[(ChannelId, Vec<StreamElement>)]) -> String {
    let channel = |(id, elements): &(ChannelId, Vec<StreamElement>)| {
        format!("{}=[{}]", id.to, elements.iter().map(element_text).collect::<Vec<_>>().join(", "))
    };
    overtaken.iter().map(channel).collect::<Vec<_>>().join(" ")
}

#[test]
fn whole_batches_go_where_the_selector_says() {
    let round = |next| ChannelSelector::RoundRobin { next };
    let cases: [(&str, ChannelSelector, [&str; 3]); 6] = [
        ("forward", ChannelSelector::Forward, ["rows 1; rows 2 3; rows 4; rows 5", "", ""]),
        ("global", ChannelSelector::Global, ["rows 1; rows 2 3; rows 4; rows 5", "", ""]),
        ("broadcast", ChannelSelector::Broadcast, ["rows 1; rows 2 3; rows 4; rows 5"; 3]),
        ("in turn", round(0), ["rows 1; rows 5", "rows 2 3", "rows 4"]),
        ("in turn, from the second", round(1), ["rows 4", "rows 1; rows 5", "rows 2 3"]),
        ("in turn, from beyond the last", round(5), ["rows 2 3", "rows 4", "rows 1; rows 5"]),
    ];
    for (name, selector, expected) in cases {
        let mut table = Table::new(selector, 3, 10, 100, true);
        for values in [&[1][..], &[2, 3], &[4], &[5]] {
            table.partition.emit(&rows(values.iter().copied())).unwrap();
        }
        assert_eq!(table.arrived(), expected, "{name}");
    }
}

#[test]
fn elements_go_to_every_channel_behind_the_rows() {
    let mut table = Table::new(ChannelSelector::RoundRobin { next: 0 }, 2, 10, 100, true);
    table.partition.emit(&rows([1])).unwrap();
    table.partition.broadcast(&StreamElement::Watermark(Timestamp(5))).unwrap();
    table.partition.emit(&rows([2])).unwrap();
    table.partition.broadcast(&StreamElement::EndOfInput).unwrap();
    assert_eq!(table.arrived(), ["rows 1; watermark 5; end", "watermark 5; rows 2; end"]);
}

#[test]
fn hash_deals_rows_by_key_group() {
    let keys: Vec<i64> = (0..500).collect();
    for (channels, max_parallelism) in [(1, 128), (2, 128), (3, 128), (7, 7), (5, 32768)] {
        let selector = ChannelSelector::Hash { columns: vec![0], max_parallelism };
        let mut table = Table::new(selector, channels, 1000, 64, true);
        let batch = rows(keys.iter().copied());
        table.partition.emit(&batch).unwrap();
        let hashes = hash_keys(&[batch.column(0).clone()]).unwrap();
        let mut expected = vec![Vec::new(); channels as usize];
        for (key, &hash) in keys.iter().zip(hashes.iter()) {
            // Flink's formula, DESIGN §3: key group × parallelism / max parallelism.
            let task = u32::from(KeyGroup::of(hash, max_parallelism).0) * channels / max_parallelism;
            expected[task as usize].push(*key);
        }
        assert_eq!(table.rows(), expected, "{channels} of {max_parallelism}");
    }
}

#[test]
fn hashed_rows_carry_the_hash_of_their_key() {
    for channels in [1, 3] {
        let selector = ChannelSelector::Hash { columns: vec![0], max_parallelism: 128 };
        let mut table = Table::new(selector, channels, 1000, 8, true);
        table.partition.emit(&rows(0..100)).unwrap();
        table.partition.flush().unwrap();
        for element in table.queues.iter().flat_map(|queue| std::iter::from_fn(|| queue.pop())) {
            let StreamElement::Batch(batch) = element else { continue };
            let hashes = hash_keys(&[batch.column(0).clone()]).unwrap();
            assert_eq!(batch.key_hashes(), Some(&hashes));
        }
    }
}

#[test]
fn a_shuffle_repeats_itself_and_reaches_every_channel() {
    let run = |seed| {
        let mut table = Table::new(ChannelSelector::shuffle(seed), 3, 1000, 10, true);
        (0..200).for_each(|i| table.partition.emit(&rows([i])).unwrap());
        table.rows()
    };
    let (first, again, other) = (run(7), run(7), run(8));
    assert_eq!(first, again);
    assert_ne!(first, other);
    let mut all: Vec<i64> = first.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
    // 200 batches over 3 channels: none is near empty, whatever the generator.
    assert!(first.iter().all(|channel| channel.len() > 30), "{first:?}");
}

struct By(fn(&Batch, u32, &mut Vec<u32>) -> Result<()>);

impl Partitioner for By {
    fn partition(&mut self, batch: &Batch, tasks: u32, out: &mut Vec<u32>) -> Result<()> {
        (self.0)(batch, tasks, out)
    }
}

fn custom(by: fn(&Batch, u32, &mut Vec<u32>) -> Result<()>) -> ChannelSelector {
    ChannelSelector::Custom(Box::new(By(by)))
}

#[test]
fn a_partitioner_of_the_user_decides_by_row() {
    let by_value = |batch: &Batch, tasks: u32, out: &mut Vec<u32>| {
        out.extend(values(batch).iter().map(|value| *value as u32 % tasks));
        Ok(())
    };
    let mut table = Table::new(custom(by_value), 3, 10, 4, false);
    table.partition.emit(&rows(0..8)).unwrap();
    assert_eq!(table.rows(), [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
}

#[test]
fn a_partitioner_that_is_wrong_is_refused() {
    type Case = (fn(&Batch, u32, &mut Vec<u32>) -> Result<()>, u32, &'static str);
    let too_few = By(|_, _, out| {
        out.extend([0, 1]);
        Ok(())
    });
    let too_high = By(|_, tasks, out| {
        out.extend([0, tasks, 0]);
        Ok(())
    });
    let cases: [Case; 4] = [
        (too_few.0, 2, "a partitioner must name one task for each row"),
        (too_high.0, 2, "a partitioner named task 2 of 2"),
        (too_high.0, 1, "a partitioner named task 1 of 1"),
        (|_, _, _| Err(Error::user("no task for this row")), 2, "no task for this row"),
    ];
    for (by, channels, message) in cases {
        let mut table = Table::new(custom(by), channels, 10, 100, false);
        let error = table.partition.emit(&rows([1, 2, 3])).unwrap_err();
        assert_eq!((error.message(), error.domain()), (message, flott_core::ErrorDomain::User));
    }
}

#[test]
fn no_batch_has_more_rows_than_allowed() {
    let selectors: [fn() -> ChannelSelector; 4] = [
        || ChannelSelector::Forward,
        || ChannelSelector::RoundRobin { next: 0 },
        || ChannelSelector::Broadcast,
        || ChannelSelector::Hash { columns: vec![0], max_parallelism: 128 },
    ];
    for seed in 0..50 {
        let mut random = SmallRng::seed_from_u64(seed);
        let batch_rows = [1, 2, 7, 64][random.random_range(0..4)];
        let mut table =
            Table::new(selectors[random.random_range(0..4)](), random.random_range(1..5), 1000, batch_rows, true);
        for _ in 0..10 {
            let rows_of_batch = random.random_range(0..200);
            table.partition.emit(&rows(0..rows_of_batch)).unwrap();
        }
        table.partition.flush().unwrap();
        for element in table.queues.iter().flat_map(|queue| std::iter::from_fn(|| queue.pop())) {
            let StreamElement::Batch(batch) = element else { continue };
            assert!((1..=batch_rows).contains(&batch.num_rows()), "seed {seed}: {} rows", batch.num_rows());
        }
    }
}

#[test]
fn a_batch_too_large_is_cut_in_order() {
    let mut table = Table::new(ChannelSelector::RoundRobin { next: 0 }, 2, 10, 3, true);
    table.partition.emit(&rows(1..=8)).unwrap();
    assert_eq!(table.arrived(), ["rows 1 2 3; rows 7 8", "rows 4 5 6"]);
}

#[test]
fn small_shares_are_collected_until_they_are_worth_a_batch_or_are_flushed() {
    let odd = |batch: &Batch, _: u32, out: &mut Vec<u32>| {
        out.extend(values(batch).iter().map(|value| *value as u32 % 2));
        Ok(())
    };
    // Worth a batch is more than a quarter of the most rows: here more than 4.
    let mut table = Table::new(custom(odd), 2, 10, 16, false);
    table.partition.emit(&rows([1, 2, 3])).unwrap();
    table.partition.emit(&rows([4, 5])).unwrap();
    assert_eq!(table.arrived(), ["", ""]);
    table.partition.emit(&rows([7, 9, 10])).unwrap();
    assert_eq!(table.arrived(), ["", "rows 1 3 5 7 9"]);
    table.partition.flush().unwrap();
    assert_eq!(table.arrived(), ["rows 2 4 10", ""]);
    table.partition.emit(&rows([1, 2])).unwrap();
    table.partition.broadcast(&StreamElement::Watermark(Timestamp(5))).unwrap();
    assert_eq!(table.arrived(), ["rows 2; watermark 5", "rows 1; watermark 5"]);
}

#[test]
fn what_has_no_credit_waits_in_order() {
    let mut table = Table::new(ChannelSelector::Forward, 1, 2, 100, true);
    for i in 0..4 {
        table.partition.emit(&rows([i])).unwrap();
        table.partition.broadcast(&StreamElement::Watermark(Timestamp(i))).unwrap();
    }
    assert!(!table.partition.drain());
    // Two batches have credit; a watermark needs none, but stays behind its rows.
    assert_eq!(table.arrived(), ["rows 0; watermark 0; rows 1; watermark 1"]);
    assert!(table.partition.drain());
    assert_eq!(table.arrived(), ["rows 2; watermark 2; rows 3; watermark 3"]);
}

/// One row a channel on the way, and more that waits: `1 2 | 3 4` for channel 0, `5` for channel 1.
fn filled(may_overtake: bool) -> Table {
    let mut table = Table::new(ChannelSelector::RoundRobin { next: 0 }, 2, 1, 100, may_overtake);
    for i in 1..=5 {
        table.partition.emit(&rows([i])).unwrap();
    }
    table.partition.broadcast(&StreamElement::Watermark(Timestamp(9))).unwrap();
    table
}

#[test]
fn a_barrier_that_overtakes_leaves_first_and_gives_what_waited() {
    let mut table = filled(true);
    let overtaken = table.partition.barrier(barrier(1, BarrierMode::Unaligned)).unwrap();
    assert_eq!(text(&overtaken), "0=[rows 3, rows 5, watermark 9] 1=[rows 4, watermark 9]");
    assert!(!table.partition.holds_barrier(flott_core::CheckpointId(1)));
    assert_eq!(table.arrived(), ["rows 1; barrier 1 unaligned", "rows 2; barrier 1 unaligned"]);
    table.partition.drain();
    assert_eq!(table.arrived(), ["rows 3", "rows 4; watermark 9"]);
    table.partition.drain();
    assert_eq!(table.arrived(), ["rows 5; watermark 9", ""]);
}

#[test]
fn rows_not_yet_worth_a_batch_are_overtaken_too() {
    let selector = ChannelSelector::Hash { columns: vec![0], max_parallelism: 128 };
    let mut table = Table::new(selector, 2, 1, 1000, true);
    (0..4).for_each(|_| table.partition.emit(&rows(0..8)).unwrap());
    // The first batch of a channel has credit; here it is also the only one.
    let overtaken = table.partition.barrier(barrier(1, BarrierMode::Unaligned)).unwrap();
    assert_eq!(text(&overtaken), "");
    assert_eq!(table.rows().iter().map(Vec::len).sum::<usize>(), 32);
}

#[test]
fn other_barriers_wait_behind_the_rows() {
    for (mode, may_overtake) in
        [(BarrierMode::Aligned, true), (BarrierMode::AtLeastOnce, true), (BarrierMode::Unaligned, false)]
    {
        let mut table = filled(may_overtake);
        assert_eq!(text(&table.partition.barrier(barrier(1, mode)).unwrap()), "");
        assert!(table.partition.holds_barrier(flott_core::CheckpointId(1)));
        assert_eq!(table.arrived(), ["rows 1", "rows 2"], "{mode:?}");
        while !table.partition.drain() {
            assert!(!table.arrived()[0].contains("barrier"), "{mode:?}");
        }
        assert!(!table.partition.holds_barrier(flott_core::CheckpointId(1)));
    }
}

#[test]
fn a_barrier_told_to_overtake_leaves_and_gives_what_was_before_it() {
    let mut table = filled(true);
    assert_eq!(text(&table.partition.barrier(barrier(1, BarrierMode::Aligned)).unwrap()), "");
    table.partition.emit(&rows([6])).unwrap();
    let overtaken = table.partition.overtake(flott_core::CheckpointId(1));
    assert_eq!(text(&overtaken), "0=[rows 3, rows 5, watermark 9] 1=[rows 4, watermark 9]");
    assert_eq!(table.arrived(), ["rows 1; barrier 1 unaligned", "rows 2; barrier 1 unaligned"]);
    assert_eq!(table.rows(), [vec![3, 5], vec![4, 6]]);

    let mut table = filled(false);
    table.partition.barrier(barrier(1, BarrierMode::Aligned)).unwrap();
    assert_eq!(text(&table.partition.overtake(flott_core::CheckpointId(1))), "");
    assert!(table.partition.holds_barrier(flott_core::CheckpointId(1)));
}

#[test]
fn a_barrier_of_a_checkpoint_given_up_is_no_part_of_the_next_one() {
    let ways: [fn(&mut Table) -> String; 2] = [
        |table| text(&table.partition.barrier(barrier(2, BarrierMode::Unaligned)).unwrap()),
        |table| {
            table.partition.barrier(barrier(2, BarrierMode::Aligned)).unwrap();
            text(&table.partition.overtake(flott_core::CheckpointId(2)))
        },
    ];
    for way in ways {
        let mut table = filled(true);
        table.partition.barrier(barrier(1, BarrierMode::Aligned)).unwrap();
        table.partition.emit(&rows([6])).unwrap();
        assert_eq!(way(&mut table), "0=[rows 3, rows 5, watermark 9] 1=[rows 4, watermark 9, rows 6]");
    }
}

#[test]
fn credit_that_comes_while_rows_are_sent_is_used_or_wakes_the_task() {
    // Credit at first; how much comes with the first batch sent, which leaves more than none: that wakes nobody.
    for (credit, more) in [(1, 0), (2, 1), (2, 2), (3, 1), (4, 3)] {
        let (given, sent) = (Arc::new(RemoteCredit::default()), Arc::new(AtomicU32::new(0)));
        given.add(credit);
        let send = {
            let (given, sent) = (Arc::clone(&given), Arc::clone(&sent));
            move |_| {
                if sent.fetch_add(1, Ordering::SeqCst) == 0 {
                    given.add(more);
                }
            }
        };
        let waiting = Arc::new(AtomicU32::new(0));
        let announced = Arc::clone(&waiting);
        let announce = move |elements| announced.store(elements, Ordering::SeqCst);
        let sender = RemoteSender::new(Arc::clone(&given), send, announce);
        let id = ChannelId { edge: EdgeId(0), from: 0, to: 0 };
        let channels = vec![(id, ChannelSender::Remote(sender))];
        let mut partition = ResultPartition::new(ChannelSelector::Forward, channels, 1, true);
        // More rows than credit, at once: they wait, and then one look sends all there is credit for.
        partition.emit(&rows(0..10)).unwrap();
        partition.drain();
        assert_eq!(sent.load(Ordering::SeqCst), credit + more, "credit {credit}, {more} more");
        assert_eq!(partition.backlog()[0], (10 - (credit + more) as usize, 0));
        assert_eq!(waiting.load(Ordering::SeqCst), 10 - credit - more);
    }
}
