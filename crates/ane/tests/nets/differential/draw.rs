//! Random networks of one to three operations with their operands, from choices.

#[path = "heads.rs"]
mod heads;
#[path = "layers.rs"]
mod layers;

use super::source::Source;
use anemone_net::*;
use half::f16;
use std::sync::Arc;

/// A network and its inputs.
pub struct Case {
    pub net: Net,
    pub inputs: Vec<Tensor>,
}

impl Case {
    /// The network as text, and its inputs.
    pub fn text(&self) -> String {
        let constants = self.net.values.iter().filter_map(|v| Some((&v.name, v.data.as_ref()?)));
        let inputs = self.net.inputs.iter().zip(&self.inputs).map(|(&id, t)| (&self.net.value(id).name, t));
        let mut text = text::print(&self.net).0;
        for (name, tensor) in constants.map(|(n, t)| (n, &**t)).chain(inputs) {
            let data = tensor.data.to_f32();
            let shown: Vec<String> = data.iter().take(24).map(|x| format!("{x:?}")).collect();
            text += &format!("{name} = [{}{}]\n", shown.join(", "), if data.len() > 24 { ", ..." } else { "" });
        }
        text
    }
}

/// Numbers at limits: zeros, subnormal numbers, neighbours of powers of two, where whole numbers end, large ones.
pub const SPECIAL: [f32; 34] = [
    0.0,
    1.0,
    -1.0,
    -0.0,
    0.5,
    2.0,
    -2.0,
    1.5,
    2.5,
    -0.5,
    -1.5,
    4.0,
    0.999_511_7,
    1.000_976_6,
    -0.999_511_7,
    16.0,
    -100.0,
    2047.0,
    2048.0,
    2050.0,
    -2048.0,
    1024.5,
    5.960_464_5e-8,
    -5.960_464_5e-8,
    6.097_555e-5,
    6.103_515_6e-5,
    1e-3,
    32752.0,
    32768.0,
    -32768.0,
    65504.0,
    -65504.0,
    -1e4,
    6e4,
];
/// Elements of a result.
const MOST_ELEMENTS: usize = 4096;
pub const BEYOND: [f32; 3] = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
const WHOLE: [i32; 16] = [0, 1, -1, 2, 3, -2, 5, 7, -7, 16, 100, -100, 127, -128, 255, 1000];

/// Distribution of the elements.
#[derive(Clone, Copy, PartialEq)]
enum Elements {
    Whole,
    Uniform,
    Special,
    Beyond,
}

struct Drawing<'a> {
    source: &'a mut Source,
    net: Net,
    inputs: Vec<Tensor>,
    elements: Elements,
    /// True while the current value is known exactly: nothing before it rounds.
    exact: bool,
}

/// A case; `None` where the choices do not fit together.
pub fn draw(source: &mut Source) -> Option<Case> {
    let length = 1 + source.pick(&[0, 0, 1, 2]);
    drawn(source, length, false)
}

/// A case of up to `length` operations; those that do not fit are left out.
pub fn draw_chain(source: &mut Source, length: usize) -> Option<Case> {
    drawn(source, length, true)
}

fn drawn(source: &mut Source, length: usize, skips: bool) -> Option<Case> {
    let dtype = source.pick(&[
        DType::F16,
        DType::F16,
        DType::F16,
        DType::F16,
        DType::F32,
        DType::I32,
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
    ]);
    let elements =
        source.pick(&[Elements::Whole, Elements::Uniform, Elements::Uniform, Elements::Special, Elements::Beyond]);
    let net = Net { name: "case".into(), ..Net::default() };
    let mut drawing = Drawing { source, net, inputs: Vec::new(), elements, exact: true };
    let rank = 1 + drawing.source.below(5);
    let shape: Vec<usize> = (0..rank).map(|_| drawing.extent()).collect();
    let mut value = drawing.live(dtype, &shape);
    for _ in 0..length {
        match drawing.step(value) {
            Some(next) => value = next,
            None if skips => {}
            None => return None,
        }
    }
    let Drawing { mut net, inputs, .. } = drawing;
    net.outputs.push(value);
    check::check(&net).ok()?;
    Some(Case { net, inputs })
}

impl Drawing<'_> {
    fn extent(&mut self) -> usize {
        match self.source.below(12) {
            11 => 1 + self.source.below(40),
            n => 1 + n % 5,
        }
    }

    fn element(&mut self, dtype: DType) -> f32 {
        match dtype {
            DType::Bool => self.source.below(2) as f32,
            _ if !dtype.is_float() => {
                let x = self.source.pick(&WHOLE);
                match dtype {
                    DType::U8 | DType::U16 => x.unsigned_abs() as f32,
                    DType::I8 => x.clamp(-128, 127) as f32,
                    _ => x as f32,
                }
            }
            _ => match self.elements {
                Elements::Whole => self.source.below(7) as f32 - 3.0,
                Elements::Uniform => f16::from_f32((self.source.below(4001) as f32 - 2000.0) / 500.0).to_f32(),
                Elements::Special => self.source.pick(&SPECIAL),
                Elements::Beyond => match self.source.below(12) {
                    n @ 9.. => BEYOND[n - 9],
                    _ => self.source.pick(&SPECIAL),
                },
            },
        }
    }

    fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let element = |_| f16::from_f32(self.element(dtype)).to_f32();
        let values: Vec<f32> = (0..shape.iter().product()).map(element).collect();
        let data = match dtype {
            DType::F16 | DType::F32 => Data::from_f32(dtype, &values),
            _ => Data::from_i32(dtype, &values.iter().map(|&x| x as i32).collect::<Vec<_>>()),
        };
        Tensor { shape: shape.to_vec(), data }
    }

    fn live(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        let tensor = self.tensor(dtype, shape);
        self.live_tensor(tensor)
    }

    fn live_tensor(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("x{}", self.inputs.len());
        let id = self.net.add_value(Value { name, ty: tensor.ty(), data: None, surface: None });
        self.net.inputs.push(id);
        self.inputs.push(tensor);
        id
    }

    fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("c{}", self.net.values.len());
        self.net.add_value(Value { name, ty: tensor.ty(), data: Some(Arc::new(tensor)), surface: None })
    }

    /// Another operand, live or constant.
    fn operand(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        if self.source.below(2) == 0 {
            return self.live(dtype, shape);
        }
        let tensor = self.tensor(dtype, shape);
        self.constant(tensor)
    }

    /// Extents that broadcast with these.
    fn beside(&mut self, shape: &[usize]) -> Vec<usize> {
        let mut other = shape.to_vec();
        if self.source.once_in(3) {
            other.iter_mut().for_each(|n| *n = if self.source.below(2) == 1 { 1 } else { *n });
            let ones = other.iter().take_while(|&&n| n == 1).count();
            other.drain(..self.source.below(ones.min(other.len().saturating_sub(1)) + 1));
        }
        other
    }

    fn ty(&self, id: ValueId) -> TensorType {
        self.net.value(id).ty.clone()
    }

    fn push(&mut self, kind: OpKind, operands: &[ValueId], declared: Option<TensorType>) -> Option<ValueId> {
        let types: Vec<&TensorType> = operands.iter().map(|&id| &self.net.value(id).ty).collect();
        let ty = infer::infer(&kind, &types, declared.as_ref()).ok()?.remove(0);
        if ty.elements() > MOST_ELEMENTS {
            return None;
        }
        let name = format!("y{}", self.net.ops.len());
        let out = self.net.add_value(Value { name: name.clone(), ty, data: None, surface: None });
        self.net.ops.push(Op { name, kind, inputs: operands.to_vec(), outputs: vec![out] });
        Some(out)
    }

    /// One more operation on a value.
    fn step(&mut self, x: ValueId) -> Option<ValueId> {
        let ty = self.ty(x);
        let what = self.source.below(15);
        // A scalar has nothing to move, to reduce or to slide over.
        match if ty.shape.is_empty() { what % 3 } else { what } {
            0 => self.unary(x),
            1 | 2 => self.binary(x),
            3 | 4 => self.movement(x),
            5 => self.reduction(x),
            6 => self.choice(x),
            7 => self.cast(x),
            _ if ty.dtype == DType::Bool => self.choice(x),
            8 if ty.dtype.is_float() => self.window(x),
            9 if ty.dtype.is_float() => self.product(x),
            10 if ty.dtype.is_float() => self.norm(x),
            11 if ty.dtype.is_float() => self.resampled(x),
            12 => self.at_places(x),
            13 if ty.dtype.is_float() => self.convolved(x),
            14 if ty.dtype.is_float() => self.attention(x),
            _ => self.binary(x),
        }
    }

    fn unary(&mut self, x: ValueId) -> Option<ValueId> {
        use Unary::*;
        // Bounds of integers are whole numbers.
        let whole = !self.ty(x).dtype.is_float();
        let cuts = if whole { [-2.0, 3.0, 1.0] } else { [-1.5, 3.0, 0.5] };
        let continuous = [
            Identity,
            Relu,
            Relu6,
            Abs,
            Neg,
            Clip { min: cuts[0], max: cuts[1] },
            Threshold { alpha: cuts[2] },
            Square,
            LeakyRelu { alpha: 0.25 },
        ];
        let cut = [Sign, Ceil, Floor, Round];
        let smooth =
            [Sigmoid, Tanh, Erf, Exp2, Exp, Silu, Gelu(GeluMode::Exact), Softplus, Softsign, Elu { alpha: 1.0 }];
        let steep = [
            Sqrt,
            Log { epsilon: 0.0 },
            Log2,
            Rsqrt { epsilon: 0.0 },
            Inverse { epsilon: 0.0 },
            Gelu(GeluMode::Tanh),
            SigmoidHard { alpha: 0.2, beta: 0.5 },
            ScaledTanh { alpha: 1.5, beta: 0.5 },
            Atan,
            Sin,
            Cos,
            Sinh,
            Cosh,
        ];
        let f = self.source.pick(&[&continuous[..], &smooth, &cut, &steep].concat());
        // A function that jumps or is steep bounds nothing for an inexact operand.
        if (cut.contains(&f) || steep.contains(&f)) && !self.exact {
            return None;
        }
        self.exact &= (continuous.contains(&f) || cut.contains(&f)) && !matches!(f, Square | LeakyRelu { .. });
        self.push(OpKind::Unary(f), &[x], None)
    }

    fn binary(&mut self, x: ValueId) -> Option<ValueId> {
        use Binary::*;
        let ty = self.ty(x);
        let shape = self.beside(&ty.shape);
        let y = self.operand(ty.dtype, &shape);
        let f = match ty.dtype {
            DType::Bool => self.source.pick(&[Max, Min, Equal, NotEqual]),
            _ => self.source.pick(&[
                Add,
                Sub,
                Mul,
                Max,
                Min,
                Equal,
                NotEqual,
                Less,
                LessEqual,
                Greater,
                GreaterEqual,
                Div,
                Pow,
                FloorDiv,
                Mod,
            ]),
        };
        let moves = matches!(f, Max | Min) || f.is_comparison();
        if (f.is_comparison() || matches!(f, Div | Pow | FloorDiv | Mod)) && !self.exact {
            return None;
        }
        self.exact &= moves || !ty.dtype.is_float();
        let operands = if self.source.once_in(3) { [y, x] } else { [x, y] };
        self.push(OpKind::Binary(f), &operands, None)
    }

    fn movement(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let rank = shape.len();
        match self.source.below(8) {
            0 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                (1..rank).rev().for_each(|i| perm.swap(i, i - self.source.below(i + 1)));
                self.push(OpKind::Transpose { perm }, &[x], None)
            }
            1 => {
                let total: usize = shape.iter().product();
                let factors: Vec<usize> = (1..=total).filter(|f| total.is_multiple_of(*f)).collect();
                let factor = self.source.pick(&factors);
                let declared = TensorType { dtype, shape: vec![factor, total / factor] };
                self.push(OpKind::Reshape, &[x], Some(declared))
            }
            2 => {
                let begin: Vec<usize> = shape.iter().map(|&n| self.source.below(n)).collect();
                let end = shape.iter().zip(&begin).map(|(&n, &b)| n - self.source.below(n - b)).collect();
                let stride = shape.iter().map(|_| 1 + self.source.below(3)).collect();
                self.push(OpKind::Slice { begin, end, stride }, &[x], None)
            }
            3 => {
                let axis = self.source.below(rank);
                let mut other = shape.clone();
                other[axis] = self.extent();
                let y = self.operand(dtype, &other);
                let operands = if self.source.below(2) == 1 { [y, x] } else { [x, y] };
                self.push(OpKind::Concat { axis }, &operands, None)
            }
            4 => {
                let pads = shape.iter().map(|_| (self.source.below(3), self.source.below(3))).collect();
                let value = self.tensor(dtype, &[1]).data.to_f32()[0];
                self.push(OpKind::Pad { pads, value }, &[x], None)
            }
            5 => {
                let mode = self.source.pick(&[EdgeMode::Replicate, EdgeMode::Reflect]);
                let pads = shape.iter().map(|&n| (self.source.below(n.min(3)), self.source.below(n.min(3)))).collect();
                self.push(OpKind::PadEdge { pads, mode }, &[x], None)
            }
            6 => {
                let axis = self.source.below(rank);
                let count = 1 + self.source.below(4);
                let places: Vec<i32> = (0..count).map(|_| self.source.below(shape[axis]) as i32).collect();
                let places = self.constant(Tensor { shape: vec![count], data: Data::I32(places) });
                self.push(OpKind::Gather { axis }, &[x, places], None)
            }
            _ => {
                let wide = |n: usize, k: usize| if n == 1 { 1 + k } else { n };
                let mut to: Vec<usize> = shape.iter().map(|&n| wide(n, self.source.below(3))).collect();
                if rank < 5 && self.source.once_in(3) {
                    to.insert(0, 1 + self.source.below(3));
                }
                self.push(OpKind::Broadcast, &[x], Some(TensorType { dtype, shape: to }))
            }
        }
    }

    fn reduction(&mut self, x: ValueId) -> Option<ValueId> {
        use ReduceKind::*;
        let TensorType { dtype, shape } = self.ty(x);
        let rank = shape.len();
        let mut axes: Vec<usize> = (0..rank).filter(|_| self.source.below(2) == 1).collect();
        if axes.is_empty() {
            axes.push(rank - 1);
        }
        let keep_dims = self.source.below(2) == 0;
        let kind = self.source.pick(&[Max, Min, Sum, Mean, SumSquare, L1, Prod, L2, LogSum, LogSumExp]);
        if matches!(kind, L2 | LogSum) && !self.exact || matches!(kind, L2 | LogSum | LogSumExp) && !dtype.is_float() {
            return None;
        }
        self.exact &= matches!(kind, Max | Min) || !dtype.is_float();
        if dtype.is_float() && self.source.once_in(6) && self.exact {
            self.exact = false;
            return self.push(OpKind::Softmax { axis: axes[0] }, &[x], None);
        }
        self.push(OpKind::Reduce { kind, axes, keep_dims }, &[x], None)
    }

    /// The value chosen or choosing.
    fn choice(&mut self, x: ValueId) -> Option<ValueId> {
        let ty = self.ty(x);
        let shape = self.beside(&ty.shape);
        if ty.dtype == DType::Bool {
            let dtype = self.source.pick(&[DType::F16, DType::I32]);
            let [a, b] = [self.operand(dtype, &shape), self.operand(dtype, &shape)];
            return self.push(OpKind::Select, &[x, a, b], None);
        }
        let (condition, y) = (self.operand(DType::Bool, &shape), self.operand(ty.dtype, &shape));
        let operands = if self.source.below(2) == 1 { [condition, y, x] } else { [condition, x, y] };
        self.push(OpKind::Select, &operands, None)
    }

    fn cast(&mut self, x: ValueId) -> Option<ValueId> {
        if !self.exact {
            return None;
        }
        let TensorType { shape, .. } = self.ty(x);
        let dtype =
            self.source.pick(&[DType::F16, DType::I32, DType::Bool, DType::F32, DType::I8, DType::U8, DType::I16]);
        self.push(OpKind::Cast, &[x], Some(TensorType { dtype, shape }))
    }

    fn window(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { shape, .. } = self.ty(x);
        let spatial = shape.len().checked_sub(2).filter(|n| (1..=2).contains(n))?;
        let kernel: Vec<usize> = (0..spatial).map(|i| 1 + self.source.below(shape[2 + i].min(4))).collect();
        let strides = (0..spatial).map(|_| 1 + self.source.below(3)).collect();
        let pads = kernel.iter().map(|&k| (self.source.below(k), self.source.below(k))).collect();
        let kind = self.source.pick(&[
            PoolKind::Max,
            PoolKind::Average { exclude_padding: false },
            PoolKind::Average { exclude_padding: true },
        ]);
        self.exact &= kind == PoolKind::Max;
        let ceil_mode = self.source.below(2) == 1;
        self.push(OpKind::Pool { kind, kernel, strides, pads, ceil_mode }, &[x], None)
    }

    fn product(&mut self, x: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(x);
        let rank = shape.len();
        self.exact = false;
        let n = self.extent();
        match self.source.below(3) {
            0 => {
                let w = self.tensor(dtype, &[n, shape[rank - 1]]);
                let w = self.constant(w);
                self.push(OpKind::Linear, &[x, w], None)
            }
            1 if rank >= 2 => {
                let transpose_y = self.source.below(2) == 1;
                let k = shape[rank - 1];
                let mut other = shape[..rank - 2].to_vec();
                other.extend(if transpose_y { [n, k] } else { [k, n] });
                let y = self.operand(dtype, &other);
                self.push(OpKind::MatMul { transpose_x: false, transpose_y }, &[x, y], None)
            }
            _ => {
                let spatial = rank.checked_sub(2).filter(|n| (1..=2).contains(n))?;
                let kernel: Vec<usize> = (0..spatial).map(|i| 1 + self.source.below(shape[2 + i].min(4))).collect();
                let strides = (0..spatial).map(|_| 1 + self.source.below(3)).collect();
                let pads = kernel.iter().map(|&k| (self.source.below(k), self.source.below(k))).collect();
                let w = self.tensor(dtype, &[&[n, shape[1]], kernel.as_slice()].concat());
                let w = self.constant(w);
                let kind = OpKind::Conv { strides, pads, dilations: vec![1; spatial], groups: 1 };
                self.push(kind, &[x, w], None)
            }
        }
    }
}
