//! The command line `ane`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(anemone::cli::main(std::env::args_os().collect()))
}
