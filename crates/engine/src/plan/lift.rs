//! Lifting of tasks to host operations.

use super::access::Accesses;
use super::gemv::Gemv;
use super::live::LiveBytes;
use super::maps::{Map, MapOperand};
use super::ops::{Kind, Move, Op, Placed};
use super::pair::Fused;
use super::product::Product;
use super::reduction::Reduction;
use super::task_batch::TaskBatch;
use super::{Step, Work};
use crate::direct::Operands;
use crate::dma::{DST_DMA, SRC1_DMA, SRC1_L2};
use crate::machine::Machine;
use crate::memory::Home;
use crate::ne::Neural;
use crate::numerics::Parameters;
use crate::operand::MemRef;
use anemone_facts::Field::*;
use anemone_facts::code::{class, format, residency};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::nested;

/// Lifted form of a task: a copy, an elementwise chain, a copy followed by a chain, a product of two operands, a matrix-vector product, or a
/// reduction.
pub(super) enum Lifted {
    /// Copies of one source to several places.
    Moves(Vec<Move>),
    Map(Map),
    Product(Box<Product>),
    Gemv(Box<Gemv>),
    Reduction(Box<Reduction>),
    /// The copy of the source that a task keeps in tile memory, and the task without it.
    Kept(Move, Box<Operands>),
    /// A copy, then a chain in place on its result.
    Both(Move, Map),
    /// A chain in place on one of its sources, then the copy that interleaves its channels: one pair for each source that can hold the result. The source
    /// must not be read later.
    Interleaved(Vec<(Map, Move)>),
}

/// Tasks that become a single operation.
pub(super) enum Group {
    Single,
    Fused(Box<Fused>),
    TaskBatch(Box<TaskBatch>),
}

/// Returns true if no task after the first of `accesses` reads the bytes of a box before they are overwritten. `None` among the accesses may
/// read anything.
fn is_dead(of: &MemRef, accesses: &[Option<Accesses>]) -> bool {
    let Some(mut live) = LiveBytes::of(of) else { return false };
    for access in accesses {
        let Some(Accesses { reads, writes }) = access else { return false };
        if reads.iter().any(|read| read.home == of.home && live.meets(read)) {
            return false;
        }
        live.remove_all(of.home, writes);
        if live.is_empty() {
            return true;
        }
    }
    true
}

/// Lifts tasks to operations, one for each task or for each group of `together`, which is indexed by the group's first task. `own` returns
/// true for regions that only the program's tasks access.
pub(super) fn lift(
    steps: &[Step],
    lifted: Vec<Option<Lifted>>,
    accesses: &[Option<Accesses>],
    own: impl Fn(Home) -> bool,
    together: impl Fn(usize) -> Group,
) -> Vec<Op> {
    let mut ops = Vec::with_capacity(steps.len());
    let mut lifted = lifted.into_iter();
    let mut i = 0;
    while i < steps.len() {
        let group = together(i);
        let count = match &group {
            Group::Single => 1,
            Group::Fused(of) => of.tasks,
            Group::TaskBatch(of) => of.tasks,
        };
        let tasks = i..(i + count).min(steps.len());
        let of = lifted.by_ref().take(tasks.len()).fold(None, |_, of| of).filter(|_| tasks.len() == 1);
        let of = match of {
            Some(Lifted::Interleaved(pairs)) => {
                let later = accesses.get(tasks.end..).unwrap_or(&[]);
                let free = |map: &Map| own(map.to.home) && is_dead(&map.to.of(map.ext), later);
                let free = pairs.into_iter().find(|(map, _)| free(map));
                free.map(|(map, copy)| Lifted::Interleaved(vec![(map, copy)]))
            }
            of => of,
        };
        if let Some(of) = of {
            match of {
                Lifted::Moves(of) => {
                    for of in of {
                        ops.push(Op::moves(tasks.clone(), of));
                    }
                }
                Lifted::Map(of) => ops.push(of.op(tasks.clone())),
                Lifted::Product(of) => ops.push(of.op(tasks.clone())),
                Lifted::Gemv(of) => ops.push(of.op(tasks.clone())),
                Lifted::Reduction(of) => ops.push(of.op(tasks.clone())),
                Lifted::Kept(kept, operands) => {
                    let (mut reads, mut writes) = (Vec::new(), Vec::new());
                    if let Some(Some(of)) = accesses.get(i) {
                        (reads, writes) = (of.reads.clone(), of.writes.iter().skip(1).cloned().collect());
                    }
                    let known = !writes.is_empty();
                    ops.push(Op::moves(tasks.clone(), kept));
                    ops.push(Op {
                        tasks: tasks.clone(),
                        kind: Kind::Placed(Placed::new(steps[i].name(), *operands, 1)),
                        reads,
                        writes,
                        known,
                    });
                }
                Lifted::Both(first, then) => {
                    ops.push(Op::moves(tasks.clone(), first));
                    ops.push(then.op(tasks.clone()));
                }
                Lifted::Interleaved(pairs) => {
                    for (first, then) in pairs {
                        ops.push(first.op(tasks.clone()));
                        ops.push(Op::moves(tasks.clone(), then));
                    }
                }
            }
        } else {
            let all = accesses.get(tasks.clone()).unwrap_or(&[]);
            let known = all.iter().all(|of| of.is_some());
            let (mut reads, mut writes) = (Vec::new(), Vec::new());
            for of in all.iter().flatten() {
                reads.extend_from_slice(&of.reads);
                writes.extend_from_slice(&of.writes);
            }
            let kind = match group {
                Group::Single => Kind::Task(steps[i].name()),
                Group::Fused(of) => Kind::Fused(of),
                Group::TaskBatch(of) => Kind::TaskBatch(of),
            };
            ops.push(Op { tasks: tasks.clone(), kind, reads, writes, known });
        }
        i = tasks.end;
    }
    ops
}

impl Step {
    /// Kind of computation in a few words, for listings.
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
    /// An elementwise task that interleaves the channels of its result, as [`Lifted::Interleaved`].
    fn as_interleaved(&self, step: &Step) -> Option<Lifted> {
        let Work::Planar(_) = &step.work else { return None };
        let by = self.size(DstInterleave);
        let halves = [DstMemFmt, OutFmt].iter().all(|&field| self.get(field) == format::FP16);
        let sent = self.get(ResType) == residency::DMA && self.get(DstEn) == 1;
        let (ext, stage, sources) = self.planar_stage().filter(|_| by > 1 && halves && sent)?;
        let to = self.map_operand(Home::Bar(self.bar(WBase, Wbe).ok()?), &DST_DMA, [false; 3])?;
        let whole = ext.c.is_multiple_of(by) && !ext.array().contains(&0);
        let rule = if self.model.rounding().is_some() { NanRule::Infinity } else { NanRule::Quiet };
        let pair = |at: &MapOperand| {
            let ([group, channel, row], [to_group, to_set, to_row]) = (at.axes.strides, to.axes.strides);
            let axis = |count, to, from| CopyAxis { count, to, from };
            let axes = [
                axis(ext.g, to_group, group),
                axis(ext.c / by, to_set, by * channel),
                axis(ext.h, to_row, row),
                axis(ext.w, by, 1),
                axis(by, 1, channel),
            ];
            let copy = Move::new(rule, (to.home, to.base), (at.home, at.base), &axes)?;
            let (sources, stages) = (sources.clone(), vec![stage.clone()]);
            Some((Map { ext, to: at.clone(), sources, stages, tasks: 1, rewired: true }, copy))
        };
        let holders = sources.iter().filter(|of| whole && !of.axes.one_column && nested(ext, of.axes.strides));
        let pairs: Vec<(Map, Move)> = holders.filter_map(pair).collect();
        (!pairs.is_empty()).then_some(Lifted::Interleaved(pairs))
    }

    /// Lifted form of the current task; `None` unless it is a copy, an elementwise chain, a product of two operands, a
    /// matrix-vector product, or a reduction.
    pub(super) fn lifted(&self, step: &Step) -> Option<Lifted> {
        let kept = || self.without_kept(step);
        let Work::Neural(neural) = &step.work else {
            let reduction = self.as_reduction(step).map(|of| Lifted::Reduction(Box::new(of)));
            let map = || self.as_map(step).map(Lifted::Map);
            return reduction.or_else(map).or_else(|| self.as_interleaved(step)).or_else(kept);
        };
        if let Some(rule) = self.copies(neural) {
            return self.as_moves(neural, rule).map(Lifted::Moves);
        }
        if let Some(product) = self.as_product(step) {
            return Some(Lifted::Product(Box::new(product)));
        }
        if let Some(of) = self.as_gemv(step, neural) {
            return Some(Lifted::Gemv(Box::new(of)));
        }
        let of = self.as_map(step).map(Lifted::Map);
        of.or_else(|| {
            // The activation of a result that is stored along other axes.
            let turned = self.get(NeTranspose) == 1 && self.get(SrcType) != residency::DMA_KEEP;
            let map = self.activates_in_place(neural).filter(|_| turned)?;
            Some(Lifted::Both(self.as_move(neural, NanRule::Quiet, self.get(ResType))?, map))
        })
        .or_else(kept)
    }

    /// A task that keeps its source in tile memory, as [`Lifted::Kept`].
    fn without_kept(&self, step: &Step) -> Option<Lifted> {
        let operands = step.work.operands().filter(|operands| operands.keeps())?;
        let halves = [Src1MemFmt, InFmt].iter().all(|&field| self.get(field) == format::FP16);
        let kept = self.kept_source(operands.input()).filter(|_| halves)?;
        Some(Lifted::Kept(kept, Box::new(operands.without_kept())))
    }

    /// The copies of a copying task: to each place of its result, and of the source that it keeps in tile memory.
    fn as_moves(&self, neural: &Neural, rule: NanRule) -> Option<Vec<Move>> {
        let results = match self.get(ResType) {
            residency::DMA_KEEP => &[residency::L2, residency::DMA][..],
            result => &[result],
        };
        let mut moves = Vec::with_capacity(3);
        if self.get(SrcType) == residency::DMA_KEEP {
            moves.push(self.kept_source(neural.input)?);
        }
        for &to in results {
            moves.push(self.as_move(neural, rule, to)?);
        }
        // Each of them reads the source.
        let (_, before) = moves.split_last()?;
        let apart = before.iter().all(|of| !moves.iter().any(|other| of.written().overlaps(&other.read())));
        apart.then_some(moves)
    }

    /// The copy of the source that the task keeps in tile memory; `None` if it has depth planes, interleaved channels, or a place at an odd address.
    fn kept_source(&self, input: Extents) -> Option<Move> {
        let flat = (self.depths(), self.source_depths()) == (0..1, 0..1) && self.size(Src1Interleave) <= 1;
        if !flat || input.array().contains(&0) {
            return None;
        }
        let from = self.span(&SRC1_DMA, Home::Bar(self.bar(RBase0, Rbe0).ok()?), input)?;
        let to = self.span(&SRC1_L2, Home::Tile, input)?;
        let axis = |count, i: usize| CopyAxis { count, to: to.strides[i], from: from.strides[i] };
        let row = CopyAxis { count: input.w, to: 1, from: 1 };
        let axes = [axis(input.g, 0), axis(input.c, 1), axis(input.h, 2), row];
        Move::new(NanRule::Quiet, (to.home, to.range.start), (from.home, from.range.start), &axes)
    }

    /// Copy from source to result of the current task; `None` unless both are fp16, in memory or in tile memory. `to` is the place of the result, one
    /// of those that the task states.
    fn as_move(&self, neural: &Neural, rule: NanRule, to: u32) -> Option<Move> {
        let halves = |field| self.get(field) == format::FP16;
        let (from, source, from_by) = match self.get(SrcType) {
            residency::L2 => (Home::Tile, &SRC1_L2, 1),
            residency::DMA | residency::DMA_KEEP if halves(Src1MemFmt) => {
                (Home::Bar(self.bar(RBase0, Rbe0).ok()?), &SRC1_DMA, self.size(Src1Interleave).max(1))
            }
            _ => return None,
        };
        let (to, result, to_by) = match to {
            residency::L2 => (Home::Tile, &crate::dma::RES_L2, 1),
            residency::DMA if halves(DstMemFmt) && self.get(DstEn) == 1 => {
                (Home::Bar(self.bar(WBase, Wbe).ok()?), &crate::dma::DST_DMA, self.size(DstInterleave).max(1))
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
            let [g, c, h] = strides.map_each(elements);
            Some((elements(base)?, [depth, g?, c?, h?]))
        };
        let ((from_base, [mut from_depth, fg, fc, fh]), (to_base, [to_depth, tg, tc, th])) =
            (place(source)?, place(result)?);
        if self.get(Src1BroadcastD) == 1 {
            from_depth = 0;
        }
        let turned = self.get(NeTranspose) == 1;
        let ext = neural.output;
        // The channels as stored are columns of a transposed result.
        let stored = if turned { ext.w } else { ext.c };
        if !ext.c.is_multiple_of(from_by) || !stored.is_multiple_of(to_by) {
            return None;
        }
        // An interleaved operand consists of sets of channels: the column axis strides over the channels of a set.
        let read = [Interleaved { by: from_by, stride: fc }, Interleaved { by: 1, stride: from_by }];
        let write = [Interleaved { by: to_by, stride: tc }, Interleaved { by: 1, stride: to_by }];
        let [to_channel, to_column] = if turned { [write[1], write[0]] } else { write };
        let mut axes = vec![
            CopyAxis { count: self.depths().end as usize, to: to_depth, from: from_depth },
            CopyAxis { count: ext.g, to: tg, from: fg },
            CopyAxis { count: ext.h, to: th, from: fh },
        ];
        axes.extend(interleaved_axes(ext.c, to_channel, read[0])?);
        axes.extend(interleaved_axes(ext.w, to_column, read[1])?);
        Move::new(rule, (to, to_base), (from, from_base), &axes)
    }
}

/// An interleaved axis of an operand: sets of `by` adjacent elements, `stride` elements between sets.
#[derive(Clone, Copy)]
pub struct Interleaved {
    /// Adjacent elements of a set.
    pub by: usize,
    /// Distance of sets.
    pub stride: usize,
}

/// Copy axes along one axis of both operands; `None` unless one interleave divides the other.
pub fn interleaved_axes(count: usize, to: Interleaved, from: Interleaved) -> Option<[CopyAxis; 3]> {
    let (most, least) = (to.by.max(from.by), to.by.min(from.by));
    if !most.is_multiple_of(least) || !count.is_multiple_of(most) {
        return None;
    }
    let axis = |count: usize, step: usize| CopyAxis { count, to: to.distance(step), from: from.distance(step) };
    Some([axis(count / most, most), axis(most / least, least), axis(least, 1)])
}

impl Interleaved {
    /// Distance of elements that are `step` apart along the axis; `step` divides the interleave, or is a multiple of it.
    fn distance(self, step: usize) -> usize {
        if step < self.by { step } else { step / self.by * self.stride }
    }
}
