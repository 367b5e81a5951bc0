//! `ane new`: template files.

use super::{Verbosity, print};
use anemone::{Code, Diagnostic, Result, files, native, reference};
use anemone_facts::native::{NATIVES, elsewhere};
use anemone_net::netplist::WEIGHTS;
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane new --native SDPA -o attention.plist
  ane compile attention.plist -t first -o attention.hwx")]
pub struct Flags {
    /// Native layer by name: `ane ops --layers` lists them
    #[arg(long, value_name = "LAYER")]
    native: String,
    /// File for the netplist; its weights, if any, are written beside it with the same name [default: standard output]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    if let Some(row) = elsewhere(&flags.native) {
        let message = format!("{} is not a unit of a netplist: {}", row.name, row.place);
        return Err(Diagnostic::new(Code::UnsupportedOp, message).help("see `ane ops` for what is known of it"));
    }
    let row = native::row(&flags.native).ok_or_else(|| {
        let near = reference::nearest(&flags.native, NATIVES.iter().map(|n| n.stem));
        Diagnostic::new(Code::Usage, format!("no native layer is called {}", flags.native))
            .help(format!("{near}`ane ops --layers` lists them"))
    })?;
    let Some((plist, weights)) = native::template(row) else {
        let message = native::unreachable(row.stem)
            .unwrap_or_else(|| format!("{} cannot be compiled here: {}", row.stem, row.note));
        return Err(Diagnostic::new(Code::UnsupportedOp, message).help("see `ane ops` for what is known of it"));
    };
    let Some(path) = &flags.output else {
        if !weights.is_empty() {
            verbosity.note("it has weights: with -o they are written beside it");
        }
        return print(&String::from_utf8_lossy(&plist)).map(|()| 0);
    };
    // Each netplist has its own weight file, so that one folder can have several.
    let title = path.with_extension("weights");
    let title = title.file_name().map_or(WEIGHTS.into(), |name| name.to_string_lossy().into_owned());
    let beside = path.parent().unwrap_or(Path::new("")).join(&title);
    let plist = native::with_weights(plist, &title);
    let mut written = vec![(path.as_path(), plist.as_slice())];
    if !weights.is_empty() {
        if std::fs::read(&beside).is_ok_and(|there| there != weights) {
            let message =
                format!("{} exists already with other values, and the netplist needs its own", beside.display());
            return Err(Diagnostic::new(Code::Unwritable, message).help("choose another folder"));
        }
        written.push((&beside, &weights));
    }
    files::write_all(&written)?;
    let first = native::first_chip(row).map(|c| c.target);
    if verbosity.json {
        let paths: Vec<String> = written.iter().map(|(p, _)| p.display().to_string()).collect();
        print(&format!(
            "{}\n",
            json!({ "schema": "anemone.new/1", "layer": row.stem, "files": paths, "first": first })
        ))?;
    } else {
        let first = first.map_or("no chip compiles it".to_string(), |chip| format!("compiles from {chip} on"));
        verbosity.note(format!("{}: {} as a netplist; {first}", path.display(), row.stem));
    }
    Ok(0)
}
