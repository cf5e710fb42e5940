//! The sending side of an edge in one task: [`ResultPartition`] deals rows to channels as its selector says, keeps
//! what has no credit yet, and lets barriers overtake it.

use std::collections::VecDeque;
use std::task::Waker;

use arrow_array::{ArrayRef, UInt32Array};
use flott_core::{
    BarrierMode, Batch, CheckpointBarrier, CheckpointId, Error, KeyGroup, Partitioner, Result, StreamElement, hash_keys,
};
use flott_plan::ChannelId;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::channel::{ChannelSender, append};

/// How rows find a channel.
pub enum ChannelSelector {
    /// The only channel, or the same of several.
    Forward,
    /// By key group: the key's columns and max parallelism.
    Hash {
        /// Columns of the key.
        columns: Vec<usize>,
        /// Of the reader.
        max_parallelism: u32,
    },
    /// Batch by batch in turn (rebalance, rescale).
    RoundRobin {
        /// The channel of the next batch.
        next: usize,
    },
    /// To all.
    Broadcast,
    /// Batch by batch at random, from a seed.
    Shuffle(SmallRng),
    /// To the first.
    Global,
    /// As the user says.
    Custom(Box<dyn Partitioner>),
}

impl ChannelSelector {
    /// A shuffle that repeats itself with the same seed.
    pub fn shuffle(seed: u64) -> Self {
        Self::Shuffle(SmallRng::seed_from_u64(seed))
    }
}

/// A channel with what waits in front of it.
struct Outlet {
    id: ChannelId,
    sender: ChannelSender,
    /// Rows too few to be worth a batch yet, until the next flush.
    parts: Vec<Batch>,
    part_rows: usize,
    /// Without credit yet.
    waiting: VecDeque<StreamElement>,
    indices: Vec<u32>,
}

impl Outlet {
    fn close_parts(&mut self) -> Result<()> {
        if self.part_rows > 0 {
            let batch = Batch::concat(&self.parts)?;
            self.parts.clear();
            self.part_rows = 0;
            self.waiting.push_back(StreamElement::Batch(batch));
        }
        Ok(())
    }

    /// Where this checkpoint's barrier waits.
    fn barrier(&self, checkpoint: CheckpointId) -> Option<usize> {
        self.waiting.iter().position(|element| matches!(element, StreamElement::Barrier(b) if b.id == checkpoint))
    }

    /// What the first `count` elements that wait are to a snapshot; a barrier among them is of a checkpoint given up.
    fn overtaken(&self, count: usize) -> Vec<StreamElement> {
        let ahead = self.waiting.iter().take(count);
        ahead.filter(|element| !matches!(element, StreamElement::Barrier(_))).cloned().collect()
    }

    /// Sends what there is credit for. Stops only where the channel has just said that there is none: the next credit
    /// then wakes the task. (Counting down a number read before would miss credit that came meanwhile: it wakes nobody,
    /// since there was some.)
    fn drain(&mut self) {
        let mut credit = 0;
        while let Some(element) = self.waiting.front() {
            if matches!(element, StreamElement::Batch(_)) {
                if credit == 0 {
                    credit = self.sender.credit();
                }
                if credit == 0 {
                    break;
                }
                credit -= 1;
            }
            if let Some(element) = self.waiting.pop_front() {
                self.sender.send(element);
            }
        }
        self.sender.announce_backlog(self.waiting.len());
    }
}

/// The sending side of an edge in one task.
pub struct ResultPartition {
    selector: ChannelSelector,
    outlets: Vec<Outlet>,
    batch_rows: usize,
    may_overtake: bool,
    targets: Vec<u32>,
}

impl ResultPartition {
    /// A partition over `channels`, in the order of the receiving tasks. No batch sent has more than `batch_rows` rows.
    pub fn new(
        selector: ChannelSelector,
        channels: Vec<(ChannelId, ChannelSender)>,
        batch_rows: usize,
        may_overtake: bool,
    ) -> Self {
        let outlets = channels
            .into_iter()
            .map(|(id, sender)| Outlet {
                id,
                sender,
                parts: Vec::new(),
                part_rows: 0,
                waiting: VecDeque::new(),
                indices: Vec::new(),
            })
            .collect();
        Self { selector, outlets, batch_rows: batch_rows.max(1), may_overtake, targets: Vec::new() }
    }

    /// Wakes the sending task from now on when credit returns.
    pub fn set_waker(&self, waker: &Waker) {
        for outlet in &self.outlets {
            outlet.sender.set_waker(waker);
        }
    }

    /// Takes a batch of any size. Never blocks; what has no credit waits here.
    pub fn emit(&mut self, batch: &Batch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = (batch.num_rows() - from).min(self.batch_rows);
            self.emit_one(if rows == batch.num_rows() { batch.clone() } else { batch.slice(from, rows) })?;
            from += rows;
        }
        Ok(())
    }

    fn emit_one(&mut self, batch: Batch) -> Result<()> {
        let channels = self.outlets.len();
        match &mut self.selector {
            ChannelSelector::Forward | ChannelSelector::Global => self.pass(0, batch),
            ChannelSelector::RoundRobin { next } => {
                let to = *next % channels;
                *next = to + 1;
                self.pass(to, batch);
            }
            ChannelSelector::Shuffle(random) => {
                let to = random.random_range(0..channels);
                self.pass(to, batch);
            }
            ChannelSelector::Broadcast => (0..channels).for_each(|to| self.pass(to, batch.clone())),
            ChannelSelector::Hash { columns, max_parallelism } => {
                let key: Vec<ArrayRef> = columns.iter().map(|&c| batch.column(c).clone()).collect();
                let hashes = hash_keys(&key)?;
                let max = *max_parallelism;
                if channels > 1 {
                    self.targets.clear();
                    let tasks = channels as u32;
                    self.targets.extend(hashes.iter().map(|&hash| KeyGroup::of(hash, max).task(tasks, max)));
                }
                self.deal(batch.with_key_hashes(Some(hashes)))?;
            }
            ChannelSelector::Custom(partitioner) => {
                self.targets.clear();
                partitioner.partition(&batch, channels as u32, &mut self.targets)?;
                if self.targets.len() != batch.num_rows() {
                    return Err(Error::user("a partitioner must name one task for each row"));
                }
                if let Some(wrong) = self.targets.iter().find(|&&to| to as usize >= channels) {
                    return Err(Error::user(format!("a partitioner named task {wrong} of {channels}")));
                }
                self.deal(batch)?;
            }
        }
        Ok(())
    }

    /// A whole batch for one channel.
    fn pass(&mut self, to: usize, batch: Batch) {
        self.outlets[to].waiting.push_back(StreamElement::Batch(batch));
        self.outlets[to].drain();
    }

    /// Deals rows as `targets` says. Small shares are collected until they are worth a batch or are flushed.
    fn deal(&mut self, batch: Batch) -> Result<()> {
        if self.outlets.len() == 1 {
            self.pass(0, batch);
            return Ok(());
        }
        for (row, &to) in self.targets.iter().enumerate() {
            self.outlets[to as usize].indices.push(row as u32);
        }
        let enough = self.batch_rows / 4;
        for outlet in &mut self.outlets {
            if outlet.indices.is_empty() {
                continue;
            }
            let rows = outlet.indices.len();
            let part = if rows == batch.num_rows() {
                outlet.indices.clear();
                batch.clone()
            } else {
                let indices = UInt32Array::from(std::mem::take(&mut outlet.indices));
                let part = batch.take(&indices)?;
                // The vector of indices is used again.
                outlet.indices = indices.into_parts().1.into_inner().into_vec().unwrap_or_default();
                outlet.indices.clear();
                part
            };
            if outlet.part_rows + rows > self.batch_rows {
                outlet.close_parts()?;
            }
            outlet.parts.push(part);
            outlet.part_rows += rows;
            if outlet.part_rows > enough {
                outlet.close_parts()?;
            }
            outlet.drain();
        }
        Ok(())
    }

    /// Sends to every channel, behind the rows so far: watermarks, idleness, the end.
    pub fn broadcast(&mut self, element: &StreamElement) -> Result<()> {
        for outlet in &mut self.outlets {
            outlet.close_parts()?;
            append(&mut outlet.waiting, element.clone());
            outlet.drain();
        }
        Ok(())
    }

    /// Sends a barrier to every channel. Where it overtakes rows, they are returned by channel: part of the snapshot.
    pub fn barrier(&mut self, barrier: CheckpointBarrier) -> Result<Vec<(ChannelId, Vec<StreamElement>)>> {
        if barrier.mode != BarrierMode::Unaligned || !self.may_overtake {
            self.broadcast(&StreamElement::Barrier(barrier))?;
            return Ok(Vec::new());
        }
        let mut overtaken = Vec::new();
        for outlet in &mut self.outlets {
            outlet.close_parts()?;
            outlet.drain();
            if !outlet.waiting.is_empty() {
                overtaken.push((outlet.id, outlet.overtaken(outlet.waiting.len())));
            }
            outlet.sender.send(StreamElement::Barrier(barrier));
        }
        Ok(overtaken)
    }

    /// Whether this checkpoint's barrier waits here behind rows.
    pub fn holds_barrier(&self, checkpoint: CheckpointId) -> bool {
        self.outlets.iter().any(|outlet| outlet.barrier(checkpoint).is_some())
    }

    /// Sends a barrier that waits here ahead of the rows before it, where the edge allows it; these are returned by
    /// channel: part of the snapshot.
    pub fn overtake(&mut self, checkpoint: CheckpointId) -> Vec<(ChannelId, Vec<StreamElement>)> {
        let mut overtaken = Vec::new();
        for outlet in self.outlets.iter_mut().filter(|_| self.may_overtake) {
            let Some(at) = outlet.barrier(checkpoint) else { continue };
            if let Some(StreamElement::Barrier(barrier)) = outlet.waiting.remove(at) {
                overtaken.push((outlet.id, outlet.overtaken(at)));
                let barrier = CheckpointBarrier { mode: BarrierMode::Unaligned, ..barrier };
                outlet.sender.send(StreamElement::Barrier(barrier));
            }
        }
        overtaken
    }

    /// Elements that wait for credit, and the credit there is, by channel.
    pub fn backlog(&self) -> Vec<(usize, u32)> {
        self.outlets.iter().map(|outlet| (outlet.waiting.len(), outlet.sender.credit())).collect()
    }

    /// Sends what is collected, however little: the task is about to wait.
    pub fn flush(&mut self) -> Result<()> {
        for outlet in &mut self.outlets {
            outlet.close_parts()?;
            outlet.drain();
        }
        Ok(())
    }

    /// Sends what has got credit since. Whether nothing waits any more.
    pub fn drain(&mut self) -> bool {
        for outlet in &mut self.outlets {
            outlet.drain();
        }
        self.outlets.iter().all(|outlet| outlet.waiting.is_empty())
    }
}
