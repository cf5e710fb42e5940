//! Timers: each fires once, in order, in chunks, with its key and namespace, also after a restore.

use arrow_schema::DataType;
use flott_core::state::timers::TimeDomain;
use flott_core::state::{KeyedState, TableId, TimerState};
use flott_core::{Namespace, StateBackend, Timestamp};

use crate::keys::{bytes_of, numbers, slot};
use crate::{create, restore_all, snapshot};

const INT: [DataType; 1] = [DataType::Int64];
const EVENT: TimeDomain = TimeDomain::EventTime;
const W: Namespace = Namespace(0, 10);

/// When, key, namespace.
type Fired = (i64, i64, Namespace);

/// Fires what is due in one call: (at, key, namespace) of each, and whether more are due.
fn fire(state: &mut dyn KeyedState, domain: TimeDomain, up_to: i64, limit: usize) -> (Vec<Fired>, bool) {
    let mut timers = Vec::new();
    let more = state.due_timers(domain, Timestamp(up_to), limit, &mut timers).unwrap();
    let fired = timers
        .iter()
        .map(|timer| {
            // Its slot is valid although nothing may be left in it.
            let table = timer.service.table;
            assert_eq!(state.namespace_of(table, timer.slot), timer.namespace);
            let key = bytes_of(&state.keys_of(table, &[timer.slot]).unwrap());
            let key = (-100..100).find(|k| bytes_of(&numbers(&[*k]).columns) == key).unwrap();
            (timer.at.0, key, timer.namespace)
        })
        .collect();
    state.end_call().unwrap();
    (fired, more)
}

fn open(state: &mut dyn KeyedState) -> (TableId, TimerState) {
    let table = state.open_table("t", true).unwrap();
    (table, state.timers(table, "timers", EVENT).unwrap())
}

fn register(state: &mut dyn KeyedState, (table, timers): (TableId, TimerState), all: &[Fired]) {
    for (at, key, namespace) in all {
        let slot = slot(state, table, *key, *namespace);
        state.get_mut(timers).unwrap().register(slot, Timestamp(*at));
    }
    state.end_call().unwrap();
}

pub(crate) fn fire_once_in_order(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let service = open(&mut *state);
    assert_eq!(state.next_timer(EVENT), None);
    // Key 1's 50 is registered twice and fires once; key 2's 20 is deleted, and 60 deleted and registered again.
    register(
        &mut *state,
        service,
        &[(50, 1, W), (10, 2, W), (50, 1, W), (20, 2, W), (60, 2, W), (-5, 3, Namespace::VOID)],
    );
    let beside = slot(&mut *state, service.0, 2, W);
    let timers = state.get_mut(service.1).unwrap();
    [20, 20, 60, 99].iter().for_each(|at| timers.delete(beside, Timestamp(*at)));
    timers.register(beside, Timestamp(60));
    state.end_call().unwrap();

    assert_eq!(state.next_timer(EVENT), Some(Timestamp(-5)));
    assert_eq!(state.next_timer(TimeDomain::ProcessingTime), None);
    let table: [(i64, &[Fired]); 5] = [
        (-6, &[]),
        (49, &[(-5, 3, Namespace::VOID), (10, 2, W)]),
        (49, &[]),
        (50, &[(50, 1, W)]),
        (i64::MAX, &[(60, 2, W)]),
    ];
    for (up_to, expected) in table {
        assert_eq!(fire(&mut *state, EVENT, up_to, 100), (expected.to_vec(), false), "up to {up_to}");
    }
    assert_eq!(state.namespaces(service.0).unwrap(), [], "slots whose last timer fired are free");
    assert_eq!(state.next_timer(EVENT), None);
}

pub(crate) fn across_services_and_tables(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let (a, b) = (state.open_table("a", false).unwrap(), state.open_table("b", true).unwrap());
    let services = [
        (a, state.timers(a, "clean-up", EVENT).unwrap(), Namespace::VOID),
        (b, state.timers(b, "fire", EVENT).unwrap(), W),
        (b, state.timers(b, "alarm", TimeDomain::ProcessingTime).unwrap(), W),
    ];
    for (i, (table, timers, namespace)) in (0..).zip(services) {
        register(&mut *state, (table, timers), &[(i, 1, namespace), (10 - i, 2, namespace)]);
    }
    assert_eq!(fire(&mut *state, TimeDomain::ProcessingTime, 5, 9), (vec![(2, 1, W)], false));
    let expected = vec![(0, 1, Namespace::VOID), (1, 1, W), (9, 2, W), (10, 2, Namespace::VOID)];
    assert_eq!(fire(&mut *state, EVENT, 10, 9), (expected, false));
    assert_eq!(state.next_timer(TimeDomain::ProcessingTime), Some(Timestamp(8)));
}

pub(crate) fn in_chunks(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let service = open(&mut *state);
    let all: Vec<_> = (0..10).map(|i| (i, i % 3, W)).collect();
    register(&mut *state, service, &all);
    assert_eq!(fire(&mut *state, EVENT, 8, 4), (all[..4].to_vec(), true));
    assert_eq!(fire(&mut *state, EVENT, 8, 0), (vec![], true));
    assert_eq!(fire(&mut *state, EVENT, 8, 5), (all[4..9].to_vec(), false), "the tenth is not due");
    assert_eq!(fire(&mut *state, EVENT, 8, 5), (vec![], false));
    assert_eq!(fire(&mut *state, EVENT, 9, 1), (all[9..].to_vec(), false), "no more than the limit, and none left");
}

pub(crate) fn of_merged_and_cleared_slots(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let service = open(&mut *state);
    let (from, cleared) = (Namespace(10, 20), Namespace(20, 30));
    register(&mut *state, service, &[(1, 1, W), (2, 1, from), (3, 1, from), (1, 1, from), (4, 1, cleared)]);
    let slots = [W, from, cleared].map(|namespace| slot(&mut *state, service.0, 1, namespace));
    state.merge(service.0, slots[0], &slots[1..2]).unwrap();
    state.clear(service.0, &slots[2..]);
    state.end_call().unwrap();
    assert_eq!(state.namespaces(service.0).unwrap(), [W]);
    // The slots freed are used again by another key, whose timer at the same instant is its own.
    register(&mut *state, service, &[(4, 2, cleared)]);
    let expected = vec![(1, 1, W), (2, 1, W), (3, 1, W), (4, 2, cleared)];
    assert_eq!(fire(&mut *state, EVENT, 100, 100), (expected, false));
}

pub(crate) fn after_a_restore(backend: &dyn StateBackend) {
    let mut state = create(backend, &INT);
    let service = open(&mut *state);
    register(&mut *state, service, &[(1, 1, W), (5, 1, W), (7, 1, W), (6, 2, W)]);
    let deleted = slot(&mut *state, service.0, 1, W);
    state.get_mut(service.1).unwrap().delete(deleted, Timestamp(7));
    assert_eq!(fire(&mut *state, EVENT, 1, 9), (vec![(1, 1, W)], false));
    let sections = snapshot(&mut *state);
    let mut restored = restore_all(backend, &INT, sections);
    open(&mut *restored);
    assert_eq!(restored.next_timer(EVENT), Some(Timestamp(5)));
    assert_eq!(fire(&mut *restored, EVENT, 9, 9), (vec![(5, 1, W), (6, 2, W)], false));
    assert_eq!(fire(&mut *state, EVENT, 9, 9), (vec![(5, 1, W), (6, 2, W)], false));
}
