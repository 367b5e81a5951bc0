//! Chores of the repository, one name each: `cargo xtask NAME`.
//!
//! Each chore prints one closing line, or a list of findings with exit code 1. Continuous integration uses the same
//! names.

mod agreement;
mod ci;
mod cross;
mod docs;
mod driver;
mod evidence;
mod header;
mod inlined;
mod layers;
mod links;
mod recipes;
mod release;
mod replay;
mod repo;
mod size;
mod targets;
mod tokens;
mod words;

use std::process::ExitCode;

/// A closing line, or all findings.
type Outcome = Result<String, Vec<String>>;

/// A chore by name.
struct Chore {
    name: &'static str,
    run: fn(&[String]) -> Outcome,
    help: &'static str,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "layers",
        run: layers::run,
        help: "dependencies of crates, imports of modules, what source may not contain, lengths",
    },
    Chore { name: "words", run: words::run, help: "words that Rust code does not use" },
    Chore { name: "docs", run: docs::run, help: "write the generated documents; --check only compares" },
    Chore { name: "links", run: links::run, help: "paths, anchors, crates and evidence keys in the documents exist" },
    Chore {
        name: "agreement",
        run: agreement::run,
        help: "verdicts of `ane check` against recorded placements; lists what differs",
    },
    Chore {
        name: "replay",
        run: replay::run,
        help: "record what a binary makes of a fixed set of inputs, or compare: --record DIR, --compare DIR [--ane BINARY] [--only NAME] [--every N]",
    },
    Chore {
        name: "cross",
        run: cross::run,
        help: "build for other targets; --check only checks, --test [--only PART] runs under emulators",
    },
    Chore { name: "recipes", run: recipes::run, help: "recipes of CONTRIBUTING.md, followed on a copy" },
    Chore { name: "release", run: release::run, help: "archives and wheels of every target: --dry-run" },
    Chore {
        name: "size",
        run: size::run,
        help: "lines, rows, fields and operations by crate; --llvm [CRATE...]: LLVM IR by function",
    },
    Chore {
        name: "inlined",
        run: inlined::run,
        help: "vector instructions are inlined in the command line of the release profile, or in PROGRAM...",
    },
    Chore {
        name: "ci",
        run: ci::run,
        help: "everything that a change must pass, step by step; --no-tests: only what reads sources; --record: keeps seconds",
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chore = arguments.first().and_then(|name| CHORES.iter().find(|c| c.name == name));
    let Some(chore) = chore else {
        eprintln!("usage: cargo xtask NAME\n");
        for chore in CHORES {
            eprintln!("  {:9} {}", chore.name, chore.help);
        }
        return ExitCode::from(2);
    };
    match (chore.run)(&arguments[1..]) {
        Ok(closing) => {
            println!("{}: {closing}", chore.name);
            ExitCode::SUCCESS
        }
        Err(findings) => {
            for finding in &findings {
                eprintln!("{}: {finding}", chore.name);
            }
            eprintln!("{}: {} findings", chore.name, findings.len());
            ExitCode::FAILURE
        }
    }
}

/// Returns `closing` if there are no findings.
fn conclude(findings: Vec<String>, closing: String) -> Outcome {
    if findings.is_empty() { Ok(closing) } else { Err(findings) }
}
