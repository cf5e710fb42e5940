//! One job, run in every way: the result is always that of a plain loop over its rows.

mod processes;
mod sql;
mod whole;
