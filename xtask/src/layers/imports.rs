//! Imports between the modules of a crate: no upward imports, no cycles.

use super::table::{CRATES, Crate, UPWARD};
use crate::repo;
use crate::tokens::{Token, lex, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Imports of a crate's top-level modules: importing module to imported modules. `lib` is `lib.rs` itself.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Findings over every crate.
pub fn check() -> Vec<String> {
    let mut findings = Vec::new();
    for row in CRATES {
        match imports(row.name) {
            Ok(imports) => findings.extend(check_crate(row, &imports, UPWARD)),
            Err(e) => findings.push(e),
        }
    }
    findings
}

/// Reads the sources of a crate.
fn imports(name: &str) -> Result<Imports, String> {
    let source = format!("crates/{name}/src");
    let root = repo::read(&format!("{source}/lib.rs"))?;
    let shown = reexports(&lex(&root));
    let mut all = Imports::new();
    for path in repo::files(&source, ".rs") {
        let module = module_path(path.strip_prefix(&format!("{source}/")).unwrap_or(&path));
        let top = module.first().cloned().unwrap_or_else(|| "lib".into());
        let of = all.entry(top.clone()).or_default();
        if path.ends_with("/tests.rs") || path.contains("/tests/") || top == "lib" || top == "main" || top == "cli" {
            continue;
        }
        let text = repo::read(&path)?;
        let named = named(&without_tests(&lex(&text)), module.len());
        of.extend(named.into_iter().map(|n| shown.get(&n).cloned().unwrap_or(n)).filter(|n| *n != top));
    }
    // Other names are items of `lib.rs`.
    let modules: BTreeSet<String> = all.keys().cloned().collect();
    for to in all.values_mut() {
        *to = to.iter().map(|n| if modules.contains(n) { n.clone() } else { "lib".into() }).collect();
    }
    Ok(all)
}

/// `a/b.rs` and `a/b/mod.rs` are `a`, `b`; `lib.rs` is empty.
fn module_path(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = file.trim_end_matches(".rs").split('/').map(String::from).collect();
    if parts.last().is_some_and(|p| p == "mod" || p == "lib") {
        parts.pop();
    }
    parts
}

/// Names that `lib.rs` reexports from its modules, each with the module.
fn reexports(tokens: &[Token]) -> BTreeMap<String, String> {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text);
    let mut found = BTreeMap::new();
    for i in (0..tokens.len()).filter(|&i| text(i) == "use") {
        let from = if matches!(text(i + 1), "crate" | "super") { i + 4 } else { i + 1 };
        let module = text(from).to_string();
        let names = (from + 1..tokens.len()).map(text).take_while(|t| *t != ";");
        found.extend(names.filter(|t| t.starts_with(char::is_alphabetic)).map(|t| (t.to_string(), module.clone())));
    }
    found
}

/// First components of paths from the crate's root: after `crate::`, and after as many `super::` as the depth of the module.
fn named(tokens: &[Token], depth: usize) -> BTreeSet<String> {
    let text = |i: usize| tokens.get(i).map_or("", |t| t.text);
    let mut found = BTreeSet::new();
    let mut i = 0;
    while i < tokens.len() {
        let mut at = i;
        let mut up = 0;
        while text(at) == "super" && text(at + 1) == ":" {
            (at, up) = (at + 3, up + 1);
        }
        let rooted = match text(i) {
            "crate" if text(i + 1) == ":" => Some(i + 3),
            _ if up > 0 && up == depth => Some(at),
            _ => None,
        };
        if let Some(at) = rooted {
            let heads = if text(at) == "{" { super::rules::list_heads(tokens, at + 1) } else { vec![at] };
            found.extend(heads.into_iter().map(|h| text(h).to_string()));
        }
        i = at.max(i + 1);
    }
    found
}

/// Upward imports and cycles of one crate that are not listed, and listed ones that no longer exist.
fn check_crate(row: &Crate, imports: &Imports, upward: &[(&str, &str, &str)]) -> Vec<String> {
    let name = row.name;
    let layer = |module: &str| row.layers.iter().position(|l| l.contains(&module));
    let listed = |from: &str, to: &str| upward.contains(&(name, from, to));
    let mut findings = Vec::new();
    for module in imports.keys().filter(|m| !is_top(m) && layer(m).is_none()) {
        findings.push(format!("crates/{name}: module {module} has no layer: add it to xtask/src/layers/table.rs"));
    }
    for module in row.layers.iter().flat_map(|l| l.iter()).filter(|m| !imports.contains_key(**m)) {
        findings.push(format!("crates/{name}: module {module} has a layer and does not exist"));
    }
    let mut kept = Imports::new();
    for (from, to) in imports.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        if listed(from, to) {
            continue;
        }
        kept.entry(from.clone()).or_default().insert(to.clone());
        if let Some(own) = layer(from)
            && layer(to).is_none_or(|other| other > own)
        {
            findings.push(format!("crates/{name}: {from} imports {to}, which is above it"));
        }
    }
    if let Some(circle) = circle(&kept) {
        findings.push(format!("crates/{name}: modules import each other: {}", circle.join(" -> ")));
    }
    for (_, from, to) in upward.iter().filter(|row| row.0 == name) {
        if !imports.get(*from).is_some_and(|all| all.contains(*to)) {
            findings.push(format!("crates/{name}: {from} no longer imports {to}: remove the exception"));
        }
    }
    findings
}

/// Modules above all layers.
fn is_top(module: &str) -> bool {
    matches!(module, "lib" | "main" | "cli")
}

/// A path that ends at its start.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    fn walk(imports: &Imports, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        let last = path.last()?.clone();
        for next in imports.get(&last).into_iter().flatten() {
            if let Some(at) = path.iter().position(|m| m == next) {
                return Some(path[at..].iter().chain([next]).cloned().collect());
            }
            if !done.contains(next) {
                path.push(next.clone());
                if let Some(found) = walk(imports, path, done) {
                    return Some(found);
                }
                path.pop();
            }
        }
        done.insert(last);
        None
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|start| walk(imports, &mut vec![start.clone()], &mut done))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Crate = Crate { name: "x", layers: &[&["a", "b"], &["c"]] };

    fn of(edges: &[(&str, &str)]) -> Imports {
        let mut all: Imports = ["a", "b", "c", "lib"].map(|m| (m.to_string(), BTreeSet::new())).into();
        for (from, to) in edges {
            all.entry(from.to_string()).or_default().insert(to.to_string());
        }
        all
    }

    fn found(edges: &[(&str, &str)], upward: &[(&str, &str, &str)]) -> Vec<String> {
        check_crate(&ROW, &of(edges), upward)
    }

    #[test]
    fn an_upward_import_is_found_unless_listed() {
        assert!(found(&[("c", "a"), ("c", "b"), ("b", "a"), ("lib", "c")], &[]).is_empty());
        assert_eq!(found(&[("a", "c")], &[]), ["crates/x: a imports c, which is above it"]);
        assert_eq!(found(&[("a", "lib")], &[]), ["crates/x: a imports lib, which is above it"]);
        assert!(found(&[("a", "c"), ("c", "a")], &[("x", "a", "c")]).is_empty());
    }

    #[test]
    fn an_exception_that_is_gone_is_found() {
        assert_eq!(found(&[], &[("x", "a", "c")]), ["crates/x: a no longer imports c: remove the exception"]);
        assert!(found(&[], &[("y", "a", "c")]).is_empty());
    }

    #[test]
    fn a_circle_inside_a_layer_is_found() {
        let circle = ["crates/x: modules import each other: a -> b -> a"];
        assert_eq!(found(&[("a", "b"), ("b", "a")], &[]), circle);
        assert!(found(&[("a", "b"), ("b", "a")], &[("x", "b", "a")]).is_empty());
    }

    #[test]
    fn modules_and_table_agree() {
        let findings = found(&[("new", "a")], &[]);
        assert_eq!(findings, ["crates/x: module new has no layer: add it to xtask/src/layers/table.rs"]);
        let row = Crate { name: "x", layers: &[&["a", "b", "gone"], &["c"]] };
        assert_eq!(check_crate(&row, &of(&[]), &[]), ["crates/x: module gone has a layer and does not exist"]);
    }

    #[test]
    fn paths_from_the_root_are_read() {
        let text = "use crate::{a::{self, B}, c}; use crate::d::E; use super::super::f::g; use super::h; fn x() { crate::i() }";
        let names: Vec<String> = named(&lex(text), 2).into_iter().collect();
        assert_eq!(names, ["a", "c", "d", "f", "i"]);
        let shown = reexports(&lex("pub use graph::{Net, Op}; pub use crate::ops::Kind;"));
        assert_eq!((&*shown["Net"], &*shown["Kind"]), ("graph", "ops"));
        assert_eq!((module_path("a/mod.rs"), module_path("a/b.rs")), (vec!["a".into()], vec!["a".into(), "b".into()]));
    }
}
