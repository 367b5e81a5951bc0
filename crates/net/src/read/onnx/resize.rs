//! `Resize` and `Upsample`.

use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, TensorType, ValueId};
use crate::ops::{Coordinates, OpKind, ResizeMode, Unary};

/// Resampling one axis at a time, as products with interpolation matrices; simple cases are [`OpKind::Resize`] of the net.
pub(super) fn resize(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let rank = shape.len();
    let upsample = n.op() == "Upsample" || n.opset() < 11;
    let axes = match n.ints("axes") {
        Some(axes) => axes.iter().map(|&a| n.axis(a, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    let floats = |n: &Node, index: usize, what: &str| -> Result<Option<Vec<f32>>, Error> {
        Ok(n.constant(index, what)?.map(|t| t.data.to_f32()).filter(|v| !v.is_empty()))
    };
    let scales = match n.attribute("scales") {
        Some(a) => Some(a.floats.clone()),
        None => floats(n, if upsample { 1 } else { 2 }, "scales")?,
    };
    let sizes = if upsample { None } else { n.integers(3, "sizes")?.filter(|s| !s.is_empty()) };
    let (mut to, mut scale) = (shape.clone(), vec![1f32; rank]);
    // The length given by a scale may be fractional, that given by a size is not.
    let mut length: Vec<f32> = shape.iter().map(|&extent| extent as f32).collect();
    match (&scales, &sizes) {
        (Some(scales), _) if scales.len() == axes.len() => {
            for (&axis, &s) in axes.iter().zip(scales) {
                to[axis] = (shape[axis] as f32 * s).floor() as usize;
                scale[axis] = s;
                length[axis] *= s;
            }
        }
        (None, Some(sizes)) if sizes.len() == axes.len() => {
            let policy = n.text("keep_aspect_ratio_policy");
            let ratios = axes.iter().zip(sizes).map(|(&a, &s)| s as f32 / shape[a] as f32);
            let common = match policy.as_deref() {
                Some("not_larger") => Some(ratios.fold(f32::INFINITY, f32::min)),
                Some("not_smaller") => Some(ratios.fold(0.0, f32::max)),
                _ => None,
            };
            for (&axis, &size) in axes.iter().zip(sizes) {
                to[axis] = match common {
                    Some(ratio) => (ratio * shape[axis] as f32).round() as usize,
                    None => n.size("sizes", size)?,
                };
                scale[axis] = common.unwrap_or(to[axis] as f32 / shape[axis] as f32);
                length[axis] = common.map_or(to[axis] as f32, |ratio| length[axis] * ratio);
            }
        }
        _ => return Err(n.missing("scales or sizes for each axis")),
    }
    let coordinates = match n.text("coordinate_transformation_mode") {
        Some(mode) => mode,
        None if upsample => "asymmetric".to_string(),
        None => "half_pixel".to_string(),
    };
    let mode = n.text("mode").unwrap_or_else(|| "nearest".to_string());
    let nearest = n.text("nearest_mode");
    let nearest = nearest.unwrap_or_else(|| if upsample { "floor" } else { "round_prefer_floor" }.to_string());
    let exact = (0..rank).all(|a| (shape[a] as f32 * scale[a]) == to[a] as f32);
    let antialias = n.flag("antialias", false);
    let plain = match (mode.as_str(), coordinates.as_str()) {
        ("nearest", "asymmetric") if nearest == "floor" => Some((ResizeMode::Nearest, Coordinates::Asymmetric)),
        ("linear" | "bilinear", "asymmetric") => Some((ResizeMode::Linear, Coordinates::Asymmetric)),
        ("linear" | "bilinear", "half_pixel") => Some((ResizeMode::Linear, Coordinates::HalfPixel)),
        ("linear" | "bilinear", "align_corners") => Some((ResizeMode::Linear, Coordinates::AlignCorners)),
        _ => None,
    };
    if let Some((mode, coordinates)) = plain.filter(|_| exact && !antialias && n.dtype(x).is_float()) {
        let declared = TensorType { dtype: n.dtype(x), shape: to };
        let id = n.build().op_as("resized", OpKind::Resize { mode, coordinates }, &[x], Some(declared))?;
        return n.done(id);
    }
    let roi = if coordinates == "tf_crop_and_resize" { floats(n, 1, "roi")? } else { None };
    let sampler = Sampler {
        mode,
        coordinates,
        nearest,
        cubic: n.float("cubic_coeff_a", -0.75),
        exclude_outside: n.flag("exclude_outside", false),
        extrapolation: n.float("extrapolation_value", 0.0),
        antialias,
    };
    let mut value = x;
    for axis in 0..rank {
        let region = roi.as_ref().and_then(|roi| {
            let at = axes.iter().position(|&a| a == axis)?;
            Some((*roi.get(at)?, *roi.get(at + axes.len())?))
        });
        if to[axis] == shape[axis] && scale[axis] == 1.0 && region.is_none_or(|r| r == (0.0, 1.0)) {
            continue;
        }
        let scaling = Scaling { from: shape[axis], to: to[axis], scale: scale[axis], length: length[axis], region };
        let rows = sampler.weights(&scaling).map_err(|r| n.unsupported(r))?;
        value = along(n, value, axis, &rows, sampler.extrapolation)?;
    }
    let id = if value == x { n.build().unary(Unary::Identity, x)? } else { value };
    // Means of integers lose their fraction after the last axis, as in ONNX Runtime.
    let dtype = n.dtype(x);
    let id = n.build().cast(id, dtype)?;
    n.done(id)
}

/// Attributes of a `Resize` that determine the result along one axis.
struct Sampler {
    mode: String,
    coordinates: String,
    nearest: String,
    cubic: f32,
    exclude_outside: bool,
    extrapolation: f32,
    antialias: bool,
}

/// How one axis is scaled.
struct Scaling {
    from: usize,
    to: usize,
    scale: f32,
    length: f32,
    /// Start and end of the region that is read, as shares of the axis.
    region: Option<(f32, f32)>,
}

/// Weights of the operand's elements; `None` if the position is outside.
type Row = Option<Vec<(usize, f32)>>;

impl Sampler {
    fn weights(&self, axis: &Scaling) -> Result<Vec<Row>, String> {
        (0..axis.to).map(|o| self.row(o, axis)).collect()
    }

    /// Position in the operand, in fp32 as ONNX Runtime computes it: there the quotient by a rounded scale is mostly the whole number
    /// that is meant, and the next smaller number in wider arithmetic.
    fn place(&self, o: usize, axis: &Scaling) -> Result<f32, String> {
        let &Scaling { from, to, scale, length, region } = axis;
        let (i, n) = (o as f32, from as f32);
        Ok(match self.coordinates.as_str() {
            "asymmetric" => i / scale,
            "half_pixel" => (i + 0.5) / scale - 0.5,
            "half_pixel_symmetric" => n / 2.0 * (1.0 - to as f32 / length) + (i + 0.5) / scale - 0.5,
            "pytorch_half_pixel" if length > 1.0 => (i + 0.5) / scale - 0.5,
            "pytorch_half_pixel" => 0.0,
            "align_corners" if length > 1.0 => i * (n - 1.0) / (length - 1.0),
            "align_corners" => 0.0,
            "tf_crop_and_resize" => {
                let (start, end) = region.unwrap_or((0.0, 1.0));
                match to > 1 {
                    true => start * (n - 1.0) + i * (end - start) * (n - 1.0) / (to as f32 - 1.0),
                    false => 0.5 * (start + end) * (n - 1.0),
                }
            }
            other => return Err(format!("coordinates `{other}`")),
        })
    }

    fn row(&self, o: usize, axis: &Scaling) -> Result<Row, String> {
        let (from, at) = (axis.from, self.place(o, axis)?);
        if self.coordinates == "tf_crop_and_resize" && (at < 0.0 || at > from as f32 - 1.0) {
            return Ok(None);
        }
        let (at, s) = (f64::from(at), f64::from(axis.scale));
        let clamp = |i: i64| i.clamp(0, from as i64 - 1) as usize;
        if self.mode == "nearest" {
            let whole = match self.nearest.as_str() {
                "floor" => at.floor(),
                "ceil" => at.ceil(),
                "round_prefer_floor" => (at - 0.5).ceil(),
                "round_prefer_ceil" => (at + 0.5).floor(),
                other => return Err(format!("nearest mode `{other}`")),
            };
            return Ok(Some(vec![(clamp(whole as i64), 1.0)]));
        }
        // Downsampling with antialiasing widens the filter, so that no element is skipped.
        let wide = if self.antialias && s < 1.0 { s } else { 1.0 };
        let a = f64::from(self.cubic);
        let reach = if self.mode == "cubic" { 2.0 } else { 1.0 };
        let kernel = |d: f64| {
            let d = d.abs();
            match self.mode.as_str() {
                "cubic" if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
                "cubic" if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
                "cubic" => 0.0,
                _ => (1.0 - d).max(0.0),
            }
        };
        if !matches!(self.mode.as_str(), "cubic" | "linear" | "bilinear") {
            return Err(format!("mode `{}`", self.mode));
        }
        let (first, last) = ((at - reach / wide).ceil() as i64, (at + reach / wide).floor() as i64);
        let mut row: Vec<(usize, f32)> = Vec::new();
        let mut total = 0.0;
        for k in first..=last {
            let weight = kernel((k as f64 - at) * wide);
            let outside = k < 0 || k >= from as i64;
            if weight == 0.0 || outside && self.exclude_outside {
                continue;
            }
            total += weight;
            row.push((clamp(k), weight as f32));
        }
        if total != 0.0 {
            row.iter_mut().for_each(|(_, w)| *w = (f64::from(*w) / total) as f32);
        }
        Ok(Some(row))
    }
}

/// Applies rows of weights along an axis.
fn along(n: &mut Node, x: ValueId, axis: usize, rows: &[Row], outside: f32) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let (from, to) = (shape[axis], rows.len());
    // Copies of single elements need no arithmetic.
    if rows.iter().all(|row| row.as_ref().is_some_and(|r| matches!(r.as_slice(), [(_, 1.0)]))) {
        let indices = rows.iter().flatten().map(|r| r[0].0 as i32).collect();
        let indices = n.build().integers([to], indices);
        return n.build().gather(x, indices, axis);
    }
    if from.saturating_mul(to) > 1 << 24 {
        return Err(n.unsupported(format!("an axis of {from} resampled to {to} by weights")));
    }
    let x = if n.dtype(x).is_float() { x } else { n.build().cast(x, DType::F32)? };
    let mut weights = vec![0f32; from * to];
    for (o, row) in rows.iter().enumerate() {
        row.iter().flatten().for_each(|&(i, w)| weights[o * from + i] += w);
    }
    let rank = shape.len();
    let mut perm: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
    perm.push(axis);
    let moved = n.build().transpose(x, &perm)?;
    let lead: usize = (0..rank).filter(|&a| a != axis).map(|a| shape[a]).product();
    let flat = n.build().reshape(moved, [lead, from])?;
    let matrix = n.build().floats([to, from], &weights, x);
    let mut product = n.build().op("combine", OpKind::Combine, &[flat, matrix])?;
    if rows.iter().any(Option::is_none) {
        let mask = rows.iter().map(|r| r.is_some()).collect();
        let mask = n.build().mask([1, to], mask);
        let value = n.build().scalar(outside, x);
        product = n.build().select(mask, product, value)?;
    }
    let mut whole: Vec<usize> = perm.iter().map(|&a| shape[a]).collect();
    whole[rank - 1] = to;
    let spread = n.build().reshape(product, whole)?;
    let mut back = vec![0; rank];
    perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
    n.build().transpose(spread, &back)
}
