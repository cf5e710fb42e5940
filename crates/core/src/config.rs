//! Configuration: typed options under Flink's keys, unknown keys refused with the nearest name.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// An option: key, default and meaning.
pub struct ConfigOption<T> {
    /// Flink's key.
    pub key: &'static str,
    /// The value where none is set, as text.
    pub default: &'static str,
    /// What it does, with units.
    pub doc: &'static str,
    kind: PhantomData<fn() -> T>,
}

impl<T> ConfigOption<T> {
    const fn new(key: &'static str, default: &'static str, doc: &'static str) -> Self {
        Self { key, default, doc, kind: PhantomData }
    }
}

macro_rules! options {
    ($($(#[$m:meta])* $name:ident: $type:ty = $key:literal, $default:literal, $doc:literal;)*) => {
        $(
            #[doc = concat!("`", $key, "` (default `", $default, "`): ", $doc)]
            pub const $name: ConfigOption<$type> = ConfigOption::new($key, $default, $doc);
        )*
        /// Every known option: key, default, meaning.
        pub const OPTIONS: &[(&str, &str, &str)] = &[$(($key, $default, $doc)),*];
        /// Checks that a text is a value of the option of this key.
        fn check(key: &str, value: &str) -> Result<()> {
            match key {
                $($key => parse::<$type>(key, value).map(drop),)*
                _ => Ok(()),
            }
        }
    };
}

options! {
    PARALLELISM: u32 = "parallelism.default", "1", "tasks of an operator that does not say otherwise";
    MAX_PARALLELISM: u32 = "pipeline.max-parallelism", "128", "key groups: the most tasks a keyed operator can ever have";
    OBJECT_CHAINING: bool = "pipeline.operator-chaining.enabled", "true", "run neighbouring operators in one task";
    WATERMARK_INTERVAL: Millis = "pipeline.auto-watermark-interval", "200 ms", "how long a quiet source waits before it sends the watermark it owes";
    BATCH_ROWS: usize = "flott.batch.rows", "4096", "the most rows a source puts in a batch";
    WATERMARK_ROWS: u32 = "flott.watermark.rows", "4096", "a watermark follows every so many rows of a split, wherever batches end";
    CHANNEL_CREDIT: u32 = "taskmanager.network.memory.buffers-per-channel", "4", "batches in flight on a channel";
    THREADS: usize = "flott.threads", "0", "threads that run tasks; 0: one for each processor";
    REQUEST_CAPACITY: usize = "flott.requests.capacity", "100", "requests in flight of an operator, in count";
    STATE_BACKEND: String = "state.backend.type", "hashmap", "where keyed state lives";
    CHECKPOINT_INTERVAL: Millis = "execution.checkpointing.interval", "0 ms", "time between checkpoints; 0: none";
    CHECKPOINT_DIR: String = "execution.checkpointing.dir", "", "the directory of checkpoints";
    RECOVERY_PATH: String = "execution.state-recovery.path", "", "the checkpoint or savepoint to begin with: its directory or its file; empty: none, or the newest where a job is resumed";
    UNALIGNED: bool = "execution.checkpointing.unaligned.enabled", "false", "let barriers overtake rows";
    ALIGNED_TIMEOUT: Millis = "execution.checkpointing.aligned-checkpoint-timeout", "0 ms", "how long a barrier waits before it overtakes";
    CHECKPOINT_MODE: String = "execution.checkpointing.mode", "EXACTLY_ONCE", "EXACTLY_ONCE or AT_LEAST_ONCE";
    CHECKPOINT_TIMEOUT: Millis = "execution.checkpointing.timeout", "10 min", "a checkpoint not acknowledged by then is given up";
    CHECKPOINT_MIN_PAUSE: Millis = "execution.checkpointing.min-pause", "0 ms", "the least time between the end of a checkpoint and the start of the next";
    TOLERABLE_FAILED_CHECKPOINTS: u32 = "execution.checkpointing.tolerable-failed-checkpoints", "0", "checkpoints that may fail one after the other before the job does";
    RESTART_STRATEGY: String = "restart-strategy.type", "none", "none, fixed-delay, exponential-delay or failure-rate; where not set: exponential-delay with checkpoints, else none";
    FIXED_DELAY_ATTEMPTS: u32 = "restart-strategy.fixed-delay.attempts", "1", "restarts before a job is given up";
    FIXED_DELAY: Millis = "restart-strategy.fixed-delay.delay", "1 s", "time between a failure and the restart";
    FAILURE_RATE_MAX: u32 = "restart-strategy.failure-rate.max-failures-per-interval", "1", "restarts in an interval before a job is given up";
    FAILURE_RATE_INTERVAL: Millis = "restart-strategy.failure-rate.failure-rate-interval", "1 min", "the interval in which failures are counted";
    FAILURE_RATE_DELAY: Millis = "restart-strategy.failure-rate.delay", "1 s", "time between a failure and the restart";
    BACKOFF_INITIAL: Millis = "restart-strategy.exponential-delay.initial-backoff", "1 s", "time between the first failure and the restart";
    BACKOFF_MAX: Millis = "restart-strategy.exponential-delay.max-backoff", "1 min", "the longest time between a failure and the restart";
    BACKOFF_MULTIPLIER: f64 = "restart-strategy.exponential-delay.backoff-multiplier", "1.5", "the next time is this many times longer";
    BACKOFF_RESET: Millis = "restart-strategy.exponential-delay.reset-backoff-threshold", "1 h", "after so long without a failure the initial time holds again";
    BACKOFF_JITTER: f64 = "restart-strategy.exponential-delay.jitter-factor", "0.1", "the time is longer or shorter by a random part of up to this, 0 to 1";
    BACKOFF_ATTEMPTS: u32 = "restart-strategy.exponential-delay.attempts-before-reset-backoff", "2147483647", "restarts before a job is given up, unless the time was reset";
    HEARTBEAT_INTERVAL: Millis = "heartbeat.interval", "10 s", "how often the processes of a job ask each other for a sign of life";
    HEARTBEAT_TIMEOUT: Millis = "heartbeat.timeout", "50 s", "a process that has given no sign of life for longer counts as dead";
}

/// The local path in `text`: a path, or a `file:` URI as Flink's options have them, taken literally (`%20` is no space).
/// The error names the file system that
/// is asked for and not there.
///
/// ```
/// use flott_core::config::local_path;
/// assert_eq!(local_path("file:///tmp/x"), Ok("/tmp/x"));
/// assert_eq!(local_path("file://localhost/tmp/x"), Ok("/tmp/x"));
/// assert_eq!(local_path("file:localhost/x"), Ok("localhost/x"));
/// assert_eq!(local_path("tmp/x"), Ok("tmp/x"));
/// assert_eq!(local_path("s3://bucket/x"), Err("s3"));
/// ```
pub fn local_path(text: &str) -> Result<&str, &str> {
    let path = text.strip_prefix("file:").map_or(text, |rest| match rest.strip_prefix("//") {
        // The host may be named; what follows begins with a slash then.
        Some(rest) => rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest),
        None => rest,
    });
    path.split_once("://").map_or(Ok(path), |(scheme, _)| Err(scheme))
}

/// The value of an option that names a directory or a file of this machine.
pub fn local_path_of(config: &Config, option: &ConfigOption<String>) -> crate::Result<String> {
    let given = config.get(option)?;
    match local_path(&given) {
        Ok(path) => Ok(path.to_owned()),
        Err(scheme) => {
            let text =
                format!("expected a path or a file: URI, found '{given}': there is no file system '{scheme}' yet");
            Err(crate::Error::user(text).at("option", option.key))
        }
    }
}

/// A span of time in milliseconds, written as Flink does: `200 ms`, `10 s`, `5 min`, `1 h`, `1 d`, or a plain number of ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl FromStr for Millis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim() {
            "" | "ms" | "milli" | "millis" => 1,
            "s" | "sec" | "second" | "seconds" => 1_000,
            "min" | "m" | "minute" | "minutes" => 60_000,
            "h" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            _ => return Err("a time such as '200 ms', '10 s' or '5 min'".into()),
        };
        let number: u64 = number.parse().map_err(|_| "a time such as '200 ms', '10 s' or '5 min'".to_owned())?;
        number.checked_mul(factor).map(Self).ok_or_else(|| "a time of fewer than 2^64 ms".into())
    }
}

/// Types an option can have.
pub trait OptionValue: Sized {
    /// Reads a value; the error says what was expected.
    fn parse(text: &str) -> Result<Self, String>;
}

macro_rules! option_values {
    ($($type:ty: $expected:literal),*) => {$(
        impl OptionValue for $type {
            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| $expected.to_owned())
            }
        }
    )*};
}

option_values!(u32: "a whole number", f64: "a number", usize: "a whole number", bool: "true or false", String: "text");

impl OptionValue for Millis {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

/// Options that were set.
///
/// ```
/// use flott_core::config::{Config, PARALLELISM};
/// let mut config = Config::default();
/// config.set("parallelism.default", "3")?;
/// assert_eq!(config.get(&PARALLELISM)?, 3);
/// let error = config.set("paralelism.default", "3").unwrap_err();
/// assert!(error.to_string().contains("did you mean 'parallelism.default'?"));
/// # Ok::<(), flott_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config(BTreeMap<String, String>);

impl Config {
    /// Sets an option; an unknown key or a value of the wrong type is refused.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let known = OPTIONS.iter().map(|(key, ..)| *key);
        if !known.clone().any(|k| k == key) {
            let hint = nearest(key, known).map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            return Err(Error::user(format!("there is no option '{key}'{hint}")));
        }
        check(key, value)?;
        self.0.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// The value of an option.
    pub fn get<T: OptionValue>(&self, option: &ConfigOption<T>) -> Result<T> {
        parse(option.key, self.0.get(option.key).map_or(option.default, String::as_str))
    }

    /// Whether an option was set.
    pub fn is_set<T>(&self, option: &ConfigOption<T>) -> bool {
        self.0.contains_key(option.key)
    }
}

fn parse<T: OptionValue>(key: &str, text: &str) -> Result<T> {
    T::parse(text).map_err(|expected| Error::user(format!("expected {expected}, found '{text}'")).at("option", key))
}

/// The name most like `wanted`, if one is like it.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (strsim::normalized_damerau_levenshtein(wanted, name), name))
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
