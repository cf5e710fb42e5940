//! What a plan says of a Python function: [`MemberConfig`], the configuration of a [`Spec`].

use flott_core::{Error, Result, Spec};
use serde::{Deserialize, Serialize};

use crate::TypeInfo;

/// The name of the factory of Python operators.
pub(crate) const FACTORY: &str = "python";

/// What a function is to the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// A value for a value.
    Map,
    /// Keeps the values it says yes to.
    Filter,
    /// Any number of values for a value.
    FlatMap,
    /// The key of a value, into hidden columns.
    KeyBy,
    /// The values seen so far of a key, combined with this one.
    Reduce,
    /// No function: the values without the hidden columns of their key.
    Values,
}

impl Kind {
    /// The name on the Python side.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Filter => "filter",
            Self::FlatMap => "flat_map",
            Self::KeyBy => "key_by",
            Self::Reduce => "reduce",
            Self::Values => "values",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Result<Self> {
        [Self::Map, Self::Filter, Self::FlatMap, Self::KeyBy, Self::Reduce, Self::Values]
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or_else(|| Error::internal(format!("there is no Python operator of kind '{name}'")))
    }
}

/// A Python function and its types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberConfig {
    /// What it is.
    pub kind: Kind,
    /// The function, in cloudpickle's bytes; empty for [`Kind::Values`].
    pub function: Vec<u8>,
    /// The type of the values it takes.
    pub input: TypeInfo,
    /// The type of the values it gives; of a key: the values', not the key's.
    pub output: TypeInfo,
    /// The type of the key of [`Kind::KeyBy`].
    pub key: Option<TypeInfo>,
}

impl MemberConfig {
    /// As part of a plan. Postcard, since JSON would write the function's bytes as numbers.
    pub fn spec(&self) -> Result<Spec> {
        Ok(Spec { factory: FACTORY.to_owned(), config: postcard::to_stdvec(self)? })
    }

    /// Reads what [`MemberConfig::spec`] wrote.
    pub fn read(spec: &Spec) -> Result<Self> {
        Ok(postcard::from_bytes(&spec.config)?)
    }
}
