//! Prints how many rows a second the `hashmap` backend turns into slots, for whoever changes it. Asserts nothing.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::DataType;
use flott_core::state::{KeyScope, Keys};
use flott_core::{Clock, Namespace, Namespaces, Result, Slot, StateBackend, SystemClock};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: usize = 4096;
const BATCHES: usize = 2560;

type Column = fn(Vec<i64>) -> ArrayRef;

fn main() -> Result<()> {
    let integers: Column = |keys| Arc::new(Int64Array::from(keys));
    let strings: Column = |keys| Arc::new(StringArray::from_iter_values(keys.iter().map(|key| format!("user-{key}"))));
    let windows: Vec<Namespace> = (0..ROWS as i64).map(|row| Namespace(row / 512, row / 512 + 1)).collect();
    let void = Namespaces::All(Namespace::VOID);
    for (key_type, column) in [(DataType::Int64, integers), (DataType::Utf8, strings)] {
        for keys in [10_000, 1_000_000] {
            run(&key_type, column, keys, void, "no windows")?;
            run(&key_type, column, keys, Namespaces::All(Namespace(0, 10)), "one window")?;
            run(&key_type, column, keys, Namespaces::Each(&windows), "8 windows")?;
        }
    }
    Ok(())
}

fn run(key_type: &DataType, column: Column, keys: i64, namespaces: Namespaces<'_>, what: &str) -> Result<()> {
    let scope = KeyScope { key_types: vec![key_type.clone()], key_groups: 0..128, max_parallelism: 128 };
    let mut state = flott_state::HashMapBackend.create(scope, Vec::new())?;
    let table = state.open_table("table", !matches!(namespaces, Namespaces::All(Namespace::VOID)))?;
    let value = state.value::<i64>(table, "value")?;
    let mut random = SmallRng::seed_from_u64(1);
    let batches = (0..BATCHES)
        .map(|_| Keys::of(vec![column((0..ROWS).map(|_| random.random_range(0..keys)).collect())]))
        .collect::<Result<Vec<_>>>()?;
    let clock = SystemClock::default();
    let mut slots: Vec<Slot> = Vec::new();
    let mut seconds = [0.0; 2];
    for pass in &mut seconds {
        for batch in &batches {
            let start = clock.monotonic_nanos();
            state.locate(table, batch, namespaces, &mut slots)?;
            *pass += (clock.monotonic_nanos() - start) as f64 / 1e9;
            let column = state.get_mut(value)?;
            for slot in &slots {
                *column.value_mut(*slot).get_or_insert(0) += 1;
            }
            state.end_call()?;
        }
    }
    let [first, again] = seconds.map(|s| (BATCHES * ROWS) as f64 / s / 1e6);
    println!("{key_type:>6} {keys:>8} keys, {what:>10}: {first:6.1} M rows/s the first time, {again:6.1} again");
    Ok(())
}
