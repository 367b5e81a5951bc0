//! `ane doctor`: features that work on this machine.

use super::{Verbosity, print};
use anemone::{Result, os};
use anemone_engine::kernels::isa;
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

/// Result of one test.
struct Look {
    what: &'static str,
    works: bool,
    found: String,
    /// Advice if it does not work.
    next: &'static str,
}

pub fn run(_: Flags, verbosity: Verbosity) -> Result<u8> {
    let looks = looks();
    if verbosity.json {
        let list: Vec<_> = looks
            .iter()
            .map(|l| json!({ "what": l.what, "works": l.works, "found": l.found, "next": l.next }))
            .collect();
        print(&format!("{}\n", json!({ "schema": "anemone.doctor/1", "looks": list })))?;
        return Ok(0);
    }
    let line = |l: &Look| {
        let next = if l.works || l.next.is_empty() { String::new() } else { format!("{:27}next: {}\n", "", l.next) };
        format!("{:3} {:22} {}\n{next}", if l.works { "yes" } else { "no" }, l.what, l.found)
    };
    let text: String = looks.iter().map(line).collect();
    print(&text)?;
    Ok(0)
}

fn looks() -> Vec<Look> {
    let mut looks = Vec::new();
    let mut look = |what, works, found: String, next| looks.push(Look { what, works, found, next });
    let (system, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    look(
        "version",
        true,
        format!("ane {}, build {}, {system} on {arch}", env!("CARGO_PKG_VERSION"), anemone_compile::sources()),
        "",
    );
    let compiles: Vec<&str> = CHIPS.iter().filter(|c| c.layout.is_some()).map(|c| c.target).collect();
    look("check", true, format!("{} targets: `ane targets`", CHIPS.len()), "");
    look("compile", true, format!("for {}", compiles.join(", ")), "");
    look("run", true, "software engine, here and everywhere".to_string(), "");
    let all: Vec<&str> = isa::available().into_iter().map(|(name, _)| name).collect();
    look("instruction set", true, format!("{}; ANE_HOST forces one of {}", isa::name(), all.join(", ")), "");
    let apple = system == "macos" || system == "ios";
    let silicon = apple && arch == "aarch64";
    let hardware = if silicon {
        "Apple silicon; this version does not drive its engine"
    } else {
        "no Apple neural engine on this machine; the software engine is used"
    };
    let next = if silicon {
        "`ane check` tells what Core ML would do; `ane run` computes in software"
    } else {
        "`ane run` computes in software what an M1 would"
    };
    look("run on hardware", false, hardware.to_string(), next);
    if let Some(device) = os::ACCELERATOR.map(PathBuf::from) {
        let found =
            if device.exists() { format!("{} exists", device.display()) } else { "no accelerator device".into() };
        let next =
            "on Apple silicon, a kernel with the open driver; `ane compile MODEL -o model.anec` writes its input";
        look("open driver", device.exists(), found, next);
    }
    for feature in FEATURES {
        let support = feature.on(system);
        let found = support.map_or("unknown on this system; please report it", |s| s.text());
        look(feature.name, support.is_some_and(|s| s.works()), format!("{found} ({})", feature.purpose), "");
    }
    if let Err(why) = os::cache_folder() {
        look("cache", false, why.to_string(), "--cache FOLDER sets one");
    }
    let folder = std::env::temp_dir();
    let writes = tempfile::Builder::new().prefix(".ane-").tempfile_in(&folder).and_then(|mut f| f.write_all(b"x"));
    if writes.is_err() {
        look("temporary files", false, format!("in {}", folder.display()), "set TMPDIR to a writable folder");
    }
    if let Ok(cache) = anemone::places::cache(None) {
        let entries = cache.list();
        let bytes: u64 = entries.iter().map(|e| e.bytes).sum();
        let folder = anemone::places::cache_folder(None).map(|f| f.display().to_string()).unwrap_or_default();
        let limit = anemone::places::CACHE_BYTES >> 20;
        let found = format!(
            "{} programs, {} of {limit} MiB, in {folder}; a program of another build is not found",
            entries.len(),
            bytes >> 20
        );
        look("compiled programs", true, found, "");
    }
    for variable in ["ANE_GOLDEN_DIR", "ANE_MODELS_DIR"] {
        if let Some(dir) = std::env::var_os(variable) {
            let dir = PathBuf::from(dir);
            look("test data", dir.is_dir(), format!("{variable}={}", dir.display()), "name a folder that exists");
        }
    }
    looks
}
