//! Booleans of one byte at inputs and outputs, as zin 9.509 has them (`docs/evidence.md`, key `h13-bytes`): planar tasks convert them, and
//! `logical_not` reads and writes them.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{Binary, DType, ValueId};
use std::sync::Arc;

impl Lowerer<'_> {
    /// Returns true for a port of booleans that one task can read or write whole.
    pub(super) fn has_bytes(&self, id: ValueId) -> bool {
        let (value, hal) = (self.net.value(id), &self.chip.hal);
        let shape = &value.ty.shape;
        let limits = [hal.max_tensor_width, hal.max_tensor_height, hal.max_tensor_channels];
        let within = |(extent, most): (&usize, Option<u64>)| most.is_none_or(|most| *extent as u64 <= most);
        let fits = shape.len() <= 3 || shape.len() == 4 && shape[0] <= self.max_groups();
        let whole = fits && shape.iter().rev().zip(limits).all(within);
        let boolean = value.ty.dtype == DType::Bool && value.surface.is_none();
        self.options.conventions().booleans_are_bytes && boolean && whole
    }

    /// The bytes of an input as fp16, in scratch memory.
    pub(super) fn widened(&mut self, id: ValueId) -> Result<Option<View>> {
        let Some(bytes) = self.bytes.get(&id).filter(|_| self.net.inputs.contains(&id)).cloned() else {
            return Ok(None);
        };
        let to = self.scratch("widened", &bytes.shape());
        self.planar_one(&bytes, &to, Affine::UNIT, false)?;
        self.views.insert(id, to.clone());
        Ok(Some(to))
    }

    /// A conversion of an input of bytes that nothing else has widened (`cast_b_to_f16_1x1x375x375`). Returns false for others.
    pub(super) fn cast_bytes(&mut self, x: ValueId, to: &View) -> Result<bool> {
        let bytes = self.bytes.get(&x).filter(|_| self.net.inputs.contains(&x) && !self.views.contains_key(&x));
        let Some(bytes) = bytes.cloned() else { return Ok(false) };
        self.planar_one(&bytes, to, Affine::UNIT, false)?;
        Ok(true)
    }

    /// The opposite of an input of bytes as an output of bytes (`logical_not_1x1x375x375`). Returns false for others.
    pub(super) fn opposite_bytes(&mut self, f: Binary, operands: [ValueId; 2], out: ValueId) -> Result<bool> {
        let [x, y] = operands;
        let absent = self.constant(y).is_some_and(|t| t.data.to_f32() == [0.0]);
        let ports = self.net.inputs.contains(&x) && self.net.ops.iter().all(|op| !op.inputs.contains(&out));
        let (Some(from), Some(to)) = (self.bytes.get(&x).cloned(), self.bytes.get(&out).cloned()) else {
            return Ok(false);
        };
        if f != Binary::Equal || !absent || !ports {
            return Ok(false);
        }
        let nonlinear = Nonlinear::Table(Arc::new(Table::opposite()));
        self.elementwise(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, &from, &to)?;
        self.views.insert(out, to);
        Ok(true)
    }

    /// Stores the booleans that outputs have as bytes.
    pub(super) fn store_bytes(&mut self) -> Result<()> {
        for &id in &self.net.outputs {
            let Some(port) = self.bytes.get(&id).cloned() else { continue };
            (self.op, self.kind) = (self.net.value(id).name.clone(), "port".into());
            let from = self.view(id)?;
            if from.buffer != port.buffer {
                self.planar_one(&from, &port, Affine::UNIT, false)?;
            }
        }
        Ok(())
    }
}
