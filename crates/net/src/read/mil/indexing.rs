//! MIL operations that select, sort and scatter elements, and those that sample images.

use super::call::Call;
use crate::build::sampling::Spread;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, OpKind, Outside, ResizeMode, ScatterMode};

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "gather" => gather(call),
        "gather_along_axis" => {
            let (x, axis) = operand_and_axis(call, "x", 0)?;
            let indices = call.operand("indices")?;
            call.give(OpKind::GatherAlong { axis }, &[x, indices])
        }
        "gather_nd" => {
            let (x, indices) = (call.operand("x")?, call.operand("indices")?);
            let batch_dims = call.size("batch_dims", call.integer("batch_dims", 0)?)?;
            call.give(OpKind::GatherNd { batch_dims }, &[x, indices])
        }
        "scatter" => {
            let (x, axis) = operand_and_axis(call, "data", 0)?;
            let (indices, updates) = (call.operand("indices")?, call.operand("updates")?);
            let mode = mode(call)?;
            let done = call.build().scatter(x, indices, updates, axis, mode)?;
            call.done(0, done)
        }
        "scatter_along_axis" => {
            let (x, axis) = operand_and_axis(call, "data", 0)?;
            let inputs = [x, call.operand("indices")?, call.operand("updates")?];
            call.give(OpKind::ScatterAlong { axis, mode: mode(call)? }, &inputs)
        }
        "scatter_nd" => {
            let inputs = [call.operand("data")?, call.operand("indices")?, call.operand("updates")?];
            call.give(OpKind::ScatterNd { mode: mode(call)? }, &inputs)
        }
        "argsort" => {
            let (x, axis) = operand_and_axis(call, "x", -1)?;
            // The default order is descending.
            let descending = !call.flag("ascending", false)?;
            call.give(OpKind::ArgSort { axis, descending }, &[x])
        }
        "topk" => topk(call),
        "non_maximum_suppression" => suppress(call),
        "cumsum" => {
            let (x, axis) = operand_and_axis(call, "x", 0)?;
            let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
            let sums = call.build().cumulative_sum(x, axis, exclusive, reverse)?;
            call.done(0, sums)
        }
        "band_part" => {
            let x = call.operand("x")?;
            let (lower, upper) = (call.integer("lower", -1)?, call.integer("upper", -1)?);
            let band = call.build().band(x, lower, upper)?;
            call.done(0, band)
        }
        "one_hot" => one_hot(call),
        "reverse" => {
            let x = call.operand("x")?;
            let rank = call.shape(x).len();
            let axes = call.axes("axes", rank)?.unwrap_or_else(|| (0..rank).collect());
            let reversed = call.build().reverse(x, &axes)?;
            call.done(0, reversed)
        }
        "reverse_sequence" => {
            let x = call.operand("x")?;
            let rank = call.shape(x).len();
            let lengths = call.sizes("lengths")?.ok_or_else(|| call.missing("lengths"))?;
            let axis = call.axis("seq_axis", call.integer("seq_axis", 0)?, rank)?;
            let batch = call.axis("batch_axis", call.integer("batch_axis", 0)?, rank)?;
            let reversed = call.build().reverse_sequence(x, &lengths, axis, batch)?;
            call.done(0, reversed)
        }
        "sliding_windows" => {
            let (x, axis) = operand_and_axis(call, "x", 0)?;
            let size = call.size("size", call.integer("size", 1)?)?;
            let stride = call.size("stride", call.integer("stride", 1)?)?;
            let windows = call.build().sliding_windows(x, axis, size, stride)?;
            call.done(0, windows)
        }
        "resample" => resample(call),
        "affine" => affine(call),
        "crop_resize" => crop_resize(call),
        "classify" => classify(call),
        _ => Ok(false),
    }
}

fn operand_and_axis(call: &mut Call, name: &str, default: i64) -> Result<(ValueId, usize), Error> {
    let x = call.operand(name)?;
    let axis = call.axis("axis", call.integer("axis", default)?, call.shape(x).len())?;
    Ok((x, axis))
}

fn mode(call: &Call) -> Result<ScatterMode, Error> {
    let name = call.text("mode")?.unwrap_or_else(|| "add".to_string());
    let mode = ScatterMode::ALL.iter().find(|(n, _)| *n == name).map(|row| row.1);
    mode.ok_or_else(|| call.unsupported(&format!("mode `{name}`")))
}

/// A plain gather, or one list of indices for each position of the leading axes.
fn gather(call: &mut Call) -> Result<bool, Error> {
    let (x, axis) = operand_and_axis(call, "x", 0)?;
    let indices = call.operand("indices")?;
    let batch = call.size("batch_dims", call.integer("batch_dims", 0)?)?;
    if batch == 0 {
        return call.give(OpKind::Gather { axis }, &[x, indices]);
    }
    let (shape, list) = (call.shape(x), call.shape(indices));
    if batch > axis || batch > list.len() {
        return Err(call.unsupported(&format!("batch_dims {batch} for axis {axis} and indices {list:?}")));
    }
    // The axis moves behind the batch axes, indices get an axis of their own, and the axes of the indices replace the
    // original axis.
    let mut perm: Vec<usize> = (0..batch).chain([axis]).collect();
    perm.extend((batch..shape.len()).filter(|&a| a != axis));
    let moved = call.build().transpose(x, &perm)?;
    let mut points = list.clone();
    points.push(1);
    let points = call.build().reshape(indices, points)?;
    let taken = call.emit("taken", OpKind::GatherNd { batch_dims: batch }, &[moved, points])?;
    let inner = list.len() - batch;
    let mut back: Vec<usize> = (0..batch).collect();
    back.extend((0..axis - batch).map(|i| batch + inner + i));
    back.extend(batch..batch + inner);
    back.extend(batch + inner + axis - batch..call.shape(taken).len());
    let done = call.build().transpose(taken, &back)?;
    call.done(0, done)
}

/// Non-maximum suppression. Since iOS17, boxes are the last axis, there is no least score, and kept boxes are not counted.
fn suppress(call: &mut Call) -> Result<bool, Error> {
    let (mut boxes, mut scores) = (call.operand("boxes")?, call.operand("scores")?);
    let counted = call.item("score_threshold")?.is_some();
    if !counted {
        boxes = call.build().transpose(boxes, &[0, 2, 1])?;
        scores = call.build().transpose(scores, &[0, 2, 1])?;
    }
    let kind = OpKind::Suppress {
        overlap: call.float("iou_threshold", 0.0)?,
        score_threshold: call.float("score_threshold", f32::NEG_INFINITY)?,
        most: call.size("max_boxes", call.integer("max_boxes", 0)?)?,
        per_class: call.flag("per_class_suppression", false)?,
    };
    let [boxes, scores, places, count] = call.build().suppressed(boxes, scores, kind)?;
    for (index, value) in [boxes, scores].into_iter().enumerate() {
        let turned = if counted { value } else { call.build().transpose(value, &[0, 2, 1])? };
        call.done(index, turned)?;
    }
    call.done(2, places)?;
    if counted { call.done(3, count) } else { Ok(true) }
}

fn topk(call: &mut Call) -> Result<bool, Error> {
    let (x, axis) = operand_and_axis(call, "x", -1)?;
    let extent = call.shape(x)[axis];
    let k = match call.integer("k", 1)? {
        -1 => extent,
        k => call.size("k", k)?,
    };
    if k == 0 || k > extent {
        return Err(call.unsupported(&format!("{k} of {extent} elements")));
    }
    let ascending = call.flag("ascending", false)?;
    let (values, positions) = call.build().top_k(x, axis, k, ascending)?;
    call.done(0, values)?;
    if call.op.outputs.len() > 1 {
        call.typed(1, positions, "output_indices_dtype")?;
    }
    Ok(true)
}

fn one_hot(call: &mut Call) -> Result<bool, Error> {
    let indices = call.operand("indices")?;
    let depth = call.size("one_hot_vector_size", call.integer("one_hot_vector_size", 0)?)?;
    let axis = call.axis("axis", call.integer("axis", -1)?, call.shape(indices).len() + 1)?;
    let side = |call: &mut Call, name: &str, default: i32| match call.optional(name)? {
        Some(id) => Ok::<_, Error>(id),
        None => Ok(call.build().integers([], vec![default])),
    };
    let (on, off) = (side(call, "on_value", 1)?, side(call, "off_value", 0)?);
    let hot = call.build().one_hot(indices, depth, axis, on, off)?;
    call.done(0, hot)
}

/// Positions in elements from coordinates in the operation's mode.
fn pixels(call: &mut Call, x: ValueId, coordinates: ValueId) -> Result<ValueId, Error> {
    let &[_, _, h, w] = call.shape(x).as_slice() else { return Err(call.unsupported("operand not of rank 4")) };
    let align = call.flag("align_corners", true)?;
    let coordinates = call.build().cast(coordinates, DType::F32)?;
    match call.text("coordinates_mode")?.as_deref() {
        Some("unnormalized") => Ok(coordinates),
        Some("normalized_minus_one_to_one") => call.build().pixels_of(coordinates, [w, h], align),
        Some("normalized_zero_to_one") => {
            let doubled = call.build().with(Binary::Mul, coordinates, 2.0)?;
            let centred = call.build().with(Binary::Sub, doubled, 1.0)?;
            call.build().pixels_of(centred, [w, h], align)
        }
        other => Err(call.unsupported(&format!("coordinates mode {other:?}"))),
    }
}

fn outside(call: &Call) -> Result<Outside, Error> {
    Ok(match call.text("padding_mode")?.as_deref() {
        None | Some("constant") => Outside::Value(call.float("padding_value", 0.0)?),
        Some("border") => Outside::Border,
        Some("reflection") => Outside::Reflect,
        Some("symmetric") => Outside::Symmetric,
        Some(other) => return Err(call.unsupported(&format!("padding mode `{other}`"))),
    })
}

fn sampling_mode(call: &Call) -> Result<ResizeMode, Error> {
    match call.text("sampling_mode")?.as_deref() {
        None | Some("bilinear") => Ok(ResizeMode::Linear),
        Some("nearest") => Ok(ResizeMode::Nearest),
        Some(other) => Err(call.unsupported(&format!("sampling mode `{other}`"))),
    }
}

fn resample(call: &mut Call) -> Result<bool, Error> {
    let (x, coordinates) = (call.operand("x")?, call.operand("coordinates")?);
    let (mode, outside) = (sampling_mode(call)?, outside(call)?);
    let places = pixels(call, x, coordinates)?;
    call.give(OpKind::Sample { mode, outside }, &[x, places])
}

fn affine(call: &mut Call) -> Result<bool, Error> {
    let (x, matrix) = (call.operand("x")?, call.operand("transform_matrix")?);
    let (mode, outside) = (sampling_mode(call)?, outside(call)?);
    let align = call.flag("align_corners", true)?;
    let [h, w] = [call.integer("output_height", 1)?, call.integer("output_width", 1)?];
    let to = [call.size("output_height", h)?, call.size("output_width", w)?];
    let rows = call.shape(matrix)[0];
    let batch = call.shape(x)[0];
    let theta = call.build().reshape(matrix, [rows, 2, 3])?;
    let theta = call.build().broadcast(theta, [batch, 2, 3])?;
    let grid = call.build().affine_grid(theta, &to, align)?;
    let places = pixels(call, x, grid)?;
    call.give(OpKind::Sample { mode, outside }, &[x, places])
}

/// Boxes cropped and resized; before iOS17, every box from every image, or each from the image that it names.
fn crop_resize(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let &[batch, channels, h, w] = call.shape(x).as_slice() else {
        return Err(call.unsupported("operand not of rank 4"));
    };
    let (old, mut boxes) = match call.optional("boxes")? {
        Some(boxes) => (false, boxes),
        None => (true, call.operand("roi")?),
    };
    let count = call.shape(boxes)[0];
    let mut pictures = call.optional("box_indices")?;
    if old {
        let width = call.shape(boxes).get(2).copied().unwrap_or(0);
        boxes = call.build().reshape(boxes, [count, width])?;
        if width == 5 {
            let indices = call.build().slice(boxes, 1, 0, 1)?;
            let indices = call.build().reshape(indices, [count])?;
            pictures = Some(call.build().cast(indices, DType::I32)?);
            boxes = call.build().slice(boxes, 1, 1, 5)?;
        }
    }
    if call.shape(boxes) != [count, 4] {
        return Err(call.unsupported(&format!("boxes {:?}", call.shape(boxes))));
    }
    let boxes = corners(call, boxes, [h, w])?;
    let to = [
        call.size("target_height", call.integer("target_height", 1)?)?,
        call.size("target_width", call.integer("target_width", 1)?)?,
    ];
    let spread = match call.text("sampling_mode")?.as_deref() {
        None | Some("DEFAULT") => Spread::Default,
        Some("STRICT_ALIGN_CORNERS") => Spread::StrictAlignCorners,
        Some("ALIGN_CORNERS") => Spread::AlignCorners,
        Some("OFFSET_CORNERS") => Spread::OffsetCorners,
        Some("UNALIGN_CORNERS") => Spread::UnalignCorners,
        Some(other) => return Err(call.unsupported(&format!("sampling mode `{other}`"))),
    };
    let outside = Outside::Value(call.float("pad_value", 0.0)?);
    // One image per box.
    let every = old && pictures.is_none();
    let indices = match pictures {
        Some(indices) => indices,
        None if every => {
            let all = (0..count * batch).map(|i| (i % batch) as i32).collect();
            call.build().integers([count * batch], all)
        }
        None => call.build().integers([count], (0..count as i32).collect()),
    };
    let boxes = if every {
        let repeat = (0..count * batch).map(|i| (i / batch) as i32).collect();
        let repeat = call.build().integers([count * batch], repeat);
        call.build().gather(boxes, repeat, 0)?
    } else {
        boxes
    };
    let pictures = if batch == 1 && count == 1 { x } else { call.build().gather(x, indices, 0)? };
    let crops = call.build().crop_boxes(pictures, boxes, to, spread, outside)?;
    let each = if every { batch } else { 1 };
    let crops = if old { call.build().reshape(crops, [count, each, channels, to[0], to[1]])? } else { crops };
    call.done(0, crops)
}

/// Boxes as top, left, bottom, right, in elements.
fn corners(call: &mut Call, boxes: ValueId, [h, w]: [usize; 2]) -> Result<ValueId, Error> {
    let mode = call.text("box_coordinate_mode")?.unwrap_or_else(|| "CORNERS_HEIGHT_FIRST".to_string());
    let normalized = call.flag("normalized_coordinates", false)?;
    let scale = call.float("spatial_scale", 1.0)?;
    let mut boxes = call.build().cast(boxes, DType::F32)?;
    if mode.ends_with("WIDTH_FIRST") {
        let swap = call.build().integers([4], vec![1, 0, 3, 2]);
        boxes = call.build().gather(boxes, swap, 1)?;
    }
    if mode.starts_with("CENTER_SIZE") {
        let centres = call.build().slice(boxes, 1, 0, 2)?;
        let sizes = call.build().slice(boxes, 1, 2, 4)?;
        let half = call.build().with(Binary::Mul, sizes, 0.5)?;
        let first = call.build().binary(Binary::Sub, centres, half)?;
        let last = call.build().binary(Binary::Add, centres, half)?;
        boxes = call.build().concat(&[first, last], 1)?;
    } else if !mode.starts_with("CORNERS") {
        return Err(call.unsupported(&format!("box coordinate mode `{mode}`")));
    }
    let (mut rows, mut columns) = (scale, scale);
    if normalized {
        (rows, columns) = (rows * (h as f32 - 1.0), columns * (w as f32 - 1.0));
    }
    if (rows, columns) == (1.0, 1.0) {
        return Ok(boxes);
    }
    let factors = call.build().floats([4], &[rows, columns, rows, columns], boxes);
    call.build().binary(Binary::Mul, boxes, factors)
}

/// Classification: the probabilities stay a tensor, and the label is the position of the greatest.
fn classify(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("probabilities")?;
    let count = crate::graph::elements(&call.shape(x));
    let flat = call.build().reshape(x, [count])?;
    let kind = OpKind::ArgReduce { greatest: true, last: false, axis: 0, keep_dims: false };
    let best = call.emit("best", kind, &[flat])?;
    call.done(0, best)?;
    if call.op.outputs.len() > 1 {
        call.done(1, x)?;
    }
    let note = format!("`{}` is the position of the class, not its label; probabilities are a tensor", call.first);
    call.t.notes.push(note);
    Ok(true)
}
