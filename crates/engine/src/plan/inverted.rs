//! Pass `inverted`: a convolution whose results go through a table, and the depthwise convolution that alone reads them, as in an inverted residual
//! block, become a fused group. Results have the same bits.

use super::common::Common;
use super::moves::readers;
use super::ops::{Kind, Op, Placed};
use super::pair::{Fused, candidate};
use super::{Step, Work};
use crate::direct::Operands;
use crate::ne::Convolution;
use anemone_conv::can_fuse_depthwise;
use anemone_facts::Field;
use anemone_kernels::epilogue::Activation;
use anemone_kernels::table::Table;
use std::sync::Arc;

/// Pass `inverted`.
pub(super) fn run(common: &Common, steps: &[Step], ops: &mut Vec<Op>) {
    let mut j = 0;
    while j < ops.len() && common.mac.is_none() {
        match fused(common, steps, ops, j) {
            Some((i, both)) => {
                ops[j] = both;
                ops.remove(i);
            }
            None => j += 1,
        }
    }
}

/// A convolution with its channels, operands and table.
struct Part<'a> {
    convolution: &'a Convolution,
    channels: usize,
    operands: Operands,
    table: Option<&'a Arc<Table>>,
}

impl<'a> Part<'a> {
    fn of(op: &'a Op, steps: &'a [Step]) -> Option<Part<'a>> {
        let table = match &op.kind {
            Kind::Task(_) => None,
            Kind::Placed(Placed { after, factors: None, .. }) => after.as_ref(),
            _ => return None,
        };
        let step = steps.get(op.tasks.start)?;
        let plain = [Field::InputRelu, Field::PostScaleMode, Field::NeTranspose];
        let plain = plain.iter().all(|&field| step.fields.get(field) == 0) && matches!(step.work, Work::Neural(_));
        let (convolution, channels) = candidate(&step.work, None).filter(|_| op.known && plain)?;
        Some(Part { convolution, channels, operands: op.operands(steps)?.clone(), table })
    }
}

/// Index of the convolution before the depthwise one at `j`, and the group of both; `None` if they are not fused.
fn fused(common: &Common, steps: &[Step], ops: &[Op], j: usize) -> Option<(usize, Op)> {
    let mut last = Part::of(&ops[j], steps)?;
    let read = ops[j].reads.first()?;
    let i = ops[..j].iter().rposition(|op| op.may_write(read))?;
    let mut first = Part::of(&ops[i], steps)?;
    let stagings = [&first.convolution.staging, &last.convolution.staging];
    if first.table.is_none() || !can_fuse_depthwise(stagings, [first.channels, last.channels]) {
        return None;
    }
    let (result, ext) = first.operands.movable()?.pop()?;
    let same =
        last.operands.movable()?.into_iter().next().is_some_and(|(from, of)| of == ext && from.is_that_of(result, ext));
    let alone = common.is_own(result.home) && readers(ops, i).all(|reader| reader == j);
    let kept = !ops[i + 1..j].iter().any(|op| op.may_write_any(&ops[i].reads));
    let second = ops[j].tasks.start.checked_sub(ops[i].tasks.start)?;
    let table = |of: &Part| of.table.map(|table| Activation::Table(table.clone()));
    let tables = [table(&first), table(&last)];
    let group = Fused::with_tables([first.operands, last.operands], second, tables);
    let reads = ops[i].reads.iter().chain(&ops[j].reads[1..]).cloned().collect();
    let tasks = ops[i].tasks.start..ops[j].tasks.end;
    let both = Op { tasks, kind: Kind::Fused(Box::new(group)), reads, writes: ops[j].writes.clone(), known: true };
    (same && alone && kept && second > 0).then_some((i, both))
}
