//! Reductions of an axis beyond the chip's limits, in two stages. Ours.

use super::Builder;
use anemone_facts::Field;
use anemone_facts::chips::Chip;
use anemone_net::{Op, OpKind, ReduceKind};

impl Builder<'_> {
    /// Extents of the stages of a sum, mean, maximum or minimum over one axis with more elements than the chip reduces at once: the two
    /// factors of its extent that are closest; `None` for other reductions, and if the larger factor is beyond the limit too.
    pub(super) fn stages(&self, op: &Op, kind: ReduceKind, axes: &[usize], chip: &Chip) -> Option<[usize; 2]> {
        let &[axis] = axes else { return None };
        let extent = *self.shape(op.inputs[0]).get(axis)?;
        let most = usize::try_from(chip.hal.max_tensor_height?).ok()?;
        let staged = matches!(kind, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min);
        // Channels with planes are reduced at once, as many as a task counts.
        let planes = self.shape(op.inputs[0])[axis + 1..].iter().any(|&n| n > 1);
        let counted = chip.layout?.row(Field::UnicastCin)?.max() as usize;
        let most_at_once = if planes { counted } else { most };
        // A mean of integers is truncated once.
        if extent <= most_at_once || !staged || !self.net.value(op.outputs[0]).ty.dtype.is_float() {
            return None;
        }
        let inner = (1..=extent.isqrt()).rev().find(|n| extent.is_multiple_of(*n))?;
        (extent / inner <= most).then_some([extent / inner, inner])
    }

    /// Reduces an axis as two, the inner one first.
    pub(super) fn in_stages(&mut self, op: &Op, kind: ReduceKind, axis: usize, [outer, inner]: [usize; 2]) {
        let shape = self.shape(op.inputs[0]);
        let (before, after) = (shape[..axis].iter().product::<usize>(), &shape[axis + 1..]);
        let split = [[before * outer, inner].as_slice(), after].concat();
        let split = self.reshaped("split", op.inputs[0], split);
        let partial = [[before * outer].as_slice(), after].concat();
        let reduce = |axis| OpKind::Reduce { kind, axes: vec![axis], keep_dims: false };
        let partial = self.op("partial", reduce(1), &[split], partial);
        let again = self.reshaped("again", partial, [[before, outer].as_slice(), after].concat());
        let reduced = self.op("reduced", reduce(1), &[again], [[before].as_slice(), after].concat());
        self.push(OpKind::Reshape, &[reduced], op.outputs[0]);
    }
}
