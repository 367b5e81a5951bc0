//! Constants with integers beyond int32, the type that integers are held in, or floats beyond float32: they may be ends of slices and
//! bounds, but arithmetic must not use the saturated numbers in their place.

use super::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};
use crate::stored::Element;

/// A number as written in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Written {
    Integer(i128),
    Real(f64),
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Written::Integer(x) => write!(f, "{x} is beyond int32, in which integers are computed"),
            Written::Real(x) => write!(f, "{x:e} is beyond float32, in which floats are computed"),
        }
    }
}

/// Numbers of a value that its type does not represent; they are saturated, to integers or infinities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beyond {
    /// The first of them, as in the file.
    pub first: Written,
    /// True if one is below the range of the type, and if one is above it.
    pub below: bool,
    pub above: bool,
    /// True if the value was computed from saturated numbers, so that not even comparisons with it are right.
    pub computed: bool,
}

impl Beyond {
    /// The numbers among stored elements that are beyond their 32-bit type.
    pub fn among(element: Element, bytes: &[u8]) -> Option<Beyond> {
        let (words, _) = bytes.as_chunks();
        let halves = || bytes.as_chunks().0.iter();
        match element {
            Element::Int(64) => Beyond::of(words.iter().map(|&b| i64::from_le_bytes(b).into())),
            Element::UInt(64) => Beyond::of(words.iter().map(|&b| u64::from_le_bytes(b).into())),
            Element::UInt(32) => Beyond::of(halves().map(|&b| u32::from_le_bytes(b).into())),
            Element::Float64 => Beyond::of_reals(words.iter().map(|&b| f64::from_le_bytes(b))),
            _ => None,
        }
    }

    /// The numbers beyond their 32-bit type.
    pub fn of(all: impl Iterator<Item = i128>) -> Option<Beyond> {
        let mut found: Option<Beyond> = None;
        for x in all.filter(|&x| i32::try_from(x).is_err()) {
            found.get_or_insert(Beyond::none(Written::Integer(x))).note(x < 0);
        }
        found
    }

    /// The finite floats of 64 bits that 32 bits do not hold.
    pub fn of_reals(all: impl Iterator<Item = f64>) -> Option<Beyond> {
        let mut found: Option<Beyond> = None;
        for x in all.filter(|x| x.is_finite() && (*x as f32).is_infinite()) {
            found.get_or_insert(Beyond::none(Written::Real(x))).note(x < 0.0);
        }
        found
    }

    fn none(first: Written) -> Beyond {
        Beyond { first, below: false, above: false, computed: false }
    }

    fn note(&mut self, below: bool) {
        self.below |= below;
        self.above |= !below;
    }

    fn error(&self, place: (&str, &str)) -> Error {
        let reason = match self.first {
            Written::Integer(_) => format!("{}. Make the constant smaller, or give it a float type", self.first),
            Written::Real(_) => format!("{}. Make the constant smaller, or convert it to float32 first", self.first),
        };
        Error::Unsupported { op: place.0.to_string(), output: place.1.to_string(), reason }
    }
}

impl Builder {
    /// Marks a value whose numbers are saturated.
    pub fn note_beyond(&mut self, id: ValueId, beyond: Option<Beyond>) {
        if let Some(beyond) = beyond {
            self.beyond.insert(id, beyond);
        }
    }

    /// Removes the mark from floats that are converted to a narrower type: infinities are their values there.
    pub fn narrowed(&mut self, id: ValueId) {
        if self.beyond.get(&id).is_some_and(|beyond| matches!(beyond.first, Written::Real(_))) {
            self.beyond.remove(&id);
        }
    }

    /// The mark of an operation's result with that element type; `folded` is true if the result is a constant.
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
            OpKind::Cast => match one.first {
                Written::Integer(_) => result == DType::I32,
                Written::Real(_) => result.is_float(),
            },
            OpKind::Binary(f @ (Binary::Max | Binary::Min)) => {
                // A bound beyond the 32-bit type has no effect.
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
