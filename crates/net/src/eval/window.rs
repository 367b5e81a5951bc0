//! Pooling.

use super::View;
use crate::ops::PoolKind;

/// The part of one window that lies inside the input along one axis, and its length inside the padded input.
struct Span {
    begin: usize,
    end: usize,
    padded: usize,
}

fn spans(extent: usize, count: usize, kernel: usize, stride: usize, pads: (usize, usize)) -> Vec<Span> {
    (0..count)
        .map(|o| {
            // Positions are relative to the padded input, in which the input begins at `pads.0`.
            let (first, limit) = (o * stride, extent + pads.0 + pads.1);
            let last = (first + kernel).min(limit);
            let begin = first.max(pads.0) - pads.0;
            let end = last.saturating_sub(pads.0).min(extent);
            Span { begin: begin.min(end), end, padded: last - first.min(last) }
        })
        .collect()
}

pub(super) fn pool(
    kind: PoolKind,
    x: View,
    to: &[usize],
    kernel: &[usize],
    strides: &[usize],
    pads: &[(usize, usize)],
) -> Vec<f32> {
    let data = x.floats();
    // Missing spatial axes are leading axes of extent one.
    let missing = 3 - kernel.len();
    let mut extents = [1; 3];
    let mut axes: [Vec<Span>; 3] = std::array::from_fn(|_| vec![Span { begin: 0, end: 1, padded: 1 }]);
    for i in 0..kernel.len() {
        extents[missing + i] = x.shape()[i + 2];
        axes[missing + i] = spans(x.shape()[i + 2], to[i + 2], kernel[i], strides[i], pads[i]);
    }
    let [d, h, w] = extents;
    let mut out = Vec::with_capacity(crate::graph::elements(to));
    for plane in data.chunks_exact(d * h * w) {
        for z in &axes[0] {
            for y in &axes[1] {
                for x in &axes[2] {
                    let rows = (z.begin..z.end).flat_map(|z| (y.begin..y.end).map(move |y| (z * h + y) * w));
                    let window = rows.flat_map(|row| &plane[row + x.begin..row + x.end]);
                    out.push(match kind {
                        PoolKind::Max => {
                            window.fold(f32::NEG_INFINITY, |m, &v| if v > m || v.is_nan() { v } else { m })
                        }
                        PoolKind::L2 => window.map(|v| v * v).sum::<f32>().sqrt(),
                        PoolKind::Average { exclude_padding } => {
                            let inside = (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin);
                            let padded = z.padded * y.padded * x.padded;
                            let count = if exclude_padding { inside } else { padded };
                            window.sum::<f32>() / count as f32
                        }
                    });
                }
            }
        }
    }
    out
}
