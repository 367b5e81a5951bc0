//! Transposed convolutions with too large kernels: the positions of one stride of the result become channels of a convolution.

use super::Rewriter;
use super::conv::Conv;
use anemone_net::{Op, OpKind, ValueId};

/// A transposed convolution over rows and columns.
struct Transposed {
    strides: [usize; 2],
    pads: [(usize, usize); 2],
    groups: usize,
    /// Input channels, output channels of a group, rows, columns.
    extents: [usize; 4],
    values: Vec<f32>,
}

pub fn rewrite(r: &mut Rewriter, op: &Op, result: ValueId) -> Option<String> {
    let OpKind::ConvTranspose { strides, pads, dilations, groups, .. } = &op.kind else { return None };
    let (x, weight) = (*op.inputs.first()?, *op.inputs.get(1)?);
    let tensor = r.net.value(weight).data.clone()?;
    let (shape, out) = (r.shape(x), r.shape(result));
    if shape[0] != 1 || dilations.iter().any(|&d| d != 1) {
        return None;
    }
    // A row of elements as an image with one row.
    let two = |along: &[usize]| -> Option<[usize; 2]> {
        match *along {
            [columns] => Some([1, columns]),
            [rows, columns] => Some([rows, columns]),
            _ => None,
        }
    };
    let [rows, columns] = two(&tensor.shape[2..])?;
    let pads = match pads[..] {
        [across] => [(0, 0), across],
        [down, across] => [down, across],
        _ => return None,
    };
    let whole = Transposed {
        strides: two(strides)?,
        pads,
        groups: *groups,
        extents: [tensor.shape[0], tensor.shape[1], rows, columns],
        values: tensor.data.to_f32(),
    };
    let bias = match op.inputs.get(2) {
        None => None,
        Some(&id) => Some(r.net.value(id).data.clone()?.data.to_f32()),
    };
    let image = two(&shape[2..])?;
    let x = r.reshape(x, vec![1, shape[1], image[0], image[1]]);
    whole.by_phase(r, x, weight, bias, two(&out[2..])?, result)
}

impl Transposed {
    fn by_phase(
        &self,
        r: &mut Rewriter,
        x: ValueId,
        weight: ValueId,
        bias: Option<Vec<f32>>,
        out: [usize; 2],
        result: ValueId,
    ) -> Option<String> {
        let [inputs, of_group, rows, columns] = self.extents;
        let ([down, across], image) = (self.strides, r.shape(x));
        let outputs = of_group * self.groups;
        let taps = [rows.div_ceil(down), columns.div_ceil(across)];
        // Positions of the result before its pads are cropped, in whole strides.
        let blocks = [0, 1].map(|axis| (self.pads[axis].0 + out[axis]).div_ceil(self.strides[axis]));
        let pads = [0, 1].map(|axis| (taps[axis] - 1, blocks[axis].saturating_sub(image[axis + 2])));
        let mut x = x;
        for axis in 0..2 {
            x = r.slice(x, axis + 2, 0..image[axis + 2].min(blocks[axis]));
        }
        let phases = down * across;
        let conv = Conv {
            x,
            weight,
            bias: bias.map(|bias| {
                let values = bias.iter().flat_map(|&b| std::iter::repeat_n(b, phases)).collect();
                r.constant(weight, vec![outputs * phases], values)
            }),
            strides: [1, 1],
            pads,
            dilations: [1, 1],
            groups: self.groups,
            extents: [outputs * phases, inputs / self.groups, taps[0], taps[1]],
            values: self.phase_weights(taps),
            result: r.value(x, vec![1, outputs * phases, blocks[0], blocks[1]]),
        };
        let deep = conv.result;
        conv.emit(r)?;
        let split = r.reshape(deep, vec![outputs, down, across, blocks[0], blocks[1]]);
        let turned = r.transpose(split, &[0, 3, 1, 4, 2]);
        let whole = r.reshape(turned, vec![1, outputs, blocks[0] * down, blocks[1] * across]);
        let rows = r.slice(whole, 2, self.pads[0].0..self.pads[0].0 + out[0]);
        let cut = r.slice(rows, 3, self.pads[1].0..self.pads[1].0 + out[1]);
        r.finish(OpKind::Reshape, &[cut], result);
        Some(format!(
            "a convolution of {}x{} to {} channels, and depth-to-space by {down}x{across}",
            taps[0],
            taps[1],
            outputs * phases
        ))
    }

    /// Weights of the convolution: for each output channel and phase the taps of that phase in reverse.
    fn phase_weights(&self, taps: [usize; 2]) -> Vec<f32> {
        let [inputs, of_group, rows, columns] = self.extents;
        let [down, across] = self.strides;
        let deep = inputs / self.groups;
        let mut values = Vec::with_capacity(of_group * self.groups * down * across * deep * taps[0] * taps[1]);
        for output in 0..of_group * self.groups {
            let (group, own) = (output / of_group, output % of_group);
            for phase in 0..down * across {
                for channel in 0..deep {
                    for tap in 0..taps[0] * taps[1] {
                        let row = phase / across + down * (taps[0] - 1 - tap / taps[1]);
                        let column = phase % across + across * (taps[1] - 1 - tap % taps[1]);
                        let plane = (group * deep + channel) * of_group + own;
                        let inside = row < rows && column < columns;
                        values.push(if inside { self.values[(plane * rows + row) * columns + column] } else { 0.0 });
                    }
                }
            }
        }
        values
    }
}
