//! `ane doctor`: what works on this machine.

use super::{Voice, print};
use anemone::{Result, os};
use anemone_facts::chips::CHIPS;
use anemone_runtime::os::support::FEATURES;
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane doctor
  ane doctor --json")]
pub struct Flags {}

/// One thing that was looked at.
struct Look {
    what: &'static str,
    works: bool,
    found: String,
}

pub fn run(_: Flags, voice: Voice) -> Result<u8> {
    let looks = looks();
    if voice.json {
        let list: Vec<_> =
            looks.iter().map(|l| json!({ "what": l.what, "works": l.works, "found": l.found })).collect();
        print(&format!("{}\n", json!({ "schema": "anemone.doctor/1", "looks": list })))?;
        return Ok(0);
    }
    let text: String =
        looks.iter().map(|l| format!("{:3} {:22} {}\n", if l.works { "yes" } else { "no" }, l.what, l.found)).collect();
    print(&text)?;
    Ok(0)
}

fn looks() -> Vec<Look> {
    let mut looks = Vec::new();
    let mut look = |what, works, found: String| looks.push(Look { what, works, found });
    let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    look("version", true, format!("ane {}, {system} on {arch}", env!("CARGO_PKG_VERSION")));
    let compiles: Vec<&str> = CHIPS.iter().filter(|c| c.layout.is_some()).map(|c| c.target).collect();
    look("check", true, format!("{} targets", CHIPS.len()));
    look("compile", true, format!("for {}", compiles.join(", ")));
    look("run", true, "software engine, here and everywhere".to_string());
    let apple = system == "macos" || system == "ios";
    let silicon = apple && arch == "aarch64";
    let hardware = if silicon {
        "Apple silicon is here; this version does not drive its engine"
    } else {
        "no Apple neural engine is here; the software engine stands in"
    };
    look("run on hardware", false, hardware.to_string());
    if let Some(device) = os::ACCELERATOR.map(PathBuf::from) {
        let found =
            if device.exists() { format!("{} exists", device.display()) } else { "no accelerator device".into() };
        look("open driver", device.exists(), found);
    }
    for feature in FEATURES {
        let support = feature.on(system);
        let found = support.map_or("not known on this system; tell us", |s| s.text());
        look(feature.name, support.is_some_and(|s| s.works()), format!("{found} ({})", feature.purpose));
    }
    match os::cache_folder() {
        Ok(folder) => look("cache folder", true, folder.display().to_string()),
        Err(why) => look("cache folder", false, format!("{why}; --cache FOLDER names one")),
    }
    let folder = std::env::temp_dir();
    let writes = tempfile::Builder::new().prefix(".ane-").tempfile_in(&folder).and_then(|mut f| f.write_all(b"x"));
    look("temporary files", writes.is_ok(), format!("in {}", folder.display()));
    for variable in ["ANE_GOLDEN_DIR", "ANE_MODELS_DIR"] {
        if let Some(dir) = std::env::var_os(variable) {
            let dir = PathBuf::from(dir);
            look("test data", dir.is_dir(), format!("{variable}={}", dir.display()));
        }
    }
    looks
}
