//! J: runtime calls; with the rows of C about compiling, of E about streams, of H about state.

use crate::nets::*;
use anemone_facts::driver::IO_TYPES;
use anemone_program::e5::Descriptor;
use anemone_runtime::cache::{Cache, Key};
use anemone_runtime::driver::InjectedFault;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{Buffer, CompileOptions, Operation, Quirks, Runtime, Stream};
use anemone_runtime::{Code, Error};
use half::f16;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

struct Bench {
    folder: tempfile::TempDir,
    device: Arc<InProcess>,
    runtime: Arc<Runtime>,
}

fn bench_with(quirks: Quirks) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let device = Arc::new(InProcess::start().expect("a driver"));
    let cache = Cache::new(&folder.path().join("cache"), 1 << 30);
    let runtime = Runtime::new(device.clone(), Arc::new(TextCompiler), Some(cache)).with_quirks(quirks).with_trace();
    Bench { folder, device, runtime: Arc::new(runtime) }
}

fn bench() -> Bench {
    bench_with(Quirks::default())
}

impl Bench {
    fn model(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn operation(&self, text: &str) -> Arc<Operation> {
        let library = self.runtime.compile(&self.model("m.net", text), &CompileOptions::default()).expect("compiles");
        library.function("main").expect("main").operation().expect("an operation")
    }

    fn buffer(&self, operation: &Arc<Operation>, port: &str, output: bool) -> Arc<Buffer> {
        let port = operation.port(port, output).expect("a port");
        let bytes = port.info().shape.iter().product::<u64>() * 2;
        let buffer = self.runtime.buffer(bytes).expect("a buffer");
        port.bind(&buffer).expect("bound");
        buffer
    }
}

fn halves(buffer: &Buffer) -> Vec<f32> {
    buffer.shared().to_vec().chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
}

fn fill(buffer: &Buffer, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
    buffer.shared().write(&bytes);
}

#[test]
fn c12_content_decides() {
    let b = bench();
    let compiles = || b.runtime.counts().compiles.load(Relaxed);
    let plain = CompileOptions::default();
    let net = b.model("a.net", ADD_ONE);
    b.runtime.compile(&net, &plain).expect("compiles");
    assert_eq!(compiles(), 1);
    assert!(!b.runtime.is_new_compile_required(&net, &plain).expect("asked"));
    // Another path, the same content: a hit.
    b.runtime.compile(&b.model("b.net", ADD_ONE), &plain).expect("hit");
    assert_eq!(compiles(), 1);
    for (name, text) in [("w", ADD_ONE.replace("[1.0]", "[1.5]")), ("s", ADD_ONE.replace("1, 8]", "1, 16]"))] {
        b.runtime.compile(&b.model(name, &text), &plain).expect("compiles");
    }
    let mask = CompileOptions { device_mask: 5, ..plain.clone() };
    b.runtime.compile(&net, &mask).expect("compiles");
    assert_eq!(compiles(), 4);
    let force = CompileOptions { force_recompilation: true, ..plain.clone() };
    b.runtime.compile(&net, &force).expect("again");
    assert_eq!(compiles(), 5);
    let only = CompileOptions { force_fetch: true, segmenter: "other".into(), ..plain };
    assert!(b.runtime.compile(&net, &only).is_err());
}

#[test]
fn c13_control_flow() {
    let b = bench();
    let text = ADD_ONE.replace("add(%x, %one)", "while_loop(%x, %one)");
    assert!(matches!(b.runtime.compile(&b.model("l", &text), &CompileOptions::default()), Err(Error::Compile(_))));
    // A loop of fixed trip count as a reader unrolls it: the body once for each trip.
    let unrolled = ADD_ONE
        .replace("%y:", "%a: f16[1, 4, 1, 8] = add(%x, %one)\n  %b: f16[1, 4, 1, 8] = add(%a, %one)\n  %y:")
        .replace("add(%x, %one)\n  output", "add(%b, %one)\n  output");
    let op = b.operation(&unrolled);
    let (x, y) = (b.buffer(&op, "x", false), b.buffer(&op, "y", true));
    fill(&x, &[2.0; 32]);
    let stream = Stream::new(&b.runtime);
    stream.encode(&op).expect("encode");
    stream.execute().expect("execute");
    assert_eq!(halves(&y), [5.0; 32]);
}

#[test]
fn e09_overlapped_streams() {
    for quirk in [false, true] {
        let b = bench_with(Quirks { stream_overlap: quirk });
        let slow = b.operation(ADD_ONE);
        let fast = b.operation(ADD_ONE);
        for op in [&slow, &fast] {
            b.buffer(op, "x", false);
            b.buffer(op, "y", true);
        }
        let first = std::sync::atomic::AtomicBool::new(true);
        b.device.driver().set_hook(Some(Arc::new(move |_| {
            if first.swap(false, Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
            }
        })));
        let (one, two) = (Stream::new(&b.runtime), Stream::new(&b.runtime));
        one.encode(&slow).expect("encode");
        two.encode(&fast).expect("encode");
        let (_, first_done) = one.submit(None).expect("submitted");
        std::thread::sleep(Duration::from_millis(50));
        let limit = quirk.then_some(Duration::from_millis(400));
        let (_, second_done) = two.submit(limit).expect("submitted");
        first_done.wait(Duration::from_secs(10)).expect("the first completes");
        let second = second_done.wait(Duration::from_secs(10));
        match quirk {
            false => second.expect("the second completes"),
            true => assert_eq!(second.map_err(|e| e.code()), Err(Code::ABORTED)),
        }
    }
}

#[test]
fn e10_eight_in_flight() {
    let b = bench();
    let stream = Stream::new(&b.runtime);
    let mut events = Vec::new();
    let op = b.operation(ADD_ONE);
    let state = b.buffer(&op, "x", false);
    op.port("y", true).unwrap().bind(&state).unwrap();
    for _ in 0..8 {
        events.push(stream.encode(&op).expect("encode"));
    }
    let (_, all) = stream.submit(None).expect("submit");
    assert!(stream.encode(&op).is_err() || all.is_done(), "no encoding in flight");
    events.iter().for_each(|e| e.wait(Duration::from_secs(10)).expect("fires"));
    all.wait(Duration::from_secs(10)).expect("fires");
    assert_eq!(halves(&state), [8.0; 32]);
}

#[test]
fn h01_resident_state() {
    let b = bench();
    let op = b.operation(ADD_ONE);
    let state = b.runtime.buffer(64).expect("a buffer");
    op.port("y", true).unwrap().bind(&state).unwrap();
    op.port("x", false).unwrap().bind(&state).unwrap();
    let stream = Stream::new(&b.runtime);
    for step in 1..=4 {
        stream.encode(&op).expect("encode");
        stream.execute().expect("execute");
        stream.reset();
        assert_eq!(halves(&state), [step as f32; 32]);
    }
    assert_eq!(b.runtime.counts().state_bytes.load(Relaxed), 0);
    // A value that the host writes is sent.
    fill(&state, &[10.0; 32]);
    stream.encode(&op).unwrap();
    stream.execute().unwrap();
    assert_eq!((halves(&state)[0], b.runtime.counts().state_bytes.load(Relaxed)), (11.0, 64));
}

#[test]
fn h02_resident_cache() {
    let b = bench();
    let op = b.operation(MASKED);
    let state = b.runtime.buffer(12).expect("a buffer");
    op.port("slots", false).unwrap().bind(&state).unwrap();
    op.port("next", true).unwrap().bind(&state).unwrap();
    let (mask, value) = (b.buffer(&op, "mask", false), b.buffer(&op, "value", false));
    let stream = Stream::new(&b.runtime);
    for t in 0..5 {
        let mut at = [0.0; 6];
        at[t] = 1.0;
        fill(&mask, &at);
        fill(&value, &[(t as f32 + 1.0) * 10.0; 6]);
        stream.encode(&op).unwrap();
        stream.execute().unwrap();
        stream.reset();
    }
    assert_eq!(halves(&state), [10.0, 20.0, 30.0, 40.0, 50.0, 0.0]);
    assert_eq!(b.runtime.counts().state_bytes.load(Relaxed), 0);
}

#[test]
fn h03_rejected_at_compile() {
    let b = bench();
    let refused = |text: String| b.runtime.compile(&b.model("r", &text), &CompileOptions::default()).is_err();
    assert!(refused(ADD_ONE.replace("f16", "bf16")));
    assert!(refused(ADD_ONE.replace("add(", "read_state(")));
    let codes: Vec<&str> = IO_TYPES.iter().map(|t| t.0).collect();
    assert_eq!(
        codes,
        ["int4", "uint8", "int8", "fp16", "fp32", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    );
}

#[test]
fn h08_both_loops() {
    let b = bench();
    let op = b.operation(ADD_ONE);
    let (x, y) = (b.buffer(&op, "x", false), b.buffer(&op, "y", true));
    let stream = Stream::new(&b.runtime);
    for (frame, prepare) in [(1.0, false), (2.0, true), (3.0, true), (4.0, false)] {
        fill(&x, &[frame; 32]);
        if prepare {
            op.prepare();
        }
        stream.encode(&op).unwrap();
        stream.execute().unwrap();
        stream.reset();
        assert_eq!(halves(&y), [frame + 1.0; 32]);
    }
    stream.execute().expect("an empty stream does nothing");
}

#[test]
fn i09_signposts() {
    let b = bench();
    let op = b.operation(ADD_ONE);
    b.buffer(&op, "x", false);
    b.buffer(&op, "y", true);
    let stream = Stream::new(&b.runtime);
    stream.encode(&op).unwrap();
    stream.execute().unwrap();
    let trace = b.runtime.trace().expect("traced");
    let spans = trace.spans();
    let host = |name: &str| {
        spans
            .iter()
            .filter(|s| s.name.starts_with(name))
            .map(|s| (s.start_ns, s.start_ns + s.length_ns))
            .collect::<Vec<_>>()
    };
    let (evaluate, eval, requests) = (host("EVALUATE"), host("EVAL"), host("DRIVER_REQUEST"));
    assert_eq!((evaluate.len(), requests.len()), (1, 3));
    let eval = eval.into_iter().find(|e| *e != evaluate[0]).expect("inside");
    assert!(evaluate[0].0 <= eval.0 && eval.1 <= evaluate[0].1);
    assert!(requests.iter().all(|r| eval.0 <= r.0 && r.1 <= eval.1));
    assert!(trace.json().contains("engine (modelled)"));
}

#[test]
fn j03_three_operations() {
    let b = bench();
    let mut six = String::from("net \"main\" {\n  input %x: f16[1, 4, 1, 8]\n  const %one: f16[1, 1, 1, 1] = [1.0]\n");
    for i in 0..6 {
        let from = if i == 0 { "x".into() } else { format!("v{i}") };
        let to = if i == 5 { "y".into() } else { format!("v{}", i + 1) };
        six += &format!("  %{to}: f16[1, 4, 1, 8] = add(%{from}, %one)\n");
    }
    six += "  output %y\n}\n";
    let sizes: Vec<usize> = [ADD_ONE, &six]
        .iter()
        .map(|text| {
            let library = b.runtime.compile(&b.model("j", text), &CompileOptions::default()).expect("compiles");
            let descriptor = &library.bundle().descriptor;
            let read = Descriptor::read(descriptor).expect("reads");
            let names: Vec<String> = read.operations().map(|o| o.text("name").to_string()).collect();
            assert_eq!(names, ["Op0_Cast", "Op1_AneInference", "Op2_Cast"]);
            descriptor.len()
        })
        .collect();
    assert_eq!(sizes[0], sizes[1]);
}

#[test]
fn j04_time_out() {
    let b = bench();
    let op = b.operation(ADD_ONE);
    let (x, y) = (b.buffer(&op, "x", false), b.buffer(&op, "y", true));
    fill(&x, &[1.0; 32]);
    let stream = Stream::new(&b.runtime);
    stream.encode(&op).unwrap();
    b.device.driver().trouble(InjectedFault::Withheld);
    let begin = Instant::now();
    let (_, done) = stream.submit(Some(Duration::from_millis(60))).expect("submitted");
    let error = done.wait(Duration::from_secs(10)).expect_err("it cannot complete");
    assert_eq!(error.code(), Code::ABORTED);
    assert!(begin.elapsed() >= Duration::from_millis(60) && begin.elapsed() < Duration::from_secs(2));
    assert_eq!(halves(&y), [0.0; 32], "nothing is published");
    stream.reset();
    stream.encode(&op).unwrap();
    stream.execute().expect("usable");
    assert_eq!(halves(&y), [2.0; 32]);
}

#[test]
fn cache_survives_damage() {
    let b = bench();
    let cache = b.runtime.cache().expect("a cache");
    let net = b.model("a.net", ADD_ONE);
    let library = b.runtime.compile(&net, &CompileOptions::default()).expect("compiles");
    let key = b.runtime.key(&net, &CompileOptions::default()).expect("a key");
    let image = cache.folder().join(key.text()).join("model.hwx");
    for name in ["model.hwx", "main.e5", "function.json", "seal", "model.anehash"] {
        cache.store(&key, library.bundle()).expect("stored");
        let path = cache.folder().join(key.text()).join(name);
        let mut bytes = std::fs::read(&path).expect("reads");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(cache.verify().len(), 1, "{name}");
        assert!(cache.fetch(&key).is_none(), "{name}");
        assert!(!image.exists());
    }
    cache.store(&key, library.bundle()).expect("stored");
    let exported = cache.export(&key).expect("exports");
    let other = Cache::new(&b.folder.path().join("other"), 1 << 30);
    assert_eq!(other.import(&exported).expect("imports"), key);
    assert_eq!(other.fetch(&key).as_ref(), Some(library.bundle()));
    for cut in [0, 7, 40, exported.len() - 1] {
        assert!(other.import(&exported[..cut]).is_err());
    }
    // Files of an interrupted writer are no entry, and are collected.
    let left = cache.folder().join(format!(".tmp-{}-abc", key.text()));
    std::fs::create_dir(&left).expect("made");
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    // Windows opens no folder: there it ages by itself.
    if std::fs::File::open(&left).and_then(|f| f.set_modified(old)).is_err() {
        std::thread::sleep(Duration::from_millis(1100));
    }
    assert_eq!((cache.list().len(), cache.collect(), left.exists()), (1, 1, false));
}

/// Some systems cannot move an entry that another process has open: then the old one stays, whole, and the error says so.
#[test]
fn cache_entries_that_are_open_elsewhere_stay_whole() {
    let b = bench();
    let cache = b.runtime.cache().expect("a cache");
    let net = b.model("a.net", ADD_ONE);
    let library = b.runtime.compile(&net, &CompileOptions::default()).expect("compiles");
    let key = b.runtime.key(&net, &CompileOptions::default()).expect("a key");
    let folder = cache.folder().join(key.text());
    for name in ["model.hwx", "main.e5", "seal"] {
        let open = std::fs::File::open(folder.join(name)).expect("opens");
        if let Err(e) = cache.store(&key, library.bundle()) {
            assert!(e.to_string().contains("rename"), "{name}: {e}");
        }
        assert_eq!(cache.fetch(&key).as_ref(), Some(library.bundle()), "{name}");
        drop(open);
        cache.store(&key, library.bundle()).expect("stored");
        assert_eq!((cache.list().len(), cache.verify().len()), (1, 0), "{name}");
    }
}

/// Folders whose path is longer than the 260 characters that older calls of Windows take.
#[test]
fn cache_below_a_long_path() {
    let b = bench();
    let library = b.runtime.compile(&b.model("a.net", ADD_ONE), &CompileOptions::default()).expect("compiles");
    let deep = (0..4).fold(b.folder.path().to_path_buf(), |path, _| path.join("x".repeat(90)));
    let cache = Cache::new(&deep, 1 << 30);
    let key = Key::of(&[("n", &[1])]);
    cache.store(&key, library.bundle()).expect("stored");
    assert_eq!(cache.fetch(&key).as_ref(), Some(library.bundle()));
    assert!(cache.remove(&key) && cache.list().is_empty());
}

#[test]
fn cache_limit_and_one_compile_for_a_key() {
    let b = bench();
    let library = b.runtime.compile(&b.model("a.net", ADD_ONE), &CompileOptions::default()).expect("compiles");
    let size = b.runtime.cache().unwrap().list()[0].bytes;
    let small = Cache::new(&b.folder.path().join("small"), 2 * size + size / 2);
    let keys: Vec<Key> = (0..4u8).map(|i| Key::of(&[("n", &[i])])).collect();
    for key in &keys {
        small.store(key, library.bundle()).expect("stored");
        std::thread::sleep(Duration::from_millis(15));
    }
    let left: Vec<Key> = small.list().into_iter().map(|e| e.key).collect();
    assert_eq!(left, keys[2..]);
    // Eight runtimes, one folder, one key: one compile.
    let again = bench();
    let net = again.model("a.net", ADD_ONE);
    let runtimes: Vec<Arc<Runtime>> = (0..8)
        .map(|_| {
            let cache = Cache::new(&again.folder.path().join("shared"), 1 << 30);
            Arc::new(Runtime::new(again.device.clone(), Arc::new(TextCompiler), Some(cache)))
        })
        .collect();
    std::thread::scope(|scope| {
        for r in &runtimes {
            scope.spawn(|| drop(r.compile(&net, &CompileOptions::default()).expect("compiles")));
        }
    });
    assert_eq!(runtimes.iter().map(|r| r.counts().compiles.load(Relaxed)).sum::<u64>(), 1);
}
