//! Tasks of the planar engine that go from memory to memory: the common forms, without tensors between. `pe.rs` has every
//! form.

use crate::convolution::Staging;
use crate::depthwise;
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory;
use crate::number::planar::{admit_row, settle_row};
use crate::number::{self, vectors};
use crate::pe::Ending;
use crate::rows::{Share, Source, cut};
use crate::tensor::Extents;
use crate::window::Window;
use crate::work::{Scratch, room};
use anemone_facts::Field::*;
use anemone_facts::code::{condition, first, planar, planar_nonlinear, residency, second};
use anemone_facts::numerics::Planar;
use half::f16;
use pulp::{Simd, WithSimd};

/// Elements that are worked on together: few enough for the innermost cache, enough to make up for the calls.
pub(crate) const BLOCK: usize = 1 << 10;
/// Elements that are not worth waking other threads.
const WORTH_SHARING: usize = 1 << 17;
/// The same where they look for work.
const WORTH_SHARING_AWAKE: usize = 1 << 13;

impl Machine<'_> {
    /// Whether the result and source 1 are what memory holds: nothing repeated, exchanged or changed on the way. By the
    /// rules of the device also nothing scaled, so that fp32 holds what there is to hold.
    fn is_plain(&self) -> bool {
        let clear = [Src1BroadcastW, Src1BroadcastH, Src1BroadcastC, Src1Transpose, ResultTranspose];
        let unscaled = f32::from_bits(self.get(PeFinalScale)) == 1.0
            && self.half(PeScale) == 1.0
            && self.get(PeBias) == 0
            && self.get(PeNonlinear) == planar_nonlinear::NONE;
        (self.model.planar().is_none() || unscaled)
            && clear.iter().all(|&f| self.get(f) == 0)
            && self.half(PePreScale) == 1.0
            && self.get(PeCond) == condition::NONE
    }

    /// Two sources, element by element. False where the task is of another form.
    pub(crate) fn combine_in_place(&mut self, ext: Extents) -> Result<bool, FaultKind> {
        // A source that is kept may be where the second one is read.
        let plain = self.is_plain()
            && self.get(SrcType) != residency::DMA_KEEP
            && self.get(PeFirst) == first::SOURCE
            && self.get(PeSecond) == second::SOURCE
            && self.get(Src2Transpose) == 0
            && self.get(Src2BroadcastW) == 0;
        let op = self.get(PeOp);
        if !plain || ![planar::ADD, planar::MUL, planar::MAX, planar::MIN].contains(&op) {
            return Ok(false);
        }
        let Some(stored) = self.planar_sources().1 else { return Ok(false) };
        let Some(b) = self.direct_second(stored)? else { return Ok(false) };
        let Some(direct) = self.direct(ext, ext)? else { return Ok(false) };
        let (a, to) = (&direct.from, &direct.to);
        let (ending, rules) = (self.ending::<f32>()?, self.model.planar());
        let relus = [InputRelu, Src2InputRelu].map(|f| self.get(f) == 1);
        let strides = b.repeated(self.get(Src2BroadcastH) == 1, self.get(Src2BroadcastC) == 1);
        let workers = self.workers;
        let mut aside = self.workers.aside();
        let views = memory::views(self.memory, self.l2, [a.part(), b.part()], to.part(), &mut aside);
        let Some(([x, y], target)) = views else { return Ok(false) };
        let sources = [Source { data: x, strides: a.strides }, Source { data: y, strides }];
        let parts = 4 * rayon::current_num_threads();
        let channels = ext.c.div_ceil(parts).max(1);
        let rows = if ext.c < parts { ext.h.div_ceil(parts).max(1) } else { ext.h };
        let least = if workers.awake { WORTH_SHARING_AWAKE } else { WORTH_SHARING };
        let shared = ext.g * ext.c * ext.plane() >= least;
        workers.each(cut(target, ext, to.strides, rows, channels), shared, |share, scratch| {
            workers.arch.dispatch(Combine {
                op,
                ending: &ending,
                rules,
                sources,
                relus,
                columns: ext.w,
                share,
                scratch,
            });
        });
        self.done(&direct, ext);
        Ok(true)
    }

    /// Windows over one source. False where the task is of another form.
    pub(crate) fn pool_in_place(
        &mut self,
        window: Window,
        input: Extents,
        output: Extents,
        max: bool,
    ) -> Result<bool, FaultKind> {
        let rules = self.model.planar();
        if !self.is_plain() || self.get(InputRelu) == 1 || rules.is_some() && !max {
            return Ok(false);
        }
        let Some(direct) = self.direct(input, output)? else { return Ok(false) };
        let (from, to) = (&direct.from, &direct.to);
        let ending = self.ending::<f32>()?;
        let staging = Staging::new(window, 1, true, output)?;
        let (workers, columns) = (self.workers, output.w);
        let mut aside = self.workers.aside();
        let views = memory::views(self.memory, self.l2, [from.part()], to.part(), &mut aside);
        let Some(([data], target)) = views else { return Ok(false) };
        let source = Source { data, strides: from.strides };
        let offsets = staging.offsets();
        let shared = output.g * output.c * output.plane() * offsets.len() >= WORTH_SHARING;
        let shares = cut(target, output, to.strides, staging.share_rows, staging.share_channels);
        workers.each(shares, shared, |share, scratch| {
            let (staging, offsets, ending) = (&staging, &offsets[..], &ending);
            let (of, window) = (depthwise::Of::Pool(max, ending), &staging.window);
            if rules.is_none() && of.executes(window) {
                return workers.arch.dispatch(depthwise::Job { of, window, from: source, columns, share, scratch });
            }
            workers.arch.dispatch(Pool { max, staging, offsets, ending, rules, source, columns, share, scratch });
        });
        self.done(&direct, output);
        Ok(true)
    }
}

struct Combine<'a, 'b> {
    op: u32,
    ending: &'a Ending<f32>,
    rules: Option<&'static Planar>,
    sources: [Source<'a>; 2],
    /// Which of them pass a ReLU.
    relus: [bool; 2],
    columns: usize,
    share: &'a mut Share<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Combine<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combine { op, ending, rules, sources, relus, columns, share, scratch } = self;
        let [a, b] = [&mut scratch.wide, &mut scratch.sums].map(|buffer| room(buffer, BLOCK.max(columns)));
        let halves = room(&mut scratch.halves, BLOCK.max(columns));
        share.blocks(
            columns,
            BLOCK,
            #[inline(always)]
            |block, to| {
                let [a, b] = [&mut *a, &mut *b].map(|buffer| &mut buffer[..block.elements()]);
                for ((row, source), relu) in [&mut *a, &mut *b].into_iter().zip(sources).zip(relus) {
                    block.widen(simd, source, columns, row);
                    if rules.is_some() {
                        admit_row(row);
                    }
                    if relu {
                        row.iter_mut().for_each(|x| *x = x.max(0.0));
                    }
                }
                let pairs = a.iter_mut().zip(b.iter());
                match op {
                    planar::ADD => pairs.for_each(|(x, &b)| *x += b),
                    planar::MUL => pairs.for_each(|(x, &b)| *x *= b),
                    planar::MAX => pairs.for_each(|(x, &b)| *x = x.max(b)),
                    _ => pairs.for_each(|(x, &b)| *x = x.min(b)),
                }
                ending.apply(a);
                match rules {
                    None => vectors::round_rows(simd, a, to, block.stored()),
                    Some(rules) => {
                        let halves = &mut halves[..block.elements()];
                        settle_row(rules, a, halves);
                        block.store(halves, to);
                    }
                }
            },
        );
    }
}

/// What follows the operation. `row` is used up.
#[inline(always)]
fn finish(ending: &Ending<f32>, rules: Option<&Planar>, row: &mut [f32], to: &mut [f16]) {
    ending.apply(row);
    match rules {
        Some(rules) => settle_row(rules, row, to),
        None => number::round_row(row, to),
    }
}

struct Pool<'a, 'b> {
    max: bool,
    staging: &'a Staging,
    offsets: &'a [u32],
    ending: &'a Ending<f32>,
    rules: Option<&'static Planar>,
    source: Source<'a>,
    columns: usize,
    share: &'a mut Share<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Pool<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pool { max, staging, offsets, ending, rules, source, columns, share, scratch } = self;
        let area = staging.staged_elements();
        let staged = room(&mut scratch.staged, area + staging.staged_slack());
        let sums = room(&mut scratch.sums, columns);
        let outside = if max { f32::NEG_INFINITY } else { 0.0 };
        staged[area..].fill(outside);
        for c in 0..share.channels() {
            let around = (c == 0).then_some(outside);
            staging.stage(
                simd,
                source,
                [share.group, share.first_row],
                share.first_channel + c,
                around,
                &mut staged[..area],
                &mut scratch.wide,
            );
            if rules.is_some() {
                admit_row(staged);
            }
            for h in 0..share.rows {
                sums.fill(outside);
                for &offset in offsets {
                    let taps = &staged[offset as usize + h * staging.width..][..columns];
                    let pairs = sums.iter_mut().zip(taps);
                    if max {
                        pairs.for_each(|(y, &x)| *y = y.max(x));
                    } else {
                        pairs.for_each(|(y, &x)| *y += x);
                    }
                }
                finish(ending, rules, sums, share.row(c, h, columns));
            }
        }
    }
}
