//! Values without elements, such as the keys before the first step of a decoder: they are constants, and nothing computes them.

use super::{Builder, Built};
use crate::graph::{Data, Tensor, TensorType, ValueId, elements};
use crate::infer::infer_open;
use crate::ops::{OpKind, ReduceKind};

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

    /// The result of an operation with operands without elements: a concatenation of the others, a value
    /// without elements, or sums of none. `None` if the operation makes other elements from none.
    pub(super) fn without(
        &mut self,
        kind: &OpKind,
        inputs: &[ValueId],
        declared: Option<&TensorType>,
    ) -> Option<Built> {
        let &first = inputs.first()?;
        let shape = self.shape(first);
        let ty = match kind {
            OpKind::Concat { axis } => {
                let around = |id: ValueId| {
                    let mut shape = self.shape(id);
                    (*axis < shape.len()).then(|| shape.remove(*axis)).map(|_| shape)
                };
                let alike = inputs.iter().all(|&id| around(id).is_some_and(|rest| Some(rest) == around(first)));
                let parts: Vec<ValueId> = inputs.iter().copied().filter(|&id| self.ty(id).elements() > 0).collect();
                match alike {
                    false => return None,
                    true if parts.is_empty() => self.ty(first).clone(),
                    true => return Some(self.concat(&parts, *axis)),
                }
            }
            OpKind::Slice { begin, end, stride } => {
                let extents = begin.iter().zip(end).zip(stride);
                let shape = extents.map(|((&from, to), &by)| Some(to.checked_sub(from)?.div_ceil(by.max(1))));
                TensorType { dtype: self.dtype(first), shape: shape.collect::<Option<_>>()? }
            }
            OpKind::GatherAlong { .. } => TensorType { dtype: self.dtype(first), shape: self.shape(*inputs.get(1)?) },
            // Updates of nothing.
            OpKind::ScatterAlong { .. } | OpKind::ScatterNd { .. } if elements(&shape) > 0 => return Some(Ok(first)),
            OpKind::Reshape
            | OpKind::Broadcast
            | OpKind::Transpose { .. }
            | OpKind::Cast
            | OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Select
            | OpKind::MatMul { .. }
            | OpKind::Linear
            | OpKind::Combine
            | OpKind::Reduce { .. }
            | OpKind::Softmax { .. }
            | OpKind::Gather { .. }
            | OpKind::GatherNd { .. }
            | OpKind::LayerNorm { .. }
            | OpKind::BatchNorm { .. }
            | OpKind::Pad { .. } => {
                let types: Vec<&TensorType> = inputs.iter().map(|&id| self.ty(id)).collect();
                infer_open(kind, &types, declared)?
            }
            _ => return None,
        };
        if ty.elements() == 0 {
            return Some(Ok(self.nothing(ty)));
        }
        // Sums without terms.
        let zero = matches!(kind, OpKind::MatMul { .. } | OpKind::Reduce { kind: ReduceKind::Sum, .. });
        zero.then(|| {
            let zero = self.constant("zero", Tensor { shape: Vec::new(), data: Data::from_f32(ty.dtype, &[0.0]) });
            self.broadcast(zero, ty.shape)
        })
    }
}
