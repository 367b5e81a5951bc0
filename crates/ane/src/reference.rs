//! Reference data by name: rules, diagnostics, operations, validators, numbers of chips.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::machine::{self, Fact};
use crate::words::{self, Word};
use anemone_facts::chips::{CHIPS, Chip, HAL_ROWS, HalRow};
use anemone_facts::legal::{RULES, Rule, When};
use anemone_facts::lint::{LINTS, Lint};
use anemone_facts::native::{self, Elsewhere};
use anemone_facts::ops::{ATTESTED, OPS, OpRow, Reach, SEGMENTER, Sweep};
use anemone_facts::silicon::{self, GROUPS, Group, Named, SILICON, Silicon};
use anemone_facts::validators::{OTHERS, VALIDATORS, Validator};
use anemone_facts::{lint, ops, validators};
use serde_json::{Value, json};
use std::fmt::Write;

/// The chip of that name: silicon (`m1`, `a14`), product (`iphone12`, `iPhone13,2`) or compiler target (`h13`).
pub fn chip(name: &str) -> Result<&'static Chip> {
    named(name).map(|named| named.chip)
}

fn named(name: &str) -> Result<Named> {
    silicon::find(name).ok_or_else(|| unknown_chip(name))
}

fn unknown_chip(name: &str) -> Diagnostic {
    if let Some(why) = silicon::unreachable(name) {
        return Diagnostic::new(Code::Usage, format!("{name} is no target: {why}"));
    }
    if let Some(group) = silicon::group(name) {
        let members: Vec<&str> = group.members().iter().map(|s| s.name).collect();
        return Diagnostic::new(Code::Usage, format!("`{name}` names several chips, and one is needed"))
            .help(format!("one of: {}", members.join(", ")));
    }
    let near = nearest(name, silicon::names());
    Diagnostic::new(Code::Usage, format!("no chip is known as {name}")).help(format!(
        "{near}chips: a12 to a20, m1 to m6 with -pro, -max, -ultra; products: iphone12, iPhone13,2, ipad-pro-m4; groups: {}; \
         `ane targets` lists them",
        GROUPS.iter().map(|g| g.name).collect::<Vec<_>>().join(", ")
    ))
}

/// The chips of a list of names, each once, with the name to print: as the user wrote it, a product with its silicon, and for
/// a group one chip per compiler target.
pub fn chip_list(names: &[String]) -> Result<Vec<(String, &'static Chip)>> {
    let mut chips: Vec<(String, &'static Chip)> = Vec::new();
    let mut add = |label: String, chip: &'static Chip| {
        if !chips.iter().any(|(known, _)| *known == label) {
            chips.push((label, chip));
        }
    };
    for name in silicon::split(&names.join(",")) {
        if let Some(group) = silicon::group(&name) {
            for member in group.members() {
                add(member.name.to_string(), chip(member.target)?);
            }
            continue;
        }
        let found = named(&name)?;
        let label = match (found.product, found.silicon) {
            (Some(product), Some(silicon)) => format!("{} ({})", product.name, silicon.name),
            (None, Some(silicon)) => silicon.name.to_string(),
            _ => found.chip.target.to_string(),
        };
        add(label, found.chip);
    }
    Ok(chips)
}

/// Advice on an unknown name: the closest known one, as the start of a sentence; empty if none is close.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let name = name.to_ascii_lowercase();
    let score = |k: &str| strsim::jaro_winkler(&name, &k.to_ascii_lowercase());
    // The first of equally close names wins: operations come before layers of the same name.
    let nearer = |best: (f64, &'a str), k: &'a str| if score(k) > best.0 { (score(k), k) } else { best };
    let best = Some(known.into_iter().fold((0.0, ""), nearer));
    best.filter(|(score, _)| *score > 0.8).map_or(String::new(), |(_, k)| format!("did you mean `{k}`? "))
}

/// A topic of `ane explain`.
#[derive(Clone, Copy)]
pub enum Topic {
    /// A rule for the design of models.
    Lint(&'static Lint),
    /// A diagnostic code of this program.
    Code(Code),
    /// An operation.
    Op(&'static OpRow),
    /// A native layer with its exported validator.
    Layer(&'static Validator),
    /// A native layer without a validator.
    Native(&'static native::Native),
    /// A word in reports.
    Word(&'static Word),
    /// A number of chips.
    Hal(&'static HalRow),
    /// A chip, by target, silicon or product.
    Chip(Named),
    /// A set of chips.
    Group(&'static Group),
    /// A fact of formats or driver.
    Fact(&'static Fact),
    /// A name of a layer that is not a unit.
    Elsewhere(&'static Elsewhere),
}

/// Stem of a layer's name in its descriptor, constructor and parser.
fn layer_stem(word: &str) -> &str {
    let parts = [("_ANEC", "LayerDescInitialize"), ("ANEC", "LayerDesc"), ("ZinParse", "Unit")];
    let stem = |(before, behind)| word.strip_prefix(before).and_then(|rest: &str| rest.strip_suffix(behind));
    parts.into_iter().find_map(stem).unwrap_or(word)
}

/// All topics of a name: a code, an operation, a layer or its validator, a number of chips, a fact of formats or driver.
pub fn look_up(word: &str) -> Vec<Topic> {
    let mut found: Vec<Topic> = lint::by_code(word).map(Topic::Lint).into_iter().collect();
    found.extend(words::find(word).map(Topic::Word));
    found.extend(LINTS.iter().filter(|l| l.name.eq_ignore_ascii_case(word)).map(Topic::Lint));
    found.extend(Code::ALL.into_iter().filter(|c| c.text().eq_ignore_ascii_case(word)).map(Topic::Code));
    found.extend(ops::by_name(&word.to_ascii_lowercase()).map(Topic::Op));
    let stem = layer_stem(word);
    let layer = VALIDATORS.iter().find(|v| v.stem.eq_ignore_ascii_case(stem) || v.export() == word);
    let other = || crate::native::row(word).and_then(|row| VALIDATORS.iter().find(|v| v.stem == row.stem));
    let known = !found.is_empty();
    found.extend(layer.or_else(|| validators::by_name(word)).or_else(|| other().filter(|_| !known)).map(Topic::Layer));
    let hal = HAL_ROWS.iter().find(|r| r.name == word || r.offset.is_some_and(|o| format!("{o:#x}") == word));
    found.extend(hal.map(Topic::Hal));
    found.extend(silicon::find(word).map(Topic::Chip));
    found.extend(silicon::group(word).map(Topic::Group));
    // Codes of enumerations have common names: they are used only for words without other topics.
    let known = !found.is_empty();
    found.extend(machine::find(word).into_iter().filter(|fact| !known || fact.kind != machine::CODE).map(Topic::Fact));
    found.extend(native::elsewhere(word).map(Topic::Elsewhere));
    if found.is_empty() {
        found.extend(crate::native::row(word).map(Topic::Native));
    }
    found
}

/// Every name that [`look_up`] finds.
pub fn names() -> impl Iterator<Item = &'static str> {
    let lints = LINTS.iter().flat_map(|l| [l.code, l.name]);
    let codes = Code::ALL.into_iter().map(Code::text);
    let layers = VALIDATORS.iter().map(|v| v.stem);
    let words = words::WORDS.iter().flat_map(|w| std::iter::once(&w.word).chain(w.also)).copied();
    lints
        .chain(codes)
        .chain(words)
        .chain(OPS.iter().map(|o| o.name))
        .chain(layers)
        .chain(HAL_ROWS.iter().map(|r| r.name))
        .chain(silicon::names())
        .chain(machine::names())
}

/// A reach in one word.
pub fn reach_word(reach: Reach) -> &'static str {
    match reach {
        Reach::Native => "native",
        Reach::Bridge => "bridge",
        Reach::Gated => "gated",
        Reach::None => "none",
    }
}

/// A reach in the words of the report.
fn reach_text(reach: Reach) -> &'static str {
    match reach {
        Reach::Native => "supported",
        Reach::Bridge => "only decomposed, wrapped or in software",
        Reach::Gated => "not supported; later chips do",
        Reach::None => "not supported on any chip",
    }
}

/// Chips for the columns of an operation's reach.
pub const COLUMNS: [&str; 4] = ["m1", "m2", "m3", "m4, m5"];

impl Topic {
    /// As text.
    pub fn text(self) -> String {
        match self {
            Topic::Lint(row) => lint_text(row),
            Topic::Code(code) => {
                let (meaning, fix) = code.meaning();
                format!("{}: {meaning}\n  fix: {fix}\n  exit code {}\n", code.text(), code.exit())
            }
            Topic::Op(row) => op_text(row),
            Topic::Layer(row) => layer_text(row),
            Topic::Native(row) => crate::native::text(row),
            Topic::Word(word) => format!("{}: {}\n", word.word, word.meaning),
            Topic::Fact(fact) => fact.text(),
            Topic::Elsewhere(row) => crate::native::elsewhere_text(row),
            Topic::Chip(named) => chip_text(named),
            Topic::Group(group) => {
                let members: Vec<&str> = group.members().iter().map(|s| s.name).collect();
                format!("{}: {}\n  {}\n", group.name, group.meaning, members.join(", "))
            }
            Topic::Hal(row) => {
                let offset = row.offset.map_or(String::new(), |o| format!(", offset {o:#x}"));
                let mut text = format!("{}: {} ({}{offset})\n", row.name, row.meaning, row.basis.phrase());
                for chip in CHIPS {
                    let value = (row.get)(&chip.hal).map_or("unknown".to_string(), |v| v.to_string());
                    let _ = writeln!(text, "  {:5} {value} {}", chip.target, row.unit);
                }
                text
            }
        }
    }

    /// As JSON.
    pub fn json(self) -> Value {
        match self {
            Topic::Lint(row) => json!({
                "kind": "rule", "code": row.code, "diagnostic": row.diagnostic(), "name": row.name,
                "severity": severity(row), "condition": row.condition, "why": row.why, "fix": row.fix, "chips": row.chips,
                "evidence": row.basis.name(), "source": row.source, "example": row.example,
            }),
            Topic::Code(code) => {
                let (meaning, fix) = code.meaning();
                json!({ "kind": "diagnostic", "code": code.text(), "meaning": meaning, "fix": fix, "exit": code.exit() })
            }
            Topic::Op(row) => op_json(row),
            Topic::Layer(row) => layer_json(row),
            Topic::Native(row) => crate::native::json(row),
            Topic::Fact(fact) => fact.json(),
            Topic::Elsewhere(row) => crate::native::elsewhere_json(row),
            Topic::Word(word) => {
                json!({ "kind": "word", "name": word.word, "also": word.also, "meaning": word.meaning })
            }
            Topic::Chip(named) => json!({
                "kind": "chip", "target": named.chip.target, "silicon": named.silicon.map(|s| s.title),
                "product": named.product.map(|p| p.name), "cpu_subtype": named.chip.cpu_subtype,
                "family": named.chip.family, "evidence": named.silicon.map(|s| s.basis.name()),
            }),
            Topic::Group(group) => json!({
                "kind": "group", "name": group.name, "chips": group.members().iter().map(|s| s.name).collect::<Vec<_>>(),
            }),
            Topic::Hal(row) => json!({
                "kind": "number", "name": row.name, "offset": row.offset, "unit": row.unit, "meaning": row.meaning,
                "evidence": row.basis.name(),
                "values": CHIPS.iter().map(|c| (c.target.to_string(), json!((row.get)(&c.hal)))).collect::<serde_json::Map<_, _>>(),
            }),
        }
    }
}

/// A chip in a few lines: description, products with the same engine, and evidence.
fn chip_text(named: Named) -> String {
    let chip = named.chip;
    let title = match (named.product, named.silicon) {
        (Some(product), Some(silicon)) => format!("{}: {}", product.name, silicon.title),
        (None, Some(silicon)) => silicon.title.to_string(),
        _ => chip.target.to_string(),
    };
    let mut text = format!("{title}: compiler target {}, {}\n", chip.target, chip.describe());
    if let Some(subtype) = chip.cpu_subtype {
        let same = SILICON.iter().filter(|s| chips_subtype(s) == Some(subtype)).map(|s| s.title);
        let _ = writeln!(text, "  generation  CPU subtype {subtype}: {}", same.collect::<Vec<_>>().join(", "));
    }
    if let Some(silicon) = named.silicon {
        let _ = writeln!(
            text,
            "  evidence    {}: {} (docs/evidence.md, silicon)",
            silicon.basis.phrase(),
            silicon.evidence
        );
    }
    let _ = writeln!(text, "  family      {} in the book's tables, which is no name of silicon", chip.family);
    if !chip.note.is_empty() {
        let _ = writeln!(text, "  note        {}", chip.note);
    }
    text += if chip.layout.is_some() { "  compiles and runs here\n" } else { "  limits only: `ane check`\n" };
    text
}

fn chips_subtype(silicon: &Silicon) -> Option<u32> {
    anemone_facts::chips::by_target(silicon.target).and_then(|c| c.cpu_subtype)
}

/// Families of the book by their silicon.
fn families(names: &[&str]) -> String {
    let told: Vec<String> = names.iter().map(|f| silicon::of_family(f)).collect();
    if told.is_empty() { "every chip".into() } else { told.join(", ") }
}

/// Severity of a rule, in a word or two.
pub fn severity(row: &Lint) -> &'static str {
    use lint::Severity::{Build, Rejected, Slow, Wrong};
    match row.severity() {
        Rejected => "rejected",
        Wrong => "silently wrong",
        Slow => "slow",
        Build => "build service",
    }
}

fn lint_text(row: &Lint) -> String {
    let mut text = format!("{} {} ({}; also {})\n", row.code, row.name, severity(row), row.diagnostic());
    let mut line = |key: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {key:9} {value}");
        }
    };
    line("when", row.condition);
    line("why", row.why);
    line("example", row.example);
    line("fix", row.fix);
    // The advice of a check is the row of each limit, for the layer or the quantity that it limits.
    let rows = || RULES.iter().filter(|r| r.lint == row.code);
    let each = |text: fn(&Rule) -> &'static str| {
        let limited = |r: &Rule| if r.layer.is_empty() { r.matches.text() } else { r.layer.to_string() };
        let told = rows().filter(|r| !text(r).is_empty()).map(|r| format!("{}: {}", limited(r), text(r)));
        let mut all: Vec<String> = told.collect();
        all.dedup();
        all
    };
    each(|r| r.fix).iter().for_each(|fix| line("fix", fix));
    line("seen on", row.chips);
    line("evidence", &format!("{} ({})", row.basis.phrase(), row.source));
    each(|r| r.apple).iter().for_each(|text| line("apple", text));
    text
}

fn op_text(row: &OpRow) -> String {
    let mut text = format!("{} ({})\n", row.name, row.group);
    for (column, reach) in COLUMNS.iter().zip(row.reach) {
        let _ = writeln!(text, "  {column:7} {}", reach_text(reach));
    }
    if let Some(floor) = row.floor {
        let _ = writeln!(text, "  tier     {floor} and later on the framework route");
    }
    if !row.layers.is_empty() {
        let exports: Vec<String> =
            row.layers.iter().filter_map(|l| validators::by_name(l)).map(Validator::export).collect();
        let _ = writeln!(text, "  layers   {} ({})", row.layers.join(", "), exports.join(", "));
    }
    if !row.note.is_empty() {
        let _ = writeln!(text, "  note     {}", row.note);
    }
    if !row.instead.is_empty() {
        let _ = writeln!(text, "  instead  {}", row.instead);
    }
    for attested in ATTESTED.iter().filter(|a| a.ops.contains(&row.name)) {
        let on = families(attested.families);
        let _ = writeln!(text, "  refused  {} on {on}: {}", attested.layer, attested.reason);
    }
    for answer in SEGMENTER.iter().filter(|s| s.op == row.name) {
        let says = if answer.text.is_empty() { "accepted".into() } else { answer.text.replace("%s", row.name) };
        let _ = writeln!(text, "  segmenter {says} ({})", answer.basis.phrase());
    }
    let alone = match row.sweep {
        Sweep::Correct => "right result",
        Sweep::Runs => "runs; result not compared",
        Sweep::Walled => "the compiler stops",
        Sweep::Missing => "not implemented",
        Sweep::Untried => "not tried",
    };
    let _ = writeln!(text, "  alone    {alone} (the only operation of a program, on an M5)");
    text
}

/// An operation as JSON.
pub fn op_json(row: &OpRow) -> Value {
    json!({
        "kind": "operation", "name": row.name, "group": row.group,
        "reach": { "h13": reach_word(row.reach[0]), "h14": reach_word(row.reach[1]), "h15": reach_word(row.reach[2]),
                   "h16": reach_word(row.reach[3]), "h17s": reach_word(row.reach[3]) },
        "floor": row.floor, "layers": row.layers, "note": row.note, "instead": row.instead,
        "sweep": format!("{:?}", row.sweep).to_lowercase(),
    })
}

fn layer_text(row: &Validator) -> String {
    let mut text = format!("{}: layer {}, {}\n", row.export(), row.stem, row.operands());
    let _ = writeln!(text, "  accepts  {}", row.envelope);
    if !row.descriptor {
        let _ = writeln!(text, "  it has no descriptor: a computed or umbrella operation");
    }
    if let Some(byte) = row.capability {
        let _ = writeln!(text, "  reads the capability {byte} (`ane targets --field {byte}`)");
    }
    for rule in RULES.iter().filter(|r| r.layer == row.stem) {
        let _ = writeln!(text, "  {} {} ({}): {}", rule.lint, rule.stage.name(), rule.basis.name(), rule_text(rule));
    }
    for attested in ATTESTED.iter().filter(|a| a.layer == row.stem) {
        let on = families(attested.families);
        let _ = writeln!(text, "  does not compile on {on}: {}", attested.reason);
    }
    let ops: Vec<&str> = OPS.iter().filter(|o| o.layers.contains(&row.stem)).map(|o| o.name).collect();
    if !ops.is_empty() {
        let _ = writeln!(text, "  used for {}", ops.join(", "));
    }
    text
}

/// A limit in one line: the condition, and Apple's text if there is one, with dots for its numbers.
pub fn rule_text(rule: &Rule) -> String {
    let apple = match rule.apple {
        "" => String::new(),
        text => format!("; Apple's text: \"{}\"", text.replace("%zd", "...").replace("%d", "...").replace("%s", "...")),
    };
    let cases = rule.when.iter().map(|when| match when {
        When::Family(names) => format!("on {}", families(names)),
        when => when.text(),
    });
    let cases: Vec<String> = cases.collect();
    let cases = if cases.is_empty() { String::new() } else { format!(" ({})", cases.join("; ")) };
    format!("{}{cases}{apple}", rule.matches.text())
}

fn layer_json(row: &Validator) -> Value {
    let rules = RULES.iter().filter(|r| r.layer == row.stem);
    let rules: Vec<Value> = rules
        .map(|r| {
            json!({ "rule": r.lint, "stage": r.stage.name(), "holds": r.matches.text(), "apple": r.apple, "fix": r.fix, "evidence": r.basis.name(),
                    "source": r.source })
        })
        .collect();
    json!({
        "kind": "layer", "name": row.stem, "export": row.export(), "operands": [row.least, row.most],
        "descriptor": row.descriptor, "capability": row.capability, "envelope": row.envelope, "rules": rules,
    })
}

/// The five exports that belong to no layer, for listings.
pub fn other_exports() -> Vec<(&'static str, &'static str)> {
    OTHERS.iter().map(|o| (o.export, o.role)).collect()
}
