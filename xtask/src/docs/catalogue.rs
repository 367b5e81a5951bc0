//! Catalogues from rows: rules for the design of models, operations, validators.

use super::{CLOSE, OPEN};
use anemone_engine::{Treatment, executes, treatment};
use anemone_facts::Layout;
use anemone_facts::legal::RULES;
use anemone_facts::lint::{LINTS, Severity};
use anemone_facts::ops::{ATTESTED, OPS, Reach};
use anemone_facts::validators::{LOAD_FORMS, LOAD_THREAD, OTHERS, VALIDATORS};
use std::fmt::Write;

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Fields that the engine executes only at some values.
pub fn refusals(layouts: &[&Layout]) -> String {
    let mut out = String::from(
        "\n| field | meaning | values executed | reason for the limit | evidence | source |\n|---|---|---|---|---|---|\n",
    );
    for row in layouts.iter().filter(|l| executes(l)).flat_map(|l| l.rows) {
        let Treatment::Only(values, reason) = treatment(row.field) else { continue };
        let values: Vec<String> = values.iter().map(u32::to_string).collect();
        let (letter, source) = (row.evidence.letter(), row.source);
        let cells = [row.field.info().meaning, &values.join(", "), reason].map(cell).join(" | ");
        let _ = writeln!(out, "| `{:?}` | {cells} | {letter} | [{source}](evidence.md#{source}) |", row.field);
    }
    out.push('\n');
    out
}

/// Every rule for the design of models.
pub fn lint() -> String {
    let mut out = format!(
        "# Rules for the design of models\n\n{OPEN}\n\n\
         These are the rules behind the findings of `ane check`: each has a code, the condition, the reason and a fix. \
         `ane explain CODE` prints one. The column *evidence* states how well a rule is established. In the column *source*, ch and app are chapters \
         and appendices of [the book](../evidence.md); AF is ANEForge, FG the field guide of skyfallsin, OR Orion, mx maderix/ANE, and fit a \
         fit of this project ([evidence](../evidence.md#lint)).\n"
    );
    let parts = [
        (Severity::Rejected, "E: rejected by Apple's compiler"),
        (Severity::Wrong, "W: wrong results without an error"),
        (Severity::Slow, "P: slow"),
        (Severity::Build, "B: load on the compile service"),
    ];
    for (severity, title) in parts {
        let _ = write!(
            out,
            "\n## {title}\n\n| code | name | condition | reason | fix | observed on | evidence | source |\n|---|---|---|---|---|---|---|---|\n"
        );
        for row in LINTS.iter().filter(|l| l.severity() == severity) {
            let cells = [row.name, row.condition, row.why, row.fix, row.chips, row.basis.name(), row.source].map(cell);
            // Logs of `ane check --sarif` link to the anchor.
            let _ = writeln!(out, "| <a id=\"{0}\"></a>{0} | {1} |", row.code, cells.join(" | "));
        }
    }
    let _ = write!(out, "\n{CLOSE}\n");
    out
}

fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Native => "native",
        Reach::Bridge => "bridge",
        Reach::Gated => "gated",
        Reach::None => "none",
    }
}

/// Every operation with its reach by family.
pub fn operations() -> String {
    let mut out = format!(
        "# Operations\n\n{OPEN}\n\n\
         This table states for {} MIL operations whether the engine of each chip family has them: `native` (a layer of the engine), \
         `bridge` (a decomposition or a software route), `gated` (native on a later family only) or `none`. The column *from tier* has the \
         lowest tier of Apple's converter that accepts the operation on the framework route, if a source gives one: 0 is every chip, 2 the H13 (M1, A14) and later, 3 the \
         H14 (M2, A15) and later, 4 the H15 (M3, A16) and later. `ane ops OP` prints one row; [evidence](../evidence.md#op-matrix) has the sources.\n\n\
         | operation | H13 (M1, A14) | H14 (M2, A15) | H15 (M3, A16) | later | from tier | native layers | alternative | note |\n|---|---|---|---|---|---|---|---|---|\n",
        OPS.len()
    );
    for row in OPS {
        let columns = row.reach.map(reach).join(" | ");
        let floor = row.floor.map_or("-".to_string(), |f| f.to_string());
        let layers = row.layers.join(", ");
        let _ = writeln!(
            out,
            "| `{}` | {columns} | {floor} | {layers} | {} | {} |",
            row.name,
            cell(row.instead),
            cell(row.note)
        );
    }
    out.push_str("\n## Layers that do not compile\n\nThe validator of these layers accepts forms that later fail, or no exported validator covers the layer.\n\n| layer | families | reason | evidence |\n|---|---|---|---|\n");
    for row in ATTESTED {
        let families = if row.families.is_empty() { "all".to_string() } else { row.families.join(", ") };
        let _ = writeln!(out, "| {} | {families} | {} | {} |", row.layer, cell(row.reason), row.basis.name());
    }
    let _ = write!(out, "\n{CLOSE}\n");
    out
}

/// Every exported validator, and every limit behind them.
pub fn validators() -> String {
    let mut out = format!(
        "# Validators\n\n{OPEN}\n\n\
         Apple's compiler exports {} functions that validate one kind of layer, and {} others. This page lists what each of them checks; \
         `ane validate` and the C library call them by name. [Evidence](../evidence.md#validators) has the sources.\n\n\
         | export | operands | capability | checks |\n|---|---|---|---|\n",
        VALIDATORS.len(),
        OTHERS.len()
    );
    for row in VALIDATORS {
        let operands =
            if row.least == row.most { row.least.to_string() } else { format!("{} to {}", row.least, row.most) };
        let _ = writeln!(
            out,
            "| `{}` | {operands} | {} | {} |",
            row.export(),
            row.capability.unwrap_or("-"),
            cell(row.envelope)
        );
    }
    for row in OTHERS {
        let _ = writeln!(out, "| `{}` | - | - | {} |", row.export, cell(row.role));
    }
    out.push_str("\n## Limits\n\nA layer is refused at the stage named if the requirement does not hold. The column *rule* has the code that `ane explain` \
         describes; names in parentheses are HAL numbers of the [chips](chips.md#hal-numbers). In Apple's messages, `%d`, `%zd` and `%s` stand for values.\n\n| layer | stage | rule | requirement | in these cases | Apple's message | evidence |\n|---|---|---|---|---|---|---|\n");
    for rule in RULES {
        let layer = if rule.layer.is_empty() { "every" } else { rule.layer };
        let apple = if rule.apple.is_empty() { "-".to_string() } else { format!("`{}`", cell(rule.apple)) };
        let _ = writeln!(
            out,
            "| {layer} | {} | {} | {} | {} | {apple} | {} |",
            rule.stage.name(),
            rule.lint,
            cell(&rule.matches.text()),
            cell(&rule.cases()),
            rule.basis.name()
        );
    }
    let _ = write!(
        out,
        "\n## At load\n\nWhen a program is loaded, the driver checks its records with these functions:\n\n- `{LOAD_THREAD}`: all records.\n"
    );
    for form in LOAD_FORMS {
        let planes = if form.planes { "several planes" } else { "one plane" };
        let kind = if form.compressed { "tiled and compressed" } else { "uncompressed" };
        let _ = writeln!(out, "- `{}`: {planes}, {kind} ({}).", form.function, form.basis.name());
    }
    let _ = write!(out, "\n{CLOSE}\n");
    out
}
