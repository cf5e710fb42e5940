//! Restoring into a program that has changed, and from bytes that are damaged.

use arrow_schema::DataType;
use flott_core::state::snapshot::StateSection;
use flott_core::state::{KeyScope, KeyedState, Keys};
use flott_core::{Namespace, Result, StateBackend};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::keys::{locate, numbers, slot};
use crate::{create, restore_all, scope, snapshot};

const INT: [DataType; 1] = [DataType::Int64];

/// Ten keys with a value `v` and a list `l` each, in table `t`.
fn saved(backend: &dyn StateBackend) -> Vec<StateSection> {
    let mut state = create(backend, &INT);
    let table = state.open_table("t", false).unwrap();
    let (value, list) = (state.value::<i64>(table, "v").unwrap(), state.list::<String>(table, "l").unwrap());
    let keys: Vec<i64> = (0..10).collect();
    for (key, slot) in (0..).zip(locate(&mut *state, table, &numbers(&keys), Namespace::VOID)) {
        state.get_mut(value).unwrap().update(slot, key);
        state.get_mut(list).unwrap().add(slot, format!("text {key}"));
    }
    state.end_call().unwrap();
    snapshot(&mut *state)
}

pub(crate) fn what_does_not_fit_is_refused(backend: &dyn StateBackend) {
    type Open = fn(&mut dyn KeyedState) -> Result<()>;
    let table: [(&[DataType], Open, &str); 5] = [
        (
            &INT,
            |state| {
                let table = state.open_table("t", false)?;
                state.list::<i64>(table, "v").map(drop)
            },
            "its kind was Value when it was saved and is now List (state v, table t)",
        ),
        (
            &INT,
            |state| {
                let table = state.open_table("t", false)?;
                state.value::<Option<String>>(table, "v").map(drop)
            },
            "the type of its values was i64 when it was saved and is now Option<String> (state v, table t)",
        ),
        (
            &INT,
            |state| {
                let table = state.open_table("t", true)?;
                state.list::<String>(table, "l").map(drop)
            },
            "its table was without windows when it was saved and is now by window (state l, table t)",
        ),
        (
            &[DataType::Utf8],
            |state| {
                let table = state.open_table("t", false)?;
                state.value::<i64>(table, "v").map(drop)
            },
            "the type of its key was Int64 when it was saved and is now Utf8 (state v, table t)",
        ),
        (
            &[DataType::Int64, DataType::Boolean],
            |state| {
                let table = state.open_table("t", false)?;
                state.value::<i64>(table, "v").map(drop)
            },
            "the type of its key was Int64 when it was saved and is now Int64, Boolean (state v, table t)",
        ),
    ];
    for (key_types, open, text) in table {
        let mut state = restore_all(backend, key_types, saved(backend));
        let error = open(&mut *state).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot restore state: {text}"));
        assert_eq!(error.domain(), flott_core::ErrorDomain::User);
    }

    let other = KeyScope { key_types: INT.to_vec(), key_groups: 0..100, max_parallelism: 100 };
    let mut state = backend.create(other, saved(backend)).unwrap();
    let table = state.open_table("t", false).unwrap();
    let error = state.value::<i64>(table, "v").unwrap_err().to_string();
    assert!(error.contains("was it saved with a max parallelism other than 100?"), "{error}");

    // Two tasks whose snapshots do not agree are no snapshot of one operator.
    let mut sections = saved(backend);
    sections.extend(saved(backend));
    sections[2].value_type = "f64".into();
    let error = backend.create(scope(&INT, 0, 1), sections).err().unwrap();
    assert!(error.to_string().contains("(state v, table t)"), "{error}");
}

pub(crate) fn what_nobody_claims_is_kept(backend: &dyn StateBackend) {
    let sections = saved(backend);
    let mut state = restore_all(backend, &INT, sections.clone());
    assert_eq!(state.unclaimed(), ["t.v", "t.l"]);
    let table = state.open_table("t", false).unwrap();
    state.list::<String>(table, "l").unwrap();
    assert_eq!(state.unclaimed(), ["t.v"]);
    assert!(state.num_bytes() > 0);
    // A state that is opened only after the next restore has lost nothing.
    let mut later = restore_all(backend, &INT, snapshot(&mut *state));
    let table = later.open_table("t", false).unwrap();
    let value = later.value::<i64>(table, "v").unwrap();
    let at = slot(&mut *later, table, 7, Namespace::VOID);
    assert_eq!(later.get(value).unwrap().value(at), Some(&7));
    assert_eq!(later.unclaimed(), ["t.l"]);

    // A state without entries is nobody's loss.
    let mut empty = sections;
    empty.iter_mut().for_each(|section| section.groups.clear());
    assert!(restore_all(backend, &INT, empty).unclaimed().is_empty());
}

pub(crate) fn damaged_entries_are_refused(backend: &dyn StateBackend) {
    let intact = saved(backend);
    let open = |sections: Vec<StateSection>| -> Result<()> {
        let mut state = backend.create(scope(&INT, 0, 1), sections)?;
        let table = state.open_table("t", false)?;
        state.value::<i64>(table, "v")?;
        state.list::<String>(table, "l")?;
        let keys: Keys = numbers(&[1, 2, 3]);
        locate(&mut *state, table, &keys, Namespace::VOID);
        state.end_call()
    };
    open(intact.clone()).unwrap();
    let mut random = SmallRng::seed_from_u64(1);
    for seed in 0..2000 {
        let mut damaged = intact.clone();
        let section = &mut damaged[random.random_range(0..2)];
        let group = random.random_range(0..section.groups.len());
        let bytes = &mut section.groups[group].1;
        let at = random.random_range(0..bytes.len());
        if seed % 2 == 0 {
            bytes.truncate(at);
            // Between two entries the cut cannot be seen here; the checksum of the file sees it.
            assert!(open(damaged).is_err() || whole_entries(&intact, at), "seed {seed}");
        } else {
            // A flipped bit may give another value: that too is the checksum's. It must not panic.
            bytes[at] ^= 1 << random.random_range(0..8);
            let _ = open(damaged);
        }
    }
}

/// Whether some group may be cut at `at` without cutting an entry.
fn whole_entries(sections: &[StateSection], at: usize) -> bool {
    use flott_core::state::snapshot::read_entries;
    let groups = sections.iter().flat_map(|section| &section.groups);
    groups.into_iter().any(|(_, bytes)| at <= bytes.len() && read_entries(&bytes[..at]).all(|entry| entry.is_ok()))
}
