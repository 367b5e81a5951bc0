//! Facts of formats and driver by word or number: selectors, structures, codes, entitlements, commands, properties, magics, load
//! commands, segments, tables of the dispatch descriptor, registers of the descriptor image.

mod driver;
mod formats;
mod terms;
mod words;

use anemone_facts::lut::CUSTOM;
use anemone_facts::native::{NATIVES, Native};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// A fact.
#[derive(Clone, Debug, Default)]
pub struct Fact {
    /// Kind of fact.
    pub kind: &'static str,
    /// Name.
    pub name: String,
    /// Other names.
    pub also: Vec<String>,
    /// Numbers that identify it.
    pub numbers: Vec<u64>,
    /// Explanation, one sentence per line.
    pub lines: Vec<String>,
    /// Letter of the evidence.
    pub evidence: &'static str,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

impl Fact {
    /// As text.
    pub fn text(&self) -> String {
        let mut text = format!("{} ({})\n", self.name, self.kind);
        for line in &self.lines {
            text += &format!("  {line}\n");
        }
        text + &format!("  evidence: {}, source {} in docs/evidence.md\n", self.evidence, self.source)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "kind": self.kind, "name": self.name, "also": self.also, "numbers": self.numbers, "lines": self.lines,
            "evidence": self.evidence, "source": self.source,
        })
    }
}

/// Kind of the facts that are codes of enumerations.
pub const CODE: &str = "code of an enumeration";

/// Facts of a name or number.
pub fn find(word: &str) -> Vec<&'static Fact> {
    let plain = |name: &str| name.replace(' ', "-").to_ascii_lowercase();
    let asked = plain(word);
    let same = |name: &String| plain(name) == asked;
    let number = number(word);
    let counted = |f: &Fact| number.is_some_and(|n| f.numbers.contains(&n));
    all().iter().filter(|f| same(&f.name) || f.also.iter().any(same) || counted(f)).collect()
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().iter().flat_map(|f| std::iter::once(&f.name).chain(&f.also)).map(String::as_str)
}

/// Parses a number: hexadecimal after `0x`, else decimal.
fn number(text: &str) -> Option<u64> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

/// Parameters of native layers: a fact for each name, with a line for each layer that has it.
fn params(facts: &mut Vec<Fact>) {
    let names: BTreeSet<&str> = NATIVES.iter().flat_map(|layer| layer.params.iter().map(|p| p.name)).collect();
    for name in names {
        let of = |layer: &Native| -> Option<String> {
            let param = layer.params.iter().find(|p| p.name == name)?;
            let default =
                if param.default.is_empty() { "required".into() } else { format!("default {}", param.default) };
            Some(format!("{}: {:?}; {default}", layer.tag, param.ty))
        };
        facts.push(Fact {
            kind: "parameter of native layers",
            name: name.to_string(),
            lines: NATIVES.iter().filter_map(of).collect(),
            evidence: "C",
            source: "native-layers",
            ..Fact::default()
        });
    }
    facts.push(Fact {
        kind: "operation",
        name: CUSTOM.opcode.into(),
        also: vec!["CustomLUT".into(), "custom-lut".into()],
        lines: vec![CUSTOM.reason.into(), "`ane lut KNOTS.npy --compose` makes the function of layers".into()],
        evidence: "C",
        source: CUSTOM.source,
        ..Fact::default()
    });
}

/// The table, built once.
fn all() -> &'static [Fact] {
    static ALL: OnceLock<Vec<Fact>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut facts = Vec::new();
        driver::clients(&mut facts);
        driver::structures(&mut facts);
        driver::rest_of_driver(&mut facts);
        formats::descriptor(&mut facts);
        formats::container(&mut facts);
        formats::dialects(&mut facts);
        formats::windows(&mut facts);
        formats::elements(&mut facts);
        formats::image(&mut facts);
        words::words(&mut facts);
        terms::terms(&mut facts);
        params(&mut facts);
        facts
    })
}
