//! Convolutions whose kernel is too large: by their stride, turned, or in parts.

use super::Rewriter;
use anemone_compile::check::own::kernel_refused;
use anemone_net::{Binary, Op, OpKind, ValueId};

/// A convolution of two spatial axes with constant weights.
struct Conv {
    x: ValueId,
    weight: ValueId,
    bias: Option<ValueId>,
    strides: [usize; 2],
    pads: [(usize, usize); 2],
    dilations: [usize; 2],
    groups: usize,
    /// Output channels, input channels of a group, rows, columns.
    extents: [usize; 4],
    values: Vec<f32>,
    result: ValueId,
}

pub fn rewrite(r: &mut Rewriter, op: &Op, result: ValueId) -> Option<String> {
    let conv = Conv::of(r, op, result)?;
    let [_, _, rows, columns] = conv.extents;
    let fits = |rows: usize, columns: usize| kernel_refused([rows as i64, columns as i64], r.chip).is_none();
    if fits(rows, columns) {
        return None;
    }
    let [down, across] = conv.strides;
    let smaller = [rows.div_ceil(down), columns.div_ceil(across)];
    let batch = r.shape(conv.x)[0];
    if conv.strides != [1, 1]
        && conv.dilations == [1, 1]
        && conv.groups == 1
        && batch == 1
        && fits(smaller[0], smaller[1])
    {
        return conv.by_stride(r, smaller);
    }
    if fits(columns, rows) {
        return conv.turned(r);
    }
    let most_columns = (1..=columns).rev().find(|&n| fits(1, n))?;
    let most_rows = (1..=rows).rev().find(|&n| fits(n, most_columns))?;
    conv.in_parts(r, [most_rows, most_columns])
}

impl Conv {
    fn of(r: &Rewriter, op: &Op, result: ValueId) -> Option<Conv> {
        let OpKind::Conv { strides, pads, dilations, groups } = &op.kind else { return None };
        let (&x, &weight) = (op.inputs.first()?, op.inputs.get(1)?);
        let tensor = r.net.value(weight).data.as_ref()?;
        Some(Conv {
            x,
            weight,
            bias: op.inputs.get(2).copied(),
            strides: strides[..].try_into().ok()?,
            pads: pads[..].try_into().ok()?,
            dilations: dilations[..].try_into().ok()?,
            groups: *groups,
            extents: tensor.shape[..].try_into().ok()?,
            values: tensor.data.to_f32(),
            result,
        })
    }

    fn operands(&self, x: ValueId, weight: ValueId) -> Vec<ValueId> {
        [x, weight].into_iter().chain(self.bias).collect()
    }

    /// The input with zeros around it, or cut, to these extents from its padded start.
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

    /// Positions of one stride become channels, and the kernel shrinks by the stride.
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

    /// Rows and columns exchanged.
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
