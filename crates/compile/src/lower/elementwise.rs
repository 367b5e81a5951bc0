//! Lowering of elementwise operations of two operands, and the planar tasks that unary functions consist of.

use super::Lowerer;
use super::product::rows_as_channels;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{Binary, DType, OpKind, Unary, ValueId};
use half::f16;
use std::sync::Arc;

impl Lowerer<'_> {
    /// A planar task with one source.
    pub(super) fn planar_one(&mut self, from: &View, to: &View, affine: Affine, abs: bool) -> Result<()> {
        let kind = Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs, affine, relu: false };
        self.elementwise(kind, from, to)
    }

    /// A planar task with two sources; axes of extent 1 are broadcast.
    pub(super) fn planar_two(&mut self, op: PlanarOp, affine: Affine, a: &View, b: &View, to: &View) -> Result<()> {
        for piece in self.strips(&[a, b, to]) {
            self.planar_strip(op, affine, &piece[0], &piece[1], &piece[2])?;
        }
        Ok(())
    }

    fn planar_strip(&mut self, op: PlanarOp, affine: Affine, a: &View, b: &View, to: &View) -> Result<()> {
        let (a, mut b) = (aligned(a, to.lead.len()), aligned(b, to.lead.len()));
        let from_memory = self.graph.buffer(b.buffer).role != Role::Scratch;
        if self.options.conventions().repeated_operands_staged && from_memory && b.elements() < to.elements() {
            // A broadcast operand is copied to tile memory once.
            let staged = self.scratch("operand", &b.shape());
            self.copy(&b, &staged)?;
            b = staged;
        }
        // Broadcast leading axes have stride 0, so that views of equal extents can be split together; an axis of the task that is
        // broadcast as a whole then has stride 0 and becomes a flag.
        let (wide_a, wide_b) = (repeated(&a, to), repeated(&b, to));
        for parts in self.blocks(&[&wide_a, &wide_b, to])? {
            let flag = |v: View4, width: usize| {
                let on = |i: usize| v.axes[i].extent > 1 && v.axes[i].stride_bytes == 0;
                let flags = [on(1), on(2), width == 1 && v.width > 1];
                let mut narrow = v;
                for (i, flagged) in [(1, flags[0]), (2, flags[1])] {
                    if flagged {
                        narrow.axes[i].extent = 1;
                    }
                }
                if flags[2] {
                    narrow.width = 1;
                }
                (narrow, flags)
            };
            let ((a4, fa), (b4, fb)) = (flag(parts[0], a.width), flag(parts[1], b.width));
            let kind = Kind::Planar { op, affine, relu: false };
            self.push(kind, vec![a4, b4], vec![fa, fb], parts[2], false);
        }
        Ok(())
    }

    pub(super) fn table(&mut self, table: Table, add: f32, post_scale: f32, from: &View, to: &View) -> Result<()> {
        let nonlinear = Nonlinear::Table(Arc::new(table));
        self.elementwise(Kind::Neuron { add, post_scale, nonlinear }, from, to)
    }

    /// Applies a table, into scratch memory.
    pub(super) fn tabled(
        &mut self,
        suffix: &str,
        table: Table,
        add: f32,
        post_scale: f32,
        from: &View,
    ) -> Result<View> {
        let to = self.scratch(suffix, &from.shape());
        self.table(table, add, post_scale, from, &to)?;
        Ok(to)
    }

    pub(super) fn affined(&mut self, suffix: &str, affine: Affine, abs: bool, from: &View) -> Result<View> {
        let to = self.scratch(suffix, &from.shape());
        self.planar_one(from, &to, affine, abs)?;
        Ok(to)
    }

    pub(super) fn binary(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let integer = self.net.value(out).ty.dtype.is_integer();
        match f {
            Binary::Pow => return self.power(x, y, out),
            Binary::Div | Binary::FloorDiv | Binary::Mod if integer => return self.integer_division(f, x, y, out),
            f if f.is_of_bits() => {
                return Err(self.unsupported(
                    format!("{} of integers: fp16 has no bits of them", f.name()),
                    "compute it on the host",
                ));
            }
            _ => {}
        }
        if self.opposite_bytes(f, [x, y], out)? || self.less_bytes(f, [x, y], out)? {
            return Ok(());
        }
        if let Some(c) = self.scalar(y)
            && self.scalar_right(f, x, c, out)?
        {
            return Ok(());
        }
        if let Some(c) = self.scalar(x)
            && self.scalar_left(f, c, y, out)?
        {
            return Ok(());
        }
        if self.options.conventions().constants_per_channel
            && (self.channel_affine(f, x, y, out)? || self.channel_bound(f, x, y, out)?)
        {
            return Ok(());
        }
        let (mut a, mut b) = (self.view(x)?, self.view(y)?);
        let mut to = self.result(out);
        if self.options.conventions().operands_kept && self.summed_for_norms.contains(&out) {
            [a, b, to] = [&a, &b, &to].map(rows_as_channels);
        }
        let op = match f {
            Binary::Add => PlanarOp::Add,
            Binary::Sub => PlanarOp::Sub,
            Binary::Mul => PlanarOp::Mul,
            Binary::Max => PlanarOp::Max,
            Binary::Min => PlanarOp::Min,
            Binary::Div
                if self.options.conventions().divisors_transposed
                    && !self.may_be_least(y)
                    && self.turned_inverse(&a, &b, &to) =>
            {
                return Ok(());
            }
            Binary::Div => {
                let known = self.inverses.get(&y).filter(|v| v.shape() == b.shape()).cloned();
                let inverse = match known {
                    Some(inverse) => inverse,
                    None => {
                        let inverse = self.tabled("inverse", Table::reciprocal(), 0.0, 1.0, &b)?;
                        match self.may_be_least(y) {
                            false => inverse,
                            true => {
                                let most = self.scratch("most", &inverse.shape());
                                let table = Table::clip(f32::NEG_INFINITY, f16::MAX.to_f32());
                                self.table(table, 0.0, 1.0, &inverse, &most)?;
                                most
                            }
                        }
                    }
                };
                self.inverses.insert(y, inverse.clone());
                return self.planar_two(PlanarOp::Mul, Affine::UNIT, &a, &inverse, &to);
            }
            Binary::Pow
            | Binary::FloorDiv
            | Binary::Mod
            | Binary::BitAnd
            | Binary::BitOr
            | Binary::BitXor
            | Binary::ShiftLeft
            | Binary::ShiftRight => {
                return Err(self.unsupported(format!("{} of floats", f.name()), "compute it on the host"));
            }
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual => return self.comparison(f, [x, y], &to),
        };
        self.planar_two(op, Affine::UNIT, &a, &b, &to)
    }

    /// Adds or multiplies a constant per channel: addends and factors are staged in tile memory and applied by the planar engine
    /// (the gain-offset control of the book, chapter 22).
    fn channel_affine(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<bool> {
        let (x, constant) = match (f, self.constant(x), self.constant(y)) {
            (Binary::Add | Binary::Sub | Binary::Mul, None, Some(c)) => (x, c.clone()),
            (Binary::Add | Binary::Mul, Some(c), None) => (y, c.clone()),
            _ => return Ok(false),
        };
        let shape = self.shape(x);
        let Some(axis) = shape.len().checked_sub(3) else { return Ok(false) };
        let own = constant.shape.len();
        let channels = shape[axis];
        let per_channel = (0..own).all(|i| constant.shape[i] == if i + 3 == own { channels } else { 1 });
        if channels == 1 || own < 3 || !per_channel || shape != self.shape(out) {
            return Ok(false);
        }
        let values = constant.data.to_f32();
        let ones = vec![1.0; channels];
        let pairs = match f {
            Binary::Add => [values, ones],
            Binary::Sub => [values.iter().map(|v| -v).collect(), ones],
            _ => [vec![0.0; channels], values],
        };
        self.affine_of_channels(pairs, x, out)?;
        Ok(true)
    }

    /// Addends and factors of the channels of `x`, which have several, by the planar engine.
    fn affine_of_channels(&mut self, pairs: [Vec<f32>; 2], x: ValueId, out: ValueId) -> Result<()> {
        let channels = pairs[0].len();
        let name = format!("{}.affine", self.op);
        let table = self.constant_view(&name, &[2, channels], &pairs.concat());
        let staged = self.scratch("affine", &[2, channels]);
        self.copy(&table, &staged)?;
        let (from, to) = (self.view(x)?, self.result(out));
        let second = staged.nchw().ok_or_else(|| self.unsupported("more than four axes", "reshape first"))?;
        for strip in self.strips(&[&from, &to]) {
            // The channels stay an axis of their own; only the batch is unrolled.
            let (Some(from), Some(to)) = (strip[0].nchw(), strip[1].nchw()) else {
                return Err(self.unsupported("more than four axes", "reshape first"));
            };
            for n in 0..from.groups() {
                let at = |v: View4| View4 {
                    offset_bytes: v.offset_bytes + n as u64 * v.axes[0].stride_bytes,
                    axes: [Axis { extent: 1, stride_bytes: 0 }, v.axes[1], v.axes[2]],
                    ..v
                };
                self.push(
                    Kind::ChannelAffine { subtract: false, scale: 1.0 },
                    vec![at(from), second],
                    vec![[false; 3]; 2],
                    at(to),
                    false,
                );
                self.source_turned(1);
            }
        }
        Ok(())
    }

    /// Maximum or minimum of a column of channels and as many constants, which are staged in tile memory as a row that
    /// the planar engine transposes.
    fn channel_bound(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<bool> {
        let op = match f {
            Binary::Max => PlanarOp::Max,
            Binary::Min => PlanarOp::Min,
            _ => return Ok(false),
        };
        let (x, constant) = match (self.constant(x), self.constant(y)) {
            (None, Some(c)) => (x, c.clone()),
            (Some(c), None) => (y, c.clone()),
            _ => return Ok(false),
        };
        let (shape, own) = (self.shape(x), &constant.shape);
        let channels = shape.iter().product::<usize>();
        let column = shape.len() >= 3 && shape[shape.len() - 3] == channels && channels > 1;
        if !column || shape != self.shape(out) || own.iter().product::<usize>() != channels {
            return Ok(false);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        let (Some(from), Some(to)) = (from.nchw(), to.nchw()) else { return Ok(false) };
        let name = format!("{}.bound", self.op);
        let row = self.constant_view(&name, &[1, channels], &constant.data.to_f32());
        let staged = self.scratch("bound", &[1, channels]);
        self.copy(&row, &staged)?;
        let Some(second) = staged.nchw() else { return Ok(false) };
        let kind = Kind::Planar { op, affine: Affine::UNIT, relu: false };
        self.push(kind, vec![from, second], vec![[false; 3]; 2], to, false);
        self.source_turned(1);
        Ok(true)
    }

    /// Marks a source of the last layer as transposed: channels and columns exchanged.
    pub(super) fn source_turned(&mut self, source: usize) {
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.turned[source] = true;
        }
    }

    /// `a / b` for a single column of channels `b`: its reciprocals are computed as a row, which the product transposes back.
    fn turned_inverse(&mut self, a: &View, b: &View, to: &View) -> bool {
        let (Some(a4), Some(b4), Some(to4)) = (a.nchw(), b.nchw(), to.nchw()) else { return false };
        let column = b4.groups() == 1 && b4.channels() > 1 && b4.height() == 1 && b4.width == 1;
        let same = |v: &View4| (v.axes.map(|x| x.extent), v.width) == (b4.axes.map(|x| x.extent), b4.width);
        if !column || !same(&a4) || !same(&to4) {
            return false;
        }
        let row = self.scratch("inverse", &[1, b4.channels()]);
        let Some(row) = row.nchw() else { return false };
        let nonlinear = Nonlinear::Table(Arc::new(Table::reciprocal()));
        self.push(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, vec![b4], vec![[false; 3]], row, true);
        let kind = Kind::Planar { op: PlanarOp::Mul, affine: Affine::UNIT, relu: false };
        self.push(kind, vec![a4, row], vec![[false; 3]; 2], to4, false);
        self.source_turned(1);
        true
    }

    /// Returns true for a divisor that a small number was added to, so that it is never zero, and whose inverse may be beyond fp16. Bounded
    /// inverses keep the quotient of zero and such a divisor zero.
    fn may_be_least(&self, y: ValueId) -> bool {
        let made = self.links.maker(y);
        let Some((OpKind::Binary(Binary::Add), inputs)) = made.map(|op| (&op.kind, &op.inputs)) else { return false };
        let small = |&id: &ValueId| self.scalar(id).is_some_and(|c| c > 0.0 && 1.0 / c > f16::MAX.to_f32());
        self.options.conventions().whole_epilogues && inputs.iter().any(small)
    }

    /// A conversion with arithmetic: floats lose their fraction on the way to an integer.
    pub(super) fn cast(&mut self, x: ValueId, out: ValueId) -> Result<()> {
        let (source, target) = (self.net.value(x).ty.dtype, self.net.value(out).ty.dtype);
        if target == DType::Bool {
            let to = self.result(out);
            return self.differs_from_zero(x, &to);
        }
        let to = self.result(out);
        if self.cast_bytes(x, &to)? {
            return Ok(());
        }
        let from = self.view(x)?;
        if source.is_float() && !target.is_float() {
            return self.table(Table::truncate(), 0.0, 1.0, &from, &to);
        }
        self.copy(&from, &to)
    }

    /// Broadcasts axes by a maximum of the operand with itself.
    pub(super) fn broadcast(&mut self, x: ValueId, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        let extents = |view: &View| view.nchw().map(|v| [v.groups(), v.channels(), v.width]);
        let from_memory = self.graph.buffer(from.buffer).role != Role::Scratch;
        let rows = extents(&from) == extents(&to) && from.nchw().is_some_and(|v| v.height() == 1);
        if self.options.conventions().repeated_operands_staged && from_memory && rows {
            return self.repeated_rows(&from, &to);
        }
        self.planar_two(PlanarOp::Max, Affine::UNIT, &from, &from, &to)
    }

    /// Repeats the row of each channel, by a planar task with one source (`tile_r_1x8x1x375_reps_113751`).
    fn repeated_rows(&mut self, from: &View, to: &View) -> Result<()> {
        let affine = Affine::UNIT;
        let kind = Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs: false, affine, relu: false };
        for piece in self.strips(&[&aligned(from, to.lead.len()), to]) {
            let wide = repeated(&piece[0], &piece[1]);
            for parts in self.blocks(&[&wide, &piece[1]])? {
                let (mut source, result) = (parts[0], parts[1]);
                let rows = source.height() > 1 && source.axes[2].stride_bytes == 0;
                source.axes[2].extent = if rows { 1 } else { source.height() };
                self.push(kind.clone(), vec![source], vec![[false, rows, false]], result, false);
            }
        }
        Ok(())
    }

    /// The value of a constant whose elements are all the same finite number.
    fn scalar(&self, id: ValueId) -> Option<f32> {
        let data = self.constant(id)?.data.to_f32();
        let (&first, rest) = data.split_first()?;
        // 9.509 stages a row of numbers without comparing them.
        let row = self.net.value(id).ty.shape.last().is_some_and(|&n| n > 1);
        let one = !self.options.conventions().rows_are_no_scalars || !row;
        (one && first.is_finite() && rest.iter().all(|&x| x == first)).then_some(first)
    }

    /// Returns true if an operand is not broadcast: it has the result's extents, ignoring leading axes of one element.
    pub(super) fn covers(&self, operand: ValueId, out: ValueId) -> bool {
        let strip = |shape: Vec<usize>| shape.into_iter().skip_while(|&n| n == 1).collect::<Vec<_>>();
        strip(self.shape(operand)) == strip(self.shape(out))
    }

    /// `f(x, c)` as one task, if there is one.
    fn scalar_right(&mut self, f: Binary, x: ValueId, c: f32, out: ValueId) -> Result<bool> {
        let unit = Affine::UNIT;
        let affine = match f {
            _ if !self.covers(x, out) => return Ok(false),
            Binary::Add => Affine { bias: c, ..unit },
            Binary::Sub => Affine { bias: -c, ..unit },
            Binary::Mul if self.options.conventions().factors_are_scales && f16::from_f32(c).to_f32() == c => {
                Affine { scale: c, ..unit }
            }
            Binary::Mul => Affine { final_scale: c, ..unit },
            Binary::Div if c != 0.0 && self.divides_channels(x, out) => {
                let channels = self.channels_of(x);
                self.affine_of_channels([vec![0.0; channels], vec![1.0 / c; channels]], x, out)?;
                return Ok(true);
            }
            // The quotient of one channel by a number with an fp16 inverse, as the product (`floor_div_comp_1_s2`).
            Binary::Div
                if self.options.conventions().factors_are_scales && f16::from_f32(1.0 / c).to_f32() * c == 1.0 =>
            {
                Affine { scale: 1.0 / c, ..unit }
            }
            Binary::Div if c != 0.0 => Affine { final_scale: 1.0 / c, ..unit },
            Binary::Max | Binary::Min => return self.scalar_function(f, x, c, out),
            _ => return Ok(false),
        };
        if f == Binary::Mul
            && self.options.conventions().whole_epilogues
            && let Some((from, to)) = self.turned_pair(x, out)
        {
            let (from, to) = (self.channels(&from)?, self.channels(&to)?);
            let kind = Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs: false, affine, relu: false };
            self.push(kind, vec![from], vec![[false; 3]], to, false);
            return Ok(true);
        }
        if self.options.conventions().numbers_after_transposes && self.turned_affine(x, out, affine)? {
            return Ok(true);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        self.planar_one(&aligned(&from, to.lead.len()), &to, affine, false)?;
        Ok(true)
    }

    /// Returns true where a number that divides `x` is a factor of each channel (`binary_real_div_c64_constant_scalar`).
    fn divides_channels(&self, x: ValueId, out: ValueId) -> bool {
        let conventions = self.options.conventions();
        conventions.divisors_per_channel && self.channels_of(x) > 1 && self.shape(x) == self.shape(out)
    }

    /// Extent of the third axis from the last, 1 where there is none.
    fn channels_of(&self, x: ValueId) -> usize {
        let shape = self.shape(x);
        shape.len().checked_sub(3).map_or(1, |axis| shape[axis])
    }

    fn scalar_function(&mut self, f: Binary, x: ValueId, c: f32, out: ValueId) -> Result<bool> {
        let unary = match f {
            Binary::Max => Unary::Clip { min: c, max: f32::INFINITY },
            Binary::Min => Unary::Clip { min: f32::NEG_INFINITY, max: c },
            _ => return Ok(false),
        };
        let (from, to) = (self.view(x)?, self.result(out));
        self.unary_into(unary, &aligned(&from, to.lead.len()), &to)?;
        Ok(true)
    }

    /// `f(c, y)` as one task, if there is one.
    fn scalar_left(&mut self, f: Binary, c: f32, y: ValueId, out: ValueId) -> Result<bool> {
        match f {
            Binary::Add | Binary::Mul | Binary::Max | Binary::Min => self.scalar_right(f, y, c, out),
            Binary::Sub if self.covers(y, out) => {
                let (from, to) = (self.view(y)?, self.result(out));
                let affine = Affine { pre_scale: -1.0, bias: c, ..Affine::UNIT };
                self.planar_one(&aligned(&from, to.lead.len()), &to, affine, false)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Adds leading axes of extent 1 up to `rank`.
pub(super) fn aligned(view: &View, rank: usize) -> View {
    let mut view = view.clone();
    while view.lead.len() < rank {
        view.lead.insert(0, Axis { extent: 1, stride_bytes: 0 });
    }
    while view.lead.len() > rank && view.lead[0].extent == 1 {
        view.lead.remove(0);
    }
    view
}

/// Broadcasts a view to the extents of `to`: axes of extent 1 get stride 0. The width stays.
fn repeated(view: &View, to: &View) -> View {
    let lead = view
        .lead
        .iter()
        .zip(&to.lead)
        .map(|(a, t)| if a.extent == t.extent { *a } else { Axis { extent: t.extent, stride_bytes: 0 } })
        .collect();
    View { lead, width: to.width, ..view.clone() }
}
