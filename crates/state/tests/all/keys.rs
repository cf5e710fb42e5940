//! Keys and slots for tests, short to write.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use flott_core::state::{KeyedState, Keys, TableId};
use flott_core::{KeyCodec, Namespace, Namespaces, Slot};

pub(crate) const MAX_PARALLELISM: u32 = 16;

pub(crate) fn numbers(keys: &[i64]) -> Keys {
    Keys::of(vec![Arc::new(Int64Array::from(keys.to_vec()))]).unwrap()
}

pub(crate) fn texts(keys: &[&str]) -> Keys {
    Keys::of(vec![Arc::new(StringArray::from(keys.to_vec()))]).unwrap()
}

/// The slots of keys, all in one namespace.
pub(crate) fn locate(state: &mut dyn KeyedState, table: TableId, keys: &Keys, namespace: Namespace) -> Vec<Slot> {
    let mut slots = vec![Slot(99)];
    state.locate(table, keys, Namespaces::All(namespace), &mut slots).unwrap();
    slots
}

pub(crate) fn slot(state: &mut dyn KeyedState, table: TableId, key: i64, namespace: Namespace) -> Slot {
    locate(state, table, &numbers(&[key]), namespace)[0]
}

/// The canonical bytes of every key.
pub(crate) fn bytes_of(columns: &[ArrayRef]) -> Vec<Vec<u8>> {
    let codec = KeyCodec::new(columns.iter().map(|c| c.data_type().clone()).collect()).unwrap();
    let (mut offsets, mut bytes) = (Vec::new(), Vec::new());
    codec.encode_all(columns, &mut offsets, &mut bytes).unwrap();
    offsets.windows(2).map(|at| bytes[at[0]..at[1]].to_vec()).collect()
}
