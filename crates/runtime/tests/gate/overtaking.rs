//! Barriers that overtake: the rows they overtake are recorded, each once, and still delivered.

use super::check;

#[test]
fn a_barrier_overtakes_and_records_exactly_what_it_has_overtaken() {
    check(
        "channels 0 0
        0 < rows 1
        0 < watermark 5
        0 < rows 2
        0 < barrier 1 unaligned
        0 < rows 3
        1 < barrier 1 unaligned
        1 < rows 11
        barrier = barrier 1 unaligned; in flight 1: 0=[rows 1, watermark 5, rows 2]
        poll = rows 0: 1; rows 0: 11; rows 0: 2; rows 0: 3",
    );
}

#[test]
fn rows_of_a_channel_whose_barrier_is_awaited_are_recorded_as_they_pass() {
    check(
        "channels 0 0
        0 < rows 1
        0 < barrier 1 unaligned
        0 < rows 2
        1 < rows 11
        once = barrier 1 unaligned
        poll = rows 0: 1; rows 0: 11; rows 0: 2
        1 < watermark 7
        1 < rows 12
        1 < barrier 1 unaligned
        1 < rows 13
        barrier = in flight 1: 0=[rows 1] 1=[rows 11, watermark 7, rows 12]
        poll = rows 0: 12; rows 0: 13",
    );
}

#[test]
fn rows_before_the_first_barrier_are_in_the_state_and_not_recorded() {
    check(
        "channels 0 0
        0 < rows 1
        1 < rows 11
        poll = rows 0: 1; rows 0: 11
        0 < rows 2
        0 < barrier 1 unaligned
        1 < rows 12
        1 < barrier 1 unaligned
        poll = barrier 1 unaligned; in flight 1: 0=[rows 2] 1=[rows 12]; rows 0: 2; rows 0: 12",
    );
}

#[test]
fn inputs_that_may_not_be_overtaken_are_awaited_first() {
    check(
        "channels 0 1!
        0 < rows 1
        0 < barrier 1 unaligned
        1 < rows 21
        1 < barrier 1 unaligned
        1 < rows 22
        barrier = -
        poll = rows 0: 1; rows 1: 21; barrier 1 unaligned; in flight 1:; rows 1: 22",
    );
    // What comes before the wait is over is in the state; what is left when it is, is recorded.
    check(
        "channels 0 1!
        0 < rows 1
        0 < rows 2
        0 < rows 3
        0 < barrier 1 unaligned
        1 < barrier 1 unaligned
        1 < rows 22
        once = rows 0: 1
        poll = barrier 1 unaligned; in flight 1: 0=[rows 2, rows 3]; rows 0: 2; rows 1: 22; rows 0: 3",
    );
}

#[test]
fn waiting_long_enough_makes_an_aligned_barrier_overtake() {
    // In the middle of the alignment.
    check(
        "channels 0 0
        0 < barrier 1 aligned
        0 < rows 2
        poll = -
        1 < rows 11
        1 < barrier 1 aligned
        barrier = -
        overtake 1
        barrier = barrier 1 unaligned; in flight 1: 1=[rows 11]
        poll = rows 0: 11; rows 0: 2",
    );
    // Before any barrier was reached.
    check(
        "channels 0
        0 < rows 1
        0 < barrier 1 aligned
        barrier = -
        overtake 1
        barrier = barrier 1 unaligned; in flight 1: 0=[rows 1]",
    );
    // Before any barrier has come.
    check(
        "channels 0
        0 < rows 1
        overtake 1
        barrier = -
        0 < barrier 1 aligned
        barrier = barrier 1 unaligned; in flight 1: 0=[rows 1]",
    );
    // One that has gone is not the next one's.
    check(
        "channels 0
        overtake 1
        0 < rows 2
        0 < barrier 2 aligned
        barrier = -",
    );
}

#[test]
fn one_barrier_that_overtakes_makes_its_checkpoint_overtake() {
    // The sender of channel 0 was told in time, that of channel 1 and this task were not.
    check(
        "channels 0 0
        1 < barrier 1 aligned
        1 < rows 12
        poll = -
        0 < rows 1
        0 < barrier 1 unaligned
        barrier = barrier 1 unaligned; in flight 1: 0=[rows 1]
        poll = rows 0: 1; rows 0: 12",
    );
}

#[test]
fn an_aborted_barrier_is_neither_in_the_way_nor_recorded() {
    check(
        "channels 0
        0 < rows 1
        0 < barrier 1 aligned
        0 < rows 2
        abort 1
        0 < barrier 2 unaligned
        barrier = barrier 2 unaligned; in flight 2: 0=[rows 1, rows 2]
        poll = rows 0: 1; rows 0: 2",
    );
}

#[test]
fn a_newer_barrier_that_overtakes_supersedes() {
    check(
        "channels 0 0
        0 < barrier 1 aligned
        0 < rows 2
        poll = -
        1 < rows 11
        1 < barrier 2 unaligned
        barrier = superseded 1; barrier 2 unaligned
        poll = rows 0: 11; rows 0: 2
        0 < barrier 2 unaligned
        poll = in flight 2: 0=[rows 2] 1=[rows 11]",
    );
}

#[test]
fn giving_up_forgets_what_was_recorded() {
    check(
        "channels 0 0
        0 < rows 1
        0 < barrier 1 unaligned
        barrier = barrier 1 unaligned
        1 < rows 11
        poll = rows 0: 1; rows 0: 11
        abort 1
        1 < barrier 1 unaligned
        poll = -
        0 < barrier 2 unaligned
        1 < rows 12
        1 < barrier 2 unaligned
        poll = barrier 2 unaligned; in flight 2: 1=[rows 12]; rows 0: 12",
    );
}

#[test]
fn a_channel_that_ends_has_no_barrier_to_wait_for() {
    check(
        "channels 0 0
        0 < barrier 1 unaligned
        1 < rows 11
        once = barrier 1 unaligned
        poll = rows 0: 11
        1 < end
        poll = in flight 1: 1=[rows 11, end]",
    );
    // A barrier behind the end: its sender had sent everything.
    check(
        "channels 0 0
        0 < rows 1
        0 < end
        0 < barrier 1 unaligned
        1 < barrier 1 unaligned
        barrier = barrier 1 unaligned; in flight 1: 0=[rows 1, end]
        poll = rows 0: 1",
    );
}

#[test]
fn recovered_rows_are_overtaken_first() {
    check(
        "channels 0 0
        0 recover rows 1
        0 recover watermark 3
        0 < rows 2
        0 < barrier 4 unaligned
        0 < rows 3
        1 < barrier 4 unaligned
        barrier = barrier 4 unaligned; in flight 4: 0=[rows 1, watermark 3, rows 2]
        poll = rows 0: 1; rows 0: 2; rows 0: 3",
    );
    // Some of them passed already.
    check(
        "channels 0 0
        0 recover rows 1
        0 recover rows 2
        once = rows 0: 1
        0 < barrier 4 unaligned
        1 < rows 11
        barrier = barrier 4 unaligned
        poll = rows 0: 11; rows 0: 2
        1 < barrier 4 unaligned
        poll = in flight 4: 0=[rows 2] 1=[rows 11]",
    );
}

#[test]
fn when_the_cut_is_made_channels_whose_barrier_has_come_flow_again() {
    check(
        "channels 0 0 0
        0 < barrier 1 aligned
        0 < rows 2
        poll = -
        overtake 1
        poll = barrier 1 unaligned; rows 0: 2
        1 < barrier 1 aligned
        1 < rows 12
        poll = rows 0: 12
        2 < rows 21
        2 < barrier 1 unaligned
        poll = in flight 1: 2=[rows 21]; rows 0: 21",
    );
}

#[test]
fn a_cut_at_the_end_of_the_senders_holds_what_is_queued_but_no_barrier_given_up() {
    check(
        "channels 0 0
        0 recover rows 1
        0 < rows 2
        0 < barrier 5 unaligned
        0 < rows 3
        0 < end
        1 < barrier 5 unaligned
        1 < end
        abort 5
        end-cut 6
        barrier = barrier 6 unaligned; in flight 6: 0=[rows 1, rows 2, rows 3, end] 1=[end]
        poll = rows 0: 1; rows 0: 2; rows 0: 3; ended",
    );
}
