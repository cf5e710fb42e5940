//! How positions and pending work are kept in snapshots: a version byte, then postcard.

use flott_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

const VERSION: u8 = 1;

pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(postcard::to_extend(value, vec![VERSION])?)
}

pub(crate) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => {
            let (value, left) = postcard::take_from_bytes(rest)?;
            if left.is_empty() {
                return Ok(value);
            }
            Err(Error::internal(format!("{} bytes are left over after {what}", left.len())))
        }
        Some((version, _)) => {
            Err(Error::user(format!("expected {what} of version {VERSION}, found version {version}")))
        }
        None => Err(Error::internal(format!("expected {what}, found nothing"))),
    }
}
