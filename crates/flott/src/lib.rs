//! flott for Rust programs: the DataStream API and what it is made of, in one crate to depend on.
//!
//! ```
//! use flott::{Record, StreamExecutionEnvironment};
//!
//! #[derive(Record, Clone)]
//! struct Departure {
//!     origin: String,
//!     delayed: u64,
//! }
//!
//! let env = StreamExecutionEnvironment::new();
//! let departures = env.from_collection(vec![Departure { origin: "JFK".to_owned(), delayed: 1 }]);
//! departures
//!     .key_by(|departure| departure.origin.clone())
//!     .reduce(|a, b| Departure { delayed: a.delayed + b.delayed, ..a })
//!     .print();
//! assert_eq!(env.stream_graph()?.nodes.len(), 4);
//! # Ok::<(), flott::Error>(())
//! ```

pub use flott_datastream::*;
// The derive of this name refers to `::flott`, so that a program needs no other crate of ours.
pub use flott_datastream::FacadeRecord as Record;
