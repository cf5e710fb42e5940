//! Who is late, given times. In all of them everybody is asked every 10 ms and late after 50.

use flott_runtime::processes::{Beat, Heartbeats};

enum Do {
    /// A sign of life of `1` or `2`.
    Heard(u8),
    Forget(u8),
    /// Asks, or not; who is late, and for how long nothing was heard of it.
    Beat(bool, &'static [(u8, u64)]),
    Due(Option<u64>),
}

use Do::{Beat as Look, Due, Forget, Heard};

#[test]
fn who_is_late() {
    let on_time = || (0..=4).map(|n| (100 + 10 * n, Look(true, &[])));
    let cases: Vec<(&str, Vec<(u64, Do)>)> = vec![
        ("nobody is waited for", vec![(0, Due(None)), (1000, Look(false, &[]))]),
        (
            "who is there is asked at once, and then every interval",
            vec![
                (100, Heard(1)),
                (100, Due(Some(100))),
                (100, Look(true, &[])),
                (100, Due(Some(110))),
                (109, Look(false, &[])),
                (110, Look(true, &[])),
                (112, Heard(2)),
                (112, Due(Some(120))),
            ],
        ),
        (
            "who answers is not late",
            (0..20).flat_map(|n| [(100 + 10 * n, Heard(1)), (100 + 10 * n, Look(true, &[]))]).collect(),
        ),
        (
            "who does not is, once: at the timeout it may still be on its way",
            [(100, Heard(1))]
                .into_iter()
                .chain(on_time())
                .chain([(150, Look(true, &[])), (150, Due(Some(151))), (151, Look(false, &[(1, 51)]))])
                .chain([(152, Due(None)), (200, Look(false, &[]))])
                .collect(),
        ),
        (
            "each for itself",
            [(100, Heard(1)), (100, Heard(2))]
                .into_iter()
                .chain(on_time())
                .chain([(145, Heard(2)), (150, Look(true, &[])), (151, Look(false, &[(1, 51)]))])
                .chain([(160, Look(true, &[])), (170, Look(true, &[])), (170, Heard(2)), (196, Look(true, &[]))])
                .collect(),
        ),
        (
            "who is forgotten is not",
            [(100, Heard(1))]
                .into_iter()
                .chain(on_time())
                .chain([(141, Forget(1)), (141, Due(None)), (200, Look(false, &[]))])
                .collect(),
        ),
        (
            // Due at 110, looked at 10 ms and more after that: what was not heard in between does not count.
            "while this process stood still nobody was late",
            vec![
                (100, Heard(1)),
                (100, Look(true, &[])),
                (9_999, Look(true, &[])),
                (9_999, Due(Some(10_009))),
                (10_009, Look(true, &[])),
                // It had been silent for 10 ms when this process stopped, which count.
                (10_019, Look(true, &[])),
                (10_029, Look(true, &[])),
                (10_039, Look(true, &[])),
                (10_040, Look(false, &[(1, 51)])),
            ],
        ),
        (
            "a little late is no standing still",
            vec![
                (100, Heard(1)),
                (100, Look(true, &[])),
                (119, Look(true, &[])),
                (138, Look(true, &[])),
                (156, Look(true, &[(1, 56)])),
            ],
        ),
    ];
    for (name, steps) in cases {
        let mut beats = Heartbeats::new(10, 50);
        for (at, step) in steps {
            match step {
                Heard(of) => beats.heard(of, at),
                Forget(of) => beats.forget(of),
                Look(ask, late) => assert_eq!(beats.beat(at), Beat { ask, late: late.to_vec() }, "{name}: at {at}"),
                Due(due) => assert_eq!(beats.due_ms(), due, "{name}: at {at}"),
            }
        }
    }
}
