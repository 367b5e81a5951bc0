//! Results of tasks in this project's own encoding, slice by slice.

use super::{Operand, Own, Row, odd};
use crate::fault::FaultKind;
use anemone_facts::Field::{OwnChannels, OwnColumns, OwnKind};
use anemone_kernels::arrays::array_of;
use anemone_program::order;

/// Limit of window steps over the result: bounds the run time of a task with arbitrary words.
const MOST_STEPS: usize = 1 << 31;

/// Lines along one axis of an operand, one for every position of the other axes: first element, stride, count.
struct RowKernel {
    starts: Vec<usize>,
    step: usize,
    count: usize,
}

/// Stride of each axis of a dense operand.
fn steps([_, c, h, w]: [usize; 4]) -> [usize; 4] {
    [c * h * w, h * w, w, 1]
}

fn lines(extents: [usize; 4], axis: usize) -> RowKernel {
    let (step, count) = (steps(extents)[axis], extents[axis]);
    let total: usize = extents.iter().product();
    let starts = (0..total).filter(|i| i / step % count == 0).collect();
    RowKernel { starts, step, count }
}

/// Checks the task's extents against the layer's requirements, because words may come from anywhere.
fn need(holds: bool, extents: [usize; 4], what: &str) -> Result<(), FaultKind> {
    if holds { Ok(()) } else { Err(odd(OwnColumns, extents[3] as u32, format!("extents {extents:?}: {what}"))) }
}

fn second(operands: &[Operand]) -> Result<&Operand, FaultKind> {
    operands.get(1).ok_or_else(|| odd(OwnChannels, 1, "a second operand is needed".into()))
}

/// Elements of the result in row-major order.
pub(super) fn compute(own: &Own, row: &Row, operands: &[Operand], result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let x = &operands[0];
    match row.tag {
        "Sort" | "TopK" => sorted(own, x, result),
        "ArgMinMax" if own.word("Mode").starts_with("Spatial") => windows(own, x, result),
        "ArgMinMax" => extreme(x, 1, own.word("Mode").ends_with("Max"), result),
        "GlobalArgMinMax" => extreme(x, own.axis("Dimension"), own.word("Type") == "Max", result),
        "CrossCorrelation" => correlate(own, x, second(operands)?, result),
        "FurthestPointSampling" => furthest(x, result),
        "RadiusSearch" => {
            let points = second(operands)?;
            let fits = x.extents[1] == 3 && points.extents[1] == 3 && result == [1, 1, points.extents[3], x.extents[3]];
            need(fits, result, "a row a point and a column a centroid")?;
            let limit = own.radius_squared();
            Ok(pairs(points, x).map(|squared| f32::from(u8::from(squared <= limit))).collect())
        }
        "DynamicSlice" => slice(own, operands, result),
        "Gather" => {
            let (axis, indices) = (own.list("GatherNDAxes").first().map_or(3, |&a| a as usize), second(operands)?);
            let mut to = x.extents;
            to[axis] = result[axis];
            need(to == result && indices.data.len() == result[axis], result, "one index a slice")?;
            // Indices beyond the axis select its last element.
            let from = |i: usize| (indices.data[i].max(0.0) as usize).min(x.extents[axis] - 1);
            Ok(remapped(x, axis, result, from))
        }
        "RingBufferReader" => {
            let (axis, offset) = (own.axis("Dimension"), own.size("Offset"));
            let extent = x.extents[axis];
            let mut to = x.extents;
            to[axis] = result[axis];
            let fits = offset < extent && (own.flag("Circular") || offset + result[axis] <= extent);
            need(to == result && fits, result, "a part of the buffer")?;
            Ok(remapped(x, axis, result, |i| (i + offset) % extent))
        }
        "RingBufferWriter" => {
            let (axis, offset, part) = (own.axis("Dimension"), own.size("Offset"), second(operands)?);
            let extent = x.extents[axis];
            let mut whole = part.extents;
            whole[axis] = extent;
            let space = if own.flag("Circular") { extent } else { extent.saturating_sub(offset) };
            let fits = x.extents == result && whole == result && offset < extent && part.extents[axis] <= space;
            need(fits, result, "the buffer's own, with space for the part")?;
            let mut data = x.data.clone();
            let (from, to) = (lines(part.extents, axis), lines(x.extents, axis));
            for (&read, &write) in from.starts.iter().zip(&to.starts) {
                for i in 0..from.count {
                    data[write + (offset + i) % extent * to.step] = part.data[read + i * from.step];
                }
            }
            Ok(data)
        }
        "CropResize" | "Resample" | "AffineTransform" => sampled(own, row, operands, result),
        tag => Err(odd(OwnKind, row.class().unwrap_or(0), format!("{tag} has other registers, or is unknown"))),
    }
}

impl Own {
    fn radius_squared(&self) -> f32 {
        let radius = self.real("Radius");
        if radius < 0.0 { -1.0 } else { radius * radius }
    }
}

/// The operand with its positions along one axis remapped.
fn remapped(x: &Operand, axis: usize, result: [usize; 4], from: impl Fn(usize) -> usize) -> Vec<f32> {
    let mut data = vec![0.0; result.iter().product()];
    let (read, write) = (lines(x.extents, axis), lines(result, axis));
    for (&a, &b) in read.starts.iter().zip(&write.starts) {
        for i in 0..write.count {
            data[b + i * write.step] = x.data[a + from(i) * read.step];
        }
    }
    data
}

/// Sorted positions along an axis, for each position of the others; the key is one slice along the vector axis.
fn sorted(own: &Own, x: &Operand, result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let (along, vector) = (own.axis("SortDimension"), own.axis("VectorDimension"));
    let lane = own.list("SortIndices").first().map_or(0, |&i| i as usize);
    let (indices, count) = (own.flag("Indices"), result[along]);
    let mut to = x.extents;
    to[along] = count;
    to[vector] = if indices { 1 } else { to[vector] };
    need(along != vector && lane < x.extents[vector] && count <= x.extents[along] && to == result, result, "sorted")?;
    let descending = own.word("Direction") == "Descending" || own.word("Type") == "Max";
    let (from, into, keys) = (steps(x.extents), steps(result), x.extents[along]);
    let mut data = vec![0.0; result.iter().product()];
    // Positions of the outer axes, with both axes at 0.
    let outer: Vec<usize> = (0..4).filter(|&a| a != along && a != vector).collect();
    for place in 0..x.extents[outer[0]] * x.extents[outer[1]] {
        let [i, j] = [place / x.extents[outer[1]], place % x.extents[outer[1]]];
        let read = i * from[outer[0]] + j * from[outer[1]];
        let write = i * into[outer[0]] + j * into[outer[1]];
        let mut order: Vec<(f32, usize)> =
            (0..keys).map(|k| (x.data[read + lane * from[vector] + k * from[along]], k)).collect();
        // The sort is stable in both directions.
        order::by(&mut order, |a, b| if descending { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
        for (k, &(_, at)) in order.iter().take(count).enumerate() {
            if indices {
                data[write + k * into[along]] = at as f32;
                continue;
            }
            for v in 0..x.extents[vector] {
                data[write + v * into[vector] + k * into[along]] = x.data[read + v * from[vector] + at * from[along]];
            }
        }
    }
    Ok(data)
}

/// Index of the extreme element of a sequence, the first of equal ones; 0 for an empty one.
fn position(values: impl Iterator<Item = (usize, f32)>, greatest: bool) -> f32 {
    let better = |(_, best): &(usize, f32), value: f32| if greatest { value > *best } else { value < *best };
    let best = values.fold(None, |best: Option<(usize, f32)>, (i, value)| match best {
        Some(held) if !better(&held, value) => Some(held),
        _ => Some((i, value)),
    });
    best.map_or(0.0, |(i, _)| i as f32)
}

fn extreme(x: &Operand, axis: usize, greatest: bool, result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let mut to = x.extents;
    to[axis] = 1;
    need(to == result, result, "one along the axis")?;
    let lines = lines(x.extents, axis);
    let element = |&start: &usize| position((0..lines.count).map(|i| (i, x.data[start + i * lines.step])), greatest);
    Ok(lines.starts.iter().map(element).collect())
}

fn windows(own: &Own, x: &Operand, result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let [n, c, h, w] = x.extents;
    let (kh, kw) = (own.size("KernelHeight"), own.size("KernelWidth"));
    let (top, left) = (own.size("PadTop"), own.size("PadLeft"));
    let (rows, columns) = (h + top + own.size("PadBot") + 1, w + left + own.size("PadRight") + 1);
    need(result == [n, c, rows.saturating_sub(kh), columns.saturating_sub(kw)], result, "a place a window")?;
    need(kh.saturating_mul(kw).saturating_mul(result.iter().product()) <= MOST_STEPS, result, "too many windows")?;
    let greatest = own.word("Mode").ends_with("Max");
    let mut data = Vec::with_capacity(result.iter().product());
    for plane in x.data.chunks(h * w) {
        for place in 0..result[2] * result[3] {
            let (r, s) = (place / result[3], place % result[3]);
            let inside = |k: usize| {
                let (row, column) = ((r + k / kw).checked_sub(top)?, (s + k % kw).checked_sub(left)?);
                (row < h && column < w).then(|| (k, plane[row * w + column]))
            };
            data.push(position((0..kh * kw).filter_map(inside), greatest));
        }
    }
    Ok(data)
}

fn correlate(own: &Own, x: &Operand, template: &Operand, result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let [n, c, h, w] = x.extents;
    let (th, tw) = (own.size("TemplateHeight"), own.size("TemplateWidth"));
    let (top, left) = (own.size("PadTop"), own.size("PadLeft"));
    let (rows, columns) = (h + top + own.size("PadBot") + 1, w + left + own.size("PadRight") + 1);
    let fits = c == 1 && template.data.len() == th.saturating_mul(tw);
    need(fits && result == [n, 1, rows.saturating_sub(th), columns.saturating_sub(tw)], result, "valid windows")?;
    let mut data = vec![0.0; result.iter().product()];
    need(data.len().saturating_mul(template.data.len()) <= MOST_STEPS, result, "too many windows")?;
    let (out, plane) = (result[2] * result[3], h * w);
    for (i, &tap) in template.data.iter().enumerate() {
        for (place, sum) in data.iter_mut().enumerate() {
            let (image, r, s) = (place / out, place % out / result[3] + i / tw, place % result[3] + i % tw);
            if (top..top + h).contains(&r) && (left..left + w).contains(&s) {
                *sum += tap * x.data[image * plane + (r - top) * w + s - left];
            }
        }
    }
    Ok(data)
}

/// Squared distance of each point of `a` to each point of `b`.
fn pairs<'o>(a: &'o Operand, b: &'o Operand) -> impl Iterator<Item = f32> + 'o {
    let (na, nb) = (a.extents[3], b.extents[3]);
    (0..na * nb).map(move |i| {
        let parts = (0..3).map(|c| a.data[c * na + i / nb] - b.data[c * nb + i % nb]);
        parts.map(|d| d * d).sum()
    })
}

/// Farthest point sampling: each point keeps its distance to the chosen set, and the farthest one is chosen next.
fn furthest(points: &Operand, result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let [_, c, _, n] = points.extents;
    let count = result[3];
    need(
        c == 3 && points.data.len() == 3 * n && result == [1, 3, 1, count] && count <= 1024 && n <= 8192,
        result,
        "points",
    )?;
    let mut apart = vec![f32::INFINITY; n];
    let mut data = vec![0.0; 3 * count];
    let mut chosen = 0;
    for k in 0..count {
        let at: [f32; 3] = array_of(|c| points.data[c * n + chosen]);
        for (c, &value) in at.iter().enumerate() {
            data[c * count + k] = value;
        }
        for (i, apart) in apart.iter_mut().enumerate() {
            let squared: f32 = at.iter().enumerate().map(|(c, &v)| (points.data[c * n + i] - v).powi(2)).sum();
            *apart = apart.min(squared);
        }
        chosen = position(apart.iter().copied().enumerate(), true) as usize;
    }
    Ok(data)
}

fn slice(own: &Own, operands: &[Operand], result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let x = &operands[0];
    need((0..4).all(|a| result[a] <= x.extents[a]), result, "a part of the operand")?;
    let mut start = [0i64; 4];
    if let Some(starts) = operands.get(1) {
        for (&axis, &value) in own.list("DynamicSliceAxisOrder").iter().zip(&starts.data) {
            // Clamped: anything farther out than an extent has the same effect.
            start[axis as usize] = value.clamp(-1e9, 1e9) as i64;
        }
    }
    let mut border = [false; 4];
    for pair in own.list("PaddingInfo").chunks_exact(2) {
        border[pair[0] as usize] = pair[1] == 1;
    }
    let (from, into) = (steps(x.extents), steps(result));
    let element = |i: usize| {
        let mut read = 0;
        for axis in 0..4 {
            let (place, last) = (start[axis] + (i / into[axis] % result[axis]) as i64, x.extents[axis] as i64 - 1);
            if (place < 0 || place > last) && !border[axis] {
                return own.real("BackgroundValue");
            }
            read += place.clamp(0, last) as usize * from[axis];
        }
        x.data[read]
    };
    Ok((0..result.iter().product()).map(element).collect())
}

/// Resamplers: source coordinates of each element of a result plane, then the interpolated value for every channel.
fn sampled(own: &Own, row: &Row, operands: &[Operand], result: [usize; 4]) -> Result<Vec<f32>, FaultKind> {
    let (x, guide) = (&operands[0], second(operands)?);
    let ([n, c, h, w], [images, channels, rows, columns]) = (x.extents, result);
    let (crops, plane) = (row.tag == "CropResize", rows * columns);
    let fits = match row.tag {
        "CropResize" => n == 1 && guide.extents == [1, 4, 1, images],
        "Resample" => {
            n == images && guide.extents[0] == n && guide.extents[2..] == result[2..] && guide.extents[1] <= 2
        }
        _ => n == images && guide.data.len() == 6,
    };
    need(fits && c == channels, result, "as the guide states")?;
    let place = |image: usize, r: usize, s: usize| -> [f32; 2] {
        let at = |i: usize| guide.data.get(i).copied().unwrap_or(0.0);
        match row.tag {
            "CropResize" => {
                let edge = |k: usize| at(k * images + image);
                let along = |first: f32, last: f32, i: usize, count: usize| match count {
                    1 => (first + last) / 2.0,
                    _ => first + (last - first) * i as f32 / (count - 1) as f32,
                };
                [along(edge(0), edge(2), r, rows), along(edge(1), edge(3), s, columns)]
            }
            "Resample" => {
                let own_plane = image * guide.extents[1] * plane + r * columns + s;
                [if guide.extents[1] == 2 { at(own_plane + plane) } else { r as f32 }, at(own_plane)]
            }
            _ => {
                let line = |k: usize| at(k) * s as f32 + at(k + 1) * r as f32 + at(k + 2);
                [line(3), line(0)]
            }
        }
    };
    let (nearest, background) =
        (own.word("SamplingMethod") == "NearestNeighbor", own.word("PaddingMode") == "Background");
    let mut data = vec![0.0; result.iter().product()];
    for image in 0..images {
        for at in 0..plane {
            let taps = taps(place(image, at / columns, at % columns), nearest);
            for channel in 0..channels {
                let source = &x.data[((if crops { 0 } else { image }) * c + channel) * h * w..][..h * w];
                let value = |[r, s]: [f32; 2]| {
                    let inside = (0.0..=(h - 1) as f32).contains(&r) && (0.0..=(w - 1) as f32).contains(&s);
                    if !inside && background {
                        return own.real("BackgroundValue");
                    }
                    source[(r.max(0.0) as usize).min(h - 1) * w + (s.max(0.0) as usize).min(w - 1)]
                };
                let sum =
                    taps.iter().filter(|(weight, _)| *weight != 0.0).map(|(weight, at)| weight * value(*at)).sum();
                data[(image * channels + channel) * plane + at] = sum;
            }
        }
    }
    Ok(data)
}

/// Neighbours of a position with their interpolation weights.
fn taps([r, s]: [f32; 2], nearest: bool) -> [(f32, [f32; 2]); 4] {
    if nearest {
        return [(1.0, [(r + 0.5).floor(), (s + 0.5).floor()]), (0.0, [0.0; 2]), (0.0, [0.0; 2]), (0.0, [0.0; 2])];
    }
    let ([r0, s0], [dr, ds]) = ([r.floor(), s.floor()], [r - r.floor(), s - s.floor()]);
    [
        ((1.0 - dr) * (1.0 - ds), [r0, s0]),
        ((1.0 - dr) * ds, [r0, s0 + 1.0]),
        (dr * (1.0 - ds), [r0 + 1.0, s0]),
        (dr * ds, [r0 + 1.0, s0 + 1.0]),
    ]
}
