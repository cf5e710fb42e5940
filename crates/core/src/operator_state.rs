//! State of a task that belongs to no key: [`OperatorState`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How the entries of a state are dealt out on restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Redistribution {
    /// Entries are split evenly among the new tasks.
    Split,
    /// Every new task gets all entries of all old ones.
    Union,
    /// All old tasks held the same; every new one gets one copy.
    Broadcast,
}

/// Named lists of encoded entries: filled in `flush`, read in `open`.
///
/// ```
/// use flott_core::{OperatorState, Redistribution};
/// let mut task = OperatorState::default();
/// task.put("splits", Redistribution::Split, vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
/// let second = OperatorState::redistribute(&[task], 1, 2);
/// assert_eq!(second.get("splits"), [b"b".to_vec()]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorState(BTreeMap<String, (Redistribution, Vec<Vec<u8>>)>);

impl OperatorState {
    /// Replaces the entries of a state.
    pub fn put(&mut self, name: &str, how: Redistribution, entries: Vec<Vec<u8>>) {
        self.0.insert(name.to_owned(), (how, entries));
    }

    /// The entries of a state; none if it was never put.
    pub fn get(&self, name: &str) -> &[Vec<u8>] {
        self.0.get(name).map_or(&[], |(_, entries)| entries)
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The state of new task `index` of `parallelism`, from all old tasks' in the order of their indices (a finished
    /// one's is empty). Split entries stay where they are if there are as many tasks as before; else they are dealt out
    /// round-robin in that order.
    #[must_use]
    pub fn redistribute(old: &[Self], index: u32, parallelism: u32) -> Self {
        let mut new = Self::default();
        let names: std::collections::BTreeSet<_> = old.iter().flat_map(|task| task.0.keys()).collect();
        for name in names {
            let tasks: Vec<_> = old.iter().filter_map(|task| task.0.get(name)).collect();
            let how = tasks[0].0;
            let all = tasks.iter().flat_map(|(_, entries)| entries).cloned();
            let entries = match how {
                Redistribution::Union => all.collect(),
                Redistribution::Broadcast => tasks[0].1.clone(),
                Redistribution::Split if old.len() == parallelism as usize => {
                    old.get(index as usize).map_or(Vec::new(), |own| own.get(name).to_vec())
                }
                Redistribution::Split => all
                    .enumerate()
                    .filter(|(i, _)| i % parallelism as usize == index as usize)
                    .map(|(_, e)| e)
                    .collect(),
            };
            new.put(name, how, entries);
        }
        new
    }
}
