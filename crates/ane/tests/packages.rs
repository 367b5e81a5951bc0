//! Real Core ML packages: compiled, executed from their words in both modes, compared with the package's own graph in
//! fp32.
//!
//! Admitted: a multiple of the distance between the graph in fp32 and the graph with fp16 rounding after each operation, or
//! a share of the largest value, whichever is larger; see `facts::tolerance`. A package with an operation that is not lowered must be refused
//! by the operation's name.

mod common;

use anemone::execute::Execution;
use anemone::tensor::{compare, read_npy};
use anemone::{Array, Code, Model as Source, execute};
use anemone_compile::Options;
use anemone_engine::Options as EngineOptions;
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_facts::tolerance::{self, NETWORK_FACTOR};
use anemone_program::hwx;
use anemone_program::text::{Dump, Selection};
use common::*;
use std::path::Path;
use std::time::Instant;

fn check(folder: &Path) -> Result<String, String> {
    let text = |e: anemone::Diagnostic| e.to_string();
    let model = Source::load(&folder.join("model.mlpackage"));
    let compiled = match model.and_then(|m| m.compile(&chips::CHIPS[0], &Options::default(), &mut ())) {
        Ok(compiled) => compiled,
        Err(e) if e.code == Code::UnsupportedOp && e.help.is_some() => return Ok(format!("{REFUSED}{e}")),
        Err(e) => return Err(text(e)),
    };
    // Nothing of what was written is strange to who reads it.
    let container = hwx::from_program(&compiled.program, &hwx::Options::default()).map_err(|e| e.to_string())?;
    if let Some(anomaly) = Dump::of_container(&container, &Selection::default()).anomalies.first() {
        return Err(format!("unexplained: {anomaly:?}"));
    }
    let input = read_npy(&folder.join("input.npy")).map_err(text)?;
    let wanted = read_npy(&folder.join("expected_pkg_fp32.npy")).map_err(text)?;
    let rounded = read_npy(&folder.join("expected_pkg_fp16sim.npy")).map_err(text)?;
    let net = compiled.net.as_ref().ok_or("no network")?;
    let mut inputs = vec![(net.value(net.inputs[0]).name.clone(), input)];
    // States begin as zeros.
    inputs.extend(net.states.iter().map(|s| {
        let value = net.value(s.input);
        let data = vec![0.0; value.ty.elements()];
        (value.name.clone(), anemone::Array { shape: value.ty.shape.clone(), data })
    }));
    let torch = read_npy(&folder.join("expected_fp32.npy")).ok();
    let largest = wanted.data.iter().fold(0f32, |m, x| m.max(x.abs()));
    let distance = compare(&rounded.data, &wanted.data, 0.0, 0.0).max_abs;
    let admitted = (NETWORK_FACTOR * distance).max(tolerance::NETWORK.share * largest);
    let mut lines = vec![format!("largest value {largest:.3e}, {admitted:.3e} admitted")];
    let mut good = true;
    for model in [Model::Fast, Model::Fixed] {
        let started = Instant::now();
        let options = EngineOptions { model, ..EngineOptions::default() };
        let run = execute(&compiled.program, &inputs, options).map_err(text)?;
        let seconds = started.elapsed().as_secs_f32();
        // Later runs may do several tasks at once.
        let mut later = Execution::new(&compiled.program, options).map_err(text)?;
        later.run(&nets::others(&inputs)).map_err(text)?;
        let again = later.run(&inputs).map_err(text)?;
        if again.outputs.iter().zip(&run.outputs).any(|(again, first)| again.1.data != first.1.data) {
            return Err(format!("{}: another result in a later run", model.name()));
        }
        let got = &run.outputs[0].1;
        if got.data.len() != wanted.data.len() {
            return Err(format!("{} elements for {}", got.data.len(), wanted.data.len()));
        }
        let error = |of: &Array| format!("{:.3e}", compare(&got.data, &of.data, 0.0, 0.0).max_abs);
        good &= compare(&got.data, &wanted.data, 0.0, 0.0).max_abs <= admitted;
        lines.push(format!(
            "{}: {} tasks, {seconds:.2} s, largest error {} from the graph in fp32, {} from the graph with fp16 rounding, {} \
             from PyTorch",
            model.name(),
            run.tasks,
            error(&wanted),
            error(&rounded),
            torch.as_ref().map_or("?".into(), error)
        ));
    }
    let note = lines.join("\n     ");
    if good { Ok(note) } else { Err(note) }
}

/// Start of a refusal's note.
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
    let compiled = Source::load(&dir.join("digits.mlpackage"))
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
