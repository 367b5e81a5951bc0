//! Fusion of layers that compute a scalar function elementwise to one table (the book, table 22.3: "transcendentals become a
//! palette lookup table").
//!
//! Lowering may make several layers of a function: a table and an addend, a gate and a product. Such a region is evaluated as a whole,
//! and 33 knots are fitted to it ([`Table::fitted`]). The table replaces the region if its error is admitted: always below the error of
//! one rounding, else as [`Activations`] says. Where it is not, a table may replace a part of the region (`gates.rs`).

mod gates;
mod steps;

use super::retain;
use crate::functions::slope;
use crate::ir::*;
use crate::lut::Table;
use crate::options::{Activations, Options};
use crate::remarks::Remarks;
use anemone_program::order;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use steps::{Step, steps, text, value};

/// Largest number of layers of a function.
const MOST_LAYERS: usize = 16;
/// Error that is always admitted: that of one rounding.
pub const ROUNDING: f64 = 1.0 / 2048.0;
/// Largest error of a table under [`Activations::Fused`]: the tolerance of tables.
const MOST_ERROR: f64 = 1.2e-2;
/// Greatest error of a table under [`Activations::Auto`]: over the networks of `docs/compiler.md` such tables cost no more than rounding.
pub const SMALL_ERROR: f64 = 2e-3;
/// Limit of the sum of the errors of a network's tables under [`Activations::Auto`]: in the worst case each layer passes earlier errors
/// on unchanged. The tolerance of a network is four times that of one rounding, here four times that of one table.
pub const TOTAL_ERROR: f64 = 4.0 * MOST_ERROR;
/// [`TOTAL_ERROR`] for functions that are zero at zero, such as hard swish. Near zero the error of a table is as large as the values, so
/// that the sum is bounded by four times 2e-3, the tolerance of a network relative to its largest value.
const TOTAL_ERROR_AT_ZERO: f64 = 4.0 * 2e-3;
/// Usual value below which the error of a table counts relative to it: errors of 2e-3 beside smaller ones are more than the sums of
/// products average.
const LEAST_USUAL: f64 = 1.0 / 32.0;
/// As [`LEAST_USUAL`], of functions whose results are averaged alone: the error of a table has one sign over values of one size, so that a mean
/// keeps it, and of roundings only a small part.
const LEAST_USUAL_OF_MEANS: f64 = 1.0 / 8.0;
/// Under [`Activations::Auto`], functions before outputs and of few elements stay steps if those are at most one in so many layers.
const FEW_LAYERS: usize = 8;
/// Number of elements up to which steps take no time to speak of, such as the gates of squeeze and excitation.
const FEW_ELEMENTS: usize = 4096;

/// Region of layers that computes a scalar function.
struct Region {
    /// The layer that writes its value.
    end: usize,
    /// Its layers, the last one included.
    layers: Vec<usize>,
    /// Its argument.
    argument: View4,
    table: Table,
    /// Error relative to values above 1.
    error: f64,
    /// The same, greater where usual values are small: functions that are zero at zero make small values of small arguments.
    usual_error: f64,
    /// True if small values matter: its value at zero is zero, or it grows from there, as with an affine behind a hard swish.
    small_values_matter: bool,
}

/// Number of a set of elements, by which its writers and readers are found.
type Elements = usize;

/// Positions of layers by what they write and read.
struct Uses {
    /// The elements that each layer writes, and those of each source.
    results: Vec<Elements>,
    sources: Vec<Vec<Elements>>,
    /// The one layer that writes elements of a scratch buffer, if it is elementwise.
    writer: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    /// Writers of each buffer, ascending.
    writers: Vec<Vec<usize>>,
}

impl Uses {
    fn of(graph: &Graph) -> Uses {
        let mut numbers = HashMap::new();
        let mut number = |v: &View4| {
            let next = numbers.len();
            *numbers.entry(v.elements()).or_insert(next)
        };
        let results: Vec<Elements> = graph.layers.iter().map(|l| number(&l.result)).collect();
        let sources: Vec<Vec<Elements>> =
            graph.layers.iter().map(|l| l.sources.iter().map(&mut number).collect()).collect();
        let mut uses = Uses {
            writer: vec![None; numbers.len()],
            readers: vec![Vec::new(); numbers.len()],
            writers: vec![Vec::new(); graph.buffers.len()],
            results,
            sources,
        };
        let mut written = vec![0; numbers.len()];
        for (at, layer) in graph.layers.iter().enumerate() {
            let result = uses.results[at];
            written[result] += 1;
            let alone = written[result] == 1
                && graph.buffer(layer.result.buffer).role == Role::Scratch
                && is_elementwise(layer);
            uses.writer[result] = alone.then_some(at);
            uses.writers[layer.result.buffer.0 as usize].push(at);
            uses.sources[at].iter().for_each(|&s| uses.readers[s].push(at));
        }
        uses
    }

    /// The layer that wrote exactly these elements, elementwise from sources of the same extents.
    fn elementwise(&self, elements: Elements, before: usize) -> Option<usize> {
        self.writer[elements].filter(|&at| at < before)
    }
}

/// Returns true for an elementwise layer: each result element depends only on the source elements at the same index, without
/// broadcast, transpose or interleaving.
fn is_elementwise(layer: &Layer) -> bool {
    let kind = match &layer.kind {
        Kind::Neuron { .. } | Kind::Planar { .. } => true,
        Kind::Pool { window, op, .. } => *window == Window::UNIT && *op == PoolOp::Sum,
        _ => false,
    };
    let extents = |v: &View4| (v.axes.map(|a| a.extent), v.width);
    let whole =
        |v: &View4| extents(v) == extents(&layer.result) && v.axes.iter().all(|a| a.extent == 1 || a.stride_bytes > 0);
    kind && layer.sources.iter().all(whole)
        && !layer.transpose
        && layer.turned == [false; 2]
        && layer.interleave == 1
        && layer.source_interleave == 1
        && layer.broadcast.iter().flatten().all(|on| !on)
}

/// Returns true for a layer that multiplies by zero.
fn cancels(kind: &Kind) -> bool {
    let zero = |a: &Affine| a.pre_scale == 0.0 || a.final_scale * a.scale == 0.0;
    match kind {
        Kind::Neuron { post_scale, .. } => *post_scale == 0.0,
        Kind::Pool { affine, .. } | Kind::Planar { affine, .. } => zero(affine),
        _ => false,
    }
}

/// Returns true for the maximum of a value and itself: the whole number before a division, which must be rounded on its own.
fn rounds_operand(layer: &Layer) -> bool {
    let same = layer.sources.first().map(View4::elements) == layer.sources.get(1).map(View4::elements);
    matches!(layer.kind, Kind::Planar { op: PlanarOp::Max, .. }) && same
}

/// Returns true for a layer that selects among its operands, constants and their negatives, without rounding.
fn is_exact(kind: &Kind) -> bool {
    let plain = |a: &Affine| a.pre_scale.abs() == 1.0 && (a.final_scale * a.scale).abs() == 1.0 && a.bias == 0.0;
    match kind {
        Kind::Neuron { add, post_scale, nonlinear } => {
            let chosen = match nonlinear {
                Nonlinear::None | Nonlinear::Relu => true,
                Nonlinear::Table(table) => table.is_clip(),
            };
            chosen && *add == 0.0 && post_scale.abs() == 1.0
        }
        Kind::Planar { op: PlanarOp::Max | PlanarOp::Min, affine, .. } | Kind::Pool { affine, .. } => plain(affine),
        _ => false,
    }
}

/// Fitted tables, by the cache keys of their functions.
type Known = HashMap<String, Option<(Table, f64)>>;

/// Layers and argument of a function.
type Candidate = (Vec<usize>, View4);

/// The functions that end with a layer, and in place of which a table saves a layer, longest first.
fn saving<'a>(graph: &'a Graph, uses: &'a Uses, end: usize) -> impl Iterator<Item = Candidate> + 'a {
    let (layers, found) = candidates(graph, uses, end);
    let found = found.into_iter().rev().map(move |(count, argument)| (layers[..count].to_vec(), argument));
    found.filter(move |candidate| saves(uses, end, candidate))
}

/// The layers that compute a function which ends with a layer, from it on; and the functions that are worth a table, shortest first: the
/// number of their layers, and their argument.
fn candidates(graph: &Graph, uses: &Uses, end: usize) -> (Vec<usize>, Vec<(usize, View4)>) {
    let last = &graph.layers[end];
    let (mut layers, mut found) = (Vec::new(), Vec::new());
    if !is_elementwise(last) {
        return (layers, found);
    }
    let clips = matches!(&last.kind, Kind::Neuron { nonlinear: Nonlinear::Table(table), .. } if table.limits());
    let sources = |at: usize| graph.layers[at].sources.iter().copied().zip(uses.sources[at].iter().copied());
    let (mut next, mut frontier) = (end, Vec::new());
    let (mut plain, mut factors) = (true, true);
    loop {
        frontier.extend(sources(next));
        if next != end {
            order::by_key(&mut frontier, |(v, _)| (v.buffer, v.offset_bytes));
        }
        frontier.dedup_by_key(|(_, elements)| *elements);
        layers.push(next);
        let kind = &graph.layers[next].kind;
        // Selections distinguish infinities and NaN from numbers, which knots cannot.
        let chooses = matches!(kind, Kind::Neuron { nonlinear: Nonlinear::Table(table), .. } if table.chooses());
        // A factor of zero makes NaN of infinities; the limits of a table do not.
        if layers.len() > MOST_LAYERS || chooses || rounds_operand(&graph.layers[next]) || cancels(kind) {
            break;
        }
        // Factors, addends and ReLUs have slots of their own.
        let slot = Epilogue::step(kind);
        plain &= slot.as_ref().is_some_and(|s| !matches!(s.post, Nonlinear::Table(_)));
        // A factor before a clip has a slot too, and the engine computes tables that are clips fast.
        factors &= next == end || slot.is_some_and(|s| s.is_affine() && s.offset == Epilogue::UNIT.offset);
        if let [(argument, _)] = frontier.as_slice()
            && layers.len() > 1
            && !(plain || clips && factors)
        {
            found.push((layers.len(), *argument));
        }
        // The operand that is made last is opened first.
        let open = |&(_, elements): &(View4, Elements)| uses.elementwise(elements, end);
        let Some(latest) = frontier.iter().filter_map(open).max() else { break };
        frontier.retain(|operand| open(operand) != Some(latest));
        next = latest;
    }
    (layers, found)
}

/// The table of a function and its error.
fn fit(graph: &Graph, steps: &[Step], layers: &[usize]) -> Option<(Table, f64)> {
    let f = |x: f64| value(steps, x);
    // Layers that round nothing stay exact.
    let exact = layers.iter().all(|&at| is_exact(&graph.layers[at].kind));
    let clip = Table::clip_of(&f).filter(|_| exact).map(|table| (table, 0.0));
    clip.or_else(|| Table::fitted("fitted", &f, if exact { 0.0 } else { MOST_ERROR }))
}

/// Tables of the longest functions of a graph, fitted on several threads. [`into_tables`] asks for others where one of these has none.
fn known(graph: &Graph, uses: &Uses) -> Known {
    let mut inner = vec![false; graph.layers.len()];
    let mut asked = HashMap::new();
    for end in (0..graph.layers.len()).rev() {
        if inner[end] {
            continue;
        }
        if let Some(candidate) = saving(graph, uses, end).next() {
            candidate.0.iter().for_each(|&at| inner[at] = true);
            asked.entry(text(&steps(graph, uses, &candidate))).or_insert(candidate);
        }
    }
    let table = |(text, candidate): (String, Candidate)| {
        let table = fit(graph, &steps(graph, uses, &candidate), &candidate.0);
        (text, table)
    };
    asked.into_par_iter().map(table).collect()
}

/// The region of a function that has a table.
fn tabled(graph: &Graph, uses: &Uses, candidate: Candidate, known: &mut Known) -> Option<Region> {
    let steps = steps(graph, uses, &candidate);
    let f = |x: f64| value(&steps, x);
    let (layers, argument) = candidate;
    let end = layers[0];
    let (table, error) = known.entry(text(&steps)).or_insert_with(|| fit(graph, &steps, &layers)).clone()?;
    let (rest, slope) = (f(0.0), slope(&f));
    let small_values_matter = rest == 0.0 || slope.is_some();
    let own_error = slope.map_or(error, |slope| error.max((error / slope).min(SMALL_ERROR)));
    let usual = graph.usual.get(&argument.buffer).map_or(1.0, |&usual| f64::from(usual));
    let averaged = averaged(graph, uses, end);
    let least = if averaged { LEAST_USUAL_OF_MEANS } else { LEAST_USUAL };
    let size = (f(usual) - rest).abs().max((f(-usual) - rest).abs()) / least;
    let relative = small_values_matter && error > 0.0 && size < 1.0;
    let usual_error = if relative { own_error.max(error / size) } else { own_error };
    Some(Region { end, layers, argument, table, error, usual_error, small_values_matter })
}

/// Returns true for a layer whose result only means over planes read.
fn averaged(graph: &Graph, uses: &Uses, end: usize) -> bool {
    let means = |&at: &usize| matches!(graph.layers[at].kind, Kind::Reduce { op: PoolOp::Sum, abs: false, .. });
    let readers = &uses.readers[uses.results[end]];
    !readers.is_empty() && readers.iter().all(means)
}

/// Returns true if a table in place of the last layer makes another layer of the region dead. The argument's buffer must also keep its
/// contents up to the last layer.
fn saves(uses: &Uses, end: usize, (layers, argument): &Candidate) -> bool {
    let first = layers.iter().min().copied().unwrap_or(end);
    let writers = &uses.writers[argument.buffer.0 as usize];
    let stays = writers.get(writers.partition_point(|&at| at < first)).is_none_or(|&at| at >= end);
    let only_here = |&at: &usize| at != end && uses.readers[uses.results[at]].iter().all(|at| layers.contains(at));
    stays && layers.iter().any(only_here)
}

/// Replaces every function whose error is admitted by one table.
pub(crate) fn into_tables(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if !options.conventions().functions_fitted {
        return;
    }
    let uses = Uses::of(graph);
    let mut known = known(graph, &uses);
    let mut inner = vec![false; graph.layers.len()];
    let mut regions: Vec<Region> = Vec::new();
    for end in (0..graph.layers.len()).rev() {
        if inner[end] {
            continue;
        }
        let mut saving = saving(graph, &uses, end);
        if let Some(found) = saving.find_map(|candidate| tabled(graph, &uses, candidate, &mut known)) {
            found.layers.iter().for_each(|&at| inner[at] = true);
            regions.push(found);
        }
    }
    let small = [(false, TOTAL_ERROR), (true, TOTAL_ERROR_AT_ZERO)].map(|(at_zero, total)| {
        small_error(regions.iter().filter(|r| r.small_values_matter == at_zero).map(|r| r.usual_error).collect(), total)
    });
    let steps = cheap_steps(graph, &regions, small);
    let admitted = |(found, as_steps): (&Region, &bool)| match options.activations {
        Activations::Fused => found.error <= MOST_ERROR,
        Activations::Accurate => found.usual_error <= ROUNDING,
        Activations::Auto if *as_steps => found.usual_error <= ROUNDING,
        Activations::Auto => found.usual_error <= small[usize::from(found.small_values_matter)],
    };
    let taken: Vec<bool> = regions.iter().zip(&steps).map(admitted).collect();
    let mut known = gates::Known::new();
    let gate = |(found, (taken, as_steps)): (&Region, (&bool, &bool))| {
        let open = options.activations == Activations::Auto && !taken && !as_steps;
        if open { gates::of(graph, &uses, found, &mut known) } else { None }
    };
    let gates: Vec<_> = regions.iter().zip(taken.iter().zip(&steps)).map(gate).collect();
    let gates_taken = gates::admitted(&gates);
    for (((found, taken), gate), gate_taken) in regions.into_iter().zip(taken).zip(gates).zip(gates_taken) {
        reasons.say(|| {
            let name = &graph.layers[found.end].name;
            let count = found.layers.len();
            let error = found.usual_error;
            match &gate {
                _ if taken => format!("{name}: {count} layers become one table, off by {error:.1e}"),
                Some(gate) if gate_taken => format!(
                    "{name}: {} of {count} layers become one table, off by {:.1e}; one of all would be off by {error:.1e}",
                    gate.layers, gate.error
                ),
                _ => format!("{name}: {count} layers stay: one table would be off by {error:.1e}"),
            }
        });
        if taken {
            put(&mut graph.layers[found.end], found.table, found.argument);
        } else if let Some(gate) = gate.filter(|_| gate_taken) {
            put(&mut graph.layers[gate.end], gate.table, found.argument);
        }
    }
    graph.usual.clear();
    drop_unread(graph);
}

/// Replaces a layer by a table.
fn put(layer: &mut Layer, table: Table, argument: View4) {
    let nonlinear = Nonlinear::Table(Arc::new(table));
    layer.kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear };
    (layer.sources, layer.broadcast) = (vec![argument], vec![[false; 3]]);
    layer.second_relu = false;
}

/// Marks functions that stay steps under [`Activations::Auto`]: those from which only elementwise layers lead to an output, where no sum
/// averages the errors of a table, and those of few elements. If these steps are many layers, only functions whose tables have at most the errors
/// `small`, and of gates those that lead to an output; none if these are many layers too.
fn cheap_steps(graph: &Graph, regions: &[Region], small: [f64; 2]) -> Vec<bool> {
    let mut direct: Vec<bool> = graph.buffers.iter().map(|b| b.role == Role::Output).collect();
    for layer in graph.layers.iter().rev() {
        let each = match &layer.kind {
            Kind::Neuron { .. } | Kind::Planar { .. } => true,
            Kind::Pool { window, op, .. } => *window == Window::UNIT && *op == PoolOp::Sum,
            _ => false,
        };
        if direct[layer.result.buffer.0 as usize] && each {
            layer.sources.iter().for_each(|s| direct[s.buffer.0 as usize] = true);
        }
    }
    let before_output = |r: &Region| direct[graph.layers[r.end].result.buffer.0 as usize];
    let marked = |r: &Region| {
        let result = &graph.layers[r.end].result;
        let elements = result.width * result.axes.iter().map(|a| a.extent).product::<usize>();
        r.usual_error > ROUNDING && (elements <= FEW_ELEMENTS || before_output(r))
    };
    let tabled = |r: &Region| r.usual_error <= small[usize::from(r.small_values_matter)];
    let rare = |r: &Region| marked(r) && tabled(r) && (r.small_values_matter || before_output(r));
    let few = |marks: &[bool]| {
        let more: usize = regions.iter().zip(marks).filter(|(_, on)| **on).map(|(r, _)| r.layers.len() - 1).sum();
        more * FEW_LAYERS <= graph.layers.len()
    };
    let choices = [regions.iter().map(marked).collect::<Vec<_>>(), regions.iter().map(rare).collect()];
    choices.into_iter().find(|marks| few(marks)).unwrap_or_else(|| vec![false; regions.len()])
}

/// Largest admitted error of a table: at most [`SMALL_ERROR`], and such that all errors up to it sum to at most `total`.
/// Tables below [`ROUNDING`] are always admitted and not counted.
pub fn small_error(mut errors: Vec<f64>, total: f64) -> f64 {
    errors.retain(|error| (ROUNDING..=SMALL_ERROR).contains(error));
    order::by(&mut errors, f64::total_cmp);
    let mut most = SMALL_ERROR;
    while let Some(&last) = errors.last()
        && errors.iter().sum::<f64>() > total
    {
        // All tables of one function are admitted, or none.
        errors.retain(|&error| error < last);
        most = errors.last().copied().unwrap_or(ROUNDING);
    }
    most
}

/// Removes layers whose results are not read.
fn drop_unread(graph: &mut Graph) {
    let mut reads = vec![0usize; graph.buffers.len()];
    graph.layers.iter().flat_map(|l| &l.sources).for_each(|s| reads[s.buffer.0 as usize] += 1);
    let mut removed = vec![false; graph.layers.len()];
    for at in (0..graph.layers.len()).rev() {
        let layer = &graph.layers[at];
        let result = layer.result.buffer.0 as usize;
        if reads[result] == 0 && graph.buffers[result].role == Role::Scratch {
            removed[at] = true;
            layer.sources.iter().for_each(|s| reads[s.buffer.0 as usize] -= 1);
        }
    }
    retain(graph, &removed);
}
