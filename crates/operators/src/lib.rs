//! Operators over columns, one file each, made by name through the [`Registry`].
//!
//! An operator knows the contract of `flott_core` and nothing else: no runtime, connector or state backend. Closures
//! of the Rust API and Python functions are operators of their own crates.

mod aggregate;
pub mod async_request;
pub mod calc;
pub mod deduplicate;
pub mod expr;
pub mod reduce;
pub mod window_aggregate;

pub use aggregate::{Call, Function};

use std::sync::Arc;

use flott_core::{Batch, Error, OperatorInfo, Registry, Result};

/// Adds every operator of this crate.
pub fn register_all(registry: &mut Registry) {
    registry.add_operator(calc::NAME, Arc::new(calc::create));
    registry.add_operator(deduplicate::NAME, Arc::new(deduplicate::create));
    registry.add_operator(reduce::NAME, Arc::new(reduce::create));
    registry.add_operator(window_aggregate::NAME, Arc::new(window_aggregate::create));
}

/// Refuses rows that update or delete, for operators that could not take them back.
fn check_insert_only(batch: &Batch, info: &OperatorInfo) -> Result<()> {
    match batch.row_kinds() {
        Some(kinds) if kinds.iter().any(|&kind| kind != 0) => {
            Err(Error::user("expected only new rows, found one that updates or deletes").at("operator", &info.name))
        }
        _ => Ok(()),
    }
}

/// Refuses to open with another output than the plan declared.
fn check_output(info: &OperatorInfo, gives: &arrow_schema::Schema) -> Result<()> {
    let types = |schema: &arrow_schema::Schema| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    if types(&info.output) == types(gives) {
        return Ok(());
    }
    let text = format!("the plan declares {:?}, the operator gives {:?}", types(&info.output), types(gives));
    Err(Error::internal(text).at("operator", &info.name))
}
