//! Counted loops as operations.

use super::graph::{Net, Op, TensorType, ValueId};
use crate::error::Error;

/// Most operations of an unrolled loop: longer ones stay loops ([`OpKind::Loop`](crate::OpKind::Loop)).
pub const UNROLLED_OPS: usize = 1024;

/// Most iterations of a loop that is not unrolled.
pub const MOST_TURNS: usize = 1 << 16;

/// A tensor that consists of one slice per iteration, concatenated along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Axis of the slices.
    pub axis: usize,
    /// True if the first iteration has the last slice.
    pub backwards: bool,
}

impl Scan {
    /// Position of the slice of iteration `turn` among `turns`.
    pub fn part(&self, turn: usize, turns: usize) -> usize {
        if self.backwards { turns - 1 - turn } else { turn }
    }
}

/// A loop with a known number of iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// One iteration. Its inputs are the carried values, one slice of each scanned tensor, and loop-invariant values; its outputs the next
    /// carried values, then one slice of each collected tensor.
    pub body: Net,
    /// Number of iterations, at least one.
    pub turns: usize,
    /// Number of values that are passed from one iteration to the next.
    pub carried: usize,
    /// Tensors of which each iteration reads a slice.
    pub scanned: Vec<Scan>,
    /// Tensors of which each iteration computes a slice.
    pub collected: Vec<Scan>,
}

impl Loop {
    /// Result types on operands of these types.
    ///
    /// Errors: an invalid body, or one that does not match operands, iterations and carried values.
    pub fn types(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, Error> {
        let (body, kind) = (&self.body, "loop");
        if self.turns == 0 || self.turns > MOST_TURNS {
            let (found, most) = (self.turns as u64, MOST_TURNS as u64);
            return Err(Error::Attribute { kind, what: "turns", found, least: 1, most });
        }
        let least = self.carried + self.scanned.len();
        if inputs.len() != body.inputs.len() || inputs.len() < least {
            return Err(Error::Arity {
                kind: kind.to_string(),
                found: inputs.len(),
                least: body.inputs.len().max(least),
                most: body.inputs.len(),
            });
        }
        let expected = self.carried + self.collected.len();
        if body.outputs.len() != expected || !body.states.is_empty() {
            return Err(Error::Results { kind, found: body.outputs.len(), expected });
        }
        for (slot, (&found, &id)) in inputs.iter().zip(&body.inputs).enumerate() {
            let scan = slot.checked_sub(self.carried).and_then(|at| self.scanned.get(at));
            self.agrees(id, self.whole(id, scan)?, found)?;
        }
        for (&next, &now) in body.outputs.iter().zip(&body.inputs).take(self.carried) {
            self.agrees(next, body.value(next).ty.clone(), &body.value(now).ty)?;
        }
        let scans = self.collected.iter().map(Some);
        let scans = std::iter::repeat_n(None, self.carried).chain(scans);
        body.outputs.iter().zip(scans).map(|(&id, scan)| self.whole(id, scan)).collect()
    }

    fn agrees(&self, id: ValueId, expected: TensorType, found: &TensorType) -> Result<(), Error> {
        if *found == expected {
            return Ok(());
        }
        let (op, value) = ("loop".to_string(), self.body.value(id).name.clone());
        Err(Error::TypeMismatch { op, value, found: found.clone(), expected })
    }

    /// Type of a value of the body, or of the tensor that its slices form.
    fn whole(&self, id: ValueId, scan: Option<&Scan>) -> Result<TensorType, Error> {
        let mut ty = self.body.value(id).ty.clone();
        if let Some(scan) = scan {
            let rank = ty.shape.len() as u64;
            let extent = ty.shape.get_mut(scan.axis).ok_or(Error::Attribute {
                kind: "loop",
                what: "axis",
                found: scan.axis as u64,
                least: 0,
                most: rank.saturating_sub(1),
            })?;
            *extent = extent.saturating_mul(self.turns);
        }
        Ok(ty)
    }

    /// The body with the constants that the loop `op` of `net` passes to it, and with loop-invariant inputs under their names
    /// in `net`.
    pub fn bound(&self, net: &Net, op: &Op) -> Net {
        let mut body = self.body.clone();
        let unchanging = self.carried + self.scanned.len();
        let pairs: Vec<(ValueId, ValueId)> =
            body.inputs.iter().copied().zip(op.inputs.iter().copied()).skip(unchanging).collect();
        for (inside, outside) in pairs {
            let value = net.value(outside);
            let slot = &mut body.values[inside.0 as usize];
            (slot.name, slot.data) = (value.name.clone(), value.data.clone());
        }
        let values = &body.values;
        body.inputs.retain(|id| values[id.0 as usize].data.is_none());
        body
    }
}
