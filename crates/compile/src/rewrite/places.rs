//! Rewrites of arg-min and arg-max, table look-ups, products along axes and with many vectors, and linear layers and convolutions with
//! parameters computed at run time.

use super::Builder;
use crate::error::{Error, Result};
use anemone_net::{Binary, DType, Data, Op, OpKind, ReduceKind, ValueId};

/// Largest `n` such that fp16 represents all integers from 0 to `n` exactly.
const LARGEST_WHOLE: usize = super::whole::LARGEST_WHOLE as usize;
/// Largest number of factors of a product along axes: each is a layer.
const MOST_FACTORS: usize = 512;

/// Row counts of a constant table for which a look-up is a product with a one-hot matrix. With fewer rows, comparisons select the row;
/// with more, the host does the look-up.
const TABLE_ROWS: std::ops::RangeInclusive<usize> = 9..=128;
/// Most elements of a table, once for each index, that comparisons select from, without rounding. A product with more has fewer operations.
const MOST_COMPARED: usize = 1 << 14;
/// Logarithm of the largest scale of a table, and of its largest element after scaling.
const LARGEST_POWER: f32 = 12.0;
/// Largest number of matrix-vector products in a batch that stay products of the engine, each with tasks of its own.
const MOST_VECTORS: usize = 64;

impl Builder<'_> {
    /// Returns true if a gather along the first axis reads a finite constant of [`TABLE_ROWS`] rows at many computed indices. Comparisons
    /// select the rows of fewer elements.
    pub(super) fn is_small_table(&self, op: &Op) -> bool {
        let (table, places) = (self.net.value(op.inputs[0]), self.net.value(op.inputs[1]));
        let finite = |data: &Data| data.to_f32().iter().all(|x| x.is_finite());
        let compared = table.ty.elements().saturating_mul(places.ty.elements());
        table.ty.shape.first().is_some_and(|rows| TABLE_ROWS.contains(rows))
            && (table.ty.shape.len() == 2 || table.ty.dtype.is_float())
            && compared > MOST_COMPARED
            && places.data.is_none()
            && table.data.as_ref().is_some_and(|tensor| finite(&tensor.data))
    }

    /// Look-up of table rows as a product of one-hot rows with the table. Negative indices count from the end.
    pub(super) fn rows_of_table(&mut self, op: &Op) {
        let (table, places, out) = (op.inputs[0], op.inputs[1], op.outputs[0]);
        let Some(tensor) = self.net.value(table).data.clone() else { return };
        let (rows, columns) = (tensor.shape[0], tensor.shape[1..].iter().product::<usize>());
        let mut shape = self.shape(places);
        shape.push(1);
        let at = self.op("at", OpKind::Reshape, &[places], shape.clone());
        self.net.values[at.0 as usize].ty.dtype = self.net.value(places).ty.dtype;
        if let Some(last) = shape.last_mut() {
            *last = rows;
        }
        let counted = |from: f32| (0..rows).map(|i| i as f32 - from).collect::<Vec<f32>>();
        let mut chosen = Vec::new();
        let signed = !matches!(self.net.value(places).ty.dtype, DType::U8 | DType::U16 | DType::Bool);
        for from in [0.0, rows as f32].into_iter().take(if signed { 2 } else { 1 }) {
            let numbers = self.constant("rows", vec![rows], counted(from));
            chosen.push(self.op("chosen", OpKind::Binary(Binary::Equal), &[at, numbers], shape.clone()));
        }
        let one = match chosen.as_slice() {
            [one] => *one,
            both => self.op("one", OpKind::Binary(Binary::Add), both, shape),
        };
        let data = tensor.data.to_f32();
        // The array's sums have a fixed resolution, which loses small elements: those of the table are scaled, and the result back.
        let peak = data.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
        let power = if peak > 0.0 { (LARGEST_POWER - peak.log2().floor()).clamp(0.0, LARGEST_POWER) } else { 0.0 };
        let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c));
        let turned = turned.map(|i| data[i] * power.exp2()).collect();
        let matrix = self.constant("table", vec![columns, rows], turned);
        let mut flat = self.shape(places);
        flat.push(columns);
        let mut found = self.op("found", OpKind::Linear, &[one, matrix], flat.clone());
        if power > 0.0 {
            let scale = self.constant("scale", Vec::new(), vec![(-power).exp2()]);
            found = self.op("scaled", OpKind::Binary(Binary::Mul), &[found, scale], flat);
        }
        self.push(OpKind::Reshape, &[found], out);
    }

    /// Returns true for a batched product of matrices and vectors with a batch beyond [`MOST_VECTORS`]: sums of products are fewer tasks.
    /// Row vectors times matrices of their own are one task for all, and stay products.
    pub(super) fn is_many_vectors(&self, op: &Op) -> bool {
        let [x, y, out] = [op.inputs[0], op.inputs[1], op.outputs[0]].map(|id| self.shape(id));
        let matrices = |shape: &[usize]| shape.iter().rev().skip(2).product::<usize>();
        let batch = matrices(&out);
        let row = || x.len() > 1 && out[out.len() - 2] == 1 && (matrices(&x) != batch || matrices(&y) != batch);
        out.len() > 2 && y.len() > 1 && batch > MOST_VECTORS && (y.last() == Some(&1) || row())
    }

    /// Rewrites a product with a column vector, `x[.., M, K] y[.., K, 1]`, as row sums of the elementwise product with `y'[.., 1, K]`, and
    /// one of a row vector, `x[.., 1, K] y[.., K, N]`, as column sums of that of `x'[.., K, 1]`.
    pub(super) fn vectors(&mut self, op: &Op) {
        let (x, y, out) = (op.inputs[0], op.inputs[1], op.outputs[0]);
        let (mut whole, last) = (self.shape(out), self.shape(out).len() - 1);
        let column = self.shape(y).last() == Some(&1);
        let (vector, axis) = if column { (y, last) } else { (x, last - 1) };
        let mut transposed = self.shape(vector);
        let rank = transposed.len();
        whole[axis] = transposed[rank - 2].max(transposed[rank - 1]);
        transposed.swap(rank - 2, rank - 1);
        let transposed = self.op("transposed", OpKind::Reshape, &[vector], transposed);
        let operands = if column { [x, transposed] } else { [transposed, y] };
        let products = self.op("products", OpKind::Binary(Binary::Mul), &operands, whole);
        self.push(OpKind::Reduce { kind: ReduceKind::Sum, axes: vec![axis], keep_dims: true }, &[products], out);
    }

    /// Arg-min or arg-max: elements equal to the extreme are marked with their position, counted so that the wanted one has the
    /// greatest mark.
    pub(super) fn arg_reduce(&mut self, op: &Op, greatest: bool, last: bool, axis: usize) -> Result<()> {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let (shape, result) = (self.shape(x), self.shape(out));
        let extent = shape[axis];
        if extent > LARGEST_WHOLE {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: op.kind.name().into(),
                reason: format!("{extent} positions; fp16 represents {LARGEST_WHOLE} exactly"),
                suggestion: "split the axis, or find the position on the host",
            });
        }
        let (mut kept, mut along) = (shape.clone(), vec![1; shape.len()]);
        (kept[axis], along[axis]) = (1, extent);
        let reduce = |kind| OpKind::Reduce { kind, axes: vec![axis], keep_dims: true };
        let best =
            self.op("best", reduce(if greatest { ReduceKind::Max } else { ReduceKind::Min }), &[x], kept.clone());
        let equal = self.op("equal", OpKind::Binary(Binary::Equal), &[x, best], shape.clone());
        let marks = (0..extent).map(|i| if last { i + 1 } else { extent - i } as f32).collect();
        let marks = self.constant("places", along, marks);
        let marked = self.op("marked", OpKind::Binary(Binary::Mul), &[equal, marks], shape);
        let most = self.op("most", reduce(ReduceKind::Max), &[marked], kept.clone());
        let count = self.constant("count", vec![1], vec![if last { 1.0 } else { extent as f32 }]);
        let operands = if last { [most, count] } else { [count, most] };
        let place = self.op("place", OpKind::Binary(Binary::Sub), &operands, kept.clone());
        self.finish(place, &kept, &result, out);
        Ok(())
    }

    /// A product along axes, computed by repeated halving.
    pub(super) fn product_along(&mut self, op: &Op, axes: &[usize]) -> Result<()> {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let (shape, result) = (self.shape(x), self.shape(out));
        let factors: usize = axes.iter().map(|&a| shape[a]).product();
        if factors > MOST_FACTORS || factors == 0 {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: op.kind.name().into(),
                reason: format!("a product of {factors} elements; at most {MOST_FACTORS} are multiplied"),
                suggestion: "use the exponential of a sum of logarithms",
            });
        }
        // Leading axes, so that a half of the first one is a view.
        let rest: Vec<usize> = (0..shape.len()).filter(|a| !axes.contains(a)).collect();
        let perm: Vec<usize> = axes.iter().chain(&rest).copied().collect();
        let mut turned: Vec<usize> = perm.iter().map(|&a| shape[a]).collect();
        let mut current = x;
        if perm.iter().enumerate().any(|(i, &a)| i != a) {
            current = self.op("turned", OpKind::Transpose { perm }, &[x], turned.clone());
        }
        for axis in 0..axes.len() {
            while turned[axis] > 1 {
                let (half, odd) = (turned[axis] / 2, turned[axis] % 2);
                let part = |builder: &mut Self, from: usize, extent: usize| {
                    let (mut begin, mut end) = (vec![0; turned.len()], turned.clone());
                    (begin[axis], end[axis]) = (from, from + extent);
                    let mut own = turned.clone();
                    own[axis] = extent;
                    let stride = vec![1; turned.len()];
                    builder.op("part", OpKind::Slice { begin, end, stride }, &[current], own)
                };
                let (low, high) = (part(self, 0, half), part(self, half, half));
                let mut own = turned.clone();
                own[axis] = half;
                let mut product = self.op("product", OpKind::Binary(Binary::Mul), &[low, high], own.clone());
                if odd == 1 {
                    let left = part(self, 2 * half, 1);
                    own[axis] = half + 1;
                    product = self.op("joined", OpKind::Concat { axis }, &[product, left], own.clone());
                }
                (current, turned) = (product, own);
            }
        }
        self.finish(current, &turned, &result, out);
        Ok(())
    }

    /// Makes a value the result, with its extents.
    fn finish(&mut self, value: ValueId, shape: &[usize], result: &[usize], out: ValueId) {
        let kind = if shape == result { OpKind::Unary(anemone_net::Unary::Identity) } else { OpKind::Reshape };
        self.push(kind, &[value], out);
    }

    /// A linear layer with a matrix that is computed, or larger than `most` bytes, becomes a product. Its bias, and a computed bias in
    /// general, is added.
    pub(super) fn linear(&mut self, op: &Op, most: u64) {
        let constant = |id: ValueId| self.net.value(id).data.is_some();
        let bytes = self.shape(op.inputs[1]).iter().product::<usize>() as u64 * 2;
        let (matrix, bias) = (constant(op.inputs[1]) && bytes <= most, op.inputs.get(2).is_none_or(|&b| constant(b)));
        if matrix && bias {
            return self.ops.push(op.clone());
        }
        let shape = self.shape(op.outputs[0]);
        let kind = if matrix { OpKind::Linear } else { OpKind::MatMul { transpose_x: false, transpose_y: true } };
        let Some(&bias) = op.inputs.get(2) else { return self.push(kind, &op.inputs[..2], op.outputs[0]) };
        let product = self.op("product", kind, &op.inputs[..2], shape);
        self.push(OpKind::Binary(Binary::Add), &[product, bias], op.outputs[0]);
    }

    /// Adds a computed bias after a convolution; a convolution with a computed kernel becomes a product.
    pub(super) fn conv_bias(&mut self, op: &Op) {
        let constant = |id: ValueId| self.net.value(id).data.is_some();
        let (kernel, bias) = (constant(op.inputs[1]), op.inputs.get(2).is_none_or(|&b| constant(b)));
        if kernel && bias {
            return self.ops.push(op.clone());
        }
        let shape = self.shape(op.outputs[0]);
        let Some(&bias) = op.inputs.get(2) else { return self.conv_of(op, kernel, op.outputs[0]) };
        let mut per_channel = vec![1; shape.len()];
        per_channel[1] = shape[1];
        let name = self.fresh("sums");
        let ty = self.net.value(op.outputs[0]).ty.clone();
        let sums = self.net.add_value(anemone_net::Value { name, ty, data: None, surface: None });
        self.conv_of(op, kernel, sums);
        let bias = self.reshaped("bias", bias, per_channel);
        self.push(OpKind::Binary(Binary::Add), &[sums, bias], op.outputs[0]);
    }

    /// A convolution without its bias.
    fn conv_of(&mut self, op: &Op, constant: bool, out: ValueId) {
        if constant {
            return self.push(op.kind.clone(), &op.inputs[..2], out);
        }
        let OpKind::Conv { strides, pads, dilations, groups } = &op.kind else { return };
        let (x, w) = (op.inputs[0], op.inputs[1]);
        let (from, kernel, to) = (self.shape(x), self.shape(w), self.shape(out));
        let spatial = kernel.len() - 2;
        let mut padded = x;
        let mut whole = from.clone();
        if pads.iter().any(|&p| p != (0, 0)) {
            let mut all = vec![(0, 0); 2];
            all.extend(pads);
            whole.iter_mut().zip(&all).for_each(|(n, (before, after))| *n += before + after);
            padded = self.op("padded", OpKind::Pad { pads: all, value: 0.0 }, &[x], whole.clone());
        }
        // The operand's elements under every tap, next to each other: [N, Cin, taps, positions].
        let positions: usize = to[2..].iter().product();
        let taps: usize = kernel[2..].iter().product();
        let mut parts = Vec::new();
        for tap in 0..taps {
            let (mut begin, mut end, mut stride) = (vec![0; whole.len()], whole.clone(), vec![1; whole.len()]);
            let (mut rest, mut own) = (tap, from[..2].to_vec());
            for i in (0..spatial).rev() {
                begin[i + 2] = rest % kernel[i + 2] * dilations[i];
                rest /= kernel[i + 2];
                end[i + 2] = begin[i + 2] + (to[i + 2] - 1) * strides[i] + 1;
                stride[i + 2] = strides[i];
            }
            own.extend(&to[2..]);
            let part = self.op("tap", OpKind::Slice { begin, end, stride }, &[padded], own);
            parts.push(self.op("flat", OpKind::Reshape, &[part], vec![from[0], from[1], 1, positions]));
        }
        let joined = vec![from[0], from[1], taps, positions];
        let patches = if let [one] = parts.as_slice() {
            *one
        } else {
            self.op("taps", OpKind::Concat { axis: 2 }, &parts, joined)
        };
        let per_group = [from[0], *groups, kernel[1] * taps, positions];
        let patches = self.op("patches", OpKind::Reshape, &[patches], per_group.to_vec());
        let outputs = kernel[0] / groups;
        let matrix = self.op("matrix", OpKind::Reshape, &[w], vec![1, *groups, outputs, kernel[1] * taps]);
        let product = OpKind::MatMul { transpose_x: false, transpose_y: false };
        let sums = self.op("product", product, &[matrix, patches], vec![from[0], *groups, outputs, positions]);
        self.push(OpKind::Reshape, &[sums], out);
    }
}
