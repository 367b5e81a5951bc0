//! Host segments in every form that carries them: a dispatch descriptor beside its containers, the runtime's bundle, the cache.

use anemone::host::Evaluator;
use anemone::runtime::{ENGINE_ONLY, ModelCompiler};
use anemone::{Array, Form, Model, ProgramChain, forms};
use anemone_compile::Options;
use anemone_facts::chips::CHIPS;
use anemone_runtime::cache::Cache;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{CompileOptions, Runtime, Stream};
use half::f16;
use std::path::Path;
use std::sync::Arc;

/// Tokens are gathered from a table that the engine has no way for, then there is work for the engine, places are computed on
/// the host again, and the engine ends: two programs and two host segments.
fn network() -> String {
    let table: Vec<String> = (0..600 * 8).map(|i| format!("{:?}", ((i * 37 % 101) as f32 - 50.0) / 64.0)).collect();
    format!(
        r#"net "tokens" {{
  input %ids: i32[4]
  input %places: i32[2]
  const %table: f16[600, 8] = [{}]
  const %one: i32[1] = [1]
  %next: i32[4] = add(%ids, %one)
  %rows: f16[4, 8] = gather(%table, %next) axis=0
  %warm: f16[4, 8] = relu(%rows)
  %picked: f16[2, 8] = gather(%warm, %places) axis=0
  %y: f16[2, 8] = add(%picked, %picked)
  output %y
}}
"#,
        table.join(", ")
    )
}

fn written(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("tokens.net");
    std::fs::write(&path, network()).expect("written");
    path
}

fn chain() -> ProgramChain {
    let net = anemone_net::text::parse(&network(), &[]).expect("the text parses");
    ProgramChain::whole(&net, &CHIPS[0], &Options::default()).expect("a chain").0
}

fn inputs() -> Vec<(String, Array)> {
    let array = |data: &[f32]| Array { shape: vec![data.len()], data: data.to_vec() };
    vec![("ids".into(), array(&[0.0, 7.0, 598.0, 33.0])), ("places".into(), array(&[2.0, 1.0]))]
}

/// Expected output of the network: row `ids[places] + 1` of the table, clamped, twice.
fn expected() -> Vec<f32> {
    let row = |id: usize| (0..8).map(move |c| (((id * 8 + c) * 37 % 101) as f32 - 50.0) / 64.0);
    [599, 8].into_iter().flat_map(row).map(|x| 2.0 * f16::from_f32(x).to_f32().max(0.0)).collect()
}

fn run(chain: &ProgramChain) -> Vec<f32> {
    let run = chain.execution(Default::default()).expect("plans").run(&inputs()).expect("runs");
    run.outputs[0].1.data.clone()
}

#[test]
fn a_descriptor_carries_them_as_processor_calls() {
    let chain = chain();
    assert!(!chain.hosts().is_empty() && !chain.programs().is_empty(), "{} hosts", chain.hosts().len());
    assert_eq!(run(&chain), expected());
    let folder = tempfile::tempdir().expect("a folder");
    for file in forms::files(&chain, &CHIPS[0], &[Form::Hwx, Form::E5], "tokens", "tokens.net").expect("files") {
        std::fs::write(folder.path().join(&file.name), file.bytes()).expect("written");
    }
    let path = folder.path().join("tokens.e5");
    let Model::Descriptor(descriptor) = Model::load(&path).expect("reads") else { panic!("no descriptor") };
    assert_eq!(descriptor.check(), []);
    let kinds: Vec<u64> = descriptor.operations().map(|op| op.number("op_type")).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == 3).count(), chain.hosts().len(), "CpuInference");
    assert_eq!(kinds.iter().filter(|kind| **kind == 1).count(), chain.programs().len(), "AneInference");
    let again = ProgramChain::beside(&path, &descriptor).expect("the chain reads");
    assert_eq!(run(&again), expected());
    let listing = anemone_program::text::list_descriptor(&descriptor);
    assert_eq!(anemone_program::text::assemble_descriptor(&listing).expect("assembles").write(), descriptor.write());
}

#[test]
fn other_forms_refuse_them_by_name() {
    for form in [Form::Hwx, Form::Bin, Form::Anec, Form::Firmware] {
        let error = forms::files(&chain(), &CHIPS[0], &[form], "tokens", "tokens.net").expect_err("refused");
        assert!(error.message.contains("host segment") && error.message.contains("gather"), "{}", error.message);
        assert!(error.message.contains(form.name()), "{}", error.message);
    }
}

/// Runs by the runtime, with integers as they are.
fn dispatch(runtime: &Arc<Runtime>, model: &Path) -> Vec<f32> {
    let library = runtime.compile(model, &CompileOptions::default()).expect("compiles");
    let operation = library.function("main").and_then(|f| f.operation()).expect("loads");
    let mut result = None;
    for info in &library.signature().ports {
        let buffer = runtime.buffer(anemone_runtime::e5rt::cast::dense_bytes(info).expect("bytes")).expect("memory");
        operation.port(&info.name, info.output).expect("a port").bind(&buffer).expect("binds");
        if info.output {
            result = Some(buffer);
            continue;
        }
        assert_eq!(info.dtype, 7, "{} is int32", info.name);
        let (_, array) = inputs().into_iter().find(|(name, _)| *name == info.name).expect("an input");
        let bytes: Vec<u8> = array.data.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect();
        buffer.shared().write(&bytes);
    }
    let stream = Stream::new(runtime);
    stream.encode(&operation).expect("encodes");
    for _ in 0..3 {
        stream.execute().expect("executes");
    }
    let bytes = result.expect("an output").shared().to_vec();
    bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
}

#[test]
fn the_runtime_executes_them_and_the_cache_keeps_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = written(folder.path());
    let device = Arc::new(InProcess::start().expect("a driver"));
    let cache = || Cache::new(&folder.path().join("cache"), 1 << 30);
    let make = || Runtime::new(device.clone(), Arc::new(ModelCompiler), Some(cache())).with_host(Arc::new(Evaluator));
    let first = Arc::new(make());
    assert_eq!(dispatch(&first, &model), expected());
    let again = Arc::new(make());
    assert_eq!(dispatch(&again, &model), expected());
    let compiles = |runtime: &Runtime| runtime.counts().compiles.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((compiles(&first), compiles(&again)), (1, 0), "the second one finds it");
    let segments = first.counts().host_segments.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(segments as usize, 3 * chain().hosts().len());
    // An exported entry is the same bundle.
    let key = first.key(&model, &CompileOptions::default()).expect("a key");
    let file = cache().export(&key).expect("exports");
    assert_eq!(Some(Cache::open_export(&file).expect("opens").1), cache().fetch(&key));
}

#[test]
fn without_an_executor_or_with_the_engine_alone_they_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = written(folder.path());
    let device = Arc::new(InProcess::start().expect("a driver"));
    let runtime = Arc::new(Runtime::new(device, Arc::new(ModelCompiler), None));
    let library = runtime.compile(&model, &CompileOptions::default()).expect("compiles");
    let error = library.function("main").and_then(|f| f.load()).expect_err("nobody runs it").to_string();
    assert!(error.contains("no host executor"), "{error}");
    let options = CompileOptions { segmenter: ENGINE_ONLY.into(), ..CompileOptions::default() };
    let Err(error) = runtime.compile(&model, &options) else { panic!("the engine has no way for it") };
    assert!(error.to_string().contains("gather"), "{error}");
}

#[test]
fn a_place_out_of_range_is_an_error_that_names_the_segment() {
    let mut given = inputs();
    given[0].1.data[0] = 4000.0;
    let chain = chain();
    let error = chain.execution(Default::default()).expect("plans").run(&given).expect_err("no such row");
    assert!(error.message.contains("host segment"), "{}", error.message);
}

#[test]
fn outputs_that_are_inputs_are_given_back() {
    let net = |body: &str| {
        let text =
            format!("net \"n\" {{\n  input %x: f32[2]\n  input %k: i32[2]\n{body}  output %x\n  output %k\n}}\n");
        anemone_net::text::parse(&text, &[]).expect("the text parses")
    };
    let inputs: Vec<(String, Array)> = [("x", [1.00001, -2.0]), ("k", [70001.0, 3.0])]
        .map(|(name, data)| (name.to_string(), Array { shape: vec![2], data: data.to_vec() }))
        .to_vec();
    for body in ["  %y: f32[2] = neg(%x)\n  output %y\n", ""] {
        let chain = ProgramChain::whole(&net(body), &CHIPS[0], &Options::default()).expect("a chain").0;
        let run = chain.execution(Default::default()).expect("plans").run(&inputs).expect("runs");
        for (name, array) in &inputs {
            let given = run.outputs.iter().find(|(own, _)| own == name).map(|(_, array)| &array.data);
            assert_eq!(given, Some(&array.data), "{name}");
        }
        assert_eq!(run.outputs.len(), if body.is_empty() { 2 } else { 3 });
        let ports = chain.ports(anemone_program::Direction::Output).count();
        assert_eq!(ports, run.outputs.len());
    }
}
