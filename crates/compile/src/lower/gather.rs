//! Lowering of gathers at computed positions: for each position along the axis, a mask of where it is requested keeps its elements in a
//! minimum, or replaces them by minus infinity; the maximum over all positions is the result. Without multiplications, elements of any
//! size stay unchanged. A requested NaN becomes plus infinity.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{DType, ValueId};

/// Largest number of positions along the axis; each takes four tasks.
const MOST_POSITIONS: usize = 128;
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

    /// The positions have the result's extents.
    pub(super) fn gather_along(&mut self, axis: usize, x: ValueId, places: ValueId, out: ValueId) -> Result<()> {
        let (source, to) = (self.view(x)?, self.result(out));
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
        let source = if last { self.behind(source.clone())? } else { source.clone() };
        let count = source.lead[axis].extent;
        let mut best: Option<View> = None;
        for position in 0..count {
            let mut element = source.clone();
            element.offset_bytes += position as u64 * element.lead[axis].stride_bytes;
            element.lead[axis] = Axis { extent: 1, stride_bytes: 0 };
            if last {
                element.lead.pop();
            }
            let element = slot(element);
            let here = self.tabled("here", Table::at_zero(), -(position as f32), 1.0, places)?;
            let bound = self.tabled("bound", Table::choice(INF, -INF), 0.0, 1.0, &here)?;
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
}
