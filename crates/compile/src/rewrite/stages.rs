//! Reductions of an axis beyond the chip's limits, in two stages. Ours.

use super::Builder;
use anemone_facts::Field;
use anemone_facts::chips::Chip;
use anemone_net::{Op, OpKind, ReduceKind};

impl Builder<'_> {
    /// Extents of the stages of a sum, mean, maximum or minimum over one axis with more elements than the chip reduces at once, or over
    /// neighbours with such an axis: the two factors of their extent that are closest. `None` for other reductions, and if the larger
    /// factor is beyond the limit too.
    pub(super) fn stages(&self, op: &Op, kind: ReduceKind, axes: &[usize], chip: &Chip) -> Option<[usize; 2]> {
        let (&first, &last) = (axes.first()?, axes.last()?);
        if axes.iter().enumerate().any(|(at, &axis)| axis != first + at) {
            return None;
        }
        let shape = self.shape(op.inputs[0]);
        let extents = shape.get(first..=last)?;
        let most = usize::try_from(chip.hal.max_tensor_height?).ok()?;
        let staged = matches!(kind, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min);
        // Channels with planes are reduced at once, as many as a task counts.
        let planes = shape[last + 1..].iter().any(|&n| n > 1);
        let counted = chip.layout?.row(Field::UnicastCin)?.max() as usize;
        let most_at_once = if planes { counted } else { most };
        // A mean of integers is truncated once.
        let float = self.net.value(op.outputs[0]).ty.dtype.is_float();
        if extents.iter().all(|&extent| extent <= most_at_once) || !staged || !float {
            return None;
        }
        let extent: usize = extents.iter().product();
        let inner = (1..=extent.isqrt()).rev().find(|n| extent.is_multiple_of(*n))?;
        (extent / inner <= most).then_some([extent / inner, inner])
    }

    /// Reduces axes that are neighbours as two, the inner one first.
    pub(super) fn in_stages(&mut self, op: &Op, kind: ReduceKind, axes: &[usize], [outer, inner]: [usize; 2]) {
        let shape = self.shape(op.inputs[0]);
        let (before, after) = (shape[..axes[0]].iter().product::<usize>(), &shape[axes[0] + axes.len()..]);
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
