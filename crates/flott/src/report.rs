//! What is said to the person at the terminal: [`report`] for errors, [`say`] for results. Every program and the command
//! line say them alike.

use std::io::{self, Write};

use flott_core::{Error, ErrorDomain, Result};

/// An error in plain words: what happened, whose fault it is, whether to try again.
///
/// ```
/// let text = flott::report(&flott::Error::external("cannot connect").at("host", "db1"));
/// assert_eq!(
///     text,
///     "error: cannot connect (host db1)\n\
///      Something outside flott is at fault (a disk, the network, another system): trying again may help."
/// );
/// ```
pub fn report(error: &Error) -> String {
    let advice = match (error.domain(), error.is_retryable()) {
        (ErrorDomain::External, true) => {
            "Something outside flott is at fault (a disk, the network, another system): trying again may help."
        }
        (ErrorDomain::External, false) => {
            "Something outside flott is at fault; trying again will not help until that is mended."
        }
        // The error itself says that it is flott's.
        (ErrorDomain::Internal, _) => "Trying again will hardly help.",
        _ => "The program, its options or its data are at fault: trying again gives the same error.",
    };
    format!("error: {error}\n{advice}")
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
pub fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::external(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. One that is closed is no reason to end otherwise than without it.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
