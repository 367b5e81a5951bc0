//! `ane fix`: rewrites refused operations to forms that the chip supports.

use super::{ModelFlags, Verbosity, chip, print};
use anemone::check::{self, Subject};
use anemone::convert::{self, NetForm};
use anemone::fix::{self, Applied, Left};
use anemone::{Code, Diagnostic, Result, files, os};
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
kernels are turned or split, transposed convolutions become a convolution and depth-to-space, wide poolings smaller ones, kernels \
with depth convolutions of slices, borders and constant gathers slices and a concat, transposes of six axes exchanges of blocks, \
resampling products with matrices. The chip may be any of `ane targets`: what Apple's compiler takes is known from its check alone. The \
changed network is evaluated against the model on random inputs, and checked again; what is left is listed with what to do. \
Without -o nothing is written. Exit code 1: operations are left that Apple's compiler refuses.")]
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
    /// Seed of the inputs for comparing the two networks
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let chip = chip(&flags.target)?;
    let form = flags.output.as_deref().map(form).transpose()?;
    let choices = flags.choices.choices()?;
    let source = match check::load(&flags.model, &choices) {
        Ok(Subject::Program(outline, _)) => Some(outline),
        _ => None,
    };
    let (net, notes) = match (convert::network(&flags.model, &choices), &source) {
        (Ok(read), _) => read,
        // Not a static graph: nothing is rewritten, and all refusals are listed.
        (Err(refused), Some(source)) => {
            let (left, count) = fix::listed(source, chip);
            let answer = Answer { applied: &[], left: &left, counts: [count, count], error: 0.0 };
            answer.print_report(&flags, chip.target, verbosity)?;
            verbosity.note(format!("nothing is rewritten: {}", refused.message));
            return Ok(1);
        }
        (Err(refused), None) => return Err(refused),
    };
    verbosity.reader_notes(&notes);
    let fixed = fix::fix(&net, source.as_deref(), chip, flags.seed).map_err(|d| d.or_at(flags.model.display()))?;
    if let (Some(output), Some(form)) = (&flags.output, form) {
        write(output, &convert::encode(&fixed.net, form).map_err(|d| d.or_at(flags.model.display()))?)?;
    }
    let answer = Answer { applied: &fixed.applied, left: &fixed.left, counts: fixed.counts, error: fixed.error };
    answer.print_report(&flags, chip.target, verbosity)?;
    match &flags.output {
        Some(output) => verbosity.note(format!("{}: written", output.display())),
        None if !fixed.applied.is_empty() => verbosity.note("nothing is written: give -o FIXED.mlpackage"),
        None => {}
    }
    Ok(u8::from(!fixed.left.is_empty()))
}

/// Rewrites applied to a model, and operations left unchanged.
struct Answer<'a> {
    applied: &'a [Applied],
    left: &'a [Left],
    /// Numbers of operations and of those that Apple's compiler accepts, before and after.
    counts: [(usize, usize); 2],
    error: f32,
}

impl Answer<'_> {
    fn print_report(&self, flags: &Flags, target: &str, verbosity: Verbosity) -> Result<()> {
        let [before, after] = self.counts;
        if verbosity.json {
            let applied = self.applied.iter().map(|a| json!({ "name": a.name, "op": a.op, "into": a.into }));
            let left =
                self.left.iter().map(|l| json!({ "name": l.name, "op": l.op, "reason": l.reason, "fix": l.fix }));
            let document = json!({
                "schema": "anemone.fix/1", "chip": target, "applied": applied.collect::<Vec<_>>(),
                "left": left.collect::<Vec<_>>(), "largest_error": self.error,
                "before": { "operations": before.0, "on_engine": before.1 },
                "after": { "operations": after.0, "on_engine": after.1 },
            });
            return print(&format!("{document}\n"));
        }
        let mut text = String::new();
        for a in self.applied {
            text += &format!("fixed: {} `{}` is now {}\n", a.op, a.name, a.into);
        }
        for l in self.left {
            let advice = if l.fix.is_empty() { String::new() } else { format!("\n       do: {}", l.fix) };
            text += &format!("left:  {} `{}`: {}{advice}\n", l.op, l.name, l.reason);
        }
        let now = if self.applied.is_empty() { before } else { after };
        text += &format!("{}: Apple's compiler takes {} of {} operations", flags.target, now.1, now.0);
        text += &match self.applied.len() {
            0 if self.left.is_empty() => "; there is nothing to fix\n".to_string(),
            0 => "; none of the others has a rewrite that keeps its results\n".to_string(),
            _ => format!(
                ", {} of {} before; results {}\n",
                before.1,
                before.0,
                match self.error {
                    0.0 => "are the same".to_string(),
                    error => format!("differ by at most {error:.1e} of the largest"),
                }
            ),
        };
        print(&text)
    }
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
                Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {}", os::reason(&e)))
                    .at(parent.display())
            })?;
        }
        all.push((path, bytes.as_slice()));
    }
    let written: Vec<(&Path, &[u8])> = all.iter().map(|(path, bytes)| (path.as_path(), *bytes)).collect();
    files::write_all(&written)
}
