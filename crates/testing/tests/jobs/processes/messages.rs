//! Snapshots that are large, or too large, for what processes say to each other.

use flott_core::CheckpointKind;
use flott_plan::HostId;
use flott_runtime::local::JobControl;
use flott_runtime::master::{JobEnd, Note};

use super::{CHECKPOINTS, completed, expected, gone, heavy, job, open, pid, run, spread, written};

#[test]
fn large_snapshots_go_in_pieces() {
    // More than may be on its way to another process at once.
    const BYTES: usize = 20 << 20;
    let folder = tempfile::tempdir().unwrap();
    let graph = |parallelism, hosts| {
        spread(&job(folder.path(), &[("parallelism.default", parallelism), CHECKPOINTS], heavy(BYTES)), hosts)
    };
    let stop = |control: &JobControl, note: &Note| {
        if completed(note) {
            control.trigger(CheckpointKind::Stop);
        }
    };
    let ran = run(graph("2", 2), folder.path(), "", None, stop, |_| ());
    assert!(matches!(ran.end, Ok(JobEnd::Stopped(_))), "{:?}", ran.end);
    open(folder.path());
    let ran = run(graph("3", 3), folder.path(), "", ran.latest, |_, _| (), |_| ());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert_eq!(written(folder.path()), expected());
}

#[test]
fn what_a_task_is_restored_from_can_be_too_large() {
    let folder = tempfile::tempdir().unwrap();
    let options = [CHECKPOINTS, ("restart-strategy.type", "none")];
    let graph = || spread(&job(folder.path(), &options, heavy(2 << 20)), 2);
    let stop = |control: &JobControl, note: &Note| {
        if completed(note) {
            control.trigger(CheckpointKind::Stop);
        }
    };
    let ran = run(graph(), folder.path(), "", None, stop, |_| ());
    assert!(matches!(ran.end, Ok(JobEnd::Stopped(_))), "{:?}", ran.end);
    let error = run(graph(), folder.path(), "small", ran.latest, |_, _| (), |_| ()).end.unwrap_err();
    assert!(error.message().starts_with("expected at most 1048576 bytes to wait for a process of the job"), "{error}");
    assert_eq!((error.place("task"), error.place("host")), (Some("heavy/0"), Some("1")), "{error}");
    assert!(gone(&pid(folder.path(), 1)));
}

#[test]
fn a_snapshot_that_is_too_large_fails_its_task() {
    let folder = tempfile::tempdir().unwrap();
    // Vertex 1, so its task is in process 1; what may be sent is 1 MiB.
    let options = [CHECKPOINTS, ("restart-strategy.type", "none")];
    let graph = spread(&job(folder.path(), &options, heavy(2 << 20)), 2);
    let error = run(graph, folder.path(), "small", None, |_, _| (), |_| ()).end.unwrap_err();
    let text = "expected at most 1048576 bytes to wait for a process of the job, found ";
    assert!(error.message().starts_with(text), "{error}");
    assert_eq!((error.place("task"), error.place("checkpoint")), (Some("heavy/0"), Some("1")), "{error}");
    let bytes: usize = error.place("bytes of the message").unwrap().parse().unwrap();
    assert!((2 << 20..3 << 20).contains(&bytes), "{error}");
    assert!(gone(&pid(folder.path(), 1)));
}

#[test]
fn what_all_tasks_of_a_worker_are_restored_from_may_be_large() {
    // 30 MiB: more than the 16 that may be on their way and the 1 that may wait.
    const TASKS: &str = "40";
    const BYTES: usize = 768 << 10;
    let folder = tempfile::tempdir().unwrap();
    let graph = |options: &[(&str, &str)]| {
        let options = [&[("parallelism.default", TASKS), ("restart-strategy.type", "none")], options].concat();
        let mut graph = spread(&job(folder.path(), &options, heavy(BYTES)), 2);
        // Vertex 1 is the heavy one.
        let heavy = graph.tasks.iter_mut().filter(|(task, _)| task.vertex.0 == 1);
        heavy.for_each(|(_, host)| *host = HostId(1));
        graph
    };
    let stop = |control: &JobControl, note: &Note| {
        if completed(note) {
            control.trigger(CheckpointKind::Stop);
        }
    };
    let ran = run(graph(&[CHECKPOINTS]), folder.path(), "", None, stop, |_| ());
    assert!(matches!(ran.end, Ok(JobEnd::Stopped(_))), "{:?}", ran.end);
    open(folder.path());
    let ran = run(graph(&[]), folder.path(), "small", ran.latest, |_, _| (), |_| ());
    assert_eq!(ran.end, Ok(JobEnd::Finished));
    assert_eq!(written(folder.path()), expected());
}
