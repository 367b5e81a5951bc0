//! `ane run`: compile if needed, execute on the software engine, compare.

mod parts;
mod plan;
mod report;
mod tables;

use super::conventions::{ActivationsName, CompatName, ConventionName};
use super::trace::{self, Risk};
use super::{FIRST, ModelFlags, Voice, chip, print, reference, target};
use anemone::execute::{own_extents, state_at_start};
use anemone::tensor::{self, Array, views};
use anemone::{Chain, Code, Diagnostic, Model, Result, Run, files, warnings, warnings::Warning};
use anemone_compile::{Compat, Options};
use anemone_facts::numerics;
use anemone_net::{DType, Net};
use anemone_program::{Direction, cost};
use anemone_runtime::driver::Arithmetic;
use clap::Args;
use parts::{adapt, expectation_fits, hosts_told, once, segmented, traced, unknown, write};
use report::{Bound, Expectations, Tolerance, report, summary};
use serde_json::json;
use std::path::{Path, PathBuf};

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
outputs from 0 to 1 it is at most 0.01, or one and a half times that cost. Where an expectation is not \
met, no output is written.")]
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
    #[arg(long, value_parser = tolerance_value)]
    atol: Option<f32>,
    /// Tolerance relative to the expected value
    #[arg(long, value_parser = tolerance_value)]
    rtol: Option<f32>,
    /// Bound on a metric, in place of the default: max=, rms=, relative= (at most), cosine=, snr= (decibels; at least), top1
    #[arg(long, value_name = "METRIC=BOUND", value_delimiter = ',', requires = "expect", conflicts_with_all = ["atol", "rtol"])]
    tolerance: Vec<Bound>,
    /// Seed of random inputs, where none are given
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Chip to compile for
    #[arg(short, long, default_value = "m1")]
    target: String,
    /// Compiler version whose conventions to compile by
    #[arg(long)]
    compat: Option<CompatName>,
    /// Names of classes, one per line: prints the most probable one
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Skip fields that the engine does not obey
    #[arg(long)]
    lenient: bool,
    /// Arithmetic: in fp32, or as the device is known to compute
    #[arg(long, value_enum, default_value = "fast")]
    numerics: Numerics,
    /// File for a record of every task, as JSON: operands, bytes moved, saturations
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    plan: plan::Flags,
    /// Number of runs: each finds in a model's states the values that the one before left
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// End with exit code 1 where a warning about the numbers is given: values beyond fp16, NaN, inexact integers
    #[arg(long, conflicts_with = "reference")]
    strict_numerics: bool,
    #[command(flatten)]
    via: super::via::Flags,
    /// Compare every value with plain evaluation in fp32, or with the values by name in FILE.npz: a row for each operation
    #[arg(long, value_name = "FILE.npz", num_args = 0..=1, require_equals = true,
          conflicts_with_all = ["reference", "output", "trace", "repeat"])]
    by_layer: Option<Option<PathBuf>>,
    /// Other weights on the same base: arrays by the names that `ane patch` lists for the compiled program
    #[arg(long, value_name = "FILE.npz", conflicts_with_all = ["reference", "by_layer"])]
    adapter: Option<PathBuf>,
    /// Apple's verdict: refuse what Apple's compiler refuses, also for a form alone
    #[arg(long)]
    strict: bool,
    /// The book's way where it is another, as `ane compile --convention`
    #[arg(long, value_enum, default_value_t)]
    convention: ConventionName,
    /// Cut around scaled dot-product attention, as `ane compile --cut-attention`
    #[arg(long, conflicts_with_all = ["reference", "via", "by_layer"])]
    cut_attention: bool,
    /// Functions beyond ReLU as tables or as steps, as `ane compile --activations`
    #[arg(long, value_enum, default_value_t)]
    activations: ActivationsName,
    /// Refuse a model that needs host segments: operations that the compiler has no way to the engine for
    #[arg(long)]
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
    /// The same for a driver.
    pub fn arithmetic(self) -> Arithmetic {
        match self {
            Numerics::Fast => Arithmetic::Fast,
            Numerics::Exact => Arithmetic::Exact,
        }
    }
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    // A name that is not known is told before the model is read.
    if flags.target != FIRST {
        chip(&flags.target)?;
    }
    let model = Model::load_with(&flags.model, &flags.choices.choices()?)?;
    let chip = target(&flags.target, &model)?;
    if let Model::Net { net, notes } = &model {
        voice.reader_notes(notes);
        super::by_the_book(flags.convention, &flags.model, net, chip)?;
        if flags.strict
            && let Some(refused) = anemone::check::refused(&flags.model, &flags.choices.choices()?, chip, true)?.first
        {
            return Err(refused);
        }
    }
    if flags.reference {
        return by_reference(&flags, model, voice);
    }
    let compat = flags.compat.map_or_else(Compat::default, CompatName::compat);
    let bar = voice.progress(format!("compiling for {}", chip.target));
    let in_file = |d: Diagnostic| d.or_at(flags.model.display());
    let activations = flags.activations.activations();
    let options = Options { compat, convention: flags.convention.convention(), activations, ..Options::default() };
    let compiler = options;
    let described = matches!(model, Model::Descriptor(_));
    let compiled = match &model {
        Model::Net { net, .. } if flags.cut_attention => {
            parts::around_attention(net, chip, &options).map(|chain| (chain, Some(net.clone())))
        }
        Model::Net { .. } if !flags.engine_only => segmented(model, chip, &options, voice),
        _ => model.chain(&flags.model, chip, &options),
    };
    bar.finish_and_clear();
    let (mut chain, net) = compiled.map_err(in_file)?;
    let adapter = flags.adapter.as_deref().map(|path| adapt(&mut chain, path)).transpose()?.unwrap_or_default();
    parts::alone(&chain, flags.trace.is_some() || flags.plan.profile.is_some()).map_err(in_file)?;
    if described {
        hosts_told(&chain, voice);
    }
    chain.programs().iter().try_for_each(anemone::execute::check).map_err(in_file)?;
    let mut inputs = inputs(&flags, &chain, net.as_deref(), voice)?;
    let mut layers = 0;
    if let Some(given) = &flags.by_layer {
        if voice.json && !flags.expect.is_empty() {
            let message = "--json gives one document: --by-layer, or --expect";
            return Err(Diagnostic::new(Code::Usage, message));
        }
        let Some(net) = &net else {
            let message = "--by-layer compares with a network; this file is a compiled program";
            return Err(Diagnostic::new(Code::Usage, message).at(flags.model.display()));
        };
        let model = match flags.numerics {
            Numerics::Fast => numerics::Model::Fast,
            Numerics::Exact => chain.exact_model()?,
        };
        let execution = anemone_engine::Options { lenient: flags.lenient, model, ..Default::default() };
        layers = super::by_layer::run(net, chip, &options, &inputs, given.as_deref(), execution, voice)?;
        if flags.expect.is_empty() {
            return Ok(layers);
        }
    }
    let expected = named(&flags.expect, &chain, Direction::Output, "--expect")?;
    for (name, wanted) in &expected {
        expectation_fits(name, wanted, &chain, net.as_deref())?;
    }
    let targets = destinations(&flags.output, &chain)?;
    if let Some(path) = flags.trace.as_deref().filter(|path| targets.iter().any(|(_, target)| target == path)) {
        let message = format!("--trace: {} is also the file of an output", path.display());
        return Err(Diagnostic::new(Code::Usage, message));
    }
    let labels = flags.labels.as_deref().map(files::read).transpose()?;
    let model = match flags.numerics {
        Numerics::Fast => numerics::Model::Fast,
        Numerics::Exact => chain.exact_model()?,
    };
    let options = flags.plan.options(anemone_engine::Options { lenient: flags.lenient, model, ..Default::default() });
    if let Some(code) = flags.plan.look(&chain, options, &inputs, voice).map_err(in_file)? {
        return Ok(code);
    }
    let bar = voice.progress("executing".into());
    if flags.repeat > 1 && net.is_none() && !described {
        voice.note(
            "only a dispatch descriptor (.e5) says which ports are states: every run begins with the same inputs",
        );
    }
    let mut execution = if flags.via.wanted() { None } else { Some(chain.execution(options).map_err(in_file)?) };
    let request = super::via::Request {
        model: &flags.model,
        target: chip.target,
        arithmetic: flags.numerics.arithmetic(),
        engine_only: flags.engine_only,
        function: flags.choices.function.as_deref(),
        adapter: &adapter,
    };
    let session = flags.via.wanted().then(|| flags.via.open(&request, chain.states(), voice)).transpose();
    let session = session.map_err(in_file)?;
    let mut steps = Vec::new();
    let mut run = loop {
        let run = match &mut execution {
            None => session.as_ref().map_or_else(|| Ok(Run::default()), |session| session.run(&inputs)),
            Some(execution) => execution.run(&inputs),
        };
        let run = run.map_err(in_file)?;
        steps.push(run.outputs.iter().map(|(name, array)| (name.clone(), summary(array))).collect::<Vec<_>>());
        if steps.len() == flags.repeat as usize {
            break run;
        }
        chain.hand_over(&run.outputs, &mut inputs);
    };
    bar.finish_and_clear();
    if let Some(session) = &session {
        session.told(voice);
    }
    // The last one is told below, with what is expected of it.
    if !voice.json {
        for (i, step) in steps.iter().enumerate().take(steps.len() - 1) {
            for (name, text) in step {
                print(&format!("run {}: {name}{text}\n", i + 1))?;
            }
        }
    }
    if flags.via.wanted() {
        // The driver tells of requests, not of tasks: a run has all of each program's.
        run.tasks = chain.programs().iter().filter_map(|program| program.tasks().ok()).map(|tasks| tasks.len()).sum();
        if flags.trace.is_some() {
            run.trace = traced(&chain, options, &inputs, &run).map_err(in_file)?;
        }
    }
    run.skipped.iter().for_each(|f| voice.note(format!("skipped: {f}")));
    if let Some(net) = &net {
        own_extents(net, &mut run.outputs);
    }
    let warnings =
        net.as_deref().map_or_else(Vec::new, |net| warnings::of_run(net, model, &views(&inputs), &run.outputs));
    warnings.iter().for_each(|w| voice.note(format!("warning: {w}")));
    let strict = flags.strict_numerics && !warnings.is_empty();
    let tolerance = |name: &str, wanted: &Array| tolerance(&flags, net.as_deref(), &inputs, name, &wanted.data);
    let labels = labels.as_deref().zip(flags.labels.as_deref());
    let expected = Expectations { outputs: &expected, labels, tolerance: &tolerance };
    let (reports, missed) = report(&run.outputs, &expected, voice)?;
    if missed {
        tables::name_cause(net.as_deref(), chip, &compiler, &inputs, &expected, options, voice);
    }
    let failed = missed || strict;
    // The runtime counts no values, nor does a plan: a risk of zeros would be untrue. A recorded run has them.
    let traced = options.trace && (!flags.via.wanted() || !run.trace.is_empty());
    let risk = traced.then(|| Risk::of(&run.trace));
    if let Some(risk) = risk.as_ref().filter(|_| !voice.json && !voice.quiet) {
        print(&format!("{risk}\n"))?;
    }
    let costs = chain.programs().iter().map(|program| cost::of_program(program, chip));
    let time = costs.collect::<Option<Vec<_>>>().and_then(cost::Cost::sum);
    if let Some(time) = time.as_ref().filter(|_| !voice.json && !voice.quiet) {
        print(&format!("modelled: {time}\n"))?;
    }
    if let Some(path) = &flags.trace {
        let document = trace::document(&chain.programs()[0], chip.target, model, &run.trace);
        files::write_all(&[(path, format!("{document:#}\n").as_bytes())])?;
    }
    if !failed {
        write(&targets, &run.outputs, net.as_deref())?;
    } else if !targets.is_empty() {
        let why = if strict { "a warning about the numbers is given" } else { "an expectation is not met" };
        voice.note(format!("no output is written: {why}"));
    }
    if voice.json {
        let document = json!({
            "schema": "anemone.run/1", "chip": chip.target, "tasks": run.tasks, "numerics": model.name(),
            "programs": chain.programs().len(), "host_segments": chain.hosts().len(),
            "modelled": time.as_ref().map(trace::time),
            "risk": risk.as_ref().map(Risk::json), "runs": flags.repeat, "outputs": reports,
            "warnings": warnings.iter().map(Warning::json).collect::<Vec<_>>(),
        });
        print(&format!("{document}\n"))?;
    }
    if flags.via.wanted() {
        voice.detail(format!(
            "{} programs and {} host segments dispatched",
            chain.programs().len(),
            chain.hosts().len()
        ));
    } else {
        voice.detail(format!("{} tasks executed", run.tasks));
    }
    Ok(u8::from(failed).max(layers))
}

/// The network itself, evaluated and compared.
fn by_reference(flags: &Flags, model: Model, voice: Voice) -> Result<u8> {
    let Model::Net { net, .. } = model else {
        let message = "--reference evaluates a network; this file is a compiled program";
        return Err(Diagnostic::new(Code::Usage, message).at(flags.model.display()));
    };
    let names = reference::names(&net, &net.outputs);
    let plain: Vec<usize> =
        (0..names.len()).filter(|&at| net.states.iter().all(|s| s.output != net.outputs[at])).collect();
    let mut expected = Vec::new();
    for (at, path) in reference::pairs(&flags.expect, &names, &plain, "--expect")? {
        expected.push((names[at].clone(), tensor::read_npy(&path)?));
    }
    let targets = reference::pairs(&flags.output, &names, &plain, "--output")?;
    let targets: Vec<(String, PathBuf)> = targets.into_iter().map(|(at, path)| (names[at].clone(), path)).collect();
    let labels = flags.labels.as_deref().map(files::read).transpose()?;
    let (outputs, warnings) =
        reference::evaluate(&net, &flags.input, flags.seed, voice).map_err(|d| d.or_at(flags.model.display()))?;
    warnings.iter().for_each(|w| voice.note(format!("warning: {w}")));
    for (name, wanted) in &expected {
        if let Some((_, array)) = outputs.iter().find(|(n, a)| n == name && a.data.len() != wanted.data.len()) {
            let message = format!("output {name} is {:?}, expected {:?}", array.shape, wanted.shape);
            return Err(Diagnostic::new(Code::BadTensor, message));
        }
    }
    let tolerance = |output: &str, wanted: &Array| {
        let largest = wanted.data.iter().filter(|x| x.is_finite()).fold(0f32, |m, x| m.max(x.abs()));
        let given = flags.atol.is_some() || flags.rtol.is_some() || !flags.tolerance.is_empty();
        let exact = given || is_whole(&net, output);
        let atol = flags.atol.unwrap_or(if exact { 0.0 } else { REFERENCE_SHARE * largest });
        let bounds = flags.tolerance.clone();
        Tolerance { atol, rtol: flags.rtol.unwrap_or(0.0), bounds, ..Tolerance::default() }
    };
    let labels = labels.as_deref().zip(flags.labels.as_deref());
    let expected = Expectations { outputs: &expected, labels, tolerance: &tolerance };
    let (reports, failed) = report(&outputs, &expected, voice)?;
    if !failed {
        write(&targets, &outputs, Some(&net))?;
    }
    if voice.json {
        let warnings: Vec<_> = warnings.iter().map(Warning::json).collect();
        let told = json!({ "schema": "anemone.run/1", "reference": true, "outputs": reports, "warnings": warnings });
        print(&format!("{told}\n"))?;
    }
    Ok(u8::from(failed || flags.strict_numerics && !warnings.is_empty()))
}

/// Share of the largest expected value that fp32 sums in another order may lose.
const REFERENCE_SHARE: f32 = 1e-4;

/// A tolerance compares: it is a number, and not below zero.
fn tolerance_value(text: &str) -> std::result::Result<f32, String> {
    match text.parse::<f32>() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("a number of at least 0 is expected".into()),
    }
}

/// Input arrays by port name: given, or random; states are zeros.
fn inputs(flags: &Flags, chain: &Chain, net: Option<&Net>, voice: Voice) -> Result<Vec<(String, Array)>> {
    let mut all = named(&flags.input, chain, Direction::Input, "--input")?;
    if let Some(net) = net {
        tensor::all_fit(net, &views(&all))?;
    }
    for (i, port) in chain.ports(Direction::Input).enumerate() {
        if all.iter().any(|(n, _)| *n == port.name) {
            continue;
        }
        let s = port.shape;
        let shape = [s.n, s.c, s.h, s.w].map(|n| n as usize).to_vec();
        if let Some(zeros) = net.and_then(|net| state_at_start(net, port)) {
            all.push((port.name.clone(), zeros));
            continue;
        }
        if chain.states().iter().any(|state| state.input == port.name) {
            all.push((port.name.clone(), Array { shape, data: vec![0.0; s.elements() as usize] }));
            continue;
        }
        if !flags.input.is_empty() {
            return Err(Diagnostic::new(Code::Usage, format!("no data for input {}", port.name))
                .help(format!("--input {}=FILE.npy", port.name)));
        }
        voice.note(format!("input {}: random, seed {}", port.name, flags.seed));
        let value = net.and_then(|net| net.inputs.iter().map(|&id| net.value(id)).find(|v| v.name == port.name));
        let dtype = value.map_or(DType::F16, |value| value.ty.dtype);
        let data = tensor::random_as(dtype, flags.seed.wrapping_add(i as u64), s.elements() as usize);
        all.push((port.name.clone(), Array { shape, data }));
    }
    Ok(all)
}

/// `NAME=FILE`, or a file alone for the only port that is no state.
fn split(text: &str, chain: &Chain, direction: Direction, flag: &str) -> Result<(String, PathBuf)> {
    let names: Vec<&str> = chain.ports(direction).map(|p| p.name.as_str()).collect();
    if let Some((name, path)) = text.split_once('=')
        && !Path::new(text).exists()
    {
        return match names.iter().find(|n| **n == name) {
            Some(n) => Ok((n.to_string(), path.into())),
            None => Err(unknown(flag, name, &names)),
        };
    }
    let state = |name: &str| match direction {
        Direction::Input => chain.states().iter().any(|s| s.input == name),
        Direction::Output => chain.states().iter().any(|s| s.output == name),
    };
    let plain: Vec<&str> = names.iter().copied().filter(|name| !state(name)).collect();
    match plain.as_slice() {
        [name] => Ok((name.to_string(), text.into())),
        _ => Err(Diagnostic::new(Code::Usage, format!("{flag}: which of {}?", names.join(", ")))
            .help(format!("{flag} NAME={text}"))),
    }
}

fn named(flags: &[String], chain: &Chain, direction: Direction, flag: &str) -> Result<Vec<(String, Array)>> {
    let names: Vec<&str> = chain.ports(direction).map(|p| p.name.as_str()).collect();
    let mut all = Vec::new();
    for text in flags {
        if !text.ends_with(".npz") {
            let (name, path) = split(text, chain, direction, flag)?;
            all.push((name, tensor::read_npy(&path)?));
            continue;
        }
        for (name, array) in tensor::read_npz(Path::new(text))? {
            if !names.contains(&name.as_str()) {
                return Err(unknown(flag, &name, &names).at(text));
            }
            all.push((name, array));
        }
    }
    once(all.iter().map(|(n, _)| n.as_str()), flag)?;
    Ok(all)
}

fn destinations(flags: &[String], chain: &Chain) -> Result<Vec<(String, PathBuf)>> {
    let all = flags
        .iter()
        .map(|text| split(text, chain, Direction::Output, "--output"))
        .collect::<Result<Vec<(String, PathBuf)>>>()?;
    once(all.iter().map(|(n, _)| n.as_str()), "--output")?;
    once(all.iter().filter_map(|(_, path)| path.to_str()), "--output")?;
    Ok(all)
}

/// Returns true for an output of integers or truth values: another number is another answer.
fn is_whole(net: &Net, output: &str) -> bool {
    let value = net.outputs.iter().map(|&id| net.value(id)).find(|value| value.name == output);
    value.is_some_and(|value| !value.ty.dtype.is_float())
}

fn tolerance(flags: &Flags, net: Option<&Net>, inputs: &[(String, Array)], output: &str, wanted: &[f32]) -> Tolerance {
    if !flags.tolerance.is_empty() {
        return Tolerance { bounds: flags.tolerance.clone(), ..Tolerance::default() };
    }
    if flags.atol.is_some() || flags.rtol.is_some() {
        let (atol, rtol) = (flags.atol.unwrap_or(0.0), flags.rtol.unwrap_or(0.0));
        return Tolerance { atol, rtol, ..Tolerance::default() };
    }
    if net.is_some_and(|net| is_whole(net, output)) {
        return Tolerance::default();
    }
    Tolerance::by_default(wanted, net.and_then(|net| anemone::execute::rounding_cost(net, inputs, output)))
}
