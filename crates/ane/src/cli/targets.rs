//! `ane targets`: chips and their limits.

use super::{Voice, chip, print};
use anemone::Result;
use anemone_facts::chips::{CHIPS, Chip, HAL_ROWS};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane targets
  ane targets m1")]
pub struct Flags {
    /// Chips to show in full: marketing names or compiler targets
    chips: Vec<String>,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let chips: Vec<&'static Chip> = if flags.chips.is_empty() {
        CHIPS.iter().collect()
    } else {
        flags.chips.iter().map(|name| chip(name)).collect::<Result<_>>()?
    };
    if voice.json {
        let rows: Vec<_> = chips.iter().map(|c| document(c)).collect();
        print(&format!("{}\n", json!({ "schema": "anemone.targets/1", "targets": rows })))?;
        return Ok(0);
    }
    let mut text = String::new();
    for c in &chips {
        let compiles = if c.layout.is_some() { "compiles and runs" } else { "limits only" };
        text += &format!("{:6} {:4} {:12} {} ({})\n", c.target, c.family, c.marketing.join(","), c.silicon, compiles);
    }
    if !flags.chips.is_empty() {
        for row in HAL_ROWS {
            let offset = row.offset.map_or("     ".into(), |o| format!("{o:#05x}"));
            let values: Vec<String> =
                chips.iter().map(|c| (row.get)(&c.hal).map_or("unknown".into(), |v| v.to_string())).collect();
            text += &format!("  {offset} {:27} {:>12} {:14} {}\n", row.name, values.join(" "), row.unit, row.meaning);
        }
    }
    print(&text)?;
    Ok(0)
}

fn document(chip: &Chip) -> serde_json::Value {
    let hal: serde_json::Map<_, _> =
        HAL_ROWS.iter().map(|row| (row.name.to_string(), json!((row.get)(&chip.hal)))).collect();
    json!({
        "target": chip.target,
        "family": chip.family,
        "marketing": chip.marketing,
        "silicon": chip.silicon,
        "cpu_subtype": chip.cpu_subtype,
        "task_descriptor_version": chip.layout.map(|l| l.td_version),
        "hal": hal,
    })
}
