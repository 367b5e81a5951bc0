//! Apple's own task streams, executed from their words, against the function that their name states.
//!
//! The functions and error bounds are those of the program table in `docs/evidence.md`: bit-equal where Apple's program
//! is exact, else no worse than its tables are.

mod common;

use anemone_engine::{Memory, Options, run};
use anemone_program::{Direction, Program, raw};
use common::*;
use half::f16;
use rayon::prelude::*;

/// Function that a program computes: from one element of each input, or from a row.
enum Function {
    Each1(fn(f64) -> f64),
    Each2(fn(f64, f64) -> f64),
    Row(fn(&[f64]) -> Vec<f64>),
}
use Function::*;

struct Known {
    name: &'static str,
    function: Function,
    /// Range of random inputs.
    range: (f32, f32),
    /// Largest absolute error; 0 demands the correctly rounded value everywhere.
    error: f64,
}

fn known(name: &str) -> Option<Known> {
    let all = [
        ("abs", Each1(f64::abs), (-8.0, 8.0), 0.0),
        ("square", Each1(|x| x * x), (-8.0, 8.0), 0.0),
        ("cube", Each1(|x| x * x * x), (-8.0, 8.0), 0.515),
        ("exp2", Each1(f64::exp2), (-8.0, 8.0), 0.414),
        ("exp", Each1(f64::exp), (-8.0, 8.0), 101.0),
        ("log", Each1(f64::ln), (0.01, 100.0), 0.00458),
        ("log2", Each1(f64::log2), (0.01, 100.0), 0.00221),
        ("log10", Each1(f64::log10), (0.01, 100.0), 0.00179),
        ("inv", Each1(|x| 1.0 / (x + 1e-4)), (0.01, 10.0), 24.0),
        ("sqrt", Each1(f64::sqrt), (0.0, 100.0), 0.0192),
        ("rsqrt", Each1(|x| 1.0 / (x + 1e-4).sqrt()), (0.05, 100.0), 0.00829),
        ("sigmoid", Each1(sigmoid), (-8.0, 8.0), 0.00105),
        ("tanh", Each1(f64::tanh), (-8.0, 8.0), 0.00165),
        ("sign", Each1(|x| if x == 0.0 { 0.0 } else { x.signum() }), (-4.0, 4.0), 0.0),
        ("ceil", Each1(f64::ceil), (-8.0, 8.0), 0.0),
        ("atan", Each1(f64::atan), (-8.0, 8.0), 0.0334),
        ("norm", Row(|x| scale(x, 1.0 / x.iter().map(|v| v * v).sum::<f64>().sqrt())), (-1.0, 1.0), 7.18e-5),
        ("relu", Each1(|x| x.max(0.0)), (-8.0, 8.0), 0.0),
        ("relu6", Each1(|x| x.clamp(0.0, 6.0)), (-8.0, 8.0), 0.0),
        ("hardtanh", Each1(|x| x.clamp(-1.0, 1.0)), (-8.0, 8.0), 0.0),
        ("leakyrelu", Each1(|x| if x > 0.0 { x } else { 0.01 * x }), (-4.0, 4.0), 2.56e-5),
        ("rrelu", Each1(|x| if x > 0.0 { x } else { RRELU * x }), (-4.0, 4.0), 0.000651),
        ("gelu", Each1(|x| x * 0.5 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))), (-4.0, 4.0), 0.00616),
        (
            "selu",
            Each1(|x| 1.0507009873554805 * if x > 0.0 { x } else { 1.6732632423543772 * x.exp_m1() }),
            (-4.0, 4.0),
            0.0122,
        ),
        ("silu", Each1(|x| x * sigmoid(x)), (-4.0, 4.0), 0.00367),
        ("softmax", Row(softmax), (-4.0, 4.0), 1.28e-5),
        ("softmin", Row(|x| softmax(&scale(x, -1.0))), (-4.0, 4.0), 1.24e-5),
        ("logsoftmax", Row(|x| softmax(x).into_iter().map(f64::ln).collect()), (-1.0, 1.0), 0.0114),
        ("add", Each2(|a, b| a + b), (-8.0, 8.0), 0.0),
        ("sub", Each2(|a, b| a - b), (-8.0, 8.0), 0.0),
        ("mul", Each2(|a, b| a * b), (-8.0, 8.0), 0.0),
        ("div", Each2(|a, b| a / b), (0.5, 8.0), 26.1),
        ("max", Each2(f64::max), (-8.0, 8.0), 0.0),
        ("min", Each2(f64::min), (-8.0, 8.0), 0.0),
        ("ave", Each2(|a, b| (a + b) / 2.0), (-8.0, 8.0), 0.0),
        // The first input is the floor of |x|, made by the host; the second is x.
        ("frac", Each2(|whole, x| x - whole * x.signum()), (-8.0, 8.0), 0.0),
    ];
    all.into_iter().find(|k| k.0 == name).map(|(name, function, range, error)| Known { name, function, range, error })
}

/// The slope that the program's name does not tell: PyTorch's mean of 1/8 and 1/3.
const RRELU: f64 = (1.0 / 8.0 + 1.0 / 3.0) / 2.0;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn scale(x: &[f64], by: f64) -> Vec<f64> {
    x.iter().map(|v| v * by).collect()
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::MIN, f64::max);
    let exp: Vec<f64> = x.iter().map(|v| (v - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    scale(&exp, 1.0 / sum)
}

/// Elements of a port as rows, in order.
fn rows(port: &anemone_program::Port) -> Vec<(usize, usize)> {
    let (s, shape) = (port.strides, port.shape);
    let mut all = Vec::new();
    for n in 0..shape.n as u64 {
        for c in 0..shape.c as u64 {
            for h in 0..shape.h as u64 {
                all.push(((n * s.batch_bytes + c * s.plane_bytes + h * s.row_bytes) as usize, shape.w as usize));
            }
        }
    }
    all
}

fn check(program: &Program, known: &Known) -> Result<String, String> {
    let mut memory = Memory::for_program(program);
    let mut random = Random::new(7);
    let mut inputs: Vec<Vec<f64>> = Vec::new();
    let ports: Vec<_> = program.ports_of(Direction::Input).collect();
    let elements = ports.first().ok_or("no input")?.shape.elements() as usize;
    for _ in &ports {
        inputs.push((0..elements).map(|_| random.uniform(known.range.0, known.range.1) as f64).collect());
    }
    if known.name == "frac" {
        inputs[0] = inputs[1].iter().map(|x| x.abs().floor()).collect();
    }
    for (port, values) in ports.iter().zip(&inputs) {
        let region = memory.region_mut(port.bar).ok_or("input not bound")?.bytes_mut();
        let mut values = values.iter();
        for (start, width) in rows(port) {
            for (slot, x) in region[start..start + 2 * width].chunks_exact_mut(2).zip(&mut values) {
                slot.copy_from_slice(&f16::from_f64(*x).to_le_bytes());
            }
        }
    }
    let outcome = run(program, &mut memory, Options::default()).map_err(|f| f.to_string())?;
    if !outcome.incomplete.is_empty() {
        return Err(format!("not wholly written: {:?}", outcome.incomplete));
    }
    let port = program.ports_of(Direction::Output).next().ok_or("no output")?;
    let bytes = memory.region(port.bar).ok_or("output not bound")?.bytes();
    let width = port.shape.w as usize;
    let results: Vec<(f64, u32, bool)> = rows(port)
        .par_iter()
        .enumerate()
        .map(|(i, &(start, _))| {
            let at = |k: usize| &inputs[k][i * width..][..width];
            let wanted: Vec<f64> = match known.function {
                Each1(f) => at(0).iter().map(|&x| f(x)).collect(),
                Each2(f) => at(0).iter().zip(at(1)).map(|(&a, &b)| f(a, b)).collect(),
                Row(f) => f(at(0)),
            };
            let got = bytes[start..start + 2 * width].chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]));
            got.zip(&wanted).fold((0.0, 0, true), |(error, ulp, bits), (got, &wanted)| {
                let rounded = f16::from_f64(wanted);
                (f64::max(error, (got.to_f64() - wanted).abs()), ulp.max(ulps(got, rounded)), bits && got == rounded)
            })
        })
        .collect();
    let error = results.iter().map(|r| r.0).fold(0.0, f64::max);
    let exact = results.iter().all(|r| r.2);
    let note = format!("{} tasks, {elements} elements, largest error {error:.3e}", outcome.tasks);
    if known.error == 0.0 {
        if exact { Ok(format!("{note}, bit-equal")) } else { Err(format!("{note}, not bit-equal")) }
    } else if three_digits(error) <= known.error {
        Ok(format!("{note}, at most {:.3e} admitted", known.error))
    } else {
        Err(format!("{note}, at most {:.3e} admitted", known.error))
    }
}

#[test]
fn programs_compute_what_their_names_say() {
    let Some(dir) = golden_dir() else { return };
    let mut score = Score::default();
    for path in entries(&dir.join("h13/programs")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "bin")) {
        let name = stem(&path);
        let outcome = (|| {
            let known = known(&name).ok_or("no function is known by this name")?;
            let bytes = std::fs::read(&path).map_err(|e| e.to_string())?;
            let program = raw::read_bin(&bytes).map_err(|e| e.to_string())?;
            for task in program.tasks().map_err(|e| e.to_string())? {
                let left = task.unexplained(program.layout);
                if !left.is_empty() {
                    return Err(format!("unexplained bits {left:x?}"));
                }
            }
            check(&program, &known)
        })();
        score.case(&name, outcome);
    }
    score.close();
}
