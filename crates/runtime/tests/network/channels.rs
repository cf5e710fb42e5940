//! Channels that work: order, credit, neighbours, barriers, control, closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use flott_core::{BarrierMode, CheckpointBarrier, CheckpointId, CheckpointKind, StreamElement, Timestamp};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{End, batch, id, numbers, pair, pop, send, spawn, values};

/// Elements of one channel, from a seed: batches of 0 to 9 rows that count on, watermarks, barriers, idleness.
fn elements(seed: u64) -> Vec<StreamElement> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut next = 0;
    let mut elements: Vec<_> = (0..300)
        .map(|_| match random.random_range(0..10) {
            0 => StreamElement::Watermark(Timestamp(next as i64)),
            1 => StreamElement::Idle(random.random()),
            2 => StreamElement::Barrier(CheckpointBarrier {
                id: CheckpointId(next),
                kind: CheckpointKind::Checkpoint,
                mode: BarrierMode::Aligned,
            }),
            _ => {
                let rows = random.random_range(0..10);
                next += rows;
                batch(next - rows..next)
            }
        })
        .collect();
    elements.push(StreamElement::EndOfInput);
    elements
}

/// Elements compared as text: batches by their rows.
fn text(element: &StreamElement) -> String {
    match element {
        StreamElement::Batch(_) => format!("{:?}", values(element)),
        other => format!("{other:?}"),
    }
}

/// Elements as text, without the events that a channel may leave out because another one says all they say: what is
/// left of events in a row is the last watermark and whether idleness follows it.
fn in_short<'a>(elements: impl IntoIterator<Item = &'a StreamElement>) -> Vec<String> {
    let mut short: Vec<&StreamElement> = Vec::new();
    for element in elements {
        while match (short.last(), element) {
            (Some(StreamElement::Watermark(_) | StreamElement::Idle(_)), StreamElement::Watermark(_))
            | (Some(StreamElement::Idle(_)), StreamElement::Idle(_)) => short.pop().is_some(),
            _ => false,
        } {}
        if !matches!((short.last(), element), (Some(StreamElement::Watermark(_)), StreamElement::Idle(false))) {
            short.push(element);
        }
    }
    short.into_iter().map(text).collect()
}

#[test]
fn channels_are_first_in_first_out_however_they_interleave() {
    for seed in 0..4 {
        let (here, there) = pair();
        let mut random = SmallRng::seed_from_u64(seed);
        let queues: Vec<_> = (0..5)
            .map(|c| there.connection.open_receiver(id(c), numbers(), random.random_range(1..6)).unwrap())
            .collect();
        let mut senders: Vec<_> = (0..5).map(|c| here.connection.open_sender(id(c)).unwrap()).collect();
        let sending = spawn(move || {
            let mut left: Vec<_> = (0..5).map(|c| elements(seed * 10 + c).into_iter()).collect();
            let mut open: Vec<usize> = (0..5).collect();
            while !open.is_empty() {
                let at = random.random_range(0..open.len());
                match left[open[at]].next() {
                    Some(element) => send(&mut senders[open[at]], element),
                    None => drop(open.swap_remove(at)),
                }
            }
        });
        // All queues at random too, so that no sender waits for ever.
        let mut random = SmallRng::seed_from_u64(seed + 100);
        let mut found: Vec<Vec<StreamElement>> = vec![Vec::new(); 5];
        queues.iter().for_each(|queue| queue.set_receiver(super::waker()));
        while found.iter().any(|found| !matches!(found.last(), Some(StreamElement::EndOfInput))) {
            if queues.iter().all(|queue| queue.is_empty()) {
                std::thread::park();
            }
            let at = random.random_range(0..5);
            found[at].extend(queues[at].pop());
        }
        sending();
        for (c, found) in found.iter().enumerate() {
            let expected = in_short(&elements(seed * 10 + c as u64));
            assert_eq!(in_short(found), expected, "seed {seed}, channel {c}");
        }
    }
}

#[test]
fn no_more_is_in_flight_than_credit() {
    const CREDIT: u32 = 5;
    let (here, there) = pair();
    let queue = there.connection.open_receiver(id(0), numbers(), CREDIT).unwrap();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    let (in_flight, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (all_taken, taken) = channel();
    let sending = spawn({
        let (in_flight, most) = (Arc::clone(&in_flight), Arc::clone(&most));
        move || {
            sender.set_waker(&super::waker());
            for n in 0..500 {
                while sender.credit() == 0 {
                    std::thread::park();
                }
                most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sender.send(batch(n..n + 1));
            }
            // As much as credit allows without the reader, then a sign that there is no more.
            taken.recv().unwrap();
            while sender.credit() > 0 {
                sender.send(batch(0..1));
            }
            sender.send(StreamElement::EndOfInput);
        }
    });
    queue.set_receiver(super::waker());
    for n in 0..500 {
        while queue.is_empty() {
            std::thread::park();
        }
        // Counted before its credit can return.
        in_flight.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(values(&pop(&queue)), [n]);
    }
    // The message follows the credit, so all credit is back.
    there.connection.send_control(vec![]).unwrap();
    here.control.recv().unwrap();
    all_taken.send(()).unwrap();
    sending();
    assert!((1..=CREDIT).contains(&most.load(Ordering::SeqCst)), "{most:?} in flight");
    let rest: Vec<_> = (0..=CREDIT).map(|_| text(&pop(&queue))).collect();
    assert_eq!(rest, ["[0]", "[0]", "[0]", "[0]", "[0]", "EndOfInput"]);
}

#[test]
fn a_blocked_channel_leaves_its_neighbours_flowing() {
    const CREDIT: u32 = 4;
    const NEIGHBOURS: u32 = 6;
    let (here, there) = pair();
    let queues: Vec<_> =
        (0..=NEIGHBOURS).map(|c| there.connection.open_receiver(id(c), numbers(), CREDIT).unwrap()).collect();
    let mut threads = Vec::new();
    for c in 1..=NEIGHBOURS {
        let mut sender = here.connection.open_sender(id(c)).unwrap();
        threads.push(spawn(move || (0..200).for_each(|n| send(&mut sender, batch(n * 1000..n * 1000 + 1000)))));
    }
    let (blocked, still_blocked) = channel();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    threads.push(spawn(move || {
        (0..u64::from(CREDIT)).for_each(|n| send(&mut sender, batch(n..n + 1)));
        // A watermark needs no credit and arrives behind the rows.
        send(&mut sender, StreamElement::Watermark(Timestamp(9)));
        blocked.send(sender.credit()).unwrap();
        send(&mut sender, batch(4..5));
    }));
    let (done, finished) = channel();
    for queue in &queues[1..] {
        let (queue, done) = (Arc::clone(queue), done.clone());
        threads.push(spawn(move || {
            let rows: usize = (0..200).map(|_| values(&pop(&queue)).len()).sum();
            done.send(rows).unwrap();
        }));
    }
    let rows: usize = (0..NEIGHBOURS).map(|_| finished.recv().unwrap()).sum();
    // 6 neighbours × 200 batches × 1000 rows, all while the first channel stands still.
    assert_eq!(rows, 1_200_000);
    assert_eq!(still_blocked.recv().unwrap(), 0);
    // A frame of 1000 numbers has 8000 bytes of rows and under 1000 beside them.
    let peak = here.connection.stats().peak_queued_bytes;
    assert!(peak <= ((NEIGHBOURS + 1) * CREDIT) as usize * 9000, "{peak} bytes queued");
    let found: Vec<_> = (0..6).map(|_| text(&pop(&queues[0]))).collect();
    assert_eq!(found, ["[0]", "[1]", "[2]", "[3]", "Watermark(Timestamp(9))", "[4]"]);
    threads.into_iter().for_each(|joined| joined());
}

#[test]
fn what_is_sent_before_the_reader_opens_waits_for_it() {
    let (here, there) = pair();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    assert_eq!(sender.credit(), 0);
    (1..100).for_each(|at| sender.send(StreamElement::Watermark(Timestamp(at))));
    sender.send(StreamElement::Idle(true));
    sender.send(StreamElement::EndOfInput);
    let queue = there.connection.open_receiver(id(0), numbers(), 2).unwrap();
    let found: Vec<_> = (0..3).map(|_| text(&pop(&queue))).collect();
    // Of events in a row only the last watermark is kept, and idleness after it.
    assert_eq!(found, ["Watermark(Timestamp(99))", "Idle(true)", "EndOfInput"]);
}

#[test]
fn credit_that_comes_before_the_sender_is_kept() {
    let (here, there) = pair();
    let queue = there.connection.open_receiver(id(0), numbers(), 3).unwrap();
    // The message follows the credit, so the credit has come.
    there.connection.send_control(b"opened".to_vec()).unwrap();
    assert_eq!(here.control.recv().unwrap(), b"opened");
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    assert_eq!(sender.credit(), 3);
    sender.send(batch(0..1));
    assert_eq!(values(&pop(&queue)), [0]);
}

#[test]
fn a_batch_of_megabytes_arrives_as_it_was() {
    let (here, there) = pair();
    let queue = there.connection.open_receiver(id(0), numbers(), 1).unwrap();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    for rows in [1_000_000, 1, 700_001] {
        send(&mut sender, batch(0..rows));
        assert!(values(&pop(&queue)).into_iter().eq(0..rows));
    }
}

#[test]
fn both_directions_and_control_share_a_connection() {
    let (here, there) = pair();
    let open = |reader: &End, writer: &End, c| {
        (reader.connection.open_receiver(id(c), numbers(), 2).unwrap(), writer.connection.open_sender(id(c)).unwrap())
    };
    let (at_there, mut from_here) = open(&there, &here, 0);
    let (at_here, mut from_there) = open(&here, &there, 1);
    for n in 0..50 {
        send(&mut from_here, batch(n..n + 1));
        send(&mut from_there, batch(n..n + 2));
        here.connection.send_control(vec![n as u8; n as usize]).unwrap();
        assert_eq!(values(&pop(&at_there)), [n]);
        assert_eq!(values(&pop(&at_here)), [n, n + 1]);
        assert_eq!(there.control.recv().unwrap(), vec![n as u8; n as usize]);
    }
    from_here.announce_backlog(9);
    from_here.announce_backlog(7);
    here.connection.send_control(vec![]).unwrap();
    here.connection.send_control(vec![]).unwrap();
    there.control.recv().unwrap();
    there.control.recv().unwrap();
    assert_eq!(there.connection.backlog(id(0)), 7);
}

#[test]
fn closing_writes_what_is_queued_and_ends_both_sides() {
    let (here, there) = pair();
    let queue = there.connection.open_receiver(id(0), numbers(), 100).unwrap();
    let mut sender = here.connection.open_sender(id(0)).unwrap();
    (0..100).for_each(|n| send(&mut sender, batch(n..n + 100)));
    here.connection.close();
    assert_eq!(there.ended.recv().unwrap(), Ok(()));
    assert_eq!(here.ended.recv().unwrap(), Ok(()));
    for n in 0..100 {
        assert_eq!(values(&queue.pop().unwrap()).len() as u64 + n, n + 100);
    }
    assert!(queue.is_empty());
    let refused = here.connection.send_control(vec![1]).unwrap_err();
    assert_eq!(refused.to_string(), "the connection is closed (host 1)");
}

#[test]
fn shutting_down_closes_in_order() {
    let (here, there) = pair();
    here.connection.send_control(b"last words".to_vec()).unwrap();
    here.network.shutdown();
    assert_eq!(here.ended.recv().unwrap(), Ok(()));
    assert_eq!(there.ended.recv().unwrap(), Ok(()));
    assert_eq!(there.control.recv().unwrap(), b"last words");
    let error = here.network.connect(there.connection.address(), super::hello(0)).err().unwrap();
    assert_eq!(error.to_string(), "the network was shut down");
}

#[test]
fn a_channel_is_opened_once() {
    let (here, _there) = pair();
    let _first =
        (here.connection.open_sender(id(0)).unwrap(), here.connection.open_receiver(id(0), numbers(), 1).unwrap());
    let place = "channel 3 from task 0 to task 1";
    for (error, what) in [
        (here.connection.open_sender(id(0)).err().unwrap(), "writing"),
        (here.connection.open_receiver(id(0), numbers(), 1).err().unwrap(), "reading"),
    ] {
        let expected =
            format!("a channel was opened twice for {what} ({place}); this is a fault of flott, please report it");
        assert_eq!(error.to_string(), expected);
    }
}
