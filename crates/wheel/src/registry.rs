//! Everything a plan from Python can name.

use std::sync::Arc;

use flott_connectors::collect::Collected;
use flott_core::Registry;

/// The registry of this process; what a job collects ends in `collected`.
pub(crate) fn registry(collected: &Collected) -> Registry {
    let mut registry = Registry::default();
    flott_connectors::register_all(&mut registry);
    collected.register(&mut registry);
    registry.add_operator(flott_python::PythonFactory::NAME, Arc::new(flott_python::PythonFactory));
    registry.add_backend("hashmap", Arc::new(flott_state::HashMapBackend));
    if crate::testing::is_on() {
        crate::paced::register(&mut registry);
    }
    registry
}
