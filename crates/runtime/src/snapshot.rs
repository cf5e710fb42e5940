//! The runtime's part of a task's snapshot: clocks, watermark generators, and what waits inside the chain (requests in
//! flight, batches in front of a busy operator or a slow sink). Taking it, and giving it to tasks after a restore.

use std::collections::BTreeMap;

use arrow_array::UInt32Array;
use flott_checkpoint::{InFlight, MemberSnapshot, TaskRestore, TaskSnapshot};
use flott_core::state::snapshot::PendingSnapshot;
use flott_core::{
    Batch, Committable, Error, InputId, KeyGroup, OperatorState, Redistribution, Result, StoredForm, StreamElement,
    Timestamp, hash_keys,
};
use serde::{Deserialize, Serialize};

use crate::chain::{ChainNode, Item, NodeKind, OperatorChain};
use crate::codec;
use crate::requests::Held;
use crate::source_input::SplitState;
use crate::watermarks::{WatermarkGenerator, WatermarkState};

/// Operator state of a source node: its splits.
pub const SPLITS: &str = "flott.splits";
/// Operator state of a sink node: its writer's entries.
pub const WRITER: &str = "flott.writer";

/// Raised with every change of [`RuntimeState`] or of what it holds.
const RUNTIME: StoredForm = StoredForm::new("the runtime's state of a task", 1);
/// Raised with every change of [`SplitState`] or of what it holds; a split's position has the version of its source.
const SPLIT: StoredForm = StoredForm::new("a split of a source", 1);

/// A snapshot whose state is cut but not encoded yet.
pub struct PendingTaskSnapshot {
    members: Vec<PendingMember>,
    runtime: Vec<u8>,
    /// Rows in flight, by channel.
    pub in_flight: Vec<InFlight>,
    committables: Vec<(String, Vec<Committable>)>,
}

struct PendingMember {
    uid: String,
    operator_state: OperatorState,
    keyed: Option<Box<dyn PendingSnapshot>>,
}

impl PendingTaskSnapshot {
    /// Encodes the state; on any thread.
    pub fn complete(self) -> Result<TaskSnapshot> {
        let mut members = Vec::new();
        for PendingMember { uid, operator_state, keyed } in self.members {
            let keyed = keyed.map_or(Ok(Vec::new()), PendingSnapshot::complete)?;
            members.push(MemberSnapshot { uid, operator_state, keyed });
        }
        Ok(TaskSnapshot { members, runtime: self.runtime, in_flight: self.in_flight, committables: self.committables })
    }
}

/// The runtime's part, encoded.
#[derive(Serialize, Deserialize)]
struct RuntimeState {
    clock: Timestamp,
    nodes: Vec<NodeState>,
}

#[derive(Serialize, Deserialize)]
struct NodeState {
    uid: String,
    clock: Timestamp,
    watermarks: Option<WatermarkState>,
    finished: bool,
    items: Vec<StoredItem>,
}

#[derive(Serialize, Deserialize)]
enum StoredItem {
    /// Input and rows.
    Batch(u8, Vec<u8>),
    /// Member and payload, which has the columns of the member's first input.
    Request(u32, Vec<u8>),
    Watermark(Timestamp),
    Idle(bool),
    End,
}

fn stored(batch: &Batch) -> Result<Vec<u8>> {
    codec::encode_all([&StreamElement::Batch(batch.clone())])
}

/// Cuts the state of a chain that has come to rest.
pub fn snapshot_chain(
    chain: &mut OperatorChain,
    clock: Timestamp,
    splits: Option<Vec<SplitState>>,
) -> Result<PendingTaskSnapshot> {
    // First, so that what a writer keeps is its state after it has handed these over.
    let committables = chain.prepare_commit()?;
    let mut members = Vec::new();
    let mut nodes = Vec::new();
    if let Some(splits) = splits {
        let entries = splits.iter().map(|split| SPLIT.encode(split)).collect::<Result<_>>()?;
        chain.nodes[0].members[0].operator_state.put(SPLITS, Redistribution::Split, entries);
    }
    for node in &mut chain.nodes {
        if let NodeKind::Sink(writer) = &mut node.kind {
            let entries = writer.snapshot()?;
            node.members[0].operator_state.put(WRITER, Redistribution::Split, entries);
        }
        for member in &mut node.members {
            let keyed = member.state.as_mut().map(|state| state.snapshot()).transpose()?;
            let (uid, operator_state) = (member.info.uid.clone(), member.operator_state.clone());
            members.push(PendingMember { uid, operator_state, keyed });
        }
        nodes.push(node_state(node)?);
    }
    let runtime = RUNTIME.encode(&RuntimeState { clock, nodes })?;
    Ok(PendingTaskSnapshot { members, runtime, in_flight: Vec::new(), committables })
}

fn node_state(node: &ChainNode) -> Result<NodeState> {
    let mut items = Vec::new();
    for held in node.ledger.held() {
        items.push(match held {
            Held::Request(member, payload) => StoredItem::Request(member as u32, stored(&payload)?),
            Held::Watermark(at) => StoredItem::Watermark(at),
            Held::Idle(idle) => StoredItem::Idle(idle),
        });
    }
    for item in &node.inbox {
        items.push(match item {
            Item::Batch(input, batch) => StoredItem::Batch(input.0, stored(batch)?),
            Item::Reissue(member, payload) => StoredItem::Request(*member as u32, stored(payload)?),
            Item::Watermark(at) => StoredItem::Watermark(*at),
            Item::Idle(idle) => StoredItem::Idle(*idle),
            Item::End => StoredItem::End,
        });
    }
    let watermarks = match &node.kind {
        NodeKind::Watermarks(generator) => Some(generator.state()),
        _ => None,
    };
    let uid = node.members[0].info.uid.clone();
    Ok(NodeState { uid, clock: node.clock, watermarks, finished: node.finished, items })
}

/// Where a task stands among the tasks of its vertex.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its index.
    pub index: u32,
    /// Tasks of the vertex.
    pub parallelism: u32,
    /// Key groups of the vertex.
    pub max_parallelism: u32,
}

impl Place {
    /// The rows of a batch with this key that belong here. An operator may have made the batch itself, for a request:
    /// then it has no hashes yet.
    pub fn own_rows(&self, batch: Batch, key: &[usize]) -> Result<Batch> {
        let hashes = match batch.key_hashes() {
            Some(hashes) => hashes.clone(),
            None => hash_keys(&key.iter().map(|&column| batch.column(column).clone()).collect::<Vec<_>>())?,
        };
        let own = |hash: u64| {
            KeyGroup::of(hash, self.max_parallelism).task(self.parallelism, self.max_parallelism) == self.index
        };
        let rows = hashes.iter().enumerate().filter(|(_, hash)| own(**hash)).map(|(row, _)| row as u32);
        batch.with_key_hashes(Some(hashes.clone())).take(&UInt32Array::from_iter_values(rows))
    }
}

/// What old tasks left, by the uid of a node's first member.
pub struct RestoredRuntime {
    clock: Timestamp,
    nodes: BTreeMap<String, Vec<NodeState>>,
    /// The same tasks as before, and all before them too: every one gets exactly its own.
    same: bool,
}

impl RestoredRuntime {
    /// Reads the runtime parts of the old tasks that had a member of this task's chain, whose first is `head`.
    pub fn read(restore: &TaskRestore, head: &str, place: Place) -> Result<Self> {
        let parts = &restore.runtime;
        let same = !restore.other_senders && parts.iter().all(|part| part.parallelism == place.parallelism);
        let mut restored = Self { clock: Timestamp::MAX, nodes: BTreeMap::new(), same };
        for part in parts.iter().filter(|part| !same || part.index == place.index) {
            let state: RuntimeState = RUNTIME.decode(&part.bytes)?;
            if part.members.first().is_some_and(|uid| uid == head) {
                restored.clock = restored.clock.min(state.clock);
            }
            for node in state.nodes {
                restored.nodes.entry(node.uid.clone()).or_default().push(node);
            }
        }
        if restored.clock == Timestamp::MAX {
            restored.clock = Timestamp::MIN;
        }
        Ok(restored)
    }

    /// The clock of the new task.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Gives a node its clock, its watermark generator's state, and what waited in front of it.
    pub fn apply(&self, node: &mut ChainNode, place: Place) -> Result<()> {
        let Some(old) = self.nodes.get(&node.members[0].info.uid) else { return Ok(()) };
        node.clock = old.iter().map(|state| state.clock).min().unwrap_or(Timestamp::MIN);
        node.finished = old.iter().all(|state| state.finished);
        if let NodeKind::Watermarks(generator) = &mut node.kind
            && let [NodeState { watermarks: Some(state), .. }] = old.as_slice()
        {
            *generator = WatermarkGenerator::new(generator.strategy().clone(), *state);
        }
        let mut turn = 0;
        for item in old.iter().flat_map(|state| &state.items) {
            let (member, input, bytes, request) = match item {
                StoredItem::Batch(input, bytes) => (0, *input, bytes, false),
                StoredItem::Request(member, bytes) => (*member as usize, 0, bytes, true),
                // Every input tells its end again.
                StoredItem::End => continue,
                // At another parallelism the clock is the lowest of all and rises again with the inputs.
                _ if !self.same => continue,
                StoredItem::Watermark(at) => {
                    node.inbox.push_back(Item::Watermark(*at));
                    continue;
                }
                StoredItem::Idle(idle) => {
                    node.inbox.push_back(Item::Idle(*idle));
                    continue;
                }
            };
            let info = &node.members.get(member).ok_or_else(|| Error::internal("a request of no member"))?.info;
            let schema = info.inputs.get(usize::from(input)).unwrap_or(&info.output);
            let Some(StreamElement::Batch(mut batch)) = codec::decode_all(bytes, schema)?.pop() else {
                return Err(Error::internal("no rows where rows were stored"));
            };
            let key = info.keys.get(usize::from(input)).filter(|key| !key.is_empty());
            match key {
                _ if self.same => {}
                Some(key) => batch = place.own_rows(batch, key)?,
                // Rows without a key go to the tasks in turn: where they must not, none is here (`OperatorChain::bound`).
                None => {
                    turn += 1;
                    if (turn - 1) % place.parallelism != place.index {
                        continue;
                    }
                }
            }
            if !batch.is_empty() {
                let item = if request { Item::Reissue(member, batch) } else { Item::Batch(InputId(input), batch) };
                node.inbox.push_back(item);
            }
        }
        Ok(())
    }
}

/// Splits among a source node's restored operator state.
pub fn restored_splits(state: &OperatorState) -> Result<Vec<SplitState>> {
    state.get(SPLITS).iter().map(|bytes| SPLIT.decode(bytes)).collect()
}
