//! Native layers of a program's operations: the tensors and numbers that a validator sees.

use super::layer::{Layer, Tensor};
use anemone_facts::legal::Quantity as Q;
use anemone_facts::native::{self, Carrier};
use anemone_facts::{ops, validators};
use anemone_net::native::MIL_PREFIX;
use anemone_net::outline::{Argument, OutlineOp, OutlineType};

/// The row of a native layer that a program names directly: by its tag in a netplist, or behind a prefix in MIL.
pub fn named(op: &OutlineOp) -> Option<&'static native::Native> {
    let tunneled = op.op.strip_prefix(MIL_PREFIX).and_then(native::by_name);
    tunneled.or_else(|| native::by_tag(&op.op)).filter(|row| row.carrier != Carrier::Graph)
}

/// Native layers of an operation. Empty if its row names none.
pub fn layers(op: &OutlineOp) -> Vec<Layer> {
    if let Some(row) = named(op) {
        return vec![authored(op, row.stem)];
    }
    let Some(row) = ops::by_name(&op.op) else {
        return validators::by_name(&op.op).map(|row| authored(op, row.stem)).into_iter().collect();
    };
    match row.layers {
        _ if placed(op) => Vec::new(),
        ["ElementWise"] => [layer(op, "ElementWise")].into_iter().chain(broadcast(op)).collect(),
        // Searches over one axis and over the whole tensor are different layers.
        [axis, tensor] if *tensor == "GlobalArgMinMax" => vec![layer(op, if whole(op) { tensor } else { axis })],
        kinds => kinds.iter().map(|kind| layer(op, kind)).collect(),
    }
}

/// Returns true for a `slice_update` with constant begin, end and stride: slices and a concat do that without the dynamic layer.
pub fn placed(op: &OutlineOp) -> bool {
    let fixed = |name: &str| !matches!(op.argument(name), Some(Argument::Value(_)));
    op.op == "slice_update" && fixed("begin") && fixed("end") && fixed("stride")
}

/// The operand of that name.
fn operand<'a>(op: &'a OutlineOp, name: &str) -> Option<&'a OutlineType> {
    op.argument(name).map(Argument::ty)
}

fn tensor(ty: &OutlineType) -> Tensor {
    Tensor::new(&ty.extents(), ty.element)
}

/// Operand names of data; weights, tables and parameters have other names.
const OPERANDS: &[&str] =
    &["x", "y", "values", "input", "data", "query", "key", "value", "attn_mask", "a", "b", "cond", "scores", "boxes"];

fn layer(op: &OutlineOp, kind: &str) -> Layer {
    let mut layer = Layer::new(kind, &op.name);
    let windowed = matches!(kind, "Conv" | "Pool");
    for (name, argument) in &op.arguments {
        let constant_operand =
            matches!(argument, Argument::Constant(_)) && !matches!(kind, "MatrixMult" | "ElementWise" | "Concat");
        if !OPERANDS.contains(&name.as_str()) || constant_operand {
            continue;
        }
        let ty = argument.ty();
        let extents = ty.extents();
        layer.bottoms.push(if windowed { Tensor::sequence(&extents, ty.element) } else { tensor(ty) });
    }
    for output in &op.outputs {
        let extents = output.ty.extents();
        layer.tops.push(if windowed { Tensor::sequence(&extents, output.ty.element) } else { tensor(&output.ty) });
    }
    match kind {
        "Conv" => convolution(op, layer),
        "Pool" => pool(op, layer),
        "MatrixMult" if op.op == "matmul" => product(op, layer),
        "Neuron" => neuron(op, layer),
        "LayerNorm" => layer.with(Q::Groups, 1),
        "ArgMinMax" => extent_of_axis(op, layer),
        // The whole-tensor form reduces every axis of its operand.
        "GlobalArgMinMax" => layer.with(Q::WholeTensor, i64::from(whole(op))),
        "Pad" => padding(op, layer),
        "Gather" => gather(op, layer),
        "PixelShuffle" | "PixelUnshuffle" => shuffle(op, layer),
        "SpaceToBatch" | "BatchToSpace" => blocks(op, layer),
        "Resize" => resize(layer),
        "Resample" => match operand(op, "coordinates") {
            Some(ty) => {
                let channels = ty.extents().last().copied().unwrap_or(1);
                layer.with(Q::CoordinateChannels, channels as i64)
            }
            None => layer,
        },
        "TopK" => {
            let layer = extent_of_axis(op, layer);
            match op.number("k") {
                Some(k) => layer.with(Q::K, k as i64),
                None => layer,
            }
        }
        "Tile" => match op.numbers("reps") {
            Some(reps) => layer.with(Q::FactorXY, copies(op, reps)),
            None => layer,
        },
        "SDPA" => attention(op, layer),
        _ => layer,
    }
}

/// Product of a tile's factors along axes of several elements; others are broadcast (`tile_r_1x1x375_reps_13751`: 375).
fn copies(op: &OutlineOp, reps: &[f64]) -> i64 {
    let extents = operand(op, "x").map(|ty| ty.extents().to_vec()).unwrap_or_default();
    let several = |axis: usize| extents.get(axis).is_none_or(|&extent| extent != 1);
    reps.iter().enumerate().filter(|(axis, _)| several(*axis)).map(|(_, times)| times).product::<f64>() as i64
}

/// The broadcast that an elementwise operation implies along depth, if it does.
fn broadcast(op: &OutlineOp) -> Option<Layer> {
    let operands = ["x", "y"].map(|name| operand(op, name).map(tensor));
    let [Some(x), Some(y)] = operands else { return None };
    (x.depth != y.depth).then(|| {
        let mut layer = Layer::new("Broadcast", &op.name).with(Q::DepthBroadcast, 1);
        layer.bottoms.push(if x.depth < y.depth { x } else { y });
        layer
    })
}

/// Keys of authored layers that are numbers of rules.
const KEYS: &[(&str, Q)] = &[
    ("FactorX", Q::FactorX),
    ("FactorY", Q::FactorY),
    ("FactorZ", Q::FactorZ),
    ("K", Q::K),
    ("KernelWidth", Q::KernelWidth),
    ("KernelHeight", Q::KernelHeight),
    ("PadLeft", Q::PadLeft),
    ("NumGroups", Q::Groups),
];

/// A native layer that the program names directly.
fn authored(op: &OutlineOp, kind: &str) -> Layer {
    let mut layer = Layer::new(kind, &op.name).with(Q::Authored, 1);
    layer.bottoms = op.live().map(|value| tensor(&value.ty)).collect();
    // Operands of a graph layer include constants.
    let listed: Vec<Tensor> =
        op.arguments.iter().filter(|(name, _)| name == "bottom").map(|(_, a)| tensor(a.ty())).collect();
    if !listed.is_empty() {
        layer.bottoms = listed;
    }
    layer.tops = op.outputs.iter().map(|o| tensor(&o.ty)).collect();
    named_numbers(op, kind, &mut layer);
    for (key, quantity) in KEYS {
        if let Some(value) = op.number(key) {
            layer.values.insert(*quantity, value as i64);
        }
    }
    let says = |key: &str, word: &str| op.text(key).is_some_and(|text| text.eq_ignore_ascii_case(word));
    layer
        .with(Q::ChannelAxis, i64::from(says("Dimension", "Channel")))
        .with(Q::Subtraction, i64::from(says("Type", "Sub")))
        .with(Q::Circular, i64::from(says("Mode", "Circular") || op.number("Circular") == Some(1.0)))
}

/// Numbers of rules that follow from an authored layer's operands and keys together.
fn named_numbers(op: &OutlineOp, kind: &str, layer: &mut Layer) {
    let (bottoms, product) = (layer.bottoms.clone(), |keys: [&str; 4]| {
        keys.iter().filter_map(|key| op.number(key)).map(|n| n as i64).product::<i64>()
    });
    let extent = |axis: Option<&str>| {
        let x = bottoms.first()?;
        let extents = [("Batch", x.batch), ("Channel", x.channels), ("Height", x.height), ("Width", x.width)];
        extents.iter().find(|(name, _)| Some(*name) == axis).map(|(_, n)| *n as i64)
    };
    let mut values = Vec::new();
    match kind {
        "SDPA" => {
            if let [_, key, value, ..] = bottoms.as_slice() {
                values.push((Q::KeyValueDiffer, i64::from(key != value)));
            }
            if let [query, _, _, _, mask] = bottoms.as_slice() {
                values.push((Q::MaskFormat, i64::from(mask.element != query.element)));
            }
        }
        "MatrixMult" => {
            let says =
                |key: &str| op.text(key).is_some_and(|t| t.eq_ignore_ascii_case("true")) || op.number(key) == Some(1.0);
            if let [a, b] = bottoms.as_slice() {
                let first = if says("TransposeLhs") { a.channels } else { a.width };
                let second = if says("TransposeRhs") { b.width } else { b.channels };
                values.extend([(Q::Contraction, first as i64), (Q::SecondContraction, second as i64)]);
            }
        }
        "TopK" => values.extend(extent(op.text("SortDimension")).map(|n| (Q::AxisExtent, n))),
        "ArgMinMax" if op.text("Mode").is_some_and(|m| m.starts_with("Channel")) => {
            values.extend(extent(Some("Channel")).map(|n| (Q::AxisExtent, n)));
        }
        "Tile" => {
            values.push((Q::FactorXY, product(["TileBatch", "TileChannel", "TileHeight", "TileWidth"])));
        }
        "Gather" => {
            values.push((Q::GatherAxes, op.numbers("GatherNDAxes").map_or(0, |axes| axes.len() as i64)));
            values.extend(bottoms.get(1).map(|i| (Q::IndexChannels, i.channels as i64)));
        }
        "Resample" => values.extend(bottoms.get(1).map(|warp| (Q::CoordinateChannels, warp.channels as i64))),
        "Resize" | "ResizeAs" => {
            if let (Some(from), Some(to)) = (bottoms.first(), layer.tops.first()) {
                let whole = |from: u64, to: u64| to.is_multiple_of(from.max(1)) || from.is_multiple_of(to.max(1));
                let fraction = !whole(from.height, to.height) || !whole(from.width, to.width);
                values.push((Q::FractionalRatio, i64::from(fraction)));
            }
        }
        "Pad" => values.push((Q::Mirror, i64::from(op.text("PaddingMode") == Some("Reflective")))),
        _ if op.number("FactorX").is_some() => {
            values.push((Q::FactorXY, product(["FactorX", "FactorY", "", ""])));
        }
        _ => {}
    }
    layer.values.extend(values);
}

/// Spatial parameters by axis from the innermost: width, height, depth; `missing` where the list is shorter.
fn spatial(values: Option<&[f64]>, missing: i64) -> [i64; 3] {
    let mut out = [missing; 3];
    if let Some(values) = values {
        values.iter().rev().zip(&mut out).for_each(|(&v, o)| *o = v as i64);
    }
    out
}

/// Padding before and after along width, height and depth.
fn pads(op: &OutlineOp, kernel: [i64; 3], strides: [i64; 3], input: &Tensor) -> [i64; 3] {
    match op.text("pad_type") {
        Some("same" | "same_lower") => {
            let extents = [input.width, input.height, input.depth];
            std::array::from_fn(|axis| {
                let (extent, stride) = (extents[axis] as i64, strides[axis].max(1));
                ((extent + stride - 1) / stride * stride - stride + kernel[axis] - extent).max(0)
            })
        }
        Some("valid") => [0; 3],
        _ => {
            let values: Vec<f64> = op.numbers("pad").unwrap_or_default().to_vec();
            let mut out = [0; 3];
            values.chunks(2).rev().zip(&mut out).for_each(|(pair, o)| *o = pair.iter().sum::<f64>() as i64);
            out
        }
    }
}

fn windowed(op: &OutlineOp, layer: Layer, kernel: [i64; 3]) -> Layer {
    let Some(input) = layer.bottoms.first().cloned() else { return layer };
    let strides = spatial(op.numbers("strides"), 1);
    let dilations = spatial(op.numbers("dilations"), 1);
    let reach: [i64; 3] = std::array::from_fn(|axis| (kernel[axis] - 1) * dilations[axis] + 1);
    let [x, y, _] = pads(op, reach, strides, &input);
    layer
        .with(Q::KernelWidth, kernel[0])
        .with(Q::KernelHeight, kernel[1])
        .with(Q::KernelDepth, kernel[2])
        .with(Q::PaddedWidth, input.width as i64 + x)
        .with(Q::PaddedHeight, input.height as i64 + y)
}

fn convolution(op: &OutlineOp, layer: Layer) -> Layer {
    let groups = op.number("groups").unwrap_or(1.0) as i64;
    let Some(weight) = operand(op, "weight") else { return layer.with(Q::Groups, groups) };
    let live = matches!(op.argument("weight"), Some(Argument::Value(_)));
    let extents: Vec<f64> = weight.extents().iter().skip(2).map(|&d| d as f64).collect();
    let kernel = spatial(Some(&extents), 1);
    let transposed = op.op == "conv_transpose";
    let layer = windowed(op, layer, kernel)
        .with(Q::Groups, groups)
        .with(Q::RuntimeWeight, i64::from(live))
        .with(Q::WeightBytes, weight.bytes() as i64);
    // A transposed convolution reads between its elements: the window never has to fit the input.
    if transposed { layer.with(Q::PaddedHeight, i64::MAX).with(Q::PaddedWidth, i64::MAX) } else { layer }
}

fn pool(op: &OutlineOp, layer: Layer) -> Layer {
    let kernel = spatial(op.numbers("kernel_sizes"), 1);
    windowed(op, layer, kernel).with(Q::MaxPool, i64::from(op.op == "max_pool"))
}

fn product(op: &OutlineOp, layer: Layer) -> Layer {
    let set = |name: &str| op.number(name).is_some_and(|v| v != 0.0);
    let Some(x) = operand(op, "x") else { return layer };
    let extents = x.extents();
    let last = |i: usize| extents.len().checked_sub(i).map_or(1, |at| extents[at]);
    let (rows, inner) = if set("transpose_x") { (last(1), last(2)) } else { (last(2), last(1)) };
    let mut layer = layer
        .with(Q::ContractionBytes, 2 * inner as i64)
        .with(Q::Rows, rows as i64)
        .with(Q::RowBytes, 2 * (rows * inner) as i64);
    if let Some(Argument::Constant(weight)) = op.argument("y") {
        layer = layer.with(Q::WeightBytes, weight.ty.bytes() as i64);
    }
    layer
}

/// Hardware modes by the names that operations have.
const MODES: &[(&str, i64)] = &[
    ("relu", 1),
    ("sigmoid", 2),
    ("sigmoid_hard", 5),
    ("tanh", 6),
    ("scaled_tanh", 6),
    ("clamped_relu", 7),
    ("clip", 7),
    ("prelu", 8),
    ("leaky_relu", 8),
    ("relu6", 9),
    ("silu", 10),
    ("sqrt", 15),
    ("rsqrt", 16),
    ("inverse", 18),
    ("square", 19),
    ("log", 20),
    ("exp2", 21),
    ("exp", 22),
    ("elu", 23),
    ("sign", 24),
    ("sin", 32),
    ("cos", 33),
    ("gelu", 34),
    ("round", 37),
    ("floor", 39),
    ("ceil", 40),
    ("atan", 41),
    ("erf", 44),
    ("thresholded_relu", 45),
    ("threshold", 45),
    ("abs", 47),
];

fn neuron(op: &OutlineOp, layer: Layer) -> Layer {
    let mode = MODES.iter().find(|(name, _)| *name == op.op).map_or(1, |(_, mode)| *mode);
    Layer { word: op.op.clone(), ..layer.with(Q::Neuron, mode) }
}

/// Axes that a reduction or a search names, counted from the front.
pub fn axes(op: &OutlineOp) -> Vec<usize> {
    let rank = operand(op, "x").map_or(0, |ty| ty.shape.len());
    let listed = op.numbers("axes").or_else(|| op.numbers("axis")).unwrap_or_default();
    let from_front = |&a: &f64| usize::try_from(if a < 0.0 { a as i64 + rank as i64 } else { a as i64 }).ok();
    listed.iter().filter_map(from_front).filter(|&a| a < rank).collect()
}

fn whole(op: &OutlineOp) -> bool {
    let extents = operand(op, "x").map(OutlineType::extents).unwrap_or_default();
    let named = axes(op);
    extents.iter().enumerate().all(|(axis, &n)| n == 1 || named.contains(&axis))
}

fn extent_of_axis(op: &OutlineOp, layer: Layer) -> Layer {
    let extents = operand(op, "x").map(OutlineType::extents).unwrap_or_default();
    match axes(op).first().and_then(|&axis| extents.get(axis)) {
        Some(&extent) => layer.with(Q::AxisExtent, extent as i64),
        None => layer,
    }
}

fn padding(op: &OutlineOp, layer: Layer) -> Layer {
    let rank = operand(op, "x").map_or(0, |ty| ty.shape.len());
    let pad = op.numbers("pad").unwrap_or_default();
    let padded = pad.len() / 2;
    // Lists may cover the last axes only; channels, depth and batch come before height and width.
    let outer = pad.chunks(2).enumerate().any(|(at, pair)| {
        let axis = rank + at - padded.min(rank + at);
        rank >= 3 && axis + 2 < rank && pair.iter().any(|&p| p != 0.0)
    });
    let mirror = matches!(op.text("mode"), Some("reflect" | "symmetric"));
    layer.with(Q::PadChannels, i64::from(outer)).with(Q::Mirror, i64::from(mirror))
}

fn gather(op: &OutlineOp, layer: Layer) -> Layer {
    let indices = operand(op, "indices").map(OutlineType::extents).unwrap_or_default();
    let (axes, channels) = match op.op.as_str() {
        "gather_nd" => {
            let last = indices.last().copied().unwrap_or(1) as i64;
            (last, last)
        }
        _ => (1, 1),
    };
    layer.with(Q::GatherAxes, axes).with(Q::IndexChannels, channels)
}

fn shuffle(op: &OutlineOp, layer: Layer) -> Layer {
    let factor = ["upscale_factor", "downscale_factor", "block_size"].iter().find_map(|name| op.number(name));
    match factor.map(|f| f as i64) {
        Some(f) => {
            layer.with(Q::FactorX, f).with(Q::FactorY, f).with(Q::FactorZ, 1).with(Q::FactorXY, f.saturating_mul(f))
        }
        None => layer,
    }
}

fn blocks(op: &OutlineOp, layer: Layer) -> Layer {
    match op.numbers("block_shape") {
        Some(&[y, x]) => {
            let (x, y) = (x as i64, y as i64);
            layer.with(Q::FactorX, x).with(Q::FactorY, y).with(Q::FactorXY, x.saturating_mul(y))
        }
        _ => layer,
    }
}

fn resize(layer: Layer) -> Layer {
    let (Some(from), Some(to)) = (layer.bottoms.first().cloned(), layer.tops.first().cloned()) else { return layer };
    let other = from.batch != to.batch || from.channels != to.channels || from.depth != to.depth;
    let fractional = to.width % from.width.max(1) != 0 || to.height % from.height.max(1) != 0;
    layer.with(Q::SampledAxes, i64::from(other)).with(Q::FractionalRatio, i64::from(fractional))
}

fn attention(op: &OutlineOp, mut layer: Layer) -> Layer {
    // The operation implies the scale that the layer takes as an operand.
    if let Some(query) = operand(op, "query") {
        layer.bottoms.push(Tensor::new(&[1], query.element));
    }
    let differ = match (operand(op, "key"), operand(op, "value")) {
        (Some(key), Some(value)) => key.shape != value.shape,
        _ => false,
    };
    // Truth values are turned into an additive mask by conversion.
    let format = match (operand(op, "attn_mask"), operand(op, "query")) {
        (Some(mask), Some(query)) => mask.element != query.element && mask.element != "bool",
        _ => false,
    };
    layer.with(Q::KeyValueDiffer, i64::from(differ)).with(Q::MaskFormat, i64::from(format))
}

/// Multiply-accumulates of an operation; 0 for operations with negligible arithmetic.
pub fn macs(op: &OutlineOp) -> u64 {
    let out = op.outputs.first().map_or(0, |o| o.ty.elements() as u64);
    let per_output = |n: usize| out.saturating_mul(n as u64);
    match op.op.as_str() {
        "conv" => operand(op, "weight").map_or(0, |w| per_output(w.extents().iter().skip(1).product())),
        "conv_transpose" => {
            // Each input element is multiplied by every weight of its channel.
            let input = operand(op, "x").map_or(0, |x| x.elements() as u64);
            operand(op, "weight")
                .map_or(0, |w| input.saturating_mul(w.extents().iter().skip(1).product::<usize>() as u64))
        }
        "linear" => operand(op, "weight").map_or(0, |w| per_output(w.extents().last().copied().unwrap_or(0))),
        "matmul" => {
            layers(op).first().and_then(|l| l.get(Q::ContractionBytes)).map_or(0, |b| per_output(b as usize / 2))
        }
        "scaled_dot_product_attention" => {
            let (Some(q), Some(k)) = (operand(op, "query"), operand(op, "key")) else { return 0 };
            let keys = k.extents().iter().rev().nth(1).copied().unwrap_or(1);
            2 * (q.elements() as u64).saturating_mul(keys as u64)
        }
        _ => 0,
    }
}
