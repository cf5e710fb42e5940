//! The receiving half of a connection: cuts the bytes into frames on the I/O thread. What frames mean is decided in
//! `connection.rs`.

use flott_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frame::{FrameHeader, HEADER_BYTES};

/// Bytes read ahead with a header: enough for many events in one system call, little to copy of a batch behind it.
const STAGED_BYTES: usize = 4096;

/// Reads frames one by one.
pub(super) struct FrameReader<R> {
    stream: R,
    staged: Vec<u8>,
    at: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, staged: Vec::with_capacity(STAGED_BYTES), at: 0 }
    }

    /// The next frame, or `None` where the connection ends between two frames.
    pub(super) async fn next(&mut self) -> Result<Option<(FrameHeader, Vec<u8>)>> {
        let Some(header) = self.header().await? else { return Ok(None) };
        let header = FrameHeader::decode(&header)?;
        Ok(Some((header, self.body(header.length as usize).await?)))
    }

    async fn header(&mut self) -> Result<Option<[u8; HEADER_BYTES]>> {
        let mut header = [0; HEADER_BYTES];
        let mut filled = 0;
        while filled < HEADER_BYTES {
            if self.at == self.staged.len() {
                self.staged.clear();
                self.at = 0;
                if self.stream.read_buf(&mut self.staged).await.map_err(|e| lost(&e))? == 0 {
                    return if filled == 0 { Ok(None) } else { Err(cut(filled, HEADER_BYTES)) };
                }
            }
            let part = self.take_staged(HEADER_BYTES - filled);
            header[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        }
        Ok(Some(header))
    }

    /// Exactly the body, in memory of its own: a batch keeps nothing else alive.
    async fn body(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(length);
        body.extend_from_slice(self.take_staged(length));
        while body.len() < length {
            let rest = (length - body.len()) as u64;
            if (&mut self.stream).take(rest).read_buf(&mut body).await.map_err(|e| lost(&e))? == 0 {
                return Err(cut(HEADER_BYTES + body.len(), HEADER_BYTES + length));
            }
        }
        Ok(body)
    }

    fn take_staged(&mut self, at_most: usize) -> &[u8] {
        let from = self.at;
        self.at = self.staged.len().min(from + at_most);
        &self.staged[from..self.at]
    }
}

fn lost(error: &std::io::Error) -> Error {
    Error::external(format!("the connection broke: {error}"))
}

fn cut(found: usize, expected: usize) -> Error {
    Error::external(format!("the connection ended in the middle of a frame: expected {expected} bytes, found {found}"))
}
