//! A process that stands still is not waited for: not by the master, not by its workers.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use flott_core::{Error, SystemThreads};
use flott_plan::ExecutionGraph;
use flott_runtime::local::JobControl;
use flott_runtime::master::{Attempt, JobEnd, Note};
use flott_runtime::network::{Hello, Network, NetworkOptions};
use flott_runtime::processes::{FromHost, Messages, Seat, ToHost};
use flott_runtime::task::TaskEvent;

use super::{CHECKPOINTS, completed, expected, gone, job, open, pid, run, spread, this_binary, work, written};

/// Interval and timeout. The timeout is what these tests wait for: short, but long enough for a machine with much to do.
pub(super) const HEARTBEAT_MS: (u64, u64) = (50, 1_000);

/// A pipe with a name, which the workers of a master that will stand still hold.
const PIPE: &str = "pipe";

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().unwrap().success());
}

fn silent(error: &flott_core::Error) -> bool {
    error.message().starts_with("a worker process has not answered for ")
}

#[test]
fn a_stopped_worker_is_killed_and_every_row_comes_once() {
    let folder = tempfile::tempdir().unwrap();
    // A machine with too much to do may cost more of them.
    let restarts = [("restart-strategy.type", "fixed-delay"), ("restart-strategy.fixed-delay.attempts", "1000")];
    let options = [&[CHECKPOINTS, ("restart-strategy.fixed-delay.delay", "1 ms")], &restarts[..]].concat();
    let graph = spread(&job(folder.path(), &options, None), 2);
    let place = folder.path().to_owned();
    let mut stopped = None;
    let steer = move |_: &JobControl, note: &Note| {
        if completed(note) && stopped.is_none() {
            let pid = pid(&place, 1);
            signal("-STOP", &pid);
            stopped = Some(pid);
        }
        if let Note::Restarting(error, _) = note
            && silent(error)
            && stopped.as_deref() == error.place("pid")
        {
            // The job cannot end before this.
            open(&place);
        }
    };
    let ran = run(graph, folder.path(), "impatient", None, steer, |_| ());
    assert_eq!(ran.end, Ok(JobEnd::Finished), "{:?}", ran.notes);
    assert_eq!(written(folder.path()), expected());
    let mut causes = ran.notes.iter().filter_map(|note| match note {
        Note::Restarting(error, _) if silent(error) => Some(error),
        _ => None,
    });
    let cause = causes.next_back().unwrap();
    let ms = cause.message().split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap();
    assert!(ms > HEARTBEAT_MS.1, "{cause}");
    let text = format!(
        "a worker process has not answered for {ms} ms: it is stopped, or the machine lacks memory or time for it; the \
         worker process was killed by signal 9"
    );
    assert_eq!((cause.message(), cause.place("host")), (&*text, Some("1")));
    assert!(cause.place("pid").is_some_and(gone) && gone(&pid(folder.path(), 1)));
}

#[test]
fn a_cancel_does_not_wait_for_a_stopped_worker() {
    let folder = tempfile::tempdir().unwrap();
    let graph = spread(&job(folder.path(), &[CHECKPOINTS], None), 2);
    let place = folder.path().to_owned();
    let steer = move |control: &JobControl, note: &Note| {
        if completed(note) {
            signal("-STOP", &pid(&place, 1));
            control.cancel();
        }
    };
    let ran = run(graph, folder.path(), "impatient", None, steer, |_| ());
    // Two checkpoints may be complete before the first is told of: then the worker is stopped twice.
    assert_eq!(ran.end, Ok(JobEnd::Cancelled));
    assert!(gone(&pid(folder.path(), 1)));
}

/// The main of a worker that does not answer, but says other things instead; and when it should have been missed for
/// long, that a task has failed.
pub(super) fn chat(seat: &Seat) -> i32 {
    let network = Network::start(&SystemThreads, NetworkOptions::default()).unwrap();
    let hello = Hello { host: seat.host, token: seat.token.clone() };
    let master = Messages::new(network.connect(seat.address, hello).unwrap(), 1 << 30);
    let (order, orders) = std::sync::mpsc::channel();
    master.start(move |bytes| order.send(ToHost::decode(&bytes).unwrap()).unwrap(), |_| ()).unwrap();
    let say = |message: FromHost| master.send(message.encode().unwrap()).unwrap();
    let failed = |task| TaskEvent::Failed(task, Error::user("it has talked enough"));
    let (mut tasks, mut asked) = (Vec::new(), 0);
    for order in orders {
        match order {
            ToHost::Job { graph, .. } => tasks.extend(ExecutionGraph::decode(&graph).unwrap().tasks_on(seat.host)),
            ToHost::Deploy(attempt) => say(FromHost::Listening(attempt, seat.address)),
            ToHost::AreYouThere => {
                // Of no attempt: nobody wants to know.
                say(FromHost::Listening(Attempt(0), seat.address));
                asked += 1;
                if asked == HEARTBEAT_MS.1 / HEARTBEAT_MS.0 + 5 {
                    tasks.iter().for_each(|task| say(FromHost::Task(Attempt(1), failed(*task))));
                }
            }
            ToHost::Stop => break,
            ToHost::Restore(..) | ToHost::Peers(..) | ToHost::Command(..) => {}
        }
    }
    0
}

#[test]
fn whatever_a_worker_says_is_a_sign_of_life() {
    let folder = tempfile::tempdir().unwrap();
    let graph = spread(&job(folder.path(), &[("restart-strategy.type", "none")], None), 2);
    let error = run(graph, folder.path(), "chatty", None, |_, _| (), |_| ()).end.unwrap_err();
    assert_eq!(error.message(), "it has talked enough", "{error}");
}

/// The main of a master that stops in the middle of its job.
pub(super) fn master(folder: &Path) {
    let graph = spread(&job(folder, &[CHECKPOINTS], None), 2);
    let stop = |_: &JobControl, note: &Note| {
        if completed(note) {
            signal("-STOP", &std::process::id().to_string());
        }
    };
    run(graph, folder, "frozen master", None, stop, |_| ());
}

/// The main of its worker: the pipe ends when this does.
pub(super) fn worker(seat: &Seat, folder: &Path) -> i32 {
    let _pipe = std::fs::OpenOptions::new().write(true).open(folder.join(PIPE)).unwrap();
    work(seat)
}

#[test]
fn workers_end_when_their_master_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join(PIPE);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut master = this_binary(folder.path(), "frozen master").stderr(Stdio::null()).spawn().unwrap();
    // To its end, which is the worker's; there is no other.
    let mut pipe = std::fs::File::open(pipe).unwrap();
    pipe.read_to_end(&mut Vec::new()).unwrap();
    assert!(master.try_wait().unwrap().is_none(), "the master stands still");
    master.kill().unwrap();
    master.wait().unwrap();
}
