//! Barriers that wait behind rows: alignment, at least once, given up and superseded checkpoints, ended channels.

use super::check;

#[test]
fn alignment_blocks_a_channel_until_the_others_have_come() {
    check(
        "channels 0 0 1!
        0 < rows 1
        0 < barrier 1 aligned
        0 < rows 2
        1 < rows 11
        poll = rows 0: 1; rows 0: 11
        1 < barrier 1 aligned
        1 < rows 12
        poll = -
        2 < rows 21
        2 < barrier 1 aligned
        2 < rows 22
        poll = rows 1: 21; barrier 1 aligned; in flight 1:; rows 0: 2; rows 0: 12; rows 1: 22",
    );
}

#[test]
fn a_blocked_channel_says_nothing_of_time_either() {
    check(
        "channels 0 0
        0 < watermark 3
        1 < watermark 3
        0 < barrier 1 aligned
        0 < watermark 9
        1 < watermark 7
        poll = watermark 3
        1 < barrier 1 aligned
        poll = barrier 1 aligned; in flight 1:; watermark 7",
    );
}

#[test]
fn at_least_once_blocks_nothing() {
    check(
        "channels 0 0
        0 < barrier 1 atleastonce
        0 < rows 2
        1 < rows 11
        poll = rows 0: 11; rows 0: 2
        1 < barrier 1 atleastonce
        poll = barrier 1 atleastonce; in flight 1:",
    );
}

#[test]
fn an_aligned_barrier_does_not_help_a_task_that_takes_no_rows() {
    check(
        "channels 0 0
        0 < rows 1
        0 < barrier 1 aligned
        1 < barrier 1 aligned
        barrier = -
        poll = rows 0: 1; barrier 1 aligned; in flight 1:",
    );
}

#[test]
fn an_ended_channel_is_not_awaited() {
    check(
        "channels 0 0
        0 < end
        1 < rows 11
        1 < barrier 1 aligned
        poll = rows 0: 11; barrier 1 aligned; in flight 1:
        1 < rows 12
        1 < barrier 2 aligned
        poll = rows 0: 12; barrier 2 aligned; in flight 2:",
    );
    // It ends in the middle of the alignment.
    check(
        "channels 0 0
        1 < barrier 1 aligned
        1 < rows 12
        0 < rows 1
        poll = rows 0: 1
        0 < rows 2
        0 < end
        poll = rows 0: 2; barrier 1 aligned; in flight 1:; rows 0: 12",
    );
    // The last one ends: the cut is before the end.
    check(
        "channels 0 0
        1 < barrier 1 aligned
        1 < end
        0 < end
        poll = barrier 1 aligned; in flight 1:; ended",
    );
}

#[test]
fn a_checkpoint_given_up_lets_channels_flow_and_its_late_barriers_are_dropped() {
    check(
        "channels 0 0
        0 < barrier 1 aligned
        0 < rows 2
        poll = -
        abort 1
        poll = rows 0: 2
        1 < barrier 1 aligned
        1 < rows 12
        poll = rows 0: 12
        0 < barrier 2 aligned
        1 < barrier 2 aligned
        poll = barrier 2 aligned; in flight 2:",
    );
    // Given up before the first barrier came.
    check(
        "channels 0 0
        abort 1
        0 < barrier 1 aligned
        0 < rows 2
        1 < barrier 1 aligned
        poll = rows 0: 2",
    );
    // A newer one is not given up with it.
    check(
        "channels 0 0
        0 < barrier 2 aligned
        0 < rows 2
        poll = -
        abort 1
        poll = -
        1 < barrier 2 aligned
        poll = barrier 2 aligned; in flight 2:; rows 0: 2",
    );
}

#[test]
fn a_newer_checkpoint_supersedes() {
    check(
        "channels 0 0
        0 < barrier 1 aligned
        0 < rows 2
        1 < rows 11
        1 < barrier 2 aligned
        1 < rows 12
        poll = rows 0: 11; superseded 1; rows 0: 2
        0 < barrier 2 aligned
        poll = barrier 2 aligned; in flight 2:; rows 0: 12",
    );
}

#[test]
fn a_barrier_of_an_older_checkpoint_is_passed_over() {
    check(
        "channels 0 0
        0 < barrier 2 aligned
        poll = -
        1 < barrier 1 aligned
        1 < rows 11
        1 < barrier 2 aligned
        poll = rows 0: 11; barrier 2 aligned; in flight 2:",
    );
}

#[test]
fn recovered_rows_are_before_every_barrier() {
    check(
        "channels 0 0
        0 recover rows 1
        0 recover rows 2
        0 < barrier 4 aligned
        1 < barrier 4 aligned
        barrier = -
        poll = rows 0: 1; rows 0: 2; barrier 4 aligned; in flight 4:",
    );
}
