//! Peers that are not flott, speak another version, break the protocol or vanish: one clear error each. The peers are
//! plain sockets that write bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use flott_core::{Error, ErrorDomain, Result, StreamElement, SystemThreads, Timestamp};
use flott_plan::HostId;
use flott_runtime::codec;
use flott_runtime::network::frame::{FrameHeader, FrameKind, HEADER_BYTES, MAX_BODY_BYTES, NO_CHANNEL};
use flott_runtime::network::handshake::{MAGIC, PREFIX_BYTES, PROTOCOL_VERSION};
use flott_runtime::network::{Hello, Network, NetworkOptions};

use super::{End, anywhere, batch, hello, id, listen, network, numbers, pair, spawn, start};

/// The error without the port of the peer, which is another each time.
fn plain(error: &Error) -> String {
    let text = error.to_string();
    match text.split_once("peer 127.0.0.1:") {
        Some((before, after)) => format!("{before}peer P{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => text,
    }
}

/// A hello of another version: the form of the first bytes is the same in all.
fn other_version() -> Vec<u8> {
    let mut bytes = hello(0).encode().unwrap();
    bytes[8..10].copy_from_slice(&3u16.to_le_bytes());
    bytes
}

#[test]
fn a_peer_that_is_none_is_refused() {
    let mut long = hello(0).encode().unwrap();
    long[10..12].copy_from_slice(&5000u16.to_le_bytes());
    let mut unreadable = hello(0).encode().unwrap();
    unreadable.truncate(PREFIX_BYTES + 1);
    unreadable[10..12].copy_from_slice(&1u16.to_le_bytes());
    unreadable[12] = 0xff;
    let other_job = Hello { host: HostId(5), token: "job 7, attempt 2".into() }.encode().unwrap();
    let cases: [(Vec<u8>, ErrorDomain, &str); 7] = [
        (
            other_version(),
            ErrorDomain::User,
            "the peer speaks version 3 of flott's network protocol, this process version 2: \
             use the same release of flott for all processes of a job (peer P)",
        ),
        (
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            ErrorDomain::User,
            r#"the peer is not flott: expected the bytes "flott\r\n\x00", found "GET / HT" (peer P)"#,
        ),
        (long, ErrorDomain::User, "expected a hello of at most 4096 bytes, found 5000 (peer P)"),
        (unreadable, ErrorDomain::User, "the peer's hello cannot be read (peer P)"),
        (
            other_job,
            ErrorDomain::User,
            "the peer belongs to another job or to another attempt of this one (host 5, peer P)",
        ),
        (vec![], ErrorDomain::External, "the peer ended the connection before it said who it is (peer P)"),
        (MAGIC.to_vec(), ErrorDomain::External, "the peer ended the connection before it said who it is (peer P)"),
    ];
    let network = network();
    let (listener, peers) = listen(&network, 1);
    for (bytes, domain, expected) in cases {
        let mut peer = TcpStream::connect(listener.address()).unwrap();
        peer.write_all(&bytes).unwrap();
        // A peer that is not flott may be cut off already.
        peer.shutdown(Shutdown::Write).unwrap_or_default();
        let error = peers.recv().unwrap().err().unwrap();
        assert_eq!(plain(&error), expected);
        assert_eq!(error.domain(), domain, "{expected}");
    }
    // Listening goes on.
    assert!(network.connect(listener.address(), hello(0)).is_ok());
}

/// What `connect` answers to a listener that writes `bytes`.
fn connect_to(network: &Network, bytes: &[u8]) -> Error {
    let listener = TcpListener::bind(anywhere()).unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = bytes.to_vec();
    let joined = spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        peer.write_all(&bytes).unwrap();
        peer.read_to_end(&mut Vec::new()).unwrap_or_default();
    });
    let error = network.connect(address, hello(0)).err().unwrap();
    joined();
    error
}

#[test]
fn the_side_that_connects_finds_the_same_errors() {
    assert_eq!(PROTOCOL_VERSION, 2);
    let network = network();
    assert!(
        plain(&connect_to(&network, &other_version()))
            .contains("version 3 of flott's network protocol, this process version 2")
    );
    assert!(plain(&connect_to(&network, b"SSH-2.0-OpenSSH")).contains(r#"found "SSH-2.0-""#));
    let nobody = { TcpListener::bind(anywhere()).unwrap().local_addr().unwrap() };
    let error = network.connect(nobody, hello(0)).err().unwrap();
    assert!(plain(&error).starts_with("cannot connect: "), "{error}");
    assert!(error.is_retryable());
}

#[test]
fn a_peer_of_another_version_hears_ours() {
    let network = network();
    let (listener, _peers) = listen(&network, 1);
    let mut peer = TcpStream::connect(listener.address()).unwrap();
    peer.write_all(&other_version()).unwrap();
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, hello(1).encode().unwrap());
}

#[test]
fn a_silent_peer_is_given_up() {
    let network = Network::start(&SystemThreads, NetworkOptions { handshake_ms: 1, ..Default::default() }).unwrap();
    let error = connect_to(&network, b"");
    assert_eq!(plain(&error), "the peer has not said who it is within 1 ms (peer P)");
}

/// A flott process and, in front of it, a plain socket that has shaken hands as host 0.
fn raw_pair() -> (End, TcpStream) {
    let network = network();
    let (listener, peers) = listen(&network, 1);
    let mut raw = TcpStream::connect(listener.address()).unwrap();
    raw.write_all(&hello(0).encode().unwrap()).unwrap();
    let connection = peers.recv().unwrap().unwrap();
    let mut theirs = vec![0; hello(1).encode().unwrap().len()];
    raw.read_exact(&mut theirs).unwrap();
    assert_eq!(theirs, hello(1).encode().unwrap());
    (start(network, connection), raw)
}

fn frame(kind: FrameKind, channel: u32, body: &[u8]) -> Vec<u8> {
    [&FrameHeader::of(id(channel), kind, body).unwrap().encode(), body].concat()
}

fn encoded(element: &StreamElement) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode(element, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_peer_that_breaks_the_protocol_fails_the_connection() {
    let fault = "; this is a fault of flott, please report it";
    let at = "(channel 3 from task 0 to task 1, host 0, peer P)";
    let header = FrameHeader { channel: NO_CHANNEL, kind: FrameKind::Control, length: 0 }.encode();
    let with = |place: usize, bytes: &[u8]| {
        let mut header = header;
        header[place..place + bytes.len()].copy_from_slice(bytes);
        header.to_vec()
    };
    let data = frame(FrameKind::Data, 0, &encoded(&batch(0..10)));
    let disguised = frame(FrameKind::Event, 0, &encoded(&batch(0..10)));
    let watermark = frame(FrameKind::Event, 0, &encoded(&StreamElement::Watermark(Timestamp(1))));
    let broke = "the peer broke the protocol: expected";
    let cases: [(Vec<u8>, String); 13] = [
        (with(16, &[9]), format!("{broke} a frame of kind 1 to 7, found kind 9 (host 0, peer P)")),
        (
            with(17, &[0, 1, 0]),
            format!("{broke} three zero bytes after the kind of a frame, found [0, 1, 0] (host 0, peer P)"),
        ),
        (
            with(12, &(MAX_BODY_BYTES + 1).to_le_bytes()),
            format!("{broke} a frame of at most 268435456 bytes, found 268435457 (host 0, peer P)"),
        ),
        ([with(16, &[4]), vec![0; 8]].concat(), format!("{broke} 4 bytes in a Credit frame, found 0 (host 0, peer P)")),
        // Credit was 2.
        ([&data[..], &data, &watermark, &data].concat(), format!("the peer sent a batch without credit {at}{fault}")),
        (disguised, format!("the peer sent a Event frame that holds none {at}{fault}")),
        (
            frame(FrameKind::Event, 9, &encoded(&StreamElement::EndOfInput)),
            format!("the peer sent to a channel that is not open {}{fault}", at.replace("task 0 ", "task 9 ")),
        ),
        (
            data[..HEADER_BYTES + 100].to_vec(),
            format!(
                "the connection ended in the middle of a frame: expected {} bytes, found 120 (host 0, peer P)",
                data.len()
            ),
        ),
        (
            data[..7].to_vec(),
            "the connection ended in the middle of a frame: expected 20 bytes, found 7 (host 0, peer P)".into(),
        ),
        (
            frame(FrameKind::Data, 0, &encoded(&batch(0..10))[..40]),
            format!("an element from another process or a snapshot is cut short {at}"),
        ),
        (frame(FrameKind::Event, 0, &[]), format!("an element from another process or a snapshot is cut short {at}")),
        (frame(FrameKind::Event, 0, &[1, 99]), format!("cannot decode stored bytes: {} {at}{fault}", postcard_says())),
        (
            vec![],
            "the connection was lost: the process at the other side has ended or was killed (host 0, peer P)".into(),
        ),
    ];
    for (bytes, expected) in cases {
        let (end, mut raw) = raw_pair();
        let _queue = end.connection.open_receiver(id(0), numbers(), 2).unwrap();
        raw.write_all(&bytes).unwrap();
        raw.shutdown(Shutdown::Write).unwrap();
        let error = end.ended.recv().unwrap().unwrap_err();
        assert_eq!(plain(&error), expected);
        assert_eq!(plain(&end.connection.error().unwrap()), expected);
        assert!(end.connection.send_control(vec![]).is_err());
        assert_eq!(end.connection.stats().queued_bytes, 0);
    }
}

fn postcard_says() -> String {
    flott_core::Error::from(postcard::from_bytes::<std::result::Result<u8, u8>>(&[99]).unwrap_err())
        .message()
        .trim_start_matches("cannot decode stored bytes: ")
        .to_owned()
}

#[test]
fn frame_headers_have_one_form() {
    let header = FrameHeader { channel: id(2), kind: FrameKind::Data, length: 258 };
    let bytes = header.encode();
    assert_eq!(bytes, [3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 1, 0, 0, 0]);
    assert_eq!(FrameHeader::decode(&bytes).unwrap(), header);
    // Every kind, and nothing beside them.
    let known: Vec<u8> = (0..=255)
        .filter(|&kind| {
            let mut bytes = FrameHeader { length: if matches!(kind, 4 | 5) { 4 } else { 0 }, ..header }.encode();
            bytes[16] = kind;
            FrameHeader::decode(&bytes).is_ok()
        })
        .collect();
    assert_eq!(known, [1, 2, 3, 4, 5, 6, 7]);
    let too_long = FrameHeader::of(id(0), FrameKind::Data, &vec![0; MAX_BODY_BYTES as usize + 1]).unwrap_err();
    assert_eq!(
        too_long.to_string(),
        "expected at most 268435456 bytes in one batch or message between processes, found 268435457"
    );
}

#[test]
fn a_connection_that_fails_ends_once_and_drops_what_is_sent() {
    let (here, there) = pair();
    let _queue = there.connection.open_receiver(id(0), numbers(), 2).unwrap();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    here.connection.fail(Error::external("the job was cancelled"));
    let ended = here.ended.recv().unwrap();
    assert_eq!(plain(&ended.unwrap_err()), "the job was cancelled (host 1, peer P)");
    sender.send(StreamElement::EndOfInput);
    assert_eq!(here.connection.stats().queued_bytes, 0);
    // The other side only sees the connection go.
    let lost: Result<()> = there.ended.recv().unwrap();
    assert_eq!(lost.unwrap_err().place("host"), Some("0"));
    assert!(here.ended.recv().is_err() && there.ended.recv().is_err());
}

#[test]
fn a_batch_without_credit_is_refused_where_it_is_sent() {
    let (here, _there) = pair();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    sender.send(batch(0..1));
    let error = here.ended.recv().unwrap().unwrap_err();
    assert!(error.message().contains("a batch was sent without credit"), "{error}");
}
