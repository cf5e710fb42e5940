//! How a worker process is started: the edges know the command ([`Launcher`]), the runtime what it must know ([`Seat`]).

use std::fmt;
use std::net::SocketAddr;
use std::process::Command;
use std::str::FromStr;

use flott_core::{Error, Result};
use flott_plan::HostId;

/// The environment variable in which a launcher may hand a worker its [`Seat`]: other users do not see it.
pub const SEAT_VARIABLE: &str = "FLOTT_WORKER";

/// Which worker a process is, and where its master is. As text: `1 127.0.0.1:4242 token`.
///
/// ```
/// use flott_runtime::processes::Seat;
/// let seat: Seat = "1 127.0.0.1:4242 s e c r e t".parse()?;
/// assert_eq!(seat.host.0, 1);
/// assert_eq!(seat.to_string(), "1 127.0.0.1:4242 s e c r e t");
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its number in the execution graph.
    pub host: HostId,
    /// Where the master listens.
    pub address: SocketAddr,
    /// The secret of the job.
    pub token: String,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.host.0, self.address, self.token)
    }
}

impl FromStr for Seat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, ' ');
        let seat = parts.next().zip(parts.next()).zip(parts.next()).and_then(|((host, address), token)| {
            Some(Self { host: HostId(host.parse().ok()?), address: address.parse().ok()?, token: token.to_owned() })
        });
        // The token is not for logs.
        seat.ok_or_else(|| Error::user(format!("expected a host, an address and a token in {SEAT_VARIABLE}")))
    }
}

/// Knows how a worker is started.
pub trait Launcher: Send + Sync {
    /// The command of a worker, which calls [`super::run_worker`] with this seat. The runtime starts it with no input
    /// and reads its standard error; its standard output is where the command says.
    fn command(&self, seat: &Seat) -> Result<Command>;
}

impl<F: Fn(&Seat) -> Result<Command> + Send + Sync> Launcher for F {
    fn command(&self, seat: &Seat) -> Result<Command> {
        self(seat)
    }
}
