//! The command line `ane`.

mod cli;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    let json = args.json;
    match cli::dispatch(args) {
        Ok(code) => ExitCode::from(code),
        Err(diagnostic) => {
            cli::report(&diagnostic, json);
            ExitCode::from(diagnostic.code.exit())
        }
    }
}
