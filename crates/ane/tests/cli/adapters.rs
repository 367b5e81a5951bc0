//! Adapter weights on a base that stays as it is: in this process and through a broker, against the program patched itself.

#![cfg(target_os = "linux")]

use anemone::runtime::ModelCompiler;
use anemone::{Array, execute};
use anemone_compile::{Options, compile};
use anemone_facts::chips::CHIPS;
use anemone_program::patch::{Part, apply, kernels};
use anemone_runtime::broker::client::{Remote, Route};
use anemone_runtime::broker::policy::{Known, Policy};
use anemone_runtime::broker::{Broker, Listening};
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{CompileOptions, Library, Runtime, Stream};
use anemone_runtime::os::socket;
use half::f16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn network() -> String {
    let weights: Vec<String> = (0..64).map(|i| format!("{:?}", (i % 7) as f32 / 4.0 - 0.5)).collect();
    format!(
        "net \"n\" {{\n  input %x: f16[1, 8, 2, 4]\n  const %w: f16[8, 8, 1, 1] = [{}]\n  %y: f16[1, 8, 2, 4] = conv(%x, %w) \
         strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n  output %y\n}}\n",
        weights.join(", ")
    )
}

fn input() -> Vec<f32> {
    (0..64).map(|i| (i % 5) as f32 - 2.0).collect()
}

fn dispatch(library: &Library, runtime: &Arc<Runtime>) -> Vec<f32> {
    let operation = library.function("main").and_then(|f| f.operation()).expect("loads");
    let (x, y) = (runtime.buffer(128).expect("memory"), runtime.buffer(128).expect("memory"));
    operation.port("x", false).expect("a port").bind(&x).expect("binds");
    operation.port("y", true).expect("a port").bind(&y).expect("binds");
    x.shared().write(&input().iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect::<Vec<u8>>());
    let stream = Stream::new(runtime);
    stream.encode(&operation).expect("encodes");
    stream.execute().expect("executes");
    y.shared().to_vec().chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
}

/// Base, adapted, and base again by a runtime, which must not disturb each other.
fn check(runtime: &Arc<Runtime>, model: &Path, pieces: &[(u64, Vec<u8>)], wanted: [&[f32]; 2]) {
    let library = runtime.compile(model, &CompileOptions::default()).expect("compiles");
    let adapted = library.adapted(pieces.to_vec()).expect("one program");
    assert_eq!(dispatch(&library, runtime), wanted[0]);
    assert_eq!(dispatch(&adapted, runtime), wanted[1]);
    assert_eq!(dispatch(&library, runtime), wanted[0]);
}

#[test]
fn an_adapter_replaces_weights_of_its_own_instance_alone() {
    let net = anemone_net::text::parse(&network(), &[]).expect("the text parses");
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let kernel = kernels(&program).expect("a chain").into_iter().flatten().next().expect("a kernel");
    let mut values = kernel.read(&program, Part::Weights).expect("coefficients");
    values.iter_mut().step_by(3).for_each(|v| *v = f16::from_f32(f16::from_bits(*v).to_f32() + 1.0).to_bits());
    let edits = kernel.edits(&program, Part::Weights, &values).expect("fits");
    let mut patched = program.clone();
    patched.edit_kernel(|kernel| apply(kernel, 0, &edits));
    let given = vec![("x".to_string(), Array { shape: vec![1, 8, 2, 4], data: input() })];
    let of = |program| execute(program, &given, Default::default()).expect("runs").outputs[0].1.data.clone();
    let wanted = [of(&program), of(&patched)];
    assert_ne!(wanted[0], wanted[1]);
    let pieces = [(0, patched.kernel.to_vec())];

    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("n.net");
    std::fs::write(&model, network()).expect("written");
    let device = Arc::new(InProcess::start().expect("a driver"));
    let runtime = Arc::new(Runtime::new(device, Arc::new(ModelCompiler), None));
    check(&runtime, &model, &pieces, [&wanted[0], &wanted[1]]);

    let key = anemone_facts::driver::entitlements::ADAPTER_WEIGHT.to_string();
    let digest = socket::digest_of("/proc/self/exe").expect("the digest of this test");
    let known = |entitlements| Policy {
        identity: vec![Known { digest: digest.clone(), team: "A".into(), entitlements, privileged: false }],
        ..Policy::default()
    };
    let broker = Broker::new(known(vec![key]), Arc::new(ModelCompiler), None).expect("a broker");
    let socket = folder.path().join("aned.sock");
    let listening = Listening::bind(&socket).expect("listens");
    let stop = Arc::new(AtomicBool::new(false));
    let (served, stopped) = (broker.clone(), stop.clone());
    let thread = std::thread::spawn(move || listening.serve(&served, &stopped).expect("serves"));
    let remote = || {
        let remote = Arc::new(Remote::connect(&socket, Route::Broker).expect("connects"));
        Arc::new(Runtime::new(remote.clone(), remote, None))
    };
    check(&remote(), &model, &pieces, [&wanted[0], &wanted[1]]);
    // Without its key the broker refuses.
    broker.set_policy(known(Vec::new()));
    let runtime = remote();
    let library = runtime.compile(&model, &CompileOptions::default()).expect("compiles");
    let adapted = library.adapted(pieces.to_vec()).expect("one program");
    let Err(error) = adapted.function("main").and_then(|f| f.operation()) else { panic!("the key is missing") };
    assert!(error.to_string().contains("adapterWeight"), "{error}");
    stop.store(true, Ordering::Relaxed);
    thread.join().expect("the broker ends");
}
