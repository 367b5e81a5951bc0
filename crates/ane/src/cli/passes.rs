//! `ane passes`: the passes of the compiler.

use super::{Verbosity, print};
use anemone::Result;
use anemone_compile::pipeline::ALL;
use clap::Args;
use serde_json::json;

/// The step of phase 2 that is not a pass, because it makes the networks that pass through them.
const CUTS: &str = "before the passes: each program of a network that is cut (`--cut-attention`, operations left to the host) goes through \
                    them by itself [book table 22.1, multi-segment graph cuts]\n";

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane passes
  ane passes --json")]
pub struct Flags {}

pub fn run(_: Flags, verbosity: Verbosity) -> Result<u8> {
    if verbosity.json {
        let list: Vec<_> = ALL
            .iter()
            .map(|p| {
                json!({
                    "name": p.name, "phase": p.phase, "what": p.what, "source": p.source, "dump": p.dump,
                    "optional": p.optional,
                })
            })
            .collect();
        print(&format!("{}\n", json!({ "schema": "anemone.passes/1", "passes": list })))?;
        return Ok(0);
    }
    let line = |p: &anemone_compile::pipeline::Pass| {
        let phase = if p.phase == 0 { "-".to_string() } else { p.phase.to_string() };
        let kept = if p.optional { "optional" } else { "" };
        format!("{:17} phase {phase}  {} [{}] {kept}", p.name, p.what, p.source).trim_end().to_string() + "\n"
    };
    print(&(ALL.iter().map(line).collect::<String>() + CUTS)).map(|()| 0)
}
