//! Bytes that outlive the program that wrote them: [`StoredForm`] puts a version in front. For everything that ends up
//! inside a checkpoint: positions, committables, operator state. What only travels between running processes needs none.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// A form of stored bytes: one version byte, then a value in postcard or in an encoding of the owner's.
///
/// The version is raised with every change of the form; one that is not known is refused by name.
///
/// ```
/// use flott_core::StoredForm;
/// const POSITION: StoredForm = StoredForm::new("the position of a split", 1);
/// let bytes = POSITION.encode(&(7_u64, "bids.csv"))?;
/// assert_eq!(POSITION.decode::<(u64, String)>(&bytes)?, (7, "bids.csv".into()));
///
/// let newer = StoredForm::new("the position of a split", 7).encode(&7_u64)?;
/// assert_eq!(
///     POSITION.decode::<u64>(&newer).unwrap_err().to_string(),
///     "expected version 1 of the position of a split, found 7: written by a newer flott"
/// );
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoredForm {
    name: &'static str,
    version: u8,
}

impl StoredForm {
    /// The form called `name` in messages ("the position of a split"), in its current version.
    pub const fn new(name: &'static str, version: u8) -> Self {
        Self { name, version }
    }

    /// A value in this form.
    pub fn encode(&self, value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
        postcard::to_extend(value, self.begin())
            .map_err(|e| Error::internal(format!("cannot encode {}: {e}", self.name)))
    }

    /// Reads what [`StoredForm::encode`] wrote. Refused: another version, and bytes that are not exactly one value.
    pub fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        match postcard::take_from_bytes(self.body(bytes)?) {
            Ok((value, [])) => Ok(value),
            Ok((_, left)) => Err(Error::internal(format!("{} bytes are left over after {}", left.len(), self.name))),
            Err(e) => Err(Error::internal(format!("cannot decode {}: {e}", self.name))),
        }
    }

    /// The beginning of bytes that the owner encodes itself.
    pub fn begin(&self) -> Vec<u8> {
        vec![self.version]
    }

    /// What follows the version; another version is refused.
    pub fn body<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let Self { name, version } = self;
        match bytes.split_first() {
            Some((found, body)) if found == version => Ok(body),
            Some((found, _)) => {
                let by = if found > version { "a newer" } else { "an older" };
                let text = format!("expected version {version} of {name}, found {found}: written by {by} flott");
                Err(Error::user(text))
            }
            None => Err(Error::internal(format!("expected {name}, found nothing"))),
        }
    }
}
