//! Gates of the book that this compiler's own lowering goes beyond: notes as a rule, refusals on request.

use super::describe;
use super::legal::{self, MatchStatus, Refusal, Route};
use anemone_facts::chips::Chip;
use anemone_facts::legal::STRICT;
use anemone_net::outline::{Outline, OutlineOp};

/// Refusals of one operation, each with the book's sentence as its limit.
fn of(op: &OutlineOp, chip: &Chip) -> Vec<Refusal> {
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
                    fix: "leave --convention book out: it is this compiler's own lowering".into(),
                    ..refusal
                }
            })
            .collect()
    };
    describe::layers(op).iter().flat_map(gates).collect()
}

/// Refusals of the book on a chip for operations that this compiler offers: position of the operation, refusal.
pub fn refusals(outline: &Outline, chip: &Chip) -> Vec<(usize, Refusal)> {
    let all = outline.ops.iter().enumerate();
    all.flat_map(|(at, op)| of(op, chip).into_iter().map(move |refusal| (at, refusal))).collect()
}

/// A note for each gate that an operation is offered beyond.
pub(super) fn notes(op: &OutlineOp, chip: &Chip) -> Vec<String> {
    of(op, chip)
        .into_iter()
        .map(|refusal| format!("own lowering ({}; refused with --convention book)", refusal.message))
        .collect()
}
