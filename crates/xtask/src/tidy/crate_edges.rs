//! A crate depends on the tiers below it and on nothing else of ours (ARCHITECTURE.md, the code map).
//!
//! The table here is the architecture: a new edge between crates is the rarest kind of change, and starts here.
//! Dev-dependencies are free, since cargo itself refuses a cycle.

use super::manifest::{Kind, dependencies, our_crate};
use super::{Finding, Tree};

pub(super) enum May {
    Name(&'static [&'static str]),
    /// The edges know everybody: they fill the Registry.
    NameAll,
}

pub(super) struct Tier {
    pub(super) name: &'static str,
    pub(super) crates: &'static [(&'static str, May)],
}

pub(super) const TIERS: &[Tier] = &[
    Tier { name: "words", crates: &[("core", May::Name(&[]))] },
    Tier {
        name: "parts",
        crates: &[
            ("operators", May::Name(&["core"])),
            ("connectors", May::Name(&["core", "formats"])),
            ("formats", May::Name(&["core"])),
            ("state", May::Name(&["core"])),
        ],
    },
    Tier {
        name: "plans",
        crates: &[
            ("plan", May::Name(&["core"])),
            ("datastream", May::Name(&["core", "plan", "datastream-derive"])),
            ("datastream-derive", May::Name(&[])),
            ("sql", May::Name(&["core", "plan", "operators"])),
            ("python", May::Name(&["core", "plan"])),
        ],
    },
    Tier {
        name: "machines",
        crates: &[
            ("checkpoint", May::Name(&["core", "plan"])),
            ("runtime", May::Name(&["core", "plan", "checkpoint"])),
            ("cluster", May::Name(&["core", "plan", "runtime", "checkpoint"])),
            ("web", May::Name(&["core", "plan", "runtime", "checkpoint", "cluster"])),
        ],
    },
    Tier {
        name: "edges",
        crates: &[
            ("cli", May::NameAll),
            ("wheel", May::NameAll),
            ("flott", May::NameAll),
            ("testing", May::NameAll),
            ("bench", May::NameAll),
            ("xtask", May::NameAll),
        ],
    },
];

const TABLE: &str = "the table in crates/xtask/src/tidy/crate_edges.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.crate_manifests().flat_map(|(folder, path, text)| check_crate(folder, path, text)).collect()
}

fn check_crate(folder: &str, path: &str, text: &str) -> Vec<Finding> {
    let row = TIERS.iter().flat_map(|tier| tier.crates.iter().map(move |(name, may)| (tier, *name, may)));
    let Some((tier, _, may)) = row.into_iter().find(|(_, name, _)| *name == folder) else {
        return vec![Finding::new(path, 1, format!("crate `{folder}` has no tier: give it a row in {TABLE}"))];
    };
    let May::Name(allowed) = may else {
        return Vec::new();
    };
    let dependencies = match dependencies(text) {
        Ok(dependencies) => dependencies,
        Err(error) => {
            return vec![Finding::new(path, 1, format!("cannot read this manifest: {error}"))];
        }
    };
    let forbidden = dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev).filter_map(|dependency| {
        let ours = our_crate(&dependency.package)?;
        (!allowed.contains(&ours)).then_some((ours, dependency.line))
    });
    let allowed = if allowed.is_empty() { "nothing of ours".to_owned() } else { format!("`{}`", allowed.join("`, `")) };
    forbidden
        .map(|(ours, line)| {
            let tier = tier.name;
            let message = format!("`{folder}` ({tier}) may not depend on `{ours}`: {TABLE} allows it {allowed}");
            Finding::new(path, line, message)
        })
        .collect()
}
