//! [`Index`]: from the hash of a (key, namespace) to its slot. An open-addressing table with linear probing, made
//! for batches: passes over all rows look at one entry a row without branching, so that the processor overlaps the
//! cache misses of many rows; only rows not found by them take the careful way.
//!
//! It knows no keys: an entry holds one word of the key (all of it, or its hash, see [`crate::table`]) and a tag
//! (namespace and NULL).

use flott_core::Slot;

/// Neither a namespace nor a NULL has this tag.
pub(crate) const NO_TAG: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    word: u64,
    tag: u32,
    slot: u32,
}

impl Entry {
    /// Both comparisons in one, without a branch.
    #[inline]
    fn differs(self, word: u64, tag: u32) -> bool {
        (self.word ^ word) | u64::from(self.tag ^ tag) != 0
    }
}

const EMPTY: Entry = Entry { word: 0, tag: NO_TAG, slot: 0 };

/// Entries of a key's chain that are looked at without branching; few chains are longer at half load.
const PASSES: usize = 4;

/// Where the search begins. Key hashes are good in their low bits whatever key groups a task owns (the group comes
/// from the middle bits), so the tag only has to be spread over them.
#[inline]
fn home(hash: u64, tag: u32) -> usize {
    (hash ^ u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as usize
}

pub(crate) struct Index {
    /// A power of two of them, at most half full.
    entries: Vec<Entry>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { entries: vec![EMPTY; 16], len: 0 }
    }

    pub(crate) fn num_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    fn mask(&self) -> usize {
        self.entries.len() - 1
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
        let entries = self.entries.as_slice();
        let mask = self.mask();
        let mut misses = 0;
        for (row, ((&hash, &word), slot)) in hashes.iter().zip(words).zip(out.iter_mut()).enumerate() {
            let tag = tag(row);
            let entry = entries[home(hash, tag) & mask];
            *slot = Slot(entry.slot);
            missed[misses] = row as u32;
            misses += usize::from(entry.differs(word, tag));
        }
        // Most of the others are in the next entries, which share the cache line.
        for distance in 1..PASSES {
            let mut left = 0;
            for at in 0..misses {
                let row = missed[at] as usize;
                let tag = tag(row);
                let entry = entries[(home(hashes[row], tag) + distance) & mask];
                out[row] = Slot(entry.slot);
                missed[left] = row as u32;
                left += usize::from(entry.differs(words[row], tag));
            }
            misses = left;
        }
        missed.truncate(misses);
    }

    /// Reads the entries of some keys, all at once, so that they are near when each is looked for.
    pub(crate) fn touch(&self, keys: impl Iterator<Item = (u64, u32)>) {
        let touched = keys.fold(0, |all, (hash, tag)| all ^ self.entries[home(hash, tag) & self.mask()].slot);
        std::hint::black_box(touched);
    }

    /// The slot of an entry with this word and tag that is the `same` key.
    pub(crate) fn find(&self, hash: u64, word: u64, tag: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = home(hash, tag) & self.mask();
        loop {
            let entry = self.entries[at];
            if entry.tag == NO_TAG {
                return None;
            }
            if entry.word == word && entry.tag == tag && same(entry.slot) {
                return Some(entry.slot);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Adds an entry that is not there yet. `hash_of` gives the hash of an entry's word and tag.
    pub(crate) fn insert(&mut self, hash: u64, word: u64, tag: u32, slot: u32, hash_of: impl Fn(u64, u32) -> u64) {
        if (self.len + 1) * 2 > self.entries.len() {
            let larger = vec![EMPTY; self.entries.len() * 2];
            for entry in std::mem::replace(&mut self.entries, larger) {
                if entry.tag != NO_TAG {
                    self.place(hash_of(entry.word, entry.tag), entry);
                }
            }
        }
        self.place(hash, Entry { word, tag, slot });
        self.len += 1;
    }

    fn place(&mut self, hash: u64, entry: Entry) {
        let mut at = home(hash, entry.tag) & self.mask();
        while self.entries[at].tag != NO_TAG {
            at = (at + 1) & self.mask();
        }
        self.entries[at] = entry;
    }

    /// Removes the entry of a slot and closes the gap (Knuth, TAOCP 6.4, algorithm R).
    pub(crate) fn remove(&mut self, word: u64, tag: u32, slot: u32, hash_of: impl Fn(u64, u32) -> u64) {
        let mask = self.mask();
        let mut hole = home(hash_of(word, tag), tag) & mask;
        while self.entries[hole].slot != slot || self.entries[hole].tag == NO_TAG {
            if self.entries[hole].tag == NO_TAG {
                return;
            }
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.tag == NO_TAG {
                break;
            }
            let from_home = at.wrapping_sub(home(hash_of(entry.word, entry.tag), entry.tag)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = EMPTY;
        self.len -= 1;
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
