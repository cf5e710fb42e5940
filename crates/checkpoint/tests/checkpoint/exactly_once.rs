//! Whole jobs against the coordinator, thousands of schedules from seeds: tasks that write rows, barriers that arrive
//! when they like, stores that fail or never answer in time, commits that are slow, failures and restarts at any point.
//!
//! What must hold in each: a commit only after its manifest is durable and in the order of ids; one checkpoint at a
//! time; notice of completion only after every task; and in the end every row committed exactly once, where commits
//! are idempotent and happen again after a restore.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use flott_checkpoint::{
    Action, CheckpointStore, Committables, Coordinator, Event, InMemory, Manifest, Restore, Settings, TaskSnapshot,
};
use flott_core::{CheckpointBarrier, CheckpointId, CheckpointKind, Committable, Error, Timestamp};
use flott_plan::{ExecutionGraph, JobGraph, TaskId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::graph::{execution, hash, job, task};

const ROWS: u64 = 40;
const TASKS: [(u32, u32); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// A task writes rows 0..ROWS; what it prepares is a range of them. Sinks have not the same rows as sources, so every
/// task is checked alone.
#[derive(Clone, Default)]
struct Task {
    written: u64,
    prepared: u64,
    finished: bool,
    /// Barriers on the way to it, and events on the way from it, in order.
    barriers: VecDeque<CheckpointBarrier>,
    told: VecDeque<Event>,
    /// The newest barrier sent to it: older ones that come later are dropped, as a gate does.
    newest: CheckpointId,
    /// It waits for the outcome of a stop.
    stopped_at: Option<CheckpointId>,
}

struct Simulation {
    seed: u64,
    random: SmallRng,
    now: i64,
    graph: Arc<ExecutionGraph>,
    coordinator: Coordinator,
    store: InMemory,
    tasks: BTreeMap<TaskId, Task>,
    /// What the world outside the tasks owes the coordinator.
    answers: Vec<Event>,
    to_store: Option<Box<Manifest>>,
    to_commit: VecDeque<(CheckpointId, Committables)>,
    committed: BTreeSet<Vec<u8>>,
    pending: Option<CheckpointId>,
    durable: BTreeSet<CheckpointId>,
    acked: BTreeSet<(CheckpointId, TaskId)>,
    last_commit: CheckpointId,
    job_finished_told: bool,
    over: bool,
    restarts: u32,
    stopped: Option<CheckpointId>,
}

fn graph() -> JobGraph {
    job(&[("source", 2), ("sink", 2)], &[(0, 1, hash())])
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let settings = Settings {
            interval: Some(random.random_range(5..40)),
            min_pause: random.random_range(0..10),
            timeout: random.random_range(20..200),
            tolerable_failures: random.random_range(0..5),
            at_least_once: false,
            unaligned: random.random(),
            aligned_timeout: random.random_range(0..30),
        };
        Self {
            seed,
            random,
            now: 0,
            graph: execution(graph()),
            coordinator: Coordinator::new(settings, 1, None),
            store: InMemory::default(),
            tasks: BTreeMap::new(),
            answers: Vec::new(),
            to_store: None,
            to_commit: VecDeque::new(),
            committed: BTreeSet::new(),
            pending: None,
            durable: BTreeSet::new(),
            acked: BTreeSet::new(),
            last_commit: CheckpointId(0),
            job_finished_told: false,
            over: false,
            restarts: 0,
            stopped: None,
        }
    }

    fn run(mut self) -> Self {
        self.start();
        for _ in 0..200_000 {
            if self.over {
                self.check_end();
                return self;
            }
            self.step();
        }
        panic!("seed {}: the job does not end", self.seed);
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_range(0..one_in) == 0
    }

    fn start(&mut self) {
        let latest = self.store.latest().unwrap().manifest.map(|(_, manifest)| manifest);
        let job = graph();
        let restore = latest.as_ref().map(|manifest| Restore::new(manifest, &job, false).unwrap());
        self.tasks = TASKS.iter().map(|&(v, i)| (task(v, i), Task::default())).collect();
        if let Some(restore) = &restore {
            for (_, all) in restore.committables() {
                self.committed.extend(all.iter().map(|c| c.0.clone()));
            }
            for (id, state) in &mut self.tasks {
                let restored = restore.task(*id).unwrap();
                let own = restored.runtime.iter().find(|part| part.index == id.index);
                let written = own.map_or(ROWS, |part| u64::from_le_bytes(part.bytes.as_slice().try_into().unwrap()));
                assert!(restored.finished || own.is_some(), "{id:?} has nothing to go on from");
                (state.written, state.prepared, state.finished) = (written, written, restored.finished);
                if restored.finished {
                    state.told.push_back(Event::TaskFinished { task: *id, committables: Vec::new() });
                }
            }
        }
        let from = latest.map(|manifest| manifest.checkpoint);
        self.tell(Event::Started { graph: self.graph.clone(), from });
    }

    fn tell(&mut self, event: Event) {
        if let Event::Stored { checkpoint } = event {
            self.durable.insert(checkpoint);
        }
        let actions = self.coordinator.handle(event, Timestamp(self.now));
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        let seed = self.seed;
        match action {
            Action::SnapshotEnumeratorsAndTrigger { barrier, tasks } => {
                assert_eq!(self.pending.replace(barrier.id), None, "seed {seed}: two checkpoints at a time");
                self.answers.push(Event::EnumeratorsSnapshotted { checkpoint: barrier.id, enumerators: Vec::new() });
                self.send(barrier, &tasks);
            }
            Action::Trigger { barrier, tasks } => self.send(barrier, &tasks),
            Action::Overtake { .. } => {}
            Action::Store { manifest } => {
                assert_eq!(self.pending, Some(manifest.checkpoint), "seed {seed}");
                self.to_store = Some(manifest);
            }
            Action::Commit { checkpoint, committables } => {
                assert!(self.durable.contains(&checkpoint), "seed {seed}: a commit before its manifest is durable");
                assert!(checkpoint > self.last_commit, "seed {seed}: a commit out of order");
                self.last_commit = checkpoint;
                self.to_commit.push_back((checkpoint, committables));
            }
            Action::Completed { checkpoint, .. } => assert_eq!(self.pending.take(), Some(checkpoint), "seed {seed}"),
            Action::NotifyComplete { checkpoint } => self.complete(checkpoint),
            Action::NotifyAborted { checkpoint, .. } => {
                assert_eq!(self.pending.take(), Some(checkpoint), "seed {seed}");
                for state in self.tasks.values_mut() {
                    state.stopped_at.take_if(|at| *at == checkpoint);
                }
            }
            Action::Refused { error } => {
                assert_ne!(error.domain(), flott_core::ErrorDomain::Internal, "seed {seed}: {error}");
            }
            Action::Fail { .. } => self.fail(),
            Action::Finished => self.over = true,
        }
    }

    /// Barriers reach the tasks they begin at, and through them all others.
    fn send(&mut self, barrier: CheckpointBarrier, tasks: &[TaskId]) {
        for id in tasks {
            let state = self.tasks.get_mut(id).unwrap();
            assert!(state.newest < barrier.id, "seed {}: {id:?} gets its barrier twice", self.seed);
            state.newest = barrier.id;
            state.barriers.push_back(barrier);
        }
    }

    fn complete(&mut self, checkpoint: CheckpointId) {
        for (id, state) in &mut self.tasks {
            assert!(
                state.finished || self.acked.contains(&(checkpoint, *id)),
                "seed {}: complete without {id:?}",
                self.seed
            );
            if state.stopped_at == Some(checkpoint) && !state.finished {
                state.finished = true;
                state.told.push_back(Event::TaskFinished { task: *id, committables: Vec::new() });
                self.stopped = Some(checkpoint);
            }
        }
    }

    fn fail(&mut self) {
        // A write under way is over before what to restore is looked up: durable or not.
        if let Some(manifest) = self.to_store.take()
            && self.random.random()
        {
            self.store.write(&manifest).unwrap();
        }
        while self.random.random()
            && let Some((_, committables)) = self.to_commit.pop_front()
        {
            self.committed.extend(committables.into_iter().flat_map(|(_, all)| all).map(|c| c.0));
        }
        self.to_commit.clear();
        self.answers.clear();
        self.job_finished_told = false;
        self.stopped = None;
        self.restarts += 1;
        self.tell(Event::JobFailed);
        assert_eq!(self.pending, None, "seed {}: a checkpoint outlives its tasks", self.seed);
        self.now += 1;
        self.start();
    }

    fn step(&mut self) {
        self.now += self.random.random_range(0..3);
        match self.random.random_range(0..100) {
            0..50 => self.step_task(),
            50..75 => self.hear_task(),
            75..80 => self.tell(Event::Tick),
            80..88 => self.answer(),
            88..92 => self.write_manifest(),
            92..96 => self.commit(),
            96 if self.restarts < 20 && self.chance(8) => self.fail(),
            97 if self.chance(4) => self.tell(Event::TriggerRequested { kind: CheckpointKind::Savepoint }),
            98 if self.chance(40) => self.tell(Event::TriggerRequested { kind: CheckpointKind::Stop }),
            _ => self.end_job(),
        }
    }

    fn step_task(&mut self) {
        let (vertex, index) = TASKS[self.random.random_range(0..TASKS.len())];
        let id = task(vertex, index);
        let (declines, writes) = (self.chance(30), self.random.random_range(0..4));
        let senders_ended = vertex == 0 || [0, 1].iter().all(|&i| self.tasks[&task(0, i)].finished);
        let state = self.tasks.get_mut(&id).unwrap();
        if state.finished || state.stopped_at.is_some() {
            return;
        }
        if let Some(barrier) = state.barriers.pop_front() {
            let checkpoint = barrier.id;
            if declines {
                let error = Error::external("declined");
                state.told.push_back(Event::Declined { task: id, checkpoint, error });
                // It passes the barrier on all the same.
            } else {
                let committables = prepare(id, state);
                let runtime = state.written.to_le_bytes().to_vec();
                let snapshot = TaskSnapshot { runtime, committables, ..TaskSnapshot::default() };
                state.told.push_back(Event::Ack { task: id, checkpoint, snapshot });
                if barrier.kind == CheckpointKind::Stop {
                    state.stopped_at = Some(checkpoint);
                }
                self.acked.insert((checkpoint, id));
            }
            if vertex == 0 {
                self.pass_on(barrier);
            }
            return;
        }
        state.written = (state.written + writes).min(ROWS);
        if state.written == ROWS && senders_ended {
            state.finished = true;
            let committables = prepare(id, state);
            state.told.push_back(Event::TaskFinished { task: id, committables });
        }
    }

    /// The first barrier to reach a sink is its barrier: alignment is the runtime's, and no row crosses here.
    fn pass_on(&mut self, barrier: CheckpointBarrier) {
        for index in 0..2 {
            let id = task(1, index);
            let state = self.tasks.get_mut(&id).unwrap();
            if state.newest < barrier.id {
                state.newest = barrier.id;
                state.barriers.push_back(barrier);
            }
        }
    }

    fn hear_task(&mut self) {
        let (vertex, index) = TASKS[self.random.random_range(0..TASKS.len())];
        if let Some(event) = self.tasks.get_mut(&task(vertex, index)).and_then(|state| state.told.pop_front()) {
            self.tell(event);
        }
    }

    fn answer(&mut self) {
        if !self.answers.is_empty() {
            let at = self.random.random_range(0..self.answers.len());
            let event = self.answers.swap_remove(at);
            self.tell(event);
        }
    }

    fn write_manifest(&mut self) {
        let Some(manifest) = self.to_store.take() else { return };
        let checkpoint = manifest.checkpoint;
        if self.chance(4) {
            // Refused, or done but not known to be.
            if self.random.random() {
                self.store.write(&manifest).unwrap();
            }
            self.answers.push(Event::StoreFailed { checkpoint, error: Error::external("the store is slow") });
        } else {
            self.store.write(&manifest).unwrap();
            self.answers.push(Event::Stored { checkpoint });
        }
    }

    fn commit(&mut self) {
        if let Some((checkpoint, committables)) = self.to_commit.pop_front() {
            self.committed.extend(committables.into_iter().flat_map(|(_, all)| all).map(|c| c.0));
            self.answers.push(Event::Committed { checkpoint });
        }
    }

    fn end_job(&mut self) {
        let ended = self.tasks.values().all(|state| state.finished && state.told.is_empty());
        if ended && !self.job_finished_told {
            self.job_finished_told = true;
            self.tell(Event::JobFinished);
        }
    }

    /// Ranges of rows committed, of each task: side by side from the first row to the last.
    fn check_end(&self) {
        for (id, state) in &self.tasks {
            let parse = |text: &Vec<u8>| {
                let text = String::from_utf8(text.clone()).unwrap();
                let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
                (numbers[0] == u64::from(id.vertex.0) && numbers[1] == u64::from(id.index))
                    .then(|| (numbers[2], numbers[3]))
            };
            let ranges: BTreeSet<_> = self.committed.iter().filter_map(parse).collect();
            let mut next = 0;
            for (from, to) in &ranges {
                assert_eq!(*from, next, "seed {}: rows of {id:?} lost or twice: {ranges:?}", self.seed);
                next = *to;
            }
            // A stopped task may have written more than the savepoint holds; those rows are written again by who
            // resumes.
            let expected = if self.stopped.is_some() { state.prepared } else { ROWS };
            assert_eq!(next, expected, "seed {}: {id:?}: {ranges:?}", self.seed);
        }
        assert!(self.to_commit.is_empty(), "seed {}", self.seed);
    }
}

/// Everything written since the last call, as one range.
fn prepare(id: TaskId, state: &mut Task) -> Committables {
    let (from, to) = (state.prepared, state.written);
    state.prepared = to;
    if from == to {
        return Committables::new();
    }
    let range = format!("{} {} {from} {to}", id.vertex.0, id.index);
    vec![("sink".into(), vec![Committable(range.into_bytes())])]
}

#[test]
fn every_schedule_commits_every_row_once() {
    let (mut restarts, mut stopped, mut checkpoints) = (0, 0, 0);
    for seed in 0..3_000 {
        let end = Simulation::new(seed).run();
        restarts += end.restarts;
        stopped += u32::from(end.stopped.is_some());
        checkpoints += end.durable.len();
    }
    // The schedules are worth something: they do restart, stop and complete checkpoints.
    assert!(restarts > 1_000 && stopped > 100 && checkpoints > 3_000, "{restarts} {stopped} {checkpoints}");
}
