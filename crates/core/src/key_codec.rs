//! Keys as bytes, for savepoints and for maps of keys that are no single word: [`KeyCodec`].

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::Result;

/// Turns rows of key columns into canonical bytes and back. The bytes compare as the keys do, column by column
/// (NULL first), and two keys are equal exactly when their bytes are.
#[derive(Clone, Debug)]
pub struct KeyCodec {
    types: Vec<DataType>,
}

impl KeyCodec {
    /// A codec for keys of these column types; refused where one cannot be a key.
    pub fn new(types: Vec<DataType>) -> Result<Self> {
        types.iter().try_for_each(|t| crate::check_key_type("of the key", t))?;
        Ok(Self { types })
    }

    /// The column types.
    pub fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Appends the bytes of one row.
    pub fn encode(&self, _columns: &[ArrayRef], _row: usize, _out: &mut Vec<u8>) -> Result<()> {
        Err(crate::Error::internal("to be written"))
    }

    /// Columns of these keys.
    pub fn decode<'a>(&self, _keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        Err(crate::Error::internal("to be written"))
    }
}
