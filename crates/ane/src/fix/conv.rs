//! Convolutions with too large kernels: space-to-depth by the stride, exchange of rows and columns, or a sum of parts.

use super::Rewriter;
use anemone_check::own::kernel_refused;
use anemone_net::{Binary, Op, OpKind, Tensor, ValueId};

/// A convolution of two spatial axes with constant weights.
pub struct Conv {
    pub x: ValueId,
    /// A value with the element type of the weights.
    pub weight: ValueId,
    pub bias: Option<ValueId>,
    pub strides: [usize; 2],
    pub pads: [(usize, usize); 2],
    pub dilations: [usize; 2],
    pub groups: usize,
    /// Output channels, input channels of a group, rows, columns.
    pub extents: [usize; 4],
    pub values: Vec<f32>,
    pub result: ValueId,
}

pub fn rewrite(r: &mut Rewriter, op: &Op, result: ValueId) -> Option<String> {
    let weight = r.net.value(*op.inputs.get(1)?).data.clone()?;
    match weight.shape.len() {
        3 => line(r, op, &weight, result),
        4 => Conv::of(op, &weight, result)?.written(r),
        5 => volume(r, op, &weight, result),
        _ => None,
    }
}

/// A convolution over one axis as one over an image with one row.
fn line(r: &mut Rewriter, op: &Op, weight: &Tensor, result: ValueId) -> Option<String> {
    let OpKind::Conv { strides, pads, dilations, groups } = &op.kind else { return None };
    let (shape, out) = (r.shape(op.inputs[0]), r.shape(result));
    let x = r.reshape(op.inputs[0], vec![shape[0], shape[1], 1, shape[2]]);
    let image = r.value(x, vec![out[0], out[1], 1, out[2]]);
    let conv = Conv {
        x,
        weight: op.inputs[1],
        bias: op.inputs.get(2).copied(),
        strides: [1, strides[0]],
        pads: [(0, 0), pads[0]],
        dilations: [1, dilations[0]],
        groups: *groups,
        extents: [weight.shape[0], weight.shape[1], 1, weight.shape[2]],
        values: weight.data.to_f32(),
        result: image,
    };
    let into = conv.written(r)?;
    r.finish(OpKind::Reshape, &[image], result);
    Some(into)
}

/// Largest number of convolutions for a kernel with depth.
const MOST_DEPTHS: usize = 64;

/// A kernel with depth: for each depth of the result, one convolution over the channels of all depths that it reads.
fn volume(r: &mut Rewriter, op: &Op, weight: &Tensor, result: ValueId) -> Option<String> {
    let OpKind::Conv { strides, pads, dilations, groups: 1 } = &op.kind else { return None };
    let (shape, out) = (r.shape(op.inputs[0]), r.shape(result));
    let [outputs, channels, deep, rows, columns] = weight.shape[..] else { return None };
    if shape[0] != 1 || out[2] > MOST_DEPTHS {
        return None;
    }
    let plane = rows * columns;
    let given = weight.data.to_f32();
    // Output channel, depth, input channel, position.
    let mut values = Vec::with_capacity(given.len());
    for output in 0..outputs {
        for depth in 0..deep {
            for channel in 0..channels {
                values.extend_from_slice(&given[((output * channels + channel) * deep + depth) * plane..][..plane]);
            }
        }
    }
    let (before, after) = pads[0];
    let turned = r.transpose(op.inputs[0], &[0, 2, 1, 3, 4]);
    let mut x = r.reshape(turned, vec![1, shape[2] * channels, shape[3], shape[4]]);
    let mut parts = Vec::new();
    for (at, count) in [before, after].into_iter().enumerate() {
        if at == 1 {
            parts.push(x);
        }
        if count > 0 {
            let border = vec![1, count * channels, shape[3], shape[4]];
            let zeros = vec![0.0; border.iter().product()];
            parts.push(r.constant(op.inputs[0], border, zeros));
        }
    }
    if parts.len() > 1 {
        let whole = vec![1, (shape[2] + before + after) * channels, shape[3], shape[4]];
        x = r.push(OpKind::Concat { axis: 1 }, &parts, whole);
    }
    let mut results = Vec::new();
    for at in 0..out[2] {
        let start = at * strides[0];
        let read = if dilations[0] == 1 {
            r.slice(x, 1, start * channels..(start + deep) * channels)
        } else {
            let taps: Vec<ValueId> = (0..deep)
                .map(|tap| {
                    let from = (start + tap * dilations[0]) * channels;
                    r.slice(x, 1, from..from + channels)
                })
                .collect();
            r.push(OpKind::Concat { axis: 1 }, &taps, vec![1, deep * channels, shape[3], shape[4]])
        };
        let conv = Conv {
            x: read,
            weight: op.inputs[1],
            bias: op.inputs.get(2).copied(),
            strides: [strides[1], strides[2]],
            pads: [pads[1], pads[2]],
            dilations: [dilations[1], dilations[2]],
            groups: 1,
            extents: [outputs, deep * channels, rows, columns],
            values: values.clone(),
            result: r.value(x, vec![1, outputs, out[3], out[4]]),
        };
        results.push(conv.result);
        conv.emit(r)?;
    }
    let stacked = match results[..] {
        [only] => only,
        _ => r.push(OpKind::Concat { axis: 1 }, &results, vec![1, out[2] * outputs, out[3], out[4]]),
    };
    let split = r.reshape(stacked, vec![1, out[2], outputs, out[3], out[4]]);
    r.finish(OpKind::Transpose { perm: vec![0, 2, 1, 3, 4] }, &[split], result);
    Some(format!("{} convolutions of {rows}x{columns}, one for each depth of the result", out[2]))
}

impl Conv {
    fn of(op: &Op, weight: &Tensor, result: ValueId) -> Option<Conv> {
        let OpKind::Conv { strides, pads, dilations, groups } = &op.kind else { return None };
        Some(Conv {
            x: op.inputs[0],
            weight: op.inputs[1],
            bias: op.inputs.get(2).copied(),
            strides: strides[..].try_into().ok()?,
            pads: pads[..].try_into().ok()?,
            dilations: dilations[..].try_into().ok()?,
            groups: *groups,
            extents: weight.shape[..].try_into().ok()?,
            values: weight.data.to_f32(),
            result,
        })
    }

    /// Appends the convolution, unchanged if the chip supports its kernel.
    pub fn emit(self, r: &mut Rewriter) -> Option<String> {
        let [_, _, rows, columns] = self.extents;
        if kernel_refused([rows as i64, columns as i64], r.chip).is_some() {
            return self.written(r);
        }
        let weight = r.constant(self.weight, self.extents.to_vec(), self.values.clone());
        let kind = OpKind::Conv {
            strides: self.strides.to_vec(),
            pads: self.pads.to_vec(),
            dilations: self.dilations.to_vec(),
            groups: self.groups,
        };
        let operands = self.operands(self.x, weight);
        r.finish(kind, &operands, self.result);
        Some(format!("a convolution of {rows}x{columns}"))
    }

    /// Appends the convolution in a form whose kernels the chip supports; `None` if its kernel is not too large.
    pub fn written(self, r: &mut Rewriter) -> Option<String> {
        let [_, _, rows, columns] = self.extents;
        let fits = |rows: usize, columns: usize| kernel_refused([rows as i64, columns as i64], r.chip).is_none();
        if fits(rows, columns) {
            return None;
        }
        let [down, across] = self.strides;
        let smaller = [rows.div_ceil(down), columns.div_ceil(across)];
        let batch = r.shape(self.x)[0];
        if self.strides != [1, 1]
            && self.dilations == [1, 1]
            && self.groups == 1
            && batch == 1
            && fits(smaller[0], smaller[1])
        {
            return self.by_stride(r, smaller);
        }
        if fits(columns, rows) {
            return self.turned(r);
        }
        let most_columns = (1..=columns).rev().find(|&n| fits(1, n))?;
        let most_rows = (1..=rows).rev().find(|&n| fits(n, most_columns))?;
        self.in_parts(r, [most_rows, most_columns])
    }

    fn operands(&self, x: ValueId, weight: ValueId) -> Vec<ValueId> {
        [x, weight].into_iter().chain(self.bias).collect()
    }

    /// The input padded with zeros, or cropped, to these extents from its padded start.
    fn padded(&self, r: &mut Rewriter, extents: [usize; 2]) -> ValueId {
        let mut x = self.x;
        let mut pads = vec![(0, 0); 4];
        for axis in 0..2 {
            let n = r.shape(x)[axis + 2];
            let before = self.pads[axis].0;
            let kept = n.min(extents[axis].saturating_sub(before));
            if kept < n {
                x = r.slice(x, axis + 2, 0..kept);
            }
            pads[axis + 2] = (before, extents[axis] - before - kept);
        }
        if pads.iter().all(|p| *p == (0, 0)) {
            return x;
        }
        let shape = r.shape(x).iter().zip(&pads).map(|(n, (a, b))| n + a + b).collect();
        r.push(OpKind::Pad { pads, value: 0.0 }, &[x], shape)
    }

    /// Moves the positions of one stride into channels, which shrinks the kernel by the stride.
    fn by_stride(&self, r: &mut Rewriter, [rows, columns]: [usize; 2]) -> Option<String> {
        let [down, across] = self.strides;
        let [outputs, channels, kernel_rows, kernel_columns] = self.extents;
        let out = r.shape(self.result);
        let blocks = [out[2] + rows - 1, out[3] + columns - 1];
        let x = self.padded(r, [blocks[0] * down, blocks[1] * across]);
        let split = r.push(OpKind::Reshape, &[x], vec![channels, blocks[0], down, blocks[1], across]);
        let turned = vec![channels, down, across, blocks[0], blocks[1]];
        let turned = r.push(OpKind::Transpose { perm: vec![0, 2, 4, 1, 3] }, &[split], turned);
        let deep = channels * down * across;
        let x = r.push(OpKind::Reshape, &[turned], vec![1, deep, blocks[0], blocks[1]]);
        let mut values = vec![0.0; outputs * deep * rows * columns];
        for (at, &value) in self.values.iter().enumerate() {
            let (column, row) = (at % kernel_columns, at / kernel_columns % kernel_rows);
            let (channel, output) =
                (at / (kernel_columns * kernel_rows) % channels, at / (kernel_columns * kernel_rows * channels));
            let place = (channel * down + row % down) * across + column % across;
            values[((output * deep + place) * rows + row / down) * columns + column / across] = value;
        }
        let weight = r.constant(self.weight, vec![outputs, deep, rows, columns], values);
        let kind = OpKind::Conv { strides: vec![1, 1], pads: vec![(0, 0); 2], dilations: vec![1, 1], groups: 1 };
        let operands = self.operands(x, weight);
        r.finish(kind, &operands, self.result);
        Some(format!("space-to-depth by {down}x{across}, and a convolution of {rows}x{columns} over {deep} channels"))
    }

    /// Exchanges rows and columns.
    fn turned(&self, r: &mut Rewriter) -> Option<String> {
        let exchange = |mut shape: Vec<usize>| {
            shape.swap(2, 3);
            shape
        };
        let perm = || OpKind::Transpose { perm: vec![0, 1, 3, 2] };
        let shape = exchange(r.shape(self.x));
        let x = r.push(perm(), &[self.x], shape);
        let [outputs, channels, rows, columns] = self.extents;
        let turned = (0..outputs * channels).flat_map(|plane| {
            let values = &self.values[plane * rows * columns..][..rows * columns];
            (0..columns).flat_map(move |c| (0..rows).map(move |row| values[row * columns + c]))
        });
        let turned = turned.collect();
        let weight = r.constant(self.weight, vec![outputs, channels, columns, rows], turned);
        let pair = |[a, b]: [usize; 2]| vec![b, a];
        let kind = OpKind::Conv {
            strides: pair(self.strides),
            pads: vec![self.pads[1], self.pads[0]],
            dilations: pair(self.dilations),
            groups: self.groups,
        };
        let operands = self.operands(x, weight);
        let shape = exchange(r.shape(self.result));
        let result = r.push(kind, &operands, shape);
        r.finish(perm(), &[result], self.result);
        Some(format!("the convolution with rows and columns exchanged, {columns}x{rows}"))
    }

    /// A sum of convolutions with parts of the kernel, each on its slice of the padded input.
    fn in_parts(&self, r: &mut Rewriter, most: [usize; 2]) -> Option<String> {
        let [outputs, channels, rows, columns] = self.extents;
        let out = r.shape(self.result);
        let reach =
            |axis: usize, taps: usize| (out[axis + 2] - 1) * self.strides[axis] + (taps - 1) * self.dilations[axis] + 1;
        let x = self.padded(r, [reach(0, rows), reach(1, columns)]);
        let parts = |n: usize, most: usize| {
            let count = n.div_ceil(most);
            let step = n.div_ceil(count);
            (0..n).step_by(step).map(move |start| start..n.min(start + step)).collect::<Vec<_>>()
        };
        let (down, across) = (parts(rows, most[0]), parts(columns, most[1]));
        let mut sums = Vec::new();
        for part in &down {
            for wide in &across {
                let start = [part.start * self.dilations[0], wide.start * self.dilations[1]];
                let rows_kept = r.slice(x, 2, start[0]..start[0] + reach(0, part.len()));
                let kept = r.slice(rows_kept, 3, start[1]..start[1] + reach(1, wide.len()));
                let of_plane = |plane: usize| {
                    let values = &self.values[plane * rows * columns..][..rows * columns];
                    part.clone().flat_map(move |row| wide.clone().map(move |c| values[row * columns + c]))
                };
                let values = (0..outputs * channels).flat_map(of_plane).collect();
                let weight = r.constant(self.weight, vec![outputs, channels, part.len(), wide.len()], values);
                let kind = OpKind::Conv {
                    strides: self.strides.to_vec(),
                    pads: vec![(0, 0); 2],
                    dilations: self.dilations.to_vec(),
                    groups: self.groups,
                };
                let operands = if sums.is_empty() { self.operands(kept, weight) } else { vec![kept, weight] };
                sums.push(r.push(kind, &operands, out.clone()));
            }
        }
        let count = sums.len();
        let (last, first) = sums.split_last()?;
        let sum = first.iter().copied().reduce(|a, b| r.add(a, b))?;
        r.finish(OpKind::Binary(Binary::Add), &[sum, *last], self.result);
        Some(format!("a sum of {count} convolutions with parts of the kernel"))
    }
}
