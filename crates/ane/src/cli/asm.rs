//! `ane asm`: assembles a listing to its file.

use super::{Verbosity, print};
use anemone::forms::{Form, WriteOptions, encode};
use anemone::{Code, Diagnostic, Result, files, os};
use anemone_program::task::image::write_records;
use anemone_program::text::{self, TextError};
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

The listing of a container, dispatch descriptor or firmware container becomes that file. The listing of a raw stream becomes \
a raw stream, or, by the extension of the file to write, another form (.hwx, .anec, .e5, .anefw). The listing of a register \
image becomes the structure, its bars and live-ins behind it, or its records for registers from address 0 on (.records).")]
pub struct Flags {
    /// Listing, as `ane dump --asm` prints it; `-` for standard input
    listing: PathBuf,
    /// File to write
    #[arg(short, long)]
    output: PathBuf,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let bytes = if flags.listing == Path::new("-") { standard_input()? } else { files::read(&flags.listing)? };
    let malformed = |message: String| Diagnostic::new(Code::Malformed, message).at(flags.listing.display());
    let listing = String::from_utf8(bytes)
        .map_err(|e| malformed(format!("not text: byte {} is not UTF-8", e.utf8_error().valid_up_to())))?;
    let bytes = assemble(&listing, &flags.output).map_err(|d| d.or_at(flags.listing.display()))?;
    files::write(&flags.output, &bytes)?;
    if verbosity.json {
        let file = json!({ "path": flags.output.display().to_string(), "bytes": bytes.len() });
        print(&format!("{}\n", json!({ "schema": "anemone.asm/1", "files": [file] })))?;
    } else {
        verbosity.note(format!("{}: {} bytes", flags.output.display(), bytes.len()));
    }
    Ok(0)
}

fn standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|e| Diagnostic::new(Code::Unreadable, format!("cannot read standard input: {}", os::reason(&e))))?;
    Ok(bytes)
}

fn assemble(listing: &str, output: &Path) -> Result<Vec<u8>> {
    let malformed = |e: TextError| Diagnostic::new(Code::Malformed, e.to_string());
    let first = listing.lines().map(str::trim_start).find(|l| !l.is_empty() && !l.starts_with(';')).unwrap_or_default();
    match first.split_whitespace().next() {
        Some("program") => {
            let program = text::assemble(listing).map_err(malformed)?;
            let extension = output.extension().and_then(|e| e.to_str()).unwrap_or_default();
            let form = Form::of_extension(extension).unwrap_or(Form::Bin);
            encode(&program, form, &WriteOptions::default())
        }
        Some("e5") => Ok(text::assemble_descriptor(listing).map_err(malformed)?.write()),
        Some("firmware") => Ok(text::assemble_package(listing).map_err(malformed)?.write()),
        Some("image") => {
            let descriptor = text::assemble_image(listing).map_err(malformed)?;
            let records = output.extension().is_some_and(|e| e == "records");
            if records && !(descriptor.bars.is_empty() && descriptor.live_ins.is_empty()) {
                let message = "records have no place for bars and live-ins";
                return Err(Diagnostic::new(Code::UnsupportedOp, message)
                    .help("write the structure, which has a place for them"));
            }
            Ok(if records { write_records(&descriptor.image.records(0)) } else { descriptor.write() })
        }
        _ => Ok(text::assemble_container(listing).map_err(malformed)?.write()),
    }
}
