//! The table of native layers in `docs/native.md`.

use anemone_compile::native::templates::{first_chip, type_text};
use anemone_facts::native::{Carrier, ELSEWHERE, NATIVES, OWN_BASE, OWN_PARAMS, classes_without_row};
use anemone_facts::ops::{OPS, OpRow, Shape};
use std::fmt::Write;

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Every row, followed by the framework operations that map onto it.
pub fn table() -> String {
    let described = NATIVES.iter().filter(|n| n.has_descriptor()).count();
    let mut out = format!(
        "\nThe table has {} layers, {described} of them with a descriptor in Apple's compiler. Registers of own tasks begin at {OWN_BASE:#x}; {OWN_PARAMS} of them are parameters.\n\n\
         | layer | `Type` | class | operands | validator | encoded as | first chip | keys (type; default) | evidence | source | note |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        NATIVES.len()
    );
    for row in NATIVES {
        let operands = row.validator().map_or("-".to_string(), |v| match (v.least, v.most) {
            (a, b) if a == b => a.to_string(),
            (a, b) => format!("{a} to {b}"),
        });
        let validator = row.validator().map_or("-".to_string(), |v| format!("`{}`", v.export()));
        let keys: Vec<String> = row
            .params
            .iter()
            .map(|p| {
                let default = if p.default.is_empty() { "required" } else { p.default };
                format!("`{}` ({}; {default})", p.name, type_text(&p.ty))
            })
            .collect();
        let class = row.class().map_or("-".to_string(), |c| c.to_string());
        let first = match row.carrier {
            Carrier::Nothing => "none".to_string(),
            _ => first_chip(row).map_or("none".to_string(), |c| format!("{} ({})", c.target, c.describe())),
        };
        let cells = [
            row.stem.to_string(),
            format!("`{}`", row.tag),
            class,
            operands,
            validator,
            row.carrier.name().to_string(),
            first,
            cell(&keys.join(", ")),
            row.basis.name().to_string(),
            format!("[{0}](evidence.md#{0})", row.source),
            cell(row.note),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push_str("\n### Names that are not layers\n\nThese names occur with those of layers, but are not layers that compute.\n\n| name | also called | meaning | evidence | source |\n|---|---|---|---|---|\n");
    for row in ELSEWHERE {
        let source = format!("[{0}](evidence.md#{0})", row.source);
        let _ =
            writeln!(out, "| {} | {} | {} | {} | {source} |", row.name, row.also, cell(row.place), row.basis.name());
    }
    let classes: Vec<&str> = classes_without_row().collect();
    let _ = write!(
        out,
        "\nNo source states more than the number of these classes: {}. A netplist that contains one is refused by name.\n",
        classes.join(", ")
    );
    out.push_str("\n### Operations by layer\n\n| layer | MIL operations that are converted to it |\n|---|---|\n");
    for row in NATIVES {
        let names: Vec<&str> = row.operations().map(|o| o.name).collect();
        let names = if names.is_empty() {
            "none; only a netplist or `anec.` operation names it".to_string()
        } else {
            names.join(", ")
        };
        let _ = writeln!(out, "| {} | {names} |", row.stem);
    }
    out.push_str(
        "\n### Layers by operation\n\n| MIL operation | native layers | alternative | note |\n|---|---|---|---|\n",
    );
    for row in OPS {
        let _ = writeln!(out, "| {} | {} | {} | {} |", row.name, becomes(row), cell(row.instead), cell(row.note));
    }
    let without = OPS.iter().filter(|o| o.layers.is_empty()).count();
    let _ = write!(out, "\n{without} of the {} operations have no native layer of their own.\n\n", OPS.len());
    out
}

/// Native layers, or the reason why there are none.
fn becomes(row: &OpRow) -> String {
    match row.shape {
        _ if !row.layers.is_empty() => row.layers.join(", "),
        Shape::Layer | Shape::Cut => "other layers".to_string(),
        Shape::Free => "none: a change of shape".to_string(),
        Shape::Folded => "none: part of other operations, or a constant".to_string(),
        Shape::Host => "none: computed on the host".to_string(),
    }
}
