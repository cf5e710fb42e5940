//! The one way to the interpreter: [`attach`], counted; and exceptions as errors of flott.

use std::sync::atomic::{AtomicU64, Ordering};

use flott_core::{Error, ErrorDomain, Result};
use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

static ATTACHES: AtomicU64 = AtomicU64::new(0);
static ENCODES: AtomicU64 = AtomicU64::new(0);

/// Runs `work` holding the interpreter's lock. For a batch, a chunk of timers or a snapshot, never for a record:
/// taking the lock costs more than a hundred calls of a function.
pub fn attach<R>(work: impl FnOnce(Python<'_>) -> Result<R>) -> Result<R> {
    ATTACHES.fetch_add(1, Ordering::Relaxed);
    Python::try_attach(work).unwrap_or_else(|| Err(Error::external("the Python interpreter is shutting down").final_()))
}

/// A state value was turned into bytes.
pub(crate) fn count_encode() {
    ENCODES.fetch_add(1, Ordering::Relaxed);
}

/// How often this process has taken the interpreter's lock, and turned a state value into bytes; for tests.
pub fn counts() -> (u64, u64) {
    (ATTACHES.load(Ordering::Relaxed), ENCODES.load(Ordering::Relaxed))
}

/// An exception outside of a record: its traceback, without flott's own frames.
pub fn exception(py: Python<'_>, error: &PyErr) -> Error {
    let text = py
        .import("flott._run")
        .and_then(|module| module.call_method1("format_exception", (raised(py, error),)))
        .and_then(|text| text.extract::<String>());
    Error::user(text.unwrap_or_else(|_| error.to_string()))
}

/// The exception object. Before Python 3.12 it is only told its traceback when it leaves the engine.
pub(crate) fn raised(py: Python<'_>, error: &PyErr) -> Py<PyBaseException> {
    error.clone_ref(py).into_value(py)
}

/// An error of flott as the exception that Python sees: `ValueError` where the program is at fault.
pub fn raise(error: &Error) -> PyErr {
    match error.domain() {
        ErrorDomain::User => PyValueError::new_err(error.to_string()),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}
