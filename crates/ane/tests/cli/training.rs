//! A training loop whose weights and momentum stay on the device: the step of `examples/train`, a hundred times through the
//! driver, against the same steps in fp32.

use anemone::host::Evaluator;
use anemone::runtime::ModelCompiler;
use anemone_runtime::e5rt::device::InProcess;
use anemone_runtime::e5rt::{Buffer, CompileOptions, Operation, Runtime, Stream};
use half::f16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SAMPLES: usize = 16;
const INPUTS: usize = 8;
const HIDDEN: usize = 16;
const OUTPUTS: usize = 4;
const STEPS: usize = 100;

/// Numbers from -1 to 1 that fp16 holds.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f16::from_f32((state >> 16) as f32 / 32768.0 - 1.0).to_f32()
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// `[rows, inner] x [inner, columns]`, places as given.
fn product(
    rows: usize,
    inner: usize,
    columns: usize,
    x: impl Fn(usize, usize) -> f32,
    y: impl Fn(usize, usize) -> f32,
) -> Vec<f32> {
    (0..rows * columns).map(|i| (0..inner).map(|k| x(i / columns, k) * y(k, i % columns)).sum()).collect()
}

/// The network in fp32.
struct Reference {
    weights: [Vec<f32>; 2],
    momentum: [Vec<f32>; 2],
}

impl Reference {
    fn step(&mut self, x: &[f32], t: &[f32]) -> f32 {
        let [w1, w2] = &self.weights;
        let sums = product(SAMPLES, INPUTS, HIDDEN, |n, k| x[n * INPUTS + k], |k, h| w1[k * HIDDEN + h]);
        let hidden: Vec<f32> = sums.iter().map(|s| s.max(0.0)).collect();
        let y = product(SAMPLES, HIDDEN, OUTPUTS, |n, h| hidden[n * HIDDEN + h], |h, o| w2[h * OUTPUTS + o]);
        let off: Vec<f32> = y.iter().zip(t).map(|(y, t)| y - t).collect();
        let loss = off.iter().map(|d| d * d).sum::<f32>() / off.len() as f32;
        let slope: Vec<f32> = off.iter().map(|d| d * 2.0 / off.len() as f32).collect();
        let of_w2 = product(HIDDEN, SAMPLES, OUTPUTS, |h, n| hidden[n * HIDDEN + h], |n, o| slope[n * OUTPUTS + o]);
        let mut back = product(SAMPLES, OUTPUTS, HIDDEN, |n, o| slope[n * OUTPUTS + o], |o, h| w2[h * OUTPUTS + o]);
        back.iter_mut().zip(&sums).for_each(|(b, s)| *b = if *s > 0.0 { *b } else { 0.0 });
        let of_w1 = product(INPUTS, SAMPLES, HIDDEN, |k, n| x[n * INPUTS + k], |n, h| back[n * HIDDEN + h]);
        for ((w, v), slope) in self.weights.iter_mut().zip(&mut self.momentum).zip([of_w1, of_w2]) {
            for ((w, v), slope) in w.iter_mut().zip(v).zip(slope) {
                *v = 0.9 * *v + slope;
                *w -= 0.05 * *v;
            }
        }
        loss
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect()
}

/// One buffer on an input and an output.
fn resident(runtime: &Runtime, operation: &Arc<Operation>, names: [&str; 2], values: &[f32]) -> Arc<Buffer> {
    let buffer = runtime.buffer(2 * values.len() as u64).expect("memory");
    buffer.shared().write(&bytes(values));
    for (name, output) in names.into_iter().zip([false, true]) {
        operation.port(name, output).expect("a port").bind(&buffer).expect("binds");
    }
    buffer
}

#[test]
fn a_hundred_steps_with_resident_state_follow_the_reference() {
    let device = Arc::new(InProcess::start().expect("a driver"));
    let runtime = Runtime::new(device.clone(), Arc::new(ModelCompiler), None).with_host(Arc::new(Evaluator));
    let runtime = Arc::new(runtime);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/train/step.mil");
    let library = runtime.compile(&model, &CompileOptions::default()).expect("compiles");
    assert_eq!(library.calls(), (1, 0), "all of it is on the engine");
    let operation = library.function("main").and_then(|f| f.operation()).expect("loads");
    let half = |values: Vec<f32>| -> Vec<f32> { values.into_iter().map(|x| x / 2.0).collect() };
    let weights = [half(numbers(INPUTS * HIDDEN, 1)), half(numbers(HIDDEN * OUTPUTS, 2))];
    let momentum = [vec![0.0; INPUTS * HIDDEN], vec![0.0; HIDDEN * OUTPUTS]];
    let _held = [
        resident(&runtime, &operation, ["w1", "w1_next"], &weights[0]),
        resident(&runtime, &operation, ["w2", "w2_next"], &weights[1]),
        resident(&runtime, &operation, ["v1", "v1_next"], &momentum[0]),
        resident(&runtime, &operation, ["v2", "v2_next"], &momentum[1]),
    ];
    let plain = |name: &str, output, elements: usize| {
        let buffer = runtime.buffer(2 * elements as u64).expect("memory");
        operation.port(name, output).expect("a port").bind(&buffer).expect("binds");
        buffer
    };
    let (x, t) = (plain("x", false, SAMPLES * INPUTS), plain("t", false, SAMPLES * OUTPUTS));
    let loss = plain("loss", true, 1);
    let stream = Stream::new(&runtime);
    stream.encode(&operation).expect("encodes");
    // The target to learn: a linear map of the inputs.
    let map = half(numbers(INPUTS * OUTPUTS, 3));
    let mut reference = Reference { weights, momentum };
    let (mut first, mut last) = (0.0, 0.0);
    for step in 0..STEPS {
        let sample = numbers(SAMPLES * INPUTS, 10 + step as u32 % 4);
        let wanted = product(SAMPLES, INPUTS, OUTPUTS, |n, k| sample[n * INPUTS + k], |k, o| map[k * OUTPUTS + o]);
        let wanted: Vec<f32> = wanted.into_iter().map(|x| f16::from_f32(x).to_f32()).collect();
        x.shared().write(&bytes(&sample));
        t.shared().write(&bytes(&wanted));
        stream.execute().expect("executes");
        let raw = loss.shared().to_vec();
        let found = f16::from_le_bytes([raw[0], raw[1]]).to_f32();
        let expected = reference.step(&sample, &wanted);
        // fp16 weights and sums of a hundred steps: a few percent, and what is left when there is little to learn.
        assert!((found - expected).abs() <= 0.05 * expected + 2e-3, "step {step}: {found}, expected {expected}");
        (first, last) = (if step == 0 { found } else { first }, found);
    }
    assert!(last < 0.1 * first, "from {first} to {last}");
    let sent = runtime.counts().state_bytes.load(Relaxed);
    let weights = 2 * (INPUTS * HIDDEN + HIDDEN * OUTPUTS) as u64;
    assert_eq!(sent, weights, "weights are sent once; momentum begins as zeros, which the device has");
    assert_eq!(device.driver().counters().chained, STEPS as u64, "every step is a chained call");
}
