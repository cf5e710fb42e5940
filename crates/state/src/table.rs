//! [`Table`]: the rows of one table of an operator: which (key, namespace) has which slot, and the columns.
//!
//! A key that is one word ([`flott_core::key::key_words`]) is compared as that word; any other key as its canonical
//! bytes, found by its hash as the word. NULL and namespace make up the tag of a slot.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use flott_core::key::{hash_of_word, is_one_word_key, key_words};
use flott_core::state::{Keys, StateColumn};
use flott_core::{Error, KeyCodec, Namespace, Namespaces, Result, Slot};

use crate::index::{Index, NO_TAG};
use crate::namespaces::NamespaceTable;

/// The bit of a tag that says the (one-word) key is NULL.
const NULL: u32 = 1 << 31;

/// A state of a table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) state: Box<dyn StateColumn>,
}

/// What tells keys apart beside their word, by slot.
enum KeyStore {
    /// Nothing.
    Words,
    Bytes(Vec<Box<[u8]>>),
}

impl KeyStore {
    /// The key's hash from its word and tag: cheaper than to keep it, for that would be one more miss of the cache.
    #[inline]
    fn hash(&self, word: u64, tag: u32) -> u64 {
        match self {
            Self::Words => hash_of_word(word, tag & NULL != 0),
            Self::Bytes(_) => word,
        }
    }
}

/// Memory that a call leaves to the next.
#[derive(Default)]
struct Scratch {
    tags: Vec<u32>,
    missed: Vec<u32>,
    offsets: Vec<usize>,
    bytes: Vec<u8>,
    emptied: Vec<Slot>,
}

pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    codec: KeyCodec,
    index: Index,
    namespaces: NamespaceTable,
    keys: KeyStore,
    /// The one-word key, or the hash of any other, by slot.
    words: Vec<u64>,
    /// Number of the namespace and NULL, by slot; `NO_TAG` for a free slot.
    tags: Vec<u32>,
    free: Vec<u32>,
    /// Slots to look at when the call is over: new ones, and those whose emptying nobody reported.
    suspects: Vec<Slot>,
    key_bytes: usize,
    scratch: Scratch,
}

impl Table {
    pub(crate) fn new(name: &str, namespaced: bool, codec: KeyCodec) -> Self {
        let keys = if is_one_word_key(codec.types()) { KeyStore::Words } else { KeyStore::Bytes(Vec::new()) };
        Self {
            name: name.to_owned(),
            columns: Vec::new(),
            codec,
            index: Index::new(),
            namespaces: NamespaceTable::new(namespaced),
            keys,
            words: Vec::new(),
            tags: Vec::new(),
            free: Vec::new(),
            suspects: Vec::new(),
            key_bytes: 0,
            scratch: Scratch::default(),
        }
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.namespaces.is_listed()
    }

    /// Slots there have ever been.
    pub(crate) fn num_slots(&self) -> usize {
        self.tags.len()
    }

    pub(crate) fn hash_of(&self, slot: Slot) -> u64 {
        self.keys.hash(self.words[slot.index()], self.tags[slot.index()])
    }

    pub(crate) fn namespace_of(&self, slot: Slot) -> Namespace {
        self.namespaces.namespace(self.tags[slot.index()] & !NULL)
    }

    /// Index and keys, and two words a slot and column; what values hold on the heap is not known.
    pub(crate) fn num_bytes(&self) -> usize {
        self.index.num_bytes()
            + self.namespaces.num_bytes()
            + self.key_bytes
            + self.num_slots() * (8 + 4 + 8 + 16 * self.columns.len())
    }

    /// See `KeyedState::locate`.
    pub(crate) fn locate(&mut self, keys: &Keys, namespaces: Namespaces<'_>, out: &mut Vec<Slot>) -> Result<()> {
        out.clear();
        let rows = keys.hashes.len();
        check_rows(keys, &namespaces, self.codec.types())?;
        if rows == 0 {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let located = self.locate_rows(keys, namespaces, out, &mut scratch);
        self.scratch = scratch;
        located?;
        self.grow_columns();
        Ok(())
    }

    fn locate_rows(
        &mut self,
        keys: &Keys,
        namespaces: Namespaces<'_>,
        out: &mut Vec<Slot>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let hashes = &*keys.hashes;
        scratch.tags.clear();
        let all = match namespaces {
            Namespaces::All(namespace) => Some(self.namespaces.number(namespace)?),
            Namespaces::Each(each) => {
                self.namespaces.numbers(each, &mut scratch.tags)?;
                None
            }
        };
        let words: ScalarBuffer<u64> = match &self.keys {
            KeyStore::Bytes(_) => {
                self.codec.encode_all(&keys.columns, &mut scratch.offsets, &mut scratch.bytes)?;
                keys.hashes.clone()
            }
            KeyStore::Words => {
                let nulls = keys.columns[0].logical_nulls().filter(|nulls| nulls.null_count() > 0);
                if let Some(nulls) = nulls {
                    if let Some(all) = all {
                        scratch.tags.resize(hashes.len(), all);
                    }
                    scratch.tags.iter_mut().zip(nulls.iter()).for_each(|(tag, valid)| *tag |= NULL * u32::from(!valid));
                }
                key_words(&keys.columns).ok_or_else(|| Error::internal("a one-word key has no words"))?
            }
        };
        let tags = scratch.tags.as_slice();
        match all {
            Some(tag) if tags.is_empty() => {
                self.index.probe(hashes, &words, |_| tag, out, &mut scratch.missed);
            }
            _ => self.index.probe(hashes, &words, |row| tags[row], out, &mut scratch.missed),
        }
        let tag_of = |row: usize| tags.get(row).copied().or(all).unwrap_or(NO_TAG);
        match &self.keys {
            KeyStore::Words => {
                for &row in &scratch.missed {
                    let row = row as usize;
                    out[row] = Slot(self.find_or_make(hashes[row], words[row], tag_of(row), &[])?);
                }
            }
            KeyStore::Bytes(_) => {
                let key_of = |row: usize| &scratch.bytes[scratch.offsets[row]..scratch.offsets[row + 1]];
                let mut missed = scratch.missed.iter().peekable();
                for (row, slot) in out.iter_mut().enumerate() {
                    let is_missed = missed.next_if(|missed| **missed as usize == row).is_some();
                    // Two keys may have one hash: only the bytes decide.
                    if is_missed || !self.has_key(slot.0, key_of(row)) {
                        *slot = Slot(self.find_or_make(hashes[row], words[row], tag_of(row), key_of(row))?);
                    }
                }
            }
        }
        Ok(())
    }

    fn has_key(&self, slot: u32, key: &[u8]) -> bool {
        match &self.keys {
            KeyStore::Words => true,
            KeyStore::Bytes(keys) => &*keys[slot as usize] == key,
        }
    }

    /// `key` is the canonical bytes; of a one-word key, nothing.
    fn find_or_make(&mut self, hash: u64, word: u64, tag: u32, key: &[u8]) -> Result<u32> {
        if let Some(slot) = self.index.find(hash, word, tag, |slot| self.has_key(slot, key)) {
            return Ok(slot);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.tags.len()).ok().filter(|slot| *slot < NO_TAG);
                let full = || Error::user("more than 2^32 keys in one task; raise the parallelism");
                let slot = slot.ok_or_else(|| full().at("table", &self.name))?;
                self.words.push(0);
                self.tags.push(NO_TAG);
                if let KeyStore::Bytes(keys) = &mut self.keys {
                    keys.push(Box::default());
                }
                slot
            }
        };
        let at = slot as usize;
        let keys = &self.keys;
        self.index.insert(hash, word, tag, slot, |word, tag| keys.hash(word, tag));
        self.words[at] = word;
        self.tags[at] = tag;
        if let KeyStore::Bytes(keys) = &mut self.keys {
            keys[at] = key.into();
        }
        self.key_bytes += key.len();
        self.namespaces.link(slot, tag & !NULL);
        self.suspects.push(Slot(slot));
        Ok(slot)
    }

    /// The slot in this table of the key that `other` (or, where there is none, this table) has under `of`.
    pub(crate) fn locate_beside(&mut self, other: Option<&Self>, of: Slot, namespace: Namespace) -> Result<Slot> {
        let source = other.unwrap_or(self);
        let (hash, null) = (source.hash_of(of), source.tags[of.index()] & NULL);
        let word = source.words[of.index()];
        let key = match &source.keys {
            KeyStore::Words => Box::default(),
            KeyStore::Bytes(keys) => keys[of.index()].clone(),
        };
        let tag = self.namespaces.number(namespace)? | null;
        let slot = self.find_or_make(hash, word, tag, &key)?;
        self.grow_columns();
        Ok(Slot(slot))
    }

    fn grow_columns(&mut self) {
        let slots = self.num_slots();
        self.columns.iter_mut().for_each(|column| column.state.grow(slots));
    }

    /// Adds a column with room for every slot.
    pub(crate) fn add_column(&mut self, name: &str, mut state: Box<dyn StateColumn>) {
        state.grow(self.num_slots());
        self.columns.push(Column { name: name.to_owned(), state });
    }

    fn is_free(&self, slot: Slot) -> bool {
        self.tags[slot.index()] == NO_TAG
    }

    /// Whether a slot holds something.
    fn is_filled(&self, slot: Slot) -> bool {
        !self.is_free(slot) && self.columns.iter().any(|column| !column.state.is_empty(slot))
    }

    /// Every slot in use, whether it holds something or not.
    pub(crate) fn used_slots(&self) -> Vec<Slot> {
        (0..self.num_slots() as u32).map(Slot).filter(|slot| !self.is_free(*slot)).collect()
    }

    pub(crate) fn namespaces(&self) -> Vec<Namespace> {
        if self.is_namespaced() {
            let all = self.namespaces.sorted().into_iter().map(|(namespace, _)| namespace);
            all.filter(|namespace| self.namespaces.slots(*namespace).any(|slot| self.is_filled(Slot(slot)))).collect()
        } else {
            let any = (0..self.num_slots() as u32).any(|slot| self.is_filled(Slot(slot)));
            if any { vec![Namespace::VOID] } else { Vec::new() }
        }
    }

    pub(crate) fn slots_of(&self, namespace: Namespace, limit: usize) -> Vec<Slot> {
        let filled = |slot: &Slot| self.is_filled(*slot);
        if self.is_namespaced() {
            self.namespaces.slots(namespace).map(Slot).filter(filled).take(limit).collect()
        } else if namespace == Namespace::VOID {
            (0..self.num_slots() as u32).map(Slot).filter(filled).take(limit).collect()
        } else {
            Vec::new()
        }
    }

    pub(crate) fn keys_of(&self, slots: &[Slot]) -> Result<Vec<ArrayRef>> {
        match &self.keys {
            KeyStore::Words => {
                let words: Vec<u64> = slots.iter().map(|slot| self.words[slot.index()]).collect();
                let valid: NullBuffer = slots.iter().map(|slot| self.tags[slot.index()] & NULL == 0).collect();
                self.codec.columns_of_words(&words, Some(valid).filter(|valid| valid.null_count() > 0))
            }
            KeyStore::Bytes(keys) => self.codec.decode(slots.iter().map(|slot| &*keys[slot.index()])),
        }
    }

    pub(crate) fn clear(&mut self, slots: &[Slot]) {
        for column in &mut self.columns {
            slots.iter().for_each(|slot| column.state.clear(*slot));
        }
    }

    pub(crate) fn merge(&mut self, into: Slot, from: &[Slot]) -> Result<()> {
        for column in &mut self.columns {
            for from in from.iter().filter(|from| **from != into) {
                column.state.merge(into, *from).map_err(|e| e.at("state", &column.name).at("table", &self.name))?;
            }
        }
        Ok(())
    }

    /// Has the slots looked at when the next call ends.
    pub(crate) fn suspect(&mut self, slots: impl Iterator<Item = Slot>) {
        self.suspects.extend(slots);
    }

    /// Frees every slot that was made or emptied in this call and holds nothing.
    pub(crate) fn end_call(&mut self) {
        let mut emptied = std::mem::take(&mut self.scratch.emptied);
        emptied.append(&mut self.suspects);
        self.columns.iter_mut().for_each(|column| column.state.drain_cleared(&mut emptied));
        let used = emptied.iter().filter(|slot| !self.is_free(**slot));
        self.index.touch(used.map(|slot| (self.hash_of(*slot), self.tags[slot.index()])));
        for slot in emptied.drain(..) {
            if !self.is_free(slot) && !self.is_filled(slot) {
                self.free(slot);
            }
        }
        self.scratch.emptied = emptied;
    }

    fn free(&mut self, slot: Slot) {
        let tag = std::mem::replace(&mut self.tags[slot.index()], NO_TAG);
        let keys = &self.keys;
        self.index.remove(self.words[slot.index()], tag, slot.0, |word, tag| keys.hash(word, tag));
        self.namespaces.unlink(slot.0, tag & !NULL);
        if let KeyStore::Bytes(keys) = &mut self.keys {
            self.key_bytes -= std::mem::take(&mut keys[slot.index()]).len();
        }
        self.free.push(slot.0);
    }
}

fn check_rows(keys: &Keys, namespaces: &Namespaces<'_>, types: &[arrow_schema::DataType]) -> Result<()> {
    let rows = keys.hashes.len();
    if !keys.columns.iter().map(Array::data_type).eq(types) {
        let found: Vec<_> = keys.columns.iter().map(Array::data_type).collect();
        return Err(Error::internal(format!("expected keys of types {types:?}, found {found:?}")));
    }
    if let Some(column) = keys.columns.iter().find(|column| column.len() != rows) {
        return Err(Error::internal(format!("expected {rows} rows as there are hashes, found {}", column.len())));
    }
    match namespaces {
        Namespaces::Each(each) if each.len() != rows => {
            Err(Error::internal(format!("expected {rows} namespaces as there are keys, found {}", each.len())))
        }
        _ => Ok(()),
    }
}
