//! Between a table and the sections of a snapshot: [`write_table`], and [`Restored`], which deals sections out to
//! the columns that claim them and keeps the others for the next snapshot.

use flott_core::state::snapshot::{Entry, StateSection, read_entries, write_entry};
use flott_core::state::{KeyScope, Keys, StateColumn};
use flott_core::{Error, KeyCodec, KeyGroup, Namespaces, Result, Slot};

use crate::table::Table;

/// The sections of a table, one a column, its entries by (key group, key bytes, namespace). What was emptied
/// without a report is freed at the end of the next call.
pub(crate) fn write_table(table: &mut Table, scope: &KeyScope, codec: &KeyCodec) -> Result<Vec<StateSection>> {
    let slots = table.used_slots();
    let (mut offsets, mut bytes) = (Vec::new(), Vec::new());
    codec.encode_all(&table.keys_of(&slots)?, &mut offsets, &mut bytes)?;
    let mut entries: Vec<_> = slots
        .iter()
        .zip(offsets.windows(2))
        .map(|(slot, at)| {
            let group = KeyGroup::of(table.hash_of(*slot), scope.max_parallelism);
            (group, &bytes[at[0]..at[1]], table.namespace_of(*slot), *slot)
        })
        .collect();
    entries.sort_unstable();

    let mut filled = vec![false; table.num_slots()];
    let mut sections = Vec::new();
    let mut value = Vec::new();
    for column in &table.columns {
        let mut groups: Vec<(KeyGroup, Vec<u8>)> = Vec::new();
        for &(group, key, namespace, slot) in &entries {
            if column.state.is_empty(slot) {
                continue;
            }
            filled[slot.index()] = true;
            value.clear();
            column.state.encode(slot, &mut value).map_err(|e| e.at("state", &column.name).at("table", &table.name))?;
            let entry = Entry { key, namespace, value: &value };
            match groups.last_mut() {
                Some((last, bytes)) if *last == group => write_entry(entry, bytes)?,
                _ => {
                    let mut bytes = Vec::new();
                    write_entry(entry, &mut bytes)?;
                    groups.push((group, bytes));
                }
            }
        }
        sections.push(StateSection {
            table: table.name.clone(),
            name: column.name.clone(),
            kind: column.state.kind(),
            value_type: column.state.value_type(),
            key_types: codec.types().to_vec(),
            namespaced: table.is_namespaced(),
            groups,
        });
    }
    table.suspect(slots.into_iter().filter(|slot| !filled[slot.index()]));
    Ok(sections)
}

/// Sections that no column has claimed yet, one for each state, with the groups of this task only.
pub(crate) struct Restored(Vec<StateSection>);

impl Restored {
    /// Brings the sections of several tasks together.
    pub(crate) fn new(sections: Vec<StateSection>, scope: &KeyScope) -> Result<Self> {
        let mut states: Vec<StateSection> = Vec::new();
        for mut section in sections {
            section.groups.retain(|(group, _)| scope.key_groups.contains(&u32::from(group.0)));
            match states.iter_mut().find(|s| s.table == section.table && s.name == section.name) {
                None => states.push(section),
                Some(state) => {
                    agree(state, &section)?;
                    state.groups.append(&mut section.groups);
                }
            }
        }
        states.iter_mut().for_each(|state| state.groups.sort_by_key(|(group, _)| *group));
        Ok(Self(states))
    }

    /// Sections to pass on into the next snapshot: an operator that opens a state late must not lose it.
    pub(crate) fn sections(&self) -> &[StateSection] {
        &self.0
    }

    /// The names of states that hold something, as `table.state`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().filter(|s| !s.groups.is_empty()).map(|s| format!("{}.{}", s.table, s.name)).collect()
    }

    pub(crate) fn num_bytes(&self) -> usize {
        self.0.iter().flat_map(|section| &section.groups).map(|(_, bytes)| bytes.len()).sum()
    }

    /// Takes out what was stored of a state, if its column fits.
    pub(crate) fn claim(
        &mut self,
        table: &Table,
        name: &str,
        column: &dyn StateColumn,
        codec: &KeyCodec,
    ) -> Result<Option<StateSection>> {
        let Some(at) = self.0.iter().position(|s| s.table == table.name && s.name == name) else {
            return Ok(None);
        };
        let now = StateSection {
            table: table.name.clone(),
            name: name.to_owned(),
            kind: column.kind(),
            value_type: column.value_type(),
            key_types: codec.types().to_vec(),
            namespaced: table.is_namespaced(),
            groups: Vec::new(),
        };
        agree(&self.0[at], &now)?;
        Ok(Some(self.0.remove(at)))
    }
}

fn agree(stored: &StateSection, now: &StateSection) -> Result<()> {
    let differ = |what: &str, stored: String, now: String| {
        Err(Error::user(format!("cannot restore state: {what} was {stored} when it was saved and is now {now}")))
    };
    let checked = if stored.kind != now.kind {
        differ("its kind", format!("{:?}", stored.kind), format!("{:?}", now.kind))
    } else if stored.value_type != now.value_type {
        differ("the type of its values", stored.value_type.clone(), now.value_type.clone())
    } else if stored.key_types != now.key_types {
        let types = |s: &StateSection| s.key_types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        differ("the type of its key", types(stored), types(now))
    } else if stored.namespaced != now.namespaced {
        let word = |s: &StateSection| if s.namespaced { "by window" } else { "without windows" }.to_owned();
        differ("its table", word(stored), word(now))
    } else {
        Ok(())
    };
    checked.map_err(|e: Error| e.at("state", &now.name).at("table", &now.table))
}

/// Fills column `column` of a table from what was stored of it.
pub(crate) fn read_section(
    table: &mut Table,
    column: usize,
    section: &StateSection,
    scope: &KeyScope,
    codec: &KeyCodec,
) -> Result<()> {
    let mut slots: Vec<Slot> = Vec::new();
    for (group, bytes) in &section.groups {
        let entries: Vec<_> = read_entries(bytes).collect::<Result<_>>()?;
        let keys = Keys::of(codec.decode(entries.iter().map(|entry| entry.key))?)?;
        if let Some(hash) = keys.hashes.iter().find(|hash| KeyGroup::of(**hash, scope.max_parallelism) != *group) {
            let found = KeyGroup::of(*hash, scope.max_parallelism).0;
            return Err(Error::user(format!(
                "cannot restore state: a key stored in key group {} belongs to {found} now; was it saved with a max \
                 parallelism other than {}?",
                group.0, scope.max_parallelism
            )));
        }
        let namespaces: Vec<_> = entries.iter().map(|entry| entry.namespace).collect();
        table.locate(&keys, Namespaces::Each(&namespaces), &mut slots)?;
        let state = &mut table.columns[column].state;
        for (slot, entry) in slots.iter().zip(&entries) {
            state.decode(*slot, entry.value)?;
        }
    }
    Ok(())
}
