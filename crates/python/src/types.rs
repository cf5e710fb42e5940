//! [`TypeInfo`]: what a value is in Python, and which Arrow columns hold it. Names and ranges are PyFlink's.

use std::fmt;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use flott_core::{Error, Result, check_key_type};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The type of the values of a stream (`pyflink.common.Types`).
///
/// A tuple or row at the top is one column a field; inside another it is a struct. Every column is nullable: `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TypeInfo {
    /// `str`.
    String,
    /// `bool`.
    Boolean,
    /// `int` of 8 bits.
    Byte,
    /// `int` of 16 bits.
    Short,
    /// `int` of 32 bits.
    Int,
    /// `int` of 64 bits.
    Long,
    /// `float`, rounded to 32 bits.
    Float,
    /// `float`.
    Double,
    /// `bytes`.
    Bytes,
    /// A `tuple` of as many fields.
    Tuple(Vec<TypeInfo>),
    /// A `Row` of named fields.
    Row(Vec<(String, TypeInfo)>),
    /// Any object: PyFlink's default where no type is declared.
    Pickled,
}

impl TypeInfo {
    /// The Arrow type of one column of this type.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::String => DataType::Utf8,
            Self::Boolean => DataType::Boolean,
            Self::Byte => DataType::Int8,
            Self::Short => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Bytes | Self::Pickled => DataType::Binary,
            Self::Tuple(_) | Self::Row(_) => DataType::Struct(self.fields()),
        }
    }

    /// The columns of a stream of this type.
    pub fn fields(&self) -> Fields {
        let field = |name: String, of: &Self| Field::new(name, of.data_type(), true);
        match self {
            Self::Tuple(types) => types.iter().enumerate().map(|(i, of)| field(format!("f{i}"), of)).collect(),
            Self::Row(fields) => fields.iter().map(|(name, of)| field(name.clone(), of)).collect(),
            scalar => Fields::from(vec![field("value".to_owned(), scalar)]),
        }
    }

    /// How many columns a stream of this type has.
    pub fn width(&self) -> usize {
        match self {
            Self::Tuple(types) => types.len(),
            Self::Row(fields) => fields.len(),
            _ => 1,
        }
    }

    /// The schema of a stream of this type, followed by the hidden columns of a key of type `key`.
    pub fn schema(&self, key: Option<&Self>) -> Result<SchemaRef> {
        let mut fields: Vec<_> = self.fields().iter().cloned().collect();
        if let Some(key) = key {
            fields.extend(key_columns(key)?.iter().cloned());
        }
        Ok(Arc::new(Schema::new(fields)))
    }
}

/// The hidden columns of a key: `__key0`, … one a field of a tuple.
///
/// Declared keys are what their type says: with `Types.INT()` `True` is 1. A key of no declared type is a canonical
/// form of the object, equal where Python's `==` is: `1`, `1.0` and `True` are one key.
pub fn key_columns(key: &TypeInfo) -> Result<Fields> {
    let fields = key.fields();
    let parts: Vec<&TypeInfo> = match key {
        TypeInfo::Tuple(types) => types.iter().collect(),
        TypeInfo::Row(fields) => fields.iter().map(|(_, of)| of).collect(),
        scalar => vec![scalar],
    };
    // Only a whole key has the canonical form that an object without declared type needs.
    let is_hidden_object = |of: &TypeInfo| parts.len() > 1 && *of == TypeInfo::Pickled;
    for (part, field) in parts.iter().zip(&fields) {
        if check_key_type(field.name(), field.data_type()).is_err() || is_hidden_object(part) {
            return Err(Error::user(format!(
                "a key cannot be made of {part}: use numbers, strings or a tuple of them"
            )));
        }
    }
    if parts.is_empty() {
        return Err(Error::user("a key must have at least one field"));
    }
    let hidden = fields.iter().enumerate().map(|(i, f)| Field::new(format!("__key{i}"), f.data_type().clone(), true));
    Ok(hidden.collect())
}

impl fmt::Display for TypeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("STRING"),
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::Byte => f.write_str("BYTE"),
            Self::Short => f.write_str("SHORT"),
            Self::Int => f.write_str("INT"),
            Self::Long => f.write_str("LONG"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Bytes => f.write_str("BYTES"),
            Self::Pickled => f.write_str("PICKLED_BYTE_ARRAY"),
            Self::Tuple(types) => {
                let types: Vec<_> = types.iter().map(ToString::to_string).collect();
                write!(f, "TUPLE({})", types.join(", "))
            }
            Self::Row(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, of)| format!("{name}: {of}")).collect();
                write!(f, "ROW({})", fields.join(", "))
            }
        }
    }
}
