//! Plans as bytes: `b"FLTP"`, a version (u16, little-endian), a byte for the kind of graph, then the graph in postcard.
//!
//! A plan is read by the version that wrote it and by no other: both sides of a job run the same flott. The version
//! rises with every change of the graphs, of the configuration of a [`flott_core::Spec`], or of Arrow's own encoding
//! of a schema; the golden files in `tests/golden` notice all three.
//! Equal graphs have equal bytes, except where a schema carries more than one entry of metadata (Arrow keeps them
//! unordered).

use flott_core::{Error, MAX_PARALLELISM_LIMIT, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ChainTarget, ExecutionGraph, JobEdge, JobGraph, StreamGraph, TaskId, Vertex, VertexId};

const MAGIC: &[u8; 4] = b"FLTP";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 7;

/// Kinds of graph by their byte, for the error where one is found in place of another.
const KINDS: &[(u8, &str)] = &[(1, "a stream graph"), (2, "a job graph"), (3, "an execution graph")];

macro_rules! encoded {
    ($graph:ty, $kind:literal, $is_sound:expr) => {
        impl $graph {
            /// The graph as bytes, with a header that says what and which version they are.
            pub fn encode(&self) -> Result<Vec<u8>> {
                encode($kind, self)
            }

            /// Reads what `encode` wrote; refuses other versions, other kinds of graph and damaged bytes.
            pub fn decode(bytes: &[u8]) -> Result<Self> {
                decode($kind, bytes, $is_sound)
            }
        }
    };
}

// A stream graph is validated where it becomes a job graph.
encoded!(StreamGraph, 1, |_| true);
encoded!(JobGraph, 2, is_sound_job);
encoded!(ExecutionGraph, 3, is_sound_execution);

fn encode(kind: u8, graph: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.push(kind);
    postcard::to_extend(graph, bytes).map_err(|e| Error::internal(format!("cannot encode {}: {e}", name(kind))))
}

fn decode<T: DeserializeOwned>(kind: u8, bytes: &[u8], is_sound: fn(&T) -> bool) -> Result<T> {
    let expected = name(kind);
    let Some((&[m0, m1, m2, m3, v0, v1, found], body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(Error::user(format!("expected {expected}, found {} bytes, fewer than its header", bytes.len())));
    };
    if [m0, m1, m2, m3] != *MAGIC {
        return Err(Error::user(format!("expected {expected}, found bytes that are no plan of flott")));
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(Error::user(format!(
            "expected a plan of version {VERSION}, found version {version}: use the same flott on both sides"
        )));
    }
    if found != kind {
        return Err(Error::user(format!("expected {expected}, found {}", name(found))));
    }
    match postcard::take_from_bytes(body) {
        Ok((graph, [])) if is_sound(&graph) => Ok(graph),
        Ok((_, [])) => Err(Error::user(format!("found {expected} that is damaged: its parts do not fit together"))),
        Ok((_, rest)) => Err(Error::user(format!("found {expected} with {} bytes too many", rest.len()))),
        Err(postcard::Error::DeserializeUnexpectedEnd) => {
            Err(Error::user(format!("found {expected} that is cut off after {} bytes", bytes.len())))
        }
        Err(e) => Err(Error::user(format!("found {expected} that is damaged: {e}"))),
    }
}

fn name(kind: u8) -> String {
    match KINDS.iter().find(|(byte, _)| *byte == kind) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("a graph of unknown kind {kind}"),
    }
}

/// Whether ids lead somewhere and numbers are in their limits, so that whoever runs the graph may index by them.
fn is_sound_job(job: &JobGraph) -> bool {
    let ids = (0..).map(VertexId);
    ids.zip(&job.vertices).all(|(id, vertex)| is_sound_vertex(job, id, vertex))
        && job.edges.iter().all(|edge| edge.from < edge.to && job.vertex(edge.to).is_some())
}

fn is_sound_vertex(job: &JobGraph, id: VertexId, vertex: &Vertex) -> bool {
    let edge = |id| job.edge(id);
    let is_own_input = |e: &JobEdge| e.to == id && usize::from(e.input.0) < vertex.chain[0].keys.len();
    let is_target = |position: usize, target: ChainTarget| match target {
        ChainTarget::Member { index, .. } => index > position && index < vertex.chain.len(),
        ChainTarget::Edge(id_of_edge) => edge(id_of_edge).is_some_and(|e| e.from == id),
    };
    (1..=vertex.max_parallelism).contains(&vertex.parallelism)
        && vertex.max_parallelism <= MAX_PARALLELISM_LIMIT
        && !vertex.chain.is_empty()
        && vertex.chain.iter().all(|member| member.keys.len() == member.node.num_inputs())
        && vertex.inputs.iter().all(|&input| edge(input).is_some_and(is_own_input))
        && vertex.chain.iter().enumerate().all(|(at, m)| m.outputs.iter().all(|output| is_target(at, output.to)))
}

/// Whether the tasks are all those of the job, in order.
fn is_sound_execution(graph: &ExecutionGraph) -> bool {
    let of_vertex =
        |(vertex, parallelism): (VertexId, u32)| (0..parallelism).map(move |index| TaskId { vertex, index });
    let expected = (0..).map(VertexId).zip(graph.job.vertices.iter().map(|v| v.parallelism)).flat_map(of_vertex);
    is_sound_job(&graph.job) && graph.tasks.iter().map(|(task, _)| *task).eq(expected)
}
