//! Slots, namespaces and columns: what every backend has to do.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::DataType;
use flott_core::key::fmix64;
use flott_core::state::columns::{Aggregate, DenseColumn};
use flott_core::state::timers::TimeDomain;
use flott_core::state::{KeyedState, Keys, TableId};
use flott_core::{ErrorDomain, Namespace, Namespaces, Result, Slot, StateBackend, Timestamp};

use crate::keys::{bytes_of, locate, numbers, slot, texts};
use crate::{create, restore_all, snapshot};

const VOID: Namespace = Namespace::VOID;
const INT: [DataType; 1] = [DataType::Int64];

pub(crate) fn equal_keys_share_a_slot(backend: &dyn StateBackend) {
    let decimals = |values: Vec<i128>| Decimal128Array::from(values).with_precision_and_scale(9, 2).unwrap();
    // (key columns, for every row the first row with an equal key)
    let table: Vec<(Vec<ArrayRef>, &[usize])> = vec![
        (vec![Arc::new(Int64Array::from(vec![Some(0), None, Some(-1), Some(0), None]))], &[0, 1, 2, 0, 1]),
        (vec![Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))], &[0, 1, 2, 0]),
        (vec![Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0]))], &[0, 0, 2, 2, 4]),
        (vec![Arc::new(StringArray::from(vec![Some(""), None, Some("\0"), Some(""), Some("\0\0")]))], &[0, 1, 2, 0, 4]),
        (vec![Arc::new(decimals(vec![1, 100, 1]))], &[0, 1, 0]),
        (
            vec![
                Arc::new(StringArray::from(vec!["ab", "a", "ab", "a"])),
                Arc::new(StringArray::from(vec![Some("c"), Some("bc"), Some("c"), None])),
            ],
            &[0, 1, 0, 3],
        ),
    ];
    for (columns, expected) in table {
        let types: Vec<_> = columns.iter().map(|c| c.data_type().clone()).collect();
        let mut state = create(backend, &types);
        let id = state.open_table("t", false).unwrap();
        let value = state.value::<usize>(id, "row").unwrap();
        let keys = Keys::of(columns.clone()).unwrap();
        let slots = locate(&mut *state, id, &keys, VOID);
        for (row, slot) in slots.iter().enumerate() {
            let first = *state.get_mut(value).unwrap().value_mut(*slot).get_or_insert(row);
            assert_eq!(first, expected[row], "{types:?}, row {row}");
        }
        // The keys come back as they are, and the same after the call.
        assert_eq!(bytes_of(&state.keys_of(id, &slots).unwrap()), bytes_of(&columns), "{types:?}");
        state.end_call().unwrap();
        for (row, slot) in locate(&mut *state, id, &keys, VOID).iter().enumerate() {
            assert_eq!(state.get(value).unwrap().value(*slot), Some(&expected[row]), "{types:?}, row {row}");
        }
        let nothing = Keys::of(columns.iter().map(|c| c.slice(0, 0)).collect()).unwrap();
        assert_eq!(locate(&mut *state, id, &nothing, VOID), []);
    }
}

pub(crate) fn namespaces_tell_slots_apart(backend: &dyn StateBackend) {
    for keys in [numbers(&[1, 1, 2, 1, 2, 2]), texts(&["a", "a", "b", "a", "b", "b"])] {
        let mut state = create(backend, &[keys.columns[0].data_type().clone()]);
        let id = state.open_table("t", true).unwrap();
        let list = state.list::<usize>(id, "rows").unwrap();
        let (a, b) = (Namespace(-10, 0), Namespace(0, 10));
        let mut slots = Vec::new();
        state.locate(id, &keys, Namespaces::Each(&[a, b, a, a, b, VOID]), &mut slots).unwrap();
        slots.iter().enumerate().for_each(|(row, slot)| state.get_mut(list).unwrap().add(*slot, row));
        state.end_call().unwrap();
        assert_eq!(state.namespaces(id).unwrap(), [a, VOID, b]);
        let rows = |state: &mut dyn KeyedState, namespace| {
            let slots = state.slots_of(id, namespace, 10).unwrap();
            assert!(slots.iter().all(|slot| state.namespace_of(id, *slot) == namespace));
            let column = state.get(list).unwrap();
            let mut rows: Vec<_> = slots.iter().map(|slot| column.values(*slot).to_vec()).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(&mut *state, a), [vec![0, 3], vec![2]]);
        assert_eq!(rows(&mut *state, b), [[1], [4]]);
        assert_eq!(rows(&mut *state, VOID), [[5]]);
        assert!(rows(&mut *state, Namespace(1, 1)).is_empty());
        state.end_call().unwrap();
    }
}

pub(crate) fn equal_hashes_are_not_equal_keys(backend: &dyn StateBackend) {
    // h = fmix64(fmix64(SEED ^ a) ^ b): for any two a there are two b that make the hashes equal.
    let first = |a: i64| fmix64(flott_core::key::SEED ^ a as u64);
    let (a, b) = ([1, 2], [7, (first(1) ^ 7 ^ first(2)) as i64]);
    let keys = Keys::of(vec![Arc::new(Int64Array::from(a.to_vec())), Arc::new(Int64Array::from(b.to_vec()))]).unwrap();
    assert_eq!(keys.hashes[0], keys.hashes[1]);
    both_are_kept(backend, &keys);

    // The number whose word gives the hash of NULL: SEED ^ word = SEED + TURN ^ NULL_WORD (key.rs).
    let null = flott_core::key::SEED.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ 0x6e75_6c6c_0000_0001;
    let number = (null ^ flott_core::key::SEED) as i64;
    let keys = Keys::of(vec![Arc::new(Int64Array::from(vec![None, Some(number)]))]).unwrap();
    assert_eq!(keys.hashes[0], keys.hashes[1]);
    both_are_kept(backend, &keys);
}

fn both_are_kept(backend: &dyn StateBackend, keys: &Keys) {
    let types: Vec<_> = keys.columns.iter().map(|c| c.data_type().clone()).collect();
    let mut state = create(backend, &types);
    let id = state.open_table("t", false).unwrap();
    let value = state.value::<usize>(id, "row").unwrap();
    for call in 0..3 {
        let slots = locate(&mut *state, id, keys, VOID);
        assert_ne!(slots[0], slots[1]);
        for (row, slot) in slots.iter().enumerate() {
            assert_eq!(state.get(value).unwrap().value(*slot), (call > 0).then_some(&row));
            state.get_mut(value).unwrap().update(*slot, row);
        }
        state.end_call().unwrap();
    }
    // With one gone the other is still found.
    let slots = locate(&mut *state, id, keys, VOID);
    state.clear(id, &slots[..1]);
    state.end_call().unwrap();
    let slots = locate(&mut *state, id, keys, VOID);
    let values: Vec<_> = slots.iter().map(|slot| state.get(value).unwrap().value(*slot).copied()).collect();
    assert_eq!(values, [None, Some(1)]);
}

pub(crate) fn empty_slots_are_freed(backend: &dyn StateBackend) {
    for namespaced in [false, true] {
        let mut state = create(backend, &INT);
        let id = state.open_table("t", namespaced).unwrap();
        let value = state.value::<i64>(id, "v").unwrap();
        let map = state.map::<String, i64>(id, "m").unwrap();
        // Ten calls of a hundred other keys each, all emptied again in different ways.
        for call in 0..10 {
            let keys: Vec<i64> = (0..100).map(|key| call * 100 + key).collect();
            let slots = locate(&mut *state, id, &numbers(&keys), VOID);
            assert!(slots.iter().all(|slot| slot.0 < 100), "slots are used again");
            for (slot, key) in slots.iter().zip(keys) {
                match key % 4 {
                    0 => {}
                    1 => {
                        state.get_mut(value).unwrap().update(*slot, key);
                        assert_eq!(state.get_mut(value).unwrap().take(*slot), Some(key));
                    }
                    2 => {
                        state.get_mut(map).unwrap().put(*slot, "a".into(), key);
                        assert_eq!(state.get_mut(map).unwrap().remove(*slot, &"a".into()), Some(key));
                    }
                    _ => {
                        state.get_mut(value).unwrap().update(*slot, key);
                        state.get_mut(map).unwrap().put(*slot, "a".into(), key);
                        state.clear(id, &[*slot]);
                    }
                }
            }
            assert_eq!(state.namespaces(id).unwrap(), []);
            state.end_call().unwrap();
        }
        // Emptied in one state but not in the other; emptied and filled again; emptied twice.
        let slots = locate(&mut *state, id, &numbers(&[1, 2, 3]), VOID);
        state.get_mut(value).unwrap().update(slots[0], 1);
        state.get_mut(map).unwrap().put(slots[0], "a".into(), 1);
        state.get_mut(value).unwrap().take(slots[0]);
        state.clear(id, &[slots[1], slots[1], slots[2], slots[2]]);
        state.get_mut(value).unwrap().update(slots[1], 2);
        state.end_call().unwrap();
        assert_eq!(state.namespaces(id).unwrap(), [VOID]);
        let kept = state.slots_of(id, VOID, 10).unwrap();
        let mut kept = bytes_of(&state.keys_of(id, &kept).unwrap());
        kept.sort();
        assert_eq!(kept, bytes_of(&numbers(&[1, 2]).columns), "namespaced: {namespaced}");
        state.end_call().unwrap();
    }
}

/// `value_mut` can leave `None` behind without the column knowing.
pub(crate) fn nulls_left_by_value_mut_are_freed_after_a_snapshot(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let id = state.open_table("t", false).unwrap();
    let value = state.value::<i64>(id, "v").unwrap();
    for fill in [Some(1), None] {
        let slot = slot(&mut *state, id, 5, VOID);
        *state.get_mut(value).unwrap().value_mut(slot) = fill;
        state.end_call().unwrap();
    }
    assert!(snapshot(&mut *state)[0].groups.is_empty());
    state.end_call().unwrap();
    assert_eq!(slot(&mut *state, id, 6, VOID), Slot(0), "the slot of key 5 is used again");
}

pub(crate) fn a_window_is_read_and_dropped_in_chunks(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let id = state.open_table("t", true).unwrap();
    let sum = state.reducing::<i64>(id, "sum", |a, b| Ok(a + b)).unwrap();
    let keys: Vec<i64> = (0..1000).collect();
    let windows = [Namespace(0, 10), Namespace(10, 20)];
    for (window, row) in windows.iter().zip([1, 2]) {
        for slot in locate(&mut *state, id, &numbers(&keys), *window) {
            state.get_mut(sum).unwrap().add(slot, row).unwrap();
        }
        state.end_call().unwrap();
    }
    let mut read = 0;
    let mut seen = Vec::new();
    loop {
        let slots = state.slots_of(id, windows[0], 300).unwrap();
        assert!(slots.len() <= 300);
        if slots.is_empty() {
            break;
        }
        read += slots.iter().map(|slot| state.get(sum).unwrap().value(*slot).unwrap()).sum::<i64>();
        seen.extend(bytes_of(&state.keys_of(id, &slots).unwrap()));
        state.clear(id, &slots);
        // In the same call and in the next: cleared slots do not come again.
        if seen.len() > 500 {
            state.end_call().unwrap();
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!((read, seen.len()), (1000, 1000));
    state.end_call().unwrap();
    assert_eq!(state.namespaces(id).unwrap(), [windows[1]]);
    assert_eq!(state.slots_of(id, windows[1], 5000).unwrap().len(), 1000);
}

pub(crate) fn memory_stays_flat_over_windows(backend: &dyn StateBackend) {
    let mut state = create(backend, &[DataType::Utf8]);
    let id = state.open_table("t", true).unwrap();
    let count = state.value::<i64>(id, "count").unwrap();
    let mut held = Vec::new();
    for start in 0..2000 {
        let window = Namespace(start, start + 1);
        for slot in locate(&mut *state, id, &texts(&["a", "b", "c"]), window) {
            state.get_mut(count).unwrap().update(slot, start);
        }
        if start > 0 {
            let past = state.slots_of(id, Namespace(start - 1, start), 10).unwrap();
            assert_eq!(past.len(), 3);
            state.clear(id, &past);
        }
        state.end_call().unwrap();
        held.push(state.num_bytes());
    }
    // Two windows are held at once at most, and so it is from the third on.
    assert_eq!(held[1999], held[10]);
}

pub(crate) fn slots_beside(backend: &dyn StateBackend) {
    let keys = [numbers(&[1, 2]), texts(&["a", "b"])];
    let with_null = Keys::of(vec![Arc::new(Int64Array::from(vec![None, Some(0)]))]).unwrap();
    for keys in keys.into_iter().chain([with_null]) {
        let mut state = create(backend, &[keys.columns[0].data_type().clone()]);
        let (rows, windows) = (state.open_table("rows", false).unwrap(), state.open_table("windows", true).unwrap());
        let count = state.value::<u32>(windows, "count").unwrap();
        let window = Namespace(0, 10);
        let here = locate(&mut *state, rows, &keys, VOID);
        let there = state.locate_beside(windows, (rows, here[1]), window).unwrap();
        *state.get_mut(count).unwrap().value_mut(there) = Some(3);
        assert_eq!(locate(&mut *state, windows, &keys, window)[1], there);
        let next = state.locate_beside(windows, (windows, there), Namespace(10, 20)).unwrap();
        assert_ne!(next, there);
        assert_eq!(state.locate_beside(windows, (windows, next), window).unwrap(), there);
        assert_eq!(state.namespace_of(windows, next), Namespace(10, 20));
        let found = bytes_of(&state.keys_of(windows, &[there, next]).unwrap());
        let expected = bytes_of(&keys.columns);
        assert_eq!(found, [expected[1].clone(), expected[1].clone()]);
        state.end_call().unwrap();
    }
}

pub(crate) fn merging(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let id = state.open_table("sessions", true).unwrap();
    let list = state.list::<i64>(id, "list").unwrap();
    let sum = state.reducing::<i64>(id, "sum", |a, b| Ok(a + b)).unwrap();
    let mean = state.aggregating(id, "mean", Mean).unwrap();
    let windows: Vec<_> = (0..4).map(|i| Namespace(i, i + 1)).collect();
    let slots: Vec<_> = windows.iter().map(|window| slot(&mut *state, id, 7, *window)).collect();
    for (at, value) in [(0, 1), (1, 2), (1, 3), (2, 10)] {
        state.get_mut(list).unwrap().add(slots[at], value);
        state.get_mut(sum).unwrap().add(slots[at], value).unwrap();
        state.get_mut(mean).unwrap().add(slots[at], value).unwrap();
    }
    // Into an empty one, from itself (nothing), from an empty one, from two.
    state.merge(id, slots[3], &[slots[3], slots[0]]).unwrap();
    state.merge(id, slots[3], &[slots[0], slots[1]]).unwrap();
    assert_eq!(state.get(list).unwrap().values(slots[3]), [1, 2, 3]);
    assert_eq!(state.get(sum).unwrap().value(slots[3]), Some(&6));
    assert_eq!(state.get(mean).unwrap().result(slots[3]).unwrap(), Some(2));
    state.end_call().unwrap();
    assert_eq!(state.namespaces(id).unwrap(), windows[2..]);

    let refused = state.open_table("refused", true).unwrap();
    state.value::<i64>(refused, "last").unwrap();
    let slots = [VOID, windows[1]].map(|window| slot(&mut *state, refused, 7, window));
    let error = state.merge(refused, slots[0], &slots[1..]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "value state cannot be used with merging windows; use list, reducing or aggregating state (state last, table \
         refused)"
    );
}

/// The truncated mean of whole numbers.
struct Mean;

impl Aggregate for Mean {
    type In = i64;
    type Accumulator = (i64, i64);
    type Out = i64;
    fn create(&self) -> (i64, i64) {
        (0, 0)
    }
    fn add(&self, value: i64, (sum, count): &mut (i64, i64)) -> Result<()> {
        (*sum, *count) = (*sum + value, *count + 1);
        Ok(())
    }
    fn result(&self, (sum, count): &(i64, i64)) -> Result<i64> {
        Ok(sum / count)
    }
    fn merge(&self, into: &mut (i64, i64), from: (i64, i64)) -> Result<()> {
        *into = (into.0 + from.0, into.1 + from.1);
        Ok(())
    }
}

pub(crate) fn every_kind_of_state(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    fill_every_kind(&mut *state, true);
    let sections = snapshot(&mut *state);
    assert_eq!(sections.len(), 8);
    assert_eq!(snapshot(&mut *state), sections, "a snapshot changes nothing");
    let mut restored = restore_all(backend, &INT, sections.clone());
    fill_every_kind(&mut *restored, false);
    assert_eq!(restored.unclaimed(), Vec::<String>::new());
    assert_eq!(snapshot(&mut *restored), sections);
}

/// Opens a state of every kind, fills it or not, and checks what is in it.
fn fill_every_kind(state: &mut dyn KeyedState, fill: bool) {
    let id = state.open_table("t", false).unwrap();
    let value = state.value::<(i64, String)>(id, "value").unwrap();
    let list = state.list::<String>(id, "list").unwrap();
    let map = state.map::<String, i64>(id, "map").unwrap();
    let ordered = state.ordered_map::<i64, String>(id, "ordered").unwrap();
    let sum = state.reducing::<i64>(id, "sum", |a, b| Ok(a + b)).unwrap();
    let mean = state.aggregating(id, "mean", Mean).unwrap();
    let dense = state.open(id, "dense", DenseColumn::<f64>::default()).unwrap();
    let timers = state.timers(id, "timers", TimeDomain::EventTime).unwrap();
    let slot = slot(state, id, 42, VOID);
    if fill {
        state.get_mut(value).unwrap().update(slot, (1, "one".into()));
        state.get_mut(list).unwrap().update(slot, vec!["a".into(), String::new(), "c".into()]);
        state.get_mut(map).unwrap().put(slot, "k".into(), -5);
        state.get_mut(ordered).unwrap().put(slot, 2, "two".into());
        state.get_mut(ordered).unwrap().put(slot, -2, "minus two".into());
        [4, 5].iter().for_each(|v| state.get_mut(sum).unwrap().add(slot, *v).unwrap());
        [4, 6].iter().for_each(|v| state.get_mut(mean).unwrap().add(slot, *v).unwrap());
        let column = state.get_mut(dense).unwrap();
        (column.values[slot.index()], column.filled[slot.index()]) = (0.5, true);
        state.get_mut(timers).unwrap().register(slot, Timestamp(77));
    }
    assert_eq!(state.get(value).unwrap().value(slot), Some(&(1, "one".to_owned())));
    assert_eq!(state.get(list).unwrap().values(slot), ["a", "", "c"]);
    assert_eq!(state.get(map).unwrap().get(slot, &"k".to_owned()), Some(&-5));
    assert_eq!(state.get(ordered).unwrap().entries(slot).keys().collect::<Vec<_>>(), [&-2, &2]);
    assert_eq!(state.get(sum).unwrap().value(slot), Some(&9));
    assert_eq!(state.get(mean).unwrap().result(slot).unwrap(), Some(5));
    let column = state.get(dense).unwrap();
    assert_eq!((column.values[slot.index()], column.filled[slot.index()]), (0.5, true));
    assert_eq!(state.next_timer(TimeDomain::EventTime), Some(Timestamp(77)));
    state.end_call().unwrap();
}

pub(crate) fn many_keys(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let id = state.open_table("t", true).unwrap();
    let value = state.value::<i64>(id, "v").unwrap();
    let all: Vec<i64> = (0..50_000).map(|i| i * 7 - 100_000).collect();
    let windows: Vec<_> = (0..1000).map(|row| Namespace(row % 3, 0)).collect();
    let each = |state: &mut dyn KeyedState, act: &mut dyn FnMut(&mut Option<i64>, i64)| {
        for keys in all.chunks(1000) {
            let mut slots = Vec::new();
            state.locate(id, &numbers(keys), Namespaces::Each(&windows), &mut slots).unwrap();
            let column = state.get_mut(value).unwrap();
            slots.iter().zip(keys).for_each(|(slot, key)| act(column.value_mut(*slot), *key));
            let emptied: Vec<_> = slots.into_iter().filter(|slot| column.value(*slot).is_none()).collect();
            state.clear(id, &emptied);
            state.end_call().unwrap();
        }
    };
    let before = state.num_bytes();
    each(&mut *state, &mut |value, key| assert_eq!(value.replace(key), None));
    assert!(state.num_bytes() > before + 50_000 * 16, "{} bytes", state.num_bytes());
    each(&mut *state, &mut |value, key| assert_eq!(*value, Some(key)));
    each(&mut *state, &mut |value, key| *value = value.filter(|_| key % 2 == 0));
    each(&mut *state, &mut |value, key| assert_eq!(*value, (key % 2 == 0).then_some(key)));
    let held: usize = (0..3).map(|w| state.slots_of(id, Namespace(w, 0), usize::MAX).unwrap().len()).sum();
    assert_eq!(held, 25_000);
}

pub(crate) fn misuse_is_refused(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let plain = state.open_table("plain", false).unwrap();
    assert_eq!(state.open_table("plain", false).unwrap(), plain);
    let error = state.open_table("plain", true).unwrap_err();
    assert_eq!(error.to_string(), "a table was opened both with and without namespaces (table plain)");
    state.value::<i64>(plain, "v").unwrap();
    let error = state.list::<i64>(plain, "v").unwrap_err();
    assert_eq!(error.to_string(), "two states have this name (state v, table plain)");

    let window = Namespace(0, 10);
    let mut refused = |table: TableId, keys: &Keys, namespaces: Namespaces<'_>| {
        let error = state.locate(table, keys, namespaces, &mut Vec::new()).unwrap_err();
        assert_eq!(error.domain(), ErrorDomain::Internal);
        error.message().to_owned()
    };
    let none = "namespace Namespace(0, 10) in a table opened without namespaces";
    assert_eq!(refused(plain, &numbers(&[1]), Namespaces::All(window)), none);
    assert_eq!(refused(plain, &numbers(&[1, 2]), Namespaces::Each(&[VOID, window])), none);
    assert_eq!(
        refused(plain, &numbers(&[1, 2]), Namespaces::Each(&[VOID])),
        "expected 2 namespaces as there are keys, found 1"
    );
    assert_eq!(refused(plain, &texts(&["a"]), Namespaces::All(VOID)), "expected keys of types [Int64], found [Utf8]");
    let mut short = numbers(&[1, 2]);
    short.hashes = short.hashes.slice(0, 1);
    assert_eq!(refused(plain, &short, Namespaces::All(VOID)), "expected 1 rows as there are hashes, found 2");
    let list = DataType::new_list(DataType::Int64, true);
    assert!(backend.create(crate::scope(&[list], 0, 1), Vec::new()).is_err_and(|e| e.domain() == ErrorDomain::User));
}
