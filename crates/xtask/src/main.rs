//! `cargo xtask`: the chores of this repository that are more than one shell line.
//!
//! It may read and write files of the work tree and start cargo. It links no crate of ours, so that it builds in
//! seconds and still runs when they do not compile. What is checked lives in [`tidy`], one file per rule.

mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the flott repository")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the rules of this repository that neither the compiler nor clippy can (CONTRIBUTING.md lists them)
    Tidy {
        /// Redraw the crate graph in ARCHITECTURE.md first
        #[arg(long)]
        write: bool,
    },
    /// Run the benchmarks: `cargo run -p flott-bench --profile bench -- ARGS`
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Args::parse().chore {
        Chore::Tidy { write } => tidy(write),
        Chore::Bench { args } => bench(&args),
    };
    outcome.unwrap_or_else(|message| {
        eprintln!("xtask: {message}");
        ExitCode::from(2)
    })
}

fn tidy(write: bool) -> Result<ExitCode, String> {
    let root = workspace_root()?;
    let mut tree = tidy::Tree::load(&root)?;
    if write {
        let page = tidy::redraw_crate_graph(&tree)?;
        let path = root.join(tidy::ARCHITECTURE);
        std::fs::write(&path, &page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        tree.insert(tidy::ARCHITECTURE, page);
    }
    let findings = tidy::check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, {} rules, clean", tree.len(), tidy::RULES.len());
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} findings in {} files", findings.len(), tree.len());
    Ok(ExitCode::FAILURE)
}

fn bench(args: &[String]) -> Result<ExitCode, String> {
    let status = Command::new("cargo")
        .args(["run", "-p", "flott-bench", "--profile", "bench", "--"])
        .args(args)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The nearest folder upwards with a workspace manifest. Asked at run time and not compiled in: one target folder may
/// serve several checkouts.
#[expect(clippy::disallowed_methods, reason = "a chore acts on the checkout it is started in")]
fn workspace_root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|error| format!("no current folder: {error}"))?;
    let is_root = |folder: &&Path| {
        std::fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|manifest| manifest.contains("[workspace]"))
    };
    here.ancestors()
        .find(is_root)
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("no workspace manifest in {} or above it", here.display()))
}
