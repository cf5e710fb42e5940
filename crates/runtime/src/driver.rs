//! Carries out what a job's [`Master`] decides: [`Driver`]. It owns what touches the world on the master's side: the
//! enumerators, the committers, the checkpoint store, and the [`Hosts`] that run tasks. It never waits; whoever owns it
//! feeds events and the time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use flott_checkpoint::{
    CheckpointStore, Committables, Coordinator, Latest, Location, Manifest, RestartStrategy, Restore, Settings,
    TaskRestore,
};
use flott_core::config::{RECOVERY_PATH, local_path_of};
use flott_core::{
    CheckpointId, CheckpointKind, Clock, Committer, Config, Error, Registry, Result, Source, SplitEnumerator, Timestamp,
};
use flott_plan::{ExecutionGraph, NodeKind, TaskId};

use crate::catching::catching;
use crate::mailbox::TaskCommand;
use crate::master::{Attempt, JobEnd, Master, MasterAction, MasterEvent, Note};

/// Whoever runs the tasks of a job: this process, several processes, the simulator.
pub trait Hosts {
    /// Makes and starts the tasks; their events carry the attempt. On an error none of them runs.
    fn deploy(&mut self, attempt: Attempt, restored: BTreeMap<TaskId, TaskRestore>) -> Result<()>;

    /// Tells a task; one that is over is passed by.
    fn command(&mut self, task: TaskId, command: TaskCommand);
}

/// What a job begins with.
pub struct JobStart {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where checkpoints are kept.
    pub store: Box<dyn CheckpointStore>,
    /// The checkpoint to go on from; before the one that the configuration names.
    pub from: Option<Manifest>,
    /// Without either: the newest in the store, if there is one.
    pub resume: bool,
    /// State of operators that the job no longer has is dropped on restore instead of refused.
    pub allow_non_restored: bool,
    /// Where everything random begins.
    pub seed: u64,
    /// Hears what is worth telling people.
    pub notes: Box<dyn FnMut(&Note) + Send>,
}

/// Carries out what a job's master decides.
pub struct Driver<H> {
    graph: Arc<ExecutionGraph>,
    master: Master,
    /// Who runs the tasks.
    pub hosts: H,
    store: Box<dyn CheckpointStore>,
    clock: Arc<dyn Clock>,
    registry: Registry,
    sources: BTreeMap<String, Box<dyn Source>>,
    enumerators: BTreeMap<String, Box<dyn SplitEnumerator>>,
    committers: BTreeMap<String, Option<Box<dyn Committer>>>,
    allow_non_restored: bool,
    recovery: Recovery,
    notes: Box<dyn FnMut(&Note) + Send>,
    queue: VecDeque<MasterEvent>,
    done: Option<Result<JobEnd>>,
}

/// What a restart goes on from: the newest checkpoint of this run, and until there is one, what the run began with.
/// What others have left in the store is none of its business.
struct Recovery {
    generation: u64,
    /// The newest that was there before this run.
    before: Option<CheckpointId>,
    /// The newest of this run that is durable.
    durable: Option<CheckpointId>,
    began_with: Option<Arc<Manifest>>,
}

impl Recovery {
    fn newest(&self, latest: Latest) -> Result<Option<Box<Manifest>>> {
        let own = latest.manifest.as_ref().map(|(_, manifest)| manifest);
        let own = own.filter(|manifest| manifest.generation >= self.generation).map(|manifest| manifest.checkpoint);
        latest.check_nothing_newer_is_broken(own.max(self.before))?;
        if let Some(lost) = self.durable.filter(|durable| own < Some(*durable)) {
            let text = "the checkpoint was complete and is no longer there: from an older one what was committed \
                        since would be committed again";
            return Err(Error::external(text).final_().at("checkpoint", lost));
        }
        Ok(match own {
            Some(_) => latest.manifest.map(|(_, manifest)| Box::new(manifest)),
            None => self.began_with.as_deref().cloned().map(Box::new),
        })
    }

    fn stored(&mut self, manifest: &Manifest) {
        // A savepoint is the user's, who may take it away.
        if manifest.kind != CheckpointKind::Savepoint {
            self.durable = Some(manifest.checkpoint);
            self.began_with = None;
        }
    }
}

impl<H: Hosts> Driver<H> {
    /// Begins with a job. Errors known before anything runs come at once.
    pub fn begin(graph: &Arc<ExecutionGraph>, registry: &Registry, hosts: H, start: JobStart) -> Result<Self> {
        let config = &graph.job.config;
        let settings = Settings::from_config(config)?;
        let latest = start.store.latest()?;
        let (generation, before) = (latest.generation + 1, latest.highest);
        let from = match start.from {
            None => begin_with(config, &*start.store, start.resume, latest)?,
            from => from,
        };
        let coordinator = Coordinator::new(settings, generation, before);
        let restarts = RestartStrategy::from_config(config, start.seed)?;
        let mut driver = Self {
            graph: Arc::clone(graph),
            master: Master::new(Arc::clone(graph), coordinator, restarts),
            hosts,
            store: start.store,
            clock: start.clock,
            registry: registry.clone(),
            sources: BTreeMap::new(),
            enumerators: BTreeMap::new(),
            committers: BTreeMap::new(),
            allow_non_restored: start.allow_non_restored,
            recovery: Recovery { generation, before, durable: None, began_with: None },
            notes: start.notes,
            queue: VecDeque::new(),
            done: None,
        };
        driver.handle(MasterEvent::Start(from.map(Box::new)));
        Ok(driver)
    }

    /// How the job ended, once it has.
    pub fn done(&self) -> Option<&Result<JobEnd>> {
        self.done.as_ref()
    }

    /// How the job ended, and who ran its tasks.
    pub fn into_end(self) -> (Result<JobEnd>, H) {
        (self.done.unwrap_or_else(|| Err(Error::internal("a job that has not ended"))), self.hosts)
    }

    /// When [`MasterEvent::Tick`] is due.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.master.next_wake()
    }

    /// Takes an event and carries out all that follows from it.
    pub fn handle(&mut self, event: MasterEvent) {
        self.queue.push_back(event);
        while let Some(event) = self.queue.pop_front() {
            for action in self.master.handle(event, self.clock.now()) {
                // Enumerators, committers and stores may be the user's too.
                let carried = catching(|| {
                    self.carry_out(action);
                    Ok(())
                });
                carried.unwrap_or_else(|error| self.queue.push_back(MasterEvent::Broken(error)));
            }
        }
    }

    fn carry_out(&mut self, action: MasterAction) {
        match action {
            MasterAction::Deploy(attempt, manifest) => {
                let manifest = manifest.map(|manifest| Arc::new(*manifest));
                if self.recovery.durable.is_none() {
                    self.recovery.began_with.clone_from(&manifest);
                }
                let event = match catching(|| self.deploy(attempt, manifest.as_deref())) {
                    Ok(()) => MasterEvent::Deployed(attempt),
                    Err(error) => MasterEvent::DeployFailed(attempt, error),
                };
                self.queue.push_back(event);
            }
            MasterAction::Command(task, command) => self.hosts.command(task, command),
            MasterAction::NextSplit(task) => match self.next_split(task) {
                Ok(command) => self.hosts.command(task, command),
                Err(error) => self.queue.push_back(MasterEvent::Broken(error)),
            },
            MasterAction::SnapshotEnumerators(barrier, tasks) => {
                let snapshots = self.enumerators.iter().map(|(uid, e)| Ok((uid.clone(), e.snapshot()?)));
                match snapshots.collect::<Result<Vec<_>>>() {
                    Ok(snapshots) => {
                        tasks.into_iter().for_each(|task| self.hosts.command(task, TaskCommand::Trigger(barrier)));
                        self.queue.push_back(MasterEvent::Enumerators(barrier.id, snapshots));
                    }
                    Err(error) => self.queue.push_back(MasterEvent::Broken(error)),
                }
            }
            MasterAction::Store(manifest) => {
                let stored = catching(|| self.store.write(&manifest)).map(|_| self.recovery.stored(&manifest));
                self.queue.push_back(MasterEvent::Stored(manifest.checkpoint, stored));
            }
            MasterAction::Commit(checkpoint, committables) => {
                let committed = self.commit(&committables);
                self.queue.push_back(MasterEvent::Committed(checkpoint, committed));
            }
            MasterAction::FindLatest => {
                let newest = catching(|| self.store.latest()).and_then(|latest| self.recovery.newest(latest));
                self.queue.push_back(MasterEvent::Latest(newest));
            }
            MasterAction::Note(note) => {
                // Whoever cannot be told is no reason for a job to fail.
                let _ = catching(|| {
                    (self.notes)(&note);
                    Ok(())
                });
            }
            MasterAction::Done(result) => self.done = Some(result),
        }
    }

    fn deploy(&mut self, attempt: Attempt, manifest: Option<&Manifest>) -> Result<()> {
        let job = &self.graph.job;
        let restore = manifest.map(|manifest| Restore::new(manifest, job, self.allow_non_restored)).transpose()?;
        self.enumerators.clear();
        for node in job.vertices.iter().flat_map(|vertex| &vertex.chain).map(|member| &member.node) {
            if let NodeKind::Source { spec, .. } = &node.kind {
                if !self.sources.contains_key(&node.uid) {
                    self.sources.insert(node.uid.clone(), self.registry.source(&spec.factory)?(spec)?);
                }
                let restored = restore.as_ref().and_then(|restore| restore.enumerator(&node.uid));
                let at_source = |e: Error| if e.place("operator").is_some() { e } else { e.at("operator", &node.name) };
                let enumerator = self.sources[&node.uid].enumerator(restored).map_err(at_source)?;
                self.enumerators.insert(node.uid.clone(), enumerator);
            }
        }
        let mut tasks = BTreeMap::new();
        if let Some(restore) = &restore {
            let committables = restore.committables().clone();
            for (task, _) in &self.graph.tasks {
                tasks.insert(*task, restore.task(*task)?);
            }
            self.commit(&committables)?;
        }
        self.hosts.deploy(attempt, tasks)
    }

    fn next_split(&mut self, task: TaskId) -> Result<TaskCommand> {
        let vertex = self.graph.job.vertex(task.vertex).ok_or_else(|| Error::internal("a task of no vertex"))?;
        let node = &vertex.chain[0].node;
        let enumerator = self.enumerators.get_mut(&node.uid).ok_or_else(|| Error::internal("a split for no source"))?;
        let answer = enumerator.next_split(task.index, vertex.parallelism);
        Ok(TaskCommand::Split(answer.map_err(|e| e.at("operator", &node.name))?))
    }

    fn commit(&mut self, committables: &Committables) -> Result<()> {
        for (uid, of_sink) in committables {
            if !self.committers.contains_key(uid) {
                let committer = self.committer(uid)?;
                self.committers.insert(uid.clone(), committer);
            }
            if let Some(Some(committer)) = self.committers.get_mut(uid) {
                committer.commit(of_sink).map_err(|e| e.at("sink", uid))?;
            }
        }
        Ok(())
    }

    fn committer(&self, uid: &str) -> Result<Option<Box<dyn Committer>>> {
        let mut nodes = self.graph.job.vertices.iter().flat_map(|vertex| &vertex.chain).map(|member| &member.node);
        match nodes.find(|node| node.uid == uid).map(|node| &node.kind) {
            Some(NodeKind::Sink(spec)) => self.registry.sink(&spec.factory)?(spec)?.committer(),
            // Dropped on restore, as the user allowed.
            _ => Ok(None),
        }
    }
}

/// What a job begins with: what its configuration names, or the newest in the store if it is to go on from that.
fn begin_with(config: &Config, store: &dyn CheckpointStore, resume: bool, latest: Latest) -> Result<Option<Manifest>> {
    let named = local_path_of(config, &RECOVERY_PATH)?;
    if !named.is_empty() {
        return store.read(&Location(named)).map(Some).map_err(|e| e.at("option", RECOVERY_PATH.key));
    }
    if !resume {
        return Ok(None);
    }
    let newest = latest.manifest.as_ref().map(|(_, manifest)| manifest.checkpoint);
    latest.check_nothing_newer_is_broken(newest)?;
    Ok(latest.manifest.map(|(_, manifest)| manifest))
}
