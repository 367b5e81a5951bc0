//! MIL convolutions, pooling, padding and resampling.

use super::call::Call;
use crate::error::Error;
use crate::graph::{TensorType, ValueId};
use crate::ops::{Coordinates, EdgeMode, OpKind, PoolKind, ResizeMode};

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "conv" => conv(call),
        "conv_transpose" => conv_transpose(call),
        "max_pool" => pool(call, PoolKind::Max),
        "l2_pool" => pool(call, PoolKind::L2),
        "avg_pool" => {
            let exclude_padding = call.flag("exclude_padding_from_average", false)?;
            pool(call, PoolKind::Average { exclude_padding })
        }
        "pad" => pad(call),
        "upsample_nearest_neighbor" => {
            let factors = (call.float("scale_factor_height", 1.0)?, call.float("scale_factor_width", 1.0)?);
            upsample(call, ResizeMode::Nearest, Coordinates::Asymmetric, factors)
        }
        "upsample_bilinear" => {
            let align = call.flag("align_corners", true)?;
            let half = call.flag("half_pixel_centers", !align)?;
            let coordinates = match (align, half) {
                (true, false) => Coordinates::AlignCorners,
                (false, true) => Coordinates::HalfPixel,
                (false, false) => Coordinates::Asymmetric,
                (true, true) => return Err(call.unsupported("both align_corners and half_pixel_centers")),
            };
            let factors = (call.float("scale_factor_height", 1.0)?, call.float("scale_factor_width", 1.0)?);
            upsample(call, ResizeMode::Linear, coordinates, factors)
        }
        "resize_nearest_neighbor" => {
            let sizes = (call.integer("target_size_height", 1)?, call.integer("target_size_width", 1)?);
            resize_to(call, ResizeMode::Nearest, Coordinates::Asymmetric, sizes)
        }
        "resize_bilinear" => {
            let coordinates = sampling(call)?;
            let sizes = (call.integer("target_size_height", 1)?, call.integer("target_size_width", 1)?);
            resize_to(call, ResizeMode::Linear, coordinates, sizes)
        }
        "resize" => resize(call),
        _ => Ok(false),
    }
}

/// Number of spatial axes of an operand `[N, C, ...]`.
fn spatial_rank(call: &Call, x: ValueId) -> Result<usize, Error> {
    let rank = call.shape(x).len();
    if (3..=5).contains(&rank) { Ok(rank - 2) } else { Err(call.unsupported(&format!("operand of rank {rank}"))) }
}

/// A list of sizes with one entry per spatial axis; `default` if it is absent.
fn list(call: &Call, name: &str, spatial: usize, default: usize) -> Result<Vec<usize>, Error> {
    let list = call.sizes(name)?.unwrap_or_else(|| vec![default; spatial]);
    expect_length(call, name, list.len(), spatial)?;
    Ok(list)
}

fn expect_length(call: &Call, name: &str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let (key, n) = (format!("length of {name}"), expected as i64);
    Err(Error::OutOfRange { place: call.place(), key, found: found as i64, least: n, most: n })
}

/// Padding per spatial axis. `totals` returns the padding of type `same` along an axis.
fn pads(call: &Call, spatial: usize, totals: impl Fn(usize) -> usize) -> Result<Vec<(usize, usize)>, Error> {
    let pad_type = call.text("pad_type")?;
    Ok(match pad_type.as_deref().unwrap_or("valid") {
        "valid" => vec![(0, 0); spatial],
        "custom" => {
            let pad = call.sizes("pad")?.unwrap_or_else(|| vec![0; 2 * spatial]);
            expect_length(call, "pad", pad.len(), 2 * spatial)?;
            pad.chunks_exact(2).map(|p| (p[0], p[1])).collect()
        }
        "same" => (0..spatial).map(|i| (totals(i) / 2, totals(i).div_ceil(2))).collect(),
        "same_lower" => (0..spatial).map(|i| (totals(i).div_ceil(2), totals(i) / 2)).collect(),
        other => return Err(call.unsupported(&format!("pad_type `{other}`"))),
    })
}

/// Padding along one axis that gives `ceil(extent / stride)` windows.
fn same_total(extent: usize, window: usize, stride: usize) -> usize {
    let stride = stride.max(1);
    ((extent.div_ceil(stride) - 1) * stride + window).saturating_sub(extent)
}

fn dilated(extent: usize, dilation: usize) -> usize {
    (extent - 1).saturating_mul(dilation).saturating_add(1)
}

fn conv(call: &mut Call) -> Result<bool, Error> {
    let mut inputs = vec![call.operand("x")?, call.operand("weight")?];
    inputs.extend(call.optional("bias")?);
    let spatial = spatial_rank(call, inputs[0])?;
    let (x, w) = (call.shape(inputs[0]), call.shape(inputs[1]));
    expect_length(call, "extents of weight", w.len(), spatial + 2)?;
    let strides = list(call, "strides", spatial, 1)?;
    let dilations = list(call, "dilations", spatial, 1)?;
    let same = |i: usize| same_total(x[i + 2], dilated(w[i + 2], dilations[i]), strides[i]);
    let pads = pads(call, spatial, same)?;
    let groups = call.size("groups", call.integer("groups", 1)?)?;
    call.give(OpKind::Conv { strides, pads, dilations, groups }, &inputs)
}

fn conv_transpose(call: &mut Call) -> Result<bool, Error> {
    let mut inputs = vec![call.operand("x")?, call.operand("weight")?];
    inputs.extend(call.optional("bias")?);
    let spatial = spatial_rank(call, inputs[0])?;
    let (x, w) = (call.shape(inputs[0]), call.shape(inputs[1]));
    expect_length(call, "extents of weight", w.len(), spatial + 2)?;
    let strides = list(call, "strides", spatial, 1)?;
    let dilations = list(call, "dilations", spatial, 1)?;
    let groups = call.size("groups", call.integer("groups", 1)?)?;
    let full = |i: usize| (x[i + 2] - 1).saturating_mul(strides[i]).saturating_add(dilated(w[i + 2], dilations[i]));
    let output_shape = call.sizes("output_shape")?;
    if let Some(shape) = &output_shape {
        expect_length(call, "output_shape", shape.len(), spatial + 2)?;
    }
    let wanted = |i: usize| output_shape.as_ref().map(|shape| shape[i + 2]);
    let same = |i: usize| full(i).saturating_sub(wanted(i).unwrap_or(x[i + 2].saturating_mul(strides[i])));
    let mut pads = pads(call, spatial, same)?;
    let mut output_pads = vec![0; spatial];
    for i in 0..spatial {
        // The declared extents win: missing elements extend the result, surplus ones are cropped.
        let Some(wanted) = wanted(i) else { continue };
        let given = full(i).saturating_sub(pads[i].0.saturating_add(pads[i].1));
        output_pads[i] = wanted.saturating_sub(given);
        pads[i].1 += given.saturating_sub(wanted);
    }
    call.give(OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups }, &inputs)
}

fn pool(call: &mut Call, kind: PoolKind) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let spatial = spatial_rank(call, x)?;
    let shape = call.shape(x);
    let kernel = call.sizes("kernel_sizes")?.ok_or_else(|| call.missing("kernel_sizes"))?;
    expect_length(call, "kernel_sizes", kernel.len(), spatial)?;
    let strides = list(call, "strides", spatial, 1)?;
    let pads = pads(call, spatial, |i| same_total(shape[i + 2], kernel[i], strides[i]))?;
    let ceil_mode = call.flag("ceil_mode", false)?;
    call.give(OpKind::Pool { kind, kernel, strides, pads, ceil_mode }, &[x])
}

fn pad(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let rank = call.shape(x).len();
    let list = call.sizes("pad")?.ok_or_else(|| call.missing("pad"))?;
    if list.len() > 2 * rank || list.len() % 2 != 0 {
        expect_length(call, "pad", list.len(), 2 * rank)?;
    }
    // The list applies to the last axes.
    let mut pads = vec![(0, 0); rank - list.len() / 2];
    pads.extend(list.chunks_exact(2).map(|p| (p[0], p[1])));
    let mode = match call.text("mode")?.as_deref() {
        None | Some("constant") => {
            let value = call.float("constant_val", 0.0)?;
            return call.give(OpKind::Pad { pads, value }, &[x]);
        }
        Some("reflect") => EdgeMode::Reflect,
        Some("replicate") => EdgeMode::Replicate,
        Some(other) => return Err(call.unsupported(&format!("mode `{other}`"))),
    };
    call.give(OpKind::PadEdge { pads, mode }, &[x])
}

fn upsample(
    call: &mut Call,
    mode: ResizeMode,
    coordinates: Coordinates,
    (height, width): (f32, f32),
) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let [.., h, w] = shape.as_slice() else { return Err(call.unsupported("operand of rank less than 2")) };
    let size = |extent: usize, factor: f32| (extent as f32 * factor).floor() as i64;
    resize_to(call, mode, coordinates, (size(*h, height), size(*w, width)))
}

fn resize_to(
    call: &mut Call,
    mode: ResizeMode,
    coordinates: Coordinates,
    (height, width): (i64, i64),
) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let mut declared = call.ty(x).clone();
    let sizes = [call.size("height", height)?, call.size("width", width)?];
    let [.., h, w] = declared.shape.as_mut_slice() else {
        return Err(call.unsupported("operand of rank less than 2"));
    };
    [*h, *w] = sizes;
    call.give_as(OpKind::Resize { mode, coordinates }, &[x], Some(declared))
}

fn sampling(call: &Call) -> Result<Coordinates, Error> {
    Ok(match call.text("sampling_mode")?.as_deref() {
        None | Some("DEFAULT") => Coordinates::Asymmetric,
        Some("STRICT_ALIGN_CORNERS" | "ALIGN_CORNERS") => Coordinates::AlignCorners,
        Some("UNALIGN_CORNERS") => Coordinates::HalfPixel,
        Some(other) => return Err(call.unsupported(&format!("sampling mode `{other}`"))),
    })
}

fn resize(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let TensorType { dtype, mut shape } = call.ty(x).clone();
    let wanted = call.sizes("shape")?.ok_or_else(|| call.missing("shape"))?;
    let count = call.size("resized_dims", call.integer("resized_dims", wanted.len() as i64)?)?;
    if count > wanted.len() || count > shape.len() {
        expect_length(call, "resized_dims", count, wanted.len().min(shape.len()))?;
    }
    let first = shape.len() - count;
    for (extent, &size) in shape[first..].iter_mut().zip(&wanted[wanted.len() - count..]).filter(|(_, s)| **s != 0) {
        *extent = size;
    }
    let mode = match call.text("interpolation_mode")?.as_deref() {
        None | Some("LINEAR") => ResizeMode::Linear,
        Some("NEAREST_NEIGHBOR") => ResizeMode::Nearest,
        Some(other) => return Err(call.unsupported(&format!("interpolation mode `{other}`"))),
    };
    let coordinates = sampling(call)?;
    call.give_as(OpKind::Resize { mode, coordinates }, &[x], Some(TensorType { dtype, shape }))
}
