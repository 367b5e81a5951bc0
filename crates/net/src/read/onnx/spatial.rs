//! Convolutions, pooling, resampling.

use super::node::Node;
use super::regions::{cubic_sample, pooled_places, volume_sample};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::{Binary, OpKind, Outside, PoolKind, ReduceKind, ResizeMode, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Conv" => {
            let inputs: Vec<ValueId> = n.inputs.iter().copied().flatten().collect();
            let id = conv(n, &inputs)?;
            n.done(id)
        }
        "ConvTranspose" => conv_transpose(n),
        "CausalConvWithState" => causal_conv(n),
        "MaxPool" => pool(n, PoolKind::Max),
        "AveragePool" => {
            let exclude_padding = !n.flag("count_include_pad", false);
            pool(n, PoolKind::Average { exclude_padding })
        }
        "LpPool" => {
            if n.int("p", 2) < 1 {
                return Err(n.unsupported("an invalid order of the norm"));
            }
            pool(n, PoolKind::L2)
        }
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => {
            let x = n.need(0)?;
            let axes: Vec<usize> = (2..n.shape(x).len()).collect();
            let kind = match (n.op(), n.int("p", 2)) {
                ("GlobalAveragePool", _) => ReduceKind::Mean,
                ("GlobalMaxPool", _) => ReduceKind::Max,
                (_, 1) => ReduceKind::L1,
                (_, 2) => ReduceKind::L2,
                (_, p) => return Err(n.unsupported(format!("the norm of {p}"))),
            };
            let id = n.build().reduce(kind, x, &axes, true)?;
            n.done(id)
        }
        "Resize" | "Upsample" => super::resize::resize(n),
        "GridSample" => grid_sample(n),
        "AffineGrid" => {
            let theta = n.need(0)?;
            let size = n.integers(1, "size")?.ok_or_else(|| n.missing("size"))?;
            let size = n.sizes("size", &size)?;
            let to = size.get(2..).filter(|to| !to.is_empty()).ok_or_else(|| n.missing("spatial extents"))?;
            let align = n.flag("align_corners", false);
            let id = n.build().affine_grid(theta, to, align)?;
            n.done(id)
        }
        _ => Ok(false),
    }
}

fn spatial_rank(n: &Node, x: ValueId) -> Result<usize, Error> {
    let rank = n.shape(x).len();
    if (3..=5).contains(&rank) { Ok(rank - 2) } else { Err(n.unsupported(format!("operand of rank {rank}"))) }
}

pub(super) fn list(n: &Node, name: &str, spatial: usize) -> Result<Vec<usize>, Error> {
    let list = match n.ints(name) {
        Some(list) => n.sizes(name, &list)?,
        None => vec![1; spatial],
    };
    if list.contains(&0) {
        return Err(n.unsupported(format!("`{name}` {list:?}: each is at least 1")));
    }
    if list.len() == spatial {
        return Ok(list);
    }
    Err(n.unsupported(format!("`{name}` {list:?} for {spatial} spatial axes")))
}

/// Padding for each spatial axis; `totals` returns the padding that gives `extent / stride` windows.
pub(super) fn pads(n: &Node, spatial: usize, totals: impl Fn(usize) -> usize) -> Result<Vec<(usize, usize)>, Error> {
    Ok(match n.text("auto_pad").as_deref() {
        None | Some("NOTSET" | "") => match n.ints("pads") {
            None => vec![(0, 0); spatial],
            Some(pads) if pads.len() == 2 * spatial => {
                let pads = n.sizes("pads", &pads)?;
                (0..spatial).map(|i| (pads[i], pads[i + spatial])).collect()
            }
            Some(pads) => return Err(n.unsupported(format!("{} pads for {spatial} spatial axes", pads.len()))),
        },
        Some("VALID") => vec![(0, 0); spatial],
        Some("SAME_UPPER") => (0..spatial).map(|i| (totals(i) / 2, totals(i).div_ceil(2))).collect(),
        Some("SAME_LOWER") => (0..spatial).map(|i| (totals(i).div_ceil(2), totals(i) / 2)).collect(),
        Some(other) => return Err(n.unsupported(format!("auto_pad `{other}`"))),
    })
}

fn same_total(extent: usize, window: usize, stride: usize) -> usize {
    ((extent.div_ceil(stride) - 1) * stride + window).saturating_sub(extent)
}

fn dilated(extent: usize, dilation: usize) -> usize {
    (extent - 1).saturating_mul(dilation).saturating_add(1)
}

/// Convolution of given operands with the node's attributes.
pub fn conv(n: &mut Node, inputs: &[ValueId]) -> Result<ValueId, Error> {
    let spatial = spatial_rank(n, inputs[0])?;
    let (x, w) = (n.shape(inputs[0]), n.shape(inputs[1]));
    if w.len() != spatial + 2 {
        return Err(n.unsupported(format!("weights {w:?} for an operand {x:?}")));
    }
    let (strides, dilations) = (list(n, "strides", spatial)?, list(n, "dilations", spatial)?);
    let same = |i: usize| same_total(x[i + 2], dilated(w[i + 2], dilations[i]), strides[i]);
    let pads = pads(n, spatial, same)?;
    let groups = n.size("group", n.int("group", 1))?;
    n.build().op("conv", OpKind::Conv { strides, pads, dilations, groups }, inputs)
}

/// Causal convolution of each channel of `[N, C, L]` with its own kernel of `k` past elements; the state is the last `k - 1` elements.
fn causal_conv(n: &mut Node) -> Result<bool, Error> {
    let (x, w) = (n.need(0)?, n.need(1)?);
    let (&[batch, channels, _], &[.., k]) = (n.shape(x).as_slice(), n.shape(w).as_slice()) else {
        return Err(n.unsupported("operand not of rank 3"));
    };
    let before = k.saturating_sub(1);
    let whole = match n.input(3) {
        _ if before == 0 => x,
        Some(past) => n.build().concat(&[past, x], 2)?,
        None => {
            let zero = n.build().scalar(0.0, x);
            let past = n.build().broadcast(zero, [batch, channels, before])?;
            n.build().concat(&[past, x], 2)?
        }
    };
    let mut inputs = vec![whole, w];
    inputs.extend(n.input(2));
    let kind = OpKind::Conv { strides: vec![1], pads: vec![(0, 0)], dilations: vec![1], groups: channels };
    let mut id = n.build().op("conv", kind, &inputs)?;
    match n.text("activation").as_deref() {
        None | Some("none" | "") => {}
        Some("silu" | "swish") => id = n.build().unary(Unary::Silu, id)?,
        Some(other) => return Err(n.unsupported(format!("activation `{other}`"))),
    }
    n.output(0, id);
    if before > 0 {
        let length = n.shape(whole)[2];
        let state = n.build().slice(whole, 2, length - before, length)?;
        n.output(1, state);
        return n.finish(2);
    }
    n.finish(1)
}

fn conv_transpose(n: &mut Node) -> Result<bool, Error> {
    let inputs: Vec<ValueId> = n.inputs.iter().copied().flatten().collect();
    let (first, second) = (n.need(0)?, n.need(1)?);
    let spatial = spatial_rank(n, first)?;
    let (x, w) = (n.shape(first), n.shape(second));
    if w.len() != spatial + 2 {
        return Err(n.unsupported(format!("weights {w:?} for an operand {x:?}")));
    }
    let (strides, dilations) = (list(n, "strides", spatial)?, list(n, "dilations", spatial)?);
    let groups = n.size("group", n.int("group", 1))?;
    let mut output_pads = match n.ints("output_padding") {
        Some(pads) if pads.len() == spatial => n.sizes("output_padding", &pads)?,
        _ => vec![0; spatial],
    };
    let wanted = n.ints("output_shape").map(|s| n.sizes("output_shape", &s)).transpose()?;
    // Either all extents or only the spatial ones.
    let wanted = wanted.map(|s| s[s.len().saturating_sub(spatial)..].to_vec());
    let full = |i: usize| (x[i + 2] - 1).saturating_mul(strides[i]).saturating_add(dilated(w[i + 2], dilations[i]));
    let upper = n.text("auto_pad").as_deref() == Some("SAME_UPPER");
    let same = n.text("auto_pad").is_some_and(|p| p.starts_with("SAME"));
    let mut all = if wanted.is_some() || same { vec![(0, 0); spatial] } else { pads(n, spatial, |_| 0)? };
    for i in 0..spatial {
        let goal = match &wanted {
            Some(wanted) => wanted.get(i).copied(),
            None if same => Some(x[i + 2] * strides[i]),
            None => None,
        };
        let Some(goal) = goal else { continue };
        let made = full(i) + output_pads[i];
        match made.checked_sub(goal) {
            Some(total) => {
                let (less, more) = (total / 2, total.div_ceil(2));
                all[i] = if upper { (less, more) } else { (more, less) };
            }
            None => output_pads[i] += goal - made,
        }
    }
    let kind = OpKind::ConvTranspose { strides, pads: all, output_pads, dilations, groups };
    let id = n.build().op("conv", kind, &inputs)?;
    n.done(id)
}

fn pool(n: &mut Node, kind: PoolKind) -> Result<bool, Error> {
    let x = n.need(0)?;
    let id = pooled(n, kind, x)?;
    n.output(0, id);
    if kind == PoolKind::Max && n.node.output.get(1).is_some_and(|o| !o.is_empty()) {
        let spatial = spatial_rank(n, x)?;
        let shape = n.shape(x);
        let (kernel, strides) = (list(n, "kernel_shape", spatial)?, list(n, "strides", spatial)?);
        let dilations = list(n, "dilations", spatial)?;
        let reach = |i: usize| dilated(kernel[i], dilations[i]);
        let pads = pads(n, spatial, |i| same_total(shape[i + 2], reach(i), strides[i]))?;
        let before: Vec<usize> = pads.iter().map(|p| p.0).collect();
        let (result, by_columns) = (n.shape(id), n.flag("storage_order", false));
        let places = pooled_places(n, x, &result, [&kernel, &strides, &dilations], &before, by_columns)?;
        n.output(1, places);
        return n.finish(2);
    }
    n.finish(1)
}

/// Pooling of a given operand with the node's attributes.
pub fn pooled(n: &mut Node, kind: PoolKind, x: ValueId) -> Result<ValueId, Error> {
    let spatial = spatial_rank(n, x)?;
    let shape = n.shape(x);
    let (kernel, strides) = (list(n, "kernel_shape", spatial)?, list(n, "strides", spatial)?);
    let dilations = list(n, "dilations", spatial)?;
    let window = |i: usize| dilated(kernel[i], dilations[i]);
    let pads = pads(n, spatial, |i| same_total(shape[i + 2], window(i), strides[i]))?;
    let ceil_mode = n.flag("ceil_mode", false);
    let other_norm = kind == PoolKind::L2 && n.int("p", 2) != 2;
    let id = if dilations.iter().all(|&d| d == 1) && !other_norm {
        n.build().op("pooled", OpKind::Pool { kind, kernel, strides, pads, ceil_mode }, &[x])?
    } else {
        dilated_pool(n, kind, x, &kernel, &strides, &dilations, &pads, ceil_mode)?
    };
    Ok(id)
}

/// Dilated windows, and norms of an order other than 2: padding, then one strided slice per position of the window, combined.
fn dilated_pool(
    n: &mut Node,
    kind: PoolKind,
    x: ValueId,
    kernel: &[usize],
    strides: &[usize],
    dilations: &[usize],
    pads: &[(usize, usize)],
    ceil_mode: bool,
) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let places: usize = kernel.iter().product();
    if places > 1024 {
        return Err(n.unsupported(format!("a dilated window of {places} elements")));
    }
    let mut counts = Vec::new();
    let mut all = vec![(0, 0); 2];
    for i in 0..kernel.len() {
        let window = dilated(kernel[i], dilations[i]);
        let count = crate::infer::windows(shape[i + 2], window, strides[i], pads[i], ceil_mode);
        let count = count.filter(|&c| c > 0).ok_or_else(|| n.unsupported("a window wider than its operand"))?;
        let reach = (count - 1) * strides[i] + window;
        all.push((pads[i].0, reach.saturating_sub(shape[i + 2] + pads[i].0)));
        counts.push(count);
    }
    let spread = |n: &mut Node, x: ValueId, value: f32, f: Binary| -> Result<ValueId, Error> {
        let padded = n.build().op("padded", OpKind::Pad { pads: all.clone(), value }, &[x])?;
        let whole = n.shape(padded);
        let mut parts = Vec::new();
        for place in 0..places {
            let (mut begin, mut end, mut stride) = (vec![0; whole.len()], whole.clone(), vec![1; whole.len()]);
            let mut rest = place;
            for i in (0..kernel.len()).rev() {
                begin[i + 2] = rest % kernel[i] * dilations[i];
                rest /= kernel[i];
                end[i + 2] = begin[i + 2] + (counts[i] - 1) * strides[i] + 1;
                stride[i + 2] = strides[i];
            }
            parts.push(n.build().op("place", OpKind::Slice { begin, end, stride }, &[padded])?);
        }
        // Pairwise, for fewer consecutive roundings.
        while parts.len() > 1 {
            let pairs: Vec<Vec<ValueId>> = parts.chunks(2).map(<[ValueId]>::to_vec).collect();
            parts.clear();
            for pair in pairs {
                parts.push(match pair.as_slice() {
                    &[a, b] => n.build().binary(f, a, b)?,
                    _ => pair[0],
                });
            }
        }
        parts.first().copied().ok_or_else(|| n.unsupported("an empty window"))
    };
    match kind {
        PoolKind::Max if n.dtype(x).is_float() => spread(n, x, f32::NEG_INFINITY, Binary::Max),
        PoolKind::Average { exclude_padding } => {
            let sum = spread(n, x, 0.0, Binary::Add)?;
            // Number of elements in the operand, or with its padding; none beyond it, which the last window may reach.
            let counted = |i: usize, o: usize| {
                let (first, last) = if exclude_padding {
                    (pads[i].0, pads[i].0 + shape[i + 2])
                } else {
                    (0, pads[i].0 + shape[i + 2] + pads[i].1)
                };
                let at = |k: usize| o * strides[i] + k * dilations[i];
                (0..kernel[i]).filter(|&k| (first..last).contains(&at(k))).count()
            };
            let inner = |i: usize| counts[i + 1..].iter().product::<usize>();
            let count = |o: usize| (0..counts.len()).map(|i| counted(i, o / inner(i) % counts[i])).product::<usize>();
            let shares: Vec<f32> = (0..counts.iter().product()).map(|o| 1.0 / count(o) as f32).collect();
            let whole = [&[1, 1], counts.as_slice()].concat();
            let shares = n.build().floats(whole, &shares, x);
            n.build().binary(Binary::Mul, sum, shares)
        }
        PoolKind::L2 => {
            let p = n.int("p", 2) as f32;
            let size = n.build().unary(Unary::Abs, x)?;
            let power = n.build().with(Binary::Pow, size, p)?;
            let sum = spread(n, power, 0.0, Binary::Add)?;
            n.build().with(Binary::Pow, sum, 1.0 / p)
        }
        PoolKind::Max => Err(n.unsupported("integers in dilated windows")),
    }
}

fn grid_sample(n: &mut Node) -> Result<bool, Error> {
    let (x, grid) = (n.need(0)?, n.need(1)?);
    let align = n.flag("align_corners", false);
    let mode = n.text("mode").unwrap_or_default();
    let padding = n.text("padding_mode").unwrap_or_default();
    let outside = match padding.as_str() {
        "" | "zeros" => Outside::Value(0.0),
        "border" => Outside::Border,
        // Reflected about the outermost elements, or about the edges of the image.
        "reflection" if align => Outside::Reflect,
        "reflection" => Outside::Symmetric,
        other => return Err(n.unsupported(format!("padding mode `{other}`"))),
    };
    let shape = n.shape(x);
    let &[_, _, h, w] = shape.as_slice() else {
        let linear = match mode.as_str() {
            "" | "bilinear" | "linear" => true,
            "nearest" => false,
            other => return Err(n.unsupported(format!("mode `{other}` of an operand of rank {}", shape.len()))),
        };
        if shape.len() != 5 || padding == "reflection" {
            let reason = format!("padding mode `{padding}` of an operand of rank {}", shape.len());
            return Err(n.unsupported(reason));
        }
        let id = volume_sample(n, x, grid, linear, padding == "border", align)?;
        return n.done(id);
    };
    let places = n.build().pixels_of(grid, [w, h], align)?;
    let id = match mode.as_str() {
        "" | "bilinear" | "linear" => n.build().sample(x, places, ResizeMode::Linear, outside)?,
        "nearest" => n.build().sample(x, places, ResizeMode::Nearest, outside)?,
        "bicubic" | "cubic" => cubic_sample(n, x, places, outside)?,
        other => return Err(n.unsupported(format!("mode `{other}`"))),
    };
    n.done(id)
}
