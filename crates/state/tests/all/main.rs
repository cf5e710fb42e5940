//! What a state backend promises (`conformance`, `timers`, `restore`: tables; `model`: random operations against a
//! model), once for every backend, and the bytes of a snapshot (`encoding`).
#![allow(clippy::unwrap_used, reason = "a test's helpers are tests")]

mod conformance;
mod encoding;
mod keys;
mod model;
mod restore;
mod timers;

use flott_core::StateBackend;
use flott_state::HashMapBackend;

/// Each promise as a test for each backend: another backend is one more line.
macro_rules! backends {
    ($($backend:ident = $new:expr;)*) => {$(
        mod $backend {
            use super::*;
            backends!(@tests $new, conformance: [
                equal_keys_share_a_slot, namespaces_tell_slots_apart, equal_hashes_are_not_equal_keys,
                empty_slots_are_freed, nulls_left_by_value_mut_are_freed_after_a_snapshot,
                a_window_is_read_and_dropped_in_chunks, memory_stays_flat_over_windows, slots_beside, merging, every_kind_of_state, many_keys,
                misuse_is_refused
            ]);
            backends!(@tests $new, timers: [
                fire_once_in_order, across_services_and_tables, in_chunks, of_merged_and_cleared_slots, after_a_restore
            ]);
            backends!(@tests $new, restore: [
                what_does_not_fit_is_refused, what_nobody_claims_is_kept, damaged_entries_are_refused
            ]);
            backends!(@tests $new, model: [random_operations_and_rescaling]);
        }
    )*};
    (@tests $new:expr, $module:ident: [$($test:ident),*]) => {
        mod $module {
            use super::*;
            $(#[test] fn $test() { crate::$module::$test(&$new); })*
        }
    };
}

backends! {
    hashmap = HashMapBackend;
}

/// Keyed state at parallelism 1 for keys of these types.
fn create(backend: &dyn StateBackend, key_types: &[arrow_schema::DataType]) -> Box<dyn flott_core::KeyedState> {
    restore_all(backend, key_types, Vec::new())
}

fn scope(key_types: &[arrow_schema::DataType], index: u32, parallelism: u32) -> flott_core::state::KeyScope {
    flott_core::state::KeyScope {
        key_types: key_types.to_vec(),
        key_groups: flott_core::KeyGroup::range(index, parallelism, keys::MAX_PARALLELISM),
        max_parallelism: keys::MAX_PARALLELISM,
    }
}

fn restore_all(
    backend: &dyn StateBackend,
    key_types: &[arrow_schema::DataType],
    sections: Vec<flott_core::state::snapshot::StateSection>,
) -> Box<dyn flott_core::KeyedState> {
    backend.create(scope(key_types, 0, 1), sections).unwrap()
}

fn snapshot(state: &mut dyn flott_core::KeyedState) -> Vec<flott_core::state::snapshot::StateSection> {
    state.snapshot().unwrap().complete().unwrap()
}
