//! Calls of the user's functions, whose panics are errors of the job.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flott_core::{Error, Result};

/// Calls functions of the user's: a panic in one is an error of the job, not the end of the thread.
pub(crate) fn catching<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// Calls what nobody waits for an answer of (giving up, dropping): a panic in it changes nothing any more.
pub(crate) fn regardless(call: impl FnOnce()) {
    // The job is failing already, or over, and its reason is the better one.
    let _ = catch_unwind(AssertUnwindSafe(call));
}

/// What a panic that was caught is for people.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::user(format!("a function of the job panicked: {}", text.unwrap_or("without a message")))
}
