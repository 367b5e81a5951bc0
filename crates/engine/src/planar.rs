//! Tasks of the planar engine that go from memory to memory: the common forms, without tensors between. `pe.rs` has every
//! form.

use crate::both::Both;
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
use anemone_facts::code::{class, condition, first, planar, planar_nonlinear, residency, second};
use anemone_facts::numerics::Planar;
use anemone_program::Rows;
use half::f16;
use pulp::{Simd, WithSimd};

/// Elements that are worked on together: few enough for the innermost cache, enough to make up for the calls.
pub(crate) const BLOCK: usize = 1 << 10;
/// Elements that are worth a share of their own.
const PER_SHARE: usize = 1 << 15;
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

    /// Whether two sources are combined as they are, rows of the second one maybe with several of the first.
    fn is_plain_pair(&self) -> bool {
        // A source that is kept may be where the second one is read.
        self.is_plain()
            && self.get(SrcType) != residency::DMA_KEEP
            && self.get(PeFirst) == first::SOURCE
            && self.get(PeSecond) == second::SOURCE
            && self.get(Src2Transpose) == 0
            && self.get(Src2BroadcastW) == 0
    }

    /// Whether all that the task does is to add two tensors in fp32.
    pub(crate) fn is_sum(&self) -> bool {
        let ext = self.input_extents();
        let clear = [Src2BroadcastH, Src2BroadcastC, InputRelu, Src2InputRelu];
        self.get(TaskClass) == class::PLANAR_TWO
            && [Cout, Hout, Wout].map(|f| self.size(f)) == [ext.c, ext.h, ext.w]
            && self.get(PeOp) == planar::ADD
            && self.model.planar().is_none()
            && self.is_plain_pair()
            && clear.iter().all(|&f| self.get(f) == 0)
            && self.ending::<f32>().is_ok_and(|ending| ending.is_idle())
    }

    /// Two sources, element by element. False where the task is of another form.
    pub(crate) fn combine_in_place(&mut self, ext: Extents) -> Result<bool, FaultKind> {
        let op = self.get(PeOp);
        if !self.is_plain_pair() || ![planar::ADD, planar::MUL, planar::MAX, planar::MIN].contains(&op) {
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
        // One may stand where the result goes.
        let is_second = a.is_that_of(to, ext);
        let (target, one, other) = if is_second || b.is_that_of(to, ext) && strides == b.strides {
            let (span, strides) = if is_second { (&b, strides) } else { (a, a.strides) };
            let views = memory::views(self.memory, self.l2, [span.part()], to.part(), &mut aside);
            let Some(([data], target)) = views else { return Ok(false) };
            (target, Source { data, strides }, None)
        } else {
            let views = memory::views(self.memory, self.l2, [a.part(), b.part()], to.part(), &mut aside);
            let Some(([x, y], target)) = views else { return Ok(false) };
            (target, Source { data: x, strides: a.strides }, Some(Source { data: y, strides }))
        };
        // Several for each thread where they are long: threads need not be alike.
        let threads = rayon::current_num_threads();
        let parts = (ext.elements()? / PER_SHARE).clamp(threads, 4 * threads);
        let [rows, channels] = [ext.h, ext.c].map(|n| n.div_ceil(parts).max(1));
        // As convolutions cut what they leave, so that a thread finds in its cache what it left there itself.
        let by_rows = ext.c < parts || to.strides[2] >= to.strides[1] && rows * ext.c <= ext.h * channels;
        let (rows, channels) = if by_rows { (rows, ext.c) } else { (ext.h, channels) };
        let least = if workers.awake { WORTH_SHARING_AWAKE } else { WORTH_SHARING };
        let shared = ext.g * ext.c * ext.plane() >= least;
        workers.each(cut(target, ext, to.strides, rows, channels), shared, |share, scratch| {
            workers.arch.dispatch(Combine {
                op,
                ending: &ending,
                rules,
                one,
                other,
                is_second,
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
    one: Source<'a>,
    /// `None` is what stands where the result goes.
    other: Option<Source<'a>>,
    /// Whether `one` is the second source.
    is_second: bool,
    /// Which of the sources pass a ReLU.
    relus: [bool; 2],
    columns: usize,
    share: &'a mut Share<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Combine<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combine { op, ending, rules, one, other, is_second, relus, columns, share, scratch } = self;
        let [a, b] = [&mut scratch.wide, &mut scratch.sums].map(|buffer| room(buffer, BLOCK.max(columns)));
        let halves = room(&mut scratch.halves, BLOCK.max(columns));
        let alone = rules.is_none() && ending.is_idle() && relus == [false; 2];
        share.blocks(
            columns,
            BLOCK,
            #[inline(always)]
            |block, to| {
                let rows = block.stored();
                let one = block.of_source(one);
                let other = other.map(
                    #[inline(always)]
                    |other| block.of_source(other),
                );
                if alone && (Both { one, other, is_second, rows }).combine(simd, op, to) {
                    return;
                }
                let [a, b] = [&mut *a, &mut *b].map(|buffer| &mut buffer[..block.elements()]);
                let other = other.unwrap_or((to, rows.to_stride));
                let sources = if is_second { [other, one] } else { [one, other] };
                for ((row, (from, from_stride)), relu) in [&mut *a, &mut *b].into_iter().zip(sources).zip(relus) {
                    vectors::widen_rows(simd, from, row, Rows { from_stride, to_stride: columns, ..rows });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::reach;
    use crate::work::{Workers, arches};

    /// Of every width, by every host, from elsewhere or in place of one of them, and nothing beside the rows.
    #[test]
    fn rows_of_two_sources_are_combined_where_they_are() {
        for (arch, columns) in arches().into_iter().flat_map(|arch| (1..=40).map(move |columns| (arch, columns))) {
            let ext = Extents { g: 2, c: 3, h: 4, w: columns };
            let (wide, line) = (columns + 3, 3 * (columns + 3));
            for strides in [[4 * line, 4 * wide, wide], [4 * line, wide, line]] {
                let reach = reach(ext, strides);
                let numbers =
                    |by: usize| (0..reach).map(|i| f16::from_f32((i * by % 509) as f32 / 7.0 - 30.0)).collect();
                let [a, b]: [Vec<f16>; 2] = [numbers(31), numbers(97)];
                for (op, of, relu) in [
                    (planar::ADD, (|a, b| a + b) as fn(f32, f32) -> f32, false),
                    (planar::MUL, |a, b| a * b, false),
                    (planar::ADD, |a, b| a.max(0.0) + b, true),
                ] {
                    let source = |data| Source { data, strides };
                    for (before, one, other, is_second) in [
                        (vec![f16::NAN; reach], source(&a), Some(source(&b)), false),
                        (a.clone(), source(&b), None, true),
                        (b.clone(), source(&a), None, false),
                    ] {
                        let mut expected = before.clone();
                        for (g, c, h) in (0..24).map(|i| (i / 12, i / 4 % 3, i % 4)) {
                            let at = g * strides[0] + c * strides[1] + h * strides[2];
                            for i in at..at + columns {
                                expected[i] = number::round(of(a[i].to_f32(), b[i].to_f32()));
                            }
                        }
                        let mut result = before;
                        let (ending, workers, relus) = (Ending::nothing(), Workers::used(arch), [relu, false]);
                        workers.each(cut(&mut result, ext, strides, 3, 2), false, |share, scratch| {
                            let (ending, rules) = (&ending, None);
                            arch.dispatch(Combine {
                                op,
                                ending,
                                rules,
                                one,
                                other,
                                is_second,
                                relus,
                                columns,
                                share,
                                scratch,
                            });
                        });
                        let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(&result), bits(&expected), "{columns} columns, {strides:?}, {arch:?}");
                    }
                }
            }
        }
    }
}
