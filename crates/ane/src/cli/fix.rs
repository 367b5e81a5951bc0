//! `ane fix`: refused operations written in forms that the chip takes.

use super::{ModelFlags, Voice, chip, print};
use anemone::convert::{self, NetForm};
use anemone::{Code, Diagnostic, Result, files, fix};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane fix model.mlpackage
  ane fix model.mlpackage -o fixed.mlpackage
  ane fix model.onnx --dim N=1 -t iphone12 -o fixed.mlpackage

Applies what keeps results: patch embeddings and other strided convolutions become space-to-depth and a small kernel, wide \
kernels are turned or split, mirrored and repeated borders become slices and a concat. The changed network is evaluated \
against the model on random inputs, and checked again; what is left is listed with what to do. Without -o nothing is written. \
Exit code 1: operations are left off the engine.")]
pub struct Flags {
    /// Model: a package, an .mlmodel, MIL text, ONNX, a netplist
    model: PathBuf,
    #[command(flatten)]
    choices: ModelFlags,
    /// Chip (m1, a14), product (iphone12) or compiler target (h13)
    #[arg(short, long, default_value = "m1")]
    target: String,
    /// Network to write: .mlpackage, .mil or .plist
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Seed of the inputs on which the two networks are compared
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let chip = chip(&flags.target)?;
    let form = flags.output.as_deref().map(form).transpose()?;
    let (net, notes) = convert::network(&flags.model, &flags.choices.choices()?)?;
    voice.reader_notes(&notes);
    let fixed = fix::fix(&net, chip, flags.seed).map_err(|d| d.or_at(flags.model.display()))?;
    if let (Some(output), Some(form)) = (&flags.output, form) {
        write(output, &convert::encode(&fixed.net, form).map_err(|d| d.or_at(flags.model.display()))?)?;
    }
    let [before, after] = fixed.counts;
    if voice.json {
        let applied: Vec<_> =
            fixed.applied.iter().map(|a| json!({ "name": a.name, "op": a.op, "into": a.into })).collect();
        let left: Vec<_> = fixed
            .left
            .iter()
            .map(|l| json!({ "name": l.name, "op": l.op, "reason": l.reason, "fix": l.fix }))
            .collect();
        let document = json!({
            "schema": "anemone.fix/1", "chip": chip.target, "applied": applied, "left": left, "largest_error": fixed.error,
            "before": { "operations": before.0, "on_engine": before.1 }, "after": { "operations": after.0, "on_engine": after.1 },
        });
        print(&format!("{document}\n"))?;
        return Ok(u8::from(!fixed.left.is_empty()));
    }
    let mut text = String::new();
    for a in &fixed.applied {
        text += &format!("fixed: {} `{}` is now {}\n", a.op, a.name, a.into);
    }
    for l in &fixed.left {
        text += &format!("left:  {} `{}`: {}. {}\n", l.op, l.name, l.reason, l.fix);
    }
    text += &format!(
        "{}: {} of {} operations can run on the Neural Engine, {} of {} before; largest difference {:.1e} of the largest output\n",
        flags.target, after.1, after.0, before.1, before.0, fixed.error
    );
    print(&text)?;
    match &flags.output {
        Some(output) => voice.note(format!("{}: written", output.display())),
        None if !fixed.applied.is_empty() => voice.note("nothing is written: give -o FIXED.mlpackage"),
        None => {}
    }
    Ok(u8::from(!fixed.left.is_empty()))
}

fn form(output: &Path) -> Result<NetForm> {
    let extension = output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    NetForm::of(extension).filter(|f| matches!(f, NetForm::Mlpackage | NetForm::Mil | NetForm::Netplist)).ok_or_else(
        || Diagnostic::new(Code::Usage, "a network is written as .mlpackage, .mil or .plist").at(output.display()),
    )
}

/// Writes the parts of a form, all or none.
fn write(target: &Path, parts: &[convert::Part]) -> Result<()> {
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut all = Vec::new();
    for (relative, bytes) in parts {
        let path = match relative.strip_prefix("..") {
            Ok(beside) => folder.join(beside),
            Err(_) if relative.as_os_str().is_empty() => target.to_path_buf(),
            Err(_) => target.join(relative),
        };
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(|e| {
                Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(parent.display())
            })?;
        }
        all.push((path, bytes.as_slice()));
    }
    let written: Vec<(&Path, &[u8])> = all.iter().map(|(path, bytes)| (path.as_path(), *bytes)).collect();
    files::write_all(&written)
}
