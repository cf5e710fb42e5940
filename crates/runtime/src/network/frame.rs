//! Frames: what a connection carries after its handshake. A header of [`HEADER_BYTES`], then the body.
//!
//! ```text
//! edge u32 · from u32 · to u32 · length u32 · kind u8 · 0 0 0        all little-endian
//! ```
//!
//! Nothing here reads a socket or knows what a body means.

use flott_core::{Error, Result};
use flott_plan::{ChannelId, EdgeId};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 20;

/// A longer body is refused on both sides, before memory is taken for it.
pub const MAX_BODY_BYTES: u32 = 256 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A batch; uses one credit of its channel.
    Data = 1,
    /// A checkpoint barrier.
    Barrier = 2,
    /// A watermark, idleness, the end of input.
    Event = 3,
    /// From the receiver: so many more batches may be sent (u32). The first one says that the channel is open.
    Credit = 4,
    /// From the sender: so many batches wait for credit (u32).
    Backlog = 5,
    /// Bytes for whoever holds the connection; of no channel.
    Control = 6,
    /// The last frame: nothing is lost when the connection ends after it.
    Goodbye = 7,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Data,
            2 => Self::Barrier,
            3 => Self::Event,
            4 => Self::Credit,
            5 => Self::Backlog,
            6 => Self::Control,
            7 => Self::Goodbye,
            _ => return None,
        })
    }

    /// The length of a body that is always the same.
    fn fixed_length(self) -> Option<u32> {
        match self {
            Self::Credit | Self::Backlog => Some(4),
            Self::Goodbye => Some(0),
            Self::Data | Self::Barrier | Self::Event | Self::Control => None,
        }
    }
}

/// What stands in front of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The channel; all zero for kinds of no channel.
    pub channel: ChannelId,
    /// What the frame is.
    pub kind: FrameKind,
    /// Bytes of the body.
    pub length: u32,
}

/// The channel written into frames of no channel.
pub const NO_CHANNEL: ChannelId = ChannelId { edge: EdgeId(0), from: 0, to: 0 };

impl FrameHeader {
    /// A header for `body`, which may be too long.
    pub fn of(channel: ChannelId, kind: FrameKind, body: &[u8]) -> Result<Self> {
        match u32::try_from(body.len()) {
            Ok(length) if length <= MAX_BODY_BYTES => Ok(Self { channel, kind, length }),
            _ => Err(Error::user(format!(
                "expected at most {MAX_BODY_BYTES} bytes in one batch or message between processes, found {}",
                body.len()
            ))),
        }
    }

    /// As bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let numbers = [self.channel.edge.0, self.channel.from, self.channel.to, self.length];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[16] = self.kind as u8;
        bytes
    }

    /// Reads a header and refuses what no peer of this version writes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let broken =
            |expected: String| Error::external(format!("the peer broke the protocol: expected {expected}")).final_();
        let kind = FrameKind::from_byte(bytes[16])
            .ok_or_else(|| broken(format!("a frame of kind 1 to 7, found kind {}", bytes[16])))?;
        if bytes[17..] != [0; 3] {
            return Err(broken(format!("three zero bytes after the kind of a frame, found {:?}", &bytes[17..])));
        }
        let length = number(12);
        if length > MAX_BODY_BYTES {
            return Err(broken(format!("a frame of at most {MAX_BODY_BYTES} bytes, found {length}")));
        }
        if let Some(fixed) = kind.fixed_length()
            && fixed != length
        {
            return Err(broken(format!("{fixed} bytes in a {kind:?} frame, found {length}")));
        }
        let channel = ChannelId { edge: EdgeId(number(0)), from: number(4), to: number(8) };
        Ok(Self { channel, kind, length })
    }
}

/// A frame on its way out, or a few of them ([`Frame::and`]).
pub(super) struct Frame {
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) body: Vec<u8>,
}

impl Frame {
    pub(super) fn new(channel: ChannelId, kind: FrameKind, body: Vec<u8>) -> Result<Self> {
        Ok(Self { header: FrameHeader::of(channel, kind, &body)?.encode(), body })
    }

    /// Both as one, to wait and to be written together: the bytes of `next` stand behind the body.
    pub(super) fn and(mut self, next: Self) -> Self {
        self.body.extend(next.header);
        self.body.extend(next.body);
        self
    }

    /// A credit or backlog frame.
    pub(super) fn number(channel: ChannelId, kind: FrameKind, number: u32) -> Self {
        Self { header: FrameHeader { channel, kind, length: 4 }.encode(), body: number.to_le_bytes().to_vec() }
    }

    pub(super) fn goodbye() -> Self {
        let header = FrameHeader { channel: NO_CHANNEL, kind: FrameKind::Goodbye, length: 0 };
        Self { header: header.encode(), body: Vec::new() }
    }

    pub(super) fn num_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}
