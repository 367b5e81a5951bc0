//! Factors of operands of products of two computed matrices become one factor behind the product, which its task applies.

use super::affines::affine;
use super::{makers, rewrite};
use crate::error::Result;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, ValueId};
use half::f16;
use std::collections::{HashMap, HashSet};

/// Largest error of a factor that fp16 represents, relative to it: that of the product of two factors in fp32.
const EXACT: f32 = 1.0 / (1 << 20) as f32;

/// The factor behind a product, its operands without factors, and the scaled ones that nothing reads any more.
struct Behind {
    factor: f32,
    operands: [ValueId; 2],
    unread: Vec<ValueId>,
}

/// Moves factors of a product's operands behind it, if nothing else reads what they multiply and fp16 represents their product.
///
/// Barriers: other readers, outputs of the network, one operand that is constant.
pub(super) fn behind_products(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let reads = net.read_counts();
    let makers = makers(net);
    let found: HashMap<ValueId, Behind> =
        net.ops.iter().filter_map(|op| Some((*op.outputs.first()?, behind(net, op, &makers, &reads)?))).collect();
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

/// Operands of a product without factors, and their product.
fn behind(net: &Net, op: &Op, makers: &HashMap<ValueId, &Op>, reads: &[usize]) -> Option<Behind> {
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
    let rounded = f16::from_f32(factor);
    let exact = rounded.is_normal() && (rounded.to_f32() - factor).abs() <= EXACT * factor.abs();
    (!unread.is_empty() && exact).then(|| Behind { factor: rounded.to_f32(), operands, unread })
}
