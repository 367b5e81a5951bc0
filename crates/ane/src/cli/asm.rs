//! `ane asm`: a listing becomes the file it was made from.

use super::{Voice, print};
use anemone::{Code, Diagnostic, Result, files};
use anemone_program::{hwx, raw, text};
use clap::Args;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane dump model.hwx --asm > model.ane-asm
  ane asm model.ane-asm -o same.hwx
  ane dump stream.bin --asm | ane asm - -o same.bin

The listing of a container becomes that container. The listing of a raw stream becomes a raw stream, or, by the extension
of the file to write, a container (.hwx) or the open Linux driver's form (.anec).")]
pub struct Flags {
    /// Listing, as `ane dump --asm` prints it; `-` for standard input
    listing: PathBuf,
    /// File to write
    #[arg(short, long)]
    output: PathBuf,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let bytes = if flags.listing == Path::new("-") { standard_input()? } else { files::read(&flags.listing)? };
    let malformed = |message: String| Diagnostic::new(Code::Malformed, message).at(flags.listing.display());
    let listing = String::from_utf8(bytes)
        .map_err(|e| malformed(format!("not text: byte {} is not UTF-8", e.utf8_error().valid_up_to())))?;
    let bytes = assemble(&listing, &flags.output).map_err(malformed)?;
    files::write(&flags.output, &bytes)?;
    if voice.json {
        let file = json!({ "path": flags.output.display().to_string(), "bytes": bytes.len() });
        print(&format!("{}\n", json!({ "schema": "anemone.asm/1", "files": [file] })))?;
    } else {
        voice.note(format!("{}: {} bytes", flags.output.display(), bytes.len()));
    }
    Ok(0)
}

fn standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|e| Diagnostic::new(Code::Unreadable, format!("cannot read standard input: {e}")))?;
    Ok(bytes)
}

fn assemble(listing: &str, output: &Path) -> std::result::Result<Vec<u8>, String> {
    let first = listing.lines().map(str::trim_start).find(|l| !l.is_empty() && !l.starts_with(';')).unwrap_or_default();
    if first.split_whitespace().next() != Some("program") {
        return Ok(text::assemble_container(listing).map_err(|e| e.to_string())?.write());
    }
    let program = text::assemble(listing).map_err(|e| e.to_string())?;
    match output.extension().and_then(|e| e.to_str()) {
        Some("hwx") => Ok(hwx::from_program(&program, &hwx::Options::default()).map_err(|e| e.to_string())?.write()),
        Some("anec") => raw::write_anec(&program).map_err(|e| e.to_string()),
        _ => Ok(raw::write_bin(&program)),
    }
}
