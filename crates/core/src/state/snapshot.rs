//! What a snapshot of state looks like, whichever backend wrote it: sections by state name, entries by key group.

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

use super::{Namespace, StateKind};
use crate::{Error, KeyGroup, Result};

/// All entries of one keyed state of one operator in one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSection {
    /// The table's name.
    pub table: String,
    /// The state's name.
    pub name: String,
    /// Its kind.
    pub kind: StateKind,
    /// The name of its values' type.
    pub value_type: String,
    /// Types of the key's columns.
    pub key_types: Vec<DataType>,
    /// Whether its table has namespaces.
    pub namespaced: bool,
    /// Entries, written with [`write_entry`], by key group, ascending; groups without entries are left out.
    pub groups: Vec<(KeyGroup, Vec<u8>)>,
}

/// The part of a snapshot that needs no access to live state.
pub trait PendingSnapshot: Send {
    /// Finishes the snapshot; called once, on any thread.
    fn complete(self: Box<Self>) -> Result<Vec<StateSection>>;
}

impl PendingSnapshot for Vec<StateSection> {
    fn complete(self: Box<Self>) -> Result<Vec<StateSection>> {
        Ok(*self)
    }
}

/// One entry: canonical key bytes ([`crate::KeyCodec`]), namespace, value bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The namespace.
    pub namespace: Namespace,
    /// What the column's `encode` wrote.
    pub value: &'a [u8],
}

/// Appends an entry: key length (u32 LE), key, namespace (2 × i64 LE), value length (u32 LE), value.
///
/// ```
/// use flott_core::state::snapshot::{Entry, read_entries, write_entry};
/// use flott_core::Namespace;
/// let entry = Entry { key: b"k", namespace: Namespace(0, 10), value: b"v" };
/// let mut bytes = Vec::new();
/// write_entry(entry, &mut bytes)?;
/// let back: Vec<_> = read_entries(&bytes).collect::<Result<_, _>>()?;
/// assert_eq!(back, [entry]);
/// # Ok::<(), flott_core::Error>(())
/// ```
pub fn write_entry(entry: Entry<'_>, out: &mut Vec<u8>) -> Result<()> {
    let length = |bytes: &[u8]| {
        u32::try_from(bytes.len()).map_err(|_| Error::user("a key or a state value is larger than 4 GiB"))
    };
    out.extend(length(entry.key)?.to_le_bytes());
    out.extend(entry.key);
    out.extend(entry.namespace.0.to_le_bytes());
    out.extend(entry.namespace.1.to_le_bytes());
    out.extend(length(entry.value)?.to_le_bytes());
    out.extend(entry.value);
    Ok(())
}

/// The entries of a key group.
pub fn read_entries(mut bytes: &[u8]) -> impl Iterator<Item = Result<Entry<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let entry = split_entry(bytes);
        match entry {
            Some((entry, rest)) => {
                bytes = rest;
                Some(Ok(entry))
            }
            None => {
                bytes = &[];
                Some(Err(Error::external("stored state ends in the middle of an entry").final_()))
            }
        }
    })
}

fn split_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (a, rest) = rest.split_first_chunk::<8>()?;
    let (b, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let namespace = Namespace(i64::from_le_bytes(*a), i64::from_le_bytes(*b));
    Some((Entry { key, namespace, value }, rest))
}
