//! Lifting: tasks become host operations.

use super::access::Accesses;
use super::maps::Map;
use super::ops::{Kind, Move, Op};
use super::{Step, Work};
use crate::machine::Machine;
use crate::memory::Home;
use crate::ne::Neural;
use anemone_facts::Field::*;
use anemone_facts::code::{class, format, residency};
use anemone_kernels::copy::{CopyAxis, NanRule};

/// Lifted form of a task that is a copy, an elementwise chain, or one after the other.
pub(super) enum Lifted {
    Move(Move),
    Map(Map),
    /// A copy, then a chain in place on its result.
    Both(Move, Map),
}

/// Lifts tasks to operations: one for each task, or for each group that `together` counts from its first task on.
pub(super) fn lift(
    steps: &[Step],
    lifted: Vec<Option<Lifted>>,
    accesses: &[Option<Accesses>],
    together: impl Fn(usize) -> (usize, &'static str),
) -> Vec<Op> {
    let mut ops = Vec::with_capacity(steps.len());
    let mut lifted = lifted.into_iter();
    let mut i = 0;
    while i < steps.len() {
        let (count, name) = together(i);
        let tasks = i..(i + count.max(1)).min(steps.len());
        let of = lifted.by_ref().take(tasks.len()).fold(None, |_, of| of).filter(|_| tasks.len() == 1);
        if let Some(of) = of {
            match of {
                Lifted::Move(of) => ops.push(Op::moves(tasks.clone(), of)),
                Lifted::Map(of) => ops.push(of.op(tasks.clone())),
                Lifted::Both(first, then) => {
                    ops.push(Op::moves(tasks.clone(), first));
                    ops.push(then.op(tasks.clone()));
                }
            }
        } else {
            let all = accesses.get(tasks.clone()).unwrap_or(&[]);
            let known = all.iter().all(|of| of.is_some());
            let reads = all.iter().flatten().flat_map(|of| of.reads.iter().cloned()).collect();
            let writes = all.iter().flatten().flat_map(|of| of.writes.iter().cloned()).collect();
            let name = if tasks.len() == 1 { steps[i].name() } else { name };
            ops.push(Op { tasks: tasks.clone(), kind: Kind::Tasks(name), reads, writes, known });
        }
        i = tasks.end;
    }
    ops
}

impl Step {
    /// Kind of computation, in a word or two.
    pub(super) fn name(&self) -> &'static str {
        match &self.work {
            Work::Neural(neural) => neural.name(),
            Work::Own(_) => "native layer",
            Work::Skipped => "skipped",
            Work::Planar(_) => match self.fields.get(TaskClass) {
                class::PLANAR_TWO => "elementwise of two",
                class::PLANAR_AFFINE => "scale and shift",
                class::PLANAR_REDUCE | class::PLANAR_REDUCE_TWO => "reduction",
                _ if [Kh, Kw].iter().any(|&k| self.fields.get(k) > 1) => "pooling",
                _ => "elementwise of one",
            },
        }
    }
}

impl Machine<'_> {
    /// Lifted form of the task at hand; `None` unless it is a copy or an elementwise chain.
    pub(super) fn lifted(&self, step: &Step) -> Option<Lifted> {
        let Work::Neural(neural) = &step.work else { return self.as_map(step).map(Lifted::Map) };
        if let Some(rule) = self.copies(neural) {
            return self.as_move(neural, rule).map(Lifted::Move);
        }
        let of = self.as_map(step).map(Lifted::Map);
        of.or_else(|| {
            // A vector through a non-linearity, stored along another axis.
            let vector = self.get(NeTranspose) == 1 && [neural.output.c, neural.output.w].contains(&1);
            let map = self.activates_in_place(neural).filter(|_| vector)?;
            Some(Lifted::Both(self.as_move(neural, NanRule::Quiet)?, map))
        })
    }

    /// Copy from source to result of the task at hand; `None` unless both are fp16, in memory without interleave or in tile memory.
    fn as_move(&self, neural: &Neural, rule: NanRule) -> Option<Move> {
        let halves = |field| self.get(field) == format::FP16;
        let (from, source) = match self.get(SrcType) {
            residency::L2 => (Home::Tile, &crate::dma::SRC1_L2),
            residency::DMA if halves(Src1MemFmt) && self.size(Src1Interleave) <= 1 => {
                (Home::Bar(self.bar(RBase0, Rbe0).ok()?), &crate::dma::SRC1_DMA)
            }
            _ => return None,
        };
        let (to, result) = match self.get(ResType) {
            residency::L2 => (Home::Tile, &crate::dma::RES_L2),
            residency::DMA if halves(DstMemFmt) && self.size(DstInterleave) <= 1 && self.get(DstEn) == 1 => {
                (Home::Bar(self.bar(WBase, Wbe).ok()?), &crate::dma::DST_DMA)
            }
            _ => return None,
        };
        if !halves(InFmt) || !halves(OutFmt) || neural.output.array().contains(&0) {
            return None;
        }
        let elements = |bytes: u64| bytes.is_multiple_of(2).then_some((bytes / 2) as usize);
        let place = |place| {
            let (base, strides) = self.place(place);
            let depth = elements(self.bytes(place.depth))?;
            let [g, c, h] = strides.map(elements);
            Some((elements(base)?, [depth, g?, c?, h?]))
        };
        let ((from_base, [mut from_depth, fg, fc, fh]), (to_base, [to_depth, tg, tc, th])) =
            (place(source)?, place(result)?);
        if self.get(Src1BroadcastD) == 1 {
            from_depth = 0;
        }
        let turned = self.get(NeTranspose) == 1;
        let (to_channel, to_column) = if turned { (1, tc) } else { (tc, 1) };
        let axis = |count: usize, to: usize, from: usize| CopyAxis { count, to, from };
        let ext = neural.output;
        let axes = [
            axis(self.depths().end as usize, to_depth, from_depth),
            axis(ext.g, tg, fg),
            axis(ext.c, to_channel, fc),
            axis(ext.h, th, fh),
            axis(ext.w, to_column, 1),
        ];
        Move::new(rule, (to, to_base), (from, from_base), &axes)
    }
}
