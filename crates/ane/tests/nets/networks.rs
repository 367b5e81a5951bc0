//! Random networks of several operations, with forks and merges: the whole compiler and the engine against the plain
//! evaluator, and again from the container. The same cases on every run.

use crate::common;

use anemone::execute::Execution;
use anemone::tensor::compare;
use anemone::{Array, execute};
use anemone_compile::{Compat, Options, compile};
use anemone_facts::chips;
use anemone_facts::tolerance::{NETWORK, NETWORK_FACTOR, TABLE};
use anemone_net::*;
use anemone_program::hwx::{self, Container};
use common::draw::{choices, drawn};
use common::{Random, Score, nets};
use half::f16;
use proptest::prelude::*;
use std::sync::Arc;

/// Networks of images per run, and of matrices.
const CASES: [u32; 2] = [2000, 500];
/// Networks that only move data.
const LAYOUTS: u32 = 300;
/// Largest magnitude that may occur: beyond it fp16 has no fraction left.
const LARGEST: f32 = 1024.0;

/// A network under construction; every value is of rank 4 with a leading 1.
struct Draw {
    /// Choices that proptest made, so that it can make them smaller.
    choices: std::vec::IntoIter<u64>,
    /// Numbers of constants, and numbers behind the last choice.
    random: Random,
    net: Net,
    /// Values that operations may read.
    pool: Vec<ValueId>,
}

impl Draw {
    fn new(name: &str, choices: Vec<u64>, seed: u64) -> Draw {
        let net = Net { name: name.into(), ..Net::default() };
        Draw { choices: choices.into_iter(), random: Random::new(seed), net, pool: Vec::new() }
    }

    fn below(&mut self, n: usize) -> usize {
        let number = self.choices.next().unwrap_or_else(|| self.random.next());
        (number % n as u64) as usize
    }

    fn value(&mut self, stem: &str, ty: TensorType, data: Option<Tensor>) -> ValueId {
        let name = format!("{stem}{}", self.net.values.len());
        self.net.add_value(Value { name, ty, data: data.map(Arc::new), surface: None })
    }

    fn constant(&mut self, shape: &[usize], reach: f32) -> ValueId {
        let n = shape.iter().product();
        let data = (0..n).map(|_| f16::from_f32(self.random.uniform(-reach, reach))).collect();
        let tensor = Tensor { shape: shape.to_vec(), data: Data::F16(data) };
        self.value("c", tensor.ty(), Some(tensor))
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.value(id).ty.shape.clone()
    }

    /// Mostly one of the newest values, so that chains grow; sometimes an old one, so that they fork.
    fn pick(&mut self) -> ValueId {
        let newest = self.pool.len().min(2);
        let at = match self.below(3) {
            0 => self.below(self.pool.len()),
            _ => self.pool.len() - 1 - self.below(newest),
        };
        self.pool[at]
    }

    fn push(&mut self, kind: OpKind, inputs: &[ValueId], declared: Option<&[usize]>) {
        let declared = declared.map(|s| TensorType { dtype: DType::F16, shape: s.to_vec() });
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.net.value(id).ty).collect();
        let ty = infer::infer(&kind, &types, declared.as_ref()).expect("types fit").remove(0);
        let out = self.value("v", ty, None);
        let name = self.net.value(out).name.clone();
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![out] });
        self.pool.push(out);
    }

    /// Makes every value that nothing reads an output.
    fn ended(self) -> Net {
        let mut net = self.net;
        let mut read = vec![false; net.values.len()];
        net.ops.iter().flat_map(|op| &op.inputs).for_each(|id| read[id.0 as usize] = true);
        let made = net.ops.iter().map(|op| op.outputs[0]).filter(|id| !read[id.0 as usize]);
        net.outputs.extend(made);
        net.inputs.retain(|id| read[id.0 as usize]);
        net
    }

    fn step(&mut self) {
        let x = self.pick();
        let s = self.shape(x);
        let (c, h, w) = (s[1], s[2], s[3]);
        match self.below(13) {
            0 | 1 => {
                let (out, k) = (1 + self.below(24), [1, 3][self.below(2)]);
                let weight = self.constant(&[out, c, k, k], 1.0 / (c * k * k) as f32);
                let bias = self.constant(&[out], 0.5);
                let pads = vec![(k / 2, k / 2); 2];
                let kind = OpKind::Conv { strides: vec![1, 1], pads, dilations: vec![1, 1], groups: 1 };
                self.push(kind, &[x, weight, bias], None);
            }
            2 => self.push(OpKind::Unary(Unary::Relu), &[x], None),
            3 => {
                let f = [Unary::Sigmoid, Unary::Tanh, Unary::Abs][self.below(3)];
                self.push(OpKind::Unary(f), &[x], None);
            }
            4 | 5 => {
                // A merge with a value of the same extents, or a factor per channel.
                let same: Vec<ValueId> = self.pool.iter().copied().filter(|&v| self.shape(v) == s).collect();
                let other = same[self.below(same.len())];
                let f = [Binary::Add, Binary::Sub, Binary::Max, Binary::Min][self.below(4)];
                self.push(OpKind::Binary(f), &[x, other], None);
            }
            6 => {
                let per_channel = self.constant(&[1, c, 1, 1], 1.5);
                let f = [Binary::Add, Binary::Mul][self.below(2)];
                self.push(OpKind::Binary(f), &[x, per_channel], None);
            }
            7 => {
                let fits = |v: &ValueId| self.shape(*v)[2..] == s[2..];
                let same: Vec<ValueId> = self.pool.iter().copied().filter(fits).collect();
                let other = same[self.below(same.len())];
                self.push(OpKind::Concat { axis: 1 }, &[x, other], None);
            }
            8 => {
                let kind = [ReduceKind::Mean, ReduceKind::Max][self.below(2)];
                let axes = [vec![1], vec![2, 3], vec![3]][self.below(3)].clone();
                self.push(OpKind::Reduce { kind, axes, keep_dims: true }, &[x], None);
                let mean = self.pool[self.pool.len() - 1];
                self.push(OpKind::Binary(Binary::Sub), &[x, mean], None);
            }
            9 => {
                let axis = 1 + self.below(3);
                self.push(OpKind::Softmax { axis }, &[x], None);
            }
            10 => {
                let perm = [[0, 1, 3, 2], [0, 3, 2, 1], [0, 2, 1, 3]][self.below(3)].to_vec();
                self.push(OpKind::Transpose { perm }, &[x], None);
            }
            11 => {
                let begin = vec![0, self.below(c), self.below(h), 0];
                self.push(OpKind::Slice { begin, end: s.clone(), stride: vec![1; 4] }, &[x], None);
            }
            _ => self.push(OpKind::Reshape, &[x], Some(&[1, h, c, w])),
        }
    }
}

impl Draw {
    /// As [`Draw::step`] for networks of products: matrices that several products read, functions between them, and rows
    /// that fold into squares.
    fn matrix_step(&mut self) {
        let x = self.pick();
        let s = self.shape(x);
        let columns = s[3];
        match self.below(8) {
            0..=2 => {
                let out = if self.below(8) == 0 { 272 } else { 1 + self.below(40) };
                let weight = self.constant(&[out, columns], 1.0 / (columns as f32).sqrt());
                let bias = self.constant(&[out], 0.5);
                let inputs = if self.below(2) == 0 { vec![x, weight] } else { vec![x, weight, bias] };
                self.push(OpKind::Linear, &inputs, None);
            }
            3 => {
                let out = 1 + self.below(40);
                let matrix = self.constant(&[columns, out], 1.0 / (columns as f32).sqrt());
                self.push(OpKind::MatMul { transpose_x: false, transpose_y: false }, &[x, matrix], None);
            }
            4 | 5 => {
                let f = [Unary::Relu, Unary::Tanh, Unary::Gelu(GeluMode::Exact), Unary::Abs][self.below(4)];
                self.push(OpKind::Unary(f), &[x], None);
            }
            6 => {
                let factor = self.value("c", Tensor::f16([1], &[0.5]).ty(), Some(Tensor::f16([1], &[0.5])));
                self.push(OpKind::Binary(Binary::Mul), &[x, factor], None);
            }
            _ => {
                let same: Vec<ValueId> = self.pool.iter().copied().filter(|&v| self.shape(v) == s).collect();
                let other = same[self.below(same.len())];
                self.push(OpKind::Binary(Binary::Add), &[x, other], None);
            }
        }
    }
}

fn network(choices: Vec<u64>, matrices: bool) -> Net {
    let mut draw = Draw::new("drawn", choices, 1);
    for _ in 0..1 + draw.below(2) {
        let shape = if matrices {
            let rows = if draw.below(3) == 0 { 8 * (1 + draw.below(8)) } else { 1 + draw.below(70) };
            vec![1, 1 + draw.below(2), rows, 1 + draw.below(48)]
        } else {
            vec![1, 1 + draw.below(20), 1 + draw.below(9), 1 + draw.below(12)]
        };
        let id = draw.value("x", TensorType { dtype: DType::F16, shape }, None);
        draw.net.inputs.push(id);
        draw.pool.push(id);
    }
    for _ in 0..2 + draw.below(9) {
        if matrices { draw.matrix_step() } else { draw.step() }
    }
    draw.ended()
}

/// An image pooled along some axes, the channels of which are classified, `more` beside that.
fn classifier(shape: [usize; 4], axes: &[usize], more: impl FnOnce(&mut Draw, ValueId)) -> Net {
    let mut draw = Draw::new("classifier", Vec::new(), 5);
    let x = draw.value("x", TensorType { dtype: DType::F16, shape: shape.to_vec() }, None);
    draw.net.inputs.push(x);
    let newest = |draw: &Draw| draw.pool[draw.pool.len() - 1];
    draw.pool.push(x);
    if !axes.is_empty() {
        draw.push(OpKind::Reduce { kind: ReduceKind::Mean, axes: axes.to_vec(), keep_dims: true }, &[x], None);
    }
    let pooled = newest(&draw);
    let channels = draw.shape(pooled).iter().product();
    draw.push(OpKind::Reshape, &[pooled], Some(&[1, channels]));
    let flat = newest(&draw);
    let weights = draw.constant(&[10, channels], 0.5);
    draw.push(OpKind::Linear, &[flat, weights], None);
    more(&mut draw, flat);
    draw.ended()
}

fn check(net: Net, seed: u64) -> Result<String, String> {
    check::check(&net).map_err(|e| format!("the case itself: {}", e[0]))?;
    let mut random = Random::new(seed + 7);
    let inputs: Vec<(String, Array)> = (net.inputs.iter())
        .map(|&id| {
            let value = net.value(id);
            let data = (0..value.ty.elements()).map(|_| f16::from_f32(random.uniform(-2.0, 2.0)).to_f32()).collect();
            (value.name.clone(), Array { shape: value.ty.shape.clone(), data })
        })
        .collect();
    let tensors: Vec<Tensor> =
        (inputs.iter()).map(|(_, a)| Tensor { shape: a.shape.clone(), data: Data::F32(a.data.clone()) }).collect();
    let wanted = eval::eval(&net, &tensors).map_err(|e| e.to_string())?;
    let compat = match seed % 4 {
        3 => Compat::Zin421,
        2 => Compat::Zin9509,
        _ => Compat::Own,
    };
    let options = Options { compat, ..Options::default() };
    let program =
        compile(&net, &chips::CHIPS[0], &options, &mut ()).map_err(|e| format!("{e}\n{}", text::print(&net).0))?;
    let run = execute(&program, &inputs, Default::default()).map_err(|e| e.to_string())?;
    let bytes = hwx::from_program(&program, &hwx::Options::default()).map_err(|e| e.to_string())?.write();
    let read = Container::read(&bytes).map_err(|e| e.to_string())?.program().map_err(|e| e.to_string())?;
    // From the container, and by a plan that ran before on other inputs.
    let mut later = Execution::new(&read, Default::default()).map_err(|e| e.to_string())?;
    later.run(&nets::others(&inputs)).map_err(|e| e.to_string())?;
    let again = later.run(&inputs).map_err(|e| e.to_string())?;
    let mut worst = 0f32;
    for (&id, wanted) in net.outputs.iter().zip(&wanted) {
        let (name, wanted) = (&net.value(id).name, wanted.data.to_f32());
        let of = |run: &anemone::execute::Run| run.outputs.iter().find(|(n, _)| n == name).map(|(_, a)| a.data.clone());
        let got = of(&run).ok_or("an output is missing")?;
        if of(&again) != Some(got.clone()) {
            return Err(format!("{name}: another result from the container"));
        }
        let largest = wanted.iter().fold(0f32, |m, x| m.max(x.abs()));
        if largest > LARGEST {
            continue;
        }
        let rounding = anemone::execute::rounding_cost(&net, &inputs, name).map_or(0.0, |cost| cost.max);
        // A table's own error, where there is one.
        let table = |op: &Op| matches!(op.kind, OpKind::Unary(Unary::Sigmoid | Unary::Tanh | Unary::Gelu(_)));
        let tables = net.ops.iter().any(table);
        let share = if tables { TABLE.share } else { NETWORK.share };
        let admitted = (share * largest.max(1.0)).max(NETWORK_FACTOR * rounding);
        let difference = compare(&got, &wanted, 0.0, 0.0).max_abs;
        if difference > admitted {
            let (text, _) = text::print(&net);
            return Err(format!("{name}: {difference:.2e} of {largest:.2e} apart, {admitted:.2e} admitted\n{text}"));
        }
        worst = worst.max(difference / admitted);
    }
    Ok(format!("{} operations, {} tasks, {worst:.2} of what is admitted", net.ops.len(), run.tasks))
}

proptest! {
    #![proptest_config(drawn(CASES[0]))]

    #[test]
    fn random_networks_match_the_evaluator(choices in choices(), seed in 0u64..1000) {
        check(network(choices, false), seed).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(drawn(CASES[1]))]

    #[test]
    fn random_products_match_the_evaluator(choices in choices(), seed in 0u64..1000) {
        check(network(choices, true), seed).map_err(TestCaseError::fail)?;
    }
}

/// A tensor of two to six axes, moved about: reshapes, transposes, slices and parts joined again; sums and functions between.
fn moved(choices: Vec<u64>) -> Net {
    let mut draw = Draw::new("moved", choices, 3);
    let rank = 2 + draw.below(3);
    let sizes = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64];
    let mut shape: Vec<usize> = (0..rank).map(|_| sizes[draw.below(sizes.len())]).collect();
    while shape.iter().product::<usize>() > 20_000 {
        let largest = (0..rank).max_by_key(|&i| shape[i]).unwrap_or(0);
        shape[largest] = shape[largest].div_ceil(2);
    }
    let x = draw.value("x", TensorType { dtype: DType::F16, shape }, None);
    draw.net.inputs.push(x);
    draw.pool.push(x);
    for _ in 0..3 + draw.below(6) {
        let x = if draw.below(5) == 0 { draw.pick() } else { draw.pool[draw.pool.len() - 1] };
        let shape = draw.shape(x);
        let rank = shape.len();
        match draw.below(9) {
            0..=2 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    perm.swap(i, draw.below(i + 1));
                }
                draw.push(OpKind::Transpose { perm }, &[x], None);
            }
            3..=5 => {
                let to = reshaped(&mut draw, &shape);
                draw.push(OpKind::Reshape, &[x], Some(&to));
            }
            6 => {
                let begin: Vec<usize> =
                    shape.iter().map(|&n| if draw.below(3) == 0 { draw.below(n) } else { 0 }).collect();
                let end: Vec<usize> = shape
                    .iter()
                    .zip(&begin)
                    .map(|(&n, &b)| if draw.below(3) == 0 { b + 1 + draw.below(n - b) } else { n })
                    .collect();
                let stride = shape.iter().map(|_| 1 + draw.below(5) / 4).collect();
                draw.push(OpKind::Slice { begin, end, stride }, &[x], None);
            }
            7 => {
                // Halves change places, as a shifted window has it.
                let axis = draw.below(rank);
                let at = draw.below(shape[axis]);
                let part = |first: usize, last: usize| {
                    let (mut begin, mut end) = (vec![0; rank], shape.clone());
                    (begin[axis], end[axis]) = (first, last);
                    OpKind::Slice { begin, end, stride: vec![1; rank] }
                };
                if at > 0 {
                    draw.push(part(at, shape[axis]), &[x], None);
                    let first = draw.pool[draw.pool.len() - 1];
                    draw.push(part(0, at), &[x], None);
                    let second = draw.pool[draw.pool.len() - 1];
                    draw.push(OpKind::Concat { axis }, &[first, second], None);
                }
            }
            _ => draw.push(OpKind::Unary(Unary::Abs), &[x], None),
        }
    }
    draw.ended()
}

/// The same elements with up to six other extents.
fn reshaped(draw: &mut Draw, shape: &[usize]) -> Vec<usize> {
    let mut factors: Vec<usize> = Vec::new();
    for &extent in shape {
        let mut rest = extent;
        while rest > 1 {
            let factor = (2..=rest).find(|f| rest.is_multiple_of(*f)).unwrap_or(rest);
            factors.push(factor);
            rest /= factor;
        }
    }
    let count = 1 + draw.below(6);
    let mut to = vec![1; count];
    // Factors in their order, as splits and merges of neighbours are; now and then any.
    let any = draw.below(4) == 0;
    let mut at = 0;
    for (i, factor) in factors.iter().enumerate() {
        let left = factors.len() - i;
        while at + 1 < count && (draw.below(2) == 0 && left >= count - at) {
            at += 1;
        }
        let slot = if any { draw.below(count) } else { at };
        to[slot] *= factor;
    }
    to
}

proptest! {
    #![proptest_config(drawn(LAYOUTS))]

    #[test]
    fn layouts_of_any_rank_match_the_evaluator(choices in choices(), seed in 0u64..1000) {
        let net = moved(choices);
        prop_assume!(!net.ops.is_empty() && !net.inputs.is_empty());
        check(net, seed).map_err(TestCaseError::fail)?;
    }
}

/// Channels that are classified are where the convolution over them reads: nothing is moved between.
#[test]
fn what_is_classified_stays_where_it_stands() {
    let mut score = Score::default();
    let alone = classifier([1, 48, 5, 7], &[2, 3], |_, _| {});
    let program = compile(&alone, &chips::CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
    assert_eq!(program.tasks().expect("tasks").len(), 2);
    score.case("alone", check(alone, 0));
    let others: [([usize; 4], &[usize]); 6] = [
        ([1, 1, 40, 6], &[1, 3]),
        ([1, 5, 6, 24], &[1, 2]),
        ([1, 1, 3, 4], &[2, 3]),
        ([1, 48, 1, 1], &[]),
        ([1, 1, 48, 1], &[]),
        ([48, 1, 1, 1], &[]),
    ];
    for (shape, axes) in others {
        score.case(&format!("{shape:?}"), check(classifier(shape, axes, |_, _| {}), 0));
    }
    let again = |draw: &mut Draw, flat| {
        let weights = draw.constant(&[7, 48], 0.5);
        draw.push(OpKind::Linear, &[flat, weights], None);
    };
    score.case("twice", check(classifier([1, 48, 5, 7], &[2, 3], again), 0));
    let rectified = |draw: &mut Draw, flat| draw.push(OpKind::Unary(Unary::Relu), &[flat], None);
    score.case("rectified as well", check(classifier([1, 48, 5, 7], &[2, 3], rectified), 0));
    let output = |draw: &mut Draw, flat| draw.net.outputs.push(flat);
    score.case("an output as well", check(classifier([1, 48, 5, 7], &[2, 3], output), 0));
    score.close();
}
