//! Values without elements, such as the keys before the first step of a decoder: they are constants, and nothing computes them.

use super::{Builder, Built};
use crate::graph::{Data, Tensor, TensorType, ValueId};
use crate::infer::broadcast;
use crate::ops::OpKind;

impl Builder {
    /// An input of a graph, or a constant if it has no elements.
    pub fn input_or_nothing(&mut self, name: &str, ty: TensorType) -> Built {
        if ty.elements() > 0 {
            return self.input(name, ty);
        }
        Ok(self.nothing(ty))
    }

    fn nothing(&mut self, ty: TensorType) -> ValueId {
        let data = Data::from_f32(ty.dtype, &[]);
        self.constant("none", Tensor { shape: ty.shape, data })
    }

    /// The result of an operation with operands without elements: a concatenation of the others, or a value without elements.
    /// `None` if the operation makes elements from none.
    pub(super) fn without(
        &mut self,
        kind: &OpKind,
        inputs: &[ValueId],
        declared: Option<&TensorType>,
    ) -> Option<Built> {
        let &first = inputs.first()?;
        let shape = self.shape(first);
        let shape = match kind {
            OpKind::Concat { axis } => {
                let around = |id: ValueId| {
                    let mut shape = self.shape(id);
                    (*axis < shape.len()).then(|| shape.remove(*axis)).map(|_| shape)
                };
                let alike = inputs.iter().all(|&id| around(id).is_some_and(|rest| Some(rest) == around(first)));
                let parts: Vec<ValueId> = inputs.iter().copied().filter(|&id| self.ty(id).elements() > 0).collect();
                match alike {
                    false => return None,
                    true if parts.is_empty() => shape,
                    true => return Some(self.concat(&parts, *axis)),
                }
            }
            OpKind::Reshape | OpKind::Broadcast => declared?.shape.clone(),
            OpKind::Transpose { perm } => perm.iter().map(|&axis| shape.get(axis).copied()).collect::<Option<_>>()?,
            OpKind::Cast | OpKind::Unary(_) => shape,
            OpKind::Binary(f) if !f.is_comparison() => {
                broadcast(kind.name(), &shape, &self.shape(*inputs.get(1)?)).ok()?
            }
            _ => return None,
        };
        let dtype = declared.map_or(self.dtype(first), |ty| ty.dtype);
        let ty = TensorType { dtype, shape };
        (ty.elements() == 0).then(|| Ok(self.nothing(ty)))
    }
}
