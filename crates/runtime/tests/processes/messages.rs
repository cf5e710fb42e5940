//! Messages of any length over real connections: whole and in order, within limits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use flott_core::{Error, Result, SystemThreads, Threads};
use flott_plan::HostId;
use flott_runtime::network::{Connection, Hello, Network, NetworkOptions};
use flott_runtime::processes::Messages;

/// One end of a connection.
struct End {
    network: Network,
    messages: Arc<Messages>,
    received: Receiver<Vec<u8>>,
    ended: Receiver<Result<()>>,
}

fn end(network: Network, connection: Connection, limit: usize) -> End {
    let ((message, received), (end, ended)) = (channel(), channel());
    let messages = Messages::new(connection, limit);
    messages
        .start(move |bytes| message.send(bytes).unwrap_or_default(), move |result| end.send(result).unwrap_or_default())
        .unwrap();
    End { network, messages, received, ended }
}

fn pair(limits: (usize, usize)) -> (End, End) {
    let [here, there] = networks();
    let (to, from) = connected(&here, &there);
    (end(here, to, limits.0), end(there, from, limits.1))
}

fn networks() -> [Network; 2] {
    [0, 1].map(|_| Network::start(&SystemThreads, NetworkOptions::default()).unwrap())
}

/// A connection, as each side has it.
fn connected(here: &Network, there: &Network) -> (Connection, Connection) {
    let hello = |host| Hello { host: HostId(host), token: "job 7".into() };
    let (peer, peers) = channel();
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = there.listen(address, hello(1), move |connection| peer.send(connection).unwrap()).unwrap();
    let to = here.connect(listener.address(), hello(0)).unwrap();
    (to, peers.recv().unwrap().unwrap())
}

/// Bytes that differ from place to place and from message to message.
fn message(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251 + number) as u8).collect()
}

#[test]
fn messages_of_any_length_come_whole_and_in_order() {
    const MIB: usize = 1 << 20;
    let (here, there) = pair((1 << 30, 1 << 30));
    // None, one, and around the end of a piece; many pieces; more than may be on their way at once.
    let lengths = [0, 1, 7, MIB - 1, MIB, MIB + 1, 3 * MIB, 0, 40 * MIB, 5, 2 * MIB];
    for (number, length) in lengths.into_iter().enumerate() {
        here.messages.send(message(number, length)).unwrap();
        there.messages.send(message(number + 100, length)).unwrap();
    }
    for (number, length) in lengths.into_iter().enumerate() {
        assert!(there.received.recv().unwrap() == message(number, length), "message {number}");
        assert!(here.received.recv().unwrap() == message(number + 100, length), "message {number} back");
    }
    // Many small ones: far more bytes than may be on their way, which only goes on if they are taken.
    for number in 0..500 {
        here.messages.send(message(number, MIB / 8)).unwrap();
    }
    for number in 0..500 {
        assert!(there.received.recv().unwrap() == message(number, MIB / 8), "small message {number}");
    }
}

#[test]
fn messages_of_several_threads_are_not_mixed() {
    let (here, there) = pair((1 << 30, 1 << 30));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let messages = Arc::clone(&here.messages);
            let body = move || (0..20).for_each(|_| messages.send(vec![thread; 3_000_000]).unwrap());
            SystemThreads.spawn("test", Box::new(body)).unwrap()
        })
        .collect();
    let mut counts = [0; 3];
    for _ in 0..60 {
        let received = there.received.recv().unwrap();
        assert!(received.len() == 3_000_000 && received.iter().all(|byte| *byte == received[0]));
        counts[received[0] as usize] += 1;
    }
    assert_eq!(counts, [20; 3]);
    threads.into_iter().for_each(|joined| joined());
}

#[test]
fn what_is_too_long_is_refused_by_who_sends() {
    let (here, there) = pair((1000, 1000));
    let error = here.messages.send(vec![0; 1001]).unwrap_err();
    let text = "expected at most 1000 bytes to wait for a process of the job, found 1001 (bytes of the message 1001)";
    assert_eq!(error.to_string(), text);
    // Nothing of it was sent, and the connection goes on.
    here.messages.send(vec![7; 1000]).unwrap();
    assert_eq!(there.received.recv().unwrap(), vec![7; 1000]);
    here.messages.set_limit(2000);
    there.messages.set_limit(2000);
    here.messages.send(vec![8; 2000]).unwrap();
    assert_eq!(there.received.recv().unwrap(), vec![8; 2000]);
}

#[test]
fn what_is_too_long_is_refused_by_who_receives() {
    let (here, there) = pair((1 << 30, 3 << 20));
    here.messages.send(vec![1; 3 << 20]).unwrap();
    assert_eq!(there.received.recv().unwrap().len(), 3 << 20);
    here.messages.send(vec![1; 4 << 20]).unwrap();
    let error = there.ended.recv().unwrap().unwrap_err();
    assert_eq!(error.message(), "expected at most 3145728 bytes in a message of a process, found more");
    assert!(here.ended.recv().unwrap().is_err());
    assert!(there.received.recv().is_err());
}

#[test]
fn a_connection_that_has_ended_takes_nothing() {
    let (here, there) = pair((1 << 30, 1 << 30));
    there.messages.fail(Error::external("no more"));
    here.ended.recv().unwrap().unwrap_err();
    assert!(here.messages.send(vec![1]).is_err());
    drop((here.network, there.network));
}

#[test]
fn what_is_sent_beyond_the_limit_is_limited_one_by_one() {
    const MIB: usize = 1 << 20;
    let [here, there] = networks();
    let (to, from) = connected(&here, &there);
    let (here, there) = (end(here, to, 4 * MIB), Messages::new(from, 4 * MIB));
    // The other side takes nothing yet: of 40 MiB, 24 wait, for 16 may be on their way.
    for number in 0..10 {
        here.messages.send_beyond(message(number, 4 * MIB)).unwrap();
    }
    let error = here.messages.send_beyond(message(0, 4 * MIB + 1)).unwrap_err();
    assert!(error.message().starts_with("expected at most 4194304 bytes to wait"), "{error}");
    // Others wait behind them, within the limit.
    here.messages.send(message(10, 4 * MIB)).unwrap();
    assert!(here.messages.send(message(11, 1)).is_err());
    let (arrived, arrives) = channel();
    there.start(move |bytes| arrived.send(bytes).unwrap_or_default(), |_| ()).unwrap();
    for number in 0..=10 {
        assert!(arrives.recv().unwrap() == message(number, 4 * MIB), "message {number}");
    }
    assert!(here.messages.frames() > 0, "it says that it takes them");
}
