//! The files of this crate need each other one way only, so that each can be read after those it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The files that each file names in its code.
fn needs() -> BTreeMap<String, BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut needs = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let named = code.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest[..end].to_owned()
        });
        needs.insert(name.clone(), named.filter(|other| *other != name).collect());
    }
    needs
}

#[test]
fn no_files_need_each_other() {
    let mut needs = needs();
    assert!(needs["lower"].contains("flow"), "the test reads what files need: {needs:?}");
    // Files that need no other one any more are done, until none is left.
    loop {
        let done: Vec<_> = needs.iter().filter(|(_, of)| of.is_empty()).map(|(name, _)| name.clone()).collect();
        if done.is_empty() {
            break;
        }
        needs.retain(|name, _| !done.contains(name));
        needs.values_mut().for_each(|of| of.retain(|name| !done.contains(name)));
    }
    assert!(needs.is_empty(), "these files need each other, in a circle: {needs:?}");
}
