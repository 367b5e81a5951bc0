//! Poolings with too large windows: a reduction, a sequence of smaller poolings, or a convolution.

use super::Rewriter;
use super::conv::Conv;
use anemone_check::own::pool_refused;
use anemone_net::{Binary, Op, OpKind, PoolKind, ReduceKind, ValueId};

pub fn rewrite(r: &mut Rewriter, op: &Op, result: ValueId) -> Option<String> {
    let OpKind::Pool { kind, kernel, strides, pads, ceil_mode: false } = &op.kind else { return None };
    let x = *op.inputs.first()?;
    let shape = r.shape(x);
    let plain = pads.iter().all(|p| *p == (0, 0));
    if plain && kernel[..] == shape[2..] {
        let kind = match kind {
            PoolKind::Max => ReduceKind::Max,
            PoolKind::Average { .. } => ReduceKind::Mean,
            PoolKind::L2 => return None,
        };
        let axes = (2..shape.len()).collect();
        r.finish(OpKind::Reduce { kind, axes, keep_dims: true }, &[x], result);
        return Some("a reduction over all positions".into());
    }
    let (&[rows, columns], &[down, across], &[top, left]) = (kernel.as_slice(), strides.as_slice(), pads.as_slice())
    else {
        return None;
    };
    match kind {
        PoolKind::Max => chain(r, x, [rows, columns], [down, across], [top, left], result),
        PoolKind::Average { exclude_padding } => {
            let pool = Average { kernel: [rows, columns], strides: [down, across], pads: [top, left] };
            pool.as_convolution(r, x, *exclude_padding && !plain, result)
        }
        PoolKind::L2 => None,
    }
}

/// Windows of a sequence of poolings: along each axis, the windows minus one add up to the whole window minus one.
fn windows(r: &Rewriter, n: usize, along: impl Fn(usize) -> [i64; 2]) -> Option<Vec<usize>> {
    let fits = |n: usize| pool_refused(along(n), true, r.chip).is_none();
    let most = (2..=n).take_while(|&n| fits(n)).last().unwrap_or(1);
    let mut all = Vec::new();
    let mut rest = n - 1;
    while rest > 0 {
        let step = rest.min(most.checked_sub(1).filter(|&m| m > 0)?);
        all.push(step + 1);
        rest -= step;
    }
    Some(all)
}

/// A sequence of poolings, with the stride in the last. Pads are distributed so that no window is outside of the input.
fn chain(
    r: &mut Rewriter,
    x: ValueId,
    kernel: [usize; 2],
    strides: [usize; 2],
    pads: [(usize, usize); 2],
    result: ValueId,
) -> Option<String> {
    let all = [windows(r, kernel[0], |n| [n as i64, 1])?, windows(r, kernel[1], |n| [1, n as i64])?];
    let count = all[0].len().max(all[1].len());
    if count < 2 {
        return None;
    }
    let (mut value, mut rest) = (x, pads);
    for step in 0..count {
        let window = [0, 1].map(|axis| all[axis].get(step).copied().unwrap_or(1));
        let share = [0, 1].map(|axis| {
            let take = |n: usize| n.min(window[axis] - 1);
            (take(rest[axis].0), take(rest[axis].1))
        });
        for axis in 0..2 {
            rest[axis] = (rest[axis].0 - share[axis].0, rest[axis].1 - share[axis].1);
        }
        let last = step + 1 == count;
        let kind = OpKind::Pool {
            kind: PoolKind::Max,
            kernel: window.to_vec(),
            strides: if last { strides.to_vec() } else { vec![1, 1] },
            pads: share.to_vec(),
            ceil_mode: false,
        };
        if last {
            r.finish(kind, &[value], result);
        } else {
            let mut shape = r.shape(value);
            for axis in 0..2 {
                shape[axis + 2] = shape[axis + 2] + share[axis].0 + share[axis].1 + 1 - window[axis];
            }
            value = r.push(kind, &[value], shape);
        }
    }
    (rest == [(0, 0); 2]).then(|| format!("a sequence of {count} smaller poolings"))
}

struct Average {
    kernel: [usize; 2],
    strides: [usize; 2],
    pads: [(usize, usize); 2],
}

impl Average {
    /// A depthwise convolution with a power of two as every weight, and a product that makes it a mean.
    fn as_convolution(&self, r: &mut Rewriter, x: ValueId, exclude: bool, result: ValueId) -> Option<String> {
        let channels = r.shape(x)[1];
        let count = self.kernel[0] * self.kernel[1];
        let weight = 1.0 / count.next_power_of_two() as f32;
        let shape = r.shape(result);
        let sum = r.value(x, shape.clone());
        let conv = Conv {
            x,
            weight: x,
            bias: None,
            strides: self.strides,
            pads: self.pads,
            dilations: [1, 1],
            groups: channels,
            extents: [channels, 1, self.kernel[0], self.kernel[1]],
            values: vec![weight; channels * count],
            result: sum,
        };
        let into = conv.written(r)?;
        // Elements of a window that count.
        let inside = |axis: usize, at: usize| {
            let (start, n) = (at * self.strides[axis], r.shape(x)[axis + 2]);
            let begin = start.max(self.pads[axis].0);
            (start + self.kernel[axis]).min(self.pads[axis].0 + n).saturating_sub(begin).max(1)
        };
        let (extents, scale): (Vec<usize>, Vec<f32>) = if exclude {
            let places = (0..shape[2] * shape[3]).map(|at| (at / shape[3], at % shape[3]));
            let counts = places.map(|(row, column)| inside(0, row) * inside(1, column));
            (vec![1, 1, shape[2], shape[3]], counts.map(|n| 1.0 / (weight * n as f32)).collect())
        } else {
            (vec![1, 1, 1, 1], vec![1.0 / (weight * count as f32)])
        };
        let [scale, rest] = r.precise(x, &extents, scale);
        let scale = scale?;
        match rest {
            None => r.finish(OpKind::Binary(Binary::Mul), &[sum, scale], result),
            Some(rest) => {
                let parts = [scale, rest].map(|by| r.push(OpKind::Binary(Binary::Mul), &[sum, by], shape.clone()));
                r.finish(OpKind::Binary(Binary::Add), &parts, result);
            }
        }
        Some(format!("{into}, of each channel by itself with equal weights"))
    }
}
