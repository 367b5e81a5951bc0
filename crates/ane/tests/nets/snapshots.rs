//! Small networks with the stages, the plan and the listing that come of them, in one file each: `tests/snapshots/NAME.txt`.
//!
//! A file begins with the network; `-- NAME` begins a section. `ANE_BLESS=1` writes the sections anew: a new case is a file with
//! a network alone. `ANE_SNAPSHOTS` names another folder of cases.

use anemone_compile::{Log, Options, Stage, compile};
use anemone_engine::{Options as EngineOptions, Plan};
use anemone_facts::chips::CHIPS;
use anemone_net::text;
use anemone_program::text::list;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Stages that are kept: the network as it is lowered, layers in order, and layers with their places.
const STAGES: &[&str] = &["remove-dead", "lowered", "scheduled", "placed"];

#[derive(Default)]
struct Kept(Vec<Stage>);

impl Log for Kept {
    fn wants(&self) -> bool {
        true
    }

    fn stage(&mut self, stage: Stage) {
        self.0.push(stage);
    }
}

/// The network of a file and everything that comes of it.
fn rendered(network: &str) -> Result<String, String> {
    let net = text::parse(network, &[]).map_err(|e| e.to_string())?;
    let mut kept = Kept::default();
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut kept).map_err(|e| e.to_string())?;
    let mut out = network.to_string();
    for name in STAGES {
        // A stage's file name begins with its place in the pipeline.
        let stage = kept.0.iter().find(|s| s.name == *name || s.name.ends_with(&format!("-{name}")));
        let stage = stage.ok_or_else(|| {
            let all: Vec<&str> = kept.0.iter().map(|s| s.name).collect();
            format!("no stage is called {name}: {}", all.join(", "))
        })?;
        let _ = write!(out, "-- {name}\n{}", stage.text);
    }
    let plan = Plan::new(&program, EngineOptions::default()).map_err(|e| e.to_string())?;
    let passes = plan.passes();
    let last = passes.last().ok_or("a plan without passes")?;
    let _ = write!(out, "-- plan\n{}", last.text);
    let _ = write!(out, "-- listing\n{}", list(&program));
    Ok(out)
}

#[test]
fn networks_become_what_they_became() {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let folder = std::env::var_os("ANE_SNAPSHOTS").map_or_else(here, PathBuf::from);
    let bless = std::env::var_os("ANE_BLESS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("the folder").flatten().map(|e| e.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    files.sort();
    assert!(files.len() >= 12, "{} cases", files.len());
    let mut differ = Vec::new();
    for file in &files {
        let wanted = std::fs::read_to_string(file).expect("a case").replace("\r\n", "\n");
        let network = wanted.split("-- ").next().unwrap_or_default();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let found = rendered(network).unwrap_or_else(|e| panic!("{name}: {e}"));
        if bless {
            std::fs::write(file, &found).expect("the case is written");
        } else if found != wanted {
            let at = found.lines().zip(wanted.lines()).position(|(a, b)| a != b).unwrap_or(wanted.lines().count());
            let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_string();
            differ.push(format!("{name}, line {}:\n  {}\nwas\n  {}", at + 1, line(&found), line(&wanted)));
        }
    }
    assert!(differ.is_empty(), "ANE_BLESS=1 writes them anew, for a review of the change:\n{}", differ.join("\n"));
}
