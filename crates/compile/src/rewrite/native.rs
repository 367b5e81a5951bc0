//! Expansion of native layers that known registers of the H13 compute into operations that are lowered to them. Other native layers
//! stay one operation, which becomes one task in this project's own encoding (`crates/compile/src/emit/extension.rs`).

use super::{Builder, MOST_PIECES, rewrite};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::native::{Kind, Native};
use anemone_net::{Binary, Coordinates, EdgeMode, Net, Op, OpKind, ReduceKind, ResizeMode, Unary, ValueId};

pub(crate) fn expand_natives(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    for op in &net.ops {
        let OpKind::Native(native) = &op.kind else { continue };
        reasons.say(|| format!("{} is {}", op.name, native.schema().mil_name()));
    }
    rewrite(net, reasons, |builder, op| {
        match &op.kind {
            OpKind::Native(native) => builder.native(op, native)?,
            OpKind::Combine => {
                builder.push(OpKind::MatMul { transpose_x: false, transpose_y: true }, &op.inputs, op.outputs[0]);
            }
            _ => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

impl Builder<'_> {
    fn native(&mut self, op: &Op, native: &Native) -> Result<()> {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let shape = self.shape(x);
        let [n, c, h, w] = self.four(x);
        let size = |key: &str| native.size(key);
        let (fx, fy) = (size("FactorX").max(1), size("FactorY").max(1));
        match native.kind {
            Kind::Sdpa => self.attention(op, native),
            Kind::PixelShuffle => self.moved(x, &[n, c / fx / fy, fy, fx, h, w], &[0, 1, 4, 2, 5, 3], out),
            Kind::ChannelToSpace => self.moved(x, &[n, fy, fx, c / fx / fy, h, w], &[0, 3, 4, 1, 5, 2], out),
            Kind::PixelUnshuffle => self.moved(x, &[n, c, h / fy, fy, w / fx, fx], &[0, 1, 3, 5, 2, 4], out),
            Kind::SpaceToChannel => self.moved(x, &[n, c, h / fy, fy, w / fx, fx], &[0, 3, 5, 1, 2, 4], out),
            Kind::SpaceToBatch => self.moved(x, &[n, c, h / fy, fy, w / fx, fx], &[0, 3, 5, 1, 2, 4], out),
            Kind::BatchToSpace => self.moved(x, &[n / fx / fy, fy, fx, c, h, w], &[0, 3, 4, 1, 5, 2], out),
            Kind::MinMaxNorm => self.min_max_norm(x, native, out),
            Kind::Lrn => self.response(op, native, &shape),
            Kind::DynamicGoc => {
                let mut x = x;
                if !native.flag("BiasOnly") {
                    x = self.op("scaled", OpKind::Binary(Binary::Mul), &[x, op.inputs[1]], shape);
                }
                let bias = op.inputs.last().copied().unwrap_or(x);
                self.push(OpKind::Binary(Binary::Add), &[x, bias], out);
            }
            Kind::CrossProduct => self.cross_product([x, op.inputs[1]], out),
            Kind::CostVolume => self.cost_volume(op, size("DisparityRange"))?,
            Kind::Tile => self.tile(op, native)?,
            Kind::Flatten if native.word("FlattenType") == "NHWC" => {
                let perm = vec![0, 2, 3, 1];
                let last = self.op("channels_last", OpKind::Transpose { perm }, &[x], vec![n, h, w, c]);
                self.push(OpKind::Reshape, &[last], out);
            }
            Kind::Unflatten if native.word("Mode") == "NHWC" => {
                let [n, c, h, w] = self.four(out);
                let last = self.op("channels_last", OpKind::Reshape, &[x], vec![n, h, w, c]);
                self.push(OpKind::Transpose { perm: vec![0, 3, 1, 2] }, &[last], out);
            }
            Kind::Flatten | Kind::Unflatten => self.push(OpKind::Reshape, &[x], out),
            Kind::Dropout => self.push(OpKind::Unary(Unary::Identity), &[x], out),
            Kind::MatrixMult => {
                let z = op.inputs[1];
                let (x, z) = (self.exchanged(x), self.exchanged(z));
                let to = self.shape(out);
                let (transpose_x, transpose_y) = (native.flag("TransposeLhs"), native.flag("TransposeRhs"));
                let product = OpKind::MatMul { transpose_x, transpose_y };
                let product = self.op("product", product, &[x, z], vec![to[0], to[2], to[1], to[3]]);
                self.push(OpKind::Transpose { perm: vec![0, 2, 1, 3] }, &[product], out);
            }
            Kind::LayerNorm => self.layer_norm(x, native, out),
            Kind::InstanceNorm => self.push(OpKind::InstanceNorm { epsilon: native.real("Epsilon") }, &[x], out),
            Kind::L2Norm => self.l2_norm(x, native, out),
            Kind::Pad => {
                let pads = vec![(0, 0), (0, 0), (size("PadTop"), size("PadBot")), (size("PadLeft"), size("PadRight"))];
                let kind = match native.word("PaddingMode") {
                    "Reflective" => OpKind::PadEdge { pads, mode: EdgeMode::Reflect },
                    "Replication" => OpKind::PadEdge { pads, mode: EdgeMode::Replicate },
                    _ => OpKind::Pad { pads, value: native.real("PaddingValue") },
                };
                self.push(kind, &[x], out);
            }
            Kind::Resize | Kind::ResizeAs => self.resize(x, native, out),
            Kind::Shape => {
                let extents = self.constant("extents", vec![1, 1, 1, 4], shape.iter().map(|&d| d as f32).collect());
                self.push(OpKind::Unary(Unary::Identity), &[extents], out);
            }
            _ => self.ops.push(op.clone()),
        }
        Ok(())
    }

    /// `(x - min) / (max - min + epsilon)` along an axis.
    fn min_max_norm(&mut self, x: ValueId, native: &Native, out: ValueId) {
        let shape = self.shape(x);
        let axes = vec![native.axis("Dimension")];
        let mut short = shape.clone();
        short[axes[0]] = 1;
        let mut reduce = |kind| {
            let kind = OpKind::Reduce { kind, axes: axes.clone(), keep_dims: true };
            self.op("extreme", kind, &[x], short.clone())
        };
        let (least, most) = (reduce(ReduceKind::Min), reduce(ReduceKind::Max));
        let above = self.op("above", OpKind::Binary(Binary::Sub), &[x, least], shape.clone());
        let span = self.op("span", OpKind::Binary(Binary::Sub), &[most, least], short.clone());
        let span = self.plus("guarded", span, native.real("Epsilon"), &short);
        self.push(OpKind::Binary(Binary::Div), &[above, span], out);
    }

    /// Cross product of vectors along the channels: `a1 b2 - a2 b1`, with channels rotated by one and by two.
    fn cross_product(&mut self, [x, y]: [ValueId; 2], out: ValueId) {
        let shape = self.shape(x);
        let mut turned = |id, first: usize| {
            let parts: Vec<ValueId> =
                [first, (first + 1) % 3, (first + 2) % 3].map(|at| self.part(id, &shape, 1, at, 1)).into();
            self.op("turned", OpKind::Concat { axis: 1 }, &parts, shape.clone())
        };
        let (a1, a2) = (turned(x, 1), turned(x, 2));
        let (b1, b2) = (turned(y, 1), turned(y, 2));
        let forth = self.op("forth", OpKind::Binary(Binary::Mul), &[a1, b2], shape.clone());
        let back = self.op("back", OpKind::Binary(Binary::Mul), &[a2, b1], shape);
        self.push(OpKind::Binary(Binary::Sub), &[forth, back], out);
    }

    /// Sums over channels of absolute differences from the reference, for every disparity up to `range`.
    fn cost_volume(&mut self, op: &Op, range: usize) -> Result<()> {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let (shape, [n, c, h, w]) = (self.shape(x), self.four(x));
        let reference = self.shape(op.inputs[1]);
        self.few(op, range + 1)?;
        let planes: Vec<ValueId> = (0..=range)
            .map(|d| {
                let beside = self.part(op.inputs[1], &reference, 3, d, w);
                let apart = self.op("apart", OpKind::Binary(Binary::Sub), &[x, beside], shape.clone());
                let cost = self.op("cost", OpKind::Unary(Unary::Abs), &[apart], shape.clone());
                let sum = OpKind::Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: true };
                if c > 1 { self.op("summed", sum, &[cost], vec![n, 1, h, w]) } else { cost }
            })
            .collect();
        self.push(OpKind::Concat { axis: 1 }, &planes, out);
        Ok(())
    }

    /// Repetition along each axis.
    fn tile(&mut self, op: &Op, native: &Native) -> Result<()> {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let shape = self.shape(x);
        let (mut x, mut shape) = (x, shape);
        for (axis, name) in anemone_net::native::AXES.into_iter().enumerate() {
            let times = native.size(&format!("Tile{name}"));
            self.few(op, times)?;
            if times > 1 {
                shape[axis] *= times;
                x = self.op("repeated", OpKind::Concat { axis }, &vec![x; times], shape.clone());
            }
        }
        self.push(OpKind::Unary(Unary::Identity), &[x], out);
        Ok(())
    }

    /// Layer norm, computed for each group of channels if there are several.
    fn layer_norm(&mut self, x: ValueId, native: &Native, out: ValueId) {
        let [n, c, h, w] = self.four(x);
        let mut axes: Vec<usize> = native.list("Dimension").iter().map(|&a| a as usize).collect();
        axes.sort_unstable();
        let norm = OpKind::LayerNorm { axes, epsilon: native.real("Epsilon") };
        match native.size("NumGroups") {
            0 | 1 => self.push(norm, &[x], out),
            groups => {
                let apart = vec![n * groups, c / groups, h, w];
                let grouped = self.op("grouped", OpKind::Reshape, &[x], apart.clone());
                let normal = self.op("normal", norm, &[grouped], apart);
                self.push(OpKind::Reshape, &[normal], out);
            }
        }
    }

    /// `x / sqrt(sum of squares + epsilon)` over some axes.
    fn l2_norm(&mut self, x: ValueId, native: &Native, out: ValueId) {
        let shape = self.shape(x);
        let mut axes: Vec<usize> = native.list("Dimension").iter().map(|&a| a as usize).collect();
        axes.sort_unstable();
        let short: Vec<usize> = (0..4).map(|i| if axes.contains(&i) { 1 } else { shape[i] }).collect();
        let sum = OpKind::Reduce { kind: ReduceKind::SumSquare, axes, keep_dims: true };
        let sum = self.op("squares", sum, &[x], short.clone());
        let epsilon = native.real("Epsilon");
        let norm = self.op("inverse", OpKind::Unary(Unary::Rsqrt { epsilon }), &[sum], short);
        self.push(OpKind::Binary(Binary::Mul), &[x, norm], out);
    }

    /// Resampling to the result's extents.
    fn resize(&mut self, x: ValueId, native: &Native, out: ValueId) {
        let mode =
            if native.word("SamplingMethod") == "NearestNeighbor" { ResizeMode::Nearest } else { ResizeMode::Linear };
        let coordinates = if native.flag("AlignCorners") { Coordinates::AlignCorners } else { Coordinates::HalfPixel };
        self.push(OpKind::Resize { mode, coordinates }, &[x], out);
    }

    /// Refuses a layer that would be assembled from too many pieces.
    fn few(&self, op: &Op, pieces: usize) -> Result<()> {
        if pieces <= MOST_PIECES {
            return Ok(());
        }
        Err(Error::Unsupported {
            op: op.name.clone(),
            kind: op.kind.name().into(),
            reason: format!("it would be assembled from {pieces} pieces; at most {MOST_PIECES} are"),
            suggestion: "smaller factors, or several layers in sequence",
        })
    }

    /// Splits axes, permutes them and merges them again.
    fn moved(&mut self, x: ValueId, apart: &[usize], perm: &[usize], out: ValueId) {
        let split = self.op("apart", OpKind::Reshape, &[x], apart.to_vec());
        let to = perm.iter().map(|&p| apart[p]).collect();
        let turned = self.op("turned", OpKind::Transpose { perm: perm.to_vec() }, &[split], to);
        self.push(OpKind::Reshape, &[turned], out);
    }

    /// Slice along an axis.
    fn part(&mut self, x: ValueId, shape: &[usize], axis: usize, from: usize, extent: usize) -> ValueId {
        let (mut begin, mut end, stride) = (vec![0; 4], shape.to_vec(), vec![1; 4]);
        (begin[axis], end[axis]) = (from, from + extent);
        let mut to = shape.to_vec();
        to[axis] = extent;
        self.op("part", OpKind::Slice { begin, end, stride }, &[x], to)
    }

    fn plus(&mut self, suffix: &str, x: ValueId, value: f32, shape: &[usize]) -> ValueId {
        let value = self.constant("addend", vec![1], vec![value]);
        self.op(suffix, OpKind::Binary(Binary::Add), &[x, value], shape.to_vec())
    }

    fn times(&mut self, suffix: &str, x: ValueId, value: f32, shape: &[usize]) -> ValueId {
        let value = self.constant("factor", vec![1], vec![value]);
        self.op(suffix, OpKind::Binary(Binary::Mul), &[x, value], shape.to_vec())
    }

    /// Transpose of channels and rows.
    fn exchanged(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let to = vec![shape[0], shape[2], shape[1], shape[3]];
        self.op("exchanged", OpKind::Transpose { perm: vec![0, 2, 1, 3] }, &[x], to)
    }

    /// Attention as products of queries and keys, softmax, and a product with the values: the chip's path for the layer too.
    fn attention(&mut self, op: &Op, native: &Native) {
        let [q, k, v] = [0, 1, 2].map(|i| self.exchanged(op.inputs[i]));
        let ([n, h, rows, _], keys) = (self.four(q), self.four(k)[2]);
        let (scores, sums) = (vec![n, h, rows, keys], vec![n, h, rows, 1]);
        let product = |transpose_y| OpKind::MatMul { transpose_x: false, transpose_y };
        let score = self.op("scores", product(true), &[q, k], scores.clone());
        let mut score = self.op("scaled", OpKind::Binary(Binary::Mul), &[score, op.inputs[3]], scores.clone());
        if let Some(&mask) = op.inputs.get(4) {
            let mask = self.exchanged(mask);
            score = self.op("masked", OpKind::Binary(Binary::Add), &[score, mask], scores.clone());
        }
        let weights = if native.flag("SubtractMax") {
            self.op("weights", OpKind::Softmax { axis: 3 }, &[score], scores)
        } else {
            let powers = self.op("powers", OpKind::Unary(Unary::Exp), &[score], scores.clone());
            let sum = OpKind::Reduce { kind: ReduceKind::Sum, axes: vec![3], keep_dims: true };
            let sum = self.op("sums", sum, &[powers], sums);
            self.op("weights", OpKind::Binary(Binary::Div), &[powers, sum], scores)
        };
        let features = self.four(v)[3];
        let mixed = self.op("mixed", product(false), &[weights, v], vec![n, h, rows, features]);
        self.push(OpKind::Transpose { perm: vec![0, 2, 1, 3] }, &[mixed], op.outputs[0]);
    }

    fn four(&self, x: ValueId) -> [usize; 4] {
        let shape = self.shape(x);
        std::array::from_fn(|i| shape.get(i).copied().unwrap_or(1))
    }

    fn response(&mut self, op: &Op, native: &Native, shape: &[usize]) {
        let (x, window) = (op.inputs[0], native.size("KernelChannel"));
        let &[n, c, h, w] = shape else { return self.ops.push(op.clone()) };
        let (inner, sum) = (vec![n, window, h, w], vec![n, 1, h, w]);
        let part = if window < c { self.part(x, shape, 1, 0, window) } else { x };
        let kind = OpKind::Reduce { kind: ReduceKind::SumSquare, axes: vec![1], keep_dims: true };
        let squares = self.op("squares", kind, &[part], sum.clone());
        let scaled = self.times("weighed", squares, native.real("Alpha") / window as f32, &sum);
        let base = self.plus("base", scaled, native.real("K"), &sum);
        let power = self.constant("power", vec![1], vec![-native.real("Beta")]);
        let factor = self.op("factor", OpKind::Binary(Binary::Pow), &[base, power], sum);
        let product = OpKind::Binary(Binary::Mul);
        if window == c {
            return self.push(product, &[part, factor], op.outputs[0]);
        }
        let first = self.op("normalized", product, &[part, factor], inner);
        let rest = self.part(x, shape, 1, window, c - window);
        self.push(OpKind::Concat { axis: 1 }, &[first, rest], op.outputs[0]);
    }
}
