//! Random networks, written as MIL text with weights and input arrays: each in a folder, the same on every machine.
//!
//! The first half are single operations with random extents and attributes, the second half chains of them with residual
//! additions, normalizations and activations in between, so that fusion and placement have decisions to make.

use anemone_net::mil;
use anemone_net::*;
use half::f16;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Number of networks.
const COUNT: u64 = 500;
/// File of the network in its folder.
pub const FILE: &str = "model.mil";

/// Writes all networks.
pub fn write(folder: &Path) -> Result<(), String> {
    let mut written = 0;
    for seed in 0.. {
        // Networks that a shape rule or the format refuses are skipped.
        if let Ok(net) = draw(seed)
            && let Ok(text) = mil::write(&net)
        {
            one(&folder.join(format!("{written:03}")), &net, &text, seed)?;
            written += 1;
        }
        if written == COUNT {
            return Ok(());
        }
        if seed > 4 * COUNT {
            return Err(format!("only {written} random networks could be written"));
        }
    }
    Ok(())
}

fn one(folder: &Path, net: &Net, text: &mil::Written, seed: u64) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder.join("weights")).map_err(failed)?;
    fs::write(folder.join(FILE), mil::print(&text.program)).map_err(failed)?;
    fs::write(folder.join("weights/weight.bin"), &text.weights).map_err(failed)?;
    let mut random = Random::new(seed + 3);
    for value in net.inputs.iter().map(|&id| net.value(id)) {
        let data: Vec<f32> = (0..value.ty.elements()).map(|_| random.uniform(-2.0, 2.0)).collect();
        fs::write(folder.join(format!("{}.npy", value.name)), npy(&value.ty.shape, &data)).map_err(failed)?;
    }
    Ok(())
}

/// An array file of version 1.0.
fn npy(shape: &[usize], data: &[f32]) -> Vec<u8> {
    let extents: String = shape.iter().map(|n| format!("{n},")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({extents}), }}");
    // Magic, version and length take ten bytes; the data begins at a multiple of 64.
    header += &" ".repeat(63 - (10 + header.len()) % 64);
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data.iter().flat_map(|x| x.to_le_bytes()));
    bytes
}

/// A small generator (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e3779b97f4a7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// 1 to `most`.
    fn size(&mut self, most: usize) -> usize {
        1 + self.below(most)
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Uniform in `low..high`, as an fp16 value.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u32 << 24) as f32;
        f16::from_f32(low + (high - low) * unit).to_f32()
    }
}

type Built = Result<ValueId, Error>;

struct Draw {
    random: Random,
    net: Build,
}

/// A network under construction; values are numbered in order.
#[derive(Default)]
struct Build(Net);

impl Build {
    fn value(&mut self, name: String, ty: TensorType, data: Option<Arc<Tensor>>) -> ValueId {
        self.0.add_value(Value { name, ty, data, surface: None })
    }

    fn constant(&mut self, tensor: Tensor) -> ValueId {
        let (name, ty) = (format!("c{}", self.0.values.len()), tensor.ty());
        self.value(name, ty, Some(Arc::new(tensor)))
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.0.value(id).ty.shape.clone()
    }

    fn rank(&self, id: ValueId) -> usize {
        self.0.value(id).ty.shape.len()
    }

    fn op(&mut self, kind: OpKind, inputs: &[ValueId]) -> Built {
        self.op_as(kind, inputs, None)
    }

    fn op_as(&mut self, kind: OpKind, inputs: &[ValueId], declared: Option<TensorType>) -> Built {
        let types: Vec<&TensorType> = inputs.iter().map(|&id| &self.0.value(id).ty).collect();
        let ty = infer::infer(&kind, &types, declared.as_ref())?.remove(0);
        let name = format!("v{}", self.0.values.len());
        let output = self.value(name.clone(), ty, None);
        self.0.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![output] });
        Ok(output)
    }

    fn unary(&mut self, f: Unary, x: ValueId) -> Built {
        self.op(OpKind::Unary(f), &[x])
    }

    fn binary(&mut self, f: Binary, x: ValueId, y: ValueId) -> Built {
        self.op(OpKind::Binary(f), &[x, y])
    }
}

fn draw(seed: u64) -> Result<Net, Error> {
    let mut random = Random::new(seed + 1);
    random.next();
    let mut draw = Draw { random, net: Build(Net { name: "replay".into(), ..Net::default() }) };
    let last = if seed.is_multiple_of(2) { draw.single()? } else { draw.chain()? };
    draw.net.0.outputs.push(last);
    Ok(draw.net.0)
}

impl Draw {
    fn input(&mut self, shape: &[usize]) -> Built {
        let name = format!("x{}", self.net.0.inputs.len());
        let id = self.net.value(name, TensorType::new(DType::F16, shape), None);
        self.net.0.inputs.push(id);
        Ok(id)
    }

    fn weights(&mut self, shape: &[usize]) -> ValueId {
        let count = shape.iter().product();
        // Magnitude by fan-in, so that chains neither vanish nor overflow.
        let fan_in = shape.iter().skip(1).product::<usize>().max(1) as f32;
        let bound = (3.0 / fan_in).sqrt();
        let data = (0..count).map(|_| f16::from_f32(self.random.uniform(-bound, bound))).collect();
        self.net.constant(Tensor { shape: shape.to_vec(), data: Data::F16(data) })
    }

    fn shape(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.random.size(9)).collect()
    }

    /// One operation on matching inputs.
    fn single(&mut self) -> Built {
        let rank = self.random.size(4);
        match self.random.below(11) {
            0 | 1 => {
                let groups = self.random.pick(&[1, 1, 2, 3]);
                let shape =
                    [self.random.size(2), groups * self.random.size(6), self.random.size(16), self.random.size(16)];
                let x = self.input(&shape)?;
                self.convolution(x, groups)
            }
            2 => {
                let shape =
                    [self.random.size(2), self.random.size(8), 3 + self.random.below(9), 3 + self.random.below(9)];
                let x = self.input(&shape)?;
                self.pool(x)
            }
            3 => self.broadcasting(rank),
            4 => {
                let shape = self.shape(rank);
                let x = self.input(&shape)?;
                self.reduce(x)
            }
            5 => {
                let shape = self.shape(rank);
                let x = self.input(&shape)?;
                self.transpose(x)
            }
            6 => {
                let shape = self.shape(rank);
                let x = self.input(&shape)?;
                self.reshape(x)
            }
            7 => self.concatenation(rank),
            8 => {
                let shape: Vec<usize> = (0..rank).map(|_| self.random.size(40)).collect();
                let x = self.input(&shape)?;
                self.slice(x)
            }
            9 => self.product(),
            _ => {
                let shape = self.shape(rank);
                let x = self.input(&shape)?;
                self.unary(x)
            }
        }
    }

    /// Two to seven layers of a convolutional or a token network.
    fn chain(&mut self) -> Built {
        let image = self.random.yes();
        let shape = if image {
            vec![1, self.random.size(24), 4 + self.random.below(20), 4 + self.random.below(20)]
        } else {
            vec![1, self.random.size(48), 4 + self.random.below(60)]
        };
        let mut x = self.input(&shape)?;
        for _ in 0..2 + self.random.below(6) {
            x = if image { self.image_layer(x)? } else { self.token_layer(x)? };
        }
        Ok(x)
    }

    fn image_layer(&mut self, x: ValueId) -> Built {
        let channels = self.net.shape(x)[1];
        match self.random.below(8) {
            0 | 1 => self.convolution(x, 1),
            2 => self.convolution(x, channels),
            3 => self.pool(x),
            4 => {
                let side = self.same_size(x)?;
                self.net.binary(Binary::Add, x, side)
            }
            5 => {
                let [gamma, beta] = [0, 1].map(|_| self.weights(&[channels]));
                self.net.op(OpKind::InstanceNorm { epsilon: 1e-3 }, &[x, gamma, beta])
            }
            6 => {
                let side = self.same_size(x)?;
                self.net.op(OpKind::Concat { axis: 1 }, &[x, side])
            }
            _ => self.unary(x),
        }
    }

    fn token_layer(&mut self, x: ValueId) -> Built {
        let width = self.net.shape(x)[2];
        match self.random.below(7) {
            0 | 1 => {
                let out = self.random.size(64);
                let (weights, bias) = (self.weights(&[out, width]), self.weights(&[out]));
                self.net.op(OpKind::Linear, &[x, weights, bias])
            }
            2 => {
                let product = |transpose_y| OpKind::MatMul { transpose_x: false, transpose_y };
                let scores = self.net.op(product(true), &[x, x])?;
                let scale = Tensor { shape: vec![], data: Data::F16(vec![f16::from_f32(0.125)]) };
                let scale = self.net.constant(scale);
                let scores = self.net.binary(Binary::Mul, scores, scale)?;
                let shares = self.net.op(OpKind::Softmax { axis: 2 }, &[scores])?;
                self.net.op(product(false), &[shares, x])
            }
            3 => {
                let [gamma, beta] = [0, 1].map(|_| self.weights(&[width]));
                self.net.op(OpKind::LayerNorm { axes: vec![2], epsilon: 1e-3 }, &[x, gamma, beta])
            }
            4 => {
                let side = self.unary(x)?;
                let f = self.random.pick(&[Binary::Add, Binary::Mul]);
                self.net.binary(f, x, side)
            }
            5 => self.net.op(OpKind::Softmax { axis: 2 }, &[x]),
            _ => self.unary(x),
        }
    }

    /// A branch with the extents of `x`: a convolution that keeps them.
    fn same_size(&mut self, x: ValueId) -> Built {
        let channels = self.net.shape(x)[1];
        let side = self.random.pick(&[1, 3]);
        let weights = self.weights(&[channels, channels, side, side]);
        let pads = vec![(side / 2, side / 2); 2];
        let kind = OpKind::Conv { strides: vec![1, 1], pads, dilations: vec![1, 1], groups: 1 };
        self.net.op(kind, &[x, weights])
    }

    /// A valid convolution with random kernel, stride, padding and dilation.
    fn convolution(&mut self, x: ValueId, groups: usize) -> Built {
        let shape = self.net.shape(x);
        let out = groups * self.random.size(if groups > 3 { 1 } else { 20 });
        let kernel = [0, 1].map(|i| self.random.size(shape[2 + i].min(5)));
        let dilations = [0, 1].map(|i| if (kernel[i] - 1) * 2 < shape[2 + i] { self.random.size(2) } else { 1 });
        let extents = [0, 1].map(|i| (kernel[i] - 1) * dilations[i] + 1);
        let pads = extents.map(|n| (self.random.below(n), self.random.below(n)));
        let strides = [0, 1].map(|_| self.random.pick(&[1, 1, 1, 2, 3, 4]));
        let weights = self.weights(&[out, shape[1] / groups, kernel[0], kernel[1]]);
        let bias = self.weights(&[out]);
        let kind =
            OpKind::Conv { strides: strides.to_vec(), pads: pads.to_vec(), dilations: dilations.to_vec(), groups };
        self.net.op(kind, &[x, weights, bias])
    }

    fn pool(&mut self, x: ValueId) -> Built {
        let shape = self.net.shape(x);
        let kernel = [0, 1].map(|i| self.random.size(shape[2 + i].min(4)));
        let pads = kernel.map(|n| (self.random.below(n), self.random.below(n)));
        let strides = [0, 1].map(|_| self.random.size(3));
        let [exclude, include] = [true, false].map(|exclude_padding| PoolKind::Average { exclude_padding });
        let kind = OpKind::Pool {
            kind: self.random.pick(&[PoolKind::Max, exclude, include]),
            kernel: kernel.to_vec(),
            strides: strides.to_vec(),
            pads: pads.to_vec(),
            ceil_mode: self.random.yes(),
        };
        self.net.op(kind, &[x])
    }

    fn broadcasting(&mut self, rank: usize) -> Built {
        let mut a = self.shape(rank);
        let mut b = a.clone();
        for i in 0..rank {
            match self.random.below(4) {
                0 => a[i] = 1,
                1 => b[i] = 1,
                _ => {}
            }
        }
        let (x, y) = (self.input(&a)?, self.input(&b)?);
        let f = self.random.pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min]);
        self.net.binary(f, x, y)
    }

    fn reduce(&mut self, x: ValueId) -> Built {
        let rank = self.net.rank(x);
        let mut axes: Vec<usize> = (0..rank).filter(|_| self.random.yes()).collect();
        if axes.is_empty() {
            axes.push(rank - 1);
        }
        let kind = self.random.pick(&[ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min]);
        let keep_dims = self.random.yes() || axes.len() == rank;
        self.net.op(OpKind::Reduce { kind, axes, keep_dims }, &[x])
    }

    fn transpose(&mut self, x: ValueId) -> Built {
        let mut perm: Vec<usize> = (0..self.net.rank(x)).collect();
        for i in (1..perm.len()).rev() {
            perm.swap(i, self.random.below(i + 1));
        }
        self.net.op(OpKind::Transpose { perm }, &[x])
    }

    fn reshape(&mut self, x: ValueId) -> Built {
        let total: usize = self.net.shape(x).iter().product();
        let factor = (1..=total).filter(|f| total.is_multiple_of(*f)).nth(self.random.below(2)).unwrap_or(1);
        let ty = TensorType::new(DType::F16, [factor, total / factor]);
        self.net.op_as(OpKind::Reshape, &[x], Some(ty))
    }

    fn concatenation(&mut self, rank: usize) -> Built {
        let axis = self.random.below(rank);
        let mut shape = self.shape(rank);
        let mut parts = Vec::new();
        for most in [9, 40, 40] {
            shape[axis] = self.random.size(most);
            parts.push(self.input(&shape)?);
        }
        self.net.op(OpKind::Concat { axis }, &parts)
    }

    fn slice(&mut self, x: ValueId) -> Built {
        let shape = self.net.shape(x);
        let begin: Vec<usize> = shape.iter().map(|&n| self.random.below(n)).collect();
        let end: Vec<usize> = shape.iter().zip(&begin).map(|(&n, &b)| b + 1 + self.random.below(n - b)).collect();
        let stride = shape.iter().map(|_| self.random.size(3)).collect();
        self.net.op(OpKind::Slice { begin, end, stride }, &[x])
    }

    fn product(&mut self) -> Built {
        let [m, k, n] = [0, 1, 2].map(|_| self.random.size(40));
        let (transpose_x, transpose_y) = (self.random.yes(), self.random.yes());
        let x = self.input(&if transpose_x { [k, m] } else { [m, k] })?;
        let shape = if transpose_y { [n, k] } else { [k, n] };
        let y = if self.random.yes() { self.input(&shape)? } else { self.weights(&shape) };
        self.net.op(OpKind::MatMul { transpose_x, transpose_y }, &[x, y])
    }

    fn unary(&mut self, x: ValueId) -> Built {
        let f = self.random.pick(&[
            Unary::Relu,
            Unary::Relu6,
            Unary::LeakyRelu { alpha: 0.1 },
            Unary::Elu { alpha: 1.0 },
            Unary::Sigmoid,
            Unary::Tanh,
            Unary::Gelu(GeluMode::Exact),
            Unary::Gelu(GeluMode::Tanh),
            Unary::Silu,
            Unary::Softplus,
            Unary::Softsign,
            Unary::Erf,
            Unary::Exp,
            Unary::Abs,
            Unary::Square,
            Unary::Sign,
            Unary::Ceil,
            Unary::Floor,
            Unary::Round,
            Unary::Clip { min: -0.5, max: 0.75 },
            Unary::Sin,
            Unary::Cos,
        ]);
        self.net.unary(f, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_checked_networks_that_differ() {
        let drawn: Vec<Net> = (0..60).filter_map(|seed| draw(seed).ok()).collect();
        assert!(drawn.len() >= 55, "{} of 60", drawn.len());
        for net in &drawn {
            assert!(anemone_net::check::check(net).is_ok(), "{}", anemone_net::text::print(net).0);
        }
        assert!(drawn.iter().any(|net| net.ops.len() > 4));
    }

    #[test]
    fn arrays_begin_at_a_multiple_of_64_bytes() {
        let bytes = npy(&[2, 3], &[0.0; 6]);
        assert_eq!((bytes.len() - 24) % 64, 0);
        assert_eq!(bytes[bytes.len() - 25], b'\n');
    }
}
