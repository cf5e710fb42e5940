//! Restart strategies under virtual time.

use flott_checkpoint::{Decision, RestartStrategy};
use flott_core::{Config, Error, Timestamp};

fn strategy(options: &[(&str, &str)], seed: u64) -> Result<RestartStrategy, Error> {
    let mut config = Config::default();
    options.iter().try_for_each(|(key, value)| config.set(key, value))?;
    RestartStrategy::from_config(&config, seed)
}

/// Failures at these times in ms; the answers: a delay in ms, or `-`.
fn check(options: &[(&str, &str)], failures: &[i64], expected: &str) {
    let mut strategy = strategy(options, 1).unwrap();
    let answer = |at: &i64| match strategy.on_failure(Timestamp(*at), &Error::user("x")) {
        Decision::RestartAfter(ms) => ms.to_string(),
        Decision::GiveUp => "-".into(),
    };
    assert_eq!(failures.iter().map(answer).collect::<Vec<_>>().join(" "), expected, "{options:?}");
}

const TYPE: &str = "restart-strategy.type";

#[test]
fn none() {
    check(&[], &[0], "-");
    for name in ["none", "off", "disable"] {
        check(&[(TYPE, name), ("execution.checkpointing.interval", "1 s")], &[0], "-");
    }
}

#[test]
fn fixed_delay() {
    // Flink's defaults: one restart after 1 s.
    check(&[(TYPE, "fixed-delay")], &[0, 5_000], "1000 -");
    let attempts = ("restart-strategy.fixed-delay.attempts", "3");
    let delay = ("restart-strategy.fixed-delay.delay", "10 ms");
    check(&[(TYPE, "fixeddelay"), attempts, delay], &[0, 1, 1_000_000, 1_000_001, 9_000_000], "10 10 10 - -");
}

#[test]
fn failure_rate() {
    // Flink's defaults: one restart a minute, after 1 s.
    check(&[(TYPE, "failure-rate")], &[0, 60_000], "1000 -");
    check(&[(TYPE, "failure-rate")], &[0, 60_001, 120_002], "1000 1000 1000");
    let max = ("restart-strategy.failure-rate.max-failures-per-interval", "2");
    let interval = ("restart-strategy.failure-rate.failure-rate-interval", "100 ms");
    let delay = ("restart-strategy.failure-rate.delay", "0 ms");
    // A third failure within 100 ms is one too many; 101 ms after the last but two it is not.
    check(&[(TYPE, "failure-rate"), max, interval, delay], &[0, 10, 100], "0 0 -");
    check(&[(TYPE, "failure-rate"), max, interval, delay], &[0, 10, 101, 111, 201], "0 0 0 0 -");
}

#[test]
fn exponential_delay() {
    let no_jitter = ("restart-strategy.exponential-delay.jitter-factor", "0");
    let exponential = (TYPE, "exponential-delay");
    // 1 s, then 1.5 times as long up to 1 min: floor(1000 * 1.5^n).
    check(&[exponential, no_jitter], &[0, 2_000, 4_000, 8_000], "1000 1500 2250 3375");
    let minutes: Vec<_> = (0..14).map(|n| n * 120_000).collect();
    let expected = "1000 1500 2250 3375 5062 7593 11390 17085 25628 38443 57665 60000 60000 60000";
    check(&[exponential, no_jitter], &minutes, expected);
    // A failure while the restart is awaited adds nothing; an hour without one begins anew.
    // One in the millisecond of the restart is the restarted job's: 1000 + 1500 = 2500 is when it starts again.
    check(&[exponential, no_jitter], &[0, 400, 1_000, 1_001], "1000 600 1500 1499");
    check(&[exponential, no_jitter], &[0, 3_601_000 - 1], "1000 1500");
    check(&[exponential, no_jitter], &[0, 3_601_000], "1000 1000");
    let attempts = ("restart-strategy.exponential-delay.attempts-before-reset-backoff", "2");
    check(&[exponential, no_jitter, attempts], &[0, 2_000, 5_000], "1000 1500 -");
    // A job that fails as soon as it starts has no more restarts than any other.
    check(&[exponential, no_jitter, attempts], &[0, 1_000, 2_500], "1000 1500 -");
    // With checkpoints it is what Flink 2 takes where nothing is configured.
    check(&[("execution.checkpointing.interval", "1 s"), no_jitter], &[0, 2_000], "1000 1500");
}

#[test]
fn jitter_is_within_its_part_and_from_the_seed() {
    let options = [
        (TYPE, "exponential-delay"),
        ("restart-strategy.exponential-delay.initial-backoff", "1 s"),
        ("restart-strategy.exponential-delay.max-backoff", "10 s"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "2"),
        ("restart-strategy.exponential-delay.jitter-factor", "0.25"),
    ];
    let delays = |seed| {
        let mut strategy = strategy(&options, seed).unwrap();
        let delay = |n: i64| match strategy.on_failure(Timestamp(n * 60_000), &Error::external("x")) {
            Decision::RestartAfter(ms) => ms,
            Decision::GiveUp => panic!("it has no limit"),
        };
        (0..5).map(delay).collect::<Vec<_>>()
    };
    assert_eq!(delays(1), delays(1));
    assert_ne!(delays(1), delays(2));
    for seed in 0..200 {
        let delays = delays(seed);
        // 1, 2, 4, 8 and 10 s, give or take a quarter, never below the initial nor above the longest.
        for (delay, range) in
            delays.iter().zip([1_000..=1_250, 1_500..=2_500, 3_000..=5_000, 6_000..=10_000, 7_500..=10_000])
        {
            assert!(range.contains(delay), "seed {seed}: {delay} of {range:?}");
        }
    }
}

#[test]
fn bad_values_are_refused_with_the_option() {
    let exponential = (TYPE, "exponential-delay");
    for (options, key) in [
        (vec![(TYPE, "sometimes")], TYPE),
        (
            vec![(TYPE, "failure-rate"), ("restart-strategy.failure-rate.max-failures-per-interval", "0")],
            "max-failures-per-interval",
        ),
        (vec![exponential, ("restart-strategy.exponential-delay.initial-backoff", "2 min")], "initial-backoff"),
        (vec![exponential, ("restart-strategy.exponential-delay.backoff-multiplier", "1.0")], "backoff-multiplier"),
        (vec![exponential, ("restart-strategy.exponential-delay.backoff-multiplier", "NaN")], "backoff-multiplier"),
        (vec![exponential, ("restart-strategy.exponential-delay.jitter-factor", "1.5")], "jitter-factor"),
    ] {
        let error = strategy(&options, 1).unwrap_err();
        assert!(error.place("option").is_some_and(|option| option.ends_with(key)), "{error}");
    }
}
