//! Phase 1: fusion of neighbouring layers (the book, chapter 22, table 22.3).
//!
//! A layer that only applies an epilogue is fused into the layer before it, slot by slot ([`Epilogue::then`]). Each kind of
//! step is a pass by the book's name with a rule of its own ([`Rules`]); a pass applies its rule and those of earlier passes
//! until nothing changes, because a fusion may enable another. Barriers: values with other readers, two live operands,
//! results in another element order, units without the slot.

mod copies;
mod functions;
mod interleaved;
mod net;
mod sources;
mod transposes;

use crate::ir::*;
use crate::options::Conventions;
use crate::remarks::Remarks;
use anemone_program::order;
use half::f16;
use std::collections::HashMap;

pub(crate) use copies::share as share_copies;
pub(crate) use functions::into_tables as functions_into_tables;
pub use functions::{ROUNDING, SMALL_ERROR, TOTAL_ERROR, small_error};
pub use net::collapse_transposes;
pub(crate) use net::{deduplicate_dequantizations, eliminate_copies, fold_padding};
pub(crate) use sources::{relu_into_reader, round_once, scale_into_reader};
pub(crate) use transposes::into_producer as transposes_into_producer;

/// Set of the kinds of steps that fusion absorbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(u8);

impl Rules {
    /// Copies.
    pub const COPIES: Rules = Rules(1);
    /// A constant factor for all elements.
    pub const SCALES: Rules = Rules(2);
    /// A constant addend for all elements, with or without a factor.
    pub const OFFSETS: Rules = Rules(4);
    /// ReLU or a table behind a free slot.
    pub const ACTIVATIONS: Rules = Rules(8);
    /// A factor, an addend or an activation behind a layer that has a post-activation already.
    pub const PAIRS: Rules = Rules(16);
    /// A step behind a concatenation, absorbed by each of its parts.
    pub const PARTS: Rules = Rules(32);

    /// Union of two sets of rules.
    pub const fn and(self, other: Rules) -> Rules {
        Rules(self.0 | other.0)
    }

    fn has(self, rule: Rules) -> bool {
        self.0 & rule.0 == rule.0
    }

    /// Returns true if the rules let a layer with post-activation `post` absorb `step`.
    fn admit(self, post: &Nonlinear, step: &Epilogue) -> bool {
        let own = match (&step.post, step.gain == 1.0, step.offset.is_zero()) {
            (Nonlinear::None, true, true) => Rules::COPIES,
            (Nonlinear::None, false, true) => Rules::SCALES,
            (Nonlinear::None, _, false) => Rules::OFFSETS,
            _ => Rules::ACTIVATIONS,
        };
        let behind = *post != Nonlinear::None && own != Rules::COPIES;
        self.has(own) && (!behind || self.has(Rules::PAIRS))
    }
}

/// Uses of a scratch buffer: positions of the layers that write and read it.
#[derive(Default)]
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

/// Fuses the steps that the rules admit into the layers that produce their operands: ReLU and tables go to the
/// post-activation slot, a factor to the gain, an addend to the offset. zin 9.509 absorbs one step per layer
/// (`docs/evidence.md`, key `h13-fusion`), as do `conventions` that follow it; others fill every slot.
pub(crate) fn steps_into_producer(graph: &mut Graph, rules: Rules, conventions: &Conventions, reasons: &mut Remarks) {
    while take_steps(graph, rules, conventions, reasons) && conventions.whole_epilogues {}
    while conventions.whole_epilogues && interleaved::take(graph, rules, reasons) {}
}

/// Runs one pass over the graph. Returns true if a layer was fused.
fn take_steps(graph: &mut Graph, rules: Rules, conventions: &Conventions, reasons: &mut Remarks) -> bool {
    let together = |first: &Layer, second: &Layer| match conventions.whole_epilogues {
        true => composed(first, &second.kind, rules),
        false => one_step(&first.kind, &second.kind, rules),
    };
    let mut uses: HashMap<BufferId, Uses> = HashMap::new();
    for (i, layer) in graph.layers.iter().enumerate() {
        for source in &layer.sources {
            uses.entry(source.buffer).or_default().readers.push(i);
        }
        uses.entry(layer.result.buffer).or_default().writers.push(i);
    }
    let mut removed = vec![false; graph.layers.len()];
    // For each layer, the layer that it was fused into. That one may be fused into a third, since buffers are not in order of layers.
    let mut into: Vec<usize> = (0..graph.layers.len()).collect();
    let now = |into: &[usize], mut layer: usize| {
        while into[layer] != layer {
            layer = into[layer];
        }
        layer
    };
    for (i, buffer) in graph.buffers.iter().enumerate() {
        let Some(uses) = uses.get(&BufferId(i as u32)) else { continue };
        if buffer.role != Role::Scratch {
            continue;
        }
        if let ([reader], [_, _, ..]) = (uses.readers.as_slice(), uses.writers.as_slice()) {
            let writers: Vec<usize> = uses.writers.iter().map(|&w| now(&into, w)).collect();
            let moves = conventions.whole_epilogues;
            let parts =
                rules.has(Rules::PARTS).then(|| into_parts(graph, &writers, &graph.layers[*reader], &together, moves));
            if let Some(layers) = parts.flatten() {
                reasons.say(|| format!("{} becomes part of {} layers", graph.layers[*reader].name, writers.len()));
                for (&writer, layer) in writers.iter().zip(layers) {
                    graph.layers[writer] = layer;
                }
                removed[*reader] = true;
                into[*reader] = writers[0];
            }
            continue;
        }
        if uses.readers.len() != uses.writers.len() {
            continue;
        }
        // Every reader applies such a function to exactly what one writer wrote.
        let pairs: Option<Vec<(usize, usize, Kind)>> = uses
            .readers
            .iter()
            .map(|&r| {
                let reader = &graph.layers[r];
                let writers = uses.writers.iter().map(|&w| now(&into, w));
                let mut same = writers.filter(|&w| writes(&graph.layers[w].result, reader, conventions));
                let writer = same.next()?;
                let before = &graph.layers[writer];
                let alone = same.next().is_none() && is_plain(reader) && before.interleave == 1;
                let kind = match reader.interleave {
                    1 => together(before, reader)?,
                    _ if writes_interleaved(before, conventions)
                        && (0..3).all(|i| before.result.axes[i].extent == reader.result.axes[i].extent)
                        && rules.has(Rules::COPIES)
                        && copies(&reader.kind) =>
                    {
                        before.kind.clone()
                    }
                    _ => return None,
                };
                alone.then_some((writer, r, kind))
            })
            .collect();
        // Two functions of one part cannot both replace it.
        let distinct = |pairs: &Vec<(usize, usize, Kind)>| {
            pairs.iter().enumerate().all(|(i, (writer, ..))| pairs[..i].iter().all(|(other, ..)| other != writer))
        };
        for (writer, reader, kind) in pairs.filter(distinct).into_iter().flatten() {
            let (result, interleave) = (graph.layers[reader].result, graph.layers[reader].interleave);
            let read = graph.layers[reader].sources[0];
            let layer = &mut graph.layers[writer];
            let same = (0..3).all(|i| layer.result.axes[i].extent == result.axes[i].extent);
            layer.result = if !same_elements(&layer.result, &read) {
                let moved = View4 { buffer: result.buffer, offset_bytes: result.offset_bytes, ..layer.result };
                let divided = || divided(&layer.result, &read, &result);
                in_places_of(&layer.result, &read, &result).or_else(divided).unwrap_or(moved)
            } else if same && interleave > 1 {
                result
            } else {
                in_place_of(&layer.result, &result)
            };
            layer.interleave = interleave;
            layer.kind = kind;
            reasons.say(|| format!("{} becomes part of {}", graph.layers[reader].name, graph.layers[writer].name));
            removed[reader] = true;
            into[reader] = writer;
        }
    }
    let taken = removed.contains(&true);
    retain(graph, &removed);
    taken
}

/// Returns true if a result has the elements that a layer reads, in places from which they can go to those of the layer's result.
fn writes(written: &View4, reader: &Layer, conventions: &Conventions) -> bool {
    let read = &reader.sources[0];
    let moved = || {
        same_places(written, read) && same_strides(read, &reader.result)
            || in_places_of(written, read, &reader.result).is_some()
            || divided(written, read, &reader.result).is_some()
    };
    same_elements(written, read) || conventions.whole_epilogues && reader.interleave == 1 && moved()
}

/// Removes the layers that were fused into others.
fn retain(graph: &mut Graph, removed: &[bool]) {
    let mut keep = removed.iter().map(|r| !r);
    graph.layers.retain(|_| keep.next().unwrap_or(true));
}

/// The layers that together write the operand of a function, each fused with it; `None` if one of them cannot be. With `moves`, the
/// result may have other distances between its rows.
fn into_parts(
    graph: &Graph,
    writers: &[usize],
    reader: &Layer,
    together: &impl Fn(&Layer, &Layer) -> Option<Kind>,
    moves: bool,
) -> Option<Vec<Layer>> {
    let source = reader.sources.first().filter(|_| is_plain(reader) && reader.interleave == 1)?;
    let shape = |v: &View4| (v.axes.map(|a| (a.extent, if a.extent > 1 { a.stride_bytes } else { 0 })), v.width);
    let extents = |v: &View4| (v.axes.map(|a| a.extent), v.width);
    let count = |v: &View4| v.groups() * v.channels() * v.height() * v.width;
    // Elements keep their relative positions, so that each part of the source corresponds to a part of the result.
    let parts: usize = writers.iter().map(|&w| count(&graph.layers[w].result)).sum();
    // Products of overlapping rows together write all.
    let overlapping = |&w: &usize| {
        let layer = &graph.layers[w];
        matches!(layer.kind, Kind::Product { .. }) && is_inside(&layer.result, source)
    };
    let whole = parts == count(source) || parts > count(source) && writers.iter().all(overlapping);
    let same = shape(source) == shape(&reader.result);
    if !(same || moves && extents(source) == extents(&reader.result)) || !whole {
        return None;
    }
    let part = |&writer: &usize| {
        let layer = &graph.layers[writer];
        let plain = layer.interleave == 1 && layer.result.buffer == source.buffer;
        let kind = together(layer, reader).filter(|_| plain)?;
        let result = if same {
            let at = layer.result.offset_bytes.checked_sub(source.offset_bytes)?;
            let (buffer, offset_bytes) = (reader.result.buffer, reader.result.offset_bytes + at);
            View4 { buffer, offset_bytes, ..layer.result }
        } else {
            moved(&layer.result, source, &reader.result)?
        };
        Some(Layer { kind, result, ..layer.clone() })
    };
    writers.iter().map(part).collect()
}

/// The place in `to` of a part of `from`, which has the same extents; `None` for a part whose axes are not axes of the whole.
fn moved(part: &View4, from: &View4, to: &View4) -> Option<View4> {
    let mut axes: Vec<(Axis, u64)> = (0..3).map(|i| (from.axes[i], to.axes[i].stride_bytes)).collect();
    axes.retain(|(axis, _)| axis.extent > 1);
    if axes.iter().any(|(axis, _)| axis.stride_bytes == 0) {
        return None;
    }
    order::by_key(&mut axes, |(axis, _)| std::cmp::Reverse(axis.stride_bytes));
    let mut rest = part.offset_bytes.checked_sub(from.offset_bytes)?;
    let mut moved = View4 { buffer: to.buffer, offset_bytes: to.offset_bytes, ..*part };
    for (axis, stride) in axes {
        let at = rest / axis.stride_bytes;
        rest %= axis.stride_bytes;
        let mut own = (0..3).filter(|&i| part.axes[i].extent > 1 && part.axes[i].stride_bytes == axis.stride_bytes);
        let extent = match own.next() {
            Some(i) => {
                moved.axes[i].stride_bytes = stride;
                part.axes[i].extent
            }
            None => 1,
        };
        if own.next().is_some() || at + extent as u64 > axis.extent as u64 {
            return None;
        }
        moved.offset_bytes += at * stride;
    }
    let known = |own: &Axis| from.axes.iter().any(|a| a.extent > 1 && a.stride_bytes == own.stride_bytes);
    let all = part.axes.iter().filter(|a| a.extent > 1).all(known);
    (rest == 0 && all && part.width == from.width).then_some(moved)
}

/// The places in `to` of a result that has all elements of `from` with its axes divided, and in any order; `to` has the extents of `from`.
fn divided(written: &View4, from: &View4, to: &View4) -> Option<View4> {
    let extents = |v: &View4| (v.axes.map(|axis| axis.extent), v.width);
    let start = written.buffer == from.buffer && written.offset_bytes == from.offset_bytes;
    if !start || written.width != from.width || extents(from) != extents(to) {
        return None;
    }
    let mut made = View4 { buffer: to.buffer, offset_bytes: to.offset_bytes, ..*written };
    let mut left: Vec<usize> = (0..3).filter(|&i| written.axes[i].extent > 1).collect();
    for (whole, target) in from.axes.iter().zip(&to.axes).filter(|(axis, _)| axis.extent > 1) {
        let mut count = 1;
        while count < whole.extent {
            let stride = whole.stride_bytes * count as u64;
            let at = left.iter().position(|&i| written.axes[i].stride_bytes == stride)?;
            let axis = left.swap_remove(at);
            made.axes[axis].stride_bytes = target.stride_bytes * count as u64;
            count *= written.axes[axis].extent;
        }
        if count != whole.extent {
            return None;
        }
    }
    left.is_empty().then_some(made)
}

/// Returns true for a layer of one source that keeps the element order: no transpose, source not interleaved. The result may be
/// interleaved.
fn is_plain(layer: &Layer) -> bool {
    !layer.transpose && layer.source_interleave == 1 && layer.sources.len() == 1
}

/// Returns true for a layer that can store its result interleaved: the planar engine with two sources, and the neural one that of a product
/// (`chain_block_d256_s64_proj1`).
fn writes_interleaved(layer: &Layer, conventions: &Conventions) -> bool {
    matches!(layer.kind, Kind::Planar { .. }) && !layer.transpose
        || conventions.products_write_coefficients && is_product(layer)
}

/// Most rows of a product that is not divided whatever its coefficients take (`docs/evidence.md`, key `h13-fusion`).
const UNDIVIDED_ROWS: usize = 128;
/// Most bytes of the coefficients of a product of more rows that is not divided.
const UNDIVIDED_BYTES: u64 = 1 << 20;

/// Returns true for a product with constants that one task computes: of few rows, or with coefficients that fit kernel memory.
fn is_product(layer: &Layer) -> bool {
    let Kind::Conv { window, connect: Connect::Dense, weights, .. } = &layer.kind else { return false };
    let rows = layer.sources[0].height() * layer.sources[0].width;
    let whole = rows <= UNDIVIDED_ROWS || weights.values.len() as u64 * ELEMENT_BYTES <= UNDIVIDED_BYTES;
    *window == Window::UNIT && layer.result.groups() == 1 && whole
}

/// Returns true for a plain copy: factor 1, no addend, no activation.
fn copies(kind: &Kind) -> bool {
    matches!(scaled_function(kind), Some((1.0, Nonlinear::None)))
}

/// A layer with the next step in its epilogue, where every slot may be filled; `None` if a rule or a register does not allow
/// it.
fn composed(first: &Layer, second: &Kind, rules: Rules) -> Option<Kind> {
    let step = Epilogue::step(second)?;
    // A copy needs no slot.
    if step == Epilogue::UNIT && rules.has(Rules::COPIES) {
        return Some(first.kind.clone());
    }
    let own = Epilogue::of(&first.kind)?;
    // A ReLU makes zero of NaN, which a table keeps and selections rely on.
    let drops_nan = matches!(own.post, Nonlinear::Table(_)) && step.post == Nonlinear::Relu;
    if drops_nan || !rules.admit(&own.post, &step) {
        return None;
    }
    own.then(&step)?.into_kind(first)
}

/// A layer with one following step, as Apple's compilers fuse it; `None` if no register holds both.
fn one_step(first: &Kind, second: &Kind, rules: Rules) -> Option<Kind> {
    if !Epilogue::step(second).is_some_and(|step| rules.admit(&Nonlinear::None, &step)) {
        return None;
    }
    if let Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu } = second {
        match first.clone() {
            Kind::Planar { op, affine, relu: false } => return Some(Kind::Planar { op, affine, relu: true }),
            Kind::Pool { op, window, abs, affine, relu: false } => {
                return Some(Kind::Pool { op, window, abs, affine, relu: true });
            }
            _ => {}
        }
    }
    let (scale, function) = scaled_function(second)?;
    Some(match first.clone() {
        // f((sum + bias) * post_scale)
        Kind::Conv { window, connect, weights, bias, post_scale: 1.0, nonlinear: Nonlinear::None } => {
            Kind::Conv { window, connect, weights, bias, post_scale: scale, nonlinear: function }
        }
        Kind::Product { lanes, post_scale: 1.0 } if function == Nonlinear::None => {
            Kind::Product { lanes, post_scale: scale }
        }
        // A copy. A factor alone is the planar engine's (`chain_pair_mul_mm_d256_s64`).
        Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None }
            if scale == 1.0 || function != Nonlinear::None || matches!(second, Kind::Neuron { .. }) =>
        {
            Kind::Neuron { add: 0.0, post_scale: scale, nonlinear: function }
        }
        _ => return None,
    })
}

/// A layer as a factor and a following function.
fn scaled_function(kind: &Kind) -> Option<(f32, Nonlinear)> {
    match kind {
        Kind::Neuron { add: 0.0, post_scale, nonlinear } => Some((*post_scale, nonlinear.clone())),
        Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs: false, affine, relu } => {
            let Affine { final_scale, scale, .. } = *affine;
            let scales_only = *affine == Affine { final_scale, scale, ..Affine::UNIT };
            let factor = final_scale * scale;
            let exact = f16::from_f32(factor).to_f32() == factor;
            let function = if *relu { Nonlinear::Relu } else { Nonlinear::None };
            (scales_only && exact).then_some((factor, function))
        }
        _ => None,
    }
}

/// Returns true for the same elements in the same order; axes of a single element are ignored.
fn same_elements(a: &View4, b: &View4) -> bool {
    let axes = |v: &View4| v.axes.into_iter().filter(|a| a.extent > 1).collect::<Vec<_>>();
    a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.width == b.width && axes(a) == axes(b)
}

/// Returns true if all rows of a part are rows of a view whose rows are equally far apart.
fn is_inside(part: &View4, whole: &View4) -> bool {
    let axes = |view: &View4| {
        let mut axes: Vec<Axis> = view.axes.into_iter().filter(|axis| axis.extent > 1).collect();
        order::by_key(&mut axes, |axis| std::cmp::Reverse(axis.stride_bytes));
        axes
    };
    let reach = |view: &View4| axes(view).iter().map(|a| (a.extent as u64 - 1) * a.stride_bytes).sum::<u64>();
    let rows = axes(whole);
    let dense = rows.windows(2).all(|pair| pair[0].stride_bytes == pair[1].stride_bytes * pair[1].extent as u64);
    let (Some(stride), Some(at)) =
        (rows.last().map(|axis| axis.stride_bytes), part.offset_bytes.checked_sub(whole.offset_bytes))
    else {
        return false;
    };
    let on_rows = axes(part).iter().all(|axis| axis.stride_bytes.is_multiple_of(stride)) && at.is_multiple_of(stride);
    dense && part.width == whole.width && on_rows && at + reach(part) <= reach(whole)
}

/// Returns true if two views have the same elements in the same order, with axes that may be divided differently.
fn same_places(a: &View4, b: &View4) -> bool {
    a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.width == b.width && joined(a) == joined(b)
}

/// The places in `to` of a view with the axes of `from` in any order, which has the same extents as `to`.
fn in_places_of(view: &View4, from: &View4, to: &View4) -> Option<View4> {
    let mut places: Vec<(Axis, u64)> = (0..3).map(|i| (from.axes[i], to.axes[i].stride_bytes)).collect();
    places.retain(|(axis, _)| axis.extent > 1);
    let extents = |view: &View4| (view.axes.map(|axis| axis.extent), view.width);
    let mut moved = View4 { buffer: to.buffer, offset_bytes: to.offset_bytes, ..*view };
    for axis in moved.axes.iter_mut().filter(|axis| axis.extent > 1) {
        let at = places.iter().position(|(own, _)| own == axis)?;
        axis.stride_bytes = places.swap_remove(at).1;
    }
    let start = view.buffer == from.buffer && view.offset_bytes == from.offset_bytes && view.width == from.width;
    (start && places.is_empty() && extents(from) == extents(to)).then_some(moved)
}

/// Axes with more than one element; an axis whose stride is the extent of the next one in bytes is one with it.
fn joined(view: &View4) -> Vec<(usize, u64)> {
    let mut axes: Vec<(usize, u64)> = Vec::new();
    for axis in view.axes.into_iter().filter(|a| a.extent > 1) {
        match axes.last_mut() {
            Some((extent, stride)) if *stride == axis.stride_bytes * axis.extent as u64 => {
                (*extent, *stride) = (*extent * axis.extent, axis.stride_bytes);
            }
            _ => axes.push((axis.extent, axis.stride_bytes)),
        }
    }
    axes
}

/// Returns true for views of equal extents and strides, of different buffers.
fn same_strides(a: &View4, b: &View4) -> bool {
    let axes = |v: &View4| v.axes.into_iter().filter(|a| a.extent > 1).collect::<Vec<_>>();
    a.width == b.width && axes(a) == axes(b)
}

/// `to` with its axes in the order of `shape`; both have the same elements in the same order.
fn in_place_of(shape: &View4, to: &View4) -> View4 {
    let mut own = to.axes.into_iter().filter(|a| a.extent > 1);
    let axes = shape.axes.map(|a| if a.extent > 1 { own.next().unwrap_or(a) } else { a });
    View4 { axes, ..*to }
}
