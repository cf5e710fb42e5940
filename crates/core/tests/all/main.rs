//! What `flott-core` promises to savepoints and to users, as tables: the key hash and key groups, keys as bytes,
//! errors, configuration, operator state.
#![allow(clippy::unwrap_used, reason = "a test's helpers are tests")]

mod config;
mod error;
mod key_codec;
mod key_golden;
mod operator_state;
