//! Whether and when a failed job starts again: [`RestartStrategy`], Flink's four under Flink's keys.
//!
//! Every failure counts and restarts, as in Flink, also those of [`flott_core::ErrorDomain::User`]: what is wrong with
//! a record may be right after its source was mended. Where nothing is configured, a job with checkpoints backs off
//! exponentially and a job without has no restart, as in Flink 2.

use std::collections::VecDeque;

use flott_core::config::{
    BACKOFF_ATTEMPTS, BACKOFF_INITIAL, BACKOFF_JITTER, BACKOFF_MAX, BACKOFF_MULTIPLIER, BACKOFF_RESET,
    CHECKPOINT_INTERVAL, FAILURE_RATE_DELAY, FAILURE_RATE_INTERVAL, FAILURE_RATE_MAX, FIXED_DELAY,
    FIXED_DELAY_ATTEMPTS, Millis, RESTART_STRATEGY,
};
use flott_core::key::fmix64;
use flott_core::{Config, Error, Result, Timestamp};

/// The answer to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Restart so many milliseconds after the failure.
    RestartAfter(u64),
    /// The job has failed for good.
    GiveUp,
}

/// A restart strategy and what it remembers of failures.
#[derive(Clone, Debug, PartialEq)]
pub struct RestartStrategy(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    None,
    FixedDelay { attempts: u32, delay: u64, failures: u32 },
    FailureRate { max: u32, interval: u64, delay: u64, recent: VecDeque<Timestamp> },
    ExponentialDelay(Backoff),
}

#[derive(Clone, Debug, PartialEq)]
struct Backoff {
    initial: u64,
    max: u64,
    multiplier: f64,
    reset_after: u64,
    jitter: f64,
    attempts: u32,
    seed: u64,
    /// Failures since the delay was the initial one.
    failures: u32,
    /// Failures ever: the random numbers drawn.
    drawn: u64,
    restart_at: Option<Timestamp>,
}

impl RestartStrategy {
    /// The strategy of a configuration; `seed` is what jitter is drawn from.
    pub fn from_config(config: &Config, seed: u64) -> Result<Self> {
        let name = config.get(&RESTART_STRATEGY)?.trim().to_ascii_lowercase();
        let Millis(checkpoint_interval) = config.get(&CHECKPOINT_INTERVAL)?;
        let kind = match name.as_str() {
            _ if !config.is_set(&RESTART_STRATEGY) && checkpoint_interval > 0 => exponential_delay(config, seed)?,
            "none" | "off" | "disable" => Kind::None,
            "fixed-delay" | "fixeddelay" => Kind::FixedDelay {
                attempts: config.get(&FIXED_DELAY_ATTEMPTS)?,
                delay: config.get(&FIXED_DELAY)?.0,
                failures: 0,
            },
            "failure-rate" | "failurerate" => failure_rate(config)?,
            "exponential-delay" | "exponentialdelay" => exponential_delay(config, seed)?,
            other => {
                let text = format!("expected none, fixed-delay, exponential-delay or failure-rate, found '{other}'");
                return Err(Error::user(text).at("option", RESTART_STRATEGY.key));
            }
        };
        Ok(Self(kind))
    }

    /// The job has failed at `now`.
    pub fn on_failure(&mut self, now: Timestamp, _error: &Error) -> Decision {
        match &mut self.0 {
            Kind::None => Decision::GiveUp,
            Kind::FixedDelay { attempts, delay, failures } => {
                *failures = failures.saturating_add(1);
                restart_if(*failures <= *attempts, *delay)
            }
            Kind::FailureRate { max, interval, delay, recent } => {
                if recent.len() > *max as usize {
                    recent.pop_front();
                }
                recent.push_back(now);
                let earliest = recent.front().copied().unwrap_or(now);
                let within_rate = recent.len() <= *max as usize || elapsed(earliest, now) > *interval;
                restart_if(within_rate, *delay)
            }
            Kind::ExponentialDelay(backoff) => backoff.on_failure(now),
        }
    }
}

impl Backoff {
    fn on_failure(&mut self, now: Timestamp) -> Decision {
        if let Some(at) = self.restart_at {
            // Flink counts a failure in the very millisecond of the restart as the earlier one, since there failures
            // of the old tasks come one by one. Here a failure is told once the last task has gone, so it is the new
            // attempt's; counted as the earlier one it would be restarted at once, without end while the clock stands.
            if now < at {
                return restart_if(self.failures <= self.attempts, elapsed(now, at));
            }
            if elapsed(at, now) >= self.reset_after {
                self.failures = 0;
            }
        }
        let delay = self.delay();
        self.failures = self.failures.saturating_add(1);
        self.restart_at = Some(now.saturating_add(i64::try_from(delay).unwrap_or(i64::MAX)));
        restart_if(self.failures <= self.attempts, delay)
    }

    fn delay(&mut self) -> u64 {
        let exponent = i32::try_from(self.failures).unwrap_or(i32::MAX);
        // Both ends are exact or saturate: `as` from a float does.
        let current = ((self.initial as f64 * self.multiplier.powi(exponent)) as u64).min(self.max);
        let reach = (current as f64 * self.jitter) as u64;
        self.drawn = self.drawn.wrapping_add(1);
        // Within 0 ..= 2 * reach.
        let random = (u128::from(fmix64(self.seed ^ fmix64(self.drawn))) * (2 * u128::from(reach) + 1)) >> 64;
        let jittered = u128::from(current) + random;
        let delay = u64::try_from(jittered.saturating_sub(u128::from(reach))).unwrap_or(u64::MAX);
        delay.clamp(self.initial, self.max)
    }
}

fn failure_rate(config: &Config) -> Result<Kind> {
    let max = config.get(&FAILURE_RATE_MAX)?;
    if max == 0 {
        return Err(Error::user("expected at least 1, found 0").at("option", FAILURE_RATE_MAX.key));
    }
    let Millis(interval) = config.get(&FAILURE_RATE_INTERVAL)?;
    if interval == 0 {
        return Err(Error::user("expected more than 0 ms").at("option", FAILURE_RATE_INTERVAL.key));
    }
    Ok(Kind::FailureRate { max, interval, delay: config.get(&FAILURE_RATE_DELAY)?.0, recent: VecDeque::new() })
}

fn exponential_delay(config: &Config, seed: u64) -> Result<Kind> {
    let (Millis(initial), Millis(max)) = (config.get(&BACKOFF_INITIAL)?, config.get(&BACKOFF_MAX)?);
    if initial == 0 || initial > max {
        let text = format!("expected 1 ms to the longest delay of {max} ms, found {initial} ms");
        return Err(Error::user(text).at("option", BACKOFF_INITIAL.key));
    }
    let multiplier = config.get(&BACKOFF_MULTIPLIER)?;
    if !multiplier.is_finite() || multiplier <= 1.0 {
        let text = format!("expected a number above 1, found {multiplier}");
        return Err(Error::user(text).at("option", BACKOFF_MULTIPLIER.key));
    }
    let jitter = config.get(&BACKOFF_JITTER)?;
    if !(0.0..=1.0).contains(&jitter) {
        return Err(
            Error::user(format!("expected a number from 0 to 1, found {jitter}")).at("option", BACKOFF_JITTER.key)
        );
    }
    Ok(Kind::ExponentialDelay(Backoff {
        initial,
        max,
        multiplier,
        reset_after: config.get(&BACKOFF_RESET)?.0,
        jitter,
        attempts: config.get(&BACKOFF_ATTEMPTS)?,
        seed,
        failures: 0,
        drawn: 0,
        restart_at: None,
    }))
}

fn restart_if(may: bool, after: u64) -> Decision {
    if may { Decision::RestartAfter(after) } else { Decision::GiveUp }
}

/// Milliseconds from one time to a later one; 0 where the clock went back.
fn elapsed(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)
}
