//! The line that moves while a job runs: [`Progress`]. Nothing is shown where standard error is no terminal.

use std::sync::atomic::{AtomicU64, Ordering};

use flott::Moment;
use flott_core::{Error, Result};
use flott_plan::{NodeKind, StreamGraph};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counts what a job's sources have read and its sinks have written.
pub(crate) struct Progress {
    bar: ProgressBar,
    sources: Vec<String>,
    sinks: Vec<String>,
    read: AtomicU64,
    written: AtomicU64,
    elapsed_ms: AtomicU64,
}

impl Progress {
    pub(crate) fn of(graph: &StreamGraph) -> Result<Self> {
        let uids = |wanted: fn(&NodeKind) -> bool| {
            let nodes = graph.nodes.iter().filter(|node| wanted(&node.kind));
            nodes.map(|node| node.uid.clone()).collect()
        };
        let style = ProgressStyle::with_template("{spinner} {msg}").map_err(|e| Error::internal(e.to_string()))?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style);
        Ok(Self {
            bar,
            sources: uids(|kind| matches!(kind, NodeKind::Source { .. })),
            sinks: uids(|kind| matches!(kind, NodeKind::Sink(_))),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            elapsed_ms: AtomicU64::new(0),
        })
    }

    /// Takes a look at the running job.
    pub(crate) fn look(&self, moment: &Moment<'_>) {
        let sum =
            |uids: &[String], counter: &str| -> u64 { uids.iter().map(|uid| moment.metrics.sum(uid, counter)).sum() };
        self.read.store(sum(&self.sources, "numRecordsOut"), Ordering::Relaxed);
        self.written.store(sum(&self.sinks, "numRecordsIn"), Ordering::Relaxed);
        self.elapsed_ms.store(moment.elapsed_ms, Ordering::Relaxed);
        self.bar.set_message(self.summary());
        self.bar.tick();
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// What was done so far, in a line.
    pub(crate) fn summary(&self) -> String {
        let (read, ms) = (self.read.load(Ordering::Relaxed), self.elapsed_ms.load(Ordering::Relaxed));
        let written = grouped(self.written.load(Ordering::Relaxed));
        let rate = grouped(read.saturating_mul(1_000) / ms.max(1));
        format!("{written} rows written, {} read in {:.2} s, {rate} rows/s", grouped(read), ms as f64 / 1_000.0)
    }
}

/// 336776 as 336,776.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
