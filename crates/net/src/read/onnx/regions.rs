//! Operators at computed positions: deformable convolutions, cubic and volumetric sampling, unpooling, col2im.

use super::node::Node;
use super::rois;
use super::spatial::{list, pads};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, Outside, ReduceKind, ResizeMode, ScatterMode, Unary};

/// Largest matrix whose determinant is expanded.
const DETERMINANT_ROWS: usize = 4;

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Col2Im" => col2im(n),
        "MaxUnpool" => max_unpool(n),
        "RoiAlign" => rois::align(n),
        "MaxRoiPool" => rois::pool(n),
        "DeformConv" => deform_conv(n),
        "Det" => {
            let x = square(n)?;
            let shape = n.shape(x);
            let id = determinant(n, x)?;
            let id = n.build().reshape(id, shape[..shape.len() - 2].to_vec())?;
            n.done(id)
        }
        "Compress" => compress(n),
        _ => Ok(false),
    }
}

/// Selection of elements by a constant condition; a computed condition is refused by [`super::node::REFUSED`].
fn compress(n: &mut Node) -> Result<bool, Error> {
    let (mut x, condition) = (n.need(0)?, n.need(1)?);
    let Some(data) = n.t.build.data(condition).cloned() else { return Ok(false) };
    let axis = match n.attribute("axis") {
        Some(a) => n.axis(a.i, n.shape(x).len())?,
        None => {
            let count = elements(&n.shape(x));
            x = n.build().reshape(x, [count])?;
            0
        }
    };
    let kept: Vec<i32> = (0..).zip(data.data.to_i32()).filter(|(_, keep)| *keep != 0).map(|(at, _)| at).collect();
    let kept = n.build().integers([kept.len()], kept);
    let id = n.build().gather(x, kept, axis)?;
    n.done(id)
}

/// Sum of overlapping windows from columns: a transposed convolution with ones.
fn col2im(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let need = |n: &Node, index: usize, what: &str| n.integers(index, what)?.ok_or_else(|| n.missing(what));
    let (image, block) = (need(n, 1, "image_shape")?, need(n, 2, "block_shape")?);
    let (image, block) = (n.sizes("image_shape", &image)?, n.sizes("block_shape", &block)?);
    let spatial = block.len();
    let places: usize = block.iter().product();
    let &[batch, rows, columns] = n.shape(x).as_slice() else { return Err(n.unsupported("operand not of rank 3")) };
    if !(1..=3).contains(&spatial) || image.len() != spatial || places == 0 || !rows.is_multiple_of(places) {
        return Err(n.unsupported(format!("blocks {block:?} of an image {image:?}")));
    }
    let (strides, dilations) = (list(n, "strides", spatial)?, list(n, "dilations", spatial)?);
    let pads = pads(n, spatial, |_| 0)?;
    let (mut counts, mut output_pads) = (Vec::new(), Vec::new());
    for i in 0..spatial {
        let reach = (block[i] - 1) * dilations[i] + 1;
        let free = (image[i] + pads[i].0 + pads[i].1).checked_sub(reach);
        let free = free.ok_or_else(|| n.unsupported(format!("blocks {block:?} of an image {image:?}")))?;
        counts.push(free / strides[i] + 1);
        output_pads.push(free % strides[i]);
    }
    if counts.iter().product::<usize>() != columns {
        return Err(n.unsupported(format!("{columns} columns for {counts:?} blocks")));
    }
    let channels = rows / places;
    let spread = n.build().reshape(x, [&[batch, rows], counts.as_slice()].concat())?;
    let ones: Vec<f32> = (0..rows * places).map(|i| f32::from(u8::from(i / places % places == i % places))).collect();
    let ones = n.build().floats([&[rows, 1], block.as_slice()].concat(), &ones, x);
    let kind = OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups: channels };
    let id = n.build().op("image", kind, &[spread, ones])?;
    n.done(id)
}

/// Elements at the positions where a pooling found them, zeros elsewhere.
fn max_unpool(n: &mut Node) -> Result<bool, Error> {
    let (x, places) = (n.need(0)?, n.need(1)?);
    let shape = n.shape(x);
    let spatial = shape.len().saturating_sub(2);
    let kernel = list(n, "kernel_shape", spatial)?;
    let (strides, pads) = (list(n, "strides", spatial)?, pads(n, spatial, |_| 0)?);
    let mut own = shape.clone();
    for i in 0..spatial {
        let whole = (shape[i + 2] - 1) * strides[i] + kernel[i];
        let inside = whole.checked_sub(pads[i].0 + pads[i].1);
        own[i + 2] = inside.ok_or_else(|| n.unsupported("padding wider than the result"))?;
    }
    let count = elements(&shape);
    let zero = n.build().scalar(0.0, x);
    let empty = n.build().broadcast(zero, [elements(&own)])?;
    let (flat, places) = (n.build().reshape(x, [count])?, n.build().reshape(places, [count])?);
    let kind = OpKind::ScatterAlong { axis: 0, mode: ScatterMode::Update };
    let filled = n.build().op("filled", kind, &[empty, places, flat])?;
    let mut id = n.build().reshape(filled, own.clone())?;
    if let Some(wanted) = n.integers(2, "output_shape")? {
        let wanted = n.sizes("output_shape", &wanted)?;
        let after = wanted.iter().zip(&own).map(|(&to, &from)| to.checked_sub(from).map(|more| (0, more)));
        let pads = after.collect::<Option<Vec<_>>>().filter(|p| p.len() == own.len());
        let pads = pads.ok_or_else(|| n.unsupported(format!("`output_shape` {wanted:?} for a result {own:?}")))?;
        id = n.build().op("padded", OpKind::Pad { pads, value: 0.0 }, &[id])?;
    }
    n.done(id)
}

/// Deformable convolution: taps are sampled at offset positions, followed by products over channels and taps.
fn deform_conv(n: &mut Node) -> Result<bool, Error> {
    let (x, w, offsets) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let (&[batch, channels, ..], &[out_channels, in_group, kh, kw], &[_, _, oh, ow]) =
        (n.shape(x).as_slice(), n.shape(w).as_slice(), n.shape(offsets).as_slice())
    else {
        return Err(n.unsupported("operands not of rank 4"));
    };
    let (strides, dilations) = (list(n, "strides", 2)?, list(n, "dilations", 2)?);
    let pads = pads(n, 2, |_| 0)?;
    let groups = n.size("group", n.int("group", 1))?;
    let parts = n.size("offset_group", n.int("offset_group", 1))?;
    let taps = kh * kw;
    if parts == 0
        || !channels.is_multiple_of(parts)
        || elements(&n.shape(offsets)) != batch * parts * taps * 2 * oh * ow
    {
        return Err(n.unsupported(format!("offsets {:?} for {parts} groups of {taps} taps", n.shape(offsets))));
    }
    // Column and row of each tap without offsets.
    let place = |i: usize| {
        let (tap, row, column, axis) = (i / (2 * ow * oh), i / (2 * ow) % oh, i / 2 % ow, i % 2);
        let (at, stride, step, dilation, pad) = match axis {
            0 => (column, strides[1], tap % kw, dilations[1], pads[1].0),
            _ => (row, strides[0], tap / kw, dilations[0], pads[0].0),
        };
        (at * stride + step * dilation) as f32 - pad as f32
    };
    let base: Vec<f32> = (0..taps * oh * ow * 2).map(place).collect();
    let base = n.build().floats([1, taps, oh, ow, 2], &base, x);
    let moves = n.build().reshape(offsets, [batch, parts, taps, 2, oh * ow])?;
    let mask = n.input(4);
    let own = channels / parts;
    let mut sampled = Vec::new();
    for part in 0..parts {
        let picture = n.build().slice(x, 1, part * own, (part + 1) * own)?;
        let shift = n.build().slice(moves, 1, part, part + 1)?;
        let shift = n.build().reshape(shift, [batch, taps, 2, oh * ow])?;
        let shift = n.build().transpose(shift, &[0, 1, 3, 2])?;
        // Offsets have rows first, sampling positions columns.
        let turned = n.build().integers([2], vec![1, 0]);
        let shift = n.build().gather(shift, turned, 3)?;
        let shift = n.build().reshape(shift, [batch, taps, oh, ow, 2])?;
        let at = n.build().binary(Binary::Add, shift, base)?;
        let at = n.build().reshape(at, [batch, taps * oh, ow, 2])?;
        let values = n.build().sample(picture, at, ResizeMode::Linear, Outside::Value(0.0))?;
        let mut values = n.build().reshape(values, [batch, own, taps * oh, ow])?;
        if let Some(mask) = mask {
            let mask = n.build().slice(mask, 1, part * taps, (part + 1) * taps)?;
            let mask = n.build().reshape(mask, [batch, 1, taps * oh, ow])?;
            values = n.build().binary(Binary::Mul, values, mask)?;
        }
        sampled.push(n.build().reshape(values, [batch, own * taps, oh, ow])?);
    }
    let columns = n.build().concat(&sampled, 1)?;
    let w = n.build().reshape(w, [out_channels, in_group * taps, 1, 1])?;
    let mut inputs = vec![columns, w];
    inputs.extend(n.input(3));
    let kind = OpKind::Conv { strides: vec![1; 2], pads: vec![(0, 0); 2], dilations: vec![1; 2], groups };
    let id = n.build().op("conv", kind, &inputs)?;
    n.done(id)
}

/// Position along an axis, its interpolation weight if two are mixed, and a mask that is set inside.
type Corner = (ValueId, Option<ValueId>, Option<ValueId>);

/// The first operand, square matrices in the last two axes that are small enough for expansion by rows.
fn square(n: &Node) -> Result<ValueId, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    match shape[..] {
        [.., rows, columns] if rows == columns && (1..=DETERMINANT_ROWS).contains(&rows) => Ok(x),
        _ => Err(n.unsupported(format!(
            "matrices of extents {shape:?}, at most {DETERMINANT_ROWS} rows are supported. Do this on the host"
        ))),
    }
}

/// `Inverse`: the transposed cofactors divided by the determinant.
pub fn inverse(n: &mut Node) -> Result<bool, Error> {
    let x = square(n)?;
    let shape = n.shape(x);
    let (size, batch) = (shape[shape.len() - 1], elements(&shape[..shape.len() - 2]));
    let x = n.build().reshape(x, [batch, size, size])?;
    let id = if size == 1 {
        n.build().unary(Unary::Inverse { epsilon: 0.0 }, x)?
    } else {
        // All minors: rows and columns without one each.
        let others = |at: i32| (0..size as i32).filter(move |&other| other != at);
        let others = n.build().integers([size, size - 1], (0..size as i32).flat_map(others).collect());
        let rows = n.build().gather(x, others, 1)?;
        let minors = n.build().gather(rows, others, 3)?;
        let minors = n.build().transpose(minors, &[0, 1, 3, 2, 4])?;
        let minors = determinant(n, minors)?;
        let minors = n.build().reshape(minors, [batch, size, size])?;
        let sign = |at: usize| if (at / size + at % size).is_multiple_of(2) { 1.0 } else { -1.0 };
        let signs = n.build().floats([size, size], &(0..size * size).map(sign).collect::<Vec<f32>>(), x);
        let cofactors = n.build().binary(Binary::Mul, minors, signs)?;
        let (top, of_top) = (n.build().slice(x, 1, 0, 1)?, n.build().slice(cofactors, 1, 0, 1)?);
        let terms = n.build().binary(Binary::Mul, top, of_top)?;
        let whole = n.build().reduce(ReduceKind::Sum, terms, &[2], true)?;
        let adjugate = n.build().transpose(cofactors, &[0, 2, 1])?;
        n.build().binary(Binary::Div, adjugate, whole)?
    };
    let id = n.build().reshape(id, shape)?;
    n.done(id)
}

/// Determinants of the matrices in the last two axes by expansion along the first row; the axes keep extent one.
fn determinant(n: &mut Node, x: ValueId) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let (row, column) = (shape.len() - 2, shape.len() - 1);
    let size = shape[column];
    if size == 1 {
        return Ok(x);
    }
    let (top, rest) = (n.build().slice(x, row, 0, 1)?, n.build().slice(x, row, 1, size)?);
    let mut sum = None;
    for at in 0..size {
        let others: Vec<i32> = (0..size as i32).filter(|&c| c != at as i32).collect();
        let others = n.build().integers([size - 1], others);
        let minor = n.build().gather(rest, others, column)?;
        let minor = determinant(n, minor)?;
        let factor = n.build().slice(top, column, at, at + 1)?;
        let term = n.build().binary(Binary::Mul, factor, minor)?;
        let f = if at % 2 == 0 { Binary::Add } else { Binary::Sub };
        sum = Some(match sum {
            Some(sum) => n.build().binary(f, sum, term)?,
            None => term,
        });
    }
    sum.ok_or_else(|| n.unsupported("matrices without elements"))
}

/// Cubic interpolation of `[N, C, H, W]` at positions `[N, Ho, Wo, 2]`, in elements.
pub fn cubic_sample(n: &mut Node, x: ValueId, places: ValueId, outside: Outside) -> Result<ValueId, Error> {
    const SHARPNESS: f32 = -0.75;
    let &[batch, rows, columns, _] = n.shape(places).as_slice() else {
        return Err(n.unsupported("a grid not of rank 4"));
    };
    let whole = n.build().unary(Unary::Floor, places)?;
    let rest = n.build().binary(Binary::Sub, places, whole)?;
    // Weights of the four neighbours along each axis, as a polynomial in their distance.
    let mut weights = [Vec::new(), Vec::new()];
    for (axis, weights) in weights.iter_mut().enumerate() {
        let t = n.build().slice(rest, 3, axis, axis + 1)?;
        let t = n.build().reshape(t, [batch, 1, rows, columns])?;
        for at in -1i32..3 {
            let away = n.build().with(Binary::Sub, t, at as f32)?;
            let d = n.build().unary(Unary::Abs, away)?;
            let a = SHARPNESS;
            let factors =
                if (0..2).contains(&at) { [a + 2.0, -(a + 3.0), 0.0, 1.0] } else { [a, -5.0 * a, 8.0 * a, -4.0 * a] };
            let mut value = n.build().with(Binary::Mul, d, factors[0])?;
            for (i, &factor) in factors[1..].iter().enumerate() {
                value = n.build().with(Binary::Add, value, factor)?;
                if i < 2 {
                    value = n.build().binary(Binary::Mul, value, d)?;
                }
            }
            weights.push(value);
        }
    }
    let mut sum = None;
    for (j, &down) in weights[1].iter().enumerate() {
        for (i, &across) in weights[0].iter().enumerate() {
            let step = n.build().floats([2], &[i as f32 - 1.0, j as f32 - 1.0], places);
            let at = n.build().binary(Binary::Add, whole, step)?;
            let value = n.build().sample(x, at, ResizeMode::Nearest, outside)?;
            let weight = n.build().binary(Binary::Mul, down, across)?;
            let term = n.build().binary(Binary::Mul, value, weight)?;
            sum = Some(match sum {
                Some(sum) => n.build().binary(Binary::Add, sum, term)?,
                None => term,
            });
        }
    }
    sum.ok_or_else(|| n.unsupported("no neighbours"))
}

/// Sampling of `[N, C, D, H, W]` at normalized positions `[N, Do, Ho, Wo, 3]`, column first; zero outside, or with
/// `border` the nearest element.
pub fn volume_sample(
    n: &mut Node,
    x: ValueId,
    grid: ValueId,
    linear: bool,
    border: bool,
    align_corners: bool,
) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let to = n.shape(grid);
    let (&[batch, channels, ..], &[_, a, b, c, 3]) = (shape.as_slice(), to.as_slice()) else {
        return Err(n.unsupported("a grid without three coordinates per position"));
    };
    let count = a * b * c;
    // Outermost axis first.
    let extents = &shape[2..];
    let mut corners: [Vec<Corner>; 3] = Default::default();
    for (axis, corners) in corners.iter_mut().enumerate() {
        let extent = extents[axis];
        let size = extent as f32;
        let (scale, offset) =
            if align_corners { ((size - 1.0) / 2.0, (size - 1.0) / 2.0) } else { (size / 2.0, (size - 1.0) / 2.0) };
        let at = n.build().slice(grid, 4, 2 - axis, 3 - axis)?;
        let at = n.build().reshape(at, [batch, 1, count])?;
        let at = n.build().with(Binary::Mul, at, scale)?;
        let mut at = n.build().with(Binary::Add, at, offset)?;
        if border {
            at = n.build().unary(Unary::Clip { min: 0.0, max: size - 1.0 }, at)?;
        }
        let whole = n.build().unary(if linear { Unary::Floor } else { Unary::Round }, at)?;
        let rest = n.build().binary(Binary::Sub, at, whole)?;
        for step in 0..if linear { 2 } else { 1 } {
            let place = n.build().with(Binary::Add, whole, step as f32)?;
            let held = n.build().unary(Unary::Clip { min: 0.0, max: size - 1.0 }, place)?;
            let inside = if border { None } else { Some(n.build().binary(Binary::Equal, held, place)?) };
            let weight = match (linear, step) {
                (false, _) => None,
                (true, 1) => Some(rest),
                (true, _) => {
                    let one = n.build().scalar(1.0, rest);
                    Some(n.build().binary(Binary::Sub, one, rest)?)
                }
            };
            let held = n.build().cast(held, DType::I32)?;
            corners.push((held, inside, weight));
        }
    }
    let flat = n.build().reshape(x, [batch, channels, elements(extents)])?;
    let mut sum = None;
    for &(z, in_z, wz) in &corners[0] {
        for &(y, in_y, wy) in &corners[1] {
            for &(x, in_x, wx) in &corners[2] {
                let plane = n.build().with(Binary::Mul, z, extents[1] as f32)?;
                let row = n.build().binary(Binary::Add, plane, y)?;
                let row = n.build().with(Binary::Mul, row, extents[2] as f32)?;
                let place = n.build().binary(Binary::Add, row, x)?;
                let place = n.build().broadcast(place, [batch, channels, count])?;
                let mut value = n.build().op("corner", OpKind::GatherAlong { axis: 2 }, &[flat, place])?;
                for weight in [wz, wy, wx].into_iter().flatten() {
                    value = n.build().binary(Binary::Mul, value, weight)?;
                }
                for inside in [in_z, in_y, in_x].into_iter().flatten() {
                    let zero = n.build().scalar(0.0, value);
                    value = n.build().select(inside, value, zero)?;
                }
                sum = Some(match sum {
                    Some(sum) => n.build().binary(Binary::Add, sum, value)?,
                    None => value,
                });
            }
        }
    }
    let sum = sum.ok_or_else(|| n.unsupported("no corners"))?;
    n.build().reshape(sum, [batch, channels, a, b, c])
}

/// Position of each window's greatest element in the operand, counted in row-major or column-major order.
pub fn pooled_places(
    n: &mut Node,
    x: ValueId,
    result: &[usize],
    window: [&[usize]; 3],
    before: &[usize],
    by_columns: bool,
) -> Result<ValueId, Error> {
    let [kernel, strides, dilations] = window;
    let shape = n.shape(x);
    let (extents, to) = (&shape[2..], &result[2..]);
    let (plane, places, taps) = (elements(extents), elements(to), elements(kernel));
    if places.saturating_mul(taps) > 1 << 22 {
        return Err(
            n.unsupported(format!("positions in {places} windows of {taps} elements. Compute them on the host"))
        );
    }
    if by_columns && extents.len() != 2 {
        return Err(n.unsupported("positions in column-major order along a number of axes other than two"));
    }
    // Position of each tap of each window; padding is one past the end.
    let (mut taken, mut named) = (Vec::new(), Vec::new());
    for place in 0..places {
        for tap in 0..taps {
            let (mut flat, mut inside, mut at) = (0, true, vec![0; to.len()]);
            let (mut place, mut tap) = (place, tap);
            for i in (0..to.len()).rev() {
                let from = place % to[i] * strides[i] + tap % kernel[i] * dilations[i];
                (place, tap) = (place / to[i], tap / kernel[i]);
                inside &= from >= before[i] && from - before[i] < extents[i];
                at[i] = from.saturating_sub(before[i]);
            }
            at.iter().zip(extents).for_each(|(&a, &extent)| flat = flat * extent + a);
            taken.push(if inside { flat as i32 } else { plane as i32 });
            let name = if by_columns { at[0] + at[1] * extents[0] } else { flat };
            named.push(if inside { name as i32 } else { 0 });
        }
    }
    let rows = n.build().reshape(x, [shape[0], shape[1], plane])?;
    let lowest = n.dtype(x).narrow_range().map_or(f32::NEG_INFINITY, |(least, _)| least as f32);
    let kind = OpKind::Pad { pads: vec![(0, 0), (0, 0), (0, 1)], value: lowest };
    let padded = n.build().op("padded", kind, &[rows])?;
    let taken = n.build().integers([places, taps], taken);
    let windows = n.build().gather(padded, taken, 2)?;
    let kind = OpKind::ArgReduce { greatest: true, last: false, axis: 3, keep_dims: true };
    let best = n.build().op("best", kind, &[windows])?;
    let named = n.build().integers([1, 1, places, taps], named);
    let named = n.build().broadcast(named, [shape[0], shape[1], places, taps])?;
    let found = n.build().op("place", OpKind::GatherAlong { axis: 3 }, &[named, best])?;
    let starts: Vec<i32> = (0..shape[0] * shape[1]).map(|i| (i * plane) as i32).collect();
    let starts = n.build().integers([shape[0], shape[1], 1, 1], starts);
    let id = n.build().binary(Binary::Add, found, starts)?;
    n.build().reshape(id, result)
}
