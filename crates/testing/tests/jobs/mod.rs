//! One job, run in every way: the result is always that of a plain loop over its rows.

mod fifo;
mod finish;
mod flow;
mod golden;
mod graphs;
mod held;
mod notes;
mod ops;
mod panics;
mod pool;
mod processes;
mod random;
mod recovery;
mod row;
mod sql;
mod steady;
mod waiting;
mod whole;
