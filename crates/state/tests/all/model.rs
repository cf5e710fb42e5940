//! Random operations on several tasks against a plain map, with snapshots restored at other parallelisms between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use flott_core::state::timers::TimeDomain;
use flott_core::state::{
    KeyedState, Keys, ListState, OrderedMapState, ReducingState, StateColumn, TableId, TimerState, ValueState,
};
use flott_core::{KeyGroup, Namespace, Namespaces, Slot, StateBackend, Timestamp};
use flott_state::{decode_sections, encode_sections};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::keys::{MAX_PARALLELISM, bytes_of};
use crate::{scope, snapshot};

const DOMAINS: [TimeDomain; 2] = [TimeDomain::EventTime, TimeDomain::ProcessingTime];

/// What one (table, key, namespace) holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cell {
    value: Option<i64>,
    map: BTreeMap<i64, String>,
    list: Vec<i64>,
    sum: Option<i64>,
    timers: [BTreeSet<i64>; 2],
}

/// Table ("rows": false, "windows": true), number of the key, namespace.
type Address = (bool, usize, Namespace);
type Content = BTreeMap<Address, Cell>;

/// One task's state with its handles.
struct Task {
    state: Box<dyn KeyedState>,
    rows: TableId,
    value: ValueState<i64>,
    map: OrderedMapState<i64, String>,
    windows: TableId,
    list: ListState<i64>,
    sum: ReducingState<i64>,
    timers: [[TimerState; 2]; 2],
}

impl Task {
    fn open(mut state: Box<dyn KeyedState>) -> Self {
        let rows = state.open_table("rows", false).unwrap();
        let windows = state.open_table("windows", true).unwrap();
        let mut timers = |table| DOMAINS.map(|domain| state.timers(table, &format!("{domain:?}"), domain).unwrap());
        let timers = [timers(rows), timers(windows)];
        Self {
            value: state.value(rows, "value").unwrap(),
            map: state.ordered_map(rows, "map").unwrap(),
            list: state.list(windows, "list").unwrap(),
            sum: state.reducing(windows, "sum", |a, b| Ok(a + b)).unwrap(),
            timers,
            rows,
            windows,
            state,
        }
    }

    fn table(&self, windows: bool) -> TableId {
        if windows { self.windows } else { self.rows }
    }

    /// What a slot holds. Timers are read from their stable form.
    fn cell(&self, windows: bool, slot: Slot) -> Cell {
        let mut cell = Cell::default();
        if windows {
            cell.list = self.state.get(self.list).unwrap().values(slot).to_vec();
            cell.sum = self.state.get(self.sum).unwrap().value(slot).copied();
        } else {
            cell.value = self.state.get(self.value).unwrap().value(slot).copied();
            cell.map = self.state.get(self.map).unwrap().entries(slot).clone();
        }
        for (times, timers) in cell.timers.iter_mut().zip(self.timers[usize::from(windows)]) {
            let mut bytes = Vec::new();
            self.state.get(timers).unwrap().encode(slot, &mut bytes).unwrap();
            *times = bytes.chunks_exact(8).map(|at| i64::from_le_bytes(at.try_into().unwrap())).collect();
        }
        cell
    }

    /// Everything the task holds.
    fn content(&mut self, keys: &Pool) -> Content {
        let mut content = Content::new();
        for windows in [false, true] {
            let table = self.table(windows);
            let namespaces = self.state.namespaces(table).unwrap();
            assert!(namespaces.is_sorted());
            for namespace in namespaces {
                let slots = self.state.slots_of(table, namespace, usize::MAX).unwrap();
                assert!(!slots.is_empty(), "{namespace:?} holds something");
                let found = bytes_of(&self.state.keys_of(table, &slots).unwrap());
                for (key, slot) in found.iter().zip(slots) {
                    assert_eq!(self.state.namespace_of(table, slot), namespace);
                    let address = (windows, keys.numbers[key], namespace);
                    let twice = content.insert(address, self.cell(windows, slot));
                    assert_eq!(twice, None, "{address:?} has two slots");
                }
            }
        }
        content
    }
}

/// The keys of a run.
struct Pool {
    columns: Vec<ArrayRef>,
    /// Key bytes → number of the key.
    numbers: BTreeMap<Vec<u8>, usize>,
    groups: Vec<KeyGroup>,
}

impl Pool {
    fn new(columns: Vec<ArrayRef>) -> Self {
        let numbers = bytes_of(&columns).into_iter().zip(0..).collect();
        let hashes = flott_core::hash_keys(&columns).unwrap();
        let groups = hashes.iter().map(|hash| KeyGroup::of(*hash, MAX_PARALLELISM)).collect();
        Self { columns, numbers, groups }
    }

    fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|column| column.data_type().clone()).collect()
    }

    fn owned_by(&self, task: usize, parallelism: u32) -> Vec<usize> {
        let owner = |key: &usize| self.groups[*key].task(parallelism, MAX_PARALLELISM) as usize;
        (0..self.groups.len()).filter(|key| owner(key) == task).collect()
    }

    fn pick(&self, keys: &[usize]) -> Keys {
        let rows = UInt32Array::from_iter_values(keys.iter().map(|key| *key as u32));
        Keys::of(self.columns.iter().map(|c| arrow_select::take::take(c, &rows, None).unwrap()).collect()).unwrap()
    }
}

fn pools() -> Vec<Pool> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..30).map(|i| (i != 7).then_some(i * i - 50))));
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..30).map(|i| (i != 3).then(|| "x\0".repeat(i)))));
    let floats: ArrayRef = Arc::new(Float32Array::from_iter_values((0..30).map(|i| i as f32 / 8.0)));
    let booleans: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    let halves: ArrayRef = Arc::new(Int32Array::from_iter((0..30).map(|i| (i > 1).then_some(i / 2))));
    vec![
        Pool::new(vec![numbers.clone()]),
        Pool::new(vec![texts.clone()]),
        Pool::new(vec![floats]),
        Pool::new(vec![booleans]),
        Pool::new(vec![halves, texts]),
    ]
}

struct Run<'a> {
    backend: &'a dyn StateBackend,
    keys: &'a Pool,
    tasks: Vec<Task>,
    model: Content,
    random: SmallRng,
}

pub(crate) fn random_operations_and_rescaling(backend: &dyn StateBackend) {
    let pools = pools();
    for seed in 0..100 {
        let keys = &pools[seed as usize % pools.len()];
        let mut run =
            Run { backend, keys, tasks: Vec::new(), model: Content::new(), random: SmallRng::seed_from_u64(seed) };
        run.restore(&[], 1);
        for _ in 0..80 {
            run.call();
            if run.random.random_ratio(1, 8) {
                run.rescale();
            }
            assert_eq!(run.content(), run.model, "seed {seed}");
        }
    }
}

impl Run<'_> {
    fn restore(&mut self, stored: &[Vec<u8>], parallelism: u32) {
        let all: Vec<_> = stored.iter().flat_map(|bytes| decode_sections(bytes).unwrap()).collect();
        let open = |index| {
            let scope = scope(&self.keys.types(), index, parallelism);
            Task::open(self.backend.create(scope, all.clone()).unwrap())
        };
        self.tasks = (0..parallelism).map(open).collect();
    }

    /// Everything all tasks hold, each key in the one task that owns it.
    fn content(&mut self) -> Content {
        let parallelism = self.tasks.len() as u32;
        let mut content = Content::new();
        for (index, task) in self.tasks.iter_mut().enumerate() {
            let owned = self.keys.owned_by(index, parallelism);
            for (address, cell) in task.content(self.keys) {
                assert!(owned.contains(&address.1), "key {} in task {index} of {parallelism}", address.1);
                content.insert(address, cell);
            }
            task.state.end_call().unwrap();
        }
        content
    }

    fn rescale(&mut self) {
        let parallelism = *[1, 2, 3, 5, 16].choose(&mut self.random).unwrap();
        let stored = |run: &mut Self| -> Vec<Vec<u8>> {
            run.tasks.iter_mut().map(|task| encode_sections(&snapshot(&mut *task.state)).unwrap()).collect()
        };
        let before = stored(self);
        self.restore(&before, parallelism);
        // The bytes say what is held, not how it came to be: by way of another parallelism they are the same.
        let between = stored(self);
        self.restore(&between, before.len() as u32);
        assert_eq!(stored(self), before);
        self.restore(&between, parallelism);
    }

    /// One call of one task's operator: some operations, then its end.
    fn call(&mut self) {
        let index = self.random.random_range(0..self.tasks.len());
        let owned = self.keys.owned_by(index, self.tasks.len() as u32);
        for _ in 0..self.random.random_range(1..4) {
            match self.random.random_range(0..8) {
                0 => self.fire(index),
                1 if !owned.is_empty() => {
                    let key = *owned.choose(&mut self.random).unwrap();
                    self.merge(index, key);
                }
                _ if !owned.is_empty() => self.rows(index, &owned),
                _ => {}
            }
        }
        self.tasks[index].state.end_call().unwrap();
        self.model.retain(|_, cell| *cell != Cell::default());
    }

    fn namespace(&mut self) -> Namespace {
        let start = self.random.random_range(-2..3);
        Namespace(start, start + 5)
    }

    fn rows(&mut self, index: usize, owned: &[usize]) {
        let rows = self.random.random_range(0..12);
        let keys: Vec<usize> = (0..rows).map(|_| *owned.choose(&mut self.random).unwrap()).collect();
        let windows = self.random.random();
        let one = if windows { self.namespace() } else { Namespace::VOID };
        let each: Vec<Namespace> = match self.random.random_ratio(1, 2) {
            true if windows => keys.iter().map(|_| self.namespace()).collect(),
            _ => vec![one; rows],
        };
        let all_one = each.iter().all(|namespace| *namespace == one);
        let namespaces = if all_one { Namespaces::All(one) } else { Namespaces::Each(&each) };
        let task = &mut self.tasks[index];
        let mut slots = Vec::new();
        task.state.locate(task.table(windows), &self.keys.pick(&keys), namespaces, &mut slots).unwrap();
        for (row, slot) in slots.into_iter().enumerate() {
            let cell = self.model.entry((windows, keys[row], each[row])).or_default();
            change(&mut self.tasks[index], windows, slot, cell, &mut self.random);
        }
    }

    fn merge(&mut self, index: usize, key: usize) {
        let (into, from) = (self.namespace(), self.namespace());
        let task = &mut self.tasks[index];
        let table = task.windows;
        let mut slots = Vec::new();
        task.state.locate(table, &self.keys.pick(&[key]), Namespaces::All(into), &mut slots).unwrap();
        let other = task.state.locate_beside(table, (table, slots[0]), from).unwrap();
        task.state.merge(table, slots[0], &[other]).unwrap();
        if into != from {
            let moved = self.model.remove(&(true, key, from)).unwrap_or_default();
            let kept = self.model.entry((true, key, into)).or_default();
            kept.list.extend(moved.list);
            kept.sum = kept.sum.into_iter().chain(moved.sum).reduce(|a, b| a + b);
            kept.timers.iter_mut().zip(moved.timers).for_each(|(kept, moved)| kept.extend(moved));
        }
    }

    fn fire(&mut self, index: usize) {
        let domain = self.random.random_range(0..2);
        let (up_to, limit) = (self.random.random_range(0..30), self.random.random_range(0..6));
        let parallelism = self.tasks.len() as u32;
        let owned = self.keys.owned_by(index, parallelism);
        let mut due: Vec<i64> = self
            .model
            .iter()
            .filter(|((_, key, _), _)| owned.contains(key))
            .flat_map(|(_, cell)| cell.timers[domain].range(..=up_to).copied())
            .collect();
        due.sort_unstable();
        let task = &mut self.tasks[index];
        let mut timers = Vec::new();
        let more = task.state.due_timers(DOMAINS[domain], Timestamp(up_to), limit, &mut timers).unwrap();
        let fired: Vec<i64> = timers.iter().map(|timer| timer.at.0).collect();
        assert_eq!(fired, due[..due.len().min(limit)]);
        assert_eq!(more, due.len() > limit);
        for timer in timers {
            let table = timer.service.table;
            let key = self.keys.numbers[&bytes_of(&task.state.keys_of(table, &[timer.slot]).unwrap())[0]];
            let address = (table == task.windows, key, timer.namespace);
            assert!(self.model.get_mut(&address).unwrap().timers[domain].remove(&timer.at.0), "{address:?}");
        }
    }
}

/// One random change of one slot, and of the model's cell.
fn change(task: &mut Task, windows: bool, slot: Slot, cell: &mut Cell, random: &mut SmallRng) {
    let number = random.random_range(-9..10);
    let table = task.table(windows);
    match (random.random_range(0..6), windows) {
        (0, _) => {
            task.state.clear(table, &[slot]);
            *cell = Cell::default();
        }
        (1, _) => {}
        (2, _) => {
            let domain = random.random_range(0..2);
            let timers = task.state.get_mut(task.timers[usize::from(windows)][domain]).unwrap();
            let at = random.random_range(0..30);
            if random.random_ratio(1, 3) {
                timers.delete(slot, Timestamp(at));
                cell.timers[domain].remove(&at);
            } else {
                timers.register(slot, Timestamp(at));
                cell.timers[domain].insert(at);
            }
        }
        (3, false) => {
            task.state.get_mut(task.value).unwrap().update(slot, number);
            cell.value = Some(number);
        }
        (4, false) => {
            task.state.get_mut(task.map).unwrap().put(slot, number, format!("{number}"));
            cell.map.insert(number, format!("{number}"));
        }
        (_, false) => {
            assert_eq!(task.state.get_mut(task.value).unwrap().take(slot), cell.value.take());
            assert_eq!(task.state.get_mut(task.map).unwrap().remove(slot, &number), cell.map.remove(&number));
        }
        (3, true) => {
            task.state.get_mut(task.list).unwrap().add(slot, number);
            cell.list.push(number);
        }
        (4, true) => {
            task.state.get_mut(task.sum).unwrap().add(slot, number).unwrap();
            cell.sum = Some(cell.sum.unwrap_or(0) + number);
        }
        (_, true) => {
            assert_eq!(task.state.get_mut(task.list).unwrap().take(slot), std::mem::take(&mut cell.list));
        }
    }
}
