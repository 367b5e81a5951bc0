//! N: buffers that are used where the caller prepared them.

use crate::nets::*;
use anemone_program::e5::{self, Call};
use anemone_program::hwx;
use anemone_runtime::cache::{Bundle, Function, PortInfo};
use anemone_runtime::driver::InjectedFault;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{Buffer, CompileOptions, Compiler, Operation, Runtime, Stream};
use half::f16;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Elements of every port here; rows of 64 bytes, which is the layout of the device too.
const ELEMENTS: usize = 4 * 32;

/// y = x + 1, then y = mid * 2: two programs of one descriptor, where the second reads what the first made.
struct TwoCalls;

impl Compiler for TwoCalls {
    fn content(&self, _: &Path) -> Result<[u8; 32], String> {
        Ok([7; 32])
    }

    fn compile(&self, _: &Path, _: &CompileOptions) -> Result<Bundle, String> {
        let first = compile(&wide().replace("%y", "%mid"));
        let second = compile(&wide().replace("%x", "%mid").replace("add", "mul").replace("[1.0]", "[2.0]"));
        let write = |program| hwx::from_program(program, &hwx::Options::default()).map(|c| c.write());
        let images = [write(&first).map_err(|e| e.to_string())?, write(&second).map_err(|e| e.to_string())?];
        let calls = [Call { program: &first, container: &images[0] }, Call { program: &second, container: &images[1] }];
        let descriptor =
            e5::from_calls(&calls, &[], &e5::Info { function: "main".into(), ..Default::default() }).write();
        let port = |name: &str, output| PortInfo { name: name.into(), dtype: 3, shape: vec![1, 4, 1, 32], output };
        let function =
            Function { name: "main".into(), ports: vec![port("x", false), port("y", true)], further: vec![] };
        let images = images.into_iter().map(Into::into).collect();
        Ok(Bundle { descriptor, images, function })
    }
}

fn wide() -> String {
    ADD_ONE.replace("1, 8]", "1, 32]")
}

struct Bench {
    device: Arc<InProcess>,
    runtime: Arc<Runtime>,
    operation: Arc<Operation>,
    _folder: tempfile::TempDir,
}

fn bench(compiler: Arc<dyn Compiler>, text: &str) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let device = Arc::new(InProcess::start().expect("a driver"));
    let runtime = Arc::new(Runtime::new(device.clone(), compiler, None));
    let net = folder.path().join("m.net");
    std::fs::write(&net, text).expect("written");
    let library = runtime.compile(&net, &CompileOptions::default()).expect("compiles");
    let operation = library.function("main").and_then(|f| f.operation()).expect("an operation");
    Bench { device, runtime, operation, _folder: folder }
}

impl Bench {
    fn bind(&self, port: &str, output: bool, buffer: &Arc<Buffer>) {
        self.operation.port(port, output).expect("a port").bind(buffer).expect("bound");
    }

    fn run(&self) {
        let stream = Stream::new(&self.runtime);
        stream.encode(&self.operation).expect("encodes");
        stream.execute().expect("executes");
    }

    /// Bytes that were sent, and bytes that were used in place.
    fn bytes(&self) -> (u64, u64) {
        let counts = self.runtime.counts();
        let sent = counts.input_bytes.load(Relaxed) + counts.state_bytes.load(Relaxed);
        (sent, counts.in_place_bytes.load(Relaxed))
    }
}

fn buffer(value: f32) -> Arc<Buffer> {
    let buffer = Buffer::new(2 * ELEMENTS as u64).expect("memory");
    fill(&buffer, value);
    buffer
}

fn fill(buffer: &Buffer, value: f32) {
    buffer.shared().write(&f16::from_f32(value).to_le_bytes().repeat(ELEMENTS));
}

fn value(buffer: &Buffer) -> f32 {
    let bytes = buffer.shared().to_vec();
    assert!(bytes.chunks_exact(2).all(|pair| pair == &bytes[..2]), "all elements are alike");
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// The engine reads the buffer itself: what is written after the submission, and before the engine begins, counts.
#[test]
fn n01_no_copy_at_the_boundary() {
    let b = bench(Arc::new(TextCompiler), &wide());
    let (x, y) = (buffer(1.0), buffer(0.0));
    b.bind("x", false, &x);
    b.bind("y", true, &y);
    b.run();
    assert_eq!((value(&y), b.bytes()), (2.0, (0, 4 * ELEMENTS as u64)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (late, kept, before) = (Arc::clone(&x), Arc::clone(&seen), Arc::clone(&y));
    b.device.driver().set_hook(Some(Arc::new(move |_| {
        kept.lock().expect("no panic").push(value(&before));
        fill(&late, 5.0);
    })));
    b.run();
    assert_eq!((value(&y), seen.lock().expect("no panic").clone()), (6.0, vec![2.0]));
}

/// A port whose rows are padded on the device has memory of its own, and a buffer longer than the tensor keeps its rest.
#[test]
fn n02_other_layouts_are_cast() {
    let b = bench(Arc::new(TextCompiler), ADD_ONE);
    let (x, y) = (buffer(1.0), buffer(9.0));
    b.bind("x", false, &x);
    b.bind("y", true, &y);
    b.run();
    let bytes = y.shared().to_vec();
    let at = |i: usize| f16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]).to_f32();
    assert_eq!((at(0), at(31), at(32), at(ELEMENTS - 1)), (2.0, 2.0, 9.0, 9.0));
    assert_eq!(b.bytes(), (64, 0));
}

/// State in one buffer, and in two that change places; buffers that come and go.
#[test]
fn n03_states_and_other_buffers() {
    let b = bench(Arc::new(TextCompiler), &wide());
    let state = buffer(0.0);
    b.bind("x", false, &state);
    b.bind("y", true, &state);
    (0..4).for_each(|_| b.run());
    assert_eq!(value(&state), 4.0);
    fill(&state, 10.0);
    b.run();
    assert_eq!((value(&state), b.bytes().0), (11.0, 0));
    let mut pair = [buffer(0.0), buffer(0.0)];
    for turn in 1..=4 {
        b.bind("x", false, &pair[0]);
        b.bind("y", true, &pair[1]);
        b.run();
        pair.swap(0, 1);
        assert_eq!(value(&pair[0]), turn as f32);
    }
    let mappings = || b.device.driver().with_dart(|dart| dart.counts().0);
    b.run();
    let before = mappings();
    for turn in 0..20 {
        let (x, y) = (buffer(turn as f32), buffer(0.0));
        b.bind("x", false, &x);
        b.bind("y", true, &y);
        b.run();
        assert_eq!(value(&y), turn as f32 + 1.0);
    }
    assert!(mappings() <= before + 8, "surfaces of dropped buffers are given back: {} after {before}", mappings());
}

/// Two programs: the first reads the buffer of the input, the second writes that of the output; one buffer on both is read whole before
/// it is written.
#[test]
fn n04_two_calls() {
    let b = bench(Arc::new(TwoCalls), "");
    let (x, y) = (buffer(3.0), buffer(0.0));
    b.bind("x", false, &x);
    b.bind("y", true, &y);
    b.run();
    assert_eq!((value(&x), value(&y), b.bytes()), (3.0, 8.0, (0, 4 * ELEMENTS as u64)));
    b.bind("y", true, &x);
    b.run();
    assert_eq!((value(&x), value(&y)), (8.0, 8.0));
    b.run();
    assert_eq!(value(&x), 18.0);
    assert!(b.bytes().0 > 0, "a state of two programs is cast");
}

/// A request that ends early has changed nothing, where its buffers lie.
#[test]
fn n05_a_request_that_ends_early() {
    let b = bench(Arc::new(TextCompiler), &wide());
    let (x, y) = (buffer(1.0), buffer(7.0));
    b.bind("x", false, &x);
    b.bind("y", true, &y);
    let stream = Stream::new(&b.runtime);
    stream.encode(&b.operation).expect("encodes");
    b.device.driver().trouble(InjectedFault::Withheld);
    let (_, done) = stream.submit(Some(Duration::from_millis(50))).expect("submitted");
    done.wait(Duration::from_secs(10)).expect_err("it cannot complete");
    assert_eq!(value(&y), 7.0);
    b.run();
    assert_eq!(value(&y), 2.0);
}

/// Numbers are checked where the outputs lie.
#[test]
fn n06_numbers_that_are_not_finite() {
    let b = bench(Arc::new(TextCompiler), &wide().replace("add", "mul").replace("[1.0]", "[2.0]"));
    let (x, y) = (buffer(2.0), buffer(0.0));
    b.bind("x", false, &x);
    b.bind("y", true, &y);
    b.run();
    b.operation.check_numbers().expect("finite");
    fill(&x, 60000.0);
    b.run();
    let refused = b.operation.check_numbers().expect_err("beyond the range of halves").to_string();
    assert!(refused.contains("128 of 128"), "{refused}");
}
