//! A shortened explanation: fields at zero omitted, elements of arrays with equal or evenly spaced values on one line.

use anemone_program::text::{Dump, Entry, Node, Part};

/// Parts whose fields are folded.
const FOLDED: [Part; 3] = [Part::Td, Part::Regs, Part::Weights];

/// The explanation as text, shortened; the last line states the number of omitted fields and how to print them.
pub fn render(dump: &Dump) -> String {
    let mut short = dump.clone();
    let mut hidden = 0;
    for chapter in short.chapters.iter_mut().filter(|c| FOLDED.contains(&c.part)) {
        let zeros = chapter.part != Part::Weights;
        chapter.nodes.iter_mut().for_each(|node| hidden += shorten(node, zeros));
    }
    let mut out = short.render();
    if hidden > 0 {
        out += &format!("{hidden} fields at 0 are omitted; -v shows every field, and every element\n");
    }
    out
}

/// Shortens a structure and its substructures; returns the number of omitted fields.
pub fn shorten(node: &mut Node, zeros: bool) -> usize {
    let entries = std::mem::take(&mut node.entries);
    let mut hidden = 0;
    let mut done: Vec<String> = Vec::new();
    for entry in &entries {
        let Some((array, _)) = element(entry) else {
            // A tag, a name or bits without a field are printed even if zero.
            if zeros && entry.raw == Some(0) && entry.evidence.is_some() && plain(entry) {
                hidden += 1;
            } else {
                node.entries.push(entry.clone());
            }
            continue;
        };
        if done.iter().any(|name| name == array) {
            continue;
        }
        done.push(array.to_string());
        let all: Vec<(u32, &Entry)> = entries
            .iter()
            .filter_map(|e| element(e).filter(|(name, _)| *name == array).map(|(_, index)| (index, e)))
            .collect();
        if zeros && all.iter().all(|(_, e)| e.raw == Some(0)) {
            hidden += all.len();
        } else {
            fold(array, &all, &mut node.entries);
        }
    }
    hidden + node.nodes.iter_mut().map(|child| shorten(child, zeros)).sum::<usize>()
}

/// Returns true for a value printed as a number; a named zero has a meaning.
fn plain(entry: &Entry) -> bool {
    entry.value.starts_with(|c: char| c.is_ascii_digit())
}

/// Array and index of `CoeffEn[3]`.
fn element(entry: &Entry) -> Option<(&str, u32)> {
    let (array, index) = entry.name.split_once('[')?;
    Some((array, index.strip_suffix(']')?.parse().ok()?))
}

/// Runs of equal and of evenly spaced values, one line each.
fn fold(array: &str, all: &[(u32, &Entry)], out: &mut Vec<Entry>) {
    let mut at = 0;
    while at < all.len() {
        let (first, entry) = all[at];
        let follows = |i: usize| all[i].0 == all[i - 1].0 + 1;
        let equal = (at + 1..all.len()).take_while(|&i| follows(i) && all[i].1.value == entry.value).count();
        let step = |i: usize| Some(all[i].1.raw?.wrapping_sub(all[i - 1].1.raw?));
        let spaced = match at + 1 < all.len() {
            true => {
                (at + 1..all.len()).take_while(|&i| follows(i) && step(i).is_some() && step(i) == step(at + 1)).count()
            }
            false => 0,
        };
        let run = equal.max(if spaced >= 2 { spaced } else { 0 });
        let (last, end) = all[at + run];
        let mut line = entry.clone();
        if run > 0 {
            line.name = format!("{array}[{first}..{last}]");
        }
        if run > equal {
            line.value = format!("{} to {}", entry.value, end.value);
            line.note = String::new();
        }
        out.push(line);
        at += run + 1;
    }
}
