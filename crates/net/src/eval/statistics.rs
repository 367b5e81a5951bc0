//! Reductions, softmax and normalizations. Sums are carried in `f64`.

use super::{View, broadcast_strides, rows, strides};
use crate::graph::elements;
use crate::ops::ReduceKind;

/// Strides along kept axes only, so that elements reduced to one result have the same offset.
fn kept_strides(shape: &[usize], axes: &[usize]) -> (Vec<usize>, usize) {
    let kept: Vec<usize> = shape.iter().enumerate().map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect();
    (broadcast_strides(&kept, shape), elements(&kept))
}

/// Folds every element into the accumulator of its group.
fn accumulate<T: Copy, S: Copy>(
    data: &[T],
    shape: &[usize],
    groups: &[usize],
    out: &mut [S],
    f: impl Fn(S, usize, T) -> S,
) {
    let own = strides(shape);
    let (count, step) = (shape.last().copied().unwrap_or(1), groups.last().copied().unwrap_or(0));
    rows(shape, [&own, groups], |[from, group]| {
        for (i, &value) in data[from..from + count].iter().enumerate() {
            let at = group + i * step;
            out[at] = f(out[at], at, value);
        }
    });
}

pub(super) fn reduce(kind: ReduceKind, x: View, axes: &[usize]) -> Vec<f32> {
    let (data, shape) = (x.floats(), x.shape());
    let (groups, count) = kept_strides(shape, axes);
    let per_group = (elements(shape) / count) as f64;
    let start = match kind {
        ReduceKind::Max | ReduceKind::LogSumExp => f64::NEG_INFINITY,
        ReduceKind::Min => f64::INFINITY,
        ReduceKind::Prod => 1.0,
        _ => 0.0,
    };
    let mut out = vec![start; count];
    accumulate(&data, shape, &groups, &mut out, |sum, _, v| {
        let v = f64::from(v);
        match kind {
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::LogSum => sum + v,
            ReduceKind::Max | ReduceKind::LogSumExp => {
                if v > sum || v.is_nan() {
                    v
                } else {
                    sum
                }
            }
            ReduceKind::Min => {
                if v < sum || v.is_nan() {
                    v
                } else {
                    sum
                }
            }
            ReduceKind::Prod => sum * v,
            ReduceKind::L1 => sum + v.abs(),
            ReduceKind::L2 | ReduceKind::SumSquare => sum + v * v,
        }
    });
    match kind {
        ReduceKind::Mean => out.iter_mut().for_each(|v| *v /= per_group),
        ReduceKind::L2 => out.iter_mut().for_each(|v| *v = v.sqrt()),
        ReduceKind::LogSum => out.iter_mut().for_each(|v| *v = v.ln()),
        ReduceKind::LogSumExp => {
            // Subtracting the greatest element keeps the exponentials in range; an infinite one would give NaN.
            let greatest: Vec<f64> = out.iter().map(|v| if v.is_finite() { *v } else { 0.0 }).collect();
            let mut sums = vec![0.0; count];
            accumulate(&data, shape, &groups, &mut sums, |sum, at, v| sum + (f64::from(v) - greatest[at]).exp());
            out = sums.iter().zip(&greatest).map(|(s, g)| s.ln() + g).collect();
        }
        _ => {}
    }
    out.into_iter().map(|v| v as f32).collect()
}

/// Returns true for reductions that are exact in integers.
pub(super) fn is_whole(kind: ReduceKind) -> bool {
    use ReduceKind::*;
    matches!(kind, Sum | Mean | Max | Min | Prod | L1 | SumSquare)
}

/// Reduction of integers for which [`is_whole`] returns true, modulo 2^64; a mean truncates towards zero.
pub(super) fn reduce_whole(kind: ReduceKind, x: View, axes: &[usize]) -> Vec<i64> {
    let (data, shape) = (x.integers(), x.shape());
    let (groups, count) = kept_strides(shape, axes);
    let start = match kind {
        ReduceKind::Max => i64::MIN,
        ReduceKind::Min => i64::MAX,
        ReduceKind::Prod => 1,
        _ => 0,
    };
    let mut out = vec![start; count];
    accumulate(&data, shape, &groups, &mut out, |sum, _, v| {
        let v = i64::from(v);
        match kind {
            ReduceKind::Max => v.max(sum),
            ReduceKind::Min => v.min(sum),
            ReduceKind::Prod => sum.wrapping_mul(v),
            ReduceKind::L1 => sum.wrapping_add(v.abs()),
            ReduceKind::SumSquare => sum.wrapping_add(v * v),
            _ => sum.wrapping_add(v),
        }
    });
    if kind == ReduceKind::Mean {
        let per_group = (elements(shape) / count) as i64;
        out.iter_mut().for_each(|v| *v /= per_group);
    }
    out
}

pub(super) fn softmax(x: View, axis: usize) -> Vec<f32> {
    let shape = x.shape();
    let (extent, inner): (usize, usize) = (shape[axis], shape[axis + 1..].iter().product());
    let mut out = x.floats().into_owned();
    for block in out.chunks_exact_mut(extent * inner) {
        for i in 0..inner {
            let greatest = (0..extent).map(|a| block[a * inner + i]).fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0f64;
            for a in 0..extent {
                let e = (block[a * inner + i] - greatest).exp();
                block[a * inner + i] = e;
                sum += f64::from(e);
            }
            for a in 0..extent {
                block[a * inner + i] = (f64::from(block[a * inner + i]) / sum) as f32;
            }
        }
    }
    out
}

pub(super) fn batch_norm(inputs: &[View], epsilon: f32) -> Vec<f32> {
    let [x, mean, variance] = [inputs[0], inputs[1], inputs[2]];
    let (gamma, beta) = (inputs.get(3).map(|v| v.floats()), inputs.get(4).map(|v| v.floats()));
    let (mean, variance) = (mean.floats(), variance.floats());
    let inner: usize = x.shape()[2..].iter().product();
    let channels = x.shape()[1];
    let mut out = x.floats().into_owned();
    for (i, plane) in out.chunks_exact_mut(inner).enumerate() {
        let c = i % channels;
        let scale = gamma.as_ref().map_or(1.0, |g| g[c]) / (variance[c] + epsilon).sqrt();
        let shift = beta.as_ref().map_or(0.0, |b| b[c]);
        plane.iter_mut().for_each(|v| *v = (*v - mean[c]) * scale + shift);
    }
    out
}

pub(super) fn layer_norm(inputs: &[View], axes: &[usize], epsilon: f32) -> Vec<f32> {
    let shape = inputs[0].shape();
    // Gamma and beta have the extents of the normalized axes only; as a shape of full rank they have ones elsewhere.
    let own: Vec<usize> = shape.iter().enumerate().map(|(i, &d)| if axes.contains(&i) { d } else { 1 }).collect();
    normalize(inputs, axes, &broadcast_strides(&own, shape), epsilon)
}

pub(super) fn instance_norm(inputs: &[View], epsilon: f32) -> Vec<f32> {
    let shape = inputs[0].shape();
    let axes: Vec<usize> = (2..shape.len()).collect();
    let mut channel = vec![0; shape.len()];
    channel[1] = 1;
    normalize(inputs, &axes, &channel, epsilon)
}

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` with mean and variance over `axes`, and parameters with the strides
/// `parameters`.
fn normalize(inputs: &[View], axes: &[usize], parameters: &[usize], epsilon: f32) -> Vec<f32> {
    let (data, shape) = (inputs[0].floats(), inputs[0].shape());
    let (gamma, beta) = (inputs.get(1).map(|v| v.floats()), inputs.get(2).map(|v| v.floats()));
    let (groups, count) = kept_strides(shape, axes);
    let per_group = (elements(shape) / count) as f64;
    let mut mean = vec![0.0; count];
    accumulate(&data, shape, &groups, &mut mean, |sum, _, v| sum + f64::from(v));
    mean.iter_mut().for_each(|v| *v /= per_group);
    let mut scale = vec![0.0; count];
    accumulate(&data, shape, &groups, &mut scale, |sum, at, v| sum + (f64::from(v) - mean[at]).powi(2));
    scale.iter_mut().for_each(|v| *v = 1.0 / (*v / per_group + f64::from(epsilon)).sqrt());
    let mut out = Vec::with_capacity(data.len());
    let (length, own) = (shape.last().copied().unwrap_or(1), strides(shape));
    let [dg, dp] = [&groups[..], parameters].map(|s| s.last().copied().unwrap_or(0));
    rows(shape, [&own, &groups, parameters], |[from, group, parameter]| {
        out.extend((0..length).map(|i| {
            let (at, p) = (group + i * dg, parameter + i * dp);
            let normal = ((f64::from(data[from + i]) - mean[at]) * scale[at]) as f32;
            normal * gamma.as_ref().map_or(1.0, |g| g[p]) + beta.as_ref().map_or(0.0, |b| b[p])
        }));
    });
    out
}
