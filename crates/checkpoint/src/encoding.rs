//! A [`Manifest`] as bytes. The format is public: golden files in `tests/golden`, unknown versions refused.
//!
//! | bytes | what (integers little-endian) |
//! |---|---|
//! | 0..4 | `FLTM` |
//! | 4..6 | format version |
//! | 6 | kind: 0 checkpoint, 1 savepoint, 2 stop |
//! | 7..15 | generation |
//! | 15..23 | checkpoint id |
//! | 23..31 | length of the body |
//! | 31..39 | XXH3 (64 bits) of the body |
//! | 39..47 | XXH3 (64 bits) of bytes 0..39 |
//! | 47.. | body: [`Manifest`] in postcard |
//!
//! The header can be read alone, so that a store finds the newest of many without reading any.

use flott_core::{CheckpointId, CheckpointKind, Error, Result};
use xxhash_rust::xxh3::xxh3_64;

use crate::Manifest;

/// The version that is written; the only one that is read.
pub const FORMAT_VERSION: u16 = 1;
/// The length of a header.
pub const HEADER_BYTES: usize = 47;
const MAGIC: [u8; 4] = *b"FLTM";
const HASHED: usize = HEADER_BYTES - 8;

/// What can be known of a manifest without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// Which owner of the job wrote it.
    pub generation: u64,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// Length of the body in bytes.
    pub body_bytes: u64,
    body_hash: u64,
}

impl Header {
    /// Reads the header at the beginning of a manifest; refuses other files, other versions and damage.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let magic = bytes.get(..MAGIC.len());
        if magic.is_some_and(|magic| magic != MAGIC) {
            return Err(Error::user("expected a checkpoint of flott, found bytes that are none"));
        }
        if let Some((version, _)) = bytes.get(MAGIC.len()..).and_then(<[u8]>::split_first_chunk) {
            let version = u16::from_le_bytes(*version);
            if version != FORMAT_VERSION {
                return Err(Error::user(format!(
                    "expected a checkpoint of format version {FORMAT_VERSION}, found version {version}: read it \
                     with the flott that wrote it, or a newer one"
                )));
            }
        }
        let Some(header) = bytes.get(..HEADER_BYTES) else {
            let text = format!("the checkpoint is cut off: {} bytes are fewer than its header", bytes.len());
            return Err(damaged(text));
        };
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        if number(HASHED) != xxh3_64(&header[..HASHED]) {
            return Err(damaged("the header of the checkpoint is damaged: its checksum does not match"));
        }
        let kind = match header[6] {
            0 => CheckpointKind::Checkpoint,
            1 => CheckpointKind::Savepoint,
            2 => CheckpointKind::Stop,
            other => return Err(damaged(format!("the checkpoint is of an unknown kind {other}"))),
        };
        let (generation, checkpoint) = (number(7), CheckpointId(number(15)));
        Ok(Self { kind, generation, checkpoint, body_bytes: number(23), body_hash: number(31) })
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[6] = match self.kind {
            CheckpointKind::Checkpoint => 0,
            CheckpointKind::Savepoint => 1,
            CheckpointKind::Stop => 2,
        };
        let numbers = [(7, self.generation), (15, self.checkpoint.0), (23, self.body_bytes), (31, self.body_hash)];
        for (at, number) in numbers {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let hash = xxh3_64(&out[..HASHED]);
        out[HASHED..].copy_from_slice(&hash.to_le_bytes());
        out
    }
}

impl Manifest {
    /// The manifest as bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = postcard::to_extend(self, vec![0; HEADER_BYTES])
            .map_err(|e| Error::internal(format!("cannot encode a checkpoint: {e}")))?;
        let body = &bytes[HEADER_BYTES..];
        let header = Header {
            kind: self.kind,
            generation: self.generation,
            checkpoint: self.checkpoint,
            body_bytes: body.len() as u64,
            body_hash: xxh3_64(body),
        };
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        Ok(bytes)
    }

    /// Reads what [`Manifest::encode`] wrote; refuses other files, other versions, and bytes cut off or changed.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let header = Header::decode(bytes)?;
        let body = &bytes[HEADER_BYTES..];
        if body.len() as u64 != header.body_bytes {
            let (expected, found) = (header.body_bytes, body.len());
            return Err(damaged(format!(
                "the checkpoint is damaged: expected {expected} bytes after its header, found {found}"
            )));
        }
        if xxh3_64(body) != header.body_hash {
            return Err(damaged("the checkpoint is damaged: its checksum does not match"));
        }
        match postcard::take_from_bytes(body) {
            Ok((manifest, [])) => Ok(manifest),
            Ok((_, rest)) => Err(damaged(format!("the checkpoint has {} bytes too many", rest.len()))),
            Err(e) => Err(damaged(format!("the checkpoint cannot be read: {e}"))),
        }
    }
}

fn damaged(text: impl Into<String>) -> Error {
    Error::external(text).final_()
}
