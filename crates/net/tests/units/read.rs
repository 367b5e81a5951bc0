//! Readers on real packages and netplists where they are there, and on damaged ones.

mod blob;
mod computed;
mod damaged;
mod kinds;
mod mutated;
mod npy;
mod onnx;
mod packed;
mod procedures;
mod programs;

use anemone_net::Error;
use anemone_net::check::check;
use anemone_net::eval::eval;
use anemone_net::graph::{DType, Data, Tensor};
use anemone_net::read::*;
use std::path::{Path, PathBuf};

/// A folder of test data: from the environment, else beside the workspace.
pub fn data_dir(variable: &str, default: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(default);
    let path = std::env::var_os(variable).map_or_else(beside, PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: no golden data");
    None
}

pub fn models() -> Vec<PathBuf> {
    let Some(dir) = data_dir("ANE_MODELS_DIR", "../shared/models") else { return vec![] };
    let mut found: Vec<PathBuf> = dir.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|p| p.join("model.mlpackage").is_dir());
    found.sort();
    found
}

/// Files under a folder of the disk.
pub struct Disk(pub PathBuf);

impl Files for Disk {
    fn read(&self, path: &str) -> Result<Bytes, String> {
        std::fs::read(self.0.join(path)).map(Bytes::from).map_err(|e| e.to_string())
    }
}

fn npy(path: &Path) -> Option<Tensor> {
    let bytes = std::fs::read(path).ok()?;
    let array = anemone_net::read::npy::Npy::read(&bytes).unwrap();
    let elements = array.to_f32();
    let data = match &array.descr[1..] {
        "f4" => Data::F32(elements),
        "f2" => Data::F16(elements.into_iter().map(half::f16::from_f32).collect()),
        // Indices: small enough for fp32.
        "i4" | "i8" => Data::I32(elements.into_iter().map(|v| v as i32).collect()),
        other => panic!("element type {other}"),
    };
    Some(Tensor { shape: array.shape, data })
}

/// Largest difference, relative to the largest expected element.
fn difference(found: &Tensor, expected: &Tensor) -> f32 {
    assert_eq!(found.shape, expected.shape);
    let (found, expected) = (found.data.to_f32(), expected.data.to_f32());
    let largest = expected.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    found.iter().zip(&expected).fold(0.0, |m: f32, (a, b)| if (a - b).abs() <= m { m } else { (a - b).abs() }) / largest
}

/// Zeros for every weight file, with a record wherever one is looked for.
pub struct Zeros;

impl Files for Zeros {
    fn read(&self, _: &str) -> Result<Bytes, String> {
        Err("no weights here".to_string())
    }
}

#[test]
fn packages_evaluate_to_their_expectation() {
    for dir in models() {
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let files = Disk(dir.join("model.mlpackage"));
        let (net, notes) = read_package(&files, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        check(&net).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let (Some(input), Some(expected)) = (npy(&dir.join("input.npy")), npy(&dir.join("expected_pkg_fp32.npy")))
        else {
            println!("{name}: {} operations, nothing to compare with", net.ops.len());
            continue;
        };
        let start = std::time::Instant::now();
        let mut inputs = vec![input];
        // States begin as zeros.
        inputs.extend(net.states.iter().map(|s| {
            let ty = &net.value(s.input).ty;
            Tensor::f32(ty.shape.clone(), vec![0.0; ty.elements()])
        }));
        let outputs = eval(&net, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let time = start.elapsed();
        let error = difference(&outputs[0], &expected);
        println!("{name}: {} operations, {error:.2e} of the largest value, {time:.2?} {notes:?}", net.ops.len());
        assert!(error < 1e-4, "{name}: {error}");
    }
}

#[test]
fn sniffs_by_content() {
    assert_eq!(sniff(b"bplist00..."), Some(Format::Netplist));
    assert_eq!(sniff(b"\n<?xml version"), Some(Format::Netplist));
    assert_eq!(sniff(&[8, 6, 18]), Some(Format::MlModel));
    assert_eq!(sniff(b"{}"), None);
    assert_eq!(sniff(b""), None);
    let _ = DType::F16;
}

pub fn netplists() -> Vec<PathBuf> {
    let Some(dir) = data_dir("ANE_GOLDEN_DIR", "../shared/golden") else { return vec![] };
    let entries = |folder: &str| dir.join(folder).read_dir().unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let mut found = entries("h13/netplists");
    found.retain(|p| p.extension().is_some_and(|e| e == "plist"));
    found.extend(entries("h13/pairs").into_iter().map(|p| p.join("net.plist")).filter(|p| p.is_file()));
    found.sort();
    found
}

#[test]
pub fn netplists_read_and_check() {
    let mut read = 0;
    let paths = netplists();
    for path in &paths {
        let name = path.iter().rev().take(2).map(|p| p.to_string_lossy()).collect::<Vec<_>>().join(" of ");
        let files = Disk(path.parent().unwrap().to_path_buf());
        match read_netplist(&std::fs::read(path).unwrap(), &files, &Options::default()) {
            Ok((net, notes)) => {
                check(&net).unwrap_or_else(|e| panic!("{name}: {e:?}"));
                let ops: Vec<_> = net.ops.iter().map(|op| op.kind.name()).collect();
                let outputs: Vec<_> = net.outputs.iter().map(|&o| &net.value(o).name).collect();
                println!("{name}: {} -> {outputs:?} {notes:?}", ops.join(", "));
                let inputs: Vec<Tensor> = (net.inputs.iter())
                    .map(|&i| Tensor {
                        shape: net.value(i).ty.shape.clone(),
                        data: Data::from_f32(net.value(i).ty.dtype, &vec![1.0; net.value(i).ty.elements()]),
                    })
                    .collect();
                eval(&net, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
                read += 1;
            }
            Err(error) => {
                println!("{name}: {error}");
                assert!(
                    matches!(error, Error::File { .. } | Error::OutOfBounds { .. } | Error::Unsupported { .. }),
                    "{error}"
                );
            }
        }
    }
    assert!(read + 6 >= paths.len(), "only {read} of {}", paths.len());
}
