//! Every rule finds what its fixture violates and nothing else: `fixtures/<rule>.txt` holds the
//! findings (written anew with `UPDATE_EXPECT=1`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use expect_test::expect_file;

use super::rust_text::{code_only, path_heads, without_test_items};
use super::{Finding, RULES, Tree, check, redraw_crate_graph};

const FIXTURES: &str = "fixtures";

fn load(fixture: &str) -> Tree {
    Tree::load(&Path::new(FIXTURES).join(fixture)).unwrap()
}

fn print(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn each_rule_finds_what_its_fixture_violates() {
    for rule in RULES {
        let mut findings = (rule.check)(&load(rule.name));
        findings.sort();
        assert!(!findings.is_empty(), "rule {} found nothing", rule.name);
        let expected = format!("../../{FIXTURES}/{}.txt", rule.name);
        expect_file![expected].assert_eq(&print(&findings));
    }
}

#[test]
fn the_clean_fixture_passes_every_rule() {
    assert_eq!(print(&check(&load("clean"))), "");
}

#[test]
fn each_fixture_belongs_to_a_rule() {
    let entries = fs::read_dir(FIXTURES).unwrap().map(|entry| entry.unwrap().path());
    let folders: BTreeSet<_> = entries.filter(|path| path.is_dir()).collect();
    let rules = RULES.iter().map(|rule| rule.name).chain(["clean"]);
    assert_eq!(folders, rules.map(|name| Path::new(FIXTURES).join(name)).collect());
}

#[test]
fn a_registry_host_is_a_finding() {
    let mut tree = Tree::default();
    tree.insert("docs/install.md", ["from https://", "crates", ".io", "/"].concat());
    assert_eq!(super::machine_names::check(&tree).len(), 1);
}

#[test]
fn a_redrawn_graph_has_no_drift() {
    let mut tree = load("crate_graph");
    let page = redraw_crate_graph(&tree).unwrap();
    tree.insert(super::ARCHITECTURE, page);
    assert_eq!(print(&super::crate_graph::check(&tree)), "");
}

#[test]
fn comments_literals_and_test_items_are_blank() {
    let text = concat!(
        "let a = \"x.unwrap() \\\" \"; // panic!\n",
        "let b = r#\"todo!(\"q\")\"#; let c = '\"'; let d = '\\''; let e: &'a str = f;\n",
        "/* /* panic! */ todo! */ g\n",
        "#[cfg(test)]\nmod tests { fn h() { i.unwrap(); } }\nfn j() {}\n",
    );
    let code = without_test_items(&code_only(text));
    let words: Vec<_> = code.split_whitespace().collect();
    assert_eq!(words.join(" "), "let a = ; let b = ; let c = ; let d = ; let e: &'a str = f; g fn j() {}");
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn only_the_first_name_of_a_path_is_a_head() {
    let code = "use a::b::c; use d; use ::e; f(g::h, i); x.y::<Z>(); extern crate k;";
    let heads: Vec<_> = path_heads(code).into_iter().map(|(_, name)| name).collect();
    assert_eq!(heads, ["a", "d", "e", "g", "y", "k"]);
}
