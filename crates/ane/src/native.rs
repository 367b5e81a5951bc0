//! Native layers by name: their texts in `ane ops`, and their templates as netplists.

use crate::diagnostic::{Code, Diagnostic, Result};
pub use anemone_compile::native::templates::{first_chip, network, type_text};
use anemone_facts::hal;
use anemone_facts::legal::{MatchParams, Quantity, RULES, Rule};
use anemone_facts::native::{Carrier, Elsewhere, Native as Row, by_name, by_tag};
use anemone_facts::validators;
use anemone_net::native::{MIL_PREFIX, named};
use anemone_net::{Error, Net, OpKind, netplist};
use serde_json::json;
use std::fmt::Write;

/// The template of a layer as a netplist, and its weight file `net.weights`, which is empty if it has none.
pub fn template(row: &Row) -> Option<(Vec<u8>, Vec<u8>)> {
    netplist::write(&network(row)?).ok()
}

/// A template with another name of its weight file.
pub fn with_weights(plist: Vec<u8>, name: &str) -> Vec<u8> {
    let escaped = name.replace('&', "&amp;").replace('<', "&lt;");
    let text = String::from_utf8_lossy(&plist).into_owned();
    text.replace(&format!("<string>{}</string>", netplist::WEIGHTS), &format!("<string>{escaped}</string>"))
        .into_bytes()
}

/// The row of a layer by any of its names: `MatrixMult`, `MatrixMultiplication`, `matmul`, `anec.matmul`.
pub fn row(name: &str) -> Option<&'static Row> {
    by_name(name.strip_prefix(MIL_PREFIX).unwrap_or(name)).or_else(|| by_tag(named(name)?.tag))
}

/// Reason why no unit of this name can be compiled, for any chip, and the capability that its validator reads; `None` for layers that can
/// be compiled, and for other names.
pub fn unreachable(name: &str) -> Option<String> {
    let row = row(name).filter(|row| matches!(row.carrier, Carrier::Nothing))?;
    let capability = validators::by_name(row.stem).and_then(|validator| hal::row(validator.capability?));
    let needs = capability.map_or(String::new(), |field| {
        let offset = field.offset.map_or(String::new(), |offset| format!(" (offset {offset:#x} of the HAL structure)"));
        format!(
            "; its validator reads the capability `{}`{offset}, which `ane targets --field` lists by chip",
            field.name
        )
    });
    Some(format!("{} cannot be compiled here: {}{needs}", row.stem, row.note))
}

/// Requirements of the exported validator for the unit in an error of a netplist or of MIL text, with Apple's text for a wrong
/// number of operands; `None` for errors without a unit, and units without a validator.
pub fn contract(error: &Error) -> Option<String> {
    let Error::InOp { op, source } = error else { return None };
    let (kind, operands) = match source.as_ref() {
        Error::Arity { kind, .. } => (kind.as_str(), true),
        Error::Rank { kind, .. }
        | Error::Extent { kind, .. }
        | Error::ElementType { kind, .. }
        | Error::Attribute { kind, .. }
        | Error::Broadcast { kind, .. } => (*kind, false),
        _ => return None,
    };
    // MIL text has native layers by their tags: "SDPA `y`".
    let unit =
        |row: &&Row| op.starts_with("unit ") || op.strip_prefix(row.tag).is_some_and(|rest| rest.starts_with(" `"));
    let validator = validators::by_name(row(kind).filter(unit)?.stem)?;
    let about = |rule: &&Rule| {
        rule.layer == validator.stem
            && !rule.apple.is_empty()
            && matches!(rule.matches, MatchParams::Between(Quantity::Operands, ..))
    };
    let said = RULES.iter().find(about).filter(|_| operands);
    let said = said.map_or(String::new(), |rule| format!("; Apple's text: \"{}\"", rule.apple));
    Some(format!("{} takes: {}{said}", validator.export(), validator.envelope))
}

/// Warnings for attention layers without `SubtractMax`, the descriptor's default.
pub fn unsubtracted(net: &Net) -> impl Iterator<Item = String> + use<'_> {
    net.ops.iter().filter_map(|op| match &op.kind {
        OpKind::Native(native) if native.schema().tag == "SDPA" && !native.flag("SubtractMax") => Some(format!(
            "W17: `{}`: SubtractMax is not set: scores above 11 overflow fp16, and the softmax is wrong",
            op.name
        )),
        _ => None,
    })
}

/// Largest `n` such that fp16 represents all integers up to `n`.
const LAST_WHOLE: usize = 2048;

/// Refuses layers whose results are indices that fp16 does not represent: a rounded index selects another element, or none.
pub fn exact_indices(net: &Net) -> Result<()> {
    let refused = net.ops.iter().find_map(|op| {
        let OpKind::Native(native) = &op.kind else { return None };
        let extent = |axis: usize| net.value(*op.inputs.first()?).ty.shape.get(axis).copied();
        let positions = match native.schema().tag {
            "Sort" | "TopK" if native.flag("Indices") => extent(native.axis("SortDimension"))?,
            "GlobalArgMinMax" => extent(native.axis("Dimension"))?,
            "ArgMinMax" if native.word("Mode").starts_with("Channel") => extent(1)?,
            "ArgMinMax" => native.size("KernelWidth").saturating_mul(native.size("KernelHeight")),
            _ => return None,
        };
        (positions > LAST_WHOLE + 1).then_some((op, native.schema().tag, positions))
    });
    let Some((op, tag, positions)) = refused else { return Ok(()) };
    let message = format!(
        "inexact-index: `{}`: {tag} chooses among {positions} positions, and its indices are fp16, which has every whole \
         number up to {LAST_WHOLE} only",
        op.name
    );
    let output = op.outputs.first().map_or(op.name.as_str(), |&id| net.value(id).name.as_str());
    let help = format!(
        "divide the axis into parts of at most {LAST_WHOLE}, or use the operation of MIL, whose indices are integers"
    );
    Err(Diagnostic::new(Code::ChipLimit, message).help(help).about(tag, output))
}

/// As [`elsewhere_text`], as JSON.
pub fn elsewhere_json(row: &Elsewhere) -> serde_json::Value {
    json!({
        "kind": "elsewhere", "name": row.name, "also": row.also, "place": row.place, "evidence": row.basis.name(),
        "source": row.source,
    })
}

/// Text for a name that no unit of a netplist has.
pub fn elsewhere_text(row: &Elsewhere) -> String {
    let known = format!("{} ({})", row.basis.phrase(), row.source);
    format!("{} ({}): not a unit of a netplist: {}\n  evidence:  {known}\n", row.name, row.also, row.place)
}

/// The layer in one line: name, tag, keys, carrier.
pub fn line(row: &Row) -> String {
    let keys: Vec<&str> = row.params.iter().map(|p| p.name).collect();
    format!("{:22} {:28} {:10} {}\n", row.stem, row.tag, row.carrier.name(), keys.join(" "))
}

/// As JSON.
pub fn json(row: &Row) -> serde_json::Value {
    let params: Vec<_> = row
        .params
        .iter()
        .map(|p| json!({ "key": p.name, "type": type_text(&p.ty), "default": p.default, "required": p.default.is_empty() }))
        .collect();
    let template = template(row).map(|(plist, _)| String::from_utf8_lossy(&plist).into_owned());
    json!({
        "kind": "native", "name": row.stem, "type": row.tag, "class": row.class(), "carrier": row.carrier.name(),
        "descriptor": row.has_descriptor().then(|| row.descriptor()), "parser": row.parser(), "entry": row.entry(), "params": params,
        "first": first_chip(row).map(|c| c.target), "operations": row.operations().map(|o| o.name).collect::<Vec<_>>(),
        "evidence": row.basis.name(), "source": row.source, "note": row.note, "template": template,
    })
}

/// The schema of a layer, and its template as a netplist.
pub fn text(row: &Row) -> String {
    let mut text = format!("{} (Type = \"{}\"): native layer\n", row.stem, row.tag);
    let symbols = if row.has_descriptor() {
        format!("{}, {}, {}", row.descriptor(), row.constructor(), row.parser())
    } else {
        format!("{}; no descriptor of its own", row.parser())
    };
    let _ = writeln!(text, "  symbols:   {symbols}");
    match row.validator() {
        Some(v) => {
            let _ = writeln!(text, "  validator: {}, {}", v.export(), v.operands());
            let _ = writeln!(text, "  accepts:   {}", v.envelope);
        }
        None => text += "  validator: none exported\n",
    }
    let class = row.class().map_or("none".to_string(), |c| c.to_string());
    let _ = writeln!(text, "  class:     {class}; encoded as: {}", row.carrier.name());
    let first = first_chip(row).map_or("no chip".to_string(), |c| format!("{} ({})", c.target, c.describe()));
    let _ = writeln!(text, "  first:     {first}");
    let operations: Vec<&str> = row.operations().map(|o| o.name).collect();
    let operations = if operations.is_empty() { "none".to_string() } else { operations.join(", ") };
    let _ = writeln!(text, "  of:        {operations}");
    let _ = writeln!(text, "  evidence:  {} ({})", row.basis.phrase(), row.source);
    if !row.note.is_empty() {
        let _ = writeln!(text, "  note:      {}", row.note);
    }
    text += &match row.entry() {
        _ if row.params.is_empty() => "  Params:    none\n".to_string(),
        Some(list) => format!("  Params:    in the entry of the list {list}\n"),
        None => "  Params:\n".to_string(),
    };
    for param in row.params {
        let default =
            if param.default.is_empty() { "required".to_string() } else { format!("default {}", param.default) };
        let _ = writeln!(text, "    {:24} {}; {default}", param.name, type_text(&param.ty));
    }
    if let Some((plist, _)) = template(row) {
        text += "  Template:\n";
        for line in String::from_utf8_lossy(&plist).lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}
