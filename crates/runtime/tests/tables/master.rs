//! The brain of a job: what it says of tasks that do not end.

use std::sync::Arc;

use flott_checkpoint::{Coordinator, RestartStrategy, Settings};
use flott_core::{CheckpointId, CheckpointKind, Config, Error, Spec, Timestamp};
use flott_plan::{ChainMember, Chaining, ExecutionGraph, HostId, JobGraph, Node, NodeKind, TaskId, Vertex, VertexId};
use flott_runtime::master::{Attempt, JobEnd, Master, MasterAction, MasterEvent, Note};
use flott_runtime::task::TaskEvent;

const TASKS: [TaskId; 2] = [task(0), task(1)];

const fn task(index: u32) -> TaskId {
    TaskId { vertex: VertexId(0), index }
}

/// A job of two tasks that runs, since the time 0.
fn running() -> Master {
    let node = Node {
        uid: "map".into(),
        name: "Map".into(),
        kind: NodeKind::Operator(Spec { factory: "none".into(), config: Vec::new() }),
        inputs: Vec::new(),
        output: flott_core::schema_of(Vec::new()),
        side_outputs: Vec::new(),
        parallelism: None,
        max_parallelism: None,
        chaining: Chaining::Always,
    };
    let vertex = Vertex {
        name: "Map".into(),
        chain: vec![ChainMember { node, keys: Vec::new(), outputs: Vec::new() }],
        parallelism: 2,
        max_parallelism: 2,
        inputs: Vec::new(),
    };
    let mut config = Config::default();
    config.set("restart-strategy.type", "fixed-delay").unwrap();
    config.set("restart-strategy.fixed-delay.delay", "7 ms").unwrap();
    let coordinator = Coordinator::new(Settings::from_config(&config).unwrap(), 1, None);
    let restarts = RestartStrategy::from_config(&config, 1).unwrap();
    let job = JobGraph { name: "test".into(), config, vertices: vec![vertex], edges: Vec::new() };
    let mut master = Master::new(Arc::new(ExecutionGraph::of(job, 1)), coordinator, restarts);
    handle(&mut master, 0, [MasterEvent::Start(None), MasterEvent::Deployed(Attempt(1))]);
    master
}

fn handle(master: &mut Master, at: i64, events: impl IntoIterator<Item = MasterEvent>) -> Vec<MasterAction> {
    events.into_iter().flat_map(|event| master.handle(event, Timestamp(at))).collect()
}

/// What is said at a time, and how the job ends then.
fn at(master: &mut Master, at: i64, event: MasterEvent) -> (Vec<Note>, Option<Result<JobEnd, Error>>) {
    let (mut notes, mut done) = (Vec::new(), None);
    for action in handle(master, at, [event]) {
        match action {
            MasterAction::Note(note) => notes.push(note),
            MasterAction::Done(end) => done = Some(end),
            _ => {}
        }
    }
    (notes, done)
}

fn of(event: TaskEvent) -> MasterEvent {
    MasterEvent::Task(Attempt(1), event)
}

fn waiting(tasks: &[u32]) -> (Vec<Note>, Option<Result<JobEnd, Error>>) {
    (vec![Note::Waiting(tasks.iter().map(|index| (format!("Map/{index}"), HostId(0))).collect())], None)
}

#[test]
fn however_a_job_ends_it_says_what_it_waits_for() {
    let error = || Error::external("broken");
    let id = CheckpointId(1);
    let savepoint = || {
        let acks = TASKS.map(|task| of(TaskEvent::Ack(task, id, Default::default())));
        [MasterEvent::Trigger(CheckpointKind::Stop), MasterEvent::Enumerators(id, Vec::new())]
            .into_iter()
            .chain(acks)
            .chain([MasterEvent::Stored(id, Ok(())), MasterEvent::Committed(id, Ok(()))])
            .collect::<Vec<_>>()
    };
    let restarts = (vec![Note::Restarting(error(), 7)], None);
    for (name, events, tasks, end) in [
        ("cancelled", vec![MasterEvent::Cancel], &[0, 1][..], (Vec::new(), Some(Ok(JobEnd::Cancelled)))),
        ("a task has failed", vec![of(TaskEvent::Failed(task(0), error()))], &[1], restarts.clone()),
        ("something broke", vec![MasterEvent::Broken(error())], &[0, 1], restarts),
        ("stopped with a savepoint", savepoint(), &[0, 1], (Vec::new(), Some(Ok(JobEnd::Stopped(id))))),
    ] {
        let mut master = running();
        handle(&mut master, 100, events);
        // After a second, once.
        assert_eq!(master.next_wake(), Some(Timestamp(1_100)), "{name}");
        assert_eq!(at(&mut master, 1_099, MasterEvent::Tick), (Vec::new(), None), "{name}");
        assert_eq!(at(&mut master, 1_100, MasterEvent::Tick), waiting(tasks), "{name}");
        assert_eq!(
            (master.next_wake(), at(&mut master, 9_000, MasterEvent::Tick)),
            (None, (Vec::new(), None)),
            "{name}"
        );
        let (last, others) = tasks.split_last().unwrap();
        for &index in others {
            assert_eq!(at(&mut master, 9_000, of(TaskEvent::Cancelled(task(index)))), (Vec::new(), None), "{name}");
        }
        assert_eq!(at(&mut master, 9_000, of(TaskEvent::Cancelled(task(*last)))), end, "{name}");
    }
}

#[test]
fn a_failed_job_that_is_cancelled_says_it_again() {
    let mut master = running();
    handle(&mut master, 0, [MasterEvent::Broken(Error::external("broken"))]);
    assert_eq!(at(&mut master, 1_000, MasterEvent::Tick), waiting(&[0, 1]));
    assert_eq!(at(&mut master, 2_000, MasterEvent::Cancel), (Vec::new(), None));
    assert_eq!(at(&mut master, 3_000, MasterEvent::Tick), waiting(&[0, 1]));
}
