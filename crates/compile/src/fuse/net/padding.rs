//! Constant padding before a window.

use super::makers;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::proof::never_negative;
use anemone_net::{Net, OpKind, PoolKind, ValueId};

/// Fuses padding into the convolution or pooling that is its only reader (the book, table 22.1: pad optimization).
///
/// Barriers: padding of other axes, or at least as wide as the window; values other than the window's own padding: zero for
/// convolutions and means, a value that never wins for maxima.
pub(crate) fn fold_padding(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let (uses, makers) = (net.read_counts(), makers(net));
    for at in 0..net.ops.len() {
        let Some(&padded) = net.ops[at].inputs.first() else { continue };
        let Some(maker) = makers[padded.0 as usize] else { continue };
        let OpKind::Pad { pads, value } = &net.ops[maker].kind else { continue };
        if uses[padded.0 as usize] != 1 || net.outputs.contains(&padded) {
            continue;
        }
        let x = net.ops[maker].inputs[0];
        let made_by = |id: ValueId| Some(&net.ops[makers[id.0 as usize]?]);
        let least = || never_negative(net, x, &made_by);
        if let Some(kind) = with_padding(net, at, pads, *value, least) {
            reasons.say(|| format!("{} becomes padding of {}", net.ops[maker].name, net.ops[at].name));
            net.ops[at].kind = kind;
            net.ops[at].inputs[0] = x;
        }
    }
    super::remove_unread(net);
    Ok(())
}

/// The operation with the padding added to its own.
fn with_padding(
    net: &Net,
    at: usize,
    pads: &[(usize, usize)],
    value: f32,
    never_negative: impl Fn() -> bool,
) -> Option<OpKind> {
    let op = &net.ops[at];
    let (leading, own) = pads.split_at_checked(2)?;
    if leading.iter().any(|&p| p != (0, 0)) {
        return None;
    }
    // Each window must hold an element that is not padding.
    let sum = |before: &[(usize, usize)], kernel: &[usize]| -> Option<Vec<(usize, usize)>> {
        let all: Vec<_> = before.iter().zip(own).map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect();
        let held = all.len() == own.len() && all.iter().zip(kernel).all(|(p, &k)| p.0 < k && p.1 < k);
        held.then_some(all)
    };
    match &op.kind {
        OpKind::Conv { strides, pads, dilations, groups } if value == 0.0 => {
            let weights = &net.value(*op.inputs.get(1)?).ty.shape;
            let reach: Vec<usize> = weights.iter().skip(2).zip(dilations).map(|(k, d)| (k - 1) * d + 1).collect();
            let pads = sum(pads, &reach)?;
            Some(OpKind::Conv { strides: strides.clone(), pads, dilations: dilations.clone(), groups: *groups })
        }
        OpKind::Pool { kind, kernel, strides, pads, ceil_mode: false } => {
            let unpadded = pads.iter().all(|&p| p == (0, 0));
            let kind = match kind {
                PoolKind::Average { exclude_padding } if value == 0.0 && (unpadded || !exclude_padding) => {
                    PoolKind::Average { exclude_padding: false }
                }
                PoolKind::Max
                    if value == f32::NEG_INFINITY || value <= -65504.0 || value == 0.0 && never_negative() =>
                {
                    PoolKind::Max
                }
                _ => return None,
            };
            let pads = sum(pads, kernel)?;
            Some(OpKind::Pool { kind, kernel: kernel.clone(), strides: strides.clone(), pads, ceil_mode: false })
        }
        _ => None,
    }
}
