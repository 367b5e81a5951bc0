//! Regions of interest: samples and maxima of parts of pictures.

use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, Outside, ReduceKind, ResizeMode, Unary};

/// Means of samples in equal parts of regions; samples more than one element outside count as zero.
pub fn align(n: &mut Node) -> Result<bool, Error> {
    let (x, rois, pictures) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let samples = n.size("sampling_ratio", n.int("sampling_ratio", 0))?;
    if samples == 0 {
        return Err(n.unsupported("a number of samples that depends on the regions. Set `sampling_ratio`"));
    }
    let greatest = match n.text("mode").as_deref() {
        None | Some("" | "avg") => false,
        Some("max") => true,
        Some(other) => return Err(n.unsupported(format!("mode `{other}`"))),
    };
    let to = [("output_height", n.int("output_height", 1)), ("output_width", n.int("output_width", 1))];
    let [rows, columns] = [n.size(to[0].0, to[0].1)?, n.size(to[1].0, to[1].1)?];
    let (&[_, channels, height, width], &[count, 4]) = (n.shape(x).as_slice(), n.shape(rois).as_slice()) else {
        return Err(n.unsupported("images not of rank 4, or regions not of four numbers"));
    };
    let way = n.text("coordinate_transformation_mode");
    let half = way.map_or(n.opset() >= 16, |way| way == "half_pixel");
    let scale = n.float("spatial_scale", 1.0);
    let scaled = n.build().with(Binary::Mul, rois, scale)?;
    let moved = if half { n.build().with(Binary::Sub, scaled, 0.5)? } else { scaled };
    let side = |n: &mut Node, at: usize| n.build().slice(moved, 1, at, at + 1);
    let mut axes = Vec::new();
    for (first, parts, extent) in [(1, rows, height), (0, columns, width)] {
        let (start, end) = (side(n, first)?, side(n, first + 2)?);
        let mut span = n.build().binary(Binary::Sub, end, start)?;
        if !half {
            let one = n.build().scalar(1.0, span);
            span = n.build().binary(Binary::Max, span, one)?;
        }
        let steps = parts * samples;
        let shares: Vec<f32> = (0..steps).map(|i| (i as f32 + 0.5) / steps as f32).collect();
        let shares = n.build().floats([1, steps], &shares, x);
        let along = n.build().binary(Binary::Mul, span, shares)?;
        let at = n.build().binary(Binary::Add, along, start)?;
        let least = n.build().with(Binary::GreaterEqual, at, -1.0)?;
        let most = n.build().with(Binary::LessEqual, at, extent as f32)?;
        axes.push((at, n.build().binary(Binary::Min, least, most)?, steps));
    }
    let [(down, in_rows, high), (across, in_columns, wide)] = axes[..] else { return Ok(false) };
    let grid = n.build().grid(across, down)?;
    let pictures = n.build().gather(x, pictures, 0)?;
    let sampled = match greatest {
        true => greatest_share(n, pictures, grid)?,
        false => n.build().sample(pictures, grid, ResizeMode::Linear, Outside::Border)?,
    };
    let (in_rows, in_columns) =
        (n.build().reshape(in_rows, [count, 1, high, 1])?, n.build().reshape(in_columns, [count, 1, 1, wide])?);
    let inside = n.build().binary(Binary::Min, in_rows, in_columns)?;
    let zero = n.build().scalar(0.0, sampled);
    let kept = n.build().select(inside, sampled, zero)?;
    let apart = n.build().reshape(kept, [count * channels, rows, samples, columns * samples])?;
    let kind = if greatest { ReduceKind::Max } else { ReduceKind::Mean };
    let apart = n.build().reduce(kind, apart, &[2], false)?;
    let apart = n.build().reshape(apart, [count * channels, rows, columns, samples])?;
    let id = n.build().reduce(kind, apart, &[3], false)?;
    let id = n.build().reshape(id, [count, channels, rows, columns])?;
    n.done(id)
}

/// `CropAndResize`: samples of regions whose corners are shares of the picture; a sample outside of it is a stated number.
pub fn crop(n: &mut Node) -> Result<bool, Error> {
    let (x, rois, pictures) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let size = n.integers(3, "crop_size")?.ok_or_else(|| n.missing("crop_size"))?;
    let size = n.sizes("crop_size", &size)?;
    let (&[_, _, height, width], &[count, 4], &[rows, columns]) =
        (n.shape(x).as_slice(), n.shape(rois).as_slice(), size.as_slice())
    else {
        return Err(n.unsupported("images not of rank 4, regions not of four numbers, or a size not of two"));
    };
    let mode = match n.text("mode").as_deref() {
        None | Some("" | "bilinear") => ResizeMode::Linear,
        Some("nearest") => ResizeMode::Nearest,
        Some(other) => return Err(n.unsupported(format!("mode `{other}`"))),
    };
    let mut axes = Vec::new();
    for (first, steps, extent) in [(0, rows, height), (1, columns, width)] {
        let last = (extent.max(1) - 1) as f32;
        // A single sample is in the middle.
        let share = |i: usize| if steps > 1 { i as f32 / (steps - 1) as f32 } else { 0.5 };
        let shares: Vec<f32> = (0..steps).map(share).collect();
        let shares = n.build().floats([1, steps], &shares, rois);
        let (start, end) =
            (n.build().slice(rois, 1, first, first + 1)?, n.build().slice(rois, 1, first + 2, first + 3)?);
        let span = n.build().binary(Binary::Sub, end, start)?;
        let along = n.build().binary(Binary::Mul, span, shares)?;
        let at = n.build().binary(Binary::Add, along, start)?;
        let at = n.build().with(Binary::Mul, at, last)?;
        let least = n.build().with(Binary::GreaterEqual, at, 0.0)?;
        let most = n.build().with(Binary::LessEqual, at, last)?;
        let inside = n.build().binary(Binary::Min, least, most)?;
        // Halves are rounded up.
        let at = match mode {
            ResizeMode::Nearest => {
                let above = n.build().with(Binary::Add, at, 0.5)?;
                n.build().unary(Unary::Floor, above)?
            }
            _ => at,
        };
        axes.push((at, inside));
    }
    let [(down, in_rows), (across, in_columns)] = axes[..] else { return Ok(false) };
    let grid = n.build().grid(across, down)?;
    let pictures = n.build().gather(x, pictures, 0)?;
    let sampled = n.build().sample(pictures, grid, mode, Outside::Border)?;
    let (in_rows, in_columns) =
        (n.build().reshape(in_rows, [count, 1, rows, 1])?, n.build().reshape(in_columns, [count, 1, 1, columns])?);
    let inside = n.build().binary(Binary::Min, in_rows, in_columns)?;
    let outside = n.float("extrapolation_value", 0.0);
    let outside = n.build().scalar(outside, sampled);
    let id = n.build().select(inside, sampled, outside)?;
    n.done(id)
}

/// Maxima of parts of regions, whose corners and parts are whole elements; a part without elements is zero.
pub fn pool(n: &mut Node) -> Result<bool, Error> {
    let (x, rois) = (n.need(0)?, n.need(1)?);
    let parts = n.ints("pooled_shape").ok_or_else(|| n.missing("pooled_shape"))?;
    let parts = n.sizes("pooled_shape", &parts)?;
    let (&[_, channels, height, width], &[count, 5], &[rows, columns]) =
        (n.shape(x).as_slice(), n.shape(rois).as_slice(), parts.as_slice())
    else {
        return Err(n.unsupported("images not of rank 4, or regions not of five numbers"));
    };
    let pictures = n.build().slice(rois, 1, 0, 1)?;
    let pictures = n.build().reshape(pictures, [count])?;
    let pictures = n.build().cast(pictures, DType::I32)?;
    let pictures = n.build().gather(x, pictures, 0)?;
    let corners = n.build().slice(rois, 1, 1, 5)?;
    let scale = n.float("spatial_scale", 1.0);
    let scaled = n.build().with(Binary::Mul, corners, scale)?;
    // Halves are rounded away from zero; regions begin within the image.
    let moved = n.build().with(Binary::Add, scaled, 0.5)?;
    let corners = n.build().unary(Unary::Floor, moved)?;
    let mut inside = Vec::new();
    for (first, parts, extent) in [(1, rows, height), (0, columns, width)] {
        let (start, end) =
            (n.build().slice(corners, 1, first, first + 1)?, n.build().slice(corners, 1, first + 2, first + 3)?);
        let span = n.build().binary(Binary::Sub, end, start)?;
        let span = n.build().with(Binary::Add, span, 1.0)?;
        let span = n.build().with(Binary::Max, span, 1.0)?;
        let span = n.build().with(Binary::Div, span, parts as f32)?;
        let mut bounds = Vec::new();
        for (ahead, round) in [(0, Unary::Floor), (1, Unary::Ceil)] {
            let steps: Vec<f32> = (0..parts).map(|i| (i + ahead) as f32).collect();
            let steps = n.build().floats([1, parts], &steps, x);
            let along = n.build().binary(Binary::Mul, span, steps)?;
            let along = n.build().unary(round, along)?;
            let along = n.build().binary(Binary::Add, along, start)?;
            bounds.push(n.build().reshape(along, [count, parts, 1])?);
        }
        let places: Vec<f32> = (0..extent).map(|i| i as f32).collect();
        let places = n.build().floats([1, 1, extent], &places, x);
        let from = n.build().binary(Binary::GreaterEqual, places, bounds[0])?;
        let to = n.build().binary(Binary::Less, places, bounds[1])?;
        inside.push(n.build().binary(Binary::Min, from, to)?);
    }
    let least = n.build().scalar(f32::NEG_INFINITY, x);
    let all = n.build().reshape(pictures, [count, channels, height, 1, width])?;
    let across = n.build().reshape(inside[1], [count, 1, 1, columns, width])?;
    let all = n.build().select(across, all, least)?;
    let all = n.build().reduce(ReduceKind::Max, all, &[4], false)?;
    let all = n.build().reshape(all, [count, channels, 1, height, columns])?;
    let down = n.build().reshape(inside[0], [count, 1, rows, height, 1])?;
    let all = n.build().select(down, all, least)?;
    let most = n.build().reduce(ReduceKind::Max, all, &[3], false)?;
    let (zero, found) = (n.build().scalar(0.0, most), n.build().binary(Binary::Greater, most, least)?);
    let id = n.build().select(found, most, zero)?;
    n.done(id)
}

/// Maximum over the four neighbours of each position `[N, Ho, Wo, 2]` in `[N, C, H, W]`, each times its bilinear weight.
fn greatest_share(n: &mut Node, x: ValueId, places: ValueId) -> Result<ValueId, Error> {
    let (shape, to) = (n.shape(x), n.shape(places));
    let last = [shape[3], shape[2]].map(|extent| extent as f32 - 1.0);
    let zero = n.build().scalar(0.0, places);
    let last = n.build().floats([2], &last, places);
    let held = n.build().binary(Binary::Max, places, zero)?;
    let held = n.build().binary(Binary::Min, held, last)?;
    let whole = n.build().unary(Unary::Floor, held)?;
    let rest = n.build().binary(Binary::Sub, held, whole)?;
    let one = n.build().scalar(1.0, rest);
    let before = n.build().binary(Binary::Sub, one, rest)?;
    let mut most = None;
    for (down, across) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut weight = None;
        for (axis, step) in [(1, down), (0, across)] {
            let share = n.build().slice(if step == 0 { before } else { rest }, 3, axis, axis + 1)?;
            let share = n.build().reshape(share, [to[0], 1, to[1], to[2]])?;
            weight = Some(match weight {
                Some(weight) => n.build().binary(Binary::Mul, weight, share)?,
                None => share,
            });
        }
        let Some(weight) = weight else { continue };
        let step = n.build().floats([2], &[across as f32, down as f32], places);
        let at = n.build().binary(Binary::Add, whole, step)?;
        let value = n.build().sample(x, at, ResizeMode::Nearest, Outside::Border)?;
        let term = n.build().binary(Binary::Mul, value, weight)?;
        most = Some(match most {
            Some(most) => n.build().binary(Binary::Max, most, term)?,
            None => term,
        });
    }
    most.ok_or_else(|| n.unsupported("no neighbours"))
}
