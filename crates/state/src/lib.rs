//! Where keyed state lives: the backends, and the bytes of a snapshot's sections.
//!
//! - [`HashMapBackend`] keeps everything in memory, as typed columns under a dense index; it encodes only when a
//!   snapshot is taken.
//! - [`encode_sections`] and [`decode_sections`] are the stable form of what a snapshot holds.
//!
//! A look-up, from the outside in: `hashmap` (the contract) → `table` (rows to slots) → `index` (hash to slot) and
//! `namespaces` (window to slots). Does not live here: the contract and the columns (`flott_core::state`), where
//! snapshots are stored and when they are taken (the checkpoint crate).
#![deny(missing_docs)]

mod encoding;
mod hashmap;
mod index;
mod namespaces;
mod sections;
mod table;

pub use encoding::{decode_sections, encode_sections};
pub use hashmap::HashMapBackend;
