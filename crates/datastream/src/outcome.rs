//! What a user's function may return: [`Outcome`], a row or a result of one.

use std::any::Any;
use std::fmt::Display;

use flott_core::{Error, Result};

use crate::Record;

/// What a function on rows returns: a record, or a `Result` of one whose error can be shown.
///
/// A [`flott_core::Error`] keeps its domain; any other error is the user's ([`flott_core::ErrorDomain::User`]).
#[diagnostic::on_unimplemented(
    message = "a function on rows cannot return `{Self}`",
    note = "return a record or a Result of a record; write #[derive(Record)] above a struct"
)]
pub trait Outcome {
    /// The row.
    type Out: Record;
    /// The row or the error.
    fn into_result(self) -> Result<Self::Out>;
}

impl<T: Record> Outcome for T {
    type Out = T;

    #[inline]
    fn into_result(self) -> Result<T> {
        Ok(self)
    }
}

impl<T: Record, E: Display + 'static> Outcome for Result<T, E> {
    type Out = T;

    #[inline]
    fn into_result(self) -> Result<T> {
        self.map_err(|e| user_error(&e))
    }
}

/// An error of user code.
pub(crate) fn user_error<E: Display + 'static>(error: &E) -> Error {
    match (error as &dyn Any).downcast_ref::<Error>() {
        Some(ours) => ours.clone(),
        None => Error::user(error.to_string()),
    }
}
