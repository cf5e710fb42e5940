//! Keyed state as an operator sees it.
//!
//! An address is (name, key, namespace). Keys of a batch are looked up once, for all states of a table:
//! [`KeyedState::locate`] turns (key, namespace) into a [`Slot`], a dense index under which every [`StateColumn`]
//! of the table holds its value. So a window aggregate adds to plain vectors, and a row-wise function pays one
//! hash look-up a row however many states it has.
//!
//! A slot is valid only within the call of the operator in which it was obtained: that is what lets a backend
//! keep a working set only (loaded by `locate`, written back after the call) or free empty slots.
//!
//! Lives here: the contract, the typed handles and their columns ([`columns`]), timers ([`timers`]), the
//! savepoint form of keys and sections ([`snapshot`]). Does not live here: any backend.

pub mod columns;
pub mod snapshot;
pub mod timers;

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Timestamp};
use columns::{Aggregate, AggregatingColumn, ListColumn, MapColumn, OrderedMapColumn, ReducingColumn, ValueColumn};
use snapshot::{PendingSnapshot, StateSection};
use timers::{TimeDomain, Timer, TimerColumn};

/// The part of an address beside name and key: a window, or [`Namespace::VOID`].
///
/// Two numbers cover Flink's windows: time windows are (start, end), count windows (number, 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Namespace(pub i64, pub i64);

impl Namespace {
    /// State that belongs to the key alone.
    pub const VOID: Self = Self(0, 0);
}

/// Where the values of one (key, namespace) are, within one call of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index into the vectors of a column.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A table of an operator: states that share one (key, namespace) address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableId(pub u16);

/// A state of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnId {
    /// The table.
    pub table: TableId,
    /// The position of the state in it.
    pub column: u16,
}

/// The kinds of keyed state; part of the savepoint format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StateKind {
    /// One value.
    Value,
    /// A sequence of values.
    List,
    /// Entries found by a user key.
    Map,
    /// Entries kept in the order of their user key.
    OrderedMap,
    /// One value, combined with each value added.
    Reducing,
    /// An accumulator.
    Aggregating,
    /// Timers.
    Timers,
}

/// The keys of a batch: the key columns and their hashes, one row each.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The key columns, in the order of the key.
    pub columns: Vec<ArrayRef>,
    /// [`crate::hash_keys`] of them.
    pub hashes: ScalarBuffer<u64>,
}

impl Keys {
    /// Keys of these columns, hashed now.
    pub fn of(columns: Vec<ArrayRef>) -> Result<Self> {
        let hashes = crate::hash_keys(&columns)?;
        Ok(Self { columns, hashes })
    }
}

/// The namespaces of the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Namespaces<'a> {
    /// One for all rows.
    All(Namespace),
    /// One for each row.
    Each(&'a [Namespace]),
}

/// One state of a table, a value for each slot. Implemented by [`columns`] for the usual kinds; an operator may
/// bring its own, for instance sums in a plain vector.
pub trait StateColumn: Any + Send {
    /// What kind of state this is.
    fn kind(&self) -> StateKind;
    /// Names the type of the values; a restore checks it.
    fn value_type(&self) -> String;
    /// Makes room for slots below `slots`; new ones are empty.
    fn grow(&mut self, slots: usize);
    /// Whether the slot holds nothing.
    fn is_empty(&self, slot: Slot) -> bool;
    /// Empties the slot.
    fn clear(&mut self, slot: Slot);
    /// Appends the slot's value in its stable form.
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()>;
    /// Sets the slot from what [`StateColumn::encode`] wrote.
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()>;
    /// Merges the value of `from` into `into` and empties `from`; refused by kinds that cannot merge.
    fn merge(&mut self, into: Slot, from: Slot) -> Result<()>;
    /// Moves to `out` the slots emptied by the operator since the last call.
    fn drain_cleared(&mut self, out: &mut Vec<Slot>);
    /// The column as timers, if it is that.
    fn as_timers(&mut self) -> Option<&mut TimerColumn> {
        None
    }
}

/// What a backend needs to know to hold an operator's state.
#[derive(Clone, Debug)]
pub struct KeyScope {
    /// Types of the key's columns.
    pub key_types: Vec<DataType>,
    /// The key groups of this task.
    pub key_groups: Range<u32>,
    /// Of the operator.
    pub max_parallelism: u32,
}

/// Makes keyed state; `hashmap` and `lsm` are its implementations, found by name in the registry.
pub trait StateBackend: Send + Sync {
    /// Keyed state for one operator of one task. `restored` holds sections of any task's snapshot of this operator;
    /// entries of other key groups are to be passed over. Each section is decoded when its column is opened.
    fn create(&self, scope: KeyScope, restored: Vec<StateSection>) -> Result<Box<dyn KeyedState>>;
}

/// The keyed state of one operator in one task.
pub trait KeyedState: Send {
    /// Opens a table by its stable name; the same name gives the same table. With `namespaced` false every
    /// namespace is [`Namespace::VOID`].
    fn open_table(&mut self, name: &str, namespaced: bool) -> Result<TableId>;

    /// Adds a state to a table and fills it with what was restored under its name; two states of a table cannot
    /// share a name. Use the typed handles' methods where they fit ([`ValueState`] …).
    fn open_column(&mut self, table: TableId, name: &str, column: Box<dyn StateColumn>) -> Result<ColumnId>;

    /// The slot of every row's (key, namespace), made where there was none.
    fn locate(&mut self, table: TableId, keys: &Keys, namespaces: Namespaces<'_>, out: &mut Vec<Slot>) -> Result<()>;

    /// The slot of another namespace of the same key as `of`, made where there was none.
    fn locate_beside(&mut self, table: TableId, of: (TableId, Slot), namespace: Namespace) -> Result<Slot>;

    /// A state's column.
    fn column(&self, id: ColumnId) -> &dyn StateColumn;

    /// A state's column, to change.
    fn column_mut(&mut self, id: ColumnId) -> &mut dyn StateColumn;

    /// The namespaces of a table that hold something, ascending.
    fn namespaces(&mut self, table: TableId) -> Result<Vec<Namespace>>;

    /// Up to `limit` slots of a namespace, loaded; in no particular order, but the same each run.
    fn slots_of(&mut self, table: TableId, namespace: Namespace, limit: usize) -> Result<Vec<Slot>>;

    /// The keys of slots, as the key's columns.
    fn keys_of(&self, table: TableId, slots: &[Slot]) -> Result<Vec<ArrayRef>>;

    /// The namespace of a slot.
    fn namespace_of(&self, table: TableId, slot: Slot) -> Namespace;

    /// Empties every column of these slots.
    fn clear(&mut self, table: TableId, slots: &[Slot]);

    /// Merges all states of the `from` slots into `into` (merging windows).
    fn merge(&mut self, table: TableId, into: Slot, from: &[Slot]) -> Result<()>;

    /// Moves up to `limit` timers of the domain due at or before `up_to` to `out`, earliest first. Whether more are due.
    fn due_timers(&mut self, domain: TimeDomain, up_to: Timestamp, limit: usize, out: &mut Vec<Timer>) -> Result<bool>;

    /// The earliest timer of the domain.
    fn next_timer(&mut self, domain: TimeDomain) -> Option<Timestamp>;

    /// The call of the operator is over: slots given out are invalid, empty ones are freed, changes written back.
    fn end_call(&mut self) -> Result<()>;

    /// A consistent cut. What it returns may be completed on another thread while the operator goes on.
    fn snapshot(&mut self) -> Result<Box<dyn PendingSnapshot>>;

    /// Names of restored states that no column has claimed.
    fn unclaimed(&self) -> Vec<String>;

    /// Bytes held, about.
    fn num_bytes(&self) -> usize;

    /// Whether its calls may block (a disk): its task then has a thread of its own and holds up no other. Asked once,
    /// when the task begins.
    fn blocks(&self) -> bool {
        false
    }
}

/// A type that can be a state's value. Every serde type is one; a type of another kind (a Python object) implements it.
pub trait StateValue: Send + Sized + 'static {
    /// A stable name of the type, checked on restore.
    fn type_name() -> String;
    /// Appends the stable form.
    fn encode(&self, out: &mut Vec<u8>) -> Result<()>;
    /// Reads the stable form.
    fn decode(bytes: &[u8]) -> Result<Self>;
}

impl<T: Serialize + DeserializeOwned + Send + 'static> StateValue for T {
    fn type_name() -> String {
        // Without paths, so that moving a type between modules keeps its state.
        let full = std::any::type_name::<T>();
        let mut short = String::new();
        let mut word = String::new();
        for c in full.chars() {
            match c {
                ':' => word.clear(),
                c if c.is_alphanumeric() || c == '_' => word.push(c),
                c => {
                    short.push_str(&word);
                    word.clear();
                    short.push(c);
                }
            }
        }
        short + &word
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend(postcard::to_stdvec(self)?);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(postcard::from_bytes(bytes)?)
    }
}

/// A typed handle on a state whose column is `C`; obtained in `open`, used with [`KeyedState`]'s `get` and `get_mut`.
pub struct Handle<C> {
    id: ColumnId,
    column: PhantomData<fn() -> C>,
}

impl<C> Handle<C> {
    /// The untyped id.
    pub fn id(&self) -> ColumnId {
        self.id
    }
}

impl<C> Clone for Handle<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Handle<C> {}

impl<C> std::fmt::Debug for Handle<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.id.fmt(f)
    }
}

/// Handle on one value a key.
pub type ValueState<V> = Handle<ValueColumn<V>>;
/// Handle on a list a key.
pub type ListState<V> = Handle<ListColumn<V>>;
/// Handle on a hash map a key.
pub type MapState<K, V> = Handle<MapColumn<K, V>>;
/// Handle on a map a key, in the order of its user keys.
pub type OrderedMapState<K, V> = Handle<OrderedMapColumn<K, V>>;
/// Handle on a value a key, combined with each value added.
pub type ReducingState<V> = Handle<ReducingColumn<V>>;
/// Handle on an accumulator a key.
pub type AggregatingState<A> = Handle<AggregatingColumn<A>>;
/// Handle on timers.
pub type TimerState = Handle<TimerColumn>;

impl dyn KeyedState + '_ {
    /// Opens a state with a column of the caller's making.
    pub fn open<C: StateColumn>(&mut self, table: TableId, name: &str, column: C) -> Result<Handle<C>> {
        Ok(Handle { id: self.open_column(table, name, Box::new(column))?, column: PhantomData })
    }

    /// Opens a value state.
    pub fn value<V: StateValue>(&mut self, table: TableId, name: &str) -> Result<ValueState<V>> {
        self.open(table, name, ValueColumn::default())
    }

    /// Opens a list state.
    pub fn list<V: StateValue>(&mut self, table: TableId, name: &str) -> Result<ListState<V>> {
        self.open(table, name, ListColumn::default())
    }

    /// Opens a map state.
    pub fn map<K, V>(&mut self, table: TableId, name: &str) -> Result<MapState<K, V>>
    where
        K: StateValue + Eq + std::hash::Hash,
        V: StateValue,
    {
        self.open(table, name, MapColumn::default())
    }

    /// Opens a map state in its ordered form.
    pub fn ordered_map<K, V>(&mut self, table: TableId, name: &str) -> Result<OrderedMapState<K, V>>
    where
        K: StateValue + Ord,
        V: StateValue,
    {
        self.open(table, name, OrderedMapColumn::default())
    }

    /// Opens a reducing state.
    pub fn reducing<V: StateValue>(
        &mut self,
        table: TableId,
        name: &str,
        reduce: impl FnMut(V, V) -> Result<V> + Send + 'static,
    ) -> Result<ReducingState<V>> {
        self.open(table, name, ReducingColumn::new(reduce))
    }

    /// Opens an aggregating state.
    pub fn aggregating<A: Aggregate>(&mut self, table: TableId, name: &str, a: A) -> Result<AggregatingState<A>> {
        self.open(table, name, AggregatingColumn::new(a))
    }

    /// Opens a timer service.
    pub fn timers(&mut self, table: TableId, name: &str, domain: TimeDomain) -> Result<TimerState> {
        self.open(table, name, TimerColumn::new(domain))
    }

    /// The column behind a handle.
    #[inline]
    pub fn get<C: StateColumn>(&self, handle: Handle<C>) -> Result<&C> {
        let column: &dyn Any = self.column(handle.id);
        column.downcast_ref().ok_or_else(foreign_handle)
    }

    /// The column behind a handle, to change.
    #[inline]
    pub fn get_mut<C: StateColumn>(&mut self, handle: Handle<C>) -> Result<&mut C> {
        let column: &mut dyn Any = self.column_mut(handle.id);
        column.downcast_mut().ok_or_else(foreign_handle)
    }
}

fn foreign_handle() -> Error {
    Error::internal("a state handle was used with the state of another operator")
}
