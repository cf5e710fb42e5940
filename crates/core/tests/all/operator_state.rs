//! Operator state: how entries are dealt out at another parallelism.

use flott_core::{OperatorState, Redistribution};

fn task(entries: &[&str]) -> OperatorState {
    let all = || entries.iter().map(|entry| entry.as_bytes().to_vec()).collect();
    let mut state = OperatorState::default();
    state.put("split", Redistribution::Split, all());
    state.put("union", Redistribution::Union, all());
    state.put("broadcast", Redistribution::Broadcast, vec![b"rules".to_vec()]);
    state
}

fn texts(state: &OperatorState, name: &str) -> String {
    state.get(name).iter().map(|entry| String::from_utf8_lossy(entry)).collect::<Vec<_>>().join(" ")
}

#[test]
fn redistribution() {
    let old = [task(&["a", "b", "c"]), task(&[]), task(&["d"])];
    // (new parallelism, split entries of each new task); at the old parallelism everything stays where it is.
    let table: [(u32, &[&str]); 4] =
        [(1, &["a b c d"]), (2, &["a c", "b d"]), (3, &["a b c", "", "d"]), (5, &["a", "b", "c", "d", ""])];
    for (parallelism, expected) in table {
        for (index, split) in (0..).zip(expected) {
            let new = OperatorState::redistribute(&old, index, parallelism);
            assert_eq!(texts(&new, "split"), *split, "task {index} of {parallelism}");
            assert_eq!(texts(&new, "union"), "a b c d");
            assert_eq!(texts(&new, "broadcast"), "rules");
            assert_eq!(texts(&new, "never put"), "");
        }
    }
}

#[test]
fn nothing_stays_nothing() {
    assert!(OperatorState::redistribute(&[], 0, 3).is_empty());
    assert!(OperatorState::redistribute(&[OperatorState::default()], 0, 3).is_empty());
    let mut state = task(&["a"]);
    state.put("split", Redistribution::Split, vec![b"z".to_vec()]);
    assert_eq!(texts(&state, "split"), "z", "put replaces");
    let back: OperatorState = postcard::from_bytes(&postcard::to_stdvec(&state).unwrap()).unwrap();
    assert_eq!(back, state);
}
