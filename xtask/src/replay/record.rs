//! Record of one case: items by name, each with a hash and, if it is short, its text; written as one JSON file per case.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// Longest text that is stored for readable differences.
const KEPT_BYTES: usize = 16 << 10;
/// Differing lines that a finding quotes.
const QUOTED_LINES: usize = 3;
/// Keys of JSON documents whose values depend on time and place of a command.
const UNSTABLE: &[&str] = &["path", "seconds", "elapsed_ms", "version"];

/// All items of one case.
#[derive(Debug, Default)]
pub struct Record {
    pub case: String,
    pub items: BTreeMap<String, Item>,
}

/// One output.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// True for wording, which is reviewed and not compared.
    wording: bool,
    hash: u128,
    text: Option<String>,
}

/// A difference between two records.
#[derive(Debug, PartialEq)]
pub enum Difference {
    Fact(String),
    /// Lines before and after.
    Wording(Vec<(String, String)>),
}

impl Record {
    /// Adds an item that must not change.
    pub fn fact(&mut self, name: &str, bytes: &[u8]) {
        self.items.insert(name.into(), Item::new(false, bytes));
    }

    /// Adds an item for people.
    pub fn wording(&mut self, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.items.insert(name.into(), Item::new(true, bytes));
        }
    }

    /// Adds a JSON document: strings with spaces are wording, everything else is fact.
    pub fn document(&mut self, name: &str, bytes: &[u8]) {
        let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else {
            self.wording(name, bytes);
            return;
        };
        let mut messages = Vec::new();
        separate(&mut value, &mut messages);
        self.fact(name, format!("{value:#}").as_bytes());
        self.wording(&format!("{name} messages"), messages.join("\n").as_bytes());
    }

    /// Writes it to the folder.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let path = folder.join(file_name(&self.case));
        let items: Map<String, Value> = self.items.iter().map(|(name, item)| (name.clone(), item.json())).collect();
        let text = format!("{}\n", Value::Object(items));
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads the file of [`Record::write`]; `None` if the case was not recorded.
    pub fn read(folder: &Path, case: &str) -> Result<Option<Record>, String> {
        let path = folder.join(file_name(case));
        if !path.exists() {
            return Ok(None);
        }
        let malformed = || format!("{}: not a record", path.display());
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let items: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| malformed())?;
        let items = items.into_iter().map(|(name, v)| Some((name, Item::from_json(&v)?))).collect::<Option<_>>();
        Ok(Some(Record { case: case.into(), items: items.ok_or_else(malformed)? }))
    }
}

impl Item {
    fn new(wording: bool, bytes: &[u8]) -> Item {
        let text = std::str::from_utf8(bytes).ok().filter(|t| t.len() <= KEPT_BYTES).map(String::from);
        Item { wording, hash: hash(bytes), text }
    }

    fn json(&self) -> Value {
        json!({ "wording": self.wording, "hash": format!("{:032x}", self.hash), "text": self.text })
    }

    fn from_json(value: &Value) -> Option<Item> {
        let hash = u128::from_str_radix(value["hash"].as_str()?, 16).ok()?;
        Some(Item { wording: value["wording"].as_bool()?, hash, text: value["text"].as_str().map(String::from) })
    }
}

/// Differences between two records of a case. Results of the linked engine are skipped if only one of two binaries has them.
pub fn differences(before: &Record, now: &Record) -> Vec<Difference> {
    let mut found = Vec::new();
    let linked = |name: &str| name.starts_with(super::engine::PREFIX);
    let has_linked = |r: &Record| r.items.keys().any(|name| linked(name));
    let both_linked = has_linked(before) == has_linked(now);
    let names: std::collections::BTreeSet<&String> = before.items.keys().chain(now.items.keys()).collect();
    for name in names.into_iter().filter(|n| both_linked || !linked(n)) {
        match (before.items.get(name), now.items.get(name)) {
            (Some(a), Some(b)) if a.hash == b.hash => {}
            (Some(a), Some(b)) if a.wording && b.wording => found.push(Difference::Wording(lines(a, b, usize::MAX))),
            (Some(a), Some(b)) => {
                let quoted = lines(a, b, QUOTED_LINES);
                let quoted: String = quoted.iter().map(|(a, b)| format!("\n    - {a}\n    + {b}")).collect();
                found.push(Difference::Fact(format!("{name} differs{quoted}")));
            }
            (Some(a), _) if a.wording => found.push(Difference::Wording(lines(a, &Item::new(true, b""), usize::MAX))),
            (_, Some(b)) if b.wording => found.push(Difference::Wording(lines(&Item::new(true, b""), b, usize::MAX))),
            (Some(_), _) => found.push(Difference::Fact(format!("{name} is missing now"))),
            (_, _) => found.push(Difference::Fact(format!("{name} is new"))),
        }
    }
    found
}

/// Lines in which the texts differ, by position, at most `most`.
fn lines(a: &Item, b: &Item, most: usize) -> Vec<(String, String)> {
    let (Some(a), Some(b)) = (&a.text, &b.text) else {
        return vec![(format!("{:032x}", a.hash), format!("{:032x}", b.hash))];
    };
    let (mut a, mut b) = (a.lines(), b.lines());
    let mut found = Vec::new();
    while found.len() < most {
        match (a.next(), b.next()) {
            (None, None) => break,
            (x, y) if x == y => {}
            (x, y) => found.push((x.unwrap_or_default().into(), y.unwrap_or_default().into())),
        }
    }
    found
}

/// Changes of wording, each once with the first case that shows it and the number of cases.
#[derive(Default)]
pub struct Wording(BTreeMap<(String, String), (String, usize)>);

impl Wording {
    pub fn add(&mut self, case: &str, changed: Vec<(String, String)>) {
        for pair in changed {
            self.0.entry(pair).or_insert_with(|| (case.into(), 0)).1 += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Wording {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for ((before, now), (case, count)) in &self.0 {
            writeln!(f, "wording, {count} times, first in {case}:\n    - {before}\n    + {now}")?;
        }
        Ok(())
    }
}

/// Separates messages from a document and removes values that depend on time and place.
fn separate(value: &mut Value, messages: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains(char::is_whitespace) => {
            messages.push(std::mem::replace(text, "(message)".into()));
        }
        Value::Array(all) => all.iter_mut().for_each(|v| separate(v, messages)),
        Value::Object(map) => {
            map.retain(|key, _| !UNSTABLE.contains(&key.as_str()));
            map.values_mut().for_each(|v| separate(v, messages));
        }
        _ => {}
    }
}

fn file_name(case: &str) -> String {
    format!("{}.json", case.replace('/', "__"))
}

/// FNV-1a of 128 bits.
fn hash(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    const BASIS: u128 = 0x6c62272e07bb014262b821756295c58d;
    bytes.iter().fold(BASIS, |hash, &b| (hash ^ u128::from(b)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(facts: &[(&str, &str)], wording: &[(&str, &str)]) -> Record {
        let mut record = Record { case: "a/b".into(), ..Record::default() };
        facts.iter().for_each(|(name, text)| record.fact(name, text.as_bytes()));
        wording.iter().for_each(|(name, text)| record.wording(name, text.as_bytes()));
        record
    }

    #[test]
    fn changed_facts_are_findings_and_changed_wording_is_not() {
        let before = record(&[("x", "1\n2"), ("gone", "")], &[("m", "old")]);
        let now = record(&[("x", "1\n3"), ("new", "")], &[("m", "better")]);
        let found = differences(&before, &now);
        let fact = |text: &str| Difference::Fact(text.into());
        assert_eq!(found[0], fact("gone is missing now"));
        assert_eq!(found[1], Difference::Wording(vec![("old".into(), "better".into())]));
        assert_eq!(found[2..], [fact("new is new"), fact("x differs\n    - 2\n    + 3")]);
        assert!(differences(&before, &before).is_empty());
    }

    #[test]
    fn results_of_the_linked_engine_are_compared_only_where_both_have_them() {
        let name = format!("{}fast", super::super::engine::PREFIX);
        let (with, without) = (record(&[(&name, "1"), ("x", "")], &[]), record(&[("x", "")], &[]));
        assert!(differences(&with, &without).is_empty());
        assert_eq!(differences(&with, &record(&[(&name, "2"), ("x", "")], &[])).len(), 1);
    }

    #[test]
    fn messages_and_paths_of_documents_are_no_facts() {
        let of = |text: &str| {
            let mut record = Record::default();
            record.document("d", text.as_bytes());
            record
        };
        let a = of(r#"{"path": "/a", "code": "ANE1", "message": "too large", "n": 1}"#);
        let b = of(r#"{"path": "/b", "code": "ANE1", "message": "too wide", "n": 1}"#);
        assert_eq!(a.items["d"], b.items["d"]);
        assert_ne!(a.items["d messages"], b.items["d messages"]);
        assert_ne!(a.items["d"], of(r#"{"code": "ANE2", "message": "too large", "n": 1}"#).items["d"]);
    }

    #[test]
    fn records_are_read_back() {
        let folder = super::super::process::Scratch::new().expect("a folder");
        let record = record(&[("x", "1\n2")], &[("m", "text")]);
        record.write(&folder.0).expect("written");
        let back = Record::read(&folder.0, "a/b").expect("read").expect("there");
        assert_eq!(back.items, record.items);
        assert!(Record::read(&folder.0, "other").expect("fine").is_none());
    }
}
