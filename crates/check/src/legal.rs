//! Limits of a layer on a chip: one evaluation for the placement dry run, the exported validators and a legalizer.

use super::layer::{Layer, Tensor};
use anemone_facts::Basis;
use anemone_facts::chips::Chip;
use anemone_facts::hal;
use anemone_facts::legal::{Bound, Fill, MatchParams, Quantity, RANGES, RULES, Rule, Stage, When};

/// Route on which an operation reaches the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Directly: the engine's compiler gets the network.
    Direct,
    /// The framework's segmenter decides for each operation.
    Framework,
}

/// Result of matching a rule's parameters against a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchStatus {
    /// The rule holds, or does not apply.
    Match,
    /// The rule does not hold.
    Mismatch {
        /// The value found.
        found: i64,
        /// Least value allowed.
        least: Option<i64>,
        /// Greatest value allowed.
        most: Option<i64>,
    },
    /// The chip's number is unknown.
    Unknown(&'static str),
}

/// Refusal of a layer or an operation, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Code of the lint rule that explains it.
    pub code: &'static str,
    /// Value found and value allowed, in one line. It names no chip, so that chips that refuse for the same cause share it.
    pub message: String,
    /// Value found, in words, without the limit, which may differ between chips.
    pub cause: String,
    /// Name of the quantity.
    pub quantity: &'static str,
    /// The value found.
    pub found: String,
    /// The limit.
    pub limit: String,
    /// Apple's text, with its placeholders filled.
    pub apple: Option<String>,
    /// Stage that refuses, such as `validator`.
    pub stage: &'static str,
    /// Evidence for the refusal.
    pub basis: Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
    /// Suggested fix.
    pub fix: String,
}

/// Verdict of the rules on one layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Legality {
    /// Every rule that does not hold, in the order of the rows.
    pub refusals: Vec<Refusal>,
    /// Numbers of the chip that a rule needs and no source gives: conclusions from them are guesses.
    pub unknown: Vec<&'static str>,
}

/// Matches all rules of the layer's kind, and those for all layers, on a chip.
pub fn check(layer: &Layer, chip: &Chip, route: Route) -> Legality {
    let mut legality = Legality::default();
    for tensor in layer.bottoms.iter().chain(&layer.tops) {
        let ranged = ranged(layer, tensor);
        for rule in RANGES {
            note(&mut legality, rule, &ranged, chip, route);
        }
    }
    for rule in RULES.iter().filter(|r| r.layer.is_empty() || r.layer == layer.kind) {
        note(&mut legality, rule, layer, chip, route);
    }
    legality.refusals.dedup();
    legality
}

/// The layer with the extents of one of its tensors as its numbers.
fn ranged(layer: &Layer, tensor: &Tensor) -> Layer {
    let mut only = Layer { word: layer.word.clone(), ..Layer::new(&layer.kind, &layer.name) };
    let extents = [
        (Quantity::Batch, tensor.batch),
        (Quantity::Depth, tensor.depth),
        (Quantity::Channels, tensor.channels),
        (Quantity::Height, tensor.height),
        (Quantity::Width, tensor.width),
    ];
    only.values = extents.iter().map(|&(q, n)| (q, n as i64)).collect();
    only
}

fn note(legality: &mut Legality, rule: &'static Rule, layer: &Layer, chip: &Chip, route: Route) {
    match matches(rule, layer, chip, route) {
        MatchStatus::Match => {}
        MatchStatus::Unknown(name) if legality.unknown.contains(&name) => {}
        MatchStatus::Unknown(name) => legality.unknown.push(name),
        status => legality.refusals.push(refusal(rule, status, layer, chip, route)),
    }
}

/// Matches one rule.
pub fn matches(rule: &Rule, layer: &Layer, chip: &Chip, route: Route) -> MatchStatus {
    let holds = |when: &When| match *when {
        When::Has(q) => layer.get(q).is_some_and(|v| v != 0),
        When::Lacks(q) => layer.get(q).is_none_or(|v| v == 0),
        When::Family(families) => families.contains(&chip.family),
        When::Without(name) => number(chip, name) == Some(0),
        When::Above(q, limit) => layer.get(q).is_some_and(|v| v > limit),
        When::AtMost(q, limit) => layer.get(q).is_some_and(|v| v <= limit),
        When::Direct => route == Route::Direct,
    };
    if !rule.when.iter().all(holds) {
        return MatchStatus::Match;
    }
    let mismatch = |found, least, most| MatchStatus::Mismatch { found, least, most };
    let verdict = |good: bool, found| if good { MatchStatus::Match } else { mismatch(found, None, None) };
    match rule.matches {
        MatchParams::Between(q, least, most) => {
            let Some(found) = layer.get(q) else { return MatchStatus::Match };
            let (least, most) = match (bound(least, layer, chip), bound(most, layer, chip)) {
                (Ok(least), Ok(most)) => (least, most),
                (Err(name), _) | (_, Err(name)) => return MatchStatus::Unknown(name),
            };
            let inside = least.is_none_or(|l| found >= l) && most.is_none_or(|m| found <= m);
            if inside { MatchStatus::Match } else { mismatch(found, least, most) }
        }
        MatchParams::Divisible(q, by) => match (layer.get(q), layer.get(by)) {
            (Some(found), Some(by)) => verdict(by > 0 && found % by == 0, found),
            _ => MatchStatus::Match,
        },
        MatchParams::OneOf(q, allowed) => layer.get(q).map_or(MatchStatus::Match, |v| verdict(allowed.contains(&v), v)),
        MatchParams::StrideFactors(q) => layer.get(q).map_or(MatchStatus::Match, |v| verdict(stride_factors(v), v)),
        MatchParams::Capability(name) => match number(chip, name) {
            Some(0) => mismatch(0, Some(1), None),
            Some(_) => MatchStatus::Match,
            None => MatchStatus::Unknown(name),
        },
        MatchParams::Floor(least) => match chip.floor {
            Some(floor) if floor < least => mismatch(i64::from(floor), Some(i64::from(least)), None),
            Some(_) => MatchStatus::Match,
            None => MatchStatus::Unknown("legality family"),
        },
        MatchParams::Never(q) => layer.get(q).map_or(MatchStatus::Match, |found| mismatch(found, None, None)),
    }
}

/// Returns true if a factor is positive and has no prime factors but 2 and 3: a product of the strides 2, 3, 4 and 8.
pub fn stride_factors(factor: i64) -> bool {
    let mut left = factor.max(0);
    for prime in [2, 3] {
        while left > 1 && left % prime == 0 {
            left /= prime;
        }
    }
    left == 1
}

/// A number of the chip by name; capability bytes are numbers too.
pub fn number(chip: &Chip, name: &str) -> Option<u64> {
    hal::row(name).and_then(|row| (row.get)(&chip.hal))
}

/// One side of a comparison: `None` if the layer has no such quantity, an error with the name of a number that is unknown.
fn bound(bound: Bound, layer: &Layer, chip: &Chip) -> Result<Option<i64>, &'static str> {
    match bound {
        Bound::Number(n) => Ok(Some(n)),
        Bound::Of(q) => Ok(layer.get(q)),
        Bound::Hal(name) => match number(chip, name) {
            Some(n) => Ok(Some(i64::try_from(n).unwrap_or(i64::MAX))),
            None => Err(name),
        },
    }
}

pub(super) fn refusal(rule: &'static Rule, status: MatchStatus, layer: &Layer, chip: &Chip, route: Route) -> Refusal {
    let MatchStatus::Mismatch { found, least, most } = status else { unreachable!("only mismatches are told") };
    let (quantity, found_text, limit) = match rule.matches {
        MatchParams::Capability(byte) => (byte, "absent".to_string(), capability(byte)),
        MatchParams::Floor(_) => ("legality family", found.to_string(), format!("at least {}", least.unwrap_or(0))),
        MatchParams::Divisible(q, by) => {
            let by_value = layer.get(by).unwrap_or(0);
            (q.name(), found.to_string(), format!("divisible by {} ({by_value})", by.name()))
        }
        MatchParams::OneOf(q, allowed) => (q.name(), found.to_string(), format!("one of {allowed:?}")),
        MatchParams::StrideFactors(q) => (q.name(), found.to_string(), "a product of 2, 3, 4 and 8".to_string()),
        MatchParams::Never(q) => (q.name(), found.to_string(), "not taken".to_string()),
        MatchParams::Between(q, ..) => {
            let limit = match (least, most) {
                (Some(l), Some(m)) if l == m => format!("{l}"),
                (Some(1..), Some(0)) => "none".to_string(),
                (Some(l), Some(m)) if l > m => format!("at least {l}"),
                (Some(l), Some(m)) => format!("{l} to {m}"),
                (Some(l), None) => format!("at least {l}"),
                (None, Some(m)) => format!("at most {m}"),
                (None, None) => String::new(),
            };
            (q.name(), found.to_string(), limit)
        }
    };
    let stage = rule.stage.name();
    // Some capabilities are stated as a largest extent of zero.
    let lacking =
        matches!(rule.matches, MatchParams::Between(_, _, Bound::Hal(_))) && least > Some(0) && most == Some(0);
    let (cause, message) = match rule.matches {
        MatchParams::Capability(_) => (None, format!("{} needs {limit}, which the chip lacks", layer.kind)),
        MatchParams::Floor(_) => (None, format!("{} needs a later generation of the engine", layer.kind)),
        MatchParams::Never(Quantity::Operands) => (None, format!("{} fails in {stage}", layer.kind)),
        MatchParams::Never(Quantity::K) => (None, format!("k = {found} fails in {stage}")),
        MatchParams::Never(q) => (None, format!("{} is not supported by {}", q.name(), layer.kind)),
        _ if lacking => {
            (None, format!("{} is not supported on this chip: its greatest {quantity} for it is 0", layer.kind))
        }
        _ => (Some(format!("{quantity} is {found_text}")), format!("{quantity} is {found_text}, supported: {limit}")),
    };
    let text = if route == Route::Framework && !rule.segmenter.is_empty() { rule.segmenter } else { rule.apple };
    let apple = (!text.is_empty()).then(|| fill(text, rule.fills, (found, least, most), layer, chip));
    Refusal {
        code: rule.lint,
        cause: cause.unwrap_or_else(|| message.clone()),
        message,
        quantity,
        found: found_text,
        limit,
        apple,
        stage,
        basis: rule.basis,
        source: rule.source,
        fix: if lacking { "do without it, or target a later chip".to_string() } else { rule.fix.to_string() },
    }
}

/// Name and meaning of a capability byte, from its row.
fn capability(name: &str) -> String {
    let meaning = hal::row(name).map_or(name, |row| row.meaning.strip_prefix("capability: ").unwrap_or(row.meaning));
    let meaning = meaning.split([':', ';', '(']).next().unwrap_or(meaning).trim();
    format!("the capability `{name}` ({meaning})")
}

/// Fills the placeholders of Apple's text in order; excess placeholders stay.
fn fill(
    text: &str,
    fills: &[Fill],
    (found, least, most): (i64, Option<i64>, Option<i64>),
    layer: &Layer,
    chip: &Chip,
) -> String {
    let shown = |n: Option<i64>| n.map_or("?".to_string(), |n| n.to_string());
    let mut fills = fills.iter().map(|fill| match *fill {
        Fill::Found => found.to_string(),
        Fill::Least => shown(least),
        Fill::Most => shown(most),
        Fill::Word(word) => word.to_string(),
        Fill::Of(Quantity::Neuron) if !layer.word.is_empty() => layer.word.clone(),
        Fill::Of(q) => shown(layer.get(q)),
        Fill::Hal(name) => shown(number(chip, name).map(|n| n as i64)),
    });
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let place = ["%zd", "%d", "%s"].into_iter().find(|p| rest[at..].starts_with(p));
        match place.and_then(|place| Some((place, fills.next()?))) {
            Some((place, filling)) => {
                out.push_str(&rest[..at]);
                out.push_str(&filling);
                rest = &rest[at + place.len()..];
            }
            None => {
                out.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns true for stages that exported validators run; only their refusals are visible to a dry run.
pub fn seen_by_dry_run(stage: &str) -> bool {
    [Stage::Validator.name(), Stage::Network.name(), Stage::Parser.name()].contains(&stage)
}
