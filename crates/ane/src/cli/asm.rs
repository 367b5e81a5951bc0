//! `ane asm`: a container listing becomes a container.

use super::Voice;
use anemone::{Code, Diagnostic, Result, files};
use anemone_program::text;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Example:
  ane dump model.hwx --asm > model.ane-asm
  ane asm model.ane-asm -o same.hwx")]
pub struct Flags {
    /// Listing, as `ane dump --asm` prints it
    listing: PathBuf,
    /// Container to write
    #[arg(short, long)]
    output: PathBuf,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let bytes = files::read(&flags.listing)?;
    let listing = String::from_utf8(bytes).map_err(|e| {
        Diagnostic::new(Code::Malformed, format!("not text: byte {} is not UTF-8", e.utf8_error().valid_up_to()))
            .at(flags.listing.display())
    })?;
    let container = text::assemble_container(&listing)
        .map_err(|e| Diagnostic::new(Code::Malformed, e.to_string()).at(flags.listing.display()))?;
    let bytes = container.write();
    files::write(&flags.output, &bytes)?;
    voice.note(format!("{}: {} bytes", flags.output.display(), bytes.len()));
    Ok(0)
}
