//! [`Index`]: from the hash of a (key, namespace) to its slot. An open-addressing table, made for batches: passes over
//! all rows look at one entry a row without branching, so that the processor overlaps the cache misses of many rows;
//! only rows not found by them take the careful way. With many keys a look-up costs what the memory costs: the entries
//! where a key is looked for first share a cache line.
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

    fn is_empty(self) -> bool {
        self.tag == NO_TAG
    }
}

/// Slots stay below `u32::MAX`.
const EMPTY: Entry = Entry { word: 0, tag: NO_TAG, slot: u32::MAX };

/// Entries of a group.
const WIDTH: usize = 4;

/// What fits in a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([Entry; WIDTH]);

impl Group {
    fn is_full(&self) -> bool {
        !self.0.iter().any(|entry| entry.is_empty())
    }

    /// Puts an entry where a search from `first` finds it soonest, if there is room.
    fn put(&mut self, first: usize, entry: Entry) -> bool {
        for at in first..first + WIDTH {
            let place = &mut self.0[at % WIDTH];
            if place.is_empty() {
                *place = entry;
                return true;
            }
        }
        false
    }
}

/// Of a new index.
const FIRST_GROUPS: usize = 4;

/// Entries that are looked at without branching: those of the first group and two of the next.
const PASSES: usize = WIDTH + 2;

/// An index of more groups does not fit in the processor's nearer caches.
const NEAR_GROUPS: usize = 1 << 16;

/// The group where the search begins, and the entry in it. Key hashes are good in their low bits whatever key groups a
/// task owns (the group comes from the middle bits), so the tag only has to be spread over them.
#[inline]
fn home(hash: u64, tag: u32, groups: usize) -> (usize, usize) {
    let low = (hash ^ u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as usize;
    ((low / WIDTH) & (groups - 1), low % WIDTH)
}

pub(crate) struct Index {
    /// A power of two of them. An entry is in its first group or, where that and all between are full, in a later one.
    /// At most half the entries are in use.
    groups: Vec<Group>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { groups: vec![Group([EMPTY; WIDTH]); FIRST_GROUPS], len: 0 }
    }

    pub(crate) fn num_bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }

    fn home(&self, hash: u64, tag: u32) -> (usize, usize) {
        home(hash, tag, self.groups.len())
    }

    fn after(&self, group: usize) -> usize {
        (group + 1) & (self.groups.len() - 1)
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
        let groups = self.groups.as_slice();
        if groups.len() > NEAR_GROUPS {
            // With nothing else to do, the processor overlaps as many misses as it can.
            self.touch(hashes.iter().enumerate().map(|(row, &hash)| (hash, tag(row))));
        }
        let mut misses = 0;
        for (row, ((&hash, &word), slot)) in hashes.iter().zip(words).zip(out.iter_mut()).enumerate() {
            let tag = tag(row);
            let (group, first) = home(hash, tag, groups.len());
            let entry = groups[group].0[first];
            *slot = Slot(entry.slot);
            missed[misses] = row as u32;
            misses += usize::from(entry.differs(word, tag));
        }
        for pass in 1..PASSES {
            let mut left = 0;
            for at in 0..misses {
                let row = missed[at] as usize;
                let tag = tag(row);
                let (group, first) = home(hashes[row], tag, groups.len());
                let group = (group + pass / WIDTH) & (groups.len() - 1);
                let entry = groups[group].0[(first + pass) % WIDTH];
                out[row] = Slot(entry.slot);
                missed[left] = row as u32;
                left += usize::from(entry.differs(words[row], tag));
            }
            misses = left;
        }
        missed.truncate(misses);
    }

    /// Reads the first group of some keys, all at once, so that it is near when each is looked for.
    #[inline]
    pub(crate) fn touch(&self, keys: impl Iterator<Item = (u64, u32)>) {
        let groups = self.groups.as_slice();
        let touched = keys.fold(0, |all, (hash, tag)| all ^ groups[home(hash, tag, groups.len()).0].0[0].slot);
        std::hint::black_box(touched);
    }

    /// The slot of an entry with this word and tag that is the `same` key.
    pub(crate) fn find(&self, hash: u64, word: u64, tag: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        let (mut at, _) = self.home(hash, tag);
        loop {
            let group = &self.groups[at];
            let found = group.0.iter().find(|entry| !entry.differs(word, tag) && same(entry.slot));
            if let Some(entry) = found {
                return Some(entry.slot);
            }
            if !group.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Adds an entry that is not there yet. `hash_of` gives the hash of an entry's word and tag.
    pub(crate) fn insert(&mut self, hash: u64, word: u64, tag: u32, slot: u32, hash_of: impl Fn(u64, u32) -> u64) {
        if self.len >= self.groups.len() * WIDTH / 2 {
            let larger = vec![Group([EMPTY; WIDTH]); self.groups.len() * 2];
            for group in std::mem::replace(&mut self.groups, larger) {
                for entry in group.0.into_iter().filter(|entry| !entry.is_empty()) {
                    self.place(hash_of(entry.word, entry.tag), entry);
                }
            }
        }
        self.place(hash, Entry { word, tag, slot });
        self.len += 1;
    }

    fn place(&mut self, hash: u64, entry: Entry) {
        let (mut at, first) = self.home(hash, entry.tag);
        while !self.groups[at].put(first, entry) {
            at = self.after(at);
        }
    }

    /// Removes the entry of a slot and closes the gap.
    pub(crate) fn remove(&mut self, word: u64, tag: u32, slot: u32, hash_of: impl Fn(u64, u32) -> u64) {
        let (mut at, _) = self.home(hash_of(word, tag), tag);
        loop {
            let group = &mut self.groups[at];
            if let Some(place) = group.0.iter().position(|entry| entry.slot == slot) {
                let was_full = group.is_full();
                group.0[place] = EMPTY;
                self.len -= 1;
                if was_full {
                    self.close(at, hash_of);
                }
                return;
            }
            if !group.is_full() {
                return;
            }
            at = self.after(at);
        }
    }

    /// Gives a group that is no longer full an entry that had to go on from it, and so on (Knuth, TAOCP 6.4, algorithm
    /// R, with groups for places).
    fn close(&mut self, mut gap: usize, hash_of: impl Fn(u64, u32) -> u64) {
        let groups = self.groups.len();
        let distance = |from: usize, to: usize| to.wrapping_sub(from) & (groups - 1);
        let mut at = self.after(gap);
        while at != gap {
            let was_full = self.groups[at].is_full();
            let home_of = |entry: Entry| home(hash_of(entry.word, entry.tag), entry.tag, groups);
            let went_on =
                |entry: &&mut Entry| !entry.is_empty() && distance(home_of(**entry).0, at) >= distance(gap, at);
            let moved = self.groups[at].0.iter_mut().find(went_on).map(|entry| std::mem::replace(entry, EMPTY));
            if let Some(entry) = moved {
                self.groups[gap].put(home_of(entry).1, entry);
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

    /// All keys begin at one of two places, both at the end of the table or one before it, so that searches wrap around
    /// and removing has to move entries back over the edge.
    #[test]
    fn crowded_entries_are_found_after_any_removal() {
        for apart in [1, 9, 40] {
            let hash_of = |word: u64, _tag: u32| u64::MAX - word % 2 * apart;
            for removed in 0..40 {
                let mut index = Index::new();
                for slot in 0..40 {
                    index.insert(hash_of(u64::from(slot), 0), u64::from(slot), 0, slot, hash_of);
                }
                index.remove(u64::from(removed), 0, removed, hash_of);
                index.remove(u64::from(removed), 0, removed, hash_of);
                for slot in 0..40 {
                    let found = index.find(hash_of(u64::from(slot), 0), u64::from(slot), 0, |_| true);
                    assert_eq!(found, (slot != removed).then_some(slot), "without {removed}, {apart} apart");
                }
                assert_eq!(index.len, 39);
            }
        }
    }

    /// A search that needs no care finds every key of an index that is not crowded.
    #[test]
    fn probing_finds_what_was_inserted() {
        let hash_of = |word: u64, _tag: u32| flott_core::key::fmix64(word);
        let mut index = Index::new();
        let words: Vec<u64> = (0..100_000).collect();
        let hashes: Vec<u64> = words.iter().map(|&word| hash_of(word, 0)).collect();
        for (slot, &word) in words.iter().enumerate() {
            index.insert(hash_of(word, 0), word, 0, slot as u32, hash_of);
        }
        let (mut slots, mut missed) = (Vec::new(), Vec::new());
        index.probe(&hashes, &words, |_| 0, &mut slots, &mut missed);
        assert!(missed.len() < 1000, "{} are left for the careful way", missed.len());
        let missed: std::collections::HashSet<u32> = missed.into_iter().collect();
        let found = slots.iter().zip(0..).filter(|(_, row)| !missed.contains(row));
        found.for_each(|(slot, row)| assert_eq!(slot.0, row));
    }
}
