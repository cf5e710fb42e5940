//! The bytes of a snapshot's sections: magic, version, checksum, then the sections in postcard.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `flottKS\n` |
//! | 8..10 | version, u16 little-endian |
//! | 10..18 | XXH3-64 of all that follows, little-endian |
//! | 18.. | the sections |

use flott_core::state::snapshot::StateSection;
use flott_core::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"flottKS\n";
/// Raised with every change of the form; older ones stay readable.
const VERSION: u16 = 1;

/// The stable form of keyed state's sections.
///
/// ```
/// let bytes = flott_state::encode_sections(&[])?;
/// assert_eq!(flott_state::decode_sections(&bytes)?, []);
/// # Ok::<(), flott_core::Error>(())
/// ```
pub fn encode_sections(sections: &[StateSection]) -> Result<Vec<u8>> {
    let body = postcard::to_stdvec(sections)?;
    let mut bytes = Vec::with_capacity(18 + body.len());
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(xxh3_64(&body).to_le_bytes());
    bytes.extend(body);
    Ok(bytes)
}

/// Reads what [`encode_sections`] wrote, in this version or an earlier one; anything else is refused with the reason.
pub fn decode_sections(bytes: &[u8]) -> Result<Vec<StateSection>> {
    let refuse = |why: String| Error::external(format!("cannot read keyed state: {why}")).final_();
    let cut = || refuse(format!("it ends after {} bytes", bytes.len()));
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(cut)?;
    if magic != MAGIC {
        return Err(refuse("it does not begin as keyed state of flott does".into()));
    }
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return Err(refuse(format!("it is of version {version}, and this flott reads version {VERSION}")));
    }
    let (checksum, body) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return Err(refuse("its checksum does not fit: it is damaged or cut short".into()));
    }
    match postcard::take_from_bytes(body) {
        Ok((sections, [])) => Ok(sections),
        Ok((_, rest)) => Err(refuse(format!("{} bytes follow its end", rest.len()))),
        Err(e) => Err(refuse(e.to_string())),
    }
}
