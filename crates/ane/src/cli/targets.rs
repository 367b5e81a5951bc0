//! `ane targets`: chips and their limits.

use super::{Verbosity, print};
use anemone::{Code, Diagnostic, Result, reference};
use anemone_facts::chips::{CHIPS, Chip, HAL_ROWS, HalRow};
use anemone_facts::silicon::{GROUPS, PRODUCTS};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane targets
  ane targets m1
  ane targets m1 m4
  ane targets m1 m4 --all
  ane targets --field kmem_cap_streamed")]
pub struct Flags {
    /// Chips to show in full, or to compare: chips, products, groups or compiler targets
    chips: Vec<String>,
    /// Every number, not only those that differ between chips
    #[arg(long)]
    all: bool,
    /// Explain one number, with its value on every target
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let chips: Vec<&'static Chip> = if flags.chips.is_empty() {
        CHIPS.iter().collect()
    } else {
        let mut named: Vec<&'static Chip> = Vec::new();
        for (_, chip) in reference::chip_list(&flags.chips)? {
            if !named.iter().any(|known| known.target == chip.target) {
                named.push(chip);
            }
        }
        named
    };
    if let Some(name) = &flags.field {
        return field(name, &chips, verbosity);
    }
    if verbosity.json {
        let rows: Vec<_> = chips.iter().map(|c| document(c)).collect();
        print(&format!("{}\n", json!({ "schema": "anemone.targets/1", "targets": rows })))?;
        return Ok(0);
    }
    let mut text = String::new();
    for c in &chips {
        let can = if c.layout.is_some() { "compiles and runs" } else { "limits only" };
        let names: Vec<&str> = c.silicon().map(|s| s.name).collect();
        let names = if names.is_empty() { c.role.to_string() } else { names.join(", ") };
        text += &format!("{:5} {names:42} {can}\n", c.target);
        if !c.note.is_empty() && (verbosity.verbose || !flags.chips.is_empty()) {
            text += &format!("      note: {}\n", c.note);
        }
    }
    if flags.chips.is_empty() {
        let groups: Vec<&str> = GROUPS.iter().map(|g| g.name).collect();
        text += &format!("\ngroups: {}; `ane explain iphone12` explains a product\n", groups.join(", "));
    } else {
        text += &table(&chips, flags.all || chips.len() == 1);
    }
    print(&text)?;
    Ok(0)
}

/// One number over all chips.
fn field(name: &str, chips: &[&'static Chip], verbosity: Verbosity) -> Result<u8> {
    let row = HAL_ROWS.iter().find(|r| r.name == name || r.offset.is_some_and(|o| format!("{o:#x}") == name));
    let row = row.ok_or_else(|| {
        let known = HAL_ROWS.iter().map(|r| r.name);
        Diagnostic::new(Code::Usage, format!("no number is called {name}"))
            .help(format!("{}`ane targets m1` lists them", reference::nearest(name, known)))
    })?;
    if verbosity.json {
        let values: serde_json::Map<_, _> =
            chips.iter().map(|c| (c.target.to_string(), json!((row.get)(&c.hal)))).collect();
        let document = json!({
            "schema": "anemone.hal/1", "name": row.name, "offset": row.offset, "unit": row.unit,
            "meaning": row.meaning, "basis": row.basis.name(), "values": values,
        });
        print(&format!("{document}\n"))?;
        return Ok(0);
    }
    let mut text = format!("{}: {}\n", row.name, row.meaning);
    if let Some(offset) = row.offset {
        text += &format!("  offset {offset:#x} of the HAL structure\n");
    }
    if !row.unit.is_empty() {
        text += &format!("  in {}\n", row.unit);
    }
    text += &format!("  {} (docs/evidence.md, hal)\n", row.basis.phrase());
    for c in chips {
        text += &format!("  {:5} {}\n", c.target, cell(row, c));
    }
    print(&text)?;
    Ok(0)
}

/// The numbers of the chips in columns; without `all`, only those that differ.
fn table(chips: &[&Chip], all: bool) -> String {
    let mut text = format!("\n  {:6} {:33}", "offset", "number");
    chips.iter().for_each(|c| text += &format!(" {:>12}", c.name()));
    text += "  unit            meaning\n";
    let mut equal = 0;
    for row in HAL_ROWS {
        let values: Vec<String> = chips.iter().map(|c| cell(row, c)).collect();
        if !all && values.iter().all(|v| *v == values[0]) {
            equal += 1;
            continue;
        }
        let offset = row.offset.map_or(String::new(), |o| format!("{o:#05x}"));
        text += &format!("  {offset:6} {:33}", row.name);
        values.iter().for_each(|v| text += &format!(" {v:>12}"));
        text += &format!("  {:14}  {}\n", row.unit, row.meaning);
    }
    if equal > 0 {
        text += &format!("  {equal} more numbers are the same on all of them (--all shows them)\n");
    }
    text
}

fn cell(row: &HalRow, chip: &Chip) -> String {
    (row.get)(&chip.hal).map_or("unknown".into(), |v| if v == u64::MAX { "unlimited".into() } else { v.to_string() })
}

fn document(chip: &Chip) -> serde_json::Value {
    let hal: serde_json::Map<_, _> =
        HAL_ROWS.iter().map(|row| (row.name.to_string(), json!((row.get)(&chip.hal)))).collect();
    json!({
        "target": chip.target,
        "family": chip.family,
        "legality_index": chip.floor,
        "names": chip.silicon().map(|s| s.name).collect::<Vec<_>>(),
        "silicon": chip.describe(),
        "products": chip.silicon().flat_map(|s| PRODUCTS.iter().filter(|p| p.silicon == s.name)).map(|p| p.name).collect::<Vec<_>>(),
        "cpu_subtype": chip.cpu_subtype,
        "task_descriptor_version": chip.td_version,
        "compiles": chip.layout.is_some(),
        "note": chip.note,
        "hal": hal,
    })
}
