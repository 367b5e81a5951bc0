//! `ane validate`: Apple's exported validators applied to a file.

use super::{ModelFlags, Verbosity, print, target};
use anemone::validate::{Said, validate};
use anemone::{Model, Result};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane validate net.plist                                       every unit, then the network
  ane validate net.plist --only conv1 -t h11
  ane validate net.plist --only _ANECValidateNetworkCreate
  ane validate model.mlpackage                                 as a module of the intermediate language
  ane validate net.plist --exchange conv1.kernel=1152          weights of a procedure

What an export says is what check, compile and the load of a program say: they call the same function.")]
pub struct Flags {
    /// Netplist, package, MIL text or ONNX model
    model: PathBuf,
    /// Chip, product or compiler target
    #[arg(short, long, default_value = "m1")]
    target: String,
    /// Only this export, unit or operation
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Name and size in bytes of a weight to be exchanged
    #[arg(long, value_name = "NAME=BYTES", value_parser = size)]
    exchange: Vec<(String, u64)>,
    #[command(flatten)]
    choices: ModelFlags,
}

fn size(text: &str) -> std::result::Result<(String, u64), String> {
    let (name, bytes) = text.split_once('=').ok_or("NAME=BYTES expected")?;
    Ok((name.to_string(), bytes.parse().map_err(|e| format!("{bytes}: {e}"))?))
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let choices = flags.choices.choices()?;
    let chip = match flags.target.as_str() {
        super::FIRST => target(super::FIRST, &Model::load_with(&flags.model, &choices)?)?,
        name => super::chip(name)?,
    };
    let all = validate(&flags.model, &choices, chip, flags.only.as_deref(), &flags.exchange)?;
    let refused = all.iter().any(|said| !said.refusals.is_empty());
    if verbosity.json {
        let list: Vec<_> = all
            .iter()
            .map(|said| {
                let refusals: Vec<_> = (said.refusals.iter())
                    .map(|r| {
                        json!({ "code": r.code, "message": r.message, "apple": r.apple, "found": r.found, "limit": r.limit,
                                "stage": r.stage, "fix": r.fix })
                    })
                    .collect();
                json!({ "export": said.export, "subject": said.subject, "accepted": refusals.is_empty(), "refusals": refusals })
            })
            .collect();
        print(&format!("{}\n", json!({ "schema": "anemone.validate/1", "chip": chip.target, "exports": list })))?;
        return Ok(u8::from(refused));
    }
    let text: String = all.iter().map(|said| lines(said, chip.target)).collect();
    print(&text)?;
    Ok(u8::from(refused))
}

/// One line per export, and two per refusal.
fn lines(said: &Said, chip: &str) -> String {
    let verdict = if said.refusals.is_empty() { "takes" } else { "refuses" };
    let mut text = format!("{} {verdict} {} on {chip}\n", said.export, said.subject);
    for refusal in &said.refusals {
        text += &format!("  {} {}\n", refusal.code, refusal.cause);
        if let Some(apple) = &refusal.apple {
            text += &format!("    apple: {apple}\n");
        }
        if !refusal.fix.is_empty() {
            text += &format!("    fix: {}\n", refusal.fix);
        }
    }
    text
}
