//! Counted loops over programs of the engine: in the chain, in a dispatch descriptor, in the runtime, unrolled, and in the dry run.

use anemone::host::Evaluator;
use anemone::runtime::{ENGINE_ONLY, ModelCompiler};
use anemone::{Array, Form, Model, ProgramChain, forms};
use anemone_compile::Options;
use anemone_compile::here::{Here, here};
use anemone_compile::segments::on_host;
use anemone_facts::chips::CHIPS;
use anemone_net::{Data, Net, Tensor, eval};
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{CompileOptions, Runtime, Stream};
use half::f16;
use std::path::Path;
use std::sync::Arc;

/// Elements of a state.
const STATE: usize = 8;
/// Turns: the programs of some hundred operations leave two of them over.
const TURNS: usize = 614;

/// A layer with a state: `h = tanh(W h + x)`, from the last step to the first, and the sum of what every step gives.
fn text() -> String {
    let weights: Vec<String> =
        (0..STATE * STATE).map(|i| format!("{:?}", ((i * 37 % 101) as f32 - 50.0) / 256.0)).collect();
    format!(
        r#"net "layer" {{
  input %x: f16[1, {STATE}, {TURNS}, 1]
  const %w: f16[{STATE}, {STATE}, 1, 1] = [{}]
  const %zero: f16[1, {STATE}, 1, 1] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0]
  %last: f16[1, {STATE}, 1, 1], %all: f16[1, {STATE}, {TURNS}, 1] = loop(%zero, %x, %w) turns={TURNS} carried=1 scanned=[[2, 1]] collected=[[2, 1]] body="net \"turn\" {{
    input %h: f16[1, {STATE}, 1, 1]
    input %part: f16[1, {STATE}, 1, 1]
    input %weight: f16[{STATE}, {STATE}, 1, 1]
    %past: f16[1, {STATE}, 1, 1] = conv(%h, %weight) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
    %sum: f16[1, {STATE}, 1, 1] = add(%past, %part)
    %next: f16[1, {STATE}, 1, 1] = tanh(%sum)
    output %next
    output %next
  }}"
  %y: f16[1, {STATE}, {TURNS}, 1] = add(%all, %all)
  output %y
  output %last
}}
"#,
        weights.join(", ")
    )
}

fn network() -> Net {
    anemone_net::text::parse(&text(), &[]).expect("the text parses")
}

fn chain() -> ProgramChain {
    ProgramChain::whole(&network(), &CHIPS[0], &Options::default()).expect("a chain").0
}

fn input() -> Array {
    let data = (0..STATE * TURNS).map(|i| f16::from_f32(((i * 13 % 29) as f32 - 14.0) / 32.0).to_f32()).collect();
    Array { shape: vec![1, STATE, TURNS, 1], data }
}

fn reference() -> Vec<Vec<f32>> {
    let Array { shape, data } = input();
    let outputs = eval::eval(&network(), &[Tensor { shape, data: Data::F32(data) }]).expect("evaluates");
    outputs.iter().map(|tensor| tensor.data.to_f32()).collect()
}

fn run(chain: &ProgramChain) -> Vec<Vec<f32>> {
    let run = chain.execution(Default::default()).expect("plans").run(&[("x".into(), input())]).expect("runs");
    run.outputs.into_iter().map(|(_, array)| array.data).collect()
}

#[track_caller]
fn close(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        let error = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 4e-3, "{error}");
    }
}

#[test]
fn turns_run_on_one_program_and_give_what_the_network_gives() {
    let chain = chain();
    let [repeat] = chain.loops() else { panic!("{} loops", chain.loops().len()) };
    let tasks: usize = chain.programs().iter().map(|p| p.tasks().expect("tasks").len()).sum();
    assert!(repeat.turns > 1 && repeat.turns < TURNS as u64 && chain.hosts().is_empty(), "{} turns", repeat.turns);
    assert!(tasks < TURNS * 3 / 2, "{tasks} tasks");
    assert!(chain.dispatches().contains(&repeat.turns));
    close(&run(&chain), &reference());
}

#[test]
fn one_program_has_them_unrolled_and_gives_the_same_bits() {
    let program = anemone::compile::program_of(&network(), &CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let unrolled = ProgramChain::of_network(&network(), program);
    assert!(unrolled.loops().is_empty() && unrolled.is_single());
    assert_eq!(run(&unrolled), run(&chain()));
}

#[test]
fn a_descriptor_carries_them_and_other_forms_refuse_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in forms::files(&chain(), &CHIPS[0], &[Form::Hwx, Form::E5], "layer", "layer.net").expect("files") {
        std::fs::write(folder.path().join(&file.name), file.bytes()).expect("written");
    }
    let path = folder.path().join("layer.e5");
    let Model::Descriptor(descriptor) = Model::load(&path).expect("reads") else { panic!("no descriptor") };
    assert_eq!(descriptor.check(), []);
    let again = ProgramChain::beside(&path, &descriptor).expect("the chain reads");
    assert_eq!(again.loops(), chain().loops());
    assert_eq!(run(&again), run(&chain()));
    let error = forms::files(&chain(), &CHIPS[0], &[Form::Hwx], "layer", "layer.net").expect_err("refused");
    assert!(error.message.contains("iterations") && error.message.contains("hwx"), "{}", error.message);
}

/// Outputs by the runtime, with the number of programs that the device ran.
fn dispatched(model: &Path, options: &CompileOptions) -> Vec<Vec<f32>> {
    let device = Arc::new(InProcess::start().expect("a driver"));
    let runtime = Arc::new(Runtime::new(device, Arc::new(ModelCompiler), None).with_host(Arc::new(Evaluator)));
    let library = runtime.compile(model, options).expect("compiles");
    let operation = library.function("main").and_then(|f| f.operation()).expect("loads");
    let mut results = Vec::new();
    for info in &library.signature().ports {
        let buffer = runtime.buffer(anemone_runtime::e5rt::cast::dense_bytes(info).expect("bytes")).expect("memory");
        operation.port(&info.name, info.output).expect("a port").bind(&buffer).expect("binds");
        if info.output {
            results.push(buffer);
        } else {
            let bytes: Vec<u8> = input().data.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
            buffer.shared().write(&bytes);
        }
    }
    let stream = Stream::new(&runtime);
    stream.encode(&operation).expect("encodes");
    for _ in 0..2 {
        stream.execute().expect("executes");
    }
    let floats = |bytes: Vec<u8>| bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
    results.iter().map(|buffer| floats(buffer.shared().to_vec())).collect()
}

#[test]
fn the_runtime_executes_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("layer.net");
    std::fs::write(&model, text()).expect("written");
    let expected = run(&chain());
    assert_eq!(dispatched(&model, &CompileOptions::default()), expected);
    let alone = CompileOptions { segmenter: ENGINE_ONLY.into(), ..CompileOptions::default() };
    assert_eq!(dispatched(&model, &alone), expected, "unrolled");
}

#[test]
fn the_dry_run_has_them_on_the_engine_unless_a_turn_needs_the_host() {
    let net = network();
    assert_eq!(on_host(&net, &CHIPS[0]).map(|host| host.len()), Some(0));
    let Some(Here::Compiled { tasks, .. }) = here(&net, &CHIPS[0], &mut ()) else { panic!("it compiles") };
    assert_eq!(tasks, chain().programs().iter().map(|p| p.tasks().expect("tasks").len()).sum::<usize>());
    // Turns that sort have no way to the engine.
    let sorted = text().replace(
        "%past: f16[1, 8, 1, 1] = conv(",
        "%order: i32[1, 8, 1, 1] = arg_sort(%h) axis=1 descending=true\n  %kept: f16[1, 8, 1, 1] = gather_along(%h, %order) axis=1\n  %past: f16[1, 8, 1, 1] = conv(",
    );
    let sorted = sorted.replace("conv(%h, ", "conv(%kept, ");
    let net = anemone_net::text::parse(&sorted, &[]).expect("the text parses");
    let host = on_host(&net, &CHIPS[0]).expect("a chain");
    assert!(host.contains_key("all") && matches!(here(&net, &CHIPS[0], &mut ()), Some(Here::Refused(_))), "{host:?}");
    let chain = ProgramChain::whole(&net, &CHIPS[0], &Options::default()).expect("a chain").0;
    assert!(!chain.hosts().is_empty() && chain.loops().len() == 1);
}
