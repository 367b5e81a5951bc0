//! Ports: the memory of inputs and outputs, in the caller's layout.

use super::{Lowerer, PORTS};
use crate::error::Result;
use crate::ir::*;
use anemone_net::ValueId;
use anemone_program::{BAR_COUNT, Program};
use std::collections::HashSet;

/// Base registers that are left for ports.
const MOST_PORTS: u64 = BAR_COUNT as u64 - Program::FIRST_PORT_BAR as u64;

impl Lowerer<'_> {
    /// Adds the buffers of all inputs and outputs.
    pub(super) fn bind_ports(&mut self) -> Result<()> {
        let names: HashSet<ValueId> = self.net.inputs.iter().chain(&self.net.outputs).copied().collect();
        // The name of an operation that alone has too many is one that others can do without the engine.
        self.op = match self.net.ops.as_slice() {
            [only] => only.name.clone(),
            _ => self.net.name.clone(),
        };
        self.limit(PORTS, names.len(), Some(MOST_PORTS))?;
        for &id in self.net.inputs.iter().chain(&self.net.outputs) {
            if self.views.contains_key(&id) || self.bytes.contains_key(&id) {
                continue;
            }
            let value = self.net.value(id);
            let role = if self.net.inputs.contains(&id) { Role::Input } else { Role::Output };
            let element_bytes = if self.has_bytes(id) { 1 } else { ELEMENT_BYTES };
            let (mut lead, mut bytes) = dense_axes_of(&value.ty.shape, element_bytes);
            if let Some(surface) = value.surface {
                self.op = value.name.clone();
                self.kind = "port".into();
                if surface.interleave > 1 {
                    return Err(self.unsupported("interleaved channels", "use an interleave of 1"));
                }
                (lead, bytes) =
                    surface_axes(&value.ty.shape, surface.plane_bytes, surface.row_bytes).ok_or_else(|| {
                        self.unsupported("strides that overlap or are not multiples of 64", "leave the strides out")
                    })?;
            }
            let width = value.ty.shape.last().copied().unwrap_or(1);
            let buffer = self.graph.add_buffer(Buffer {
                name: value.name.clone(),
                role: role.clone(),
                bytes,
                port: None,
                element_bytes,
                constant: None,
            });
            let view = View { buffer, offset_bytes: 0, lead, width };
            self.graph.buffers[buffer.0 as usize].port = Some(view.clone());
            let of = if element_bytes == 1 { &mut self.bytes } else { &mut self.views };
            of.insert(id, view);
            if role == Role::Input { &mut self.graph.inputs } else { &mut self.graph.outputs }.push(buffer);
        }
        Ok(())
    }

    /// Outputs that are constants are copied; who reads them reads the constant.
    pub(super) fn constant_outputs(&mut self) -> Result<()> {
        for &id in &self.net.outputs {
            let value = self.net.value(id);
            let Some(tensor) = value.data.clone() else { continue };
            let Some(port) = self.views.get(&id).cloned() else { continue };
            (self.op, self.kind) = (value.name.clone(), "constant".into());
            let (shape, name) = (self.shape(id), format!("{}.constant", value.name));
            let constant = self.constant_view(&name, &shape, &tensor.data.to_f32());
            self.copy(&constant, &port)?;
            self.views.insert(id, constant);
        }
        Ok(())
    }
}

/// Leading axes and size for a rank 4 port with strides of the caller's choice.
fn surface_axes(shape: &[usize], plane_bytes: u64, row_bytes: u64) -> Option<(Vec<Axis>, u64)> {
    let &[n, c, h, w] = shape else { return None };
    let fits = row_bytes >= w as u64 * ELEMENT_BYTES
        && plane_bytes >= row_bytes.checked_mul(h as u64)?
        && row_bytes.is_multiple_of(ROW_ALIGN)
        && plane_bytes.is_multiple_of(ROW_ALIGN);
    let batch = plane_bytes.checked_mul(c as u64)?;
    let bytes = batch.checked_mul(n as u64)?;
    let axis = |extent, stride_bytes| Axis { extent, stride_bytes };
    fits.then(|| (vec![axis(n, batch), axis(c, plane_bytes), axis(h, row_bytes)], bytes))
}
