//! State in process functions: handles that are fields of the function, opened in its `open`.
//!
//! A handle before `open` is `Default`; each is a view of the current key's state, through the context of the call.

use std::collections::BTreeMap;
use std::hash::Hash;

use flott_core::state::columns::Aggregate;
use flott_core::state::{self, Handle, StateColumn, StateValue};
use flott_core::{Error, Result};

use crate::Record;
use crate::process::{OpenContext, ProcessContext};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident<$($p:ident),+> = $column:ty where [$($bound:tt)*];)*) => {$(
        $(#[$doc])*
        pub struct $name<$($p),+>(Option<Handle<$column>>) where $($bound)*;

        impl<$($p),+> Default for $name<$($p),+> where $($bound)* {
            fn default() -> Self {
                Self(None)
            }
        }

        impl<$($p),+> Clone for $name<$($p),+> where $($bound)* {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($p),+> Copy for $name<$($p),+> where $($bound)* {}

        impl<$($p),+> $name<$($p),+> where $($bound)* {
            /// Removes what the current key has here.
            pub fn clear<Key: Record>(&self, ctx: &mut ProcessContext<'_, Key>) -> Result<()> {
                let (column, slot) = ctx.column_mut(self.opened()?)?;
                column.clear(slot);
                Ok(())
            }

            fn opened(&self) -> Result<Handle<$column>> {
                self.0.ok_or_else(|| {
                    Error::user(concat!("a ", stringify!($name), " was used that the function's open did not open"))
                })
            }
        }
    )*};
}

handles! {
    /// One value a key.
    ValueState<V> = state::columns::ValueColumn<V> where [V: StateValue];
    /// A list a key.
    ListState<V> = state::columns::ListColumn<V> where [V: StateValue];
    /// A map a key, without order.
    MapState<K, V> = state::columns::MapColumn<K, V> where [K: StateValue + Eq + Hash, V: StateValue];
    /// A map a key, in the order of its user keys.
    OrderedMapState<K, V> = state::columns::OrderedMapColumn<K, V> where [K: StateValue + Ord, V: StateValue];
    /// A value a key, combined with each value added.
    ReducingState<V> = state::columns::ReducingColumn<V> where [V: StateValue];
    /// An accumulator a key.
    AggregatingState<A> = state::columns::AggregatingColumn<A> where [A: Aggregate];
}

impl<V: StateValue> ValueState<V> {
    /// The value of the current key.
    pub fn value<'c, K: Record>(&self, ctx: &'c ProcessContext<'_, K>) -> Result<Option<&'c V>> {
        let (column, slot) = ctx.column(self.opened()?)?;
        Ok(column.value(slot))
    }

    /// Sets the value of the current key.
    pub fn update<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, value: V) -> Result<()> {
        let (column, slot) = ctx.column_mut(self.opened()?)?;
        column.update(slot, value);
        Ok(())
    }
}

impl<V: StateValue> ListState<V> {
    /// The values of the current key, in the order added.
    pub fn get<'c, K: Record>(&self, ctx: &'c ProcessContext<'_, K>) -> Result<&'c [V]> {
        let (column, slot) = ctx.column(self.opened()?)?;
        Ok(column.values(slot))
    }

    /// Adds a value.
    pub fn add<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, value: V) -> Result<()> {
        let (column, slot) = ctx.column_mut(self.opened()?)?;
        column.add(slot, value);
        Ok(())
    }

    /// Replaces all values.
    pub fn update<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, values: Vec<V>) -> Result<()> {
        let (column, slot) = ctx.column_mut(self.opened()?)?;
        column.update(slot, values);
        Ok(())
    }
}

macro_rules! map_methods {
    ($name:ident, [$($bound:tt)*]) => {
        impl<U: StateValue + $($bound)*, V: StateValue> $name<U, V> {
            /// The value under a user key.
            pub fn get<'c, K: Record>(&self, ctx: &'c ProcessContext<'_, K>, key: &U) -> Result<Option<&'c V>> {
                let (column, slot) = ctx.column(self.opened()?)?;
                Ok(column.get(slot, key))
            }

            /// Sets the value under a user key.
            pub fn put<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, key: U, value: V) -> Result<()> {
                let (column, slot) = ctx.column_mut(self.opened()?)?;
                column.put(slot, key, value);
                Ok(())
            }

            /// Takes the value under a user key out.
            pub fn remove<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, key: &U) -> Result<Option<V>> {
                let (column, slot) = ctx.column_mut(self.opened()?)?;
                Ok(column.remove(slot, key))
            }
        }
    };
}

map_methods!(MapState, [Eq + Hash]);
map_methods!(OrderedMapState, [Ord]);

impl<U: StateValue + Eq + Hash, V: StateValue> MapState<U, V> {
    /// All entries of the current key, in no particular order.
    pub fn entries<'c, K: Record>(
        &self,
        ctx: &'c ProcessContext<'_, K>,
    ) -> Result<impl Iterator<Item = (&'c U, &'c V)> + use<'c, K, U, V>> {
        let (column, slot) = ctx.column(self.opened()?)?;
        Ok(column.entries(slot).iter())
    }
}

impl<U: StateValue + Ord, V: StateValue> OrderedMapState<U, V> {
    /// All entries of the current key; the map has ranges.
    pub fn entries<'c, K: Record>(&self, ctx: &'c ProcessContext<'_, K>) -> Result<&'c BTreeMap<U, V>> {
        let (column, slot) = ctx.column(self.opened()?)?;
        Ok(column.entries(slot))
    }
}

impl<V: StateValue> ReducingState<V> {
    /// The value so far.
    pub fn get<'c, K: Record>(&self, ctx: &'c ProcessContext<'_, K>) -> Result<Option<&'c V>> {
        let (column, slot) = ctx.column(self.opened()?)?;
        Ok(column.value(slot))
    }

    /// Combines a value in.
    pub fn add<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, value: V) -> Result<()> {
        let (column, slot) = ctx.column_mut(self.opened()?)?;
        column.add(slot, value)
    }
}

impl<A: Aggregate> AggregatingState<A> {
    /// The answer so far.
    pub fn get<K: Record>(&self, ctx: &ProcessContext<'_, K>) -> Result<Option<A::Out>> {
        let (column, slot) = ctx.column(self.opened()?)?;
        column.result(slot)
    }

    /// Adds a value.
    pub fn add<K: Record>(&self, ctx: &mut ProcessContext<'_, K>, value: A::In) -> Result<()> {
        let (column, slot) = ctx.column_mut(self.opened()?)?;
        column.add(slot, value)
    }
}

/// Opening states: each by a name that is stable and unique in the function.
impl OpenContext<'_, '_> {
    /// Opens a value state.
    pub fn value_state<V: StateValue>(&mut self, name: &str) -> Result<ValueState<V>> {
        let table = self.table();
        Ok(ValueState(Some(self.state()?.value(table, name)?)))
    }

    /// Opens a list state.
    pub fn list_state<V: StateValue>(&mut self, name: &str) -> Result<ListState<V>> {
        let table = self.table();
        Ok(ListState(Some(self.state()?.list(table, name)?)))
    }

    /// Opens a map state.
    pub fn map_state<U, V>(&mut self, name: &str) -> Result<MapState<U, V>>
    where
        U: StateValue + Eq + Hash,
        V: StateValue,
    {
        let table = self.table();
        Ok(MapState(Some(self.state()?.map(table, name)?)))
    }

    /// Opens a map state in its ordered form.
    pub fn ordered_map_state<U, V>(&mut self, name: &str) -> Result<OrderedMapState<U, V>>
    where
        U: StateValue + Ord,
        V: StateValue,
    {
        let table = self.table();
        Ok(OrderedMapState(Some(self.state()?.ordered_map(table, name)?)))
    }

    /// Opens a reducing state that combines with `reduce(so far, added)`.
    pub fn reducing_state<V: StateValue>(
        &mut self,
        name: &str,
        reduce: impl FnMut(V, V) -> Result<V> + Send + 'static,
    ) -> Result<ReducingState<V>> {
        let table = self.table();
        Ok(ReducingState(Some(self.state()?.reducing(table, name, reduce)?)))
    }

    /// Opens an aggregating state.
    pub fn aggregating_state<A: Aggregate>(&mut self, name: &str, aggregate: A) -> Result<AggregatingState<A>> {
        let table = self.table();
        Ok(AggregatingState(Some(self.state()?.aggregating(table, name, aggregate)?)))
    }
}

/// A column and the slot of the current key in it.
pub(crate) type InColumn<C> = (C, flott_core::Slot);

impl<K: Record> ProcessContext<'_, K> {
    fn column<C: StateColumn>(&self, handle: Handle<C>) -> Result<InColumn<&C>> {
        let (state, slot) = self.place();
        Ok((state.get(handle)?, slot))
    }

    fn column_mut<C: StateColumn>(&mut self, handle: Handle<C>) -> Result<InColumn<&mut C>> {
        let (state, slot) = self.place_mut();
        Ok((state.get_mut(handle)?, slot))
    }
}
