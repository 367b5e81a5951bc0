//! Comparison of two explanations by names: part, structure, field. Byte offsets are ignored.

use std::collections::HashMap;

use serde::Serialize;

use super::dump::{Dump, Node, Part};

/// A field that differs between two explanations, or is in one of them only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Part of the explanation.
    pub part: Part,
    /// Structures from outer to inner, then the field.
    pub place: Vec<String>,
    /// Value in the first; `None` if it has no such field.
    pub a: Option<String>,
    /// Value in the second.
    pub b: Option<String>,
}

/// Part, names, and index among fields with the same names.
type Key = (Part, Vec<String>, usize);

/// Differences in the order of the first explanation, followed by fields that only the second has, in its order.
pub fn differences(a: &Dump, b: &Dump) -> Vec<Change> {
    let (first, second) = (flat(a), flat(b));
    let of_second: HashMap<&Key, &String> = second.iter().map(|(k, v)| (k, v)).collect();
    let known: HashMap<&Key, &String> = first.iter().map(|(k, v)| (k, v)).collect();
    let change = |key: &Key, a: Option<&String>, b: Option<&String>| Change {
        part: key.0,
        place: key.1.clone(),
        a: a.cloned(),
        b: b.cloned(),
    };
    let mut out = Vec::new();
    for (key, value) in &first {
        let other = of_second.get(key).copied();
        if other != Some(value) {
            out.push(change(key, Some(value), other));
        }
    }
    out.extend(second.iter().filter(|(k, _)| !known.contains_key(k)).map(|(k, v)| change(k, None, Some(v))));
    out
}

fn flat(dump: &Dump) -> Vec<(Key, String)> {
    let mut out = Vec::new();
    let mut seen: HashMap<(Part, Vec<String>), usize> = HashMap::new();
    for chapter in &dump.chapters {
        let mut places = Counts::default();
        for node in &chapter.nodes {
            let place = vec![places.of(title(node))];
            walk(chapter.part, node, place, &mut seen, &mut out);
        }
    }
    out
}

/// Numbers structures of equal title; the first has no number.
#[derive(Default)]
struct Counts(HashMap<String, usize>);

impl Counts {
    fn of(&mut self, title: String) -> String {
        let n = self.0.entry(title.clone()).or_insert(0);
        *n += 1;
        if *n == 1 { title } else { format!("{title} #{n}") }
    }
}

/// The title without the text in parentheses: sizes and positions, which are fields of their own or ignored.
fn title(node: &Node) -> String {
    node.title.split(" (").next().unwrap_or_default().to_string()
}

fn walk(
    part: Part,
    node: &Node,
    place: Vec<String>,
    seen: &mut HashMap<(Part, Vec<String>), usize>,
    out: &mut Vec<(Key, String)>,
) {
    for entry in &node.entries {
        let mut name = place.clone();
        name.push(entry.name.clone());
        let n = seen.entry((part, name.clone())).or_insert(0);
        out.push(((part, name, *n), entry.value.clone()));
        *n += 1;
    }
    let mut places = Counts::default();
    for child in &node.nodes {
        let mut inner = place.clone();
        inner.push(places.of(title(child)));
        walk(part, child, inner, seen, out);
    }
}
