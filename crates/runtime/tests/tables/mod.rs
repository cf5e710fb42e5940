//! The other parts of a task, one by one.

mod chain;
mod master;
mod partition;
mod requests;
mod source;
mod watermarks;
