//! A worker whose tasks are long in the making: it is alive, and a cancel ends it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use flott_core::{
    Batch, Context, InputId, Operator, OperatorInfo, Progress, Result, Spec, SystemClock, SystemThreads, Threads,
};
use flott_plan::HostId;
use flott_runtime::local::JobControl;
use flott_runtime::mailbox::TaskCommand;
use flott_runtime::master::{Attempt, JobEnd};
use flott_runtime::network::{Hello, Network, NetworkOptions};
use flott_runtime::processes::{FromHost, Messages, ProcessLimits, Seat, ToHost, run_worker};
use flott_runtime::task::TaskEvent;

use super::{all, gone, job, pid, run, spread};

/// The file that says that a task of [`Stuck`] is being made.
const OPENING: &str = "opening";

/// Its `open` does not return; it says in this folder that it has begun.
pub(super) struct Stuck(pub(super) PathBuf);

impl Operator for Stuck {
    fn open(&mut self, _: &mut Context<'_>) -> Result<()> {
        std::fs::write(self.0.join(OPENING), "").unwrap();
        loop {
            std::thread::park();
        }
    }

    fn process(&mut self, _: InputId, _: Batch, _: &mut Context<'_>) -> Result<Progress> {
        Ok(Progress::Done)
    }
}

pub(super) fn stuck(folder: &Path) -> Option<Spec> {
    Some(Spec::new("stuck", &folder).unwrap())
}

#[test]
fn a_cancel_ends_a_worker_whose_task_is_never_made() {
    let folder = tempfile::tempdir().unwrap();
    // Vertex 1, so its task is in process 1.
    let graph = spread(&job(folder.path(), &[], stuck(folder.path())), 2);
    let opening = folder.path().join(OPENING);
    let cancel = |control: &JobControl| {
        let control = control.clone();
        let body = move || {
            while !opening.exists() {
                std::thread::yield_now();
            }
            control.cancel();
        };
        drop(SystemThreads.spawn("test", Box::new(body)).unwrap());
    };
    let ran = run(graph, folder.path(), "stuck", None, |_, _| (), cancel);
    assert_eq!(ran.end, Ok(JobEnd::Cancelled));
    assert!(gone(&pid(folder.path(), 1)));
}

/// Its `open` says that it has begun, and waits to be let go.
struct Slow(Sender<()>, Arc<Mutex<Receiver<()>>>);

impl Operator for Slow {
    fn open(&mut self, _: &mut Context<'_>) -> Result<()> {
        self.0.send(()).unwrap();
        self.1.lock().unwrap().recv().unwrap();
        Ok(())
    }

    fn process(&mut self, _: InputId, batch: Batch, ctx: &mut Context<'_>) -> Result<Progress> {
        ctx.emit(batch);
        Ok(Progress::Done)
    }
}

#[test]
fn a_worker_answers_while_its_tasks_are_being_made() {
    let folder = tempfile::tempdir().unwrap();
    // All tasks in the worker: the test is its master.
    let mut graph = spread(&job(folder.path(), &[], Some(Spec::new("slow", &()).unwrap())), 2);
    graph.tasks.iter_mut().for_each(|(_, host)| *host = HostId(1));
    let network = Network::start(&SystemThreads, NetworkOptions::default()).unwrap();
    let (peer, peers) = channel();
    let hello = Hello { host: HostId(0), token: "job 7".into() };
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = network.listen(address, hello, move |peered| peer.send(peered).unwrap_or_default()).unwrap();

    let ((opening, opens), (let_go, may_go)) = (channel(), channel());
    let may_go = Arc::new(Mutex::new(may_go));
    let mut registry = all();
    let slow = move |_: &Spec, _: &Arc<OperatorInfo>| -> Result<Box<dyn Operator>> {
        Ok(Box::new(Slow(opening.clone(), Arc::clone(&may_go))))
    };
    registry.add_operator("slow", Arc::new(slow));
    let seat = Seat { host: HostId(1), address: listener.address(), token: "job 7".into() };
    let work = move || run_worker(&seat, registry, Arc::new(SystemClock::default()), Arc::new(SystemThreads)).unwrap();
    let worked = SystemThreads.spawn("worker", Box::new(work)).unwrap();

    let messages = Messages::new(peers.recv().unwrap().unwrap(), 1 << 30);
    let (said, says) = channel();
    messages.start(move |bytes| said.send(FromHost::decode(&bytes)).unwrap_or_default(), |_| ()).unwrap();
    let order = |order: ToHost| messages.send(order.encode().unwrap()).unwrap();
    let hears = || says.recv().unwrap().unwrap();
    order(ToHost::Job { graph: graph.encode().unwrap(), seed: 1, limits: ProcessLimits::default() });
    order(ToHost::Deploy(Attempt(1)));
    assert!(matches!(hears(), FromHost::Listening(Attempt(1), _)));
    opens.recv().unwrap();
    for _ in 0..3 {
        order(ToHost::AreYouThere);
        assert_eq!(hears(), FromHost::Alive);
    }
    // What it is told meanwhile it does afterwards.
    graph.tasks.iter().for_each(|(task, _)| order(ToHost::Command(*task, TaskCommand::Cancel)));
    let_go.send(()).unwrap();
    let mut live = graph.tasks.len();
    while live > 0 {
        match hears() {
            FromHost::Task(_, TaskEvent::Cancelled(_)) => live -= 1,
            FromHost::Task(_, TaskEvent::NeedSplit(_)) | FromHost::Counters(..) => {}
            other => panic!("found {other:?}"),
        }
    }
    order(ToHost::Stop);
    worked();
}
