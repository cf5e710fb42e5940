//! One test for each table; `UPDATE_EXPECT=1` writes what came out into it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use flott_core::{Batch, Error, Registry, RequestOrder, Result};
use flott_operators::async_request;

/// All operators of the crate, the `hashmap` backend, and the closures that tables name.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    flott_operators::register_all(&mut registry);
    registry.add_backend("hashmap", Arc::new(flott_state::HashMapBackend));
    for (name, order, rows_per_request) in [
        ("double_ordered", RequestOrder::Ordered, 1),
        ("double_unordered", RequestOrder::Unordered, 1),
        ("double_in_twos", RequestOrder::Ordered, 2),
    ] {
        let ask: async_request::Ask = Arc::new(|rows| Box::pin(std::future::ready(double(&rows))));
        registry.add_operator(name, async_request::factory(ask, order, rows_per_request));
    }
    registry
}

/// The second column times two; of the row `bad`, an error.
fn double(rows: &Batch) -> Result<Batch> {
    let names = rows.column(0).as_string::<i32>();
    if names.iter().any(|name| name == Some("bad")) {
        return Err(Error::external("the service refuses 'bad'"));
    }
    let doubled = rows.column(1).as_primitive::<Int64Type>().unary::<_, Int64Type>(|v| v * 2);
    Batch::of(rows.schema(), vec![rows.column(0).clone(), Arc::new(doubled)], rows.num_rows())
}

flott_testing::tables!(registry() => async_request, calc, deduplicate, reduce, window_aggregate);
