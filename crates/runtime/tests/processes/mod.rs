//! What processes of a job tell each other. Whole jobs in several processes are tested in `flott-testing`, which has
//! operators to run.

mod heartbeat;
mod messages;

use flott_core::{CheckpointId, CheckpointKind, Config, Error, Result};
use flott_plan::{HostId, TaskId, VertexId};
use flott_runtime::mailbox::TaskCommand;
use flott_runtime::master::{Attempt, Note};
use flott_runtime::processes::{FromHost, Grown, LiveWorkers, ProcessLimits, Seat, ToHost, attempt_token};
use flott_runtime::task::TaskEvent;

const TASK: TaskId = TaskId { vertex: VertexId(2), index: 1 };

#[test]
fn messages_come_back() {
    let address = "127.0.0.1:4242".parse().unwrap();
    for message in [
        ToHost::Job { graph: vec![1, 2], seed: 7, limits: ProcessLimits::default() },
        ToHost::Restore(TASK, Default::default()),
        ToHost::Deploy(Attempt(3)),
        ToHost::Peers(Attempt(3), vec![(HostId(0), address)]),
        ToHost::Command(TASK, TaskCommand::Complete(CheckpointId(4))),
        ToHost::AreYouThere,
        ToHost::Stop,
    ] {
        assert_eq!(ToHost::decode(&message.encode().unwrap()), Ok(message));
    }
    // An error arrives whole.
    let error = Error::user("expected a BIGINT, found 'x'").at("column", "price");
    for message in [
        FromHost::Listening(Attempt(3), address),
        FromHost::Task(Attempt(3), TaskEvent::Ack(TASK, CheckpointId(4), Default::default())),
        FromHost::Task(Attempt(3), TaskEvent::Failed(TASK, error)),
        FromHost::Alive,
        FromHost::Counters(Attempt(3), Grown { names: vec!["numRecordsIn".into()], by: vec![(4, 0, 1 << 40)] }),
    ] {
        assert_eq!(FromHost::decode(&message.encode().unwrap()), Ok(message));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let text = |result: Result<ToHost>| result.unwrap_err().message().to_owned();
    let mut longer = ToHost::Stop.encode().unwrap();
    longer.push(0);
    let cases: [(&[u8], &str); 3] = [(&[], ""), (&[99], ""), (&longer, "it has 1 bytes too many")];
    for (bytes, found) in cases {
        let text = text(ToHost::decode(bytes));
        let rest = text.strip_prefix("a message of another process cannot be read: ");
        assert!(rest.is_some_and(|rest| rest.starts_with(found)), "{text}");
    }
}

#[test]
fn limits_are_those_of_the_configuration() {
    let limits = |options: &[(&str, &str)]| {
        let mut config = Config::default();
        options.iter().try_for_each(|(key, value)| config.set(key, value)).unwrap();
        ProcessLimits::of(&config).map(|limits| (limits.heartbeat_ms, limits.heartbeat_timeout_ms))
    };
    // Flink's defaults, and what it refuses.
    assert_eq!(limits(&[]), Ok((10_000, 50_000)));
    assert_eq!(limits(&[("heartbeat.interval", "1 s"), ("heartbeat.timeout", "1000 ms")]), Ok((1_000, 1_000)));
    let error = limits(&[("heartbeat.interval", "0 ms")]).unwrap_err().to_string();
    assert_eq!(
        error,
        "expected a time of more than 0 ms between signs of life, found 0 ms (option heartbeat.interval)"
    );
    let error = limits(&[("heartbeat.timeout", "9999 ms")]).unwrap_err().to_string();
    assert_eq!(error, "expected at least the 10000 ms of heartbeat.interval, found 9999 ms (option heartbeat.timeout)");
}

#[test]
fn what_is_waited_for_is_said_in_a_line() {
    let tasks = |n: u32| (0..n).map(|i| (format!("Map/{i}"), HostId(i % 2))).collect::<Vec<_>>();
    for (n, text) in [
        (1, "waiting for task Map/0"),
        (3, "waiting for task Map/0, Map/1, Map/2"),
        (5, "waiting for task Map/0, Map/1, Map/2 and 2 more"),
    ] {
        assert_eq!(LiveWorkers::default().waiting_for(&tasks(n)), text);
        assert_eq!(Note::Waiting(tasks(n)).to_string(), text);
    }
}

#[test]
fn notes_are_said_in_a_line() {
    let error = || Error::external("no space left");
    for (note, text) in [
        (Note::Completed(CheckpointId(3), CheckpointKind::Checkpoint, 12), "checkpoint 3 is complete after 12 ms"),
        (Note::Aborted(CheckpointId(3), error()), "checkpoint 3 was given up: no space left"),
        (Note::Restarting(error(), 500), "the job has failed and starts again in 500 ms: no space left"),
        (Note::Refused(error()), "no space left"),
    ] {
        assert_eq!(note.to_string(), text);
    }
}

#[test]
fn seats_are_text() {
    let seat: Seat = "2 [::1]:4242 a b".parse().unwrap();
    assert_eq!((seat.host, seat.token.as_str(), seat.to_string().as_str()), (HostId(2), "a b", "2 [::1]:4242 a b"));
    for text in ["", "1", "1 127.0.0.1:4242", "x 127.0.0.1:4242 secret", "1 nowhere secret"] {
        let error = text.parse::<Seat>().unwrap_err();
        assert_eq!(error.message(), "expected a host, an address and a token in FLOTT_WORKER", "{text}");
    }
    assert_ne!(attempt_token("job", Attempt(1)), attempt_token("job", Attempt(2)));
}
