//! The cases of a replay, and the commands that run on each.

use super::process::{Binary, Done, Scratch};
use super::record::Record;
use super::{engine, networks};
use crate::repo;
use std::fs;
use std::path::{Path, PathBuf};

/// One file for the commands to run on.
pub struct Case {
    pub name: String,
    file: PathBuf,
    kind: Kind,
    /// Input arrays beside the file, as arguments; without any, `ane` draws them.
    inputs: Vec<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Compiled, then run.
    Network,
    /// Listed and run.
    Program,
}

/// Chips for verdicts: one of each family in the tables.
const CHECKED: &str = "h11,h12,h13,h14,h15,h16,h17s,h18";

/// Forms in which a network is emitted; a descriptor changes the partitioning of the others, so it has a separate command, which
/// refuses what Apple's compiler is known to refuse; the others do not.
const EMITTED: [(&str, &[&str]); 3] = [
    ("default", &["--force", "--emit", "hwx,bin,anec,firmware"]),
    ("descriptor", &["--emit", "e5,hwx"]),
    ("zin-4.2.1", &["--force", "--emit", "hwx", "--compat", "zin-4.2.1"]),
];

/// Every case, the slowest first.
pub fn all(random: &Path) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    match data("ANE_MODELS_DIR", "../shared/models") {
        Some(models) => cases.extend(entries(&models).iter().filter_map(|f| package(f))),
        None => println!("replay: no sample models (set ANE_MODELS_DIR)"),
    }
    match data("ANE_GOLDEN_DIR", "../shared/golden") {
        Some(golden) => cases.extend(files(&golden).iter().filter_map(|f| golden_file(&golden, f))),
        None => println!("replay: no golden data (set ANE_GOLDEN_DIR)"),
    }
    cases.extend(entries(random).into_iter().map(|folder| network(&folder)));
    // Programs and random networks are quick; packages come first, so that no thread is left alone with one.
    cases.sort_by_key(|c| !c.name.starts_with("models/"));
    if cases.is_empty() { Err("no cases".into()) } else { Ok(cases) }
}

fn data(variable: &str, default: &str) -> Option<PathBuf> {
    let dir = std::env::var_os(variable).map_or_else(|| repo::at(default), PathBuf::from);
    dir.canonicalize().ok().filter(|d| d.is_dir())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    all
}

fn files(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).collect()
}

fn package(folder: &Path) -> Option<Case> {
    let name = format!("models/{}", folder.file_name()?.to_string_lossy());
    let file = folder.join("model.mlpackage");
    let inputs = if folder.join("input.npy").exists() { vec!["in/input.npy".into()] } else { Vec::new() };
    file.exists().then_some(Case { name, file, kind: Kind::Network, inputs })
}

fn golden_file(golden: &Path, file: &Path) -> Option<Case> {
    let kind = match file.extension()?.to_str()? {
        "hwx" | "bin" => Kind::Program,
        "plist" | "mil" => Kind::Network,
        _ => return None,
    };
    let name = format!("golden/{}", file.strip_prefix(golden).ok()?.display());
    Some(Case { name, file: file.into(), kind, inputs: Vec::new() })
}

fn network(folder: &Path) -> Case {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let arrays = entries(folder).into_iter().filter(|f| f.extension().is_some_and(|e| e == "npy"));
    let inputs = arrays.map(|f| {
        let (stem, file) = (f.file_stem().unwrap_or_default(), f.file_name().unwrap_or_default());
        format!("{}=in/{}", stem.to_string_lossy(), file.to_string_lossy())
    });
    let (inputs, file) = (inputs.collect(), folder.join(networks::FILE));
    Case { name: format!("random/{name}"), file, kind: Kind::Network, inputs }
}

/// A running case: its folder has a link `in` to the file's folder, so that no absolute path is visible.
struct Running<'a> {
    case: &'a Case,
    ane: &'a Binary,
    scratch: Scratch,
    record: Record,
    file: String,
}

impl Case {
    /// Runs all commands on the file.
    pub fn run(&self, ane: &Binary) -> Result<Record, String> {
        let scratch = Scratch::new()?;
        let parent = self.file.parent().ok_or("no folder")?.canonicalize().map_err(|e| e.to_string())?;
        std::os::unix::fs::symlink(parent, scratch.0.join("in")).map_err(|e| e.to_string())?;
        let file = format!("in/{}", self.file.file_name().unwrap_or_default().to_string_lossy());
        let record = Record { case: self.name.clone(), ..Record::default() };
        let mut running = Running { case: self, ane, scratch, record, file };
        match self.kind {
            Kind::Network => running.network()?,
            Kind::Program => running.program()?,
        }
        Ok(running.record)
    }
}

impl Running<'_> {
    fn network(&mut self) -> Result<(), String> {
        let file = self.file.clone();
        self.command("check", &["--json", "check", &file, "-t", CHECKED])?;
        for (name, emit) in EMITTED {
            let arguments = [&["--json", "compile", &file, "-o", name, "--no-cache"], emit].concat();
            self.command(&format!("compile {name}"), &arguments)?;
            self.emitted(name)?;
        }
        let dump = ["-q", "compile", &file, "-o", "stages.hwx", "--force", "--no-cache", "--dump-ir", "stages"];
        self.command("stages", &dump)?;
        let stages: Vec<String> = entries(&self.scratch.0.join("stages")).iter().map(|p| name_of(p)).collect();
        self.record.wording("names of stages", stages.join("\n").as_bytes());
        self.runs(&file)
    }

    fn program(&mut self) -> Result<(), String> {
        let file = self.file.clone();
        self.command("check", &["--json", "check", &file])?;
        let listed = self.ane.run(&self.scratch.0, &["dump", &file, "--asm"])?;
        self.keep("listing", &listed, Record::fact);
        let dumped = self.ane.run(&self.scratch.0, &["dump", &file])?;
        self.keep("dump", &dumped, Record::wording);
        self.runs(&file)?;
        let bytes = fs::read(&self.case.file).map_err(|e| e.to_string())?;
        if self.ane.own {
            engine::results(&mut self.record, "program", &bytes);
        }
        Ok(())
    }

    /// Results, traced in both arithmetics of the command line, and through the runtime.
    fn runs(&mut self, file: &str) -> Result<(), String> {
        let inputs: Vec<&str> = self.case.inputs.iter().flat_map(|i| ["--input", i.as_str()]).collect();
        let mut first = [&["--json", "run", file], inputs.as_slice()].concat();
        let mut done = self.command("run", &first)?;
        if done.exit == "2" && !inputs.is_empty() {
            // The package has more inputs than the array beside it fills: all are drawn.
            first.truncate(3);
            done = self.command("run", &first)?;
        }
        let document: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
        let outputs = document["outputs"].as_array();
        let names: Vec<String> =
            outputs.into_iter().flatten().filter_map(|o| Some(o["name"].as_str()?.to_string())).collect();
        if names.is_empty() {
            return Ok(());
        }
        let ways: [(&str, &[&str]); 3] = [
            ("fast", &["--repeat", "2"]),
            ("exact", &["--numerics", "exact"]),
            ("untraced", &["--via", "inprocess", "--times", "2", "--cache", "cache"]),
        ];
        for (way, options) in ways {
            fs::create_dir_all(self.scratch.0.join(way)).map_err(|e| e.to_string())?;
            let targets: Vec<String> =
                names.iter().enumerate().flat_map(|(i, n)| ["--output".into(), format!("{n}={way}/{i}.npy")]).collect();
            let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
            let arguments = [first.as_slice(), options, &targets].concat();
            self.command(&format!("run {way}"), &arguments)?;
            for path in entries(&self.scratch.0.join(way)) {
                let bytes = fs::read(&path).map_err(|e| e.to_string())?;
                self.record.fact(&format!("result {way}/{}", name_of(&path)), &bytes);
            }
        }
        Ok(())
    }

    /// Records every file of a folder by hash; containers also as listings and, on the linked engine, as results.
    fn emitted(&mut self, folder: &str) -> Result<(), String> {
        for path in files(&self.scratch.0.join(folder)) {
            let bytes = fs::read(&path).map_err(|e| e.to_string())?;
            let name = path.strip_prefix(&self.scratch.0).map_err(|e| e.to_string())?.display().to_string();
            self.record.fact(&name, &bytes);
            if path.extension().is_none_or(|e| e != "hwx") {
                continue;
            }
            let listed = self.ane.run(&self.scratch.0, &["dump", &name, "--asm"])?;
            self.keep(&format!("listing of {name}"), &listed, Record::fact);
            if self.ane.own && folder == "default" {
                engine::results(&mut self.record, &name, &bytes);
            }
        }
        Ok(())
    }

    /// Runs a command whose standard output is a document.
    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<Done, String> {
        let done = self.ane.run(&self.scratch.0, arguments)?;
        self.keep(name, &done, Record::document);
        Ok(done)
    }

    fn keep(&mut self, name: &str, done: &Done, add: fn(&mut Record, &str, &[u8])) {
        self.record.fact(&format!("{name} exit"), done.exit.as_bytes());
        if !done.stdout.is_empty() {
            add(&mut self.record, name, &done.stdout);
        }
        self.record.wording(&format!("{name} stderr"), &done.stderr);
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
