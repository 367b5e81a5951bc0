//! Factors of operands of products of two computed matrices become one factor behind the product, which its task applies.

use super::affines::affine;
use super::magnitudes::{array_ceiling, magnitudes};
use super::{makers, rewrite};
use crate::error::Result;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, ValueId};
use half::f16;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

/// Largest error of a factor that fp16 represents, relative to it: that of the product of two factors in fp32.
const EXACT: f32 = 1.0 / (1 << 20) as f32;
/// Sums beyond so many times the usual one are not expected.
const BEYOND_USUAL: f32 = 64.0;

/// The factor behind a product, its operands without factors, and the scaled ones that nothing reads any more.
pub(super) struct Behind {
    factor: f32,
    operands: [ValueId; 2],
    unread: Vec<ValueId>,
}

/// Moves factors of a product's operands behind it, if nothing else reads what they multiply, and no operation is added: fp16 represents
/// their product, so that the product's task applies it, a softmax follows, which applies any, or there are several of them. Products
/// that fp16 does not represent move only where the unscaled sums are small: norms bound the operands, and their usual size is far below the
/// largest sum of the array.
///
/// Barriers: other readers, outputs of the network, one operand that is constant.
pub(super) fn behind_products(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let reads = net.read_counts();
    let makers = makers(net);
    let normed: HashSet<ValueId> =
        net.ops.iter().filter(|op| matches!(op.kind, OpKind::Softmax { .. })).map(|op| op.inputs[0]).collect();
    let known = OnceCell::new();
    let small = |op: &Op, factor: f32| {
        let of = |id: ValueId| known.get_or_init(|| magnitudes(net))[id.0 as usize];
        let bounded = || op.inputs.iter().all(|&id| of(id).most.is_finite());
        factor.abs() >= 1.0 || bounded() && of(op.outputs[0]).usual * BEYOND_USUAL <= array_ceiling() * factor.abs()
    };
    let found: HashMap<ValueId, Behind> = net
        .ops
        .iter()
        .filter_map(|op| Some((*op.outputs.first()?, behind(net, op, &makers, &reads, &normed, small)?)))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let unread: HashSet<ValueId> = found.values().flat_map(|behind| behind.unread.iter().copied()).collect();
    rewrite(net, reasons, |builder, op| {
        let out = op.outputs.first().copied();
        let Some((out, behind)) = out.and_then(|out| Some((out, found.get(&out)?))) else {
            if out.is_none_or(|out| !unread.contains(&out)) {
                builder.ops.push(op.clone());
            }
            return Ok(());
        };
        let shape = builder.shape(out);
        let whole = builder.op("unscaled", op.kind.clone(), &behind.operands, shape);
        let factor = builder.constant("factor", vec![], vec![behind.factor]);
        builder.push(OpKind::Binary(Binary::Mul), &[whole, factor], out);
        Ok(())
    })
}

/// Operands of a product without factors, and their product; `normed` are the operands of softmaxes, and `small` is true for products whose
/// sums may grow by the inverse of a factor.
fn behind(
    net: &Net,
    op: &Op,
    makers: &HashMap<ValueId, &Op>,
    reads: &[usize],
    normed: &HashSet<ValueId>,
    small: impl Fn(&Op, f32) -> bool,
) -> Option<Behind> {
    let behind = factors(net, op, makers, reads)?;
    let (out, factor) = (op.outputs[0], behind.factor);
    if let Some(factor) = behind.gain() {
        return Some(Behind { factor, ..behind });
    }
    let softmax = reads[out.0 as usize] == 1 && normed.contains(&out) && factor > 0.0;
    let pays = (softmax || behind.unread.len() > 1) && small(op, factor);
    (pays && f16::from_f32(factor).is_normal()).then_some(behind)
}

/// Operands of a product without the numbers that multiply them, and these; `None` if there are none.
pub(super) fn factors(net: &Net, op: &Op, makers: &HashMap<ValueId, &Op>, reads: &[usize]) -> Option<Behind> {
    let (OpKind::MatMul { .. }, &[x, y]) = (&op.kind, op.inputs.as_slice()) else { return None };
    let (mut factor, mut operands, mut unread) = (1.0, [x, y], Vec::new());
    for operand in &mut operands {
        while let Some(&maker) = makers.get(operand).filter(|_| reads[operand.0 as usize] == 1) {
            let Some((Binary::Mul, from, number)) = affine(net, maker) else { break };
            if number.data.len() != 1 || net.value(from).ty != net.value(*operand).ty {
                break;
            }
            factor *= number.data.to_f32()[0];
            unread.push(std::mem::replace(operand, from));
        }
    }
    (!unread.is_empty()).then_some(Behind { factor, operands, unread })
}

impl Behind {
    /// The factor as the gain of the product's tasks; `None` if fp16 does not represent it.
    pub(super) fn gain(&self) -> Option<f32> {
        let rounded = f16::from_f32(self.factor);
        let exact = (rounded.to_f32() - self.factor).abs() <= EXACT * self.factor.abs();
        (exact && rounded.is_normal()).then_some(rounded.to_f32())
    }
}
