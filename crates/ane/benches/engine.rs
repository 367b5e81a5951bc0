//! The engine on a convolution and on matrix products, against a matrix library called directly on the same sizes.
//!
//! Figures drift between machines, so the last lines give the ratio of both, measured alternately in this run. The
//! library has fp32 operands ready in memory; the engine widens fp16 operands and rounds the result.

use anemone_compile::{Options, compile};
use anemone_engine::{Memory, Plan};
use anemone_facts::chips;
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, TensorType, Value};
use anemone_program::{Direction, Program};
use criterion::{Criterion, criterion_group};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A program of one operation with a constant second operand.
fn program(kind: OpKind, x: &[usize], w: &[usize], y: &[usize]) -> Program {
    let mut net = Net { name: "bench".into(), ..Net::default() };
    let ty = |shape: &[usize]| TensorType { dtype: DType::F16, shape: shape.to_vec() };
    let value = |name: &str, shape: &[usize]| Value { name: name.into(), ty: ty(shape), data: None, surface: None };
    let data: Vec<half::f16> = (0..w.iter().product()).map(|i| half::f16::from_f32((i % 13) as f32 / 64.0)).collect();
    let weights = Tensor { shape: w.to_vec(), data: Data::F16(data) };
    let input = net.add_value(value("x", x));
    let weight = net.add_value(Value { data: Some(Arc::new(weights)), ..value("w", w) });
    let output = net.add_value(value("y", y));
    net.ops.push(Op { name: "op".into(), kind, inputs: vec![input, weight], outputs: vec![output] });
    net.inputs = vec![input];
    net.outputs = vec![output];
    compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("the operation compiles")
}

struct Engine {
    plan: Plan,
    memory: Memory,
}

impl Engine {
    fn new(program: Program) -> Engine {
        let plan = Plan::new(&program, Default::default()).expect("a plan");
        let mut memory = plan.memory();
        for port in program.ports_of(Direction::Input) {
            memory.region_mut(port.bar).expect("bound").bytes_mut().fill(0x11);
        }
        Engine { plan, memory }
    }

    fn step(&mut self) {
        black_box(self.plan.run(&mut self.memory).expect("the program runs"));
    }
}

struct Direct {
    dims: [usize; 3],
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Direct {
    fn new(dims @ [m, n, k]: [usize; 3]) -> Direct {
        Direct { dims, a: vec![0.5; m * k], b: vec![0.25; k * n], c: vec![0.0; m * n] }
    }

    fn step(&mut self) {
        let [m, n, k] = self.dims;
        let a = MatRef::from_row_major_slice(&self.a, m, k);
        let b = MatRef::from_row_major_slice(&self.b, k, n);
        matmul(MatMut::from_row_major_slice_mut(&mut self.c, m, n), Accum::Replace, a, b, 1.0, Par::rayon(0));
        black_box(&self.c);
    }
}

fn cases() -> Vec<(&'static str, Engine, Direct)> {
    let conv = OpKind::Conv { strides: vec![1, 1], pads: vec![(1, 1); 2], dilations: vec![1, 1], groups: 1 };
    let conv = program(conv, &[1, 64, 64, 64], &[64, 64, 3, 3], &[1, 64, 64, 64]);
    let product = |n: usize| Engine::new(program(OpKind::Linear, &[n, n], &[n, n], &[n, n]));
    vec![
        ("conv 3x3 64->64 on 64x64", Engine::new(conv), Direct::new([64, 4096, 576])),
        ("matmul 512x512x512", product(512), Direct::new([512; 3])),
        ("matmul 2048x2048x2048", product(2048), Direct::new([2048; 3])),
    ]
}

fn bench(c: &mut Criterion) {
    for (name, mut engine, mut direct) in cases() {
        let mut group = c.benchmark_group(name);
        group.sample_size(20).measurement_time(Duration::from_secs(2));
        group.bench_function("engine", |b| b.iter(|| engine.step()));
        group.bench_function("matrix library", |b| b.iter(|| direct.step()));
        group.finish();
    }
}

/// Median of alternating runs, so that a drift of the machine hits both sides.
fn ratios() {
    for (name, mut engine, mut direct) in cases() {
        let time = |step: &mut dyn FnMut()| {
            let start = Instant::now();
            step();
            start.elapsed()
        };
        let mut pairs: Vec<(Duration, Duration)> =
            (0..50).map(|_| (time(&mut || engine.step()), time(&mut || direct.step()))).collect();
        let middle = pairs.len() / 2;
        let a = *pairs.select_nth_unstable_by_key(middle, |p| p.0).1;
        let b = *pairs.select_nth_unstable_by_key(middle, |p| p.1).1;
        println!(
            "{name}: engine {:?}, matrix library {:?}, engine at {:.0} % of its speed",
            a.0,
            b.1,
            100.0 * b.1.as_secs_f64() / a.0.as_secs_f64()
        );
    }
}

criterion_group!(benches, bench);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    ratios();
}
