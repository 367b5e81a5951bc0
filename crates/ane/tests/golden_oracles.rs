//! Output of Apple's 2026 compiler for small programs, as register words: every set bit has a row, and where the constant
//! section can be rebuilt (its hash says so) the tasks execute to the right numbers.

mod common;

use anemone_compile::lut::Table;
use anemone_engine::{Memory, run};
use anemone_facts::Field::*;
use anemone_facts::layout::H13;
use anemone_program::{Program, Task};
use common::*;
use half::f16;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Largest error of exact operations: one rounding to fp16, and fp32 sums.
const EXACT: f64 = 1.2e-3;
/// Largest error of activation tables, as a share of the largest result.
const TABLE: f64 = 1.2e-2;
/// Slope in the one leaky ReLU of the campaign.
const LEAKY_SLOPE: f32 = 0.125;
/// More than any of these programs keeps between tasks.
const SCRATCH_BYTES: usize = 64 << 20;

/// A tensor of the record: extents N, C, H, W and byte strides of all but W.
struct Surface {
    shape: Vec<usize>,
    strides: Vec<usize>,
    bytes: usize,
    output: bool,
}

fn surface(value: &Value) -> Option<Surface> {
    let list = |v: &Value| v.as_array()?.iter().map(|x| Some(x.as_u64()? as usize)).collect::<Option<Vec<_>>>();
    let (shape, strides) = (list(&value["shape"])?, list(&value["strides"])?);
    let bytes = shape[0] * strides[0];
    Some(Surface { shape, strides, bytes, output: value["binding"] == 2 })
}

impl Surface {
    /// Byte offsets of all elements, in order.
    fn offsets(&self) -> Vec<usize> {
        let (d, s) = (&self.shape, &self.strides);
        let mut all = Vec::new();
        for n in 0..d[0] {
            for c in 0..d[1] {
                for h in 0..d[2] {
                    all.extend((0..d[3]).map(|w| n * s[0] + c * s[1] + h * s[2] + w * 2));
                }
            }
        }
        all
    }
}

/// Constants of a record: each has its own value, or all are read from the first byte of the file on.
fn constant(record: &Value, index: usize, elements: usize) -> Vec<f16> {
    if oracle::has_own_values(record) {
        return vec![oracle::own_value(index); elements];
    }
    let halves = oracle::weight_file(record);
    halves.as_chunks().0.iter().take(elements).map(|&half| f16::from_le_bytes(half)).collect()
}

/// Engine streams of `[out][taps]` coefficients, 64-byte aligned per group, by the rule in `docs/evidence.md`.
fn streams(weights: &[f16], bias: Option<&[f16]>, groups: usize, outputs: usize, lanes: usize) -> Vec<u8> {
    let taps = weights.len() / (groups * outputs);
    let engines = outputs.next_power_of_two().min(16);
    let mut bytes = Vec::new();
    for engine in 0..engines {
        for g in 0..groups {
            for first in (engine * lanes..outputs).step_by(engines * lanes) {
                let at = |lane: usize| g * outputs + first + lane;
                let biases = bias.into_iter().flat_map(|b| (0..lanes).map(move |l| b[at(l)]));
                let rows = (0..taps).flat_map(|t| (0..lanes).map(move |l| weights[at(l) * taps + t]));
                bytes.extend(biases.chain(rows).flat_map(f16::to_le_bytes));
            }
            bytes.resize(bytes.len().next_multiple_of(64), 0);
        }
    }
    bytes
}

/// The streams of a convolution that skip zeros: `[cin][kernel][kernel]` coefficients for each output channel.
fn zero_skipping(
    weights: &[f16],
    bias: Option<&[f16]>,
    groups: usize,
    outputs: usize,
    lanes: usize,
    [kernel, stride]: [usize; 2],
) -> Vec<u8> {
    let taps = weights.len() / (groups * outputs);
    let engines = outputs.next_power_of_two().min(16);
    let windows = kernel.div_ceil(stride);
    let square = |n: usize| (0..n * n).map(move |i| [i / n, i % n]);
    // Elements by phase of the stride, then by window.
    let elements: Vec<Option<usize>> = square(stride)
        .flat_map(|[py, px]| square(windows).map(move |[wy, wx]| [wy * stride + py, wx * stride + px]))
        .map(|[y, x]| (y < kernel && x < kernel).then_some(y * kernel + x))
        .collect();
    let mut bytes = Vec::new();
    for engine in 0..engines {
        for g in 0..groups {
            for first in (engine * lanes..outputs).step_by(engines * lanes) {
                let at = |lane: usize| g * outputs + first + lane;
                bytes.extend(
                    bias.into_iter().flat_map(|b| (0..lanes).map(move |l| b[at(l)])).flat_map(f16::to_le_bytes),
                );
                let mut body = Vec::new();
                for input in 0..taps / (kernel * kernel) {
                    let slots: Vec<f16> = elements
                        .iter()
                        .flat_map(|e| (0..lanes.max(4)).map(move |lane| (e, lane)))
                        .map(|(e, lane)| match e {
                            Some(e) if lane < lanes => weights[at(lane) * taps + input * kernel * kernel + e],
                            _ => f16::ZERO,
                        })
                        .collect();
                    for eight in slots.chunks(8) {
                        let is_set = |v: &&f16| v.to_bits() << 1 != 0;
                        body.push(eight.iter().enumerate().map(|(i, v)| u8::from(is_set(&v)) << i).sum());
                        body.extend(eight.iter().filter(is_set).flat_map(|v| v.to_le_bytes()));
                    }
                }
                bytes.extend_from_slice(&(body.len() as u32).to_le_bytes()[..3]);
                bytes.extend(body);
            }
            bytes.resize(bytes.len().next_multiple_of(64), 0);
        }
    }
    bytes
}

/// The constant section, or `None` where no rule for it is known.
fn section(record: &Value, tasks: &[Task]) -> Option<Vec<u8>> {
    let size = record["constant_section"]["size"].as_u64()? as usize;
    let p = &record["parameters"];
    let field = |name: &str| p[name].as_u64().unwrap_or(0) as usize;
    let conv = tasks.iter().rfind(|t| t.get(&H13, KernelDmaMaster) == Some(1));
    let lanes = 1usize << conv.and_then(|t| t.get(&H13, OcgSize)).unwrap_or(0);
    let mut bytes = match record["family"].as_str()? {
        "convolution" | "env_conv" | "conv_probe" | "chain" if !p["kernel"].is_null() => {
            let (cin, cout, k) = (field("input_channels"), field("output_channels"), field("kernel"));
            let groups = field("groups").max(1);
            let weights = constant(record, 0, cout * cin / groups * k * k);
            let bias = (p["bias"] == true).then(|| constant(record, 1, cout));
            let (groups, outputs) = if groups == cout { (1, cout) } else { (groups, cout / groups) };
            match conv.and_then(|t| t.get(&H13, SparseFmt)) {
                Some(1) => {
                    let stride = field("stride").max(1);
                    zero_skipping(&weights, bias.as_deref(), groups, outputs, lanes, [k, stride])
                }
                _ => streams(&weights, bias.as_deref(), groups, outputs, lanes),
            }
        }
        "matmul" | "env_matmul" if record["weights"]["storage"] == "BLOBFILE" => {
            let (n, k) = (field("columns"), field("reduction"));
            streams(&constant(record, 0, n * k), None, 1, n, lanes)
        }
        "chain_pair" => {
            let d = field("width");
            let turned = constant(record, 0, d * d); // all elements are alike
            streams(&turned, Some(&constant(record, 1, d)), 1, d, lanes)
        }
        "binary_constant" if p["constant"] == "blob" => {
            let scale = constant(record, 0, 64);
            let zero = vec![f16::ZERO; 64];
            let (bias, scale) = if p["operation"] == "mul" { (zero, scale) } else { (scale, vec![f16::ONE; 64]) };
            bias.into_iter().chain(scale).flat_map(f16::to_le_bytes).collect()
        }
        "binary_runtime" if p["operation"] == "real_div" => Table::reciprocal().stream(),
        "unary" => match p["operation"].as_str()? {
            "exp" => Table::exp2().stream(),
            "rsqrt" => Table::rsqrt().stream(),
            "sigmoid" => Table::sigmoid_plain().stream(),
            "leaky_relu" => Table::leaky_relu(LEAKY_SLOPE).stream(),
            _ => vec![],
        },
        "normalization" if p["operation"] == "softmax" => {
            [Table::exp2().stream(), Table::reciprocal().stream()].concat()
        }
        _ => vec![],
    };
    bytes.resize(size.max(bytes.len()), 0);
    let digest = Sha256::digest(&bytes);
    let text: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    (record["constant_section"]["sha256"] == text.as_str()).then_some(bytes)
}

/// The function of a record in double precision, and its tolerance; `None` where no reference is written.
fn reference(record: &Value, inputs: &[Vec<f64>]) -> Option<(Vec<f64>, f64)> {
    let p = &record["parameters"];
    let field = |name: &str| p[name].as_u64().unwrap_or(0) as usize;
    let op = p["operation"].as_str().unwrap_or_default();
    let x = &inputs[0];
    let each = |f: fn(f64) -> f64| x.iter().map(|&v| f(v)).collect::<Vec<_>>();
    let reduce = |f: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
        // [64, 8, 8]: over channels, or over rows and columns.
        if p["axes"] == serde_json::json!([1]) {
            (0..64).map(|i| (0..64).fold(start, |a, c| f(a, x[c * 64 + i]))).collect()
        } else {
            x.chunks(64).map(|plane| plane.iter().fold(start, |a, &v| f(a, v))).collect()
        }
    };
    let halves = |i, n| constant(record, i, n).iter().map(|v| v.to_f64()).collect::<Vec<_>>();
    let product = |w: &[f64], m: usize, k: usize, n: usize, w_at: &dyn Fn(usize, usize) -> usize, x: &[f64]| {
        let mut y = vec![0.0; m * n];
        for r in 0..m {
            for c in 0..n {
                y[r * n + c] = (0..k).map(|i| x[r * k + i] * w[w_at(c, i)]).sum();
            }
        }
        y
    };
    Some(match record["family"].as_str()? {
        "unary" => match op {
            "abs" => (each(f64::abs), EXACT),
            "relu" => (each(|v| v.max(0.0)), EXACT),
            "exp" => (each(f64::exp), TABLE),
            "rsqrt" => (each(|v| 1.0 / v.sqrt()), TABLE),
            "sigmoid" => (each(|v| 1.0 / (1.0 + (-v).exp())), TABLE),
            "leaky_relu" => (each(|v| if v > 0.0 { v } else { LEAKY_SLOPE as f64 * v }), EXACT),
            _ => return None,
        },
        "binary_runtime" => match op {
            "add" => (x.iter().zip(&inputs[1]).map(|(a, b)| a + b).collect(), EXACT),
            "real_div" => (x.iter().zip(&inputs[1]).map(|(a, b)| a / b).collect(), TABLE),
            _ => return None,
        },
        "chain_residual" if op == "relu" => (each(|v| v + v.max(0.0)), EXACT),
        "binary_constant" if p["constant"] == "scalar" => (each(|v| v + 0.5), EXACT),
        "binary_constant" => (x.iter().zip(halves(0, 64)).map(|(a, b)| a * b).collect(), EXACT),
        "env_broadcast" => (x.iter().enumerate().map(|(i, v)| v + inputs[1][i / 64]).collect(), EXACT),
        "chain" if p["kernel"].is_null() => (x.iter().zip(&inputs[1]).map(|(a, b)| (a + b).max(0.0)).collect(), EXACT),
        "convolution" | "env_conv" | "conv_probe" | "chain" => (convolution(record, x, &halves), EXACT),
        "matmul" => {
            let (m, k, n) = (field("rows"), field("reduction"), field("columns"));
            (product(&halves(0, n * k), m, k, n, &|c, i| c * k + i, x), EXACT)
        }
        "env_matmul" | "rrmm_matmul" => {
            let (m, k, n) = (field("rows"), field("reduction"), field("columns"));
            let turned = p["transpose_y"] == true;
            let at = move |c: usize, i: usize| if turned { c * k + i } else { i * n + c };
            // Runtime weights come first among the descriptors; a transposed left side has one row here.
            match p["w_storage"].as_str()? {
                "runtime" => (product(x, m, k, n, &at, &inputs[1]), EXACT),
                _ => (product(&halves(0, n * k), m, k, n, &at, x), EXACT),
            }
        }
        "chain_pair" => {
            let (m, d) = (field("sequence"), field("width"));
            let y = product(&halves(0, d * d), m, d, d, &|c, i| i * d + c, x);
            let bias = halves(1, d);
            (y.iter().enumerate().map(|(i, v)| (v + bias[i % d]).max(0.0)).collect(), EXACT)
        }
        "reduction" => match op {
            "reduce_max" => (reduce(f64::max, f64::MIN), EXACT),
            "reduce_sum" => (reduce(|a, b| a + b, 0.0), EXACT),
            "reduce_mean" => (reduce(|a, b| a + b, 0.0).iter().map(|v| v / 64.0).collect(), EXACT),
            _ => return None,
        },
        "normalization" if op == "softmax" => {
            let sum: f64 = x.iter().map(|v| v.exp()).sum();
            (x.iter().map(|v| v.exp() / sum).collect(), TABLE)
        }
        "normalization" => {
            let n = x.len() as f64;
            let mean = x.iter().sum::<f64>() / n;
            let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            (x.iter().map(|v| (v - mean) / (variance + 1e-5).sqrt()).collect(), 2.0 * EXACT)
        }
        "encoder_structure" if p["probe"] == "transpose_r3" => {
            ((0..1024 * 375).map(|i| x[i % 375 * 1024 + i / 375]).collect(), 0.0)
        }
        "encoder_structure" => ((0..8 * 375 * 375).map(|i| x[i / 375 * 749 + i % 375]).collect(), 0.0),
        _ => return None,
    })
}

fn convolution(record: &Value, x: &[f64], halves: &dyn Fn(usize, usize) -> Vec<f64>) -> Vec<f64> {
    let p = &record["parameters"];
    let field = |name: &str| p[name].as_u64().unwrap_or(0) as usize;
    let (cin, cout, k, side) = (field("input_channels"), field("output_channels"), field("kernel"), field("spatial"));
    let (groups, stride) = (field("groups").max(1), field("stride").max(1));
    let out = side.div_ceil(stride);
    let pad = (((out - 1) * stride + k).saturating_sub(side)) / 2;
    let per = cin / groups;
    let weights = halves(0, cout * per * k * k);
    let bias = if p["bias"] == true { halves(1, cout) } else { vec![0.0; cout] };
    let mut y = Vec::with_capacity(cout * out * out);
    for co in 0..cout {
        for (oh, ow) in (0..out * out).map(|i| (i / out, i % out)) {
            let mut sum = bias[co];
            for ci in 0..per {
                for (kh, kw) in (0..k * k).map(|i| (i / k, i % k)) {
                    let (h, w) = (oh * stride + kh, ow * stride + kw);
                    if (pad..side + pad).contains(&h) && (pad..side + pad).contains(&w) {
                        let channel = co / (cout / groups) * per + ci;
                        sum += weights[((co * per + ci) * k + kh) * k + kw]
                            * x[(channel * side + h - pad) * side + w - pad];
                    }
                }
            }
            y.push(if p["relu"] == true { sum.max(0.0) } else { sum });
        }
    }
    y
}

enum Outcome {
    Matches(String),
    Skipped(String),
}

fn check(record: &Value) -> Result<Outcome, String> {
    let Some(tasks) = oracle::tasks(record) else {
        return Ok(Outcome::Skipped("refused by Apple's compiler".into()));
    };
    let tasks = tasks?;
    for (i, task) in tasks.iter().enumerate() {
        let left = task.unexplained(&H13);
        if !left.is_empty() {
            return Err(format!("task {i}: unexplained {left:x?}"));
        }
    }
    let Some(kernel) = section(record, &tasks) else {
        return Ok(Outcome::Skipped(format!("{} tasks explained; no rule rebuilds the constants", tasks.len())));
    };
    let mut stream = Vec::new();
    let mut at = 0;
    for task in &tasks {
        stream.resize(at as usize, 0);
        stream.extend(task.words().into_iter().flat_map(u32::to_le_bytes));
        at = task.get(&H13, NextPointer).unwrap_or(0);
    }
    let program = Program {
        name: "oracle".into(),
        layout: &H13,
        stream,
        first_task_words: tasks[0].word_count(),
        kernel: kernel.into(),
        scratch_bytes: 0,
        ports: vec![],
    };
    let surfaces: Vec<Surface> = record["tensors"]
        .as_array()
        .ok_or("no tensors")?
        .iter()
        .map(|t| surface(t).ok_or("a tensor"))
        .collect::<Result<_, _>>()?;
    // Inputs are the base registers read, in descriptor order; the output is the one written.
    let is_port = |bar: &u32| *bar >= Program::FIRST_PORT_BAR as u32;
    let used = |base, enable| {
        let mut bars: Vec<u32> = tasks
            .iter()
            .filter(|t| t.get(&H13, enable) == Some(1))
            .filter_map(|t| t.get(&H13, base))
            .filter(is_port)
            .collect();
        bars.sort_unstable();
        bars.dedup();
        bars
    };
    let mut reads = [used(RBase0, Rbe0), used(RBase1, Rbe1), used(KBase0, Kbe0)].concat();
    reads.sort_unstable();
    reads.dedup();
    let writes = used(WBase, Wbe);
    let mut memory = Memory::for_program(&program);
    memory.allocate(Program::SCRATCH_BAR, SCRATCH_BYTES);
    let positive = matches!(record["parameters"]["operation"].as_str(), Some("rsqrt" | "real_div"));
    let mut random = Random::new(17);
    let mut inputs = Vec::new();
    for (surface, &bar) in surfaces.iter().filter(|s| !s.output).zip(&reads) {
        let mut bytes = vec![0; surface.bytes];
        let low = if positive { 0.25 } else { -1.0 };
        let values: Vec<f64> = surface.offsets().iter().map(|_| random.uniform(low, 2.0) as f64).collect();
        for (offset, v) in surface.offsets().into_iter().zip(&values) {
            bytes[offset..offset + 2].copy_from_slice(&f16::from_f64(*v).to_le_bytes());
        }
        memory.bind(bar as u8, &bytes);
        inputs.push(values);
    }
    let result = surfaces.iter().find(|s| s.output).ok_or("no output")?;
    memory.allocate(writes[0] as u8, result.bytes);
    if let Err(fault) = run(&program, &mut memory, Default::default()) {
        return Err(fault.to_string());
    }
    let Some((wanted, tolerance)) = reference(record, &inputs) else { return Err("no reference".into()) };
    let bytes = memory.region(writes[0] as u8).ok_or("no output")?.bytes();
    let got: Vec<f64> =
        result.offsets().into_iter().map(|o| f16::from_le_bytes([bytes[o], bytes[o + 1]]).to_f64()).collect();
    if got.len() != wanted.len() {
        return Err(format!("{} elements for {}", got.len(), wanted.len()));
    }
    let largest = wanted.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let worst = got.iter().zip(&wanted).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    let note = format!("{} tasks, largest error {worst:.2e} of {largest:.2e}", tasks.len());
    if worst <= tolerance * largest { Ok(Outcome::Matches(note)) } else { Err(note) }
}

#[test]
fn oracles_execute_to_the_right_numbers() {
    let Some(dir) = golden_dir() else { return };
    let mut score = Score::default();
    for (name, record) in oracle::records(&dir) {
        match check(&record) {
            Ok(Outcome::Matches(note)) => score.case(&name, Ok(note)),
            Ok(Outcome::Skipped(why)) => score.skip(&name, &why),
            Err(why) => score.case(&name, Err(why)),
        }
    }
    score.close();
}
