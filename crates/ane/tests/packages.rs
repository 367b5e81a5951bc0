//! Real Core ML packages: compiled, executed from their words, compared with the package's own graph in fp32.
//!
//! Admitted: four times the distance between the graph in fp32 and the graph with fp16 rounding after each operation,
//! or 2e-3 of the largest value, whichever is larger. A package with an operation that is not lowered must be refused
//! by the operation's name.

mod common;

use anemone::tensor::{compare, read_npy};
use anemone::{Code, Model, execute};
use anemone_compile::Options;
use anemone_facts::chips;
use common::*;
use std::path::Path;

fn check(folder: &Path) -> Result<String, String> {
    let text = |e: anemone::Diagnostic| e.to_string();
    let model = Model::load(&folder.join("model.mlpackage"));
    let compiled = match model.and_then(|m| m.compile(&chips::CHIPS[0], &Options::default(), &mut ())) {
        Ok(compiled) => compiled,
        Err(e) if e.code == Code::UnsupportedOp && e.help.is_some() => return Ok(format!("{REFUSED}{e}")),
        Err(e) => return Err(text(e)),
    };
    let input = read_npy(&folder.join("input.npy")).map_err(text)?;
    let wanted = read_npy(&folder.join("expected_pkg_fp32.npy")).map_err(text)?;
    let rounded = read_npy(&folder.join("expected_pkg_fp16sim.npy")).map_err(text)?;
    let net = compiled.net.as_ref().ok_or("no network")?;
    let name = net.value(net.inputs[0]).name.clone();
    let run = execute(&compiled.program, &[(name, input)], Default::default()).map_err(text)?;
    let got = &run.outputs[0].1;
    if got.data.len() != wanted.data.len() {
        return Err(format!("{} elements for {}", got.data.len(), wanted.data.len()));
    }
    let largest = wanted.data.iter().fold(0f32, |m, x| m.max(x.abs()));
    let distance = compare(&rounded.data, &wanted.data, 0.0, 0.0).max_abs;
    let admitted = (4.0 * distance).max(2e-3 * largest);
    let error = compare(&got.data, &wanted.data, 0.0, 0.0).max_abs;
    let note = format!("{} tasks, largest error {error:.3e}, {admitted:.3e} admitted", run.tasks);
    if error <= admitted { Ok(note) } else { Err(note) }
}

/// How the note of a refusal begins.
const REFUSED: &str = "refused by name: ";

/// Packages that must run, whatever else is refused.
const MUST_RUN: [&str; 4] = ["conv_bn_relu_ios15", "conv_bn_relu_fp32_ios15", "mobilenet_v2_fp16", "ppocr_cls_fp16"];

#[test]
fn packages_match_their_graphs() {
    let Some(dir) = models_dir() else { return };
    let mut score = Score::default();
    for folder in entries(&dir).into_iter().filter(|p| p.join("model.mlpackage").is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match check(&folder) {
            Ok(note) if note.starts_with(REFUSED) && !MUST_RUN.contains(&name.as_str()) => score.skip(&name, &note),
            Ok(note) if note.starts_with(REFUSED) => score.case(&name, Err(note)),
            outcome => score.case(&name, outcome),
        }
    }
    score.close();
}

#[test]
fn digits_are_recognized() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    let compiled = Model::load(&dir.join("digits.mlpackage"))
        .and_then(|m| m.compile(&chips::CHIPS[0], &Options::default(), &mut ()))
        .expect("the example compiles");
    let images = read_npy(&dir.join("test_images.npy")).expect("images");
    let labels = read_npy(&dir.join("test_labels.npy")).expect("labels");
    let right = images
        .data
        .chunks(64)
        .zip(&labels.data)
        .filter(|(image, label)| {
            let array = anemone::Array { shape: vec![1, 1, 8, 8], data: image.to_vec() };
            let run = execute(&compiled.program, &[("image".into(), array)], Default::default()).expect("runs");
            let probabilities = &run.outputs[0].1.data;
            let best = (0..10).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
            best == Some(**label as usize)
        })
        .count();
    // PyTorch in fp32 gets 61 of these 64 right.
    assert_eq!(right, 61, "of {}", labels.data.len());
}
