//! [`Index`]: from the hash of a (key, namespace) to its slot. An open-addressing table of buckets, made for batches: a
//! pass over all rows looks at one bucket a row without branching, so that the processor overlaps the cache misses of
//! many rows; only rows not found by a pass take the careful way.
//!
//! With many keys a look-up costs what the memory costs. So a bucket is one cache line, and the table grows by half and
//! is filled to 13/16, so that little of it is empty.
//!
//! It knows no keys: an entry holds one word of the key (all of it, or its hash, see [`crate::table`]) and a tag
//! (namespace and NULL).

use flott_core::Slot;

/// Neither a namespace nor a NULL has this tag.
pub(crate) const NO_TAG: u32 = u32::MAX;

/// Entries of a bucket.
const WIDTH: usize = 4;

/// Buckets of a new index.
const FIRST_BUCKETS: usize = 4;

/// Buckets from a key's first that are looked at without branching.
const PASSES: usize = 2;

/// As many entries as fit in a cache line; those in use come first.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    words: [u64; WIDTH],
    tags: [u32; WIDTH],
    slots: [u32; WIDTH],
}

const EMPTY: Bucket = Bucket { words: [0; WIDTH], tags: [NO_TAG; WIDTH], slots: [0; WIDTH] };

impl Bucket {
    /// The slot of an entry with this word and tag, and whether there is one, without branching.
    #[inline]
    fn look(&self, word: u64, tag: u32) -> (u32, bool) {
        let (mut slot, mut found) = (0, false);
        for at in 0..WIDTH {
            let same = (self.words[at] ^ word) | u64::from(self.tags[at] ^ tag) == 0;
            slot = if same { self.slots[at] } else { slot };
            found |= same;
        }
        (slot, found)
    }

    fn len(&self) -> usize {
        self.tags.iter().take_while(|tag| **tag != NO_TAG).count()
    }

    fn is_full(&self) -> bool {
        self.tags[WIDTH - 1] != NO_TAG
    }

    fn push(&mut self, (word, tag, slot): (u64, u32, u32)) {
        let at = self.len();
        (self.words[at], self.tags[at], self.slots[at]) = (word, tag, slot);
    }

    /// Removes an entry; the last one takes its place.
    fn remove(&mut self, at: usize) {
        let last = self.len() - 1;
        (self.words[at], self.tags[at], self.slots[at]) = (self.words[last], self.tags[last], self.slots[last]);
        (self.words[last], self.tags[last], self.slots[last]) = (0, NO_TAG, 0);
    }

    /// (word, tag, slot) of the entries in use.
    fn entries(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        (0..self.len()).map(|at| (self.words[at], self.tags[at], self.slots[at]))
    }
}

/// Where the search begins among `buckets`. Key hashes are good in their low half whatever key groups a task owns (the
/// group comes from bits above), so the tag only has to be spread over it.
#[inline]
fn home(hash: u64, tag: u32, buckets: usize) -> usize {
    let spread = u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((((hash ^ spread) & 0xffff_ffff) * buckets as u64) >> 32) as usize
}

pub(crate) struct Index {
    /// An entry is in its home bucket, or, where that and all between are full, in a later one.
    buckets: Vec<Bucket>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![EMPTY; FIRST_BUCKETS], len: 0 }
    }

    pub(crate) fn num_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    fn home(&self, hash: u64, tag: u32) -> usize {
        home(hash, tag, self.buckets.len())
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Sets `out` to the slot of every row and `missed` to the rows whose slot is not known yet (theirs in `out` is
    /// meaningless).
    #[inline]
    pub(crate) fn probe(
        &self,
        hashes: &[u64],
        words: &[u64],
        tag: impl Fn(usize) -> u32,
        out: &mut Vec<Slot>,
        missed: &mut Vec<u32>,
    ) {
        let rows = hashes.len();
        out.clear();
        out.resize(rows, Slot(0));
        missed.resize(rows, 0);
        let buckets = self.buckets.as_slice();
        let mut misses = 0;
        for (row, ((&hash, &word), slot)) in hashes.iter().zip(words).zip(out.iter_mut()).enumerate() {
            let tag = tag(row);
            let (found_slot, found) = buckets[home(hash, tag, buckets.len())].look(word, tag);
            *slot = Slot(found_slot);
            missed[misses] = row as u32;
            misses += usize::from(!found);
        }
        for distance in 1..PASSES {
            let mut left = 0;
            for at in 0..misses {
                let row = missed[at] as usize;
                let tag = tag(row);
                let bucket = home(hashes[row], tag, buckets.len()) + distance;
                let bucket = if bucket < buckets.len() { bucket } else { bucket - buckets.len() };
                let (found_slot, found) = buckets[bucket].look(words[row], tag);
                out[row] = Slot(found_slot);
                missed[left] = row as u32;
                left += usize::from(!found);
            }
            misses = left;
        }
        missed.truncate(misses);
    }

    /// Reads the buckets of some keys, all at once, so that they are near when each is looked for.
    pub(crate) fn touch(&self, keys: impl Iterator<Item = (u64, u32)>) {
        let touched = keys.fold(0, |all, (hash, tag)| all ^ self.buckets[self.home(hash, tag)].slots[0]);
        std::hint::black_box(touched);
    }

    /// The slot of an entry with this word and tag that is the `same` key.
    pub(crate) fn find(&self, hash: u64, word: u64, tag: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash, tag);
        loop {
            let bucket = &self.buckets[at];
            let mut found = bucket.entries().filter(|entry| (entry.0, entry.1) == (word, tag));
            if let Some((.., slot)) = found.find(|(.., slot)| same(*slot)) {
                return Some(slot);
            }
            if !bucket.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Adds an entry that is not there yet. `hash_of` gives the hash of an entry's word and tag.
    pub(crate) fn insert(&mut self, hash: u64, word: u64, tag: u32, slot: u32, hash_of: impl Fn(u64, u32) -> u64) {
        if self.len >= self.buckets.len() * WIDTH * 13 / 16 {
            let larger = vec![EMPTY; self.buckets.len() + self.buckets.len() / 2];
            for bucket in std::mem::replace(&mut self.buckets, larger) {
                bucket.entries().for_each(|entry| self.place(hash_of(entry.0, entry.1), entry));
            }
        }
        self.place(hash, (word, tag, slot));
        self.len += 1;
    }

    fn place(&mut self, hash: u64, entry: (u64, u32, u32)) {
        let mut at = self.home(hash, entry.1);
        while self.buckets[at].is_full() {
            at = self.after(at);
        }
        self.buckets[at].push(entry);
    }

    /// Removes the entry of a slot and closes the gap (Knuth, TAOCP 6.4, algorithm R, with buckets): a bucket that is no
    /// longer full gets back an entry that did not fit into it.
    pub(crate) fn remove(&mut self, word: u64, tag: u32, slot: u32, hash_of: impl Fn(u64, u32) -> u64) {
        let mut gap = self.home(hash_of(word, tag), tag);
        loop {
            let found = self.buckets[gap].entries().position(|entry| entry == (word, tag, slot));
            let was_full = self.buckets[gap].is_full();
            if let Some(at) = found {
                self.buckets[gap].remove(at);
                self.len -= 1;
                if was_full {
                    self.close(gap, hash_of);
                }
                return;
            }
            if !was_full {
                return;
            }
            gap = self.after(gap);
        }
    }

    /// `gap` was full and is not any more.
    fn close(&mut self, mut gap: usize, hash_of: impl Fn(u64, u32) -> u64) {
        let buckets = self.buckets.len();
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + buckets - from };
        let mut at = self.after(gap);
        while at != gap {
            let bucket = &self.buckets[at];
            let was_full = bucket.is_full();
            let movable = |entry: (u64, u32, u32)| {
                distance(home(hash_of(entry.0, entry.1), entry.1, buckets), at) >= distance(gap, at)
            };
            if let Some((which, entry)) = bucket.entries().enumerate().find(|(_, entry)| movable(*entry)) {
                self.buckets[at].remove(which);
                self.buckets[gap].push(entry);
                gap = at;
            }
            if !was_full {
                return;
            }
            at = self.after(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys begin at one of two places at the end of the table, so that probing wraps around and removing has
    /// to move entries back over the edge.
    #[test]
    fn crowded_entries_are_found_after_any_removal() {
        let hash_of = |word: u64, _tag: u32| u64::MAX - word % 2;
        for removed in 0..40 {
            let mut index = Index::new();
            for slot in 0..40 {
                index.insert(hash_of(u64::from(slot), 0), u64::from(slot), 0, slot, hash_of);
            }
            index.remove(u64::from(removed), 0, removed, hash_of);
            index.remove(u64::from(removed), 0, removed, hash_of);
            for slot in 0..40 {
                let found = index.find(hash_of(u64::from(slot), 0), u64::from(slot), 0, |_| true);
                assert_eq!(found, (slot != removed).then_some(slot), "without {removed}");
            }
            assert_eq!(index.len, 39);
        }
    }
}
