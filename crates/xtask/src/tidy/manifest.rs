//! What the rules need to know of a Cargo manifest: its dependencies, of which kind, and on which line.

use toml::{Table, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Ends up in the crate: `[dependencies]`, also under `[target.…]`.
    Normal,
    Build,
    Dev,
    /// A row of the root's `[workspace.dependencies]`.
    Workspace,
}

pub(super) struct Dependency {
    /// The package's name, also where the manifest renames it.
    pub(super) package: String,
    pub(super) kind: Kind,
    pub(super) line: usize,
    /// What stands right of the `=`.
    pub(super) value: Value,
}

/// All dependencies of a manifest, or why it cannot be read. A manifest that cargo reads too never fails here.
pub(super) fn dependencies(text: &str) -> Result<Vec<Dependency>, String> {
    let manifest: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut found = Vec::new();
    collect(&manifest, "", text, &mut found);
    for (target, tables) in subtable(&manifest, "target").into_iter().flatten() {
        if let Value::Table(tables) = tables {
            collect(tables, &format!("target.{target}."), text, &mut found);
        }
    }
    if let Some(rows) = subtable(&manifest, "workspace").and_then(|workspace| subtable(workspace, "dependencies")) {
        collect_rows(rows, "workspace.dependencies", Kind::Workspace, text, &mut found);
    }
    Ok(found)
}

fn collect(tables: &Table, prefix: &str, text: &str, found: &mut Vec<Dependency>) {
    let kinds = [("dependencies", Kind::Normal), ("build-dependencies", Kind::Build), ("dev-dependencies", Kind::Dev)];
    for (name, kind) in kinds {
        if let Some(rows) = subtable(tables, name) {
            collect_rows(rows, &format!("{prefix}{name}"), kind, text, found);
        }
    }
}

fn collect_rows(rows: &Table, section: &str, kind: Kind, text: &str, found: &mut Vec<Dependency>) {
    for (key, value) in rows {
        let package = value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned();
        found.push(Dependency { package, kind, line: line_of(text, section, key), value: value.clone() });
    }
}

fn subtable<'a>(table: &'a Table, key: &str) -> Option<&'a Table> {
    table.get(key).and_then(Value::as_table)
}

/// The line of `key` in `[section]`, whether written as a row, a dotted row or a section of its own.
fn line_of(text: &str, section: &str, key: &str) -> usize {
    let plain = |name: &str| name.replace(['"', '\'', ' '], "");
    let (section, own_section) = (plain(section), plain(&format!("{section}.{key}")));
    let mut current = String::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(header) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            current = plain(header);
            if current == own_section {
                return index + 1;
            }
        } else if current == section && line.split(['=', '.']).next().map(plain).as_deref() == Some(key) {
            return index + 1;
        }
    }
    1
}

/// The folder name of one of our own crates, by its package name.
pub(super) fn our_crate(package: &str) -> Option<&str> {
    match package {
        "flott" | "xtask" => Some(package),
        _ => package.strip_prefix("flott-"),
    }
}
