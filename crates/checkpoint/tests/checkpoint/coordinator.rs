//! The coordinator as text tables: `time event => actions`, one line each. Tasks are `vertex.index`; the job is a
//! source of two tasks and, by hash, a sink of two.

use flott_checkpoint::{Action, Committables, Coordinator, Event, Settings, TaskSnapshot, TaskState};
use flott_core::{BarrierMode, CheckpointId, CheckpointKind, Config, Error, Timestamp};
use flott_plan::TaskId;

use crate::graph::{committables, execution, hash, job, show, task};

const SETTINGS: Settings = Settings {
    interval: Some(100),
    min_pause: 0,
    timeout: 1_000,
    tolerable_failures: 1,
    at_least_once: false,
    unaligned: false,
    aligned_timeout: 0,
};

fn check(settings: Settings, table: &str) {
    let mut coordinator = Coordinator::new(settings, 1, None);
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (given, expected) = line.split_once("=>").unwrap();
        let (time, event) = given.trim().split_once(' ').unwrap();
        let actions = coordinator.handle(parse(event), Timestamp(time.parse().unwrap()));
        let found: Vec<_> = actions.iter().map(describe).collect();
        assert_eq!(found.join("; "), expected.trim(), "after: {line}");
    }
}

fn parse(text: &str) -> Event {
    let words: Vec<_> = text.split_whitespace().collect();
    let id = |word: &str| CheckpointId(word.parse().unwrap());
    let task = |word: &str| {
        let (vertex, index) = word.split_once('.').unwrap();
        task(vertex.parse().unwrap(), index.parse().unwrap())
    };
    let prepared = |words: &[&str]| if words.is_empty() { Committables::new() } else { committables("sink", words) };
    let error = Error::external("no space");
    match words.as_slice() {
        ["start", from @ ..] => {
            let graph = execution(job(&[("source", 2), ("sink", 2)], &[(0, 1, hash())]));
            Event::Started { graph, from: from.first().map(|from| id(from)) }
        }
        ["tick"] => Event::Tick,
        ["request", "checkpoint"] => Event::TriggerRequested { kind: CheckpointKind::Checkpoint },
        ["request", "savepoint"] => Event::TriggerRequested { kind: CheckpointKind::Savepoint },
        ["request", "stop"] => Event::TriggerRequested { kind: CheckpointKind::Stop },
        ["enumerators", checkpoint] => {
            Event::EnumeratorsSnapshotted { checkpoint: id(checkpoint), enumerators: Vec::new() }
        }
        ["ack", checkpoint, who, words @ ..] => {
            let snapshot = TaskSnapshot { committables: prepared(words), ..TaskSnapshot::default() };
            Event::Ack { task: task(who), checkpoint: id(checkpoint), snapshot }
        }
        ["decline", checkpoint, who] => Event::Declined { task: task(who), checkpoint: id(checkpoint), error },
        ["end", who, words @ ..] => Event::TaskFinished { task: task(who), committables: prepared(words) },
        ["stored", checkpoint] => Event::Stored { checkpoint: id(checkpoint) },
        ["unstored", checkpoint] => Event::StoreFailed { checkpoint: id(checkpoint), error },
        ["committed", checkpoint] => Event::Committed { checkpoint: id(checkpoint) },
        ["job-finished"] => Event::JobFinished,
        ["job-failed"] => Event::JobFailed,
        other => panic!("no such event: {other:?}"),
    }
}

fn describe(action: &Action) -> String {
    let tasks = |tasks: &[TaskId]| tasks.iter().map(|t| format!(" {}.{}", t.vertex.0, t.index)).collect::<String>();
    let kind = |kind: &CheckpointKind| format!("{kind:?}").to_lowercase();
    match action {
        Action::SnapshotEnumeratorsAndTrigger { barrier, tasks: to } => {
            let mode = match barrier.mode {
                BarrierMode::Aligned => "",
                BarrierMode::Unaligned => " unaligned",
                BarrierMode::AtLeastOnce => " at-least-once",
            };
            format!("begin {} {}{mode}:{}", kind(&barrier.kind), barrier.id, tasks(to))
        }
        Action::Trigger { barrier, tasks: to } => format!("trigger {}:{}", barrier.id, tasks(to)),
        Action::Overtake { checkpoint, tasks: to } => format!("overtake {checkpoint}:{}", tasks(to)),
        Action::Store { manifest } => {
            let states = manifest.vertices.iter().flat_map(|v| &v.tasks);
            let finished = states.map(|state| if *state == TaskState::Finished { 'F' } else { 'S' });
            let held = show(&manifest.committables);
            format!(
                "store {} {}{}",
                manifest.checkpoint,
                finished.collect::<String>(),
                if held.is_empty() { held } else { format!(" {held}") }
            )
        }
        Action::Commit { checkpoint, committables } => format!("commit {checkpoint} {}", show(committables)),
        Action::NotifyComplete { checkpoint } => format!("complete {checkpoint}"),
        Action::NotifyAborted { checkpoint, error, .. } => format!("aborted {checkpoint}: {}", error.message()),
        Action::Completed { checkpoint, kind: of, duration } => {
            format!("completed {} {checkpoint} in {duration}", kind(of))
        }
        Action::Refused { error } => format!("refused: {}", error.message()),
        Action::Fail { error } => format!("fail: {}", error.message()),
        Action::Finished => "finished".into(),
    }
}

#[test]
fn a_checkpoint_from_trigger_to_commit() {
    check(
        SETTINGS,
        "
        0   start         =>
        99  tick          =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 enumerators 1 =>
        110 ack 1 0.1     =>
        111 ack 1 1.0 a   =>
        112 ack 1 0.0     =>
        113 ack 1 1.1 b c => store 1 SSSS sink=a b c
        200 tick          =>
        210 stored 1      => completed checkpoint 1 in 110; commit 1 sink=a b c; complete 1; begin checkpoint 2: 0.0 0.1
        211 committed 1   =>
        ",
    );
}

#[test]
fn enumerators_are_waited_for() {
    check(
        SETTINGS,
        "
        0   start         =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 ack 1 0.0     =>
        101 ack 1 0.1     =>
        101 ack 1 1.0     =>
        101 ack 1 1.1     =>
        102 enumerators 1 => store 1 SSSS
        103 stored 1      => completed checkpoint 1 in 3; complete 1
        ",
    );
}

#[test]
fn min_pause_and_interval() {
    check(
        Settings { min_pause: 80, ..SETTINGS },
        "
        0   start         =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 enumerators 1 =>
        101 ack 1 0.0     =>
        101 ack 1 0.1     =>
        101 ack 1 1.0     =>
        150 ack 1 1.1     => store 1 SSSS
        150 stored 1      => completed checkpoint 1 in 50; complete 1
        229 tick          =>
        230 tick          => begin checkpoint 2: 0.0 0.1
        ",
    );
}

/// What is not known to be committed is in every later manifest, and committed by its own commit alone.
#[test]
fn a_slow_commit_is_in_the_next_manifest() {
    check(
        SETTINGS,
        "
        0   start         =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 enumerators 1 =>
        101 ack 1 0.0     =>
        101 ack 1 0.1     =>
        101 ack 1 1.0 a   =>
        101 ack 1 1.1     => store 1 SSSS sink=a
        102 stored 1      => completed checkpoint 1 in 2; commit 1 sink=a; complete 1
        200 tick          => begin checkpoint 2: 0.0 0.1
        201 enumerators 2 =>
        201 ack 2 0.0     =>
        201 ack 2 0.1     =>
        201 ack 2 1.0 b   =>
        201 ack 2 1.1     => store 2 SSSS sink=a b
        202 committed 1   =>
        203 stored 2      => completed checkpoint 2 in 3; commit 2 sink=b; complete 2
        204 committed 2   =>
        ",
    );
}

/// The timeout names who was waited for; what was prepared in time and late rides with the next one.
#[test]
fn a_timeout_carries_what_was_prepared() {
    check(
        SETTINGS,
        "
        0    start         =>
        100  tick          => begin checkpoint 1: 0.0 0.1
        101  enumerators 1 =>
        102  ack 1 0.0     =>
        102  ack 1 1.0 a   =>
        1099 tick          =>
        1100 tick          => aborted 1: the checkpoint was not complete after 1000 ms: it waits for source (2/2), sink (2/2); begin checkpoint 2: 0.0 0.1
        1101 enumerators 1 =>
        1102 ack 1 1.1 b   =>
        1102 ack 1 1.1 b   => refused: a task acknowledged a checkpoint twice
        1103 enumerators 2 =>
        1104 ack 2 0.0     =>
        1104 ack 2 0.1     =>
        1104 ack 2 1.0 c   =>
        1105 ack 1 0.1     => refused: a task acknowledged a checkpoint twice
        1105 ack 2 1.1 d   => store 2 SSSS sink=a b c d
        1106 stored 2      => completed checkpoint 2 in 6; commit 2 sink=a b c d; complete 2
        ",
    );
}

#[test]
fn too_many_failures_fail_the_job() {
    check(
        SETTINGS,
        "
        0   start         =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 decline 1 1.0 => aborted 1: no space
        102 decline 1 1.1 =>
        200 tick          => begin checkpoint 2: 0.0 0.1
        201 enumerators 2 =>
        201 ack 2 0.0     =>
        201 ack 2 0.1     =>
        201 ack 2 1.0 a   =>
        201 ack 2 1.1     => store 2 SSSS sink=a
        202 unstored 2    => aborted 2: no space; fail: no space
        900 tick          =>
        901 job-failed    =>
        ",
    );
}

/// A success in between forgives; savepoints do not count.
#[test]
fn failures_are_counted_in_a_row() {
    check(
        SETTINGS,
        "
        0   start             =>
        100 tick              => begin checkpoint 1: 0.0 0.1
        101 decline 1 1.0     => aborted 1: no space
        102 request savepoint => begin savepoint 2: 0.0 0.1
        103 decline 2 1.0     => aborted 2: no space
        200 tick              => begin checkpoint 3: 0.0 0.1
        201 enumerators 3     =>
        201 ack 3 0.0         =>
        201 ack 3 0.1         =>
        201 ack 3 1.0         =>
        201 ack 3 1.1         => store 3 SSSS
        202 stored 3          => completed checkpoint 3 in 2; complete 3
        300 tick              => begin checkpoint 4: 0.0 0.1
        301 decline 4 1.0     => aborted 4: no space
        400 tick              => begin checkpoint 5: 0.0 0.1
        401 decline 5 1.0     => aborted 5: no space; fail: no space
        ",
    );
}

/// The job is not recovered from a savepoint: it commits nothing and tells no one, the next checkpoint does.
#[test]
fn a_savepoint_commits_nothing() {
    check(
        SETTINGS,
        "
        0   start             =>
        10  request savepoint => begin savepoint 1: 0.0 0.1
        11  request savepoint =>
        11  enumerators 1     =>
        12  ack 1 0.0         =>
        12  ack 1 0.1         =>
        12  ack 1 1.0 a       =>
        12  ack 1 1.1         => store 1 SSSS sink=a
        13  end 1.0 b         =>
        14  stored 1          => completed savepoint 1 in 4; begin savepoint 2: 0.0 0.1
        15  enumerators 2     =>
        16  ack 2 0.0         =>
        16  ack 2 0.1         =>
        16  ack 2 1.1         => store 2 SSFS sink=a b
        17  stored 2          => completed savepoint 2 in 3
        100 tick              => begin checkpoint 3: 0.0 0.1
        101 enumerators 3     =>
        101 ack 3 0.0         =>
        101 ack 3 0.1         =>
        101 ack 3 1.1 c       => store 3 SSFS sink=a b c
        102 stored 3          => completed checkpoint 3 in 2; commit 3 sink=a b c; complete 3
        ",
    );
}

#[test]
fn stop_is_the_last() {
    check(
        SETTINGS,
        "
        0   start         =>
        100 request stop  => begin stop 1: 0.0 0.1
        101 enumerators 1 =>
        101 ack 1 0.0     =>
        101 ack 1 0.1     =>
        101 ack 1 1.0 a   =>
        101 ack 1 1.1     => store 1 SSSS sink=a
        102 stored 1      => completed stop 1 in 2; commit 1 sink=a; complete 1
        300 tick          =>
        301 request checkpoint => refused: no checkpoint can be taken: the job has ended
        302 end 0.0       =>
        302 end 0.1       =>
        302 end 1.0       =>
        302 end 1.1       =>
        303 job-finished  =>
        304 committed 1   => finished
        ",
    );
}

/// BR177: a stop that cannot be stored leaves the job running.
#[test]
fn a_failed_stop_changes_nothing() {
    check(
        Settings { tolerable_failures: 0, ..SETTINGS },
        "
        0   start         =>
        10  request stop  => begin stop 1: 0.0 0.1
        11  enumerators 1 =>
        11  ack 1 0.0     =>
        11  ack 1 0.1     =>
        11  ack 1 1.0 a   =>
        11  ack 1 1.1     => store 1 SSSS sink=a
        12  unstored 1    => aborted 1: no space
        100 tick          => begin checkpoint 2: 0.0 0.1
        101 enumerators 2 =>
        101 ack 2 0.0     =>
        101 ack 2 0.1     =>
        101 ack 2 1.0 b   =>
        101 ack 2 1.1     => store 2 SSSS sink=a b
        102 stored 2      => completed checkpoint 2 in 2; commit 2 sink=a b; complete 2
        ",
    );
}

/// A task that finishes unseen lies before the cut, what it prepared too; one that had acknowledged lies behind it.
#[test]
fn tasks_finish_during_a_checkpoint() {
    check(
        SETTINGS,
        "
        0   start         =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 enumerators 1 =>
        101 ack 1 0.0     =>
        101 end 0.1       =>
        102 end 1.0 a     =>
        103 ack 1 1.1 b   => store 1 SFFS sink=a b
        104 stored 1      => completed checkpoint 1 in 4; commit 1 sink=a b; complete 1
        105 committed 1   =>
        200 tick          => begin checkpoint 2: 0.0
        201 ack 2 0.0     =>
        201 ack 2 1.1 c   =>
        202 end 1.1 d     =>
        203 enumerators 2 => store 2 SFFS sink=c
        204 stored 2      => completed checkpoint 2 in 4; commit 2 sink=c; complete 2
        205 end 0.0       =>
        206 job-finished  => begin checkpoint 3:
        207 enumerators 3 => store 3 FFFF sink=c d
        208 committed 2   =>
        208 stored 3      => completed checkpoint 3 in 2; commit 3 sink=d; complete 3
        209 committed 3   => finished
        ",
    );
}

/// Barriers begin where no sender runs any more; a task left without a barrier gets its own.
#[test]
fn barriers_begin_behind_finished_tasks() {
    check(
        SETTINGS,
        "
        0   start         =>
        1   end 0.0       =>
        100 tick          => begin checkpoint 1: 0.1
        101 enumerators 1 =>
        102 end 0.1       => trigger 1: 1.0 1.1
        103 ack 1 1.0     =>
        103 ack 1 1.1     => store 1 FFSS
        104 stored 1      => completed checkpoint 1 in 4; complete 1
        200 tick          => begin checkpoint 2: 1.0 1.1
        ",
    );
}

#[test]
fn a_bounded_job_ends_with_a_checkpoint() {
    check(
        SETTINGS,
        "
        0   start          =>
        1   end 0.0        =>
        1   job-finished   => refused: the job was said to have finished while 3 tasks run
        1   end 0.1        =>
        2   end 1.0 a      =>
        2   end 1.0 a      => refused: a task finished twice
        2   end 1.1 b      =>
        3   job-finished   => begin checkpoint 1:
        4   enumerators 1  => store 1 FFFF sink=a b
        5   unstored 1     => aborted 1: no space
        104 tick           =>
        105 tick           => begin checkpoint 2:
        106 enumerators 2  => store 2 FFFF sink=a b
        107 stored 2       => completed checkpoint 2 in 2; commit 2 sink=a b; complete 2
        900 tick           =>
        901 committed 2    => finished
        902 request savepoint => refused: no checkpoint can be taken: the job has ended
        ",
    );
}

#[test]
fn without_checkpoints_it_commits_at_its_end() {
    check(
        Settings { interval: None, ..SETTINGS },
        "
        0   start         =>
        999 tick          =>
        999 end 0.0       =>
        999 end 0.1       =>
        999 end 1.0 a     =>
        999 end 1.1 b     =>
        999 job-finished  => commit 1 sink=a b
        999 committed 1   => finished
        ",
    );
    check(
        Settings { interval: None, ..SETTINGS },
        "
        0   start         =>
        999 end 0.0       =>
        999 end 0.1       =>
        999 end 1.0       =>
        999 end 1.1       =>
        999 job-finished  => finished
        ",
    );
}

/// After a failure nothing of before counts: tasks prepare it again. Ids never come twice.
#[test]
fn a_failure_takes_everything_back() {
    check(
        SETTINGS,
        "
        0   start             =>
        100 tick              => begin checkpoint 1: 0.0 0.1
        101 enumerators 1     =>
        101 ack 1 1.0 a       =>
        102 request savepoint =>
        103 job-failed        => aborted 1: the job failed before the checkpoint was complete; refused: no savepoint can be taken: the job failed
        104 request savepoint => refused: no savepoint can be taken: the job is not running
        104 ack 1 1.1 b       =>
        104 tick              =>
        200 start 7           =>
        201 ack 1 1.1 b       =>
        300 tick              => begin checkpoint 8: 0.0 0.1
        301 enumerators 8     =>
        301 ack 8 0.0         =>
        301 ack 8 0.1         =>
        301 ack 8 1.0 c       =>
        301 ack 8 1.1         => store 8 SSSS sink=c
        302 job-failed        => aborted 8: the job failed before the checkpoint was complete
        303 stored 8          =>
        ",
    );
}

#[test]
fn what_cannot_be_is_refused() {
    check(
        SETTINGS,
        "
        0   start         =>
        1   ack 1 0.0     => refused: a task acknowledged a checkpoint that was never begun
        2   ack 1 5.0     => refused: the job has no task 0 of vertex 5
        2   end 0.2       => refused: the job has no task 2 of vertex 0
        2   decline 1 5.0 => refused: the job has no task 0 of vertex 5
        3   stored 1      =>
        3   committed 1   =>
        100 tick          => begin checkpoint 1: 0.0 0.1
        101 stored 1      =>
        101 end 0.0       =>
        102 ack 1 0.0     => refused: a task acknowledged a checkpoint after it had finished
        ",
    );
}

#[test]
fn modes() {
    let unaligned = Settings { unaligned: true, ..SETTINGS };
    check(
        unaligned,
        "
        0   start             =>
        100 tick              => begin checkpoint 1 unaligned: 0.0 0.1
        101 decline 1 0.0     => aborted 1: no space
        102 request savepoint => begin savepoint 2: 0.0 0.1
        ",
    );
    check(
        Settings { at_least_once: true, ..SETTINGS },
        "
        0   start             =>
        100 tick              => begin checkpoint 1 at-least-once: 0.0 0.1
        101 decline 1 0.0     => aborted 1: no space
        102 request stop      => begin stop 2: 0.0 0.1
        ",
    );
    check(
        Settings { aligned_timeout: 30, ..unaligned },
        "
        0   start             =>
        100 tick              => begin checkpoint 1: 0.0 0.1
        110 enumerators 1     =>
        110 ack 1 0.0         =>
        129 tick              =>
        130 tick              => overtake 1: 0.1 1.0 1.1
        131 tick              =>
        ",
    );
}

#[test]
fn it_says_when_to_wake_it() {
    let settings = Settings { unaligned: true, aligned_timeout: 30, min_pause: 500, ..SETTINGS };
    let mut coordinator = Coordinator::new(settings, 1, None);
    assert_eq!(coordinator.next_wake(), None);
    for (time, event, wake) in [
        (0, "start", Some(100)),
        (100, "tick", Some(130)),
        (130, "tick", Some(1_100)),
        (140, "enumerators 1", Some(1_100)),
        (150, "decline 1 1.0", Some(650)),
        (650, "tick", Some(680)),
        (660, "job-failed", None),
    ] {
        coordinator.handle(parse(event), Timestamp(time));
        assert_eq!(coordinator.next_wake(), wake.map(Timestamp), "{time} {event}");
    }
}

#[test]
fn settings_from_flinks_keys() {
    let of = |options: &[(&str, &str)]| {
        let mut config = Config::default();
        options.iter().try_for_each(|(key, value)| config.set(key, value)).unwrap();
        Settings::from_config(&config)
    };
    // Flink's defaults.
    let defaults = Settings {
        interval: None,
        min_pause: 0,
        timeout: 600_000,
        tolerable_failures: 0,
        at_least_once: false,
        unaligned: false,
        aligned_timeout: 0,
    };
    assert_eq!(of(&[]).unwrap(), defaults);
    let unaligned = ("execution.checkpointing.unaligned.enabled", "true");
    let found = of(&[
        ("execution.checkpointing.interval", "10 s"),
        ("execution.checkpointing.min-pause", "1 s"),
        ("execution.checkpointing.timeout", "1 min"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "3"),
        ("execution.checkpointing.aligned-checkpoint-timeout", "5 s"),
        unaligned,
    ]);
    let expected = Settings {
        interval: Some(10_000),
        min_pause: 1_000,
        timeout: 60_000,
        tolerable_failures: 3,
        at_least_once: false,
        unaligned: true,
        aligned_timeout: 5_000,
    };
    assert_eq!(found.unwrap(), expected);
    assert!(of(&[("execution.checkpointing.mode", "at_least_once")]).unwrap().at_least_once);
    let error = of(&[("execution.checkpointing.mode", "MAYBE")]).unwrap_err();
    assert!(error.to_string().contains("EXACTLY_ONCE or AT_LEAST_ONCE, found 'MAYBE'"), "{error}");
    assert!(of(&[("execution.checkpointing.mode", "AT_LEAST_ONCE"), unaligned]).is_err());
    assert!(of(&[("execution.checkpointing.timeout", "0 s")]).is_err());
}
