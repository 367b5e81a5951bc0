//! Convolutions in the model `fast`: the source staged in fp32, sums by [`crate::product`], results rounded once.
//!
//! Staging pads rows and takes strides apart: input rows and columns that are a stride apart become neighbours in a plane
//! of their own. Every tap then reads consecutive numbers for consecutive outputs, at an offset that is the tap's own.
//! Output rows are as long as staged rows; the columns beyond an output row's end are computed and not stored.

use crate::activation::Finish;
use crate::fault::FaultKind;
use crate::number;
use crate::panels::Packed;
use crate::pointwise;
use crate::product::{PANEL, SLACK, Sums};
use crate::rows::{Part, SHORT, Share, Source, Strides, Turned, copy_short, cut};
use crate::tensor::{Extents, LIMIT};
use crate::unpack::Coefficients;
use crate::window::Window;
use crate::work::{Gather, Scratch, Workers, room};
use pulp::{Simd, WithSimd};

/// Elements of a staged source that stay near a core while all output channels pass over them.
const STAGED_ELEMENTS: usize = 3 << 16;
/// Outputs of a panel that are summed before they are rounded and stored.
const OUTPUTS: usize = 1 << 10;
/// Taps between two visits to the sums: coefficients of a panel, and what they meet, stay in the innermost cache.
const TAPS: usize = 288;
/// Channels whose sums are kept between those visits.
const CHANNELS: usize = 8 * PANEL;
/// Multiply-additions that are not worth waking other threads.
const WORTH_SHARING: usize = 1 << 17;

/// How a convolution, or pooling, is cut into shares, and how a share's source is staged.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    pub(crate) window: Window,
    /// Source channels that one output reads.
    channels: usize,
    /// Whether every output channel reads channels of its own.
    unicast: bool,
    /// Planes that a source channel is taken apart into: rows, columns.
    phases: [usize; 2],
    /// Extents of a staged plane.
    height: usize,
    pub(crate) width: usize,
    /// Most output rows and channels of a share.
    pub(crate) share_rows: usize,
    pub(crate) share_channels: usize,
}

impl Staging {
    pub(crate) fn new(window: Window, channels: usize, unicast: bool, to: Extents) -> Result<Staging, FaultKind> {
        let threads = rayon::current_num_threads();
        let [k, s] = [window.k, window.s];
        let phases = [k[0].min(s[0]), k[1].min(s[1])];
        let width = to.w + (k[1] - 1) / s[1];
        let height = |rows: usize| rows + (k[0] - 1) / s[0];
        let staged = |rows: usize| channels as u64 * (phases[0] * phases[1] * height(rows) * width) as u64;
        if staged(1) + SLACK as u64 > LIMIT {
            return Err(FaultKind::TooLarge { elements: staged(1), limit: LIMIT });
        }
        let fits = |rows: &usize| rows * width <= OUTPUTS && staged(*rows) <= STAGED_ELEMENTS as u64;
        let rows = (1..=to.h).take_while(fits).last().unwrap_or(1);
        let blocks = to.h.div_ceil(rows).max(1);
        let panels = if unicast { to.c } else { to.c.div_ceil(PANEL) };
        let (blocks, share_panels) = if blocks >= 2 * threads {
            (blocks.next_multiple_of(threads), panels)
        } else if panels >= 2 * threads {
            (blocks, panels.div_ceil(threads))
        } else {
            (blocks.next_multiple_of(threads), panels)
        };
        let share_rows = to.h.div_ceil(blocks).max(1);
        let share_channels = (share_panels * if unicast { 1 } else { PANEL }).max(1);
        let height = height(share_rows);
        Ok(Staging { window, channels, unicast, phases, height, width, share_rows, share_channels })
    }

    /// Whether every output reads one place of all channels.
    fn is_pointwise(&self) -> bool {
        let Window { k, s, p, from, to } = &self.window;
        !self.unicast && self.channels > 0 && k == &[1, 1] && s == &[1, 1] && p == &[0, 0] && from == to
    }

    /// Where each tap's numbers begin: channels, then kernel rows, then kernel columns.
    pub(crate) fn offsets(&self) -> Vec<u32> {
        let [k, s] = [self.window.k, self.window.s];
        let mut offsets = Vec::with_capacity(self.channels * k[0] * k[1]);
        for c in 0..self.channels {
            for kh in 0..k[0] {
                for kw in 0..k[1] {
                    let plane = (c * self.phases[0] + kh % s[0]) * self.phases[1] + kw % s[1];
                    offsets.push(((plane * self.height + kh / s[0]) * self.width + kw / s[1]) as u32);
                }
            }
        }
        offsets
    }

    pub(crate) fn staged_elements(&self) -> usize {
        let beyond = SLACK + (self.window.k[1] - 1) / self.window.s[1];
        self.channels * self.phases[0] * self.phases[1] * self.height * self.width + beyond
    }

    /// Stages channels from `first` on for a share's outputs. `outside` stands for what lies beyond the source.
    #[inline(always)]
    pub(crate) fn stage(
        &self,
        source: Source,
        share: &Share,
        first: usize,
        outside: f32,
        to: &mut [f32],
        gather: &mut Gather,
    ) {
        let (g, first_row) = (share.group, share.first_row);
        let (s, p, from) = (self.window.s, self.window.p, self.window.from);
        let planes = self.channels * self.phases[0] * self.phases[1] * self.height * self.width;
        let (planes, beyond) = to.split_at_mut(planes);
        beyond.fill(0.0);
        let mut rows = planes.chunks_exact_mut(self.width);
        // Source rows that the share's windows meet.
        let top = (first_row * s[0]).saturating_sub(p[0]).min(from[0]);
        let end = (first_row + self.height - 1) * s[0] + self.phases[0];
        let met = top..end.saturating_sub(p[0]).clamp(top, from[0]);
        // And columns.
        let across = ((self.width - 1) * s[1] + self.phases[1]).saturating_sub(p[1]).min(from[1]);
        for c in first..first + self.channels {
            // Short rows are widened together, longer ones once for all phases of their columns.
            let widened = across < SHORT || self.phases[1] > 1;
            if widened && !met.is_empty() && across > 0 {
                let part = Part { rows: met.clone(), columns: 0..across };
                source.widen(g, c, &part, &mut gather.halves, room(&mut gather.wide, part.outputs()));
            }
            for kh in 0..self.phases[0] {
                for kw in 0..self.phases[1] {
                    // Staged columns whose input column lies inside the source.
                    let start = p[1].saturating_sub(kw).div_ceil(s[1]).min(self.width);
                    let end = (from[1] + p[1]).saturating_sub(kw).div_ceil(s[1]).clamp(start, self.width);
                    for (q, row) in rows.by_ref().take(self.height).enumerate() {
                        let h = ((first_row + q) * s[0] + kh).checked_sub(p[0]).filter(|&h| h < from[0]);
                        let Some(h) = h.filter(|_| start < end) else {
                            row.fill(outside);
                            continue;
                        };
                        row[..start].fill(outside);
                        row[end..].fill(outside);
                        let (row, at) = (&mut row[start..end], start * s[1] + kw - p[1]);
                        let reach = at..at + (row.len() - 1) * s[1] + 1;
                        if widened {
                            take_every(s[1], &gather.wide[(h - top) * across..][reach], row);
                            continue;
                        }
                        let source = &source.row(g, c, h, from[1])[reach];
                        if s[1] == 1 {
                            number::widen_row(source, row);
                        } else {
                            let wide = room(&mut gather.wide, source.len());
                            number::widen_row(source, wide);
                            take_every(s[1], wide, row);
                        }
                    }
                }
            }
        }
    }
}

/// Every `stride`th number, from the first to the last.
#[inline(always)]
fn take_every(stride: usize, from: &[f32], to: &mut [f32]) {
    match stride {
        1 => copy_short(from, to),
        2 => {
            let (pairs, last) = from.as_chunks::<2>();
            to.iter_mut().zip(pairs).for_each(|(to, pair)| *to = pair[0]);
            if let (Some(to), Some(last)) = (to.last_mut(), last.first()) {
                *to = *last;
            }
        }
        _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, x)| *to = *x),
    }
}

/// Coefficients of all groups.
#[derive(Clone, Debug)]
pub(crate) struct Kernels {
    /// One for all groups, or one a group.
    groups: Vec<Kernel>,
    offsets: Vec<u32>,
}

/// Coefficients of one group.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) packed: Packed,
    pub(crate) biases: Option<Vec<f32>>,
}

impl Kernels {
    /// Packs what the coefficient streams hold: one item for all groups, or one a group.
    pub(crate) fn pack(
        staging: &Staging,
        channels: usize,
        groups: impl Iterator<Item = Result<Coefficients, FaultKind>>,
    ) -> Result<Kernels, FaultKind> {
        let height = if staging.unicast { 1 } else { PANEL };
        let taps = staging.channels * staging.window.k[0] * staging.window.k[1];
        let pack =
            |Coefficients { weights, biases }| Kernel { packed: Packed::of(&weights, channels, taps, height), biases };
        let groups = groups.map(|c| c.map(pack)).collect::<Result<_, _>>()?;
        Ok(Kernels { groups, offsets: staging.offsets() })
    }

    /// What the coefficients take.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.iter().map(|kernel| kernel.packed.bytes()).sum()
    }

    fn of(&self, share: &Share) -> Option<&Kernel> {
        self.groups.get(share.group).or(self.groups.first())
    }
}

/// Where a result goes.
pub(crate) struct Target<'a> {
    pub(crate) data: &'a mut [half::f16],
    pub(crate) strides: Strides,
    /// Whether it is stored with channels and columns exchanged.
    pub(crate) turned: bool,
}

/// `to = finish(kernels * from)`; the extents are those of the result before it is turned.
pub(crate) fn convolve(
    workers: &Workers,
    staging: &Staging,
    kernels: &Kernels,
    finish: &Finish,
    from: Source,
    to: Target,
    ext: Extents,
) {
    let Some(first) = kernels.groups.first() else { return };
    let shared = ext.g * ext.c * ext.plane() * first.packed.taps() >= WORTH_SHARING;
    if staging.is_pointwise() {
        convolve_pointwise(workers, kernels, finish, from, to, ext, shared);
    } else {
        convolve_staged(workers, staging, kernels, finish, from, to, ext, shared);
    }
}

fn convolve_pointwise(
    workers: &Workers,
    kernels: &Kernels,
    finish: &Finish,
    mut from: Source,
    to: Target,
    mut ext: Extents,
    shared: bool,
) {
    let Target { data, mut strides, turned } = to;
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    let shares = if turned {
        let columns = ext.w.div_ceil(threads).next_multiple_of(16);
        cut(data, ext.transposed(), strides, ext.h, columns)
    } else {
        split_rows(&mut ext, &mut from.strides, &mut strides, threads);
        if ext.h >= threads {
            cut(data, ext, strides, ext.h.div_ceil(threads), ext.c)
        } else {
            cut(data, ext, strides, ext.h, ext.c.div_ceil(threads).next_multiple_of(PANEL))
        }
    };
    let columns = if turned { ext.c } else { ext.w };
    workers.each(shares, shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(pointwise::Job { kernel, finish, from, columns, turned, share, scratch });
    });
}

fn convolve_staged(
    workers: &Workers,
    staging: &Staging,
    kernels: &Kernels,
    finish: &Finish,
    from: Source,
    to: Target,
    ext: Extents,
    shared: bool,
) {
    let Target { data, strides, turned } = to;
    let shares = match turned {
        true => cut(data, ext.transposed(), strides, staging.share_rows, ext.w),
        false => cut(data, ext, strides, staging.share_rows, staging.share_channels),
    };
    workers.each(shares, shared, |share, scratch| {
        let (Some(kernel), offsets) = (kernels.of(share), &kernels.offsets[..]) else { return };
        workers.arch.dispatch(Job { staging, kernel, finish, offsets, from, ext, turned, share, scratch });
    });
}

/// Takes a plane without gaps for as many rows as there are threads, where it can be divided so.
fn split_rows(ext: &mut Extents, from: &mut Strides, to: &mut Strides, threads: usize) {
    let whole = |strides: &Strides| ext.h == 1 || strides[2] == ext.w;
    let n = ext.plane();
    if whole(from) && whole(to) && n.is_multiple_of(threads) {
        (ext.h, ext.w) = (threads, n / threads);
        (from[2], to[2]) = (ext.w, ext.w);
    }
}

/// One share at work. In a share of a turned result channels and columns are exchanged.
struct Job<'a, 'b> {
    staging: &'a Staging,
    kernel: &'a Kernel,
    finish: &'a Finish<'a>,
    offsets: &'a [u32],
    from: Source<'a>,
    ext: Extents,
    turned: bool,
    share: &'a mut Share<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { staging, kernel, finish, offsets, from, ext, turned, share, scratch } = self;
        let columns = ext.w;
        let taps = kernel.packed.taps();
        let staged = room(&mut scratch.staged, staging.staged_elements());
        let gather = &mut scratch.gather;
        let outputs = share.rows * staging.width;
        let stride = outputs + SLACK;
        let at_once = if staging.unicast { 1 } else { CHANNELS };
        let sums = room(&mut scratch.sums, at_once * stride);
        let widened = room(&mut scratch.panel, at_once * TAPS.min(taps));
        let together = !turned && columns < SHORT;
        let rounded = if turned { at_once * share.rows * columns } else { outputs };
        let halves = room(&mut scratch.halves, rounded);
        let (first, channels) = if turned { (0, ext.c) } else { (share.first_channel, share.channels()) };
        for c in (0..channels).step_by(at_once) {
            let channel = first + c;
            let count = at_once.min(channels - c);
            if c == 0 || staging.unicast {
                let first = if staging.unicast { channel * staging.channels } else { 0 };
                staging.stage(from, share, first, 0.0, staged, gather);
            }
            for tap in (0..taps).step_by(TAPS) {
                let some = tap..taps.min(tap + TAPS);
                for m in (0..count).step_by(PANEL) {
                    let height = kernel.packed.height(channel + m);
                    let panel = kernel.packed.widen(channel + m, some.clone(), widened);
                    let sums = &mut sums[m * stride..];
                    let places = &offsets[some.clone()];
                    let resume = tap > 0;
                    Sums { panel, height, source: staged, places, sums, stride, outputs, resume }.with_simd(simd);
                }
            }
            for m in 0..count {
                let bias = kernel.biases.as_ref().map_or(0.0, |b| b[channel + m]);
                if together {
                    // With what stands between short rows.
                    finish.row(bias, &mut sums[m * stride..][..outputs], halves);
                    for (row, from) in halves.chunks_exact(staging.width).enumerate() {
                        copy_short(&from[..columns], share.row(c + m, row, columns));
                    }
                    continue;
                }
                for row in 0..share.rows {
                    let sums = &mut sums[m * stride + row * staging.width..][..columns];
                    let to = match turned {
                        true => &mut halves[(m * share.rows + row) * columns..][..columns],
                        false => share.row(c + m, row, columns),
                    };
                    finish.row(bias, sums, to);
                }
            }
            if turned {
                let from = Turned { data: halves, stride: share.rows * columns, columns, first: c };
                from.store(share, 0, share.rows, 0, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Activation;
    use crate::panels::Values;
    use crate::rows::{dense, reach};
    use half::f16;

    /// Every way to compute a product of matrices has the same bits, turned or not, wherever its rows lie.
    #[test]
    fn the_ways_to_one_product_agree() {
        let finish = Finish { bias: 0.5, scale: 0.75, activation: &Activation::Relu };
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        for (g, cin, cout, h, w) in [(1, 300, 130, 1, 70), (2, 20, 7, 5, 7), (1, 600, 64, 16, 16), (1, 600, 130, 1, 1)]
        {
            let (input, ext) = (Extents { g, c: cin, h, w }, Extents { g, c: cout, h, w });
            let k = [1, 1];
            let window = Window { k, s: k, p: [0, 0], from: [h, w], to: [h, w] };
            let staging = Staging::new(window, cin, false, ext).expect("it is small");
            let weights = |g: usize| (0..cout * cin).map(|i| draw(i + g)).collect();
            let biases = Some((0..cout).map(|c| c as f32 / 64.0).collect::<Vec<f32>>());
            let groups =
                (0..g).map(|g| Ok(Coefficients { weights: Values::Halves(weights(g)), biases: biases.clone() }));
            let kernels = Kernels::pack(&staging, cout, groups).expect("it is packed");
            // Rows with gaps, and channels within rows.
            let strides = [h * cin * (w + 3), w + 3, cin * (w + 3)];
            let x: Vec<f16> = (0..reach(input, strides)).map(draw).collect();
            let from = Source { data: &x, strides };
            let workers = Workers::new();
            let run = |pointwise: bool, turned: bool| {
                let stored = if turned { ext.transposed() } else { ext };
                let mut data = vec![f16::NAN; reach(stored, dense(stored))];
                let to = Target { data: &mut data, strides: dense(stored), turned };
                match pointwise {
                    true => convolve_pointwise(&workers, &kernels, &finish, from, to, ext, true),
                    false => convolve_staged(&workers, &staging, &kernels, &finish, from, to, ext, true),
                }
                data
            };
            let wanted = run(false, false);
            assert!(wanted.iter().all(|x| !x.is_nan()));
            assert_eq!(run(true, false), wanted);
            let turned = run(true, true);
            assert_eq!(run(false, true), turned);
            let at = |data: &[f16], e: Extents, [g, c, h, w]: [usize; 4]| data[((g * e.c + c) * e.h + h) * e.w + w];
            for (i, &x) in wanted.iter().enumerate() {
                let (w, h, c, g) = (i % ext.w, i / ext.w % ext.h, i / ext.plane() % ext.c, i / ext.plane() / ext.c);
                assert_eq!(at(&turned, ext.transposed(), [g, w, h, c]), x);
            }
        }
    }
}
