//! Random networks of what rewrites make possible, through the whole chain with host segments: windows beyond the chip's, ranks 5 and 6,
//! window partitions, elements at positions computed at run time, and unrolled loops. The same cases on every run;
//! `ANE_CASES` tries more.

use crate::common;

use anemone::tensor::compare;
use anemone::{Array, ProgramChain};
use anemone_compile::Options;
use anemone_facts::chips;
use anemone_facts::tolerance::{NETWORK, NETWORK_FACTOR};
use anemone_net::*;
use common::Random;
use common::draw::{choices, drawn};
use half::f16;
use proptest::prelude::*;
use std::sync::Arc;

/// Networks per run.
const CASES: u32 = 200;
/// Elements of a value.
const MOST: usize = 1 << 15;

struct Draw {
    /// Choices that proptest made, so that it can make them smaller.
    choices: std::vec::IntoIter<u64>,
    /// Numbers behind the last choice.
    random: Random,
    net: Net,
    /// Elements of each input: positions are known where they are drawn.
    inputs: Vec<Vec<f32>>,
    /// The value that the next step reads.
    last: ValueId,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        let number = self.choices.next().unwrap_or_else(|| self.random.next());
        (number % n.max(1) as u64) as usize
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.value(id).ty.shape.clone()
    }

    fn value(&mut self, stem: &str, ty: TensorType, data: Option<Tensor>) -> ValueId {
        let name = format!("{stem}{}", self.net.values.len());
        self.net.add_value(Value { name, ty, data: data.map(Arc::new), surface: None })
    }

    fn input(&mut self, ty: TensorType, data: Vec<f32>) -> ValueId {
        let id = self.value("x", ty, None);
        self.net.inputs.push(id);
        self.inputs.push(data);
        id
    }

    fn image(&mut self, shape: Vec<usize>) -> ValueId {
        let data = (0..shape.iter().product())
            .map(|_: usize| f16::from_f32(self.random.uniform(-1.0, 1.0)).to_f32())
            .collect();
        self.input(TensorType { dtype: DType::F16, shape }, data)
    }

    /// Weights small enough for sums of about one.
    fn weights(&mut self, shape: &[usize]) -> ValueId {
        let taps: usize = shape[1..].iter().product();
        let reach = 1.5 / (taps as f32).sqrt();
        let data =
            (0..shape.iter().product()).map(|_: usize| f16::from_f32(self.random.uniform(-reach, reach))).collect();
        let tensor = Tensor { shape: shape.to_vec(), data: Data::F16(data) };
        self.value("c", tensor.ty(), Some(tensor))
    }

    /// An operation on these; nothing where it does not fit.
    fn op(&mut self, kind: OpKind, inputs: &[ValueId], shape: Option<Vec<usize>>) -> Option<ValueId> {
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.net.value(id).ty).collect();
        let declared = shape.map(|shape| TensorType { dtype: DType::F16, shape });
        let ty = infer::infer(&kind, &types, declared.as_ref()).ok()?.remove(0);
        if ty.elements() > MOST {
            return None;
        }
        let id = self.value("y", ty, None);
        let name = self.net.value(id).name.clone();
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![id] });
        Some(id)
    }

    fn reshape(&mut self, x: ValueId, shape: Vec<usize>) -> Option<ValueId> {
        self.op(OpKind::Reshape, &[x], Some(shape))
    }

    /// Positions along an axis, an input of the network.
    fn positions(&mut self, shape: &[usize], extent: usize) -> ValueId {
        let data = (0..shape.iter().product()).map(|_: usize| self.below(extent) as f32).collect();
        self.input(TensorType { dtype: DType::I32, shape: shape.to_vec() }, data)
    }

    /// The last value as `[1, C, H, W]`.
    fn four(&mut self) -> Option<(ValueId, [usize; 4])> {
        let shape = self.shape(self.last);
        let four = match shape[..] {
            [1, c, h, w] => return Some((self.last, [1, c, h, w])),
            [.., h, w] => [1, shape[..shape.len() - 2].iter().product(), h, w],
            [w] => [1, 1, 1, w],
            [] => [1; 4],
        };
        let x = self.reshape(self.last, four.to_vec())?;
        Some((x, four))
    }

    fn step(&mut self) -> Option<ValueId> {
        match self.below(8) {
            0 => self.wide_convolution(),
            1 => self.wide_pool(),
            2 => self.windows(),
            3 => self.turned(),
            4 | 5 => self.gathered(),
            6 => self.recurrence(),
            _ => {
                let x = self.last;
                let f = [Unary::Relu, Unary::Abs, Unary::Clip { min: -0.75, max: 0.75 }][self.below(3)];
                let y = self.op(OpKind::Unary(f), &[x], None)?;
                self.op(OpKind::Binary(Binary::Add), &[x, y], None)
            }
        }
    }

    /// A kernel of 14 to 24 places along one axis, or a patch as large as its stride.
    fn wide_convolution(&mut self) -> Option<ValueId> {
        let (x, [_, c, h, w]) = self.four()?;
        let wide = 14 + self.below(11);
        let (kernel, strides, pads) = match self.below(3) {
            0 => (vec![1, wide], vec![1, 1 + self.below(3)], vec![(0, 0), (wide / 2, wide - 1 - wide / 2)]),
            1 => (vec![wide, 3], vec![1, 1], vec![(wide / 2, wide - 1 - wide / 2), (1, 1)]),
            _ => {
                let (p, q) = (1 + self.below(h.min(8)), 1 + self.below(w.min(8)));
                (vec![p, q], vec![p, q], vec![(0, 0), (0, 0)])
            }
        };
        let groups = if c % 2 == 0 { 1 + self.below(2) } else { 1 };
        let out = groups * (1 + self.below(6));
        let weights = self.weights(&[&[out, c / groups], kernel.as_slice()].concat());
        self.op(OpKind::Conv { strides, pads, dilations: vec![1, 1], groups }, &[x, weights], None)
    }

    fn wide_pool(&mut self) -> Option<ValueId> {
        let (x, [_, _, h, w]) = self.four()?;
        let kernel = vec![1 + self.below(h.min(20)), 1 + self.below(w.min(20))];
        let strides = vec![1 + self.below(3), 1 + self.below(3)];
        let kind = [PoolKind::Max, PoolKind::Average { exclude_padding: true }][self.below(2)];
        let pads = vec![(0, 0), (kernel[1] / 2, 0)];
        self.op(OpKind::Pool { kind, kernel, strides, pads, ceil_mode: false }, &[x], None)
    }

    /// Windows of rows and columns side by side, six axes on the way; sometimes rolled before.
    fn windows(&mut self) -> Option<ValueId> {
        let (mut x, [_, c, h, w]) = self.four()?;
        let divisor = |n: usize, at: usize| (1..=n).filter(|d| n.is_multiple_of(*d)).nth(at).unwrap_or(1);
        let (p, q) = (divisor(h, self.below(3)), divisor(w, self.below(3)));
        if w > 2 && self.below(2) == 0 {
            let at = 1 + self.below(w - 1);
            let part = |from: usize, to: usize| OpKind::Slice {
                begin: vec![0, 0, 0, from],
                end: vec![1, c, h, to],
                stride: vec![1; 4],
            };
            let (late, early) = (self.op(part(at, w), &[x], None)?, self.op(part(0, at), &[x], None)?);
            x = self.op(OpKind::Concat { axis: 3 }, &[late, early], None)?;
        }
        let apart = self.reshape(x, vec![1, c, h / p, p, w / q, q])?;
        let perm = [[0, 2, 4, 3, 5, 1], [0, 2, 4, 1, 3, 5], [0, 1, 3, 5, 2, 4]][self.below(3)].to_vec();
        let turned = self.op(OpKind::Transpose { perm }, &[apart], None)?;
        let shape = self.shape(turned);
        self.reshape(turned, vec![shape[1] * shape[2], shape[3] * shape[4], shape[5]])
    }

    /// Five axes in another order.
    fn turned(&mut self) -> Option<ValueId> {
        let (x, [_, c, h, w]) = self.four()?;
        let first = (1..=c).filter(|d| c.is_multiple_of(*d)).nth(self.below(3)).unwrap_or(1);
        let apart = self.reshape(x, vec![1, first, c / first, h, w])?;
        let mut perm: Vec<usize> = (0..5).collect();
        (1..5).rev().for_each(|i| perm.swap(i, self.below(i + 1)));
        self.op(OpKind::Transpose { perm }, &[apart], None)
    }

    /// Elements at positions that are an input.
    fn gathered(&mut self) -> Option<ValueId> {
        let x = self.last;
        let shape = self.shape(x);
        let axis = self.below(shape.len());
        if self.below(2) == 0 {
            let many = 1 + self.below(6);
            let places = self.positions(&[many], *shape.get(axis)?);
            return self.op(OpKind::Gather { axis }, &[x, places], None);
        }
        let mut own = shape.clone();
        *own.get_mut(axis)? = 1 + self.below(5);
        let places = self.positions(&own, shape[axis]);
        self.op(OpKind::GatherAlong { axis }, &[x, places], None)
    }

    /// A state that a few rows change one after another; all states are the result.
    fn recurrence(&mut self) -> Option<ValueId> {
        let (x, [_, _, h, w]) = self.four()?;
        let steps = h.min(2 + self.below(4));
        let size = 1 + self.below(12);
        let (from, back) = (self.weights(&[size, w]), self.weights(&[size, size]));
        let mut state: Option<ValueId> = None;
        let mut states = Vec::new();
        for step in 0..steps {
            let kind = OpKind::Slice { begin: vec![0, 0, step, 0], end: vec![1, 1, step + 1, w], stride: vec![1; 4] };
            let row = self.op(kind, &[x], None)?;
            let mut next = self.op(OpKind::Linear, &[row, from], None)?;
            if let Some(state) = state {
                let before = self.op(OpKind::Linear, &[state, back], None)?;
                next = self.op(OpKind::Binary(Binary::Add), &[next, before], None)?;
            }
            let held = self.op(OpKind::Unary(Unary::Clip { min: -1.0, max: 1.0 }), &[next], None)?;
            state = Some(held);
            states.push(held);
        }
        self.op(OpKind::Concat { axis: 2 }, &states, None)
    }
}

/// A network of two to five steps, and its inputs.
fn network(choices: Vec<u64>) -> (Net, Vec<Vec<f32>>) {
    let net = Net { name: "drawn".into(), ..Net::default() };
    let choices = choices.into_iter();
    let mut draw = Draw { choices, random: Random::new(11), net, inputs: Vec::new(), last: ValueId(0) };
    let shape = vec![1, 1 + draw.below(8), 1 + draw.below(24), 1 + draw.below(40)];
    draw.last = draw.image(shape);
    let steps = 2 + draw.below(4);
    for _ in 0..steps {
        // A step that does not fit leaves operations that nothing reads; they are kept, as in models.
        if let Some(next) = draw.step() {
            draw.last = next;
        }
    }
    let mut last = draw.last;
    if draw.net.inputs.contains(&last) {
        last = draw.op(OpKind::Unary(Unary::Relu), &[last], None).expect("fits");
    }
    draw.net.outputs.push(last);
    (draw.net, draw.inputs)
}

fn check(choices: Vec<u64>) -> Result<(), String> {
    let (net, data) = network(choices);
    check::check(&net).map_err(|e| format!("the case itself: {}", e[0]))?;
    let array = |(&id, data): (&ValueId, &Vec<f32>)| {
        let value = net.value(id);
        (value.name.clone(), Array { shape: value.ty.shape.clone(), data: data.clone() })
    };
    let inputs: Vec<(String, Array)> = net.inputs.iter().zip(&data).map(array).collect();
    let tensor = |(&id, data): (&ValueId, &Vec<f32>)| {
        let ty = &net.value(id).ty;
        Tensor { shape: ty.shape.clone(), data: Data::from_f32(ty.dtype, data) }
    };
    let tensors: Vec<Tensor> = net.inputs.iter().zip(&data).map(tensor).collect();
    let wanted = eval::eval(&net, &tensors).map_err(|e| e.to_string())?.remove(0).data.to_f32();
    let shown = || text::print(&net).0.chars().take(3000).collect::<String>();
    let (chain, _) =
        ProgramChain::whole(&net, &chips::CHIPS[0], &Options::default()).map_err(|e| format!("{e}\n{}", shown()))?;
    let run = chain.execution(Default::default()).and_then(|mut e| e.run(&inputs));
    let run = run.map_err(|e| format!("{e}\n{}", shown()))?;
    let name = &net.value(net.outputs[0]).name;
    let got = run.outputs.iter().find(|(n, _)| n == name).map(|(_, a)| &a.data).ok_or("the output is missing")?;
    let largest = wanted.iter().fold(0f32, |most, x| most.max(x.abs()));
    let rounding = anemone::execute::rounding_cost(&net, &inputs, name).map_or(0.0, |cost| cost.max);
    let admitted = (NETWORK.share * largest.max(0.25)).max(NETWORK_FACTOR * rounding);
    let difference = compare(got, &wanted, 0.0, 0.0).max_abs;
    if difference > admitted || got.len() != wanted.len() {
        return Err(format!("{difference:.2e} of {largest:.2e} apart, {admitted:.2e} admitted\n{}", shown()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(drawn(CASES))]

    #[test]
    fn networks_of_what_rewrites_make_possible_match_the_evaluator(choices in choices()) {
        check(choices).map_err(TestCaseError::fail)?;
    }
}
