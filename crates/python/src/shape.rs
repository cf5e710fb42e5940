//! What is known of a run before it runs: [`Shape`].

use std::sync::Arc;

use flott_core::{Error, OperatorInfo, Result};

use crate::{Kind, MemberConfig, TypeInfo};

/// A member: its function and who it is.
pub(crate) type RunMember = (MemberConfig, Arc<OperatorInfo>);

/// How rows go through a run of members.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The values that come in.
    pub(crate) input: TypeInfo,
    /// The last member that makes new values, and their type; `None`: those that came in leave again.
    pub(crate) producer: Option<(usize, TypeInfo)>,
    /// The type of the key, if the run ends by finding one.
    pub(crate) key: Option<TypeInfo>,
    /// The first member keeps state.
    pub(crate) is_keyed: bool,
    /// Row `i` in is row `i` out.
    pub(crate) is_one_to_one: bool,
    /// Rows may become more, so they leave in chunks.
    pub(crate) is_chunked: bool,
    /// There is a function to call.
    pub(crate) has_functions: bool,
}

impl Shape {
    /// The shape of a run. A keyed member is its first, since keyed edges end chains; key_by is its last.
    pub(crate) fn of(members: &[RunMember]) -> Result<Self> {
        let Some(((first, _), last)) = members.first().zip(members.len().checked_sub(1)) else {
            return Err(Error::internal("a run without members"));
        };
        let mut shape = Self {
            input: first.input.clone(),
            producer: None,
            key: None,
            is_keyed: false,
            is_one_to_one: true,
            is_chunked: false,
            has_functions: false,
        };
        for (position, (member, info)) in members.iter().enumerate() {
            shape.has_functions |= member.kind != Kind::Values;
            match member.kind {
                Kind::Values => {}
                Kind::Map => shape.producer = Some((position, member.output.clone())),
                Kind::Filter => shape.is_one_to_one = false,
                Kind::FlatMap => {
                    shape.is_one_to_one = false;
                    shape.is_chunked = true;
                    shape.producer = Some((position, member.output.clone()));
                }
                Kind::Reduce if position == 0 => {
                    shape.is_keyed = true;
                    shape.producer = Some((position, member.output.clone()));
                }
                Kind::KeyBy if position == last && member.key.is_some() => shape.key.clone_from(&member.key),
                Kind::Reduce | Kind::KeyBy => {
                    let text = format!("{} cannot be member {position} of {}", member.kind.as_str(), members.len());
                    return Err(Error::internal(text).at("operator", &info.name));
                }
            }
        }
        Ok(shape)
    }
}
