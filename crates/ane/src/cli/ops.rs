//! `ane ops`: operations, native layers and their validators.

use super::{Verbosity, print};
use crate::native::row;
use anemone::reference::{self, Topic};
use anemone::{Code, Diagnostic, Result, native};
use anemone_check::validate;
use anemone_facts::native::{NATIVES, elsewhere};
use anemone_facts::ops::OPS;
use anemone_facts::validators::VALIDATORS;
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane ops
  ane ops conv
  ane ops SDPA
  ane ops _ANECValidateConvLayer
  ane ops --layers")]
pub struct Flags {
    /// Operations, layers or validators to explain
    names: Vec<String>,
    /// List native layers and exported validators instead of operations
    #[arg(long)]
    layers: bool,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let mut topics = Vec::new();
    for name in &flags.names {
        let found: Vec<Topic> =
            reference::look_up(name).into_iter().filter(|t| matches!(t, Topic::Op(_) | Topic::Layer(_))).collect();
        if found.is_empty()
            && row(name).is_none()
            && elsewhere(name).is_none()
            && !validate::exports().any(|e| e == *name)
        {
            let known = OPS.iter().map(|o| o.name).chain(VALIDATORS.iter().map(|v| v.stem));
            return Err(Diagnostic::new(Code::Usage, format!("no operation or layer is called {name}"))
                .help(format!("{}`ane ops` lists them", reference::nearest(name, known))));
        }
        topics.extend(found);
    }
    if verbosity.json {
        let list: Vec<_> = match (flags.names.is_empty(), flags.layers) {
            (false, _) => {
                let rows = flags.names.iter().filter_map(|name| row(name));
                let others = flags.names.iter().filter_map(|name| elsewhere(name)).map(native::elsewhere_json);
                topics.into_iter().map(Topic::json).chain(rows.map(native::json)).chain(others).collect()
            }
            (true, true) => {
                let validators = VALIDATORS.iter().map(|v| Topic::Layer(v).json());
                validators.chain(NATIVES.iter().map(native::json)).collect()
            }
            (true, false) => OPS.iter().map(reference::op_json).collect(),
        };
        let exports: Vec<String> = validate::exports().collect();
        print(&format!("{}\n", json!({ "schema": "anemone.ops/1", "ops": list, "exports": exports })))?;
        return Ok(0);
    }
    let mut text = String::new();
    if !flags.names.is_empty() {
        topics.into_iter().for_each(|t| text += &t.text());
        flags.names.iter().filter_map(|name| row(name)).for_each(|row| text += &native::text(row));
        flags.names.iter().filter_map(|name| elsewhere(name)).for_each(|row| text += &native::elsewhere_text(row));
        for (export, role) in reference::other_exports().into_iter().filter(|(e, _)| flags.names.iter().any(|n| n == e))
        {
            text += &format!("{export}: {role}\n");
        }
    } else if flags.layers {
        for row in NATIVES {
            text += &native::line(row);
        }
        text += "\n";
        for row in VALIDATORS {
            text += &format!("{:36} {} to {:<3} {}\n", row.export(), row.least, row.most, row.envelope);
        }
        for (export, role) in reference::other_exports() {
            text += &format!("{export:36} {role}\n");
        }
    } else {
        let [a, b, c, d] = reference::COLUMNS;
        text += &format!("{:40} {a:8}{b:8}{c:8}{d:8} native layers; note\n", "operation");
        let mut group = "";
        for row in OPS {
            if row.group != group {
                group = row.group;
                text += &format!("\n{group}\n");
            }
            let reach = row.reach.map(reference::reach_word);
            let [a, b, c, d] = reach;
            let mut line = format!("  {:38} {a:8}{b:8}{c:8}{d:8} {}", row.name, row.layers.join(", "));
            if !row.note.is_empty() {
                line += &format!("; {}", row.note);
            }
            text += &format!("{}\n", line.trim_end());
        }
    }
    print(&text)?;
    Ok(0)
}
