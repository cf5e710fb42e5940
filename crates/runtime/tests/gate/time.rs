//! Watermarks, idleness and the end.

use super::check;

#[test]
fn the_clock_is_the_lowest_watermark_and_never_goes_back() {
    check(
        "channels 0 0
        0 < watermark 10
        poll = -
        1 < watermark 4
        poll = watermark 4
        1 < watermark 20
        poll = watermark 10
        0 < watermark 7
        1 < watermark 30
        poll = -
        0 < watermark 40
        poll = watermark 30",
    );
}

#[test]
fn rows_keep_the_order_of_their_channel_and_channels_take_turns() {
    check(
        "channels 0 1
        0 < rows 1
        0 < watermark 5
        0 < rows 2
        1 < rows 11 12
        1 < rows 13
        poll = rows 0: 1; rows 1: 11 12; rows 1: 13; rows 0: 2",
    );
}

#[test]
fn idle_channels_hold_nobody_back() {
    check(
        "channels 0 0
        0 < watermark 10
        1 < watermark 3
        poll = watermark 3
        1 < idle
        poll = watermark 10
        0 < watermark 12
        poll = watermark 12",
    );
}

#[test]
fn a_channel_that_is_back_holds_the_clock_without_moving_it_back() {
    for back in ["active", "watermark 4"] {
        check(&format!(
            "channels 0 0
            0 < watermark 10
            1 < watermark 3
            1 < idle
            poll = watermark 3; watermark 10
            1 < {back}
            poll = -
            0 < watermark 20
            poll = -
            1 < watermark 15
            poll = watermark 15"
        ));
    }
    // Rows say so too.
    check(
        "channels 0 0
        0 < watermark 10
        1 < watermark 3
        1 < idle
        poll = watermark 3; watermark 10
        1 < rows 1
        poll = rows 0: 1
        0 < watermark 20
        poll = -",
    );
}

#[test]
fn all_idle_is_idle_and_one_back_is_not() {
    check(
        "channels 0 0
        0 < watermark 10
        0 < idle
        poll = -
        1 < idle
        poll = idle
        1 < idle
        poll = -
        0 < rows 1
        poll = active; watermark 10; rows 0: 1
        0 < idle
        poll = idle
        1 < watermark 20
        poll = active; watermark 20",
    );
}

#[test]
fn ended_channels_hold_nobody_back_and_all_of_them_are_the_end() {
    check(
        "channels 0 0
        0 < watermark 10
        1 < watermark 3
        1 < end
        poll = watermark 3; watermark 10
        0 < watermark 12
        0 < rows 1
        poll = watermark 12; rows 0: 1
        0 < end
        poll = ended
        poll = -",
    );
}

#[test]
fn idle_beside_ended_is_idle_but_not_the_end() {
    check(
        "channels 0 0
        0 < watermark 10
        1 < end
        poll = watermark 10
        0 < idle
        poll = idle
        0 < watermark 15
        poll = active; watermark 15
        0 < idle
        0 < end
        poll = idle; active; ended",
    );
}

#[test]
fn recovered_elements_come_first() {
    check(
        "channels 0 0
        0 recover rows 1
        0 recover watermark 5
        0 recover rows 2
        0 < rows 3
        1 < watermark 9
        poll = rows 0: 1; watermark 5; rows 0: 2; rows 0: 3",
    );
}
