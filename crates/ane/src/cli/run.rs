//! `ane run`: compile if needed, execute on the software engine, compare.

mod arrays;
pub(crate) mod by_layer;
mod counted;
mod outcome;
mod parts;
mod plan;
pub(crate) mod report;
mod stages;
mod tables;
mod tolerance;

use super::conventions::{ActivationsName, CompatName, ConventionName};
use super::{ModelFlags, Verbosity, print, reference};
use anemone::tensor::{self, Array};
use anemone::{Code, Diagnostic, Model, Result, files, warnings::Warning};
use anemone_runtime::driver::Arithmetic;
use clap::Args;
use parts::write;
use report::{Bound, Expectations, Tolerance, report};
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane run model.mlpackage --input image.npy
  ane run model.hwx --input a=a.npy --input b=b.npy --output out.npy
  ane run model.mlpackage --input x.npy --expect y.npy --atol 1e-3
  ane run model.mlpackage --input x.npy --expect y.npy --tolerance cosine=0.999,top1
  ane run model.mlpackage --input x.npy --expect y.npy --by-layer
  ane run model.onnx --dim N=1 --reference --input x.npy --output y.npy
  ane run decoder.mlpackage --input x.npy --repeat 4
  ane run model.mlpackage --input x.npy --by-layer

Without --atol and --rtol, the tolerance is 2e-3 of the largest expected value, or four times what rounding every \
result to fp16 costs in this network, whichever is larger; the same holds for the root of the mean squared error. For \
outputs from 0 to 1 it is at most 0.01, or one and a half times that cost. Of a compiled program, whose network is not \
known, the cost is what its outputs change by where inputs move by their last place. Where an expectation is not met, no \
output is written.

With -q, outputs that go to a file and expectations that are met are not printed.")]
pub struct Flags {
    /// Package, netplist, or compiled program
    model: PathBuf,
    /// Input data: NAME=FILE.npy, FILE.npy for a single input, or FILE.npz
    #[arg(short, long, value_name = "[NAME=]FILE")]
    input: Vec<String>,
    /// File for an output: NAME=FILE.npy, or FILE.npy for a single output
    #[arg(short, long, value_name = "[NAME=]FILE")]
    output: Vec<String>,
    /// Expected output: NAME=FILE.npy, or FILE.npy for a single output
    #[arg(long, value_name = "[NAME=]FILE")]
    expect: Vec<String>,
    /// Absolute tolerance
    #[arg(long, value_parser = tolerance::value)]
    atol: Option<f32>,
    /// Tolerance relative to the expected value
    #[arg(long, value_parser = tolerance::value)]
    rtol: Option<f32>,
    /// Bound on a metric instead of the default: max=, rms=, relative= (at most), cosine=, snr= (decibels; at least), top1
    #[arg(long, value_name = "METRIC=BOUND", value_delimiter = ',', requires = "expect", conflicts_with_all = ["atol", "rtol"])]
    tolerance: Vec<Bound>,
    /// Seed of random inputs, if none are given
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Chip to compile for
    #[arg(short, long, default_value = "m1")]
    target: String,
    /// Compiler version whose conventions are followed
    #[arg(long)]
    compat: Option<CompatName>,
    /// Names of classes, one per line: the most probable one is printed
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Skip fields that the engine does not obey
    #[arg(long, conflicts_with = "via")]
    lenient: bool,
    /// Arithmetic: in fp32, or as the device is known to compute
    #[arg(long, value_enum, default_value = "fast")]
    numerics: Numerics,
    /// File for a record of every task, as JSON: operands, bytes moved, saturations
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    plan: plan::Flags,
    /// Number of runs: each starts with the states of the run before
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// End with exit code 1 on any warning about the numbers: values beyond fp16, NaN, inexact integers
    #[arg(long, conflicts_with = "reference")]
    strict_numerics: bool,
    #[command(flatten)]
    via: super::via::Flags,
    /// Compare every value with fp32 evaluation, or with the values by name in FILE.npz: a row for each operation
    #[arg(long, value_name = "FILE.npz", num_args = 0..=1, require_equals = true,
          conflicts_with_all = ["reference", "output", "trace", "repeat"])]
    by_layer: Option<Option<PathBuf>>,
    /// Replace weights of the base: arrays by the names that `ane patch` lists for the compiled program
    #[arg(long, value_name = "FILE.npz", conflicts_with_all = ["reference", "by_layer"])]
    adapter: Option<PathBuf>,
    /// Apple's verdict: refuse what Apple's compiler refuses, even if only for its form; no host segments
    #[arg(long)]
    strict: bool,
    /// Source to follow in conflicts, as `ane compile --convention`
    #[arg(long, value_enum, default_value_t)]
    convention: ConventionName,
    /// Partition around scaled dot-product attention, as `ane compile --cut-attention`
    #[arg(long, conflicts_with_all = ["reference", "via", "by_layer"])]
    cut_attention: bool,
    /// Lower functions beyond ReLU to tables or steps, as `ane compile --activations`
    #[arg(long, value_enum, default_value_t)]
    activations: ActivationsName,
    /// Refuse a model that needs host segments: operations without a path on the engine
    #[arg(long, default_value_if("strict", "true", "true"))]
    engine_only: bool,
    /// Evaluate the network itself in fp32, without compiling it
    #[arg(long, conflicts_with_all = ["lenient", "numerics", "compat", "repeat"])]
    reference: bool,
    #[command(flatten)]
    choices: ModelFlags,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Numerics {
    /// fp16 operands, fp32 sums, one rounding
    Fast,
    /// The model of the chip's generation (docs/numerics.md); slower
    Exact,
}

impl Numerics {
    /// The corresponding arithmetic of a driver.
    pub fn arithmetic(self) -> Arithmetic {
        match self {
            Numerics::Fast => Arithmetic::Fast,
            Numerics::Exact => Arithmetic::Exact,
        }
    }
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    if let Some(file) = flags.output.iter().find(|file| file.to_lowercase().ends_with(".npz")) {
        let message = format!("--output {file}: each output is a file of one array, .npy");
        return Err(Diagnostic::new(Code::Usage, message).help("--output NAME=FILE.npy for each output"));
    }
    let (model, chip) = stages::read(&flags, verbosity)?;
    if flags.reference {
        return by_reference(&flags, model, verbosity);
    }
    let prepared = stages::prepare(&flags, model, chip, verbosity)?;
    let mut inputs = arrays::inputs(&flags, &prepared.chain, prepared.net.as_deref(), verbosity)?;
    let layers = stages::compare_layers(&flags, &prepared, &inputs, verbosity)?;
    if let (Some(code), true) = (layers, flags.expect.is_empty()) {
        return Ok(code);
    }
    let wanted = arrays::Wanted::of(&flags, &prepared.chain, prepared.net.as_deref())?;
    let options = flags.plan.options(prepared.execution(&flags)?);
    let looked = flags.plan.show(&prepared.chain, options, &inputs, verbosity);
    if let Some(code) = looked.map_err(|d| d.or_at(flags.model.display()))? {
        return Ok(code);
    }
    let run = stages::execute(&flags, &prepared, options, &mut inputs, verbosity)?;
    let failed = outcome::conclude(&flags, &prepared, &wanted, options, &inputs, run, verbosity)?;
    Ok(u8::from(failed).max(layers.unwrap_or(0)))
}

/// Evaluates the network itself, and compares its outputs.
fn by_reference(flags: &Flags, model: Model, verbosity: Verbosity) -> Result<u8> {
    let Model::Net { net, .. } = model else {
        let message = "--reference evaluates a network; this file is a compiled program";
        return Err(Diagnostic::new(Code::Usage, message).at(flags.model.display()));
    };
    let names = reference::names(&net, &net.outputs);
    let all = anemone::chain::counted_outputs(&net);
    let state = |at: usize| net.states.iter().any(|s| s.output == net.outputs[at]);
    let plain: Vec<usize> = (0..names.len()).filter(|&at| !state(at) && !counted::counts(&names[at], &all)).collect();
    let mut expected = Vec::new();
    for (at, path) in reference::pairs(&flags.expect, &names, &plain, "--expect")? {
        let wanted = tensor::read_npy(&path)?;
        let whole = counted::whole(&names[at], &wanted, &net.value(net.outputs[at]).ty.shape, &all);
        expected.push((names[at].clone(), whole.unwrap_or(wanted)));
    }
    let targets = reference::pairs(&flags.output, &names, &plain, "--output")?;
    let targets: Vec<(String, PathBuf)> = targets.into_iter().map(|(at, path)| (names[at].clone(), path)).collect();
    let labels = flags.labels.as_deref().map(files::read).transpose()?;
    let (outputs, warnings) =
        reference::evaluate(&net, &flags.input, flags.seed, verbosity).map_err(|d| d.or_at(flags.model.display()))?;
    warnings.iter().for_each(|w| verbosity.warn(format!("warning: {w}")));
    for (name, wanted) in &expected {
        if let Some((_, array)) = outputs.iter().find(|(n, a)| n == name && a.data.len() != wanted.data.len()) {
            let message = format!("output {name} is {:?}, expected {:?}", array.shape, wanted.shape);
            return Err(Diagnostic::new(Code::BadTensor, message));
        }
    }
    let tolerance = |output: &str, wanted: &Array| {
        let largest = wanted.data.iter().filter(|x| x.is_finite()).fold(0f32, |m, x| m.max(x.abs()));
        let given = flags.atol.is_some() || flags.rtol.is_some() || !flags.tolerance.is_empty();
        let exact = given || tolerance::is_whole(&net, output);
        let atol = flags.atol.unwrap_or(if exact { 0.0 } else { REFERENCE_SHARE * largest });
        let bounds = flags.tolerance.clone();
        Tolerance { atol, rtol: flags.rtol.unwrap_or(0.0), bounds, ..Tolerance::default() }
    };
    let labels = labels.as_deref().zip(flags.labels.as_deref());
    let written: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
    let expected = Expectations { outputs: &expected, labels, tolerance: &tolerance, written: &written };
    let (reports, failed) = report(&outputs, &expected, verbosity)?;
    if !failed {
        write(&targets, &outputs, Some(&net))?;
    }
    if verbosity.json {
        let warnings: Vec<_> = warnings.iter().map(Warning::json).collect();
        let told = json!({ "schema": "anemone.run/1", "reference": true, "outputs": reports, "warnings": warnings });
        print(&format!("{told}\n"))?;
    }
    Ok(u8::from(failed || flags.strict_numerics && !warnings.is_empty()))
}

/// Relative error, of the largest expected value, that another order of fp32 sums may cause.
const REFERENCE_SHARE: f32 = 1e-4;
