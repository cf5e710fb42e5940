//! The usual kinds of state as columns: a vector with one entry a slot.

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

use serde::{Deserialize, Serialize};

use super::{Slot, StateColumn, StateKind, StateValue};
use crate::{Error, Result};

/// Without a random seed: a run is replayed in the same order.
type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

fn cannot_merge(kind: &str) -> Error {
    Error::user(format!("{kind} state cannot be used with merging windows; use list, reducing or aggregating state"))
}

/// What an emptied slot leaves behind until the backend asks.
#[derive(Debug, Default)]
struct Cleared(Vec<Slot>);

impl Cleared {
    fn drain_into(&mut self, out: &mut Vec<Slot>) {
        out.append(&mut self.0);
    }
}

/// One value a slot.
pub struct ValueColumn<V> {
    values: Vec<Option<V>>,
    cleared: Cleared,
}

impl<V> Default for ValueColumn<V> {
    fn default() -> Self {
        Self { values: Vec::new(), cleared: Cleared::default() }
    }
}

impl<V> ValueColumn<V> {
    /// The value, if there is one.
    #[inline]
    pub fn value(&self, slot: Slot) -> Option<&V> {
        self.values[slot.index()].as_ref()
    }

    /// The value to change; `None` there means no value.
    #[inline]
    pub fn value_mut(&mut self, slot: Slot) -> &mut Option<V> {
        &mut self.values[slot.index()]
    }

    /// Replaces the value.
    #[inline]
    pub fn update(&mut self, slot: Slot, value: V) {
        self.values[slot.index()] = Some(value);
    }

    /// Takes the value out.
    pub fn take(&mut self, slot: Slot) -> Option<V> {
        self.cleared.0.push(slot);
        self.values[slot.index()].take()
    }
}

impl<V: StateValue> StateColumn for ValueColumn<V> {
    fn kind(&self) -> StateKind {
        StateKind::Value
    }
    fn value_type(&self) -> String {
        V::type_name()
    }
    fn grow(&mut self, slots: usize) {
        self.values.resize_with(slots.max(self.values.len()), || None);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        self.values[slot.index()].is_none()
    }
    fn clear(&mut self, slot: Slot) {
        self.take(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        self.value(slot).map_or(Ok(()), |value| value.encode(out))
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        self.update(slot, V::decode(bytes)?);
        Ok(())
    }
    fn merge(&mut self, _into: Slot, _from: Slot) -> Result<()> {
        Err(cannot_merge("value"))
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        self.cleared.drain_into(out);
    }
}

/// Length-prefixed sequence of encoded values.
fn encode_sequence<'a, V: StateValue>(values: impl Iterator<Item = &'a V>, out: &mut Vec<u8>) -> Result<()> {
    for value in values {
        let at = out.len();
        out.extend([0; 4]);
        value.encode(out)?;
        let length =
            u32::try_from(out.len() - at - 4).map_err(|_| Error::user("a state value is larger than 4 GiB"))?;
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

fn decode_sequence<V: StateValue>(mut bytes: &[u8], mut each: impl FnMut(V)) -> Result<()> {
    while !bytes.is_empty() {
        each(next_value(&mut bytes)?);
    }
    Ok(())
}

fn next_value<V: StateValue>(bytes: &mut &[u8]) -> Result<V> {
    let cut = || Error::external("stored state ends in the middle of a value").final_();
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
    *bytes = rest;
    V::decode(value)
}

/// A list a slot.
pub struct ListColumn<V> {
    lists: Vec<Vec<V>>,
    cleared: Cleared,
}

impl<V> Default for ListColumn<V> {
    fn default() -> Self {
        Self { lists: Vec::new(), cleared: Cleared::default() }
    }
}

impl<V> ListColumn<V> {
    /// The values, in the order added.
    pub fn values(&self, slot: Slot) -> &[V] {
        &self.lists[slot.index()]
    }

    /// Adds a value.
    pub fn add(&mut self, slot: Slot, value: V) {
        self.lists[slot.index()].push(value);
    }

    /// Replaces all values.
    pub fn update(&mut self, slot: Slot, values: Vec<V>) {
        if values.is_empty() {
            self.cleared.0.push(slot);
        }
        self.lists[slot.index()] = values;
    }

    /// Takes all values out.
    pub fn take(&mut self, slot: Slot) -> Vec<V> {
        self.cleared.0.push(slot);
        std::mem::take(&mut self.lists[slot.index()])
    }
}

impl<V: StateValue> StateColumn for ListColumn<V> {
    fn kind(&self) -> StateKind {
        StateKind::List
    }
    fn value_type(&self) -> String {
        V::type_name()
    }
    fn grow(&mut self, slots: usize) {
        self.lists.resize_with(slots.max(self.lists.len()), Vec::new);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        self.lists[slot.index()].is_empty()
    }
    fn clear(&mut self, slot: Slot) {
        self.take(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        encode_sequence(self.values(slot).iter(), out)
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        let list = &mut self.lists[slot.index()];
        list.clear();
        decode_sequence(bytes, |value| list.push(value))
    }
    fn merge(&mut self, into: Slot, from: Slot) -> Result<()> {
        let mut moved = self.take(from);
        self.lists[into.index()].append(&mut moved);
        Ok(())
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        self.cleared.drain_into(out);
    }
}

macro_rules! map_column {
    ($(#[$doc:meta])* $name:ident, $map:ident, $kind:expr, $word:literal, [$($bound:path),+]) => {
        $(#[$doc])*
        pub struct $name<K, V> {
            maps: Vec<$map<K, V>>,
            cleared: Cleared,
        }

        impl<K, V> Default for $name<K, V> {
            fn default() -> Self {
                Self { maps: Vec::new(), cleared: Cleared::default() }
            }
        }

        impl<K: $($bound +)+ , V> $name<K, V> {
            /// The entries of a slot.
            pub fn entries(&self, slot: Slot) -> &$map<K, V> {
                &self.maps[slot.index()]
            }

            /// The value under a user key.
            pub fn get(&self, slot: Slot, key: &K) -> Option<&V> {
                self.maps[slot.index()].get(key)
            }

            /// The value under a user key, to change.
            pub fn get_mut(&mut self, slot: Slot, key: &K) -> Option<&mut V> {
                self.maps[slot.index()].get_mut(key)
            }

            /// Sets the value under a user key.
            pub fn put(&mut self, slot: Slot, key: K, value: V) {
                self.maps[slot.index()].insert(key, value);
            }

            /// Takes the value under a user key out.
            pub fn remove(&mut self, slot: Slot, key: &K) -> Option<V> {
                let map = &mut self.maps[slot.index()];
                let value = map.remove(key);
                if map.is_empty() {
                    self.cleared.0.push(slot);
                }
                value
            }
        }

        impl<K: StateValue + $($bound +)+, V: StateValue> StateColumn for $name<K, V> {
            fn kind(&self) -> StateKind {
                $kind
            }
            fn value_type(&self) -> String {
                format!("{}→{}", K::type_name(), V::type_name())
            }
            fn grow(&mut self, slots: usize) {
                self.maps.resize_with(slots.max(self.maps.len()), $map::default);
            }
            fn is_empty(&self, slot: Slot) -> bool {
                self.maps[slot.index()].is_empty()
            }
            fn clear(&mut self, slot: Slot) {
                self.maps[slot.index()].clear();
                self.cleared.0.push(slot);
            }
            fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
                for (key, value) in &self.maps[slot.index()] {
                    encode_sequence(std::iter::once(key), out)?;
                    encode_sequence(std::iter::once(value), out)?;
                }
                Ok(())
            }
            fn decode(&mut self, slot: Slot, mut bytes: &[u8]) -> Result<()> {
                let map = &mut self.maps[slot.index()];
                map.clear();
                while !bytes.is_empty() {
                    let key = next_value(&mut bytes)?;
                    map.insert(key, next_value(&mut bytes)?);
                }
                Ok(())
            }
            fn merge(&mut self, _into: Slot, _from: Slot) -> Result<()> {
                Err(cannot_merge($word))
            }
            fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
                self.cleared.drain_into(out);
            }
        }
    };
}

map_column!(
    /// A hash map a slot; its entries have no order, but the same one each run.
    MapColumn, HashMap, StateKind::Map, "map", [Eq, Hash]
);
map_column!(
    /// A map a slot in the order of its user keys; [`OrderedMapColumn::entries`] gives ranges.
    OrderedMapColumn, BTreeMap, StateKind::OrderedMap, "ordered map", [Ord]
);

type Reduce<V> = Box<dyn FnMut(V, V) -> Result<V> + Send>;

/// One value a slot, combined with each value added.
pub struct ReducingColumn<V> {
    values: ValueColumn<V>,
    reduce: Reduce<V>,
}

impl<V> ReducingColumn<V> {
    /// A column combining with `reduce(so far, added)`.
    pub fn new(reduce: impl FnMut(V, V) -> Result<V> + Send + 'static) -> Self {
        Self { values: ValueColumn::default(), reduce: Box::new(reduce) }
    }

    /// The value so far.
    pub fn value(&self, slot: Slot) -> Option<&V> {
        self.values.value(slot)
    }

    /// Combines `value` in.
    pub fn add(&mut self, slot: Slot, value: V) -> Result<()> {
        let so_far = &mut self.values.values[slot.index()];
        *so_far = Some(match so_far.take() {
            None => value,
            Some(old) => (self.reduce)(old, value)?,
        });
        Ok(())
    }
}

impl<V: StateValue> StateColumn for ReducingColumn<V> {
    fn kind(&self) -> StateKind {
        StateKind::Reducing
    }
    fn value_type(&self) -> String {
        V::type_name()
    }
    fn grow(&mut self, slots: usize) {
        self.values.grow(slots);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        self.values.is_empty(slot)
    }
    fn clear(&mut self, slot: Slot) {
        self.values.clear(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        self.values.encode(slot, out)
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        self.values.decode(slot, bytes)
    }
    fn merge(&mut self, into: Slot, from: Slot) -> Result<()> {
        self.values.take(from).map_or(Ok(()), |value| self.add(into, value))
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        self.values.drain_cleared(out);
    }
}

/// An aggregate function over values one at a time (Flink's `AggregateFunction`).
pub trait Aggregate: Send + 'static {
    /// What is added.
    type In;
    /// What is kept.
    type Accumulator: StateValue;
    /// What comes out.
    type Out;
    /// An accumulator of nothing.
    fn create(&self) -> Self::Accumulator;
    /// Adds a value.
    fn add(&self, value: Self::In, accumulator: &mut Self::Accumulator) -> Result<()>;
    /// The answer for what was added so far.
    fn result(&self, accumulator: &Self::Accumulator) -> Result<Self::Out>;
    /// Merges two accumulators (merging windows); the default refuses.
    fn merge(&self, _into: &mut Self::Accumulator, _from: Self::Accumulator) -> Result<()> {
        Err(Error::user("this aggregate function has no merge, which merging windows need"))
    }
}

/// An accumulator a slot.
pub struct AggregatingColumn<A: Aggregate> {
    accumulators: ValueColumn<A::Accumulator>,
    aggregate: A,
}

impl<A: Aggregate> AggregatingColumn<A> {
    /// A column of `aggregate`'s accumulators.
    pub fn new(aggregate: A) -> Self {
        Self { accumulators: ValueColumn::default(), aggregate }
    }

    /// Adds a value.
    pub fn add(&mut self, slot: Slot, value: A::In) -> Result<()> {
        let accumulator = self.accumulators.value_mut(slot).get_or_insert_with(|| self.aggregate.create());
        self.aggregate.add(value, accumulator)
    }

    /// The answer so far; `None` if nothing was added.
    pub fn result(&self, slot: Slot) -> Result<Option<A::Out>> {
        self.accumulators.value(slot).map(|a| self.aggregate.result(a)).transpose()
    }
}

impl<A: Aggregate> StateColumn for AggregatingColumn<A> {
    fn kind(&self) -> StateKind {
        StateKind::Aggregating
    }
    fn value_type(&self) -> String {
        A::Accumulator::type_name()
    }
    fn grow(&mut self, slots: usize) {
        self.accumulators.grow(slots);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        self.accumulators.is_empty(slot)
    }
    fn clear(&mut self, slot: Slot) {
        self.accumulators.clear(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        self.accumulators.encode(slot, out)
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        self.accumulators.decode(slot, bytes)
    }
    fn merge(&mut self, into: Slot, from: Slot) -> Result<()> {
        match (self.accumulators.take(from), self.accumulators.value_mut(into)) {
            (None, _) => Ok(()),
            (Some(moved), Some(kept)) => self.aggregate.merge(kept, moved),
            (moved, kept) => {
                *kept = moved;
                Ok(())
            }
        }
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        self.accumulators.drain_cleared(out);
    }
}

/// A plain vector of numbers, one a slot, that operators add to directly; `filled` says which slots hold something.
#[derive(Debug, Default)]
pub struct DenseColumn<T> {
    /// The numbers.
    pub values: Vec<T>,
    /// Whether a slot holds something.
    pub filled: Vec<bool>,
    cleared: Cleared,
}

impl<T> StateColumn for DenseColumn<T>
where
    T: Copy + Default + Send + Serialize + for<'d> Deserialize<'d> + 'static,
{
    fn kind(&self) -> StateKind {
        StateKind::Value
    }
    fn value_type(&self) -> String {
        T::type_name()
    }
    fn grow(&mut self, slots: usize) {
        let slots = slots.max(self.values.len());
        self.values.resize(slots, T::default());
        self.filled.resize(slots, false);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        !self.filled[slot.index()]
    }
    fn clear(&mut self, slot: Slot) {
        self.values[slot.index()] = T::default();
        self.filled[slot.index()] = false;
        self.cleared.0.push(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        self.values[slot.index()].encode(out)
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        self.values[slot.index()] = T::decode(bytes)?;
        self.filled[slot.index()] = true;
        Ok(())
    }
    fn merge(&mut self, _into: Slot, _from: Slot) -> Result<()> {
        Err(cannot_merge("plain number"))
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        self.cleared.drain_into(out);
    }
}
