//! Phase 2, legalization: every layer fits the chip. Only this stage creates a [`Legal`] graph.
//!
//! Layers beyond the limits of one task are split where they are lowered; this stage verifies the result by the
//! rules that the dry run matches ([`anemone_check::legal`]), and splits layers by kernel memory.

use crate::error::{Error, Result};
use crate::ir::*;
use crate::options::{Conventions, Options};
use crate::remarks::Remarks;
use crate::stream::pack::Packing;
use anemone_check::legal::{self, Route};
use anemone_facts::Field;
use anemone_facts::chips::Chip;
use anemone_facts::kernel::ENGINES;
use anemone_facts::legal::Quantity as Q;
use anemone_facts::staging::{LANES, SMALL_SIDE, STREAMED_COLUMNS};
use std::sync::Arc;

/// A graph in which every layer is one task within the chip's fields and memories.
#[derive(Clone, Debug)]
pub struct Legal {
    graph: Graph,
}

impl Legal {
    /// The graph by reference.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph.
    pub fn into_graph(self) -> Graph {
        self.graph
    }
}

impl std::fmt::Display for Legal {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.graph.fmt(f)
    }
}

/// Splits layers that exceed kernel memory, then checks every layer against the chip's limits.
pub fn legalize(mut graph: Graph, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<Legal> {
    split_products(&mut graph, options.conventions(), reasons);
    split_kernels(&mut graph, chip, options, reasons);
    for layer in &graph.layers {
        fits(layer, chip)?;
    }
    counted(&graph, chip)?;
    Ok(Legal { graph })
}

/// The quantity that [`Error::Limit`] names where a program has more tasks than their numbers have bits for.
pub const TASKS: &str = "number of tasks";

/// Refuses a program with more tasks than their numbers have bits for.
fn counted(graph: &Graph, chip: &'static Chip) -> Result<()> {
    let most = chip.layout.and_then(|layout| layout.row(Field::Tid)).map(|row| row.max() as usize);
    match most.and_then(|most| graph.layers.get(most)) {
        None => Ok(()),
        Some(layer) => Err(Error::Limit {
            op: layer.name.clone(),
            what: TASKS,
            found: graph.layers.len() as u64,
            limit: most.unwrap_or_default() as u64,
            chip: chip.target,
        }),
    }
}

/// A product has one stream per engine: more rows are several products, the last ones first, as 9.509 has them, whose engines are a power of
/// two (`bmm_r3rr_m375_k128_n375_tx0_ty0_b8`: 1, 2, 4 and 23 times 16 of 375 rows).
fn split_products(graph: &mut Graph, conventions: &Conventions, reasons: &mut Remarks) {
    for layer in std::mem::take(&mut graph.layers) {
        let streams = layer.sources.get(1).map_or(0, View4::channels);
        let &Kind::Product { lanes, .. } = &layer.kind else {
            graph.layers.push(layer);
            continue;
        };
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < streams {
            let left = ENGINES.min(streams - start);
            let count = if conventions.products_of_equal_rows { 1 << left.ilog2() } else { left };
            pieces.push((start, count));
            start += count;
        }
        if pieces.len() > 1 {
            reasons.say(|| format!("{} split into {}: {streams} streams", layer.name, pieces.len()));
        }
        for (start, count) in pieces.into_iter().rev() {
            let mut piece = layer.clone();
            for (view, first, extent) in
                [(&mut piece.sources[1], start, count), (&mut piece.result, start * lanes, count * lanes)]
            {
                view.offset_bytes += first as u64 * view.axes[1].stride_bytes;
                view.axes[1].extent = extent;
            }
            graph.layers.push(piece);
        }
    }
}

/// Most bytes of coefficients that the engines stream for one task: a share each (`env_mm_r2rb_m1_k2048_n8192_tx0_ty1`: 32 MiB in one task).
fn streamed_bytes(chip: &Chip) -> Option<u64> {
    chip.hal.kmem_cap_streamed.map(|each| each * ENGINES as u64)
}

/// Splits the output channels of layers over several tasks if their coefficients exceed kernel memory.
fn split_kernels(graph: &mut Graph, chip: &Chip, options: &Options, reasons: &mut Remarks) {
    let whole =
        if options.conventions().engines_stream_apart { streamed_bytes(chip) } else { chip.hal.kmem_cap_streamed };
    let Some(cap) = whole else { return };
    let mut layers = std::mem::take(&mut graph.layers);
    if let Some(cap) = chip.hal.kmem_cap_dense.filter(|_| options.conventions().passes_fit_kernel_memory) {
        layers = layers.into_iter().flat_map(|layer| split_groups(graph, layer, cap)).collect();
    }
    for layer in layers {
        let name = layer.name.clone();
        let stay =
            chip.hal.kmem_cap_dense.filter(|_| options.conventions().splits_to_stay).map_or_else(Vec::new, |cap| {
                split_product(&layer, cap, options.conventions().passes_fit_kernel_memory)
            });
        let passes = chip
            .hal
            .kmem_cap_dense
            .filter(|_| options.conventions().passes_fit_kernel_memory && stay.is_empty())
            .map_or_else(Vec::new, |cap| split_passes(&layer, cap));
        let pieces = [stay, passes].into_iter().find(|pieces| pieces.len() > 1);
        let pieces = pieces.unwrap_or_else(|| split_kernel(layer, cap));
        if pieces.len() > 1 {
            reasons.say(|| format!("{name} split into {}: coefficients beyond what kernel memory keeps", pieces.len()));
        }
        graph.layers.extend(pieces);
    }
}

/// Splits a product so that the coefficients of each piece stay in kernel memory for all columns: as many outputs as the memory of sixteen
/// engines holds, in whole passes, or an even number in a single one; `biases_kept` counts a bias for each of them
/// (`encoder_linear_m375_k1024_n640_bias1_idx`: 256 outputs, 512 with equal biases). The last channels come first, or the first columns of a
/// transposed result.
fn split_product(layer: &Layer, cap: u64, biases_kept: bool) -> Vec<Layer> {
    let Kind::Conv { window, connect: Connect::Dense, weights, nonlinear, .. } = &layer.kind else { return vec![] };
    let source = &layer.sources[0];
    if *window != Window::UNIT || source.height() > 1 || source.groups() > 1 || source.width <= STREAMED_COLUMNS {
        return vec![];
    }
    let outputs = outputs(layer);
    let table = nonlinear.table().map_or(0, |t| t.stream().len() as u64);
    let bias = if biases_kept { bias_bytes(layer) } else { 0 };
    let each = (weights.values.len() / outputs.max(1)) as u64 * ELEMENT_BYTES + bias;
    let kept = cap.saturating_sub(table) / each.max(1);
    // 6 of 7 for 4096 channels with biases (`chain_ffn_d1024_s375_matmul_silu`: 96 outputs).
    let lanes = if kept >= LANES as u64 { kept / LANES as u64 * LANES as u64 } else { (kept / 2 * 2).max(1) };
    let mut pieces = pieces(layer, lanes as usize * ENGINES);
    if !layer.transpose {
        pieces.reverse();
    }
    pieces
}

/// Bytes of an output's bias in the stream.
fn bias_bytes(layer: &Layer) -> u64 {
    let Kind::Conv { bias: Some(_), .. } = &layer.kind else { return 0 };
    if layer.bias_number().is_none() { ELEMENT_BYTES } else { 0 }
}

/// Splits a convolution whose coefficients do not stay in kernel memory: a piece has as many outputs per engine as fit, in whole passes, or an
/// even number in a single one; the last piece comes first (`conv_probe_k3_c256_n512_s16_st1_g1_bias0_same`, `k3_c512_n512`,
/// `k1_c1024_n1024`). A small result is not split (`k3_c256_n256_s8`, valid).
fn split_passes(layer: &Layer, cap: u64) -> Vec<Layer> {
    let Kind::Conv { window, connect: Connect::Dense, .. } = &layer.kind else { return vec![] };
    let packing = Packing::of(layer);
    let outputs = outputs(layer);
    let whole = outputs.is_multiple_of(ENGINES) && layer.sources[0].groups() == 1 && !layer.transpose;
    let small = layer.result.height().max(layer.result.width) <= SMALL_SIDE;
    // Coefficients of few columns are streamed (`env_chain_mlp_m128_k2048_h4096`: one task for each matrix).
    let source = &layer.sources[0];
    let streamed = *window == Window::UNIT && source.height() == 1 && source.width <= STREAMED_COLUMNS;
    if !whole || small || streamed || packing.palette_bits().is_some() {
        return vec![];
    }
    // Masks are kept too where zeros are skipped (`conv_probe_k3_c256_n256_s32_st2_g1_bias1_valid`: 64 and 192 outputs).
    let each = match packing.skips_zeros() {
        true => packing.stream_bytes() / (outputs / ENGINES).max(1) as u64,
        false => packing.plane_bytes() / packing.lanes as u64 + bias_bytes(layer),
    };
    let kept = (cap / each.max(1)) as usize;
    let lanes = if kept >= LANES { kept / LANES * LANES } else { kept / 2 * 2 };
    if lanes == 0 || kept >= outputs / ENGINES {
        return vec![];
    }
    let mut pieces = pieces(layer, lanes * ENGINES);
    pieces.reverse();
    pieces
}

/// Splits a convolution by groups, the last one first, if the coefficients of one do not stay in kernel memory; an input is copied to tile
/// memory for all of them (`conv_probe_k3_c1024_n1024_s16_st1_g4_bias1_same`).
fn split_groups(graph: &mut Graph, layer: Layer, cap: u64) -> Vec<Layer> {
    let Kind::Conv { connect: Connect::Dense, weights, bias, .. } = &layer.kind else { return vec![layer] };
    let groups = layer.result.groups();
    if groups == 1 {
        return vec![layer];
    }
    let (taps, count) = (weights.values.len() / groups, outputs(&layer));
    let part = |group: usize, source: &View4| {
        let mut piece = layer.clone();
        piece.sources[0] = *source;
        for view in [&mut piece.sources[0], &mut piece.result] {
            view.offset_bytes += group as u64 * view.axes[0].stride_bytes;
            view.axes[0] = Axis { extent: 1, stride_bytes: 0 };
        }
        if let Kind::Conv { weights: own, bias: added, .. } = &mut piece.kind {
            *own = Arc::new(weights.with(weights.values.part(group * taps..(group + 1) * taps)));
            let by_channel = bias.as_ref().filter(|_| layer.bias_number().is_none());
            if let Some(all) = by_channel {
                *added = Some(Arc::new(all[group * count..(group + 1) * count].to_vec()));
            }
        }
        piece
    };
    let mut source = layer.sources[0];
    if split_passes(&part(0, &source), cap).len() < 2 {
        return vec![layer];
    }
    let [group, channel, _] = source.axes;
    let joined = group.stride_bytes == channel.extent as u64 * channel.stride_bytes;
    let mut split = Vec::new();
    if joined && graph.buffer(source.buffer).role != Role::Scratch {
        let (copy, operand) = brought(graph, &layer, groups);
        source = operand;
        split.push(copy);
    }
    split.extend((0..groups).rev().map(|group| part(group, &source)));
    split
}

/// A copy of all groups of a convolution's source, and the source in it.
fn brought(graph: &mut Graph, layer: &Layer, groups: usize) -> (Layer, View4) {
    let source = layer.sources[0];
    let channels = groups * source.channels();
    let row_bytes = (source.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
    let plane_bytes = row_bytes * source.height() as u64;
    let buffer = graph.add_scratch(format!("{}.operand", layer.name), plane_bytes * channels as u64);
    let axis = |extent, stride_bytes| Axis { extent, stride_bytes };
    let result = View4 {
        buffer,
        offset_bytes: 0,
        axes: [axis(1, 0), axis(channels, plane_bytes), axis(source.height(), row_bytes)],
        width: source.width,
    };
    let mut all = source;
    (all.axes[0], all.axes[1].extent) = (axis(1, 0), channels);
    let copy = Layer {
        kind: Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None },
        sources: vec![all],
        result,
        ..layer.clone()
    };
    let mut operand = result;
    let group_bytes = plane_bytes * source.channels() as u64;
    (operand.axes[0], operand.axes[1].extent) = (axis(groups, group_bytes), source.channels());
    (copy, operand)
}

/// Output channels of a convolution.
fn outputs(layer: &Layer) -> usize {
    if layer.transpose { layer.result.width } else { layer.result.channels() }
}

fn split_kernel(layer: Layer, cap: u64) -> Vec<Layer> {
    let Kind::Conv { connect: Connect::Dense, weights, .. } = &layer.kind else {
        return vec![layer];
    };
    let outputs = outputs(&layer);
    let groups = layer.sources[0].groups();
    let bytes = weights.values.len() as u64 * ELEMENT_BYTES;
    // Biases, tables and padding are in the streams too, so that coefficients of exactly the limit do not fit.
    let fit = |layers: &[Layer]| layers.iter().all(|piece| Packing::of(piece).total_bytes() <= cap);
    if bytes <= cap && fit(std::slice::from_ref(&layer)) || groups > 1 || outputs < 2 {
        return vec![layer];
    }
    // Whole passes of sixteen engines, so that the pieces pack densely; columns of a transposed result stay aligned.
    let even = |pieces: usize| match outputs.div_ceil(pieces) {
        step if step > WHOLE_PASS => step.next_multiple_of(WHOLE_PASS),
        step => step,
    };
    let mut step = even(bytes.div_ceil(cap) as usize);
    loop {
        let split = pieces(&layer, step);
        if fit(&split) || step == 1 {
            return split;
        }
        let smaller = if step > WHOLE_PASS { step - WHOLE_PASS } else { step / 2 };
        step = even(outputs.div_ceil(smaller));
    }
}

/// Output channels of one pass of sixteen engines with two lanes each.
const WHOLE_PASS: usize = 32;

/// Splits a convolution into several with `step` output channels each.
fn pieces(layer: &Layer, step: usize) -> Vec<Layer> {
    let Kind::Conv { window, weights, bias, post_scale, nonlinear, .. } = &layer.kind else { return vec![] };
    let axis = if layer.transpose { None } else { Some(1) };
    let outputs = outputs(layer);
    let taps = weights.values.len() / outputs;
    (0..outputs)
        .step_by(step)
        .map(|start| {
            let n = step.min(outputs - start);
            let mut piece = layer.clone();
            piece.kind = Kind::Conv {
                window: *window,
                connect: Connect::Dense,
                weights: Arc::new(weights.with(weights.values.part(start * taps..(start + n) * taps))),
                bias: bias.as_ref().map(|b| match layer.bias_number() {
                    Some(_) => b.clone(),
                    None => Arc::new(b[start..start + n].to_vec()),
                }),
                post_scale: *post_scale,
                nonlinear: nonlinear.clone(),
            };
            match axis {
                Some(axis) => {
                    piece.result.offset_bytes += start as u64 * piece.result.axes[axis].stride_bytes;
                    piece.result.axes[axis].extent = n;
                }
                None => {
                    piece.result.offset_bytes += start as u64 * ELEMENT_BYTES;
                    piece.result.width = n;
                }
            }
            piece
        })
        .collect()
}

/// Checks a layer against the rules of the dry run and the limits that they do not cover.
pub fn fits(layer: &Layer, chip: &'static Chip) -> Result<()> {
    let legality = native(layer).map(|native| legal::check(&native, chip, Route::Direct));
    if let Some(refusal) = legality.and_then(|legality| legality.refusals.into_iter().next()) {
        return Err(Error::Rule { op: layer.name.clone(), refusal: Box::new(refusal) });
    }
    // Limits that the rules do not cover: registers, rows, kernel memory of one task.
    let limit = |what, found: usize, limit: Option<u64>| match limit {
        Some(limit) if found as u64 > limit => {
            Err(Error::Limit { op: layer.name.clone(), what, found: found as u64, limit, chip: chip.target })
        }
        _ => Ok(()),
    };
    let groups = chip.layout.and_then(|l| l.row(Field::NumGroups)).map(|row| row.max() as u64);
    for view in tensors(layer).chain([&layer.result]) {
        limit("groups", view.groups(), groups)?;
        for axis in view.axes {
            if !axis.stride_bytes.is_multiple_of(ROW_ALIGN) {
                return Err(Error::Net(format!("layer {}: a stride of {} bytes", layer.name, axis.stride_bytes)));
            }
        }
    }
    if let Kind::Conv { .. } = &layer.kind {
        let packing = Packing::of(layer);
        limit("kernel bytes", packing.total_bytes() as usize, streamed_bytes(chip))?;
    }
    Ok(())
}

/// Sources that are tensors; the second source of a product is streams.
fn tensors(layer: &Layer) -> impl Iterator<Item = &View4> {
    let count = if matches!(layer.kind, Kind::Product { .. }) { 1 } else { layer.sources.len() };
    layer.sources[..count].iter()
}

/// The layer as the rules see it. Each group is a run of its own, so that extents are those of one group. `None` for an own
/// task, whose native layer was checked before it was lowered (`target::gate`).
pub fn native(layer: &Layer) -> Option<anemone_check::Layer> {
    let extents = |view: &View4| [1, view.channels(), view.height(), view.width];
    let of = |kind: &str| {
        let named = anemone_check::Layer::new(kind, &layer.name);
        let named = tensors(layer).fold(named, |made, view| made.bottom(&extents(view), "fp16"));
        named.top(&extents(&layer.result), "fp16")
    };
    // Trailing padding is whatever the result's extents need.
    let windowed = |made: anemone_check::Layer, window: &Window| {
        let source = [layer.sources[0].height(), layer.sources[0].width];
        let result = [layer.result.height(), layer.result.width];
        let padded = |axis: usize| {
            let reach = result[axis].saturating_sub(1) * window.stride[axis] + window.kernel[axis];
            reach.max(source[axis] + window.pad[axis]) as i64
        };
        made.with(Q::KernelHeight, window.kernel[0] as i64)
            .with(Q::KernelWidth, window.kernel[1] as i64)
            .with(Q::PaddedHeight, padded(0))
            .with(Q::PaddedWidth, padded(1))
    };
    Some(match &layer.kind {
        Kind::Conv { window, .. } => windowed(of("Conv"), window),
        Kind::Neuron { .. } => of("Neuron"),
        Kind::Product { lanes, .. } => {
            let contracted = layer.sources[0].channels() as i64;
            // The matrix as the model has it: its rows are stored side by side, `lanes` at a time.
            let [one, sets, height, width] = extents(&layer.sources[1]);
            let rows = [one, sets * lanes, height, width / lanes];
            of("MatrixMult").bottom(&rows, "fp16").with(Q::ContractionBytes, contracted * ELEMENT_BYTES as i64)
        }
        Kind::Pool { window, op, .. } => windowed(of("Pool"), window).with(Q::MaxPool, i64::from(*op == PoolOp::Max)),
        Kind::MaxChannels
        | Kind::SumChannels { .. }
        | Kind::MulChannels { .. }
        | Kind::Reduce { .. }
        | Kind::InverseRms { .. } => of("Reduction"),
        Kind::Planar { .. } | Kind::ChannelAffine { .. } | Kind::Deviation { .. } => of("ElementWise"),
        Kind::Own(_) => return None,
    })
}
