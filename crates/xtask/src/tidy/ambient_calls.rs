//! `clippy.toml` goes on banning ambient time, randomness, threads and environment, and says what to use instead.
//!
//! Clippy checks the calls; this rule checks that nobody thins out the list.

use toml::{Table, Value};

use super::{Finding, Tree};

const FILE: &str = "clippy.toml";

/// Calls that must stay banned and the word of ours that their reason must name.
const BANNED: &[(&str, &str)] = &[
    ("std::time::Instant::now", "Clock"),
    ("std::time::Instant::elapsed", "Clock"),
    ("std::time::SystemTime::now", "Clock"),
    ("std::time::SystemTime::elapsed", "Clock"),
    ("std::thread::sleep", "Clock"),
    ("std::thread::spawn", "Threads"),
    ("std::thread::scope", "Threads"),
    ("std::thread::Builder::spawn", "Threads"),
    ("std::env::var", "Config"),
    ("std::env::var_os", "Config"),
    ("std::env::vars", "Config"),
    ("std::env::vars_os", "Config"),
    ("std::env::args", "Config"),
    ("std::env::args_os", "Config"),
    ("std::env::current_dir", "Config"),
    ("std::env::temp_dir", "Config"),
    ("rand::rng", "seed"),
    ("rand::random", "seed"),
    ("rand::SeedableRng::from_os_rng", "seed"),
    ("tokio::spawn", "Threads"),
    ("tokio::task::spawn_blocking", "Threads"),
    ("tokio::time::sleep", "Clock"),
    ("tokio::time::sleep_until", "Clock"),
    ("tokio::time::interval", "Clock"),
    ("tokio::time::timeout", "Clock"),
    ("tokio::time::Instant::now", "Clock"),
];

const SWITCHES: &[(&str, bool)] = &[
    ("allow-unwrap-in-tests", true),
    ("allow-expect-in-tests", true),
    ("allow-panic-in-tests", true),
    ("allow-dbg-in-tests", false),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let finding = |message: String| Finding::new(FILE, 1, message);
    let Some(text) = tree.get(FILE) else {
        return vec![finding("missing: it bans ambient time, randomness, threads and environment".to_owned())];
    };
    let settings: Table = match text.parse() {
        Ok(settings) => settings,
        Err(error) => return vec![finding(format!("cannot be read: {error}"))],
    };
    let reason_of = |call: &str| {
        let rows = settings.get("disallowed-methods").and_then(Value::as_array)?;
        let row = rows.iter().find(|row| row.get("path").and_then(Value::as_str) == Some(call))?;
        Some(row.get("reason").and_then(Value::as_str).unwrap_or_default())
    };
    let mut findings = Vec::new();
    for (call, replacement) in BANNED {
        match reason_of(call) {
            None => findings.push(finding(format!("`{call}` must stay in disallowed-methods"))),
            Some(reason) if !reason.contains(replacement) => {
                findings.push(finding(format!("the reason of `{call}` must name its replacement, `{replacement}`")));
            }
            Some(_) => {}
        }
    }
    for (switch, wanted) in SWITCHES {
        if settings.get(*switch).and_then(Value::as_bool) != Some(*wanted) {
            findings.push(finding(format!("`{switch} = {wanted}` is missing")));
        }
    }
    findings
}
