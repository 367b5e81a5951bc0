//! Chips as targets: gates by family, and the chip whose registers are used for a program of a family without known ones.

use crate::error::{Error, Refused, Result};
use anemone_check::describe;
use anemone_check::legal::{self, Route};
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::native::FAMILIES;
use anemone_net::native::Native;
use anemone_net::outline::Outline;
use anemone_net::{Net, OpKind};
use anemone_program::order;

/// The native layers of a network.
pub fn natives(net: &Net) -> impl Iterator<Item = &Native> {
    net.ops.iter().filter_map(|op| match &op.kind {
        OpKind::Native(native) => Some(&**native),
        _ => None,
    })
}

/// Refuses layers that a network names directly and that the chip's validator, parser or code generation refuses.
pub(crate) fn gate(net: &Net, chip: &'static Chip) -> Result<()> {
    if natives(net).next().is_none() {
        return Ok(());
    }
    let outline = Outline::of(net);
    for (op, outlined) in net.ops.iter().zip(&outline.ops) {
        if !matches!(op.kind, OpKind::Native(_)) {
            continue;
        }
        for layer in describe::layers(outlined) {
            let Some(refusal) = legal::check(&layer, chip, Route::Direct).refusals.into_iter().next() else { continue };
            return Err(Error::Refused(Box::new(Refused {
                op: op.name.clone(),
                kind: op.kind.name().into(),
                chip: chip.target,
                stage: refusal.stage,
                reason: refusal.message,
                apple: refusal.apple,
                suggestion: refusal.fix,
            })));
        }
    }
    Ok(())
}

/// The first chip, family by family, that supports every native layer of a network.
pub fn first_chip(net: &Net) -> Option<&'static Chip> {
    let silicon = CHIPS.iter().filter(|c| c.is_silicon() && c.family.starts_with('A'));
    let mut all: Vec<&Chip> = silicon.collect();
    order::by_key(&mut all, |c| FAMILIES.iter().position(|f| *f == c.family));
    all.into_iter().find(|chip| gate(net, chip).is_ok())
}

/// The chip whose registers a program uses: its own, or for native layers on a chip without known registers,
/// the first chip with known ones.
pub(crate) fn carrier(net: &Net, chip: &'static Chip) -> &'static Chip {
    let known = CHIPS.iter().find(|c| c.layout.is_some());
    match known {
        Some(known) if chip.layout.is_none() && natives(net).next().is_some() => known,
        _ => chip,
    }
}

/// Returns true if the coefficients of all further passes fit the kernel memory of an engine while one pass is computed.
pub(crate) fn ahead(plane_bytes: u64, passes: usize, chip: &Chip) -> bool {
    let further = passes.saturating_sub(1) as u64;
    chip.hal.kmem_cap_dense.is_some_and(|stays| plane_bytes * further <= stays)
}
