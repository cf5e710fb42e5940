//! From an execution graph to tasks: makes the channels, chains (with runs of one language fused) and inputs of every
//! task of this process, filled with what was restored.

use std::collections::BTreeMap;
use std::sync::Arc;

use flott_checkpoint::{Ownership, TaskRestore};
use flott_core::config::STATE_BACKEND;
use flott_core::state::KeyScope;
use flott_core::{
    Error, InputId, KeyGroup, Member, Metrics, OperatorInfo, OperatorState, OutputId, Result, Spec, StreamElement,
    Timestamp,
};
use flott_plan::{
    ChainTarget, ChannelId, EdgeId, ExecutionGraph, HostId, NodeKind as PlanKind, Partitioning, TaskId, Vertex,
};

use crate::catching::catching;
use crate::chain::{ChainNode, NodeKind, OperatorChain, Target};
use crate::channel::{ChannelQueue, ChannelSender};
use crate::codec;
use crate::environment::Environment;
use crate::input_gate::InputGate;
use crate::result_partition::{ChannelSelector, ResultPartition};
use crate::snapshot::{Place, RestoredRuntime, WRITER, restored_splits};
use crate::source_input::SourceInput;
use crate::task::TaskInput;
use crate::watermarks::{WatermarkGenerator, WatermarkState};

/// Channels to other processes.
pub trait RemoteChannels {
    /// The receiving end of a channel whose sender is in `peer`, with room for `credit` batches.
    fn open_receiver(
        &self,
        peer: HostId,
        channel: ChannelId,
        schema: &arrow_schema::SchemaRef,
        credit: u32,
    ) -> Result<Arc<ChannelQueue>>;

    /// The sending end of a channel whose receiver is in `peer`.
    fn open_sender(&self, peer: HostId, channel: ChannelId) -> Result<ChannelSender>;
}

/// For jobs of one process.
pub struct NoRemote;

impl RemoteChannels for NoRemote {
    fn open_receiver(&self, _: HostId, _: ChannelId, _: &arrow_schema::SchemaRef, _: u32) -> Result<Arc<ChannelQueue>> {
        Err(Error::internal("a channel to another process in a job of one process"))
    }

    fn open_sender(&self, _: HostId, _: ChannelId) -> Result<ChannelSender> {
        Err(Error::internal("a channel to another process in a job of one process"))
    }
}

/// A task ready to be driven.
pub struct TaskParts {
    /// Which.
    pub id: TaskId,
    /// Its input.
    pub input: TaskInput,
    /// Its operators, opened.
    pub chain: OperatorChain,
}

/// Makes the tasks of one process.
pub struct Deployment<'a> {
    /// The job.
    pub graph: &'a ExecutionGraph,
    /// This process.
    pub host: HostId,
    /// What tasks are given.
    pub env: &'a Environment,
    /// What tasks go on with, if the job is restored.
    pub restored: &'a BTreeMap<TaskId, TaskRestore>,
}

impl Deployment<'_> {
    /// Makes every task of this process. Errors are those of the job's configuration: nothing runs yet.
    pub fn tasks(&self, remote: &dyn RemoteChannels) -> Result<Vec<TaskParts>> {
        let mut queues: BTreeMap<ChannelId, Arc<ChannelQueue>> = BTreeMap::new();
        for channel in self.channels() {
            let edge = self.edge(channel.edge)?;
            let (from, to) =
                (TaskId { vertex: edge.from, index: channel.from }, TaskId { vertex: edge.to, index: channel.to });
            if self.host_of(to)? == self.host {
                let credit = self.env.limits.channel_credit;
                let peer = self.host_of(from)?;
                let queue = if peer == self.host {
                    ChannelQueue::new(channel, credit)
                } else {
                    remote.open_receiver(peer, channel, self.schema(channel.edge)?, credit)?
                };
                queues.insert(channel, queue);
            }
        }
        let make = |task| catching(|| self.task(task, &queues, remote)).map_err(|e| self.at_task(e, task));
        self.graph.tasks_on(self.host).map(make).collect()
    }

    /// Says in which task something went wrong, unless the error knows its operator.
    fn at_task(&self, error: Error, task: TaskId) -> Error {
        match self.graph.job.vertex(task.vertex) {
            Some(vertex) if error.place("operator").is_none() => {
                error.at("task", format_args!("{}/{}", vertex.name, task.index))
            }
            _ => error,
        }
    }

    fn channels(&self) -> impl Iterator<Item = ChannelId> + '_ {
        (0..self.graph.job.edges.len()).flat_map(|edge| self.graph.channels_of_edge(EdgeId(edge as u32)))
    }

    fn edge(&self, id: EdgeId) -> Result<&flott_plan::JobEdge> {
        self.graph.job.edge(id).ok_or_else(|| Error::internal("an edge that is not in the plan"))
    }

    fn schema(&self, id: EdgeId) -> Result<&arrow_schema::SchemaRef> {
        self.graph.job.edge_schema(id).ok_or_else(|| Error::internal("an edge without columns"))
    }

    fn host_of(&self, task: TaskId) -> Result<HostId> {
        self.graph.host_of(task).ok_or_else(|| Error::internal("a task that is not in the plan"))
    }

    fn task(
        &self,
        id: TaskId,
        queues: &BTreeMap<ChannelId, Arc<ChannelQueue>>,
        remote: &dyn RemoteChannels,
    ) -> Result<TaskParts> {
        let vertex = self.graph.job.vertex(id.vertex).ok_or_else(|| Error::internal("a task of no vertex"))?;
        let place = Place { index: id.index, parallelism: vertex.parallelism, max_parallelism: vertex.max_parallelism };
        let restored = self.restored.get(&id);
        let runtime = match restored {
            Some(old) => Some(RestoredRuntime::read(old, &vertex.chain[0].node.uid, place)?),
            None => None,
        };
        let (partitions, positions) = self.partitions(id, vertex, queues, remote)?;
        let nodes = self.nodes(id, vertex, &positions, restored)?;
        let mut chain = OperatorChain::new(nodes, partitions, self.env.limits.request_capacity);
        for &edge in &vertex.inputs {
            chain.bound |= self.edge(edge)?.partitioning.is_bound();
        }
        chain.open(self.env.clock.now())?;
        if let Some(runtime) = &runtime {
            for node in &mut chain.nodes {
                runtime.apply(node, place)?;
            }
            // What this task has promised its readers before is promised again: a new channel knows no watermark.
            chain.announce()?;
        }
        check_claimed(&mut chain)?;
        let clock = runtime.as_ref().map_or(Timestamp::MIN, RestoredRuntime::clock);
        let input = match &vertex.chain[0].node.kind {
            PlanKind::Source { spec, watermarks } => {
                let member = &chain.nodes[0].members[0];
                let reader = self.env.registry.source(&spec.factory)?(spec)?.reader(&member.info)?;
                let splits = restored_splits(&member.operator_state)?;
                let (rows, interval) = (self.env.limits.batch_rows, self.env.limits.watermark_interval_ms);
                TaskInput::Source(SourceInput::new(reader, watermarks.clone(), splits, clock, rows, interval)?)
            }
            _ => TaskInput::Gate(self.gate(id, vertex, queues, clock, restored, place)?),
        };
        let input = if restored.is_some_and(|old| old.finished) { TaskInput::Finished } else { input };
        Ok(TaskParts { id, input, chain })
    }

    fn gate(
        &self,
        id: TaskId,
        vertex: &Vertex,
        queues: &BTreeMap<ChannelId, Arc<ChannelQueue>>,
        clock: Timestamp,
        restored: Option<&TaskRestore>,
        place: Place,
    ) -> Result<InputGate> {
        let mut channels = Vec::new();
        for &edge in &vertex.inputs {
            let job_edge = self.edge(edge)?;
            for from in self.graph.senders(edge, id.index) {
                let channel = ChannelId { edge, from, to: id.index };
                let queue = queues.get(&channel).ok_or_else(|| Error::internal("a channel that was not made"))?;
                channels.push((Arc::clone(queue), job_edge.input, job_edge.partitioning.may_overtake()));
            }
        }
        let ids: Vec<_> = channels.iter().map(|(queue, ..)| queue.id()).collect();
        let mut gate = InputGate::new(channels, clock);
        for old in restored.map_or(&[][..], |restored| &restored.in_flight) {
            let key = match &self.edge(old.edge)?.partitioning {
                Partitioning::Hash(columns) => columns.as_slice(),
                _ => &[],
            };
            let same_tasks =
                |from: u32, to: u32| ids.iter().position(|c| (c.edge, c.from, c.to) == (old.edge, from, to));
            let first = ids.iter().position(|channel| channel.edge == old.edge);
            let first = first.ok_or_else(|| Error::internal("rows in flight on an edge without channels"))?;
            for channel in &old.channels {
                let elements = codec::decode_all(&channel.elements, self.schema(old.edge)?)?;
                match same_tasks(channel.from, channel.to) {
                    Some(index) if old.same_tasks => gate.recover(index, elements),
                    _ => gate.recover(first, own_rows(elements, channel.ownership, key, place)?),
                }
            }
        }
        Ok(gate)
    }

    /// The task's partitions, and where each edge's is.
    fn partitions(
        &self,
        id: TaskId,
        vertex: &Vertex,
        queues: &BTreeMap<ChannelId, Arc<ChannelQueue>>,
        remote: &dyn RemoteChannels,
    ) -> Result<(Vec<ResultPartition>, BTreeMap<EdgeId, usize>)> {
        let (mut partitions, mut positions) = (Vec::new(), BTreeMap::new());
        for output in vertex.chain.iter().flat_map(|member| &member.outputs) {
            let ChainTarget::Edge(edge_id) = output.to else { continue };
            let edge = self.edge(edge_id)?;
            let mut channels = Vec::new();
            for to in self.graph.receivers(edge_id, id.index) {
                let channel = ChannelId { edge: edge_id, from: id.index, to };
                let peer = self.host_of(TaskId { vertex: edge.to, index: to })?;
                let sender = if peer == self.host {
                    let queue = queues.get(&channel).ok_or_else(|| Error::internal("a channel that was not made"))?;
                    ChannelSender::Local(Arc::clone(queue))
                } else {
                    remote.open_sender(peer, channel)?
                };
                channels.push((channel, sender));
            }
            let selector = self.selector(id, edge_id)?;
            let (rows, may_overtake) = (self.env.limits.batch_rows, edge.partitioning.may_overtake());
            positions.insert(edge_id, partitions.len());
            partitions.push(ResultPartition::new(selector, channels, rows, may_overtake));
        }
        Ok((partitions, positions))
    }

    fn selector(&self, id: TaskId, edge_id: EdgeId) -> Result<ChannelSelector> {
        let edge = self.edge(edge_id)?;
        let reader = self.graph.job.vertex(edge.to).ok_or_else(|| Error::internal("an edge to no vertex"))?;
        let start = id.index as usize;
        Ok(match &edge.partitioning {
            Partitioning::Forward => ChannelSelector::Forward,
            Partitioning::Hash(columns) => {
                ChannelSelector::Hash { columns: columns.clone(), max_parallelism: reader.max_parallelism }
            }
            Partitioning::Rebalance | Partitioning::Rescale => ChannelSelector::RoundRobin { next: start },
            Partitioning::Broadcast => ChannelSelector::Broadcast,
            Partitioning::Shuffle => {
                let mark = (u64::from(edge_id.0) << 32) | u64::from(id.index);
                ChannelSelector::shuffle(self.env.seed ^ mark)
            }
            Partitioning::Global => ChannelSelector::Global,
            Partitioning::Custom(spec) => ChannelSelector::Custom(self.env.registry.partitioner(&spec.factory)?(spec)?),
        })
    }

    fn nodes(
        &self,
        id: TaskId,
        vertex: &Vertex,
        positions: &BTreeMap<EdgeId, usize>,
        restored: Option<&TaskRestore>,
    ) -> Result<Vec<ChainNode>> {
        let runs = self.runs(vertex)?;
        let mut at = vec![(0, 0); vertex.chain.len()];
        for (node, run) in runs.iter().enumerate() {
            for (position, &member) in run.iter().enumerate() {
                at[member] = (node, position);
            }
        }
        let mut nodes = Vec::new();
        for run in &runs {
            let mut members = Vec::new();
            let mut outputs = Vec::new();
            for (position, &member) in run.iter().enumerate() {
                members.push(self.member(id, member, restored)?);
                for output in &vertex.chain[member].outputs {
                    let target = match output.to {
                        ChainTarget::Edge(edge) => Target::Partition(positions[&edge]),
                        // Inside a run, rows pass without the chain.
                        ChainTarget::Member { index, .. } if run.get(position + 1) == Some(&index) => continue,
                        ChainTarget::Member { index, input } => Target::Node(at[index].0, input),
                    };
                    outputs.push((position, output.output, target));
                }
            }
            let kind = self.kind(vertex, run, &members)?;
            nodes.push(ChainNode::new(kind, members, outputs, Timestamp::MIN));
        }
        Ok(nodes)
    }

    /// Members by node: neighbours of one language, each the only reader of the one before, are one node.
    fn runs(&self, vertex: &Vertex) -> Result<Vec<Vec<usize>>> {
        let language = |member: usize| match &vertex.chain[member].node.kind {
            PlanKind::Operator(spec) => {
                let factory = self.env.registry.operator(&spec.factory);
                Ok(factory.map_err(|e| e.at("operator", &vertex.chain[member].node.name))?.language())
            }
            _ => Ok::<_, Error>(None),
        };
        let mut taken = vec![false; vertex.chain.len()];
        let mut runs = Vec::new();
        for first in 0..vertex.chain.len() {
            if std::mem::replace(&mut taken[first], true) {
                continue;
            }
            let mut run = vec![first];
            let mut last = first;
            while let Some(of) = language(last)? {
                let main: Vec<_> = vertex.chain[last].outputs.iter().filter(|o| o.output == OutputId::MAIN).collect();
                let [only] = main.as_slice() else { break };
                let ChainTarget::Member { index, input: InputId(0) } = only.to else { break };
                if language(index)? != Some(of) {
                    break;
                }
                taken[index] = true;
                run.push(index);
                last = index;
            }
            runs.push(run);
        }
        Ok(runs)
    }

    fn member(&self, id: TaskId, position: usize, restored: Option<&TaskRestore>) -> Result<Member> {
        let info = self.graph.job.operator_info(id.vertex, position, id.index);
        let info = Arc::new(info.ok_or_else(|| Error::internal("a member that is not in the plan"))?);
        let old = restored.and_then(|restored| restored.members.iter().find(|member| member.uid == info.uid));
        let state = match info.keys.iter().position(|columns| !columns.is_empty()) {
            None => None,
            Some(input) => {
                let types = info.keys[input].iter().map(|&c| info.inputs[input].field(c).data_type().clone()).collect();
                let scope = KeyScope {
                    key_types: types,
                    key_groups: KeyGroup::range(id.index, info.parallelism, info.max_parallelism),
                    max_parallelism: info.max_parallelism,
                };
                let backend = self.env.registry.backend(&self.env.limits.state_backend);
                let backend = backend.map_err(|e| e.at("option", STATE_BACKEND.key))?;
                Some(backend.create(scope, old.map_or(Vec::new(), |old| old.keyed.clone()))?)
            }
        };
        let operator_state = old.map_or_else(OperatorState::default, |old| old.operator_state.clone());
        Ok(Member { info, state, operator_state, metrics: Metrics::default() })
    }

    fn kind(&self, vertex: &Vertex, run: &[usize], members: &[Member]) -> Result<NodeKind> {
        let registry = &self.env.registry;
        let info = |member: &Member| Arc::clone(&member.info);
        let made = match &vertex.chain[run[0]].node.kind {
            PlanKind::Source { .. } => Ok(NodeKind::Source),
            PlanKind::Watermarks(strategy) => {
                Ok(NodeKind::Watermarks(WatermarkGenerator::new(strategy.clone(), WatermarkState::default())))
            }
            PlanKind::Sink(spec) => {
                let sink = registry.sink(&spec.factory)?(spec)?;
                sink.writer(&members[0].info, members[0].operator_state.get(WRITER)).map(NodeKind::Sink)
            }
            PlanKind::Operator(spec) if run.len() == 1 => {
                registry.operator(&spec.factory)?.create(spec, &members[0].info).map(NodeKind::Operator)
            }
            PlanKind::Operator(spec) => {
                let specs = run.iter().zip(members).filter_map(|(&at, member)| match &vertex.chain[at].node.kind {
                    PlanKind::Operator(spec) => Some((spec.clone(), info(member))),
                    _ => None,
                });
                let specs: Vec<(Spec, Arc<OperatorInfo>)> = specs.collect();
                registry.operator(&spec.factory)?.fuse(&specs).map(NodeKind::Operator)
            }
        };
        made.map_err(|e| if e.place("operator").is_some() { e } else { e.at("operator", &members[0].info.name) })
    }
}

/// The part of an old channel's rows that a task gets where they are dealt out again. Watermarks among them are left
/// out: the clock is the lowest of all old tasks and rises again with the new channels.
fn own_rows(
    elements: Vec<StreamElement>,
    ownership: Ownership,
    key: &[usize],
    place: Place,
) -> Result<Vec<StreamElement>> {
    let mut own = Vec::new();
    for element in elements {
        let StreamElement::Batch(batch) = element else { continue };
        let mine = match ownership {
            Ownership::Whole => batch,
            Ownership::OwnKeyGroups => place.own_rows(batch, key)?,
        };
        if !mine.is_empty() {
            own.push(StreamElement::Batch(mine));
        }
    }
    Ok(own)
}

/// Restored state that no operator has asked for would be lost at the next snapshot.
fn check_claimed(chain: &mut OperatorChain) -> Result<()> {
    for member in chain.members() {
        let unclaimed = member.state.as_ref().map_or(Vec::new(), |state| state.unclaimed());
        if let Some(name) = unclaimed.first() {
            let text = format!("the snapshot holds state '{name}', which the operator no longer has");
            return Err(Error::user(text).at("operator", &member.info.name).at("uid", &member.info.uid));
        }
    }
    Ok(())
}
