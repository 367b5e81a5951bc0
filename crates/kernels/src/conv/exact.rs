//! Convolutions with fixed-point accumulators, and what follows their sums.

use crate::conv::nchwc::{ExactAccumulator, Operand};
use crate::conv::{Im2col, Kernels, MOST_AT_ONCE, TensorViewMut, convolve_gemv, convolve_nchwc};
use crate::cost;
use crate::exact::{Columns, HEIGHT, LEAST_HEIGHT, Operands, SingleRow, Weights, decode, product_of_rows, row_of};
use crate::filter::{PackedFilter, Values};
use crate::host::Rows;
use crate::num::elementwise;
use crate::num::line::STRETCH;
use crate::params::AccumulatorSpec;
use crate::simd::LaneMap;
use crate::tensor::{Extents, Tensor};
use crate::view::{OutputTile, Part, TensorView, copy_rows, copy_short, partition};
use crate::window::Window;
use crate::workers::{PER_THREAD, Scratch, Workers, chunks, scratch_slice};
use crate::{num, simd};
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::Arc;

/// What the exact models make of an fp16 number between the array, or a source, and memory.
#[derive(Clone)]
pub enum ExactEpilogue {
    /// NaN is plus infinity.
    Admit,
    /// The same, and zero for everything below it.
    Relu,
    /// The same, and what lies between two numbers without a sign stays.
    Clamp(f16, f16),
    /// By bit pattern.
    Map(Arc<[f16]>),
}

impl ExactEpilogue {
    /// The cheapest form that has these values, by bit pattern.
    pub fn of(values: Vec<f16>) -> ExactEpilogue {
        let at = |x: f16| values[usize::from(x.to_bits())];
        let (low, high) = (at(f16::NEG_INFINITY), at(f16::INFINITY));
        let mut clamped: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        ExactEpilogue::Clamp(low, high).row(&mut clamped);
        let alike = clamped.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits());
        if alike && low.is_sign_positive() && high.is_sign_positive() {
            ExactEpilogue::Clamp(low, high)
        } else {
            ExactEpilogue::Map(values.into())
        }
    }

    /// Every element of a tensor of fp16 numbers.
    pub fn tensor(&self, workers: &Workers, y: &mut Tensor) {
        let nanos = cost::one_by_one(y.data.len());
        chunks(&mut y.data, PER_THREAD, nanos, |_, row| workers.arch.dispatch(Each { exactly: self, row }));
    }

    /// The numbers between which those that are rounded, and no NaN, stay; `None` where that is not all.
    #[inline(always)]
    pub fn bounds(&self) -> Option<[f32; 2]> {
        match self {
            ExactEpilogue::Admit => Some([f32::NEG_INFINITY, f32::INFINITY]),
            ExactEpilogue::Relu => Some([0.0, f32::INFINITY]),
            ExactEpilogue::Clamp(low, high) => Some([low.to_f32(), high.to_f32()]),
            ExactEpilogue::Map(_) => None,
        }
    }

    #[inline(always)]
    pub fn row(&self, row: &mut [f16]) {
        match self {
            ExactEpilogue::Admit => row.iter_mut().for_each(|x| *x = elementwise::admit_half(*x)),
            ExactEpilogue::Relu => row.iter_mut().for_each(|x| {
                let admitted = elementwise::admit_half(*x);
                *x = if admitted.to_bits() >> 15 == 1 { f16::ZERO } else { admitted };
            }),
            &ExactEpilogue::Clamp(low, high) => row.iter_mut().for_each(|x| {
                let admitted = elementwise::admit_half(*x).to_bits() as i16;
                *x = f16::from_bits(admitted.max(low.to_bits() as i16).min(high.to_bits() as i16) as u16);
            }),
            ExactEpilogue::Map(values) => row.iter_mut().for_each(|x| *x = values[usize::from(x.to_bits())]),
        }
    }
}

impl ExactEpilogue {
    /// What is made of sums, which are no NaN and no minus zero.
    #[inline(always)]
    fn rounded<'a, S: Simd>(&self, simd: S, sums: &[f32], halves: &'a mut [f16]) -> &'a [f16] {
        let halves = &mut halves[..sums.len()];
        simd::round_rows(simd, sums, halves, Rows::one(sums.len()));
        self.row(halves);
        halves
    }

    /// Stores that, as [`OutputTile::store`] does; `halves` may be used up.
    #[inline(always)]
    fn store<S: Simd>(
        &self,
        simd: S,
        share: &mut OutputTile,
        place: [usize; 3],
        channels: usize,
        sums: &[f32],
        stride: usize,
        rows: Rows,
        halves: &mut [f16],
    ) {
        match self.bounds() {
            Some(bounds) => share.store(
                place,
                channels,
                sums,
                stride,
                rows,
                #[inline(always)]
                |from, to, rows| simd::convert_rows(simd, Between(bounds), from, to, rows),
            ),
            None => share.store(place, channels, self.rounded(simd, sums, halves), stride, rows, copy_rows),
        }
    }
}

/// Numbers that stay between two others. No zero has a sign.
#[derive(Clone, Copy)]
pub struct Between(pub [f32; 2]);

impl<S: Simd> LaneMap<S> for Between {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let [low, high] = self.0.map(
            #[inline(always)]
            |bound| simd.splat_f32s(bound),
        );
        simd.min_f32s(simd.max_f32s(x, low), high)
    }
}

struct Each<'a, 'b> {
    exactly: &'a ExactEpilogue,
    row: &'b mut [f32],
}

impl WithSimd for Each<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut halves = [f16::ZERO; STRETCH];
        for row in self.row.chunks_mut(STRETCH) {
            let halves = &mut halves[..row.len()];
            num::round_row(row, halves);
            self.exactly.row(halves);
            num::widen_row(halves, row);
        }
    }
}

/// Sums of one group, by set of outputs that read the same inputs; and biases.
pub type Sets = (Vec<Weights>, Option<Vec<f32>>);

/// Channels whose sums are taken together: a whole number of the blocks of [`Weights`].
const CHANNELS: usize = 8 * HEIGHT;
/// Numbers of packed columns, and bounds of their outputs.
const PACKED: usize = 1 << 19;
const OUTPUTS: [usize; 2] = [256, 1024];
/// Channels whose sums take as long as to pack what they read, and outputs whose sums take as long as to raise a coefficient.
const PACKING: usize = 24;
const RAISING: usize = 12;

/// Coefficients by group; one for all where there are fewer.
#[derive(Clone, Copy)]
pub enum Groups<'a> {
    Sets(&'a [Sets]),
    /// With channels side by side, where an output reads all channels or its own.
    Blocks(&'a Kernels),
}

/// Where a channel that reads its own has its coefficients.
#[derive(Clone, Copy)]
enum OwnRow<'a> {
    Set(&'a Weights),
    Panels(&'a PackedFilter),
}

impl<'a> Groups<'a> {
    fn sets(self, group: usize) -> Option<&'a Sets> {
        match self {
            Groups::Sets(groups) => groups.get(group).or(groups.first()),
            Groups::Blocks(_) => None,
        }
    }
}

/// A convolution as the array has it.
pub struct Exact<'a> {
    pub mac: &'static AccumulatorSpec,
    pub window: &'a Window,
    /// Input channels that one output reads.
    pub channels: usize,
    /// Whether every output channel reads channels of its own.
    pub unicast: bool,
    /// How a source is staged where channels are read alone.
    pub staging: &'a Im2col,
    pub groups: Groups<'a>,
    pub exactly: &'a ExactEpilogue,
}

/// The extents are those of the result before it is turned.
pub fn convolve(workers: &Workers, of: &Exact, from: TensorView, to: TensorViewMut, ext: Extents) {
    if let (Groups::Blocks(kernels), Some(bounds), false) = (of.groups, of.exactly.bounds(), of.unicast) {
        let (to, array) = (to.in_columns(ext), ExactAccumulator { mac: of.mac, bounds });
        if of.staging.is_gemv() {
            return convolve_gemv(workers, kernels, array, from, to, ext);
        }
        let from = Operand { source: from, in_blocks: false, staging: of.staging };
        return convolve_nchwc(workers, kernels, array, from, None, to, ext);
    }
    let TensorViewMut { data, strides, transposed } = to.in_columns(ext);
    let taps = of.channels * of.window.elements();
    if taps == 0 {
        return;
    }
    let threads = workers.threads_for(cost::exact_products(ext.g * ext.c * ext.plane() * taps));
    let shared = threads > 1;
    let (rows, channels) = if of.unicast {
        (ext.h, ext.c.div_ceil(2 * threads).next_multiple_of(HEIGHT))
    } else {
        // What the longest share computes, packs and raises.
        let (rows, channels) = (ext.h.div_ceil(threads), ext.c.div_ceil(threads).next_multiple_of(LEAST_HEIGHT));
        let cost = |outputs: usize, channels: usize| outputs * (channels + PACKING) + channels * RAISING;
        match cost(rows * ext.w, ext.c) <= cost(ext.plane(), channels) {
            true => (rows, ext.c),
            false => (ext.h, channels.next_multiple_of(HEIGHT)),
        }
    };
    let offsets = if of.unicast { of.staging.offsets() } else { Vec::new() };
    let shares = match transposed {
        _ if of.unicast && !transposed => {
            partition(data, ext, strides, of.staging.share_rows, of.staging.share_channels)
        }
        true => partition(data, ext.transposed(), strides, ext.h, ext.w.div_ceil(threads).next_multiple_of(32)),
        false => partition(data, ext, strides, rows, channels),
    };
    let columns = if transposed { ext.c } else { ext.w };
    workers.each(shares, shared, |share, scratch| {
        if of.unicast && !transposed {
            return workers.arch.dispatch(Alone { of, offsets: &offsets, from, columns, share, scratch });
        }
        workers.arch.dispatch(Job { of, from, columns, transposed, share, scratch });
    });
}

/// Output channels that read channels of their own.
struct Alone<'a, 'b> {
    of: &'a Exact<'a>,
    offsets: &'a [u32],
    from: TensorView<'a>,
    columns: usize,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Alone<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Alone { of, offsets, from, columns, share, scratch } = self;
        let staging = of.staging;
        let Scratch { staged, wide, sums, halves, panel, row, arena, .. } = scratch;
        let area = staging.staged_elements();
        let at_once = staging.at_once(share.channels());
        let staged = scratch_slice(staged, at_once * area + staging.staged_slack());
        staged[at_once * area..].fill(0.0);
        let outputs = share.rows * staging.width;
        let sums = scratch_slice(sums, at_once * outputs);
        let halves = scratch_slice(halves, at_once * outputs);
        let mut columns_kept: Box<Option<Columns>> = arena.take();
        let packed = columns_kept.get_or_insert_with(|| Columns::empty(of.mac));
        let rows = Rows { count: share.rows, columns, from_stride: staging.width, to_stride: columns };
        for c in (0..share.channels()).step_by(at_once) {
            let (first, count) = (share.first_channel + c, at_once.min(share.channels() - c));
            let mut largest = [0.0; MOST_AT_ONCE];
            for (m, (staged, largest)) in staged.chunks_exact_mut(area).zip(&mut largest).enumerate().take(count) {
                // What surrounds the source is zero however it is read, and stays where the first channels left it.
                let (around, place) = ((c == 0).then_some(0.0), [share.group, share.first_row]);
                staging.stage(simd, from, place, (first + m) * of.channels, around, staged, wide);
                *largest = decode(of.mac, staged);
            }
            for (m, out) in sums.chunks_exact_mut(outputs).enumerate().take(count) {
                let (channel, source, largest) = (first + m, &staged[m * area..], largest[m]);
                let (coefficients, biases) = match of.groups {
                    Groups::Sets(_) => {
                        let Some((sets, biases)) = of.groups.sets(share.group) else { return };
                        let Some(set) = sets.get(channel) else { return };
                        (OwnRow::Set(set), biases)
                    }
                    Groups::Blocks(kernels) => {
                        let Some(kernel) = kernels.of(share) else { return };
                        (OwnRow::Panels(&kernel.packed), &kernel.biases)
                    }
                };
                let bias = biases.as_ref().and_then(|b| b.get(channel)).map_or(&[][..], std::slice::from_ref);
                let row = match coefficients {
                    OwnRow::Set(set) => set.row(simd, panel, row),
                    OwnRow::Panels(panels) => {
                        let taps = scratch_slice(panel, offsets.len());
                        panels.widen_channel(channel, taps);
                        row_of(of.mac, taps, row)
                    }
                };
                let start = bias.first().copied().unwrap_or(0.0);
                let row = SingleRow { mac: of.mac, row, bias: start, source, offsets, largest, out: &mut *out };
                if row.with_simd(simd) {
                    continue;
                }
                packed.fill(simd, offsets.len(), outputs, true, &Sliding { source, offsets });
                let own;
                let set = match coefficients {
                    OwnRow::Set(set) => set,
                    OwnRow::Panels(panels) => {
                        let taps = scratch_slice(panel, offsets.len());
                        panels.widen_channel(channel, taps);
                        let values = taps.iter().map(|&w| num::round(w)).collect();
                        own = Weights::of(of.mac, 1, offsets.len(), &Values::Halves(values));
                        &own
                    }
                };
                product_of_rows(simd, set, 0, packed, bias, out, panel);
            }
            let sums = &sums[..count * outputs];
            of.exactly.store(simd, share, [c, 0, 0], count, sums, outputs, rows, halves);
        }
        arena.put(columns_kept);
    }
}

struct Job<'a, 'b> {
    of: &'a Exact<'a>,
    from: TensorView<'a>,
    /// Columns of the result as stored.
    columns: usize,
    transposed: bool,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { of, from, columns, transposed, share, scratch } = self;
        let Some((sets, biases)) = of.groups.sets(share.group) else { return };
        let taps = of.channels * of.window.elements();
        let mut columns_kept: Box<Option<Columns>> = scratch.arena.take();
        let packed = columns_kept.get_or_insert_with(|| Columns::empty(of.mac));
        let (first, channels) = if transposed { (0, columns) } else { (share.first_channel, share.channels()) };
        let at_once = if of.unicast { 1 } else { CHANNELS };
        let slides = !transposed && !of.unicast && of.window.elements() > 1;
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        let group = share.group;
        for part in Part::all(share, columns, transposed, most) {
            let outputs = part.outputs();
            let sums = scratch_slice(&mut scratch.sums, at_once * outputs);
            let halves = scratch_slice(&mut scratch.halves, at_once * outputs);
            for c in (0..channels).step_by(at_once) {
                let (channel, count) = (first + c, at_once.min(channels - c));
                if c == 0 && slides && part.columns.len() == columns {
                    // Taps read the same numbers again and again: they are decoded before.
                    let staging = of.staging.of_rows(part.rows.len());
                    let staged = scratch_slice(&mut scratch.staged, staging.staged_elements() + staging.staged_slack());
                    let (planes, beyond) = staged.split_at_mut(staging.staged_elements());
                    staging.stage(simd, from, [group, part.rows.start], 0, Some(0.0), planes, &mut scratch.wide);
                    beyond.fill(0.0);
                    decode(of.mac, planes);
                    let staged = Staged { staged, offsets: &staging.offsets(), width: staging.width, columns };
                    packed.fill(simd, taps, outputs, true, &staged);
                } else if c == 0 || of.unicast {
                    let read = if of.unicast { channel * of.channels } else { 0 };
                    let place = [group, read];
                    packed.fill(simd, taps, outputs, false, &Lying { window: of.window, from, place, part: &part });
                }
                let (set, row) = if of.unicast { (channel, 0) } else { (0, channel) };
                let Some(weights) = sets.get(set) else { return };
                let sums = &mut sums[..count * outputs];
                let bias = biases.as_ref().map_or(&[][..], |b| &b[channel - row..]);
                product_of_rows(simd, weights, row, packed, bias, sums, &mut scratch.panel);
                if transposed {
                    let halves = of.exactly.rounded(simd, sums, halves);
                    part.store(halves, outputs, share, Some(&mut scratch.squares), c, count);
                } else {
                    let (place, rows) = (part.place(share, c), part.gapless());
                    of.exactly.store(simd, share, place, count, sums, outputs, rows, halves);
                }
            }
        }
        scratch.arena.put(columns_kept);
    }
}

/// What windows take of a source where it lies.
struct Lying<'a> {
    window: &'a Window,
    from: TensorView<'a>,
    /// Group, first channel.
    place: [usize; 2],
    part: &'a Part,
}

impl Operands for Lying<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, tap: usize, first: usize, to: &mut [f32]) {
        let &Lying { window, from, place: [group, channel], part } = self;
        if window.is_pointwise() && part.rows.len() == 1 {
            let column = part.columns.start + first;
            from.fetch_after(group, channel + tap, part.rows.start, column..column + to.len());
        }
        match window.is_pointwise() {
            true => from.widen_from(simd, group, channel + tap, part, first, to),
            false => window.taken(from, group, channel, part, tap, first, to),
        }
    }
}

/// Numbers that follow a tap's first one.
struct Sliding<'a> {
    source: &'a [f32],
    offsets: &'a [u32],
}

impl Operands for Sliding<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, to: &mut [f32]) {
        to.copy_from_slice(&self.source[self.offsets[tap] as usize + first..][..to.len()]);
    }
}

/// As many columns of each row from a tap's first number on.
struct Staged<'a> {
    staged: &'a [f32],
    offsets: &'a [u32],
    width: usize,
    columns: usize,
}

impl Operands for Staged<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, mut to: &mut [f32]) {
        let mut column = first % self.columns;
        let rows = self.staged[self.offsets[tap] as usize..].chunks(self.width);
        for row in rows.skip(first / self.columns) {
            let (piece, rest) = to.split_at_mut((self.columns - column).min(to.len()));
            copy_short(&row[column..][..piece.len()], piece);
            (to, column) = (rest, 0);
            if to.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::{FusedDepthwise, can_fuse_depthwise};
    use crate::exact::all_rows;
    use crate::num::reference::dot;
    use crate::params::samples::FIXED;
    use crate::view::{BLOCK, dense};
    use crate::window::some_windows;
    use crate::workers::arches;
    use pulp::Arch;

    /// A row on its way to memory.
    struct Stored<'a>([f32; 2], &'a [f32], &'a mut [f16]);

    impl WithSimd for Stored<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Stored(bounds, from, to) = self;
            simd::convert_rows(simd, Between(bounds), from, to, Rows::one(from.len()));
        }
    }

    /// What bounds make of sums, which are no NaN and no minus zero, is what their stage makes of fp16 numbers.
    #[test]
    fn bounded_sums_are_those_of_the_stage() {
        let sums = num::every_f16().filter(|x| !x.is_nan() && (*x != 0.0 || x.is_sign_positive()));
        let sums: Vec<f32> = sums.collect();
        let six = f16::from_f32(6.0);
        let stages = [
            (ExactEpilogue::Admit, true),
            (ExactEpilogue::Relu, true),
            (ExactEpilogue::Clamp(f16::ZERO, six), true),
            (ExactEpilogue::Clamp(f16::ONE, six), true),
            (ExactEpilogue::Map(vec![f16::ONE; 1 << 16].into()), false),
        ];
        for (exactly, bounded) in stages {
            assert_eq!(exactly.bounds().is_some(), bounded);
            let Some(bounds) = exactly.bounds() else { continue };
            let mut wanted: Vec<f16> = sums.iter().map(|&x| f16::from_f32(x)).collect();
            exactly.row(&mut wanted);
            for arch in arches() {
                let mut found = vec![f16::NAN; sums.len()];
                arch.dispatch(Stored(bounds, &sums, &mut found));
                let wrong = (0..sums.len()).find(|&i| found[i].to_bits() != wanted[i].to_bits());
                assert_eq!(wrong.map(|i| sums[i]), None, "{bounds:?}, {arch:?}");
            }
        }
    }

    /// Windows of every kind, in buffers that held something else: the sums of the reference.
    #[test]
    fn windows_have_the_sums_of_the_array() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0) * f16::from_f32(0.02);
        for (i, (window, [cin, cout], unicast)) in some_windows().enumerate() {
            let (channels, Window { k, s, p, from, to }) = (if unicast { 1 } else { cin }, window.clone());
            let taps = channels * k[0] * k[1];
            let ext = Extents { g: 1, c: cout, h: to[0], w: to[1] };
            let weights: Vec<f16> = (0..cout * taps).map(|n| draw(n + i)).collect();
            let of =
                |weights: &[f16]| Weights::of(&FIXED, weights.len() / taps, taps, &Values::Halves(weights.to_vec()));
            let sets = if unicast { weights.chunks(taps).map(of).collect() } else { vec![of(&weights)] };
            let strides = [0, from[0] * (from[1] + 1), from[1] + 1];
            let x: Vec<f16> = (0..cin * strides[1]).map(|n| draw(n) * f16::from_f32(40.0)).collect();
            let staging =
                Im2col::new(window.clone(), channels, unicast, ext, rayon::current_num_threads()).expect("it is small");
            let groups = Groups::Sets(&[(sets, None)]);
            let exact = Exact {
                mac: &FIXED,
                window: &window,
                channels,
                unicast,
                staging: &staging,
                groups,
                exactly: &ExactEpilogue::Admit,
            };
            let mut data = vec![f16::NAN; cout * to[0] * to[1]];
            let target = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
            convolve(&Workers::used(Arch::new()), &exact, TensorView { data: &x, strides }, target, ext);
            for (n, &found) in data.iter().enumerate() {
                let (c, h, w) = (n / (to[0] * to[1]), n / to[1] % to[0], n % to[1]);
                let terms: Vec<(f16, f16)> = (0..taps)
                    .filter_map(|tap| {
                        let (channel, kh, kw) = (tap / (k[0] * k[1]), tap / k[1] % k[0], tap % k[1]);
                        let channel = if unicast { c } else { channel };
                        let h = (h * s[0] + kh).checked_sub(p[0]).filter(|&h| h < from[0])?;
                        let w = (w * s[1] + kw).checked_sub(p[1]).filter(|&w| w < from[1])?;
                        Some((weights[c * taps + tap], x[channel * strides[1] + h * strides[2] + w]))
                    })
                    .collect();
                assert_eq!(found, dot(&FIXED, &terms, 0.0), "{window:?}, {cin} to {cout}, {unicast}: {c}, {h}, {w}");
            }
        }
    }

    /// Numbers of every kind: of some exponents, zeros, and others now and then.
    fn some_numbers(n: usize, exponents: [i32; 2], odd: bool) -> Vec<f16> {
        let others = [f16::NAN, f16::INFINITY, f16::NEG_ZERO, f16::MIN_POSITIVE_SUBNORMAL, f16::MAX];
        let one = |i: usize| {
            let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bits = (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let of = |from: u32, n: u64| bits >> from & (n - 1);
            let exponent = exponents[0] + (of(16, 1 << 16) % (exponents[1] - exponents[0]) as u64) as i32;
            let x = f16::from_f32((1.0 + of(40, 1 << 10) as f32 / 1024.0) * (exponent as f32).exp2());
            match of(56, 32) {
                0..3 => f16::ZERO,
                3 if odd && of(8, 8) == 0 => others[i % others.len()],
                n if n % 2 == 0 => -x,
                _ => x,
            }
        };
        (0..n).map(one).collect()
    }

    /// Sets, and the same coefficients side by side.
    fn both(
        staging: &Im2col,
        unicast: bool,
        weights: &[f16],
        biases: &Option<Vec<f32>>,
        taps: usize,
    ) -> (Sets, Kernels) {
        let sets = |weights: &[f16]| Weights::of(&FIXED, weights.len() / taps, taps, &Values::Halves(weights.to_vec()));
        let sets = || if unicast { weights.chunks(taps).map(sets).collect() } else { vec![sets(weights)] };
        let groups = std::iter::once((all_rows(sets()), biases.clone()));
        ((sets(), biases.clone()), Kernels::abreast(staging, groups.collect()))
    }

    /// Channels side by side have the bits of the array's sums: alone, in pairs, and behind those; in one run, in several, and where sums
    /// may reach the ceiling; where products are dropped; beside infinities and NaN. So has a single output.
    #[test]
    fn channels_side_by_side_have_the_sums_of_the_array() {
        let six = f16::from_f32(6.0);
        let stages = [ExactEpilogue::Clamp(f16::ZERO, six), ExactEpilogue::Admit, ExactEpilogue::Relu];
        // Exponents of source and coefficients.
        let ranges =
            [[[-12, 2], [-9, -3]], [[-2, 3], [-4, 0]], [[-14, 4], [-14, 1]], [[0, 4], [-1, 2]], [[4, 9], [2, 7]]];
        let mut reached = [0; 3];
        for (i, ([h, w], [cin, c], [k1, s1, p1], [k, s, p])) in [
            ([7, 7], [40, 61], [1, 1, 0], [3, 1, 1]),
            ([14, 14], [5, 32], [1, 1, 0], [3, 2, 1]),
            ([9, 17], [3, 32], [3, 2, 1], [3, 1, 1]),
            ([12, 13], [150, 48], [1, 1, 0], [5, 2, 2]),
            ([6, 30], [1, 96], [3, 3, 0], [5, 1, 2]),
            ([1, 1], [300, 130], [1, 1, 0], [3, 1, 1]),
        ]
        .into_iter()
        .enumerate()
        {
            for (j, (exponents, odd)) in ranges.iter().flat_map(|range| [(range, false), (range, true)]).enumerate() {
                let ext = |c: usize, [h, w]: [usize; 2]| Extents { g: 1, c, h, w };
                let to = [h, w].map(|n: usize| (n + 2 * p).saturating_sub(k) / s + 1);
                let of = [h, w].map(|n: usize| (n - 1) * s1 + k1 - 2 * p1);
                let windows = [
                    Window { k: [k1; 2], s: [s1; 2], p: [p1; 2], from: of, to: [h, w] },
                    Window { k: [k; 2], s: [s; 2], p: [p; 2], from: [h, w], to },
                    Window { k: [1; 2], s: [1; 2], p: [0; 2], from: to, to },
                ];
                let channels = [cin, 1, c];
                let exts = [ext(c, [h, w]), ext(c, to), ext(37, to)];
                let unicast = [false, true, false];
                let stagings = [0, 1, 2].map(|n| {
                    Im2col::new(windows[n].clone(), channels[n], unicast[n], exts[n], rayon::current_num_threads())
                        .expect("it is small")
                });
                let coefficients = [0, 1, 2].map(|n| {
                    let taps = channels[n] * windows[n].elements();
                    let weights = some_numbers(exts[n].c * taps, exponents[1], odd);
                    let biases = some_numbers(exts[n].c, [exponents[0][0], exponents[0][1]], odd);
                    let biases = (j % 3 > 0).then(|| biases.iter().map(|x| x.to_f32()).collect());
                    both(&stagings[n], unicast[n], &weights, &biases, taps)
                });
                let exactly = [0, 1, 2].map(|n| &stages[(i + j + n) % 3]);
                let x = some_numbers(cin * of[0] * of[1], exponents[0], odd);
                let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let mut results = Vec::new();
                for arch in arches() {
                    let workers = Workers::used(arch);
                    let run = |n: usize, x: &[f16], blocks: bool| {
                        let (sets, kernels) = &coefficients[n];
                        let groups = match blocks {
                            true => Groups::Blocks(kernels),
                            false => Groups::Sets(std::slice::from_ref(sets)),
                        };
                        let exact = Exact {
                            mac: &FIXED,
                            window: &windows[n],
                            channels: channels[n],
                            unicast: unicast[n],
                            staging: &stagings[n],
                            groups,
                            exactly: exactly[n],
                        };
                        let from = ext(x.len() / windows[n].from.iter().product::<usize>(), windows[n].from);
                        let mut data = vec![f16::NAN; exts[n].elements().expect("few")];
                        let target = TensorViewMut { data: &mut data, strides: dense(exts[n]), transposed: false };
                        convolve(&workers, &exact, TensorView { data: x, strides: dense(from) }, target, exts[n]);
                        data
                    };
                    let case = format!("{h}x{w}, {cin} to {c}, {exponents:?}, odd {odd}, {arch:?}");
                    let first = run(0, &x, false);
                    assert_eq!(bits(&run(0, &x, true)), bits(&first), "{case}");
                    if h * w == 1 {
                        continue;
                    }
                    let second = run(1, &first, false);
                    assert_eq!(bits(&run(1, &first, true)), bits(&second), "{case}");
                    let arrays = exactly.map(|e| ExactAccumulator { mac: &FIXED, bounds: e.bounds().expect("bounds") });
                    let pair = FusedDepthwise {
                        kernels: [&coefficients[0].1, &coefficients[1].1],
                        finish: [arrays[0], arrays[1]],
                        stagings: [&stagings[0], &stagings[1]],
                    };
                    assert!(can_fuse_depthwise(pair.stagings, [c; 2]));
                    let source = TensorView { data: &x, strides: dense(ext(cin, of)) };
                    let mut data = vec![f16::NAN; second.len()];
                    let target = TensorViewMut { data: &mut data, strides: dense(exts[1]), transposed: false };
                    pair.convolve(&workers, source, target, exts[1], false);
                    assert_eq!(bits(&data), bits(&second), "{case}");
                    results.push(data);
                    if !c.is_multiple_of(BLOCK) {
                        continue;
                    }
                    let third = run(2, &second, false);
                    let mut blocks = vec![f16::NAN; second.len()];
                    let target = TensorViewMut { data: &mut blocks, strides: dense(exts[1]), transposed: false };
                    pair.convolve(&workers, source, target, exts[1], true);
                    let strides = dense(Extents { c: c / BLOCK, w: to[1] * BLOCK, ..exts[1] });
                    let source = TensorView { data: &blocks, strides };
                    let operand = Operand { source, in_blocks: true, staging: &stagings[2] };
                    let mut data = vec![f16::NAN; third.len()];
                    let target = TensorViewMut { data: &mut data, strides: dense(exts[2]), transposed: false };
                    convolve_nchwc(&workers, &coefficients[2].1, arrays[2], operand, None, target, exts[2]);
                    assert_eq!(bits(&data), bits(&third), "{case}");
                    results.push(data);
                }
                for x in results.iter().flatten().map(|x| x.to_f32().abs()) {
                    reached[if x.is_infinite() { 2 } else { usize::from(x > 64.0) }] += 1;
                }
            }
        }
        assert!(reached.iter().all(|&count| count > 1000), "{reached:?}");
    }
}
