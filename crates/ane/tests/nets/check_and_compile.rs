//! Prediction and compiler do not drift apart: where `ane check` says that all of a program runs on an M1's engine, it
//! compiles for one, and where it says no, it does not, but for the rewrites that check tells of itself.

use crate::common;
use crate::differential::{draw, source};

use anemone::check::{self, Subject};
use anemone::{Choices, Model};
use anemone_check::Route;
use anemone_check::lint::Assumptions;
use anemone_check::own::REWRITES;
use anemone_compile::Options;
use anemone_compile::here::Here;
use anemone_facts::chips;
use anemone_net::outline::Outline;
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, TensorType, Value};
use common::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Predictions of check and of the compiler: that the model runs, and that it compiles. Rewrites that the first relies on go to
/// `used`.
fn both(model: &Path, used: &mut BTreeSet<&'static str>) -> (Result<(), String>, Result<(), String>) {
    let m1 = &chips::CHIPS[0];
    let choices = Choices::default();
    let predicted = match check::load(model, &choices) {
        Ok(Subject::Program(outline, _)) => {
            let placement = anemone_check::check(&outline, m1, Route::Direct);
            used.extend(placement.verdicts.iter().filter_map(|v| v.own));
            match placement.verdicts.iter().filter(|v| v.own.is_none()).find_map(|v| v.refusal.as_ref()) {
                None => Ok(()),
                Some(refusal) => Err(format!("{} {}", refusal.code, refusal.message)),
            }
        }
        Ok(Subject::Container(_)) => Err("a container".to_string()),
        Err(e) => Err(e.to_string()),
    };
    let compiled = Model::load_with(model, &choices)
        .and_then(|m| m.compile(m1, &Options::default(), &mut ()))
        .map(|_| ())
        .map_err(|e| e.to_string());
    (predicted, compiled)
}

/// The accepted programs for an M1, each with its weight file beside it.
fn oracles(golden: &Path, folder: &Path) -> Vec<(String, std::path::PathBuf)> {
    let accepted = oracle::records(golden).into_iter().filter(|(_, record)| record["status"] == "accepted");
    accepted
        .map(|(name, record)| {
            let own = folder.join(&name);
            std::fs::create_dir_all(&own).expect("a folder");
            let model = oracle::write_model(&record, &own).expect("a text and its weights");
            (name, model)
        })
        .collect()
}

/// Prediction of check for this compiler, and the result of compiling: task count or error.
fn here(model: &Path) -> Option<(Here, Result<usize, String>)> {
    let choices = Choices::default();
    let Ok(Subject::Program(outline, _)) = check::load(model, &choices) else { return None };
    let chips = anemone::reference::chip_list(&["m1".to_string()]).expect("the M1 is known");
    let mut report = check::report(model, *outline, &chips, Route::Direct, &Assumptions::default());
    report.compile(model, &choices).ok()?;
    let compiled = Model::load_with(model, &choices).ok()?.compile(chips[0].1, &Options::default(), &mut ());
    let tasks = compiled.map_err(|e| e.to_string()).map(|c| c.program.tasks().map_or(0, |tasks| tasks.len()));
    Some((report.answers.remove(0).here?, tasks))
}

/// Answers of `check --strict` and `compile --strict`, which compiles as without the option what Apple's compiler takes.
fn strict(model: &Path, compiles: bool) -> Option<[bool; 2]> {
    let choices = Choices::default();
    let Ok(Subject::Program(outline, _)) = check::load(model, &choices) else { return None };
    let chips = anemone::reference::chip_list(&["m1".to_string()]).expect("the M1 is known");
    let mut report = check::report(model, *outline, &chips, Route::Direct, &Assumptions::default());
    report.strict = true;
    report.compile(model, &choices).ok()?;
    let taken = check::refused(model, &choices, chips[0].1, true).ok()?.first.is_none();
    Some([report.failing(&[]).is_empty(), taken && compiles])
}

/// Contradiction between the two, in words.
fn contradiction(here: &Here, compiled: &Result<usize, String>) -> Option<String> {
    let agree = match (here, compiled) {
        (Here::Compiled { tasks, .. }, Ok(made)) => tasks == made,
        (Here::Refused(refusals), Err(why)) => refusals.first().is_some_and(|first| why.contains(&first.message)),
        _ => false,
    };
    (!agree).then(|| format!("check: {here:?}; compile: {compiled:?}"))
}

/// The models of the ONNX node suite, where `scripts/onnx_backend.py` has left them.
#[test]
fn check_of_the_suite_says_what_compile_does() {
    let Some(suite) = data_dir("ANE_ONNX_SUITE", "target/onnx-suite") else {
        println!("skipped: no models of the ONNX node suite (python3 scripts/onnx_backend.py, or set ANE_ONNX_SUITE)");
        return;
    };
    let models: Vec<_> = ["live", "constant"].iter().flat_map(|form| entries(&suite.join(form))).collect();
    let (mut compile, mut refused, mut differ) = (0, 0, Vec::new());
    for model in &models {
        let Some((here, compiled)) = here(model) else { continue };
        if here.compiles() {
            compile += 1
        } else {
            refused += 1
        }
        differ.extend(contradiction(&here, &compiled).map(|text| format!("{}: {text}", stem(model))));
        let answers = strict(model, compiled.is_ok()).filter(|[check, compile]| check != compile);
        differ.extend(answers.map(|answers| format!("{}: strict: {answers:?}", stem(model))));
    }
    println!("{} models: {compile} compile, {refused} are refused, {} differ", models.len(), differ.len());
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(compile > models.len() / 3, "most of the suite compiles");
}

#[test]
fn check_says_of_random_networks_what_compile_does() {
    let (mut seen, m1) = ([0, 0], &chips::CHIPS[0]);
    for seed in 0.. {
        let Some(case) = draw::draw(&mut source::Source::seeded(seed)) else { continue };
        let here = anemone_compile::here::here(&case.net, m1, &mut ()).expect("programs are made for the M1");
        let compiled = anemone_compile::compile(&case.net, m1, &Options::default(), &mut ());
        let compiled = compiled.map_err(|e| e.to_string()).map(|p| p.tasks().map_or(0, |tasks| tasks.len()));
        let text = contradiction(&here, &compiled);
        assert!(text.is_none(), "seed {seed}: {}\n{}", text.unwrap_or_default(), case.text());
        seen[usize::from(here.compiles())] += 1;
        if seen.iter().sum::<usize>() == 200 {
            break;
        }
    }
    println!("{} compile, {} are refused", seen[1], seen[0]);
    assert!(seen[1] > 100, "most random networks compile");
}

#[test]
fn what_is_predicted_compiles() {
    let scratch = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    if let Some(golden) = golden_dir() {
        all.extend(oracles(&golden, scratch.path()));
    }
    for folder in models_dir().map(|dir| entries(&dir)).unwrap_or_default() {
        let model = folder.join("model.mlpackage");
        if model.is_dir() {
            all.push((stem(&folder), model));
        }
    }
    all.push(("digits".into(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.mlpackage")));
    for (name, y, operation) in [
        ("sums", "[1, 4, 96]", "cumsum(x = x, axis = int32(-1))"),
        ("one", "[1, 4, 96]", "concat(values = (x), axis = int32(1), interleave = bool(false))"),
    ] {
        let text = format!(
            "program(1.3) {{ func main<ios18>(tensor<fp16, [1, 4, 96]> x) {{ tensor<fp16, {y}> y = {operation}[name = string(\"y\")]; }} -> (y); }}"
        );
        let path = scratch.path().join(format!("{name}.mil"));
        std::fs::write(&path, text).expect("a text");
        all.push((name.into(), path));
    }
    let (mut differ, mut used) = (BTreeMap::new(), BTreeSet::new());
    for (name, model) in &all {
        let (predicted, compiled) = both(model, &mut used);
        if predicted.is_ok() != compiled.is_ok() {
            let say = |r: Result<(), String>| r.err().unwrap_or_else(|| "yes".to_string());
            differ.insert(name.as_str(), format!("check: {}; compile: {}", say(predicted), say(compiled)));
        }
    }
    // More columns than a tensor is wide on an M1.
    let (predicted, wide) = foretold(&layer(true, [64, 32000, 1]));
    used.extend(wide);
    assert_eq!(predicted, None);
    println!("{} programs, {} differ, with {used:?}", all.len(), differ.len());
    assert!(differ.is_empty(), "{differ:#?}");
    if models_dir().is_some() {
        let idle: Vec<_> = REWRITES.iter().filter(|r| !used.contains(r.into)).collect();
        assert!(idle.is_empty(), "rewrites that no program needs: {idle:?}");
    }
}

/// A linear layer on so many rows, or a 1x1 convolution on so many columns, with a bias.
fn layer(linear: bool, [inputs, outputs, rows]: [usize; 3]) -> Net {
    let value = |name: &str, shape: &[usize], data: Option<Arc<Tensor>>| Value {
        name: name.into(),
        ty: TensorType { dtype: DType::F16, shape: shape.to_vec() },
        data,
        surface: None,
    };
    let constant = |name: &str, shape: &[usize]| {
        // Many different values: few would be stored as a palette.
        let number = |i: usize| half::f16::from_f32((i * 7919 % 4093) as f32 / 4096.0 - 0.5);
        let data = (0..shape.iter().product()).map(number).collect();
        value(name, shape, Some(Arc::new(Tensor { shape: shape.to_vec(), data: Data::F16(data) })))
    };
    let mut net = Net { name: "layer".into(), ..Net::default() };
    let (from, to, weights) = match linear {
        true => (vec![rows, inputs], vec![rows, outputs], vec![outputs, inputs]),
        false => (vec![1, inputs, 1, rows], vec![1, outputs, 1, rows], vec![outputs, inputs, 1, 1]),
    };
    let x = net.add_value(value("x", &from, None));
    let w = net.add_value(constant("w", &weights));
    let b = net.add_value(constant("b", &[outputs]));
    let y = net.add_value(value("y", &to, None));
    let kind = match linear {
        true => OpKind::Linear,
        false => OpKind::Conv { strides: vec![1, 1], pads: vec![(0, 0); 2], dilations: vec![1, 1], groups: 1 },
    };
    net.ops.push(Op { name: "y".into(), kind, inputs: vec![x, w, b], outputs: vec![y] });
    (net.inputs, net.outputs) = (vec![x], vec![y]);
    net
}

/// Reason why check predicts that a network does not compile for an M1, and the rewrites that it predicts for refused operations.
fn foretold(net: &Net) -> (Option<String>, Vec<&'static str>) {
    let placement = anemone_check::check(&Outline::of(net), &chips::CHIPS[0], Route::Direct);
    let refused = placement.verdicts.iter().filter(|v| v.own.is_none()).find_map(|v| v.refusal.as_ref());
    (refused.map(|r| r.message.clone()), placement.verdicts.iter().filter_map(|v| v.own).collect())
}

/// Weights around the 16 MiB that one task may have, up to the sizes of large language models: linear layers compile as the
/// 1x1 convolutions of their size do, and check says of both what happens.
#[test]
fn layers_of_every_size_are_predicted() {
    let m1 = &chips::CHIPS[0];
    let sizes = [
        [512, 512, 1],
        [2048, 4096, 1],
        [4096, 2048, 1],
        [4096, 2048, 64],
        [2047, 4099, 1],
        [4096, 4096, 1],
        [4096, 4096, 16],
        [512, 32000, 1],
        [300, 16001, 3],
        [16384, 512, 1],
        [11008, 1024, 1],
        // 64 MiB of weights.
        [1056, 32000, 1],
    ];
    for (at, size) in sizes.into_iter().enumerate() {
        // Above 16 MiB of weights one of the two, in turn: they take long.
        let large = size[0] * size[1] > 8 << 20;
        for linear in [true, false].into_iter().filter(|linear| !large || *linear == at.is_multiple_of(2)) {
            let net = layer(linear, size);
            let (predicted, _) = foretold(&net);
            let compiled = anemone_compile::compile(&net, m1, &Options::default(), &mut ()).map(|p| p.kernel.len());
            match (&predicted, &compiled) {
                (None, Ok(bytes)) => {
                    assert!(*bytes >= size[0] * size[1] * 2, "{size:?} linear {linear}: {bytes} bytes")
                }
                (Some(_), Err(_)) => {}
                _ => panic!("{size:?} linear {linear}: check says {predicted:?}, compile {compiled:?}"),
            }
        }
    }
}
