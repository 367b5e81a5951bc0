//! Constants with integers beyond the 32 bits in which integers are held: ends of slices and bounds may be such, arithmetic must not
//! take them for the nearest integer of 32 bits.

use super::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};

/// Integers of a value that its type does not hold; the nearest ones stand in their place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beyond {
    /// The first of them, as the file has it.
    pub first: i128,
    /// True if one is below the type, and if one is above it.
    pub below: bool,
    pub above: bool,
    /// True if the value was computed from them: not even its order among other numbers is right then.
    pub computed: bool,
}

impl Beyond {
    /// The integers that 32 bits do not hold.
    pub fn of(all: impl Iterator<Item = i128>) -> Option<Beyond> {
        let mut found: Option<Beyond> = None;
        for x in all.filter(|&x| i32::try_from(x).is_err()) {
            let one = found.get_or_insert(Beyond { first: x, below: false, above: false, computed: false });
            one.below |= x < 0;
            one.above |= x > 0;
        }
        found
    }

    fn error(&self, place: (&str, &str)) -> Error {
        let reason = format!(
            "{} is beyond int32, in which integers are computed. Make the constant smaller, or give it a float type",
            self.first
        );
        Error::Unsupported { op: place.0.to_string(), output: place.1.to_string(), reason }
    }
}

impl Builder {
    /// Marks a value as holding other integers than the file has.
    pub fn note_beyond(&mut self, id: ValueId, beyond: Option<Beyond>) {
        if let Some(beyond) = beyond {
            self.beyond.insert(id, beyond);
        }
    }

    /// The mark of an operation's result of that element type, which is a constant where it is `folded`.
    ///
    /// Errors: live arithmetic on marked operands.
    pub(super) fn beyond_of(
        &self,
        kind: &OpKind,
        inputs: &[ValueId],
        result: DType,
        folded: bool,
    ) -> Result<Option<Beyond>, Error> {
        let marked = |id: &ValueId| self.beyond.get(id).copied();
        let Some(first) = inputs.iter().find_map(marked) else { return Ok(None) };
        let all = inputs.iter().filter_map(marked);
        let sum = all.reduce(|a, b| Beyond {
            below: a.below | b.below,
            above: a.above | b.above,
            computed: a.computed | b.computed,
            ..a
        });
        let one = sum.unwrap_or(first);
        let moved = match kind {
            OpKind::Reshape
            | OpKind::Broadcast
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Concat { .. }
            | OpKind::Pad { .. }
            | OpKind::PadEdge { .. }
            | OpKind::Unary(Unary::Identity)
            | OpKind::Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. } => true,
            OpKind::Gather { .. } | OpKind::GatherAlong { .. } => inputs.get(1).and_then(marked).is_none(),
            OpKind::Select => inputs.first().and_then(marked).is_none(),
            OpKind::Cast => result == DType::I32,
            OpKind::Binary(f @ (Binary::Max | Binary::Min)) => {
                // A bound that no integer of 32 bits reaches changes nothing.
                let idle = if *f == Binary::Max { !one.above } else { !one.below };
                if idle && !folded && !one.computed {
                    return Ok(None);
                }
                true
            }
            _ => false,
        };
        let compares = match kind {
            OpKind::Binary(f) => f.is_comparison() && inputs.iter().filter_map(marked).count() == 1,
            OpKind::ArgReduce { .. } => true,
            _ => false,
        };
        if moved {
            Ok(Some(one))
        } else if compares && !one.computed {
            Ok(None)
        } else if folded {
            Ok(Some(Beyond { computed: true, ..one }))
        } else {
            Err(one.error((kind.name(), &self.stem)))
        }
    }
}
