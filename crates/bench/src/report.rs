//! What the benchmarks say: tables in Markdown, printed and put into `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use flott_core::{Error, Result};

use crate::measure::{Measured, Spread};

/// One benchmark's part of the page.
pub(crate) struct Section {
    /// Its name on the command line and its heading.
    pub(crate) name: &'static str,
    /// What is measured, in words.
    pub(crate) about: String,
    /// The table, with its heading.
    pub(crate) table: Vec<Vec<String>>,
}

impl Section {
    fn markdown(&self, command: &str, setting: &str) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.name, self.about);
        for (index, row) in self.table.iter().enumerate() {
            let _ = writeln!(text, "| {} |", row.join(" | "));
            if index == 0 {
                let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
            }
        }
        let _ = write!(text, "\n`{command}` — {setting}\n");
        text
    }
}

/// Runs of one contender.
pub(crate) struct Runs {
    /// Who.
    pub(crate) contender: String,
    /// Each run.
    pub(crate) runs: Vec<Measured>,
}

impl Runs {
    /// Wall time.
    pub(crate) fn seconds(&self) -> Spread {
        Spread::of(self.runs.iter().map(|run| run.seconds))
    }

    /// Processor time.
    pub(crate) fn cpu_seconds(&self) -> Spread {
        Spread::of(self.runs.iter().map(|run| run.cpu_seconds))
    }

    /// The peak of memory.
    pub(crate) fn peak_mib(&self) -> Spread {
        Spread::of(self.runs.iter().map(|run| run.peak_rss_bytes as f64 / f64::from(1 << 20)))
    }
}

/// The heading of tables of [`compare`].
pub(crate) fn compare_heading() -> Vec<String> {
    ["case", "contender", "seconds: median (min–max)", "M rows/s", "CPU s", "peak MiB", "time against flott's"]
        .map(str::to_owned)
        .to_vec()
}

/// Rows of a table that compares contenders, the first of which is ours, at the same work over `rows_in` rows.
pub(crate) fn compare(case: &str, rows_in: u64, contenders: &[Runs]) -> Result<Vec<Vec<String>>> {
    let Some(ours) = contenders.first() else { return Ok(Vec::new()) };
    let out = |runs: &Runs| runs.runs.first().map_or(0, |run| run.rows_out);
    if let Some(other) = contenders.iter().find(|runs| out(runs) != out(ours)) {
        let text = format!("{case}: flott gave {} rows, {} gave {}", out(ours), other.contender, out(other));
        return Err(Error::internal(text));
    }
    let row = |runs: &Runs| {
        let seconds = runs.seconds();
        vec![
            case.to_owned(),
            runs.contender.clone(),
            format!("{:.2} ({:.2}–{:.2})", seconds.median, seconds.min, seconds.max),
            format!("{:.1}", rows_in as f64 / seconds.median / 1e6),
            format!("{:.2}", runs.cpu_seconds().median),
            format!("{:.0}", runs.peak_mib().median),
            format!("{:.2}", seconds.median / ours.seconds().median),
        ]
    };
    Ok(contenders.iter().map(row).collect())
}

/// Prints a section and, with a page, puts it there: in place of the section of its name, or at the end.
pub(crate) fn publish(section: &Section, command: &str, setting: &str, page: Option<&Path>) -> Result<()> {
    let text = section.markdown(command, setting);
    println!("{text}");
    let Some(page) = page else { return Ok(()) };
    let old = std::fs::read_to_string(page).map_err(|e| Error::io("read", page.display(), &e))?;
    std::fs::write(page, replaced(&old, section.name, &text)).map_err(|e| Error::io("write", page.display(), &e))
}

fn replaced(page: &str, name: &str, section: &str) -> String {
    let heading = format!("## {name}\n");
    let (before, after) = match page.split_once(&heading) {
        Some((before, rest)) => (before, rest.find("\n## ").map_or("", |at| &rest[at + 1..])),
        None => (page, ""),
    };
    let mut parts = vec![before.trim_end(), section.trim_end()];
    parts.extend(Some(after.trim_end()).filter(|rest| !rest.is_empty()));
    parts.join("\n\n") + "\n"
}

/// The machine in general terms, the date and the versions.
pub(crate) fn setting(runs: usize, versions: &[String]) -> String {
    let first = |command: &mut Command| {
        let output = command.output().ok().filter(|output| output.status.success());
        output.map_or_else(|| "unknown".to_owned(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
    };
    let date = first(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    let rustc = first(Command::new("rustc").arg("--version"));
    let rustc = rustc.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut all = vec![format!("flott {}", env!("CARGO_PKG_VERSION")), rustc];
    all.extend_from_slice(versions);
    let s = if runs == 1 { "" } else { "s" };
    format!("{date}, {runs} run{s} each, {cores} cores (x86-64, virtual machine), {}.", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_where_it_stands() {
        let page = "# B\n\nintro\n\n## a\n\nold\n\n## b\n\nstays\n";
        assert_eq!(replaced(page, "a", "## a\n\nnew\n"), "# B\n\nintro\n\n## a\n\nnew\n\n## b\n\nstays\n");
        assert_eq!(
            replaced(page, "c", "## c\n\nnew\n"),
            "# B\n\nintro\n\n## a\n\nold\n\n## b\n\nstays\n\n## c\n\nnew\n"
        );
    }
}
