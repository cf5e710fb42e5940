//! The one error type: what happened, where, whose fault it is and whether to try again.
//!
//! Lives here: [`Error`], [`ErrorDomain`]. It knows no operator, file format or network; those add their own
//! coordinates with [`Error::at`]. Serialisable, because a failure of a task in another process must arrive whole.

use std::fmt;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

/// The result of everything in flott that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault an error is, which decides who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorDomain {
    /// The program, its configuration or its data: trying again gives the same error.
    User,
    /// A disk, network or other system: may pass by itself.
    External,
    /// A fault of flott: please report it.
    Internal,
}

/// An error for the person who must act on it.
///
/// The message says what was expected and what was found; the places say where (`file`, `line`, `column`,
/// `operator`, `record`), outermost last.
///
/// ```
/// use flott_core::{Error, ErrorDomain};
/// let error = Error::user("expected a BIGINT, found 'x1'").at("column", "price").at("line", 7).at("file", "bids.csv");
/// assert_eq!(error.to_string(), "expected a BIGINT, found 'x1' (column price, line 7, file bids.csv)");
/// assert_eq!(error.domain(), ErrorDomain::User);
/// assert!(!error.is_retryable());
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    domain: ErrorDomain,
    retryable: bool,
    message: String,
    places: Vec<(String, String)>,
}

impl Error {
    fn new(domain: ErrorDomain, retryable: bool, message: String) -> Self {
        Self(Box::new(Inner { domain, retryable, message, places: Vec::new() }))
    }

    /// The program, its configuration or its data is at fault; never retried.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorDomain::User, false, message.into())
    }

    /// Something outside is at fault (disk, network, server); retried unless [`Error::final_`] says otherwise.
    pub fn external(message: impl Into<String>) -> Self {
        Self::new(ErrorDomain::External, true, message.into())
    }

    /// flott is at fault; never retried.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorDomain::Internal, false, message.into())
    }

    /// An error of the operating system about `path`.
    pub fn io(doing: &str, path: impl fmt::Display, error: &std::io::Error) -> Self {
        let text = format!("cannot {doing}: {error}");
        match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::ReadOnlyFilesystem => Self::user(text),
            _ => Self::external(text),
        }
        .at("file", path)
    }

    /// Adds a place: the innermost is added first.
    #[must_use]
    pub fn at(mut self, what: &str, which: impl fmt::Display) -> Self {
        self.0.places.push((what.to_owned(), which.to_string()));
        self
    }

    /// Adds to the message what the reader of it should know or do.
    #[must_use]
    pub fn explain(mut self, more: impl fmt::Display) -> Self {
        self.0.message = format!("{}; {more}", self.0.message);
        self
    }

    /// Marks an external error as one that trying again will not mend.
    #[must_use]
    pub fn final_(mut self) -> Self {
        self.0.retryable = false;
        self
    }

    /// Whose fault it is.
    pub fn domain(&self) -> ErrorDomain {
        self.0.domain
    }

    /// Whether a restart may help.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// The message without the places.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The value of a place, such as `operator` or `line`.
    pub fn place(&self, what: &str) -> Option<&str> {
        self.0.places.iter().find(|(name, _)| name == what).map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (i, (what, which)) in self.0.places.iter().enumerate() {
            write!(f, "{}{what} {which}", if i == 0 { " (" } else { ", " })?;
        }
        if !self.0.places.is_empty() {
            f.write_str(")")?;
        }
        if self.0.domain == ErrorDomain::Internal {
            f.write_str("; this is a fault of flott, please report it")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} error: {self}", self.0.domain)
    }
}

impl std::error::Error for Error {}

impl From<arrow_schema::ArrowError> for Error {
    /// Kernels fail on values (an overflow, a cast): the data is at fault.
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::user(error.to_string())
    }
}

impl From<postcard::Error> for Error {
    /// Bytes that flott itself wrote cannot be read back.
    fn from(error: postcard::Error) -> Self {
        Self::internal(format!("cannot decode stored bytes: {error}"))
    }
}
