//! Placement of each operation of a program on a chip: its engine layers, or the reason why there are none.

use super::describe;
use super::fix;
use super::legal::{self, Refusal, Route};
use super::own;
use super::sources;
use super::types;
use super::verdict::{Place, Verdict, host};
use anemone_facts::Basis;
use anemone_facts::chips::Chip;
use anemone_facts::legal::Quantity;
use anemone_facts::ops::{self, ATTESTED, OpRow, Reach, SEGMENTER, Shape};
use anemone_facts::silicon;
use anemone_facts::validators;
use anemone_net::outline::{Argument, Outline, OutlineOp};

/// Verdicts of all operations, in program order.
pub fn place(outline: &Outline, chip: &Chip, route: Route) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = outline.ops.iter().map(|op| verdict(op, outline, chip, route)).collect();
    fuse(outline, &mut verdicts);
    for (verdict, op) in verdicts.iter_mut().zip(&outline.ops) {
        let rewrite = verdict.refusal.as_ref().and_then(|refusal| own::rewrite(op, refusal, chip));
        verdict.own = rewrite.map(|rewrite| rewrite.into);
        verdict.differ = sources::differ(op, chip, verdict);
        if let Some(refusal) = &mut verdict.refusal
            && let Some(fix) = fix::of(op, refusal, chip)
        {
            refusal.fix = fix;
        }
    }
    verdicts
}

/// Refusal of one operation; `None` if it is supported.
pub fn refusal(op: &OutlineOp, outline: &Outline, chip: &Chip, route: Route) -> Option<Refusal> {
    verdict(op, outline, chip, route).refusal
}

/// Wrappers that a converter adds, which no user's program names.
const WRAPPERS: &[&str] = &["tensor_buffer_to_tensor", "tensor_to_tensor_buffer"];

/// Returns true if an operation is no work when the program runs: a constant, its decompression, or a wrapper.
pub(super) fn idle(op: &OutlineOp) -> bool {
    op.constant || op.op.starts_with("constexpr_") || WRAPPERS.contains(&op.op.as_str())
}

fn verdict(op: &OutlineOp, outline: &Outline, chip: &Chip, route: Route) -> Verdict {
    if let Some(refusal) = types::weights(op, chip) {
        return Verdict::refused(Place::Rejected, refusal);
    }
    if idle(op) {
        // The form of an operation on constants is read too (`pad_b_1x8x375x749_to_1x8x375x750_a00000001_idx`).
        let computed = op.constant && op.op != "const";
        return match types::form(op, outline, chip, route).filter(|_| computed) {
            Some(refusal) => Verdict::refused(Place::Rejected, refusal),
            None => Verdict::new(Place::Folded, "a constant", Basis::Decoded, "op-matrix"),
        };
    }
    if let Some(refusal) = types::check(op, outline, chip, route) {
        let place = if refusal.code == "E16" && op.unread.is_none() { Place::Host } else { Place::Rejected };
        return Verdict::refused(place, refusal);
    }
    if let Some(row) = describe::named(op) {
        return authored(op, row.stem, chip);
    }
    let Some(row) = ops::by_name(&op.op) else {
        return match validators::by_name(&op.op) {
            Some(layer) => authored(op, layer.stem, chip),
            None => unheard(op),
        };
    };
    let (reach, basis) = reach(row, chip, route);
    let mut verdict = match (reach, accepted(row)) {
        (Reach::None, Some(basis)) => Verdict::new(Place::Decomposed, row.instead, basis, "m6-study"),
        (reach, _) => match reach {
            Reach::None | Reach::Gated => return Verdict::refused(Place::Host, gated(row, reach, basis)),
            Reach::Bridge if row.shape == Shape::Host => {
                return Verdict::refused(Place::Host, gated(row, reach, basis));
            }
            Reach::Bridge if matches!(row.shape, Shape::Folded | Shape::Free) => {
                Verdict::new(Place::Folded, folded_into(row), basis, "op-matrix")
            }
            Reach::Bridge => {
                let into = if row.instead.is_empty() { "a software route" } else { row.instead };
                Verdict::new(Place::Decomposed, into, basis, "op-matrix")
            }
            Reach::Native => match row.shape {
                _ if describe::placed(op) => Verdict::new(Place::Decomposed, row.instead, Basis::Inferred, "op-matrix"),
                Shape::Free | Shape::Folded => Verdict::new(Place::Folded, folded_into(row), basis, "op-matrix"),
                Shape::Cut => Verdict::new(Place::Cut, row.layers.join(" + "), basis, "op-matrix"),
                _ => Verdict::new(Place::Native, row.layers.join(" + "), basis, "op-matrix"),
            },
        },
    };
    for layer in describe::layers(op) {
        let mut legality = legal::check(&layer, chip, route);
        // A validator reads the numbers that the operation's row has: they are not unknown.
        verdict.unknown.append(&mut legality.unknown);
        if let Some(refusal) = legality.refusals.into_iter().next() {
            let unknown = std::mem::take(&mut verdict.unknown);
            return Verdict { unknown, ..Verdict::refused(Place::Rejected, refusal) };
        }
    }
    if route == Route::Direct
        && !describe::placed(op)
        && let Some(attested) = ATTESTED
            .iter()
            .find(|a| a.ops.contains(&op.op.as_str()) && (a.families.is_empty() || a.families.contains(&chip.family)))
    {
        return Verdict::refused(Place::Host, unreachable_layer(row, attested));
    }
    if !verdict.unknown.is_empty() {
        verdict.basis = Basis::Inferred;
        verdict.notes.push(format!("depends on numbers that no source gives: {}", verdict.unknown.join(", ")));
    }
    large_forms(op, chip, &mut verdict);
    if row.layers.len() > 1
        && verdict.place == Place::Native
        && !matches!(op.op.as_str(), "reduce_argmax" | "reduce_argmin")
    {
        verdict.place = Place::Decomposed;
    }
    if !row.note.is_empty() && verdict.place.on_engine() {
        verdict.notes.push(row.note.to_string());
    }
    if route == Route::Direct && verdict.place.on_engine() {
        verdict.notes.extend(super::strict::notes(op, chip));
    }
    verdict
}

/// Verdict for a native layer that the program names directly: by the validators, then by what is known of code generation.
fn authored(op: &OutlineOp, stem: &'static str, chip: &Chip) -> Verdict {
    let mut verdict = Verdict::new(Place::Cut, stem, Basis::Decoded, "validators");
    for layer in describe::layers(op) {
        let mut legality = legal::check(&layer, chip, Route::Direct);
        verdict.unknown.append(&mut legality.unknown);
        if let Some(refusal) = legality.refusals.into_iter().next() {
            return Verdict::refused(Place::Rejected, refusal);
        }
    }
    if !verdict.unknown.is_empty() {
        verdict.basis = Basis::Inferred;
        verdict.notes.push(format!("depends on numbers that no source gives: {}", verdict.unknown.join(", ")));
    }
    verdict.notes.extend(super::strict::notes(op, chip));
    verdict
}

/// Evidence that the segmenter accepts an operation, if an answer of the segmenter is recorded.
pub(super) fn accepted(row: &OpRow) -> Option<Basis> {
    SEGMENTER.iter().find(|s| s.op == row.name && s.text.is_empty()).map(|s| s.basis)
}

fn folded_into(row: &OpRow) -> &'static str {
    match row.shape {
        Shape::Free => "a change of extents",
        _ => "offsets of its consumers",
    }
}

/// Reach on a route. The conversion route is described by floors, the engine's compiler by capability bytes.
fn reach(row: &OpRow, chip: &Chip, route: Route) -> (Reach, Basis) {
    let floor = match (row.floor, chip.floor) {
        (Some(least), Some(floor)) => Some(floor < least),
        _ => None,
    };
    match row.reach_on(chip) {
        Some((Reach::Native, _)) if route == Route::Framework && floor == Some(true) => (Reach::Gated, Basis::Decoded),
        Some(reach) => reach,
        // Before the A13 only floors are known.
        None => match floor {
            Some(true) => (Reach::Gated, Basis::Decoded),
            Some(false) => (row.reach[0], Basis::Inferred),
            None => (row.reach[0], Basis::Inferred),
        },
    }
}

fn gated(row: &OpRow, reach: Reach, basis: Basis) -> Refusal {
    let instead =
        if row.instead.is_empty() { "keep it on the CPU".into() } else { format!("write it as {}", row.instead) };
    match (reach, row.first_native()) {
        (Reach::Gated, Some(first)) => {
            let first =
                silicon::by_name(first).map_or(first.to_string(), |chip| chip.describe().replace(", ", " and "));
            let message = format!("{} needs a later generation of the engine: supported from {first} on", row.name);
            host("E17", basis, message, format!("{instead}, or target {first} and later"))
        }
        (Reach::Gated, None) => host("E17", basis, format!("{} is not supported on this chip", row.name), instead),
        (Reach::Bridge, _) => host("E16", basis, format!("{} runs on the CPU only", row.name), instead),
        _ => host("E16", basis, format!("{} is not supported by the Neural Engine on any chip", row.name), instead),
    }
}

fn unreachable_layer(row: &OpRow, attested: &ops::Attested) -> Refusal {
    let instead = if row.instead.is_empty() { "keep it on the CPU" } else { row.instead };
    let message = format!("{}: {}", attested.layer, attested.reason);
    Refusal {
        source: attested.source,
        stage: "code generation",
        ..host("E18", attested.basis, message, instead.into())
    }
}

fn unheard(op: &OutlineOp) -> Verdict {
    let message = format!("`{}` is an unknown operation", op.op);
    Verdict::refused(
        Place::Host,
        host("E16", Basis::Inferred, message, "`ane ops` lists the operations of the opsets".into()),
    )
}

/// Supported forms that the compiler nevertheless decomposes.
fn large_forms(op: &OutlineOp, chip: &Chip, verdict: &mut Verdict) {
    if !matches!(op.op.as_str(), "conv" | "conv_transpose") || verdict.place != Place::Native {
        return;
    }
    let strides = op.numbers("strides").unwrap_or_default();
    if strides.iter().any(|&s| !legal::stride_factors(s as i64)) {
        verdict.place = Place::Decomposed;
        verdict.into = "convolutions of smaller stride".into();
    }
    let width = describe::layers(op).first().and_then(|l| l.get(Quantity::KernelWidth)).unwrap_or(1);
    if chip.hal.table_kernel_width_fp16_small.is_some_and(|small| width > small as i64) {
        verdict.place = Place::Decomposed;
        verdict.into = "the large-kernel form: stride 2, two outputs a step".into();
    }
}

/// Slots of the epilogue that an engine layer can absorb, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    PreActivation,
    GainOffset,
    PostActivation,
    Transpose,
}

/// Layers that absorb an epilogue.
const ABSORBING: &[&str] = &["Conv", "Linear", "MatrixMult", "Pool", "ElementWise", "GOC"];

/// Lets layers absorb the operations behind them: affines with one constant operand, activations, a transpose.
fn fuse(outline: &Outline, verdicts: &mut [Verdict]) {
    let consumers = outline.consumers();
    // For each operation, the layer whose epilogue its result still belongs to, and the last slot filled.
    let mut open: Vec<Option<(usize, Option<Slot>)>> = vec![None; outline.ops.len()];
    for at in 0..outline.ops.len() {
        let layers = ops::by_name(&outline.ops[at].op).map_or(&[][..], |row| row.layers);
        let absorbs = layers.len() == 1 && ABSORBING.contains(&layers[0]);
        if verdicts[at].fused.is_none() && absorbs && matches!(verdicts[at].place, Place::Native | Place::Decomposed) {
            open[at] = Some((at, None));
        }
        let (Some((host, last)), [next]) = (open[at], consumers[at].as_slice()) else { continue };
        if outline.outputs.contains(&outline.ops[at].name) || verdicts[*next].place != Place::Native {
            continue;
        }
        let Some(slot) = slot(&outline.ops[*next], last) else { continue };
        let word = match slot {
            Slot::PreActivation | Slot::PostActivation => "activation",
            Slot::GainOffset => "gain and offset",
            Slot::Transpose => "transpose",
        };
        verdicts[*next].place = Place::Folded;
        verdicts[*next].into = format!("the {word} of {}", outline.ops[host].name);
        verdicts[*next].fused = Some(host);
        open[*next] = Some((host, Some(slot)));
    }
}

/// Slot that an operation fills, if it comes after the last slot filled.
fn slot(op: &OutlineOp, last: Option<Slot>) -> Option<Slot> {
    let live = op.live().count();
    let constants =
        op.arguments.iter().filter(|(n, a)| matches!(n.as_str(), "x" | "y") && matches!(a, Argument::Constant(_)));
    let layers = ops::by_name(&op.op)?.layers;
    let slot = match layers {
        ["Neuron"] if live == 1 => {
            if last.is_none() {
                Slot::PreActivation
            } else {
                Slot::PostActivation
            }
        }
        ["GOC"] if live == 1 => Slot::GainOffset,
        ["ElementWise"] if matches!(op.op.as_str(), "add" | "sub" | "mul") && live == 1 && constants.count() == 1 => {
            Slot::GainOffset
        }
        ["Transpose"] => Slot::Transpose,
        _ => return None,
    };
    (last.is_none_or(|last| slot > last)).then_some(slot)
}
