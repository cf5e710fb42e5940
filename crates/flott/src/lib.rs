//! flott for Rust programs: the DataStream API, everything built in, and what runs it, in one crate to depend on.
//!
//! ```
//! use flott::prelude::*;
//!
//! #[derive(Record, Clone, Debug, PartialEq)]
//! struct Departures {
//!     origin: String,
//!     count: u64,
//! }
//!
//! let env = StreamExecutionEnvironment::new();
//! let flights = env.from_collection(["JFK", "LGA", "JFK"].map(str::to_owned));
//! let busy = flights
//!     .map(|origin| Departures { origin, count: 1 })
//!     .key_by(|departures| departures.origin.clone())
//!     .reduce(|a, b| Departures { count: a.count + b.count, ..a })
//!     .filter(|departures| departures.count > 1)
//!     .collect();
//! env.execute("busy airports")?;
//! assert_eq!(busy.take(), [Departures { origin: "JFK".to_owned(), count: 2 }]);
//! # Ok::<(), flott::Error>(())
//! ```
//!
//! - [`prelude`] is what most programs use; [`connectors`] are the sources and sinks that need a configuration.
//! - [`run`] is the body of `main`: errors in plain words, exit codes, Ctrl-C.
//! - [`LocalExecutor`] runs jobs on this machine, in one process or several ([`worker`]), and can be watched while it does.
#![deny(missing_docs)]

pub mod connectors;
mod environment;
mod executor;
mod interrupt;
pub mod prelude;
mod report;
pub mod text;
pub mod worker;

pub use environment::StreamExecutionEnvironment;
pub use executor::{LocalExecutor, Moment, built_ins, run};
pub use flott_core::ErrorDomain;
pub use flott_core::config::{self, Config};
// The derive of this name refers to `::flott`, so that a program needs no other crate of ours.
pub use flott_datastream::FacadeRecord as Record;
pub use flott_datastream::*;
pub use flott_runtime::local::{JobMetrics, OperatorMetrics};
pub use interrupt::{Interrupt, is_cancelled};
pub use report::{report, say};

/// The README's programs compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
