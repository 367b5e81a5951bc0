//! Booleans of one byte at inputs and outputs, as zin 9.509 has them (`docs/evidence.md`, key `h13-bytes`): planar tasks convert them, and
//! `logical_not` reads and writes them.

use super::Lowerer;
use super::layout::copy_kind;
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
        let Some((from, to)) = self.byte_ports(x, out).filter(|_| f == Binary::Equal && absent) else {
            return Ok(false);
        };
        let nonlinear = Nonlinear::Table(Arc::new(Table::opposite()));
        self.elementwise(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, &from, &to)?;
        self.views.insert(out, to);
        Ok(true)
    }

    /// A choice of computed floats by an input of bytes: the sum of their products with the truth value and its opposite
    /// (`select_rrb_1x8x375x375`). Returns false for others.
    pub(super) fn select_bytes(&mut self, c: ValueId, [x, y]: [ValueId; 2], out: ValueId) -> Result<bool> {
        let computed = |id: ValueId| self.net.value(id).ty.dtype.is_float() && self.constant(id).is_none();
        let bytes = self.bytes.get(&c).filter(|_| self.net.inputs.contains(&c) && computed(x) && computed(y));
        let Some(bytes) = bytes.cloned() else { return Ok(false) };
        let to = self.result(out);
        let mut products = Vec::new();
        for (table, side) in [(Table::opposite(), y), (Table::truth(), x)] {
            let [factor, product] =
                [("factor", &bytes), ("product", &to)].map(|(name, like)| self.scratch(name, &like.shape()));
            let (nonlinear, side) = (Nonlinear::Table(Arc::new(table)), self.view(side)?);
            self.elementwise(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, &bytes, &factor)?;
            self.planar_two(PlanarOp::Mul, Affine::UNIT, &factor, &side, &product)?;
            products.push(product);
        }
        self.planar_two(PlanarOp::Add, Affine::UNIT, &products[1], &products[0], &to)?;
        Ok(true)
    }

    /// A permutation of an input of bytes that exchanges the last axis with another one, as an output of bytes
    /// (`candidate_transpose_bool_1x375x375_021`). Returns false for others.
    pub(super) fn transpose_bytes(&mut self, perm: &[usize], x: ValueId, out: ValueId) -> Result<bool> {
        let Some((&moved, rest)) = perm.split_last() else { return Ok(false) };
        let last = rest.len();
        let exchanges = moved != last && rest.iter().enumerate().all(|(i, &p)| p == if i == moved { last } else { i });
        let hal = &self.chip.hal;
        let within = |extent: usize, most: Option<u64>| most.is_none_or(|most| extent as u64 <= most);
        let Some((from, to)) = self.byte_ports(x, out).filter(|(from, to)| {
            exchanges && within(from.width, hal.max_transpose_width) && within(to.width, hal.max_transpose_height)
        }) else {
            return Ok(false);
        };
        self.copy_transposed(&from, &to, moved)?;
        self.views.insert(out, to);
        Ok(true)
    }

    /// An input and an output of bytes, the latter read by no operation.
    fn byte_ports(&self, x: ValueId, out: ValueId) -> Option<(View, View)> {
        let ports = self.net.inputs.contains(&x) && self.links.readers(out).is_empty();
        let from = self.bytes.get(&x).filter(|_| ports)?;
        Some((from.clone(), self.bytes.get(&out)?.clone()))
    }

    /// `x < y` of computed floats of the same extents, as an output of bytes (`less_bool_rr_750x1x1`): their channels in pairs, a difference by
    /// coefficients of one byte, and a step. Returns false for others.
    pub(super) fn less_bytes(&mut self, f: Binary, [x, y]: [ValueId; 2], out: ValueId) -> Result<bool> {
        let [x, y] = match f {
            Binary::Less => [x, y],
            Binary::Greater => [y, x],
            _ => return Ok(false),
        };
        let computed = |id: ValueId| self.net.value(id).ty.dtype.is_float() && self.constant(id).is_none();
        let alike = [x, y].iter().all(|&id| computed(id) && self.shape(id) == self.shape(out));
        let Some(port) = self.bytes.get(&out).filter(|_| alike && self.links.readers(out).is_empty()).cloned() else {
            return Ok(false);
        };
        let (Some(a), Some(b), Some(to)) = (self.view(x)?.nchw(), self.view(y)?.nchw(), port.nchw()) else {
            return Ok(false);
        };
        let channels = to.channels();
        if to.groups() > 1 || 2 * channels > self.axis_limits()[1] {
            return Ok(false);
        }
        let Some(pairs) = self.scratch("pairs", &[2 * channels, to.height(), to.width]).nchw() else {
            return Ok(false);
        };
        let each = |from: usize| {
            let Axis { stride_bytes, .. } = pairs.axes[1];
            let apart = Axis { extent: channels, stride_bytes: 2 * stride_bytes };
            let offset_bytes = pairs.offset_bytes + from as u64 * stride_bytes;
            View4 { offset_bytes, axes: [pairs.axes[0], apart, pairs.axes[2]], ..pairs }
        };
        let plain = vec![[false; 3]];
        for (from, operand) in [(1, b), (0, a)] {
            self.push(copy_kind(), vec![operand], plain.clone(), each(from), false);
        }
        let weights = Weights { form: StreamForm::Int8, ..Weights::from([1.0, -1.0].repeat(channels)) };
        let difference = Kind::Conv {
            window: Window::UNIT,
            connect: Connect::Unicast { per_output: 2 },
            weights: Arc::new(weights),
            bias: None,
            post_scale: 1.0,
            nonlinear: Nonlinear::Table(Arc::new(Table::negative())),
        };
        self.push(difference, vec![pairs], plain, to, false);
        self.views.insert(out, port);
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
