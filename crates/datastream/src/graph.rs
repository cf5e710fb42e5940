//! The graph while it is written: [`Draft`] nodes, and how they become a [`StreamGraph`].
//!
//! **Uids.** A node without an explicit uid gets one from where it stands: the uid of the node it reads, `/`, and
//! what it is (`map`, `reduce` …); sources are named by kind alone; readers of several nodes join their uids with
//! `+`. A second node of the same uid gets `-2`, and so on, in the order written. So changes elsewhere in the
//! program leave it as it is; give stateful operators explicit uids all the same.

use std::collections::HashSet;

use arrow_schema::SchemaRef;
use flott_core::config::{self, Config};
use flott_core::{Error, InputId, OutputId, Result};
use flott_plan::{Chaining, Edge, Node, NodeId, NodeKind, Partitioning, StreamGraph};

/// A node before the graph is complete.
pub(crate) struct Draft {
    /// What it is, for uids.
    pub(crate) word: &'static str,
    pub(crate) uid: Option<String>,
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) inputs: Vec<Upstream>,
    pub(crate) output: SchemaRef,
    pub(crate) side_outputs: Vec<(String, SchemaRef)>,
    pub(crate) parallelism: Option<u32>,
    pub(crate) max_parallelism: Option<u32>,
    /// A node that is part of another in the user's eyes has that one's parallelism.
    pub(crate) like: Option<NodeId>,
    pub(crate) chaining: Chaining,
}

/// What a stream comes from.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) from: NodeId,
    pub(crate) output: OutputId,
    /// `None`: forward between the same parallelism, else rebalance.
    pub(crate) partitioning: Option<Partitioning>,
}

pub(crate) fn assemble(name: &str, config: &Config, drafts: &[Draft]) -> Result<StreamGraph> {
    let uids = uids(drafts);
    let default = config.get(&config::PARALLELISM)?;
    let parallelism = |draft: &Draft| model(drafts, draft).parallelism.unwrap_or(default);
    let mut nodes = Vec::with_capacity(drafts.len());
    for (draft, uid) in drafts.iter().zip(uids) {
        let edge = |up: &Upstream| {
            let same = drafts.get(up.from.0 as usize).is_some_and(|from| parallelism(from) == parallelism(draft));
            let by_default = if same { Partitioning::Forward } else { Partitioning::Rebalance };
            let partitioning = up.partitioning.clone().unwrap_or(by_default);
            Edge { from: up.from, output: up.output, input: InputId(0), partitioning }
        };
        nodes.push(Node {
            uid,
            name: draft.name.clone(),
            kind: draft.kind.clone(),
            inputs: draft.inputs.iter().map(edge).collect(),
            output: draft.output.clone(),
            side_outputs: draft.side_outputs.clone(),
            parallelism: model(drafts, draft).parallelism,
            max_parallelism: model(drafts, draft).max_parallelism,
            chaining: draft.chaining,
        });
    }
    let graph = StreamGraph { name: name.to_owned(), config: config.clone(), nodes };
    graph.validate()?;
    Ok(graph)
}

/// The node whose parallelism this one has.
fn model<'a>(drafts: &'a [Draft], draft: &'a Draft) -> &'a Draft {
    draft.like.and_then(|node| drafts.get(node.0 as usize)).unwrap_or(draft)
}

/// Inputs come first, so their uids are known.
fn uids(drafts: &[Draft]) -> Vec<String> {
    let mut taken: HashSet<String> = drafts.iter().filter_map(|draft| draft.uid.clone()).collect();
    let mut uids: Vec<String> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        if let Some(uid) = &draft.uid {
            uids.push(uid.clone());
            continue;
        }
        let mut parents: Vec<_> = draft.inputs.iter().filter_map(|up| uids.get(up.from.0 as usize)).cloned().collect();
        parents.dedup();
        let place = if parents.is_empty() { String::new() } else { parents.join("+") + "/" };
        let first = format!("{place}{}", draft.word);
        let numbered = (2..).map(|n: u32| format!("{first}-{n}"));
        let free = std::iter::once(first.clone()).chain(numbered).find(|uid| !taken.contains(uid));
        let uid = free.unwrap_or(first);
        taken.insert(uid.clone());
        uids.push(uid);
    }
    uids
}

/// The error of a setting that has no node of its own to go to.
pub(crate) fn no_single_node(what: &str) -> Error {
    Error::user(format!("{what} belongs to one operator: set it before union, rebalance and the like, not after"))
}
