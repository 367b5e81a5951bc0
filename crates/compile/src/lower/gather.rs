//! Lowering of gathers at computed positions: for each position along the axis, a mask of where it is requested keeps its elements in a
//! minimum, or replaces them by minus infinity; the maximum over all positions is the result. Without multiplications, elements of any
//! size stay unchanged. A requested NaN becomes plus infinity.

use super::Lowerer;
use super::elementwise::aligned;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use crate::rewrite::lookups::{MOST_POSITIONS, MOST_TOGETHER};
use anemone_net::{DType, ReduceKind, ValueId};

const INF: f32 = f32::INFINITY;

impl Lowerer<'_> {
    /// The axes of the positions replace the axis.
    pub(super) fn gather(&mut self, axis: usize, x: ValueId, places: ValueId, out: ValueId) -> Result<()> {
        let (source, to) = (self.view(x)?, self.result(out));
        let own = self.net.value(places).ty.shape.len();
        let (rank, mut places) = (self.net.value(x).ty.shape.len(), self.positions(places, source.shape()[axis])?);
        for _ in axis + 1..rank {
            places = self.behind(places)?;
        }
        let slot = |mut element: View| {
            for _ in 1..own {
                element.lead.insert(axis.min(element.lead.len()), Axis { extent: 1, stride_bytes: 0 });
            }
            element
        };
        self.pick(&source, axis, &places, &to, slot)
    }

    /// Each index is one position along the axis behind the batch axes; the axes of the indices replace that axis.
    pub(super) fn gather_nd(&mut self, axis: usize, x: ValueId, places: ValueId, out: ValueId) -> Result<()> {
        let [from, own] = [x, places].map(|id| self.net.value(id).ty.shape.clone());
        if own.last() != Some(&1) || own.len() < axis + 2 || from.len() < axis + 2 {
            return Err(self.unsupported("computed positions along several axes", "keep it on the host for now"));
        }
        let (source, to) = (self.view(x)?, self.result(out));
        let mut places = self.positions(places, from[axis])?;
        for _ in axis + 2..from.len() {
            places = self.behind(places)?;
        }
        let slot = |mut element: View| {
            for _ in axis + 2..own.len() {
                element.lead.insert(axis, Axis { extent: 1, stride_bytes: 0 });
            }
            element
        };
        self.pick(&source, axis, &places, &to, slot)
    }

    /// The positions have the result's extents; along the other axes, the first elements of the operand are read.
    pub(super) fn gather_along(&mut self, axis: usize, x: ValueId, places: ValueId, out: ValueId) -> Result<()> {
        let (mut source, to) = (self.view(x)?, self.result(out));
        for (_, (own, all)) in source.lead.iter_mut().zip(&to.lead).enumerate().filter(|(at, _)| *at != axis) {
            own.extent = all.extent;
        }
        if axis < source.lead.len() {
            source.width = to.width;
        }
        let places = self.positions(places, source.shape()[axis])?;
        self.pick(&source, axis, &places, &to, |element| element)
    }

    /// Converts negative positions, which count from the end, to positions from 0 on.
    fn positions(&mut self, places: ValueId, extent: usize) -> Result<View> {
        if extent > MOST_POSITIONS {
            return Err(self.unsupported(
                format!("computed positions along {extent} elements, at most {MOST_POSITIONS} are compared"),
                "make the positions constants, or gather on the host",
            ));
        }
        let (signed, view) = (self.net.value(places).ty.dtype != DType::U8, self.view(places)?);
        if !signed {
            return Ok(view);
        }
        let below = self.tabled("below", Table::choice_below_zero(extent as f32, 0.0), 0.0, 1.0, &view)?;
        let positions = self.scratch("positions", &view.shape());
        self.planar_two(PlanarOp::Add, Affine::UNIT, &view, &below, &positions)?;
        Ok(positions)
    }

    /// A view with an additional innermost axis of one element.
    fn behind(&mut self, view: View) -> Result<View> {
        if view.width == 1 {
            let mut lead = view.lead.clone();
            lead.push(Axis { extent: 1, stride_bytes: 0 });
            return Ok(View { lead, ..view });
        }
        let mut wide = view;
        wide.lead.push(Axis { extent: 1, stride_bytes: 0 });
        let axis = wide.lead.len() - 1;
        self.exchanged(&wide, axis, "behind")
    }

    /// Elements of `source` at positions along an axis; `slot` broadcasts one element of that axis to the result's axes.
    fn pick(
        &mut self,
        source: &View,
        axis: usize,
        places: &View,
        to: &View,
        slot: impl Fn(View) -> View,
    ) -> Result<()> {
        let last = axis == source.lead.len();
        let mut first = if last { self.behind(source.clone())? } else { source.clone() };
        let positions = std::mem::replace(&mut first.lead[axis], Axis { extent: 1, stride_bytes: 0 });
        if last {
            first.lead.pop();
        }
        let first = slot(first);
        let count = positions.extent;
        if count > 1 && count * to.elements() <= MOST_TOGETHER && first.lead.len() <= to.lead.len() {
            return self.pick_together(positions, first, places, to);
        }
        let mut best: Option<View> = None;
        for position in 0..count {
            let mut element = first.clone();
            element.offset_bytes += position as u64 * positions.stride_bytes;
            let bound = self.bound_of(&first, -(position as f32), places)?;
            let final_one = position + 1 == count;
            let alone = final_one && best.is_none();
            let bounded = if alone { to.clone() } else { self.scratch("bounded", &to.shape()) };
            self.planar_two(PlanarOp::Min, Affine::UNIT, &element, &bound, &bounded)?;
            best = Some(match best {
                None => bounded,
                Some(before) => {
                    let target = if final_one { to.clone() } else { self.scratch("best", &to.shape()) };
                    self.planar_two(PlanarOp::Max, Affine::UNIT, &before, &bounded, &target)?;
                    target
                }
            });
        }
        Ok(())
    }

    /// An upper bound of no effect on `source` where a distance plus a number is zero, and minus infinity elsewhere.
    fn bound_of(&mut self, source: &View, add: f32, distance: &View) -> Result<View> {
        if let Role::Constant(data) = &self.graph.buffer(source.buffer).role {
            let finite = |bytes: &[u8]| half::f16::from_le_bytes([bytes[0], bytes[1]]).is_finite();
            if self.options.conventions().whole_epilogues && data.chunks_exact(2).all(finite) {
                let table = Table::at_zero_or(half::f16::MAX.to_f32(), -INF);
                return self.tabled("bound", table, add, 1.0, distance);
            }
        }
        let here = self.tabled("here", Table::at_zero(), add, 1.0, distance)?;
        self.tabled("bound", Table::choice(INF, -INF), 0.0, 1.0, &here)
    }

    /// All positions at once, as the outermost axis of every step; `first` is the element at the first position.
    fn pick_together(&mut self, positions: Axis, first: View, places: &View, to: &View) -> Result<()> {
        let with = |view: &View, axis: Axis| {
            let mut view = aligned(view, to.lead.len());
            view.lead.insert(0, axis);
            view
        };
        let one = Axis { extent: 1, stride_bytes: 0 };
        let (all, at, target) = (with(&first, positions), with(places, one), with(to, one));
        let of = |view: &View| [&[positions.extent], &view.shape()[1..]].concat();
        let counted: Vec<f32> = (0..positions.extent).map(|i| i as f32).collect();
        let mut shape = vec![1; target.lead.len() + 1];
        shape[0] = positions.extent;
        let numbers = self.constant_view("positions", &shape, &counted);
        let distance = self.scratch("distance", &of(&at));
        self.planar_two(PlanarOp::Sub, Affine::UNIT, &at, &numbers, &distance)?;
        let bound = self.bound_of(&first, 0.0, &distance)?;
        let bounded = self.scratch("bounded", &of(&target));
        self.planar_two(PlanarOp::Min, Affine::UNIT, &all, &bound, &bounded)?;
        self.reduce_into(ReduceKind::Max, &[0], &bounded, &target)
    }
}
