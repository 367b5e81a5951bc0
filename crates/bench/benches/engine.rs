//! The engine on a convolution and on matrix products, against a matrix library called directly on the same sizes.
//!
//! Figures drift between machines, so every line is a ratio of both, measured alternately in this run. The library has
//! fp32 operands ready in memory; the engine widens fp16 operands and rounds the result. A word on the command line
//! picks the cases whose names have it.

use anemone_compile::{Options, compile};
use anemone_engine::{Memory, Plan};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, TensorType, Value};
use anemone_program::{Direction, Program};
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
    fn new(program: &Program, model: Model) -> Engine {
        let options = anemone_engine::Options { model, ..Default::default() };
        let plan = Plan::new(program, options).expect("a plan");
        let mut memory = plan.memory();
        for port in program.ports_of(Direction::Input) {
            // fp16 numbers around 0.06.
            let bytes = memory.region_mut(port.bar).expect("bound").bytes_mut();
            bytes.chunks_exact_mut(2).enumerate().for_each(|(i, b)| b.copy_from_slice(&[i as u8, 0x2b]));
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

/// Time that this process' threads had a core, where the system tells; it does not count what others take. A thread's own time is
/// up to date once it has rested.
fn busy() -> Option<Duration> {
    std::thread::sleep(Duration::from_nanos(1));
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let of = |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.split(' ').next()?.parse::<u64>().ok();
    Some(Duration::from_nanos(threads.flatten().filter_map(|t| of(t.path().join("schedstat"))).sum()))
}

/// Time by the clock, and on cores.
fn timed(step: &mut dyn FnMut()) -> [Duration; 2] {
    let before = busy();
    let start = Instant::now();
    step();
    let elapsed = start.elapsed();
    let busy = busy().zip(before).map_or(elapsed, |(after, before)| after.saturating_sub(before));
    [elapsed, busy]
}

/// Median and shortest time of each side, in turn: a drift of the machine hits all. And the time of all rounds on cores.
fn compare(name: &str, program: &Program, dims: [usize; 3], rounds: usize) {
    let (mut direct, mut fast) = (Direct::new(dims), Engine::new(program, Model::Fast));
    let mut exact = Engine::new(program, Model::Fixed);
    let mut times: [[Vec<Duration>; 3]; 2] = Default::default();
    for _ in 0..rounds {
        let steps: [&mut dyn FnMut(); 3] = [&mut || direct.step(), &mut || fast.step(), &mut || exact.step()];
        for (i, step) in steps.into_iter().enumerate() {
            let found = timed(step);
            times.iter_mut().zip(found).for_each(|(times, t)| times[i].push(t));
        }
    }
    times.iter_mut().flatten().for_each(|t| t.sort());
    let of = |at: usize| [0, 1, 2].map(|i| times[0][i][at].as_secs_f64());
    let [product, fast, exact] = of(rounds / 2).map(|t| t * 1e3);
    println!("{name}: fp32 product {product:.2} ms, fast {fast:.2} ms, exact {exact:.2} ms; of the product's rate:");
    // The system counts time on cores in steps that single rounds may be shorter than.
    let cores = [0, 1, 2].map(|i| times[1][i].iter().sum::<Duration>().as_secs_f64());
    for (label, t) in [("median", of(rounds / 2)), ("shortest", of(0)), ("all on cores", cores)] {
        println!("    {label}: fast {:.0} %, exact {:.0} %", 100.0 * t[0] / t[1], 100.0 * t[0] / t[2]);
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let conv = OpKind::Conv { strides: vec![1, 1], pads: vec![(1, 1); 2], dilations: vec![1, 1], groups: 1 };
    let conv = || program(conv.clone(), &[1, 64, 64, 64], &[64, 64, 3, 3], &[1, 64, 64, 64]);
    let product = |n: usize| program(OpKind::Linear, &[n, n], &[n, n], &[n, n]);
    let run = |name: &str, program: &dyn Fn() -> Program, dims: [usize; 3], rounds: usize| {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str())) {
            compare(name, &program(), dims, rounds);
        }
    };
    run("conv 3x3 64->64 on 64x64", &conv, [64, 4096, 576], 60);
    run("matmul 512x512x512", &|| product(512), [512; 3], 60);
    run("matmul 2048x2048x2048", &|| product(2048), [2048; 3], 7);
}
