//! `ane sweep`: calls the Python package, since the engines that distribute such work are Python's.

use anemone::{Code, Diagnostic, Result};
use std::ffi::OsString;
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  pip install 'anemone-ane[sweep]'
  ane sweep nightly.toml -o rows.jsonl

SPEC.toml, for example:
  models = [\"models/\", \"other.onnx\"]
  chips = [\"m1\", \"m4\"]
  actions = [\"check\", \"compile\", \"run\"]
  options = [{ numerics = \"fast\" }, { numerics = \"exact\" }]
  backend = \"joblib\"       # or dask, ray, serial

Keys: models, chips, actions (check, compile, run), options (dim, route, numerics, threads, seed),
data (.npz), metrics, backend, workers, file, ordered, time_limit. A sweep that ended early goes on
from its file.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// SPEC.toml and flags of the Python package
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SPEC.toml")]
    arguments: Vec<OsString>,
}

pub fn run(flags: Flags) -> Result<u8> {
    let python = std::env::var_os("ANE_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import anemone"]).output();
    if !has.is_ok_and(|o| o.status.success()) {
        let message = format!("{} has no package anemone", python.display());
        return Err(Diagnostic::new(Code::Usage, message)
            .help("pip install 'anemone-ane[sweep]'; ANE_PYTHON selects another interpreter"));
    }
    let status = Command::new(&python).args(["-m", "anemone", "sweep"]).args(&flags.arguments).status();
    let status = status.map_err(|e| Diagnostic::new(Code::Usage, format!("{}: {e}", python.display())))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(3))
}
