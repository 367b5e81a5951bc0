//! `ane convert MODEL`: a network in another form, its weights compressed if asked for.

use super::{ModelFlags, Voice, print};
use anemone::convert::{self, NetForm};
use anemone::{Code, Diagnostic, Result, files};
use anemone_net::compress::Method;
use anemone_net::mil;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane convert model.mlpackage --to mil                    the text on standard output
  ane convert model.onnx --dim N=1 -o model.mlpackage
  ane convert model.mlpackage -o small.mlpackage --palettize 4
  ane convert net.plist --to dot | dot -Tsvg > net.svg

Forms: mil, mlpackage, netplist, dot, json. MIL text and packages come out as they stand, unless weights are compressed;
from other forms, weights go to weights/weight.bin (netplist: net.weights) beside the file.")]
pub struct Flags {
    /// Package, MIL text, ONNX model, netplist or .mlmodel
    model: PathBuf,
    /// Form to write [default: as the extension of the file to write says]
    #[arg(long, value_parser = form)]
    to: Option<NetForm>,
    /// File (or, for mlpackage, folder) to write; mil, dot and json go to standard output without
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Weights become one of 2^BITS values each: 1, 2, 3, 4, 6 or 8
    #[arg(long, value_name = "BITS", group = "smaller")]
    palettize: Option<u32>,
    /// Weights become 8-bit integers with a scale for each output channel
    #[arg(long, group = "smaller")]
    int8: bool,
    /// The smallest weights become zeros: the share of them, 0 to 1
    #[arg(long, value_name = "SHARE", group = "smaller")]
    prune: Option<f32>,
    /// Seed of the inputs on which compression is judged
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    choices: ModelFlags,
}

fn form(text: &str) -> std::result::Result<NetForm, String> {
    let known: Vec<&str> = NetForm::ALL.iter().map(|row| row.1).collect();
    NetForm::of(text).ok_or_else(|| format!("one of {}", known.join(", ")))
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let extension = flags.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str()).unwrap_or_default();
    let Some(form) = flags.to.or_else(|| NetForm::of(extension)) else {
        let known: Vec<&str> = NetForm::ALL.iter().map(|row| row.1).collect();
        return Err(Diagnostic::new(Code::Usage, "which form?").help(format!("--to {}", known.join(", --to "))));
    };
    let method = match (flags.palettize, flags.int8, flags.prune) {
        (Some(bits), _, _) => Some(Method::Palette { bits }),
        (_, true, _) => Some(Method::Int8),
        (_, _, Some(share)) => Some(Method::Prune { share }),
        _ => None,
    };
    let choices = flags.choices.choices()?;
    let as_it_stands = method.is_none() && form == NetForm::Mil && flags.choices.is_plain();
    if as_it_stands && let Some(program) = convert::program(&flags.model)? {
        return give(&flags, voice, form, vec![(PathBuf::new(), mil::print(&program).into_bytes())], None);
    }
    let (mut net, notes) = convert::network(&flags.model, &choices)?;
    voice.reader_notes(&notes);
    let cost = method.map(|method| convert::shrink(&mut net, method, flags.seed)).transpose()?;
    let parts = convert::encode(&net, form).map_err(|d| d.or_at(flags.model.display()))?;
    give(&flags, voice, form, parts, cost)
}

/// Writes the parts, or prints the only one that is text.
fn give(
    flags: &Flags,
    voice: Voice,
    form: NetForm,
    parts: Vec<convert::Part>,
    cost: Option<convert::Cost>,
) -> Result<u8> {
    if let Some(cost) = &cost {
        let s = cost.summary;
        voice.note(format!(
            "{} weights compressed, constants {} to {} bytes; outputs change by {:.2e} of their size, at most {:.2e} of \
             the largest (random inputs, seed {})",
            s.tensors, s.bytes_before, s.bytes_after, cost.relative_error, cost.largest_error, flags.seed
        ));
    }
    let Some(target) = &flags.output else {
        let whole = parts.iter().skip(1).all(|(_, bytes)| bytes.len() <= 64);
        return match (form, parts.first()) {
            (NetForm::Mil | NetForm::Dot | NetForm::Json, Some((_, text))) => {
                if !whole {
                    voice.note("the weights are not written: give --output FILE");
                }
                print(&String::from_utf8_lossy(text))?;
                Ok(0)
            }
            _ => Err(Diagnostic::new(Code::Usage, format!("a {} needs --output", form.name()))),
        };
    };
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for (relative, bytes) in &parts {
        let path = match relative.strip_prefix("..") {
            Ok(beside) => folder.join(beside),
            Err(_) if relative.as_os_str().is_empty() => target.clone(),
            Err(_) => target.join(relative),
        };
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(|e| {
                Diagnostic::new(Code::Unwritable, format!("cannot make the folder: {e}")).at(parent.display())
            })?;
        }
        files.push((path, bytes.as_slice()));
    }
    let written: Vec<(&Path, &[u8])> = files.iter().map(|(path, bytes)| (path.as_path(), *bytes)).collect();
    files::write_all(&written)?;
    let bytes: usize = files.iter().map(|(_, b)| b.len()).sum();
    if voice.json {
        let list: Vec<_> =
            files.iter().map(|(p, b)| json!({ "path": p.display().to_string(), "bytes": b.len() })).collect();
        let mut document = json!({ "schema": "anemone.convert/1", "form": form.name(), "files": list });
        if let Some(cost) = &cost {
            document["compression"] = json!({
                "tensors": cost.summary.tensors,
                "bytes_before": cost.summary.bytes_before,
                "bytes_after": cost.summary.bytes_after,
                "relative_error": cost.relative_error,
                "largest_error": cost.largest_error,
                "seed": flags.seed,
            });
        }
        print(&format!("{document}\n"))?;
    } else {
        voice.note(format!("{}: {}, {bytes} bytes", target.display(), form.name()));
    }
    Ok(0)
}
