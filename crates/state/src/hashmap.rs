//! The `hashmap` backend: all state in memory.

use arrow_array::ArrayRef;
use flott_core::state::snapshot::{PendingSnapshot, StateSection};
use flott_core::state::timers::{TimeDomain, Timer, TimerColumn};
use flott_core::state::{ColumnId, KeyScope, KeyedState, Keys, StateBackend, StateColumn, TableId};
use flott_core::{Error, KeyCodec, Namespace, Namespaces, Result, Slot, Timestamp};

use crate::sections::{Restored, read_section, write_table};
use crate::table::Table;

/// Keeps keyed state in memory as typed columns; `hashmap` in a configuration.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use flott_core::state::{KeyScope, Keys};
/// use flott_core::{Namespace, Namespaces, StateBackend};
///
/// let scope = KeyScope { key_types: vec![arrow_schema::DataType::Utf8], key_groups: 0..128, max_parallelism: 128 };
/// let mut state = flott_state::HashMapBackend.create(scope, Vec::new())?;
/// let table = state.open_table("counts", false)?;
/// let count = state.value::<i64>(table, "count")?;
///
/// let users: ArrayRef = Arc::new(StringArray::from(vec!["ann", "bob", "ann"]));
/// let mut slots = Vec::new();
/// state.locate(table, &Keys::of(vec![users])?, Namespaces::All(Namespace::VOID), &mut slots)?;
/// let column = state.get_mut(count)?;
/// for slot in &slots {
///     *column.value_mut(*slot).get_or_insert(0) += 1;
/// }
/// assert_eq!(column.value(slots[0]), Some(&2));
/// state.end_call()?;
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HashMapBackend;

impl StateBackend for HashMapBackend {
    fn create(&self, scope: KeyScope, restored: Vec<StateSection>) -> Result<Box<dyn KeyedState>> {
        let codec = KeyCodec::new(scope.key_types.clone())?;
        let restored = Restored::new(restored, &scope)?;
        Ok(Box::new(HashMapState { scope, codec, tables: Vec::new(), timers: Vec::new(), restored }))
    }
}

struct HashMapState {
    scope: KeyScope,
    codec: KeyCodec,
    tables: Vec<Table>,
    /// The columns that are timers.
    timers: Vec<(TimeDomain, ColumnId)>,
    restored: Restored,
}

impl HashMapState {
    fn table(&self, id: TableId) -> &Table {
        &self.tables[usize::from(id.0)]
    }

    fn table_mut(&mut self, id: TableId) -> &mut Table {
        &mut self.tables[usize::from(id.0)]
    }

    /// The timers of the domain.
    fn timers_of(&self, domain: TimeDomain) -> Vec<ColumnId> {
        self.timers.iter().filter(|(of, _)| *of == domain).map(|(_, id)| *id).collect()
    }

    fn timer_column(&mut self, id: ColumnId) -> Option<&mut TimerColumn> {
        self.column_mut(id).as_timers()
    }

    /// Which of the services has the earliest timer, and when it is due.
    fn earliest(&mut self, services: &[ColumnId]) -> Option<(Timestamp, ColumnId)> {
        let mut earliest = None;
        for &service in services {
            let Some(at) = self.timer_column(service).and_then(TimerColumn::earliest) else {
                continue;
            };
            if earliest.is_none_or(|(first, _)| at < first) {
                earliest = Some((at, service));
            }
        }
        earliest
    }
}

impl KeyedState for HashMapState {
    fn open_table(&mut self, name: &str, namespaced: bool) -> Result<TableId> {
        if let Some(at) = self.tables.iter().position(|table| table.name == name) {
            if self.tables[at].is_namespaced() != namespaced {
                return Err(Error::user("a table was opened both with and without namespaces").at("table", name));
            }
            return Ok(TableId(at as u16));
        }
        let id = u16::try_from(self.tables.len()).map_err(|_| Error::user("an operator has more than 65536 tables"))?;
        self.tables.push(Table::new(name, namespaced, self.codec.clone()));
        Ok(TableId(id))
    }

    fn open_column(&mut self, id: TableId, name: &str, mut column: Box<dyn StateColumn>) -> Result<ColumnId> {
        let table = &mut self.tables[usize::from(id.0)];
        let position = table.columns.len();
        if table.columns.iter().any(|column| column.name == name) {
            return Err(Error::user("two states have this name").at("state", name).at("table", &table.name));
        }
        let too_many = |_| Error::user("an operator has more than 65536 states").at("table", &table.name);
        let column_id = ColumnId { table: id, column: u16::try_from(position).map_err(too_many)? };
        let stored = self.restored.claim(table, name, &*column, &self.codec)?;
        if let Some(timers) = column.as_timers() {
            self.timers.push((timers.domain(), column_id));
        }
        table.add_column(name, column);
        if let Some(stored) = stored {
            read_section(table, position, &stored, &self.scope, &self.codec)
                .map_err(|e| e.at("state", name).at("table", &table.name))?;
        }
        Ok(column_id)
    }

    fn locate(&mut self, table: TableId, keys: &Keys, namespaces: Namespaces<'_>, out: &mut Vec<Slot>) -> Result<()> {
        let table = self.table_mut(table);
        table.locate(keys, namespaces, out).map_err(|e| e.at("table", &table.name))
    }

    fn locate_beside(&mut self, table: TableId, of: (TableId, Slot), namespace: Namespace) -> Result<Slot> {
        let (to, from) = (usize::from(table.0), usize::from(of.0.0));
        match self.tables.get_disjoint_mut([to, from]) {
            Ok([to, from]) => to.locate_beside(Some(from), of.1, namespace),
            Err(_) => self.tables[to].locate_beside(None, of.1, namespace),
        }
    }

    fn column(&self, id: ColumnId) -> &dyn StateColumn {
        &*self.table(id.table).columns[usize::from(id.column)].state
    }

    fn column_mut(&mut self, id: ColumnId) -> &mut dyn StateColumn {
        &mut *self.table_mut(id.table).columns[usize::from(id.column)].state
    }

    fn namespaces(&mut self, table: TableId) -> Result<Vec<Namespace>> {
        Ok(self.table(table).namespaces())
    }

    fn slots_of(&mut self, table: TableId, namespace: Namespace, limit: usize) -> Result<Vec<Slot>> {
        Ok(self.table(table).slots_of(namespace, limit))
    }

    fn keys_of(&self, table: TableId, slots: &[Slot]) -> Result<Vec<ArrayRef>> {
        self.table(table).keys_of(slots)
    }

    fn namespace_of(&self, table: TableId, slot: Slot) -> Namespace {
        self.table(table).namespace_of(slot)
    }

    fn clear(&mut self, table: TableId, slots: &[Slot]) {
        self.table_mut(table).clear(slots);
    }

    fn merge(&mut self, table: TableId, into: Slot, from: &[Slot]) -> Result<()> {
        self.table_mut(table).merge(into, from)
    }

    fn due_timers(&mut self, domain: TimeDomain, up_to: Timestamp, limit: usize, out: &mut Vec<Timer>) -> Result<bool> {
        let services = self.timers_of(domain);
        for _ in 0..limit {
            let Some((due, service)) = self.earliest(&services).filter(|(due, _)| *due <= up_to) else {
                return Ok(false);
            };
            let Some((at, slot)) = self.timer_column(service).and_then(|timers| timers.pop(due)) else {
                return Ok(false);
            };
            out.push(Timer { service, slot, namespace: self.namespace_of(service.table, slot), at });
        }
        Ok(self.earliest(&services).is_some_and(|(due, _)| due <= up_to))
    }

    fn next_timer(&mut self, domain: TimeDomain) -> Option<Timestamp> {
        let services = self.timers_of(domain);
        self.earliest(&services).map(|(due, _)| due)
    }

    fn end_call(&mut self) -> Result<()> {
        self.tables.iter_mut().for_each(Table::end_call);
        Ok(())
    }

    fn snapshot(&mut self) -> Result<Box<dyn PendingSnapshot>> {
        let mut sections = Vec::new();
        for table in &mut self.tables {
            sections.extend(write_table(table, &self.scope, &self.codec)?);
        }
        sections.extend_from_slice(self.restored.sections());
        Ok(Box::new(sections))
    }

    fn unclaimed(&self) -> Vec<String> {
        self.restored.names()
    }

    fn num_bytes(&self) -> usize {
        self.tables.iter().map(Table::num_bytes).sum::<usize>() + self.restored.num_bytes()
    }
}
