//! Small job graphs and snapshots, from one line each.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use flott_checkpoint::{
    Committables, EdgeSnapshot, InFlight, Manifest, MemberSnapshot, TaskSnapshot, TaskState, VertexSnapshot,
};
use flott_core::state::StateKind;
use flott_core::state::snapshot::StateSection;
use flott_core::{
    CheckpointId, CheckpointKind, Committable, Config, InputId, KeyGroup, OperatorState, OutputId, Redistribution,
    Spec, Timestamp,
};
use flott_plan::{
    ChainMember, ChainOutput, ChainTarget, Chaining, ChannelId, EdgeId, ExecutionGraph, JobEdge, JobGraph, Node,
    NodeKind, Partitioning, TaskId, Vertex, VertexId,
};

pub(crate) const MAX_PARALLELISM: u32 = 128;

/// Vertices as (uids of the chain, parallelism); edges as (sender, reader, partitioning), from the sender's last member.
pub(crate) fn job(vertices: &[(&str, u32)], edges: &[(u32, u32, Partitioning)]) -> JobGraph {
    let vertices = (0..).zip(vertices).map(|(v, (uids, parallelism))| {
        let uids: Vec<_> = uids.split(' ').collect();
        let last = uids.len() - 1;
        let outputs = |member: usize| match member == last {
            false => vec![output(ChainTarget::Member { index: member + 1, input: InputId(0) })],
            true => {
                let out = (0..).zip(edges).filter(|(_, (from, ..))| *from == v);
                out.map(|(e, _)| output(ChainTarget::Edge(EdgeId(e)))).collect()
            }
        };
        Vertex {
            name: uids.join(" -> "),
            chain: (0..).zip(&uids).map(|(i, uid)| member(uid, outputs(i))).collect(),
            parallelism: *parallelism,
            max_parallelism: MAX_PARALLELISM,
            inputs: (0..).zip(edges).filter(|(_, (_, to, _))| *to == v).map(|(e, _)| EdgeId(e)).collect(),
        }
    });
    JobGraph {
        name: "test".into(),
        config: Config::default(),
        vertices: vertices.collect(),
        edges: edges
            .iter()
            .map(|(from, to, partitioning)| JobEdge {
                from: VertexId(*from),
                to: VertexId(*to),
                input: InputId(0),
                partitioning: partitioning.clone(),
            })
            .collect(),
    }
}

fn output(to: ChainTarget) -> ChainOutput {
    ChainOutput { output: OutputId::MAIN, to }
}

fn member(uid: &str, outputs: Vec<ChainOutput>) -> ChainMember {
    let node = Node {
        uid: uid.into(),
        name: uid.into(),
        kind: NodeKind::Operator(Spec { factory: "none".into(), config: Vec::new() }),
        inputs: Vec::new(),
        output: Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)])),
        side_outputs: Vec::new(),
        parallelism: None,
        max_parallelism: None,
        chaining: Chaining::Always,
    };
    ChainMember { node, keys: vec![Vec::new()], outputs }
}

pub(crate) fn execution(job: JobGraph) -> Arc<ExecutionGraph> {
    Arc::new(ExecutionGraph::of(job, 1))
}

pub(crate) fn task(vertex: u32, index: u32) -> TaskId {
    TaskId { vertex: VertexId(vertex), index }
}

pub(crate) fn hash() -> Partitioning {
    Partitioning::Hash(vec![0])
}

pub(crate) fn committables(uid: &str, all: &[&str]) -> Committables {
    vec![(uid.into(), all.iter().map(|text| Committable(text.as_bytes().to_vec())).collect())]
}

/// `uid=text text` for each uid.
pub(crate) fn show(committables: &Committables) -> String {
    let one = |(uid, all): &(String, Vec<Committable>)| {
        let texts: Vec<_> = all.iter().map(|c| String::from_utf8_lossy(&c.0)).collect();
        format!("{uid}={}", texts.join(" "))
    };
    committables.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// State of one operator in task `index` of `parallelism`: a value of each key group it owns, which is the group's
/// number, and operator state of each kind.
pub(crate) fn member_snapshot(uid: &str, index: u32, parallelism: u32) -> MemberSnapshot {
    let mut operator_state = OperatorState::default();
    let own = |name: &str| vec![format!("{name}{index}").into_bytes()];
    operator_state.put("split", Redistribution::Split, own("s"));
    operator_state.put("union", Redistribution::Union, own("u"));
    operator_state.put("broadcast", Redistribution::Broadcast, vec![b"b".to_vec()]);
    let groups = KeyGroup::range(index, parallelism, MAX_PARALLELISM).map(|g| (KeyGroup(g as u16), vec![g as u8]));
    let keyed = StateSection {
        table: "t".into(),
        name: "value".into(),
        kind: StateKind::Value,
        value_type: "i64".into(),
        key_types: vec![DataType::Utf8, DataType::Decimal128(10, 2)],
        namespaced: false,
        groups: groups.collect(),
    };
    MemberSnapshot { uid: uid.into(), operator_state, keyed: vec![keyed] }
}

/// A checkpoint of a job in which every task runs and has a [`member_snapshot`] for each member. `in_flight`: channels
/// with rows, as (edge, sender, reader).
pub(crate) fn manifest(job: &JobGraph, in_flight: &[(u32, u32, u32)]) -> Manifest {
    let vertex = |(v, vertex): (u32, &Vertex)| {
        let members: Vec<_> = vertex.chain.iter().map(|m| m.node.uid.clone()).collect();
        let edge_into = |edge: u32| job.edges[edge as usize].to == VertexId(v);
        let snapshot = |index| TaskSnapshot {
            members: members.iter().map(|uid| member_snapshot(uid, index, vertex.parallelism)).collect(),
            runtime: format!("v{v}.{index}").into_bytes(),
            in_flight: in_flight
                .iter()
                .filter(|(edge, _, to)| edge_into(*edge) && *to == index)
                .map(|&(edge, from, to)| InFlight {
                    channel: ChannelId { edge: EdgeId(edge), from, to },
                    elements: format!("{from}>{to}").into_bytes(),
                })
                .collect(),
            committables: Committables::new(),
        };
        VertexSnapshot {
            max_parallelism: vertex.max_parallelism,
            tasks: (0..vertex.parallelism).map(|i| TaskState::Snapshot(snapshot(i))).collect(),
            members,
        }
    };
    let edge = |e: &JobEdge| EdgeSnapshot {
        from: job.vertices[e.from.0 as usize].chain.last().unwrap().node.uid.clone(),
        output: OutputId::MAIN,
        to: job.vertices[e.to.0 as usize].chain[0].node.uid.clone(),
        input: e.input,
        nth: 0,
        partitioning: e.partitioning.clone(),
    };
    Manifest {
        job: job.name.clone(),
        checkpoint: CheckpointId(7),
        kind: CheckpointKind::Checkpoint,
        generation: 2,
        triggered_at: Timestamp(1_000),
        vertices: (0..).zip(&job.vertices).map(vertex).collect(),
        edges: job.edges.iter().map(edge).collect(),
        enumerators: vec![("source".into(), b"splits".to_vec())],
        committables: committables("sink", &["c1", "c2"]),
    }
}
