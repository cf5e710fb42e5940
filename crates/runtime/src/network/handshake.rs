//! The handshake: both sides say at once who they are and check what the other said, so both come to the same verdict.
//!
//! ```text
//! magic 8 bytes · version u16 · length u16 · hello (postcard), little-endian
//! ```
//!
//! Magic, version and length never change their form: that is how two versions can tell each other apart.

use std::net::SocketAddr;

use flott_core::{Error, Result};
use flott_plan::HostId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a flott process says first. The line ends show a connection that is not kept as bytes.
pub const MAGIC: [u8; 8] = *b"flott\r\n\0";

/// The version of everything on the wire: handshake, frames, elements. Peers must speak the same.
pub const PROTOCOL_VERSION: u16 = 2;

/// Bytes of magic, version and length.
pub const PREFIX_BYTES: usize = 12;

/// A longer hello is refused.
pub const MAX_HELLO_BYTES: u16 = 4096;

/// Who a process is, to its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its number in the execution graph.
    pub host: HostId,
    /// Names the execution the connection belongs to (job and attempt): both sides must say the same, so a late
    /// process of another attempt cannot mix in.
    pub token: String,
}

impl Hello {
    /// As bytes, with magic and version in front.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let body = postcard::to_stdvec(self)?;
        let length = u16::try_from(body.len()).ok().filter(|&length| length <= MAX_HELLO_BYTES).ok_or_else(|| {
            Error::internal(format!("expected a connection's token of some bytes, found {}", self.token.len()))
        })?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(PROTOCOL_VERSION.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(body);
        Ok(bytes)
    }
}

/// Checks the first bytes of a peer; the answer is the length of its hello.
pub fn check_prefix(bytes: &[u8; PREFIX_BYTES]) -> Result<u16> {
    let (magic, rest) = bytes.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Error::user(format!(
            "the peer is not flott: expected the bytes \"{}\", found \"{}\"",
            MAGIC.escape_ascii(),
            magic.escape_ascii()
        )));
    }
    let version = u16::from_le_bytes([rest[0], rest[1]]);
    if version != PROTOCOL_VERSION {
        return Err(Error::user(format!(
            "the peer speaks version {version} of flott's network protocol, this process version {PROTOCOL_VERSION}: \
             use the same release of flott for all processes of a job"
        )));
    }
    let length = u16::from_le_bytes([rest[2], rest[3]]);
    if length > MAX_HELLO_BYTES {
        return Err(Error::user(format!("expected a hello of at most {MAX_HELLO_BYTES} bytes, found {length}")));
    }
    Ok(length)
}

/// Says `ours` and hears the peer's.
pub(super) async fn shake_hands(stream: &mut TcpStream, address: SocketAddr, ours: &Hello) -> Result<Hello> {
    let lost = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::external("the peer ended the connection before it said who it is"),
        _ => Error::external(format!("the connection broke during the handshake: {e}")),
    };
    let theirs = async {
        stream.write_all(&ours.encode()?).await.map_err(lost)?;
        let mut prefix = [0; PREFIX_BYTES];
        stream.read_exact(&mut prefix).await.map_err(lost)?;
        let length = check_prefix(&prefix);
        if length.is_err() && prefix.starts_with(&MAGIC) {
            // Bytes left unread would reset the connection and could take our hello away from a peer of another
            // version, which is to say the same as we do.
            let unread = u16::from_le_bytes([prefix[10], prefix[11]]).min(MAX_HELLO_BYTES);
            stream.read_exact(&mut vec![0; usize::from(unread)]).await.ok();
        }
        let mut body = vec![0; usize::from(length?)];
        stream.read_exact(&mut body).await.map_err(lost)?;
        postcard::from_bytes::<Hello>(&body).map_err(|_| Error::user("the peer's hello cannot be read"))
    };
    let theirs = theirs.await.map_err(|e| e.at("peer", address))?;
    if theirs.token != ours.token {
        return Err(Error::user("the peer belongs to another job or to another attempt of this one")
            .at("host", theirs.host.0)
            .at("peer", address));
    }
    Ok(theirs)
}
