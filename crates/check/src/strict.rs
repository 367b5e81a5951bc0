//! Gates of the book that this compiler's lowering exceeds: notes by default, refusals on request.

use super::describe;
use super::legal::{self, MatchStatus, Refusal, Route};
use anemone_facts::chips::Chip;
use anemone_facts::legal::{Quantity as Q, STRICT};
use anemone_net::outline::{Origin, Outline, OutlineOp};

/// Operations that a unit for a reshape becomes.
const RESHAPES: [&str; 4] = ["reshape", "reshape_like", "expand_dims", "squeeze"];

/// An operation within its network, if that is known.
#[derive(Clone, Copy)]
struct Place<'a> {
    op: &'a OutlineOp,
    outline: Option<&'a Outline>,
}

impl Place<'_> {
    /// Adds to the layer what only the network tells: whether it is a unit of its own, and the kind of its first operand.
    fn placed(self, layer: super::Layer) -> super::Layer {
        let Some(outline) = self.outline.filter(|o| o.origin == Origin::Netplist) else { return layer };
        let first = self.op.live().next();
        let named = |o: &OutlineOp| first.is_some_and(|f| o.outputs.iter().any(|result| result.name == f.name));
        let reshaped = outline.ops.iter().any(|o| named(o) && RESHAPES.contains(&o.op.as_str()));
        let live = first.is_some_and(|f| outline.states.contains(&f.name));
        layer.with(Q::Authored, 1).with(Q::FollowsReshape, i64::from(reshaped)).with(Q::AtLiveState, i64::from(live))
    }
}

/// Refusals of one operation, each with the book's sentence as its limit.
fn of(place: Place, chip: &Chip) -> Vec<Refusal> {
    let gates = |layer: &super::Layer| -> Vec<Refusal> {
        let rules = STRICT.iter().filter(|rule| rule.layer == layer.kind);
        let broken = rules.filter_map(|rule| match legal::matches(rule, layer, chip, Route::Direct) {
            status @ MatchStatus::Mismatch { .. } => Some(legal::refusal(rule, status, layer, chip, Route::Direct)),
            _ => None,
        });
        broken
            .map(|refusal| {
                let message = format!("the book: {}", refusal.fix);
                Refusal {
                    message,
                    limit: refusal.fix.clone(),
                    fix: "leave --convention book out: it is this compiler's own lowering".into(),
                    ..refusal
                }
            })
            .collect()
    };
    describe::layers(place.op).into_iter().map(|layer| place.placed(layer)).flat_map(|layer| gates(&layer)).collect()
}

/// Refusals of the book on a chip for operations that this compiler offers: position of the operation, refusal.
pub fn refusals(outline: &Outline, chip: &Chip) -> Vec<(usize, Refusal)> {
    let all = outline.ops.iter().enumerate();
    let placed = |op| Place { op, outline: Some(outline) };
    all.flat_map(|(at, op)| of(placed(op), chip).into_iter().map(move |refusal| (at, refusal))).collect()
}

/// A note for each gate that the operation exceeds.
pub(super) fn notes(op: &OutlineOp, chip: &Chip) -> Vec<String> {
    let note = |says: String| format!("own lowering (the book: {says}; refused with --convention book)");
    sentences(op, chip).into_iter().map(note).collect()
}

/// The book's sentence for each gate that the operation exceeds.
pub(super) fn sentences(op: &OutlineOp, chip: &Chip) -> Vec<String> {
    of(Place { op, outline: None }, chip).into_iter().map(|refusal| refusal.limit).collect()
}
