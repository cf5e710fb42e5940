//! Formats: bytes to Arrow rows and back. It knows no files and no network: those feed the decoders.
//!
//! - [`Decoder`]: fed with bytes in pieces of any size through its [`Input`], gives batches and says where in the
//!   input the last row ended, so that reading can go on there. [`csv::CsvDecoder`], [`lines::LinesDecoder`].
//! - [`csv::CsvWriter`]: rows to CSV with Flink's quoting.
//! - [`text`]: single values as text, as Flink prints them.
#![deny(missing_docs)]

mod civil;
pub mod csv;
mod decoder;
mod input;
pub mod lines;
pub mod text;

pub use decoder::{Decoded, Decoder};
pub use input::Input;
