//! The same numbers on every system: results against the digests of `data/fingerprint.txt`, bit for bit.
//!
//! After an intended change of the compiler or the arithmetic, `ANE_FINGERPRINT=write` writes the file anew on x86-64 Linux;
//! every other system then has to agree. Lines of absent sample data are not compared.

use crate::common;

use anemone::execute::Execution;
use anemone::tensor::{random, read_npy};
use anemone::{Array, Model as Source, execute};
use anemone_compile::Options;
use anemone_engine::Options as EngineOptions;
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_program::{Direction, Program, raw};
use common::draw::Draw;
use common::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Random networks.
const NETWORKS: u64 = 200;
const MODELS: [Model; 2] = [Model::Fast, Model::Fixed];
/// Guards the file while several tests write it.
static FILE: Mutex<()> = Mutex::new(());

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fingerprint.txt")
}

/// Digests by case.
fn read() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    text.lines().filter_map(|l| l.split_once(": ")).map(|(case, digest)| (case.into(), digest.into())).collect()
}

/// Compares the results of a part of the cases, or writes them.
fn use_own_verdicts(found: BTreeMap<String, String>) {
    let _guard = FILE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut known = read();
    if known.is_empty() && std::env::var_os("ANE_FINGERPRINT").is_none() {
        println!("skipped: no digests are recorded (ANE_FINGERPRINT=write records them)");
        return;
    }
    if std::env::var_os("ANE_FINGERPRINT").is_some_and(|v| v == "write") {
        known.extend(found);
        let text: String = known.iter().map(|(case, digest)| format!("{case}: {digest}\n")).collect();
        std::fs::write(file(), text).expect("written");
        return;
    }
    let other: Vec<&String> = found.iter().filter(|(c, d)| known.get(*c) != Some(d)).map(|(c, _)| c).collect();
    assert!(
        other.is_empty(),
        "{} of {} results have other bits than data/fingerprint.txt: {other:?}; after a wanted change of compiler or \
         arithmetic, ANE_FINGERPRINT=write on x86-64 Linux",
        other.len(),
        found.len()
    );
    println!("{} results equal, bit for bit, to data/fingerprint.txt", found.len());
}

fn hash<'a>(results: impl IntoIterator<Item = &'a [f32]>) -> Sha256 {
    let mut hash = Sha256::new();
    for data in results {
        hash.update((data.len() as u64).to_le_bytes());
        // The bits of a NaN depend on the processor.
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        data.iter().for_each(|x| hash.update(bits(x).to_le_bytes()));
    }
    hash
}

/// The first digits of a digest, which are enough to tell results apart.
fn digits(hash: Sha256) -> String {
    hash.finalize().iter().take(12).map(|b| format!("{b:02x}")).collect()
}

/// The module `plans` compares later runs with first ones.
fn run(program: &Program, inputs: &[(String, Array)], model: Model) -> Result<String, String> {
    let options = EngineOptions { model, ..EngineOptions::default() };
    let mut execution = Execution::new(program, options).map_err(|e| e.to_string())?;
    let run = execution.run(inputs).map_err(|e| e.to_string())?;
    Ok(digits(hash(run.outputs.iter().map(|(_, a)| a.data.as_slice()))))
}

/// A package with its input, and states as zeros.
fn package(folder: &Path, input: &Path) -> Result<(Program, Vec<(String, Array)>), String> {
    let text = |e: anemone::Diagnostic| e.to_string();
    let compiled =
        Source::load(folder).and_then(|m| m.compile(&chips::CHIPS[0], &Options::default(), &mut ())).map_err(text)?;
    let net = compiled.net.as_ref().ok_or("no network")?;
    let mut inputs = vec![(net.value(net.inputs[0]).name.clone(), read_npy(input).map_err(text)?)];
    inputs.extend(net.states.iter().map(|s| {
        let value = net.value(s.input);
        (value.name.clone(), Array { shape: value.ty.shape.clone(), data: vec![0.0; value.ty.elements()] })
    }));
    Ok((compiled.program, inputs))
}

fn example() -> (Program, Vec<(String, Array)>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    package(&folder.join("digits.mlpackage"), &folder.join("image.npy")).expect("the example compiles")
}

#[test]
fn the_example() {
    let (program, inputs) = example();
    let found = MODELS.map(|m| (format!("example {}", m.name()), run(&program, &inputs, m).expect("runs")));
    use_own_verdicts(found.into());
}

#[test]
fn packages() {
    let Some(dir) = models_dir() else { return };
    let mut found = BTreeMap::new();
    for folder in entries(&dir).into_iter().filter(|f| f.join("input.npy").exists()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (program, inputs) = match package(&folder.join("model.mlpackage"), &folder.join("input.npy")) {
            Ok(ready) => ready,
            Err(refused) => {
                println!("skipped: {name}: {refused}");
                continue;
            }
        };
        for model in MODELS {
            let digest = run(&program, &inputs, model).unwrap_or_else(|e| panic!("{name}: {e}"));
            found.insert(format!("package {name} {}", model.name()), digest);
        }
    }
    use_own_verdicts(found);
}

#[test]
fn golden_programs() {
    let Some(dir) = golden_dir() else { return };
    let mut found = BTreeMap::new();
    for path in entries(&dir.join("h13/programs")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "bin")) {
        let name = stem(&path);
        let program = raw::read_bin(&std::fs::read(&path).expect("reads")).expect("a program");
        let inputs: Vec<(String, Array)> = program
            .ports_of(Direction::Input)
            .enumerate()
            .map(|(i, port)| {
                let s = port.shape;
                let data = random(i as u64 + 1, s.elements() as usize).iter().map(|x| 4.0 * x).collect();
                (port.name.clone(), Array { shape: [s.n, s.c, s.h, s.w].map(|n| n as usize).to_vec(), data })
            })
            .collect();
        for model in MODELS {
            let digest = run(&program, &inputs, model).unwrap_or_else(|e| panic!("{name}: {e}"));
            found.insert(format!("program {name} {}", model.name()), digest);
        }
    }
    use_own_verdicts(found);
}

#[test]
fn random_networks() {
    let found = MODELS.map(|model| {
        let mut all = Sha256::new();
        for seed in 0..NETWORKS {
            let case = Draw::new(seed).next(&format!("seed {seed}"));
            // A refusal is the same everywhere.
            match case.results(model) {
                Ok(results) => all.update(hash([results.as_slice()]).finalize()),
                Err(refusal) => all.update(refusal),
            }
        }
        (format!("{NETWORKS} networks {}", model.name()), digits(all))
    });
    use_own_verdicts(found.into());
}

#[test]
fn any_number_of_threads() {
    let (program, inputs) = example();
    let wanted = execute(&program, &inputs, EngineOptions::default()).expect("runs").outputs[0].1.data.clone();
    let cases: Vec<_> = (0..40).map(|seed| Draw::new(seed).next("any")).collect();
    let bits = |data: &[f32]| data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let results = || cases.iter().map(|c| c.results(Model::Fast).map(|r| bits(&r))).collect::<Vec<_>>();
    let all = results();
    for threads in [1, 2, 7] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let got = pool.install(|| execute(&program, &inputs, EngineOptions::default()).expect("runs"));
        assert_eq!(got.outputs[0].1.data, wanted, "{threads} threads");
        assert_eq!(pool.install(results), all, "{threads} threads");
    }
}

#[test]
fn a_model_in_memory_gives_what_its_files_give() {
    use anemone_net::read::{Bytes, MemoryFiles, Options};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.mlpackage");
    let mut files = MemoryFiles::default();
    let mut folders = vec![folder.clone()];
    while let Some(at) = folders.pop() {
        for path in entries(&at) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let parts = path.strip_prefix(&folder).expect("inside").components();
            let name: Vec<_> = parts.map(|c| c.as_os_str().to_string_lossy()).collect();
            files.0.insert(name.join("/"), Bytes::from(std::fs::read(&path).expect("reads")));
        }
    }
    let model = Source::read_package(Path::new("digits"), &files, &Options::default()).expect("reads");
    let compiled = model.compile(&chips::CHIPS[0], &anemone_compile::Options::default(), &mut ()).expect("compiles");
    let (program, inputs) = example();
    assert_eq!(compiled.program.stream, program.stream);
    assert_eq!(run(&compiled.program, &inputs, Model::Fast), run(&program, &inputs, Model::Fast));
}
