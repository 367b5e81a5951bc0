//! Conversion of a network, with compression of its weights if requested.

use super::Flags;
use crate::cli::{Verbosity, print};
use anemone::convert::{self, NetForm};
use anemone::{Code, Diagnostic, Result, files};
use anemone_net::compress::Method;
use anemone_net::mil;
use serde_json::json;
use std::path::{Path, PathBuf};

const UNWRITTEN: &str = "the weights are not written: give --output FILE";

pub fn run(flags: &Flags, form: NetForm, verbosity: Verbosity) -> Result<u8> {
    if flags.compat.is_some() || flags.anec_data.is_some() || !flags.state.is_empty() {
        let message = format!("--compat, --anec-data and --state are for programs, not for {}", form.name());
        return Err(Diagnostic::new(Code::Usage, message));
    }
    let method = match (flags.palettize, flags.int8, flags.prune) {
        (Some(bits), _, _) => Some(Method::Palette { bits }),
        (_, true, _) => Some(Method::Int8),
        (_, _, Some(share)) => Some(Method::Prune { share }),
        _ => None,
    };
    let choices = flags.choices.choices()?;
    let as_it_stands = method.is_none() && form == NetForm::Mil && flags.choices.is_plain();
    if as_it_stands && let Some(program) = convert::program(&flags.file)? {
        let (text, names) = mil::printed(&program);
        let mut parts = vec![(PathBuf::new(), text.into_bytes())];
        if flags.output.is_none() && !names.is_empty() {
            verbosity.note(UNWRITTEN);
        } else {
            let (files, missing) = convert::constants(&flags.file, &names);
            parts.extend(files);
            missing
                .iter()
                .for_each(|name| verbosity.note(format!("the file `{name}` with constants of the model is missing")));
        }
        return give(flags, verbosity, form, parts, None);
    }
    let (mut net, notes) = convert::network(&flags.file, &choices)?;
    verbosity.reader_notes(&notes);
    let cost = method.map(|method| convert::shrink(&mut net, method, flags.seed)).transpose()?;
    let parts = convert::encode(&net, form).map_err(|d| d.or_at(flags.file.display()))?;
    give(flags, verbosity, form, parts, cost)
}

/// Writes the parts, or prints the only one if it is text.
fn give(
    flags: &Flags,
    verbosity: Verbosity,
    form: NetForm,
    parts: Vec<convert::Part>,
    cost: Option<convert::Cost>,
) -> Result<u8> {
    if let Some(cost) = &cost {
        let s = cost.summary;
        verbosity.note(format!(
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
                    verbosity.note(UNWRITTEN);
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
    if verbosity.json {
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
        verbosity.note(format!("{}: {}, {bytes} bytes", target.display(), form.name()));
    }
    Ok(0)
}
