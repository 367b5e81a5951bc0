//! GEMM micro-kernels: fp32 sums of fp16 products, used by every fp32 convolution.
//!
//! A register tile is a panel of output channels by a run of consecutive outputs. The operands are staged (`Im2col` of `anemone_conv`) so that the
//! outputs of one tap read consecutive elements, at an offset given for each tap (an indirect, implicit im2col): the unfolded matrix is
//! never formed. Coefficients are widened one panel at a time ([`crate::filter`]).

use crate::arrays::MapEach;
use crate::host::fetch_line;
use crate::simd::outline;
use pulp::{Simd, WithSimd};

/// Rows of the register tile: output channels.
pub const PANEL: usize = 6;

/// Outputs of a run for panels of three or more channels. Sources that are packed run by run use this length.
pub fn run_outputs<S: Simd>() -> usize {
    S::F32_LANES * run_vectors::<S>()
}

/// Vectors a channel: four with 32 registers, two with 16, one on scalar hosts, to generate little code.
#[inline(always)]
pub(super) const fn run_vectors<S: Simd>() -> usize {
    match S::REGISTER_COUNT {
        _ if S::F32_LANES == 1 => 1,
        32.. => 4,
        _ => 2,
    }
}

/// Vectors a channel for a panel height. Lower panels take wider runs: the register file stays full, and one channel's independent sums
/// hide the latency of the addition.
#[inline(always)]
const fn vectors_of<S: Simd>(channels: usize) -> usize {
    let most = run_vectors::<S>();
    if channels == 1 && 4 * most <= 8 {
        4 * most
    } else if channels <= 2 {
        2 * most
    } else {
        most
    }
}

/// Elements that may be read past the last output: the widest run (one channel, longest vectors) minus one, rounded up.
pub const SLACK: usize = 128;

/// Bytes that are prefetched while a register tile is computed: some for each tap, because a burst of misses stops the processor.
#[derive(Clone, Copy)]
pub struct Ahead<'a> {
    bytes: &'a [u8],
    /// Bytes a tap.
    step: usize,
}

impl<'a> Ahead<'a> {
    /// One line, which stays in L1.
    pub const NONE: Ahead<'static> = Ahead { bytes: &[0], step: 0 };

    /// Prefetches `bytes` over some taps.
    pub fn of(bytes: &'a [u8], taps: usize) -> Ahead<'a> {
        if bytes.is_empty() { Ahead::NONE } else { Ahead { bytes, step: bytes.len().div_ceil(taps.max(1)) } }
    }
}

/// Register tiles of one panel of channels, for all its outputs.
pub struct MicroKernel<'a> {
    /// Coefficients of the panel, `[tap][channel]`.
    pub panel: &'a [f32],
    /// Channels of the panel.
    pub height: usize,
    pub source: &'a [f32],
    /// Offset in `source` of the first output's operand, by tap.
    pub places: &'a [u32],
    /// Sums by channel of the panel; the last vector of a channel may write up to [`SLACK`] elements past its outputs.
    pub sums: &'a mut [f32],
    /// Elements between channels in `sums`: at least the outputs, rounded up to whole vectors.
    pub stride: usize,
    pub outputs: usize,
    pub ahead: Ahead<'a>,
    /// True to accumulate onto `sums`. Additions follow the order of the taps, so splitting the taps over calls changes no bit.
    pub resume: bool,
}

impl WithSimd for MicroKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.height {
            1 => self.rows::<S, 1>(simd),
            2 => self.rows::<S, 2>(simd),
            3 => self.rows::<S, 3>(simd),
            4 => self.rows::<S, 4>(simd),
            5 => self.rows::<S, 5>(simd),
            _ => self.rows::<S, PANEL>(simd),
        }
    }
}

impl MicroKernel<'_> {
    #[inline(always)]
    fn rows<S: Simd, const M: usize>(self, simd: S) {
        let most = const { vectors_of::<S>(M) };
        let mut at = 0;
        let MicroKernel { panel, source, places, stride, ahead, resume, .. } = self;
        while at < self.outputs {
            let vectors = (self.outputs - at).div_ceil(S::F32_LANES).min(most);
            let tile = Tile { panel, source: &source[at..], places, sums: &mut self.sums[at..], stride, ahead, resume };
            macro_rules! runs {
                ($($count: literal)*) => {
                    match vectors {
                        $($count if const { $count <= vectors_of::<S>(M) } => outline(simd, Shape::<M, $count>(tile)),)*
                        // `vectors` is at most `most`.
                        _ => return,
                    }
                };
            }
            runs!(1 2 3 4 5 6 7 8);
            at += vectors * S::F32_LANES;
        }
    }
}

/// Register tile of `M` channels by `N` vectors of outputs.
struct Shape<'a, const M: usize, const N: usize>(Tile<'a>);

/// Operands and sums of a register tile.
struct Tile<'a> {
    panel: &'a [f32],
    source: &'a [f32],
    places: &'a [u32],
    sums: &'a mut [f32],
    stride: usize,
    ahead: Ahead<'a>,
    resume: bool,
}

impl<const M: usize, const N: usize> WithSimd for Shape<'_, M, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        self.0.sum(simd, M, N, sums.as_flattened_mut());
    }
}

impl Tile<'_> {
    /// Computes a tile of `channels` by `vectors`, which are constants after inlining. The function is one copy of LLVM IR.
    #[inline(always)]
    fn sum<S: Simd>(self, simd: S, channels: usize, vectors: usize, sums: &mut [S::f32s]) {
        let Tile { panel, source, places, sums: to, stride, ahead, resume } = self;
        let run = vectors * S::F32_LANES;
        if resume {
            for m in 0..channels {
                let before = S::as_simd_f32s(&to[m * stride..][..run]).0;
                for n in 0..vectors {
                    sums[m * vectors + n] = before[n];
                }
            }
        }
        for (tap, (weights, place)) in panel.chunks_exact(channels).zip(places).enumerate() {
            fetch_line(ahead.bytes, tap * ahead.step);
            let x = &S::as_simd_f32s(&source[*place as usize..][..run]).0[..vectors];
            for m in 0..channels {
                let weight = simd.splat_f32s(weights[m]);
                for n in 0..vectors {
                    sums[m * vectors + n] = simd.mul_add_f32s(weight, x[n], sums[m * vectors + n]);
                }
            }
        }
        for m in 0..channels {
            let after = &mut S::as_mut_simd_f32s(&mut to[m * stride..][..run]).0[..vectors];
            for n in 0..vectors {
                after[n] = sums[m * vectors + n];
            }
        }
    }
}

/// Full panels of channels, and operands of some outputs.
pub struct Panels<'a> {
    /// Coefficients by panel, `[tap][channel]` within each; [`TailKernel`] reads up to [`COLUMN_SLACK`] elements past the last.
    pub panels: &'a [f32],
    /// Elements between panels.
    pub distance: usize,
    pub taps: usize,
    /// Starts at the operand of the first tap and output.
    pub source: &'a [f32],
    /// Elements between the operands of taps.
    pub tap_stride: usize,
    /// As in [`MicroKernel`].
    pub sums: &'a mut [f32],
    pub stride: usize,
    pub resume: bool,
}

/// Register tile of two panels by one vector of outputs: as many sums as hide the latency of an addition. One panel has too few.
pub struct PairKernel<'a>(pub Panels<'a>);

impl WithSimd for PairKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Panels { panels, distance, taps, source, tap_stride, sums: to, stride, resume } = self.0;
        let mut sums = [simd.splat_f32s(0.0); 2 * PANEL];
        if resume {
            for m in 0..2 * PANEL {
                sums[m] = S::as_simd_f32s(&to[m * stride..][..S::F32_LANES]).0[0];
            }
        }
        let [one, two] = [0, distance].map_each(|at| panels[at..][..taps * PANEL].as_chunks::<PANEL>().0);
        for ((one, two), x) in one.iter().zip(two).zip(source.chunks(tap_stride)) {
            let x = S::as_simd_f32s(&x[..S::F32_LANES]).0[0];
            for m in 0..PANEL {
                sums[m] = simd.mul_add_f32s(simd.splat_f32s(one[m]), x, sums[m]);
                sums[PANEL + m] = simd.mul_add_f32s(simd.splat_f32s(two[m]), x, sums[PANEL + m]);
            }
        }
        for m in 0..2 * PANEL {
            S::as_mut_simd_f32s(&mut to[m * stride..][..S::F32_LANES]).0[0] = sums[m];
        }
    }
}

/// Largest number of panels of a [`TailKernel`].
pub const COLUMN_PANELS: usize = 8;
/// Lanes of the longest vectors.
const LONGEST: usize = 16;

/// Micro-kernel for tails: one output by `P` panels. Vectors run over the channels of a panel, so each tap is one multiply-add a panel.
pub struct TailKernel<'a, const P: usize>(pub Panels<'a>);

/// Elements that a [`TailKernel`] may read past its coefficients.
pub const COLUMN_SLACK: usize = LONGEST - PANEL;

/// Outputs at the end of a run for which [`TailKernel`] is cheaper than a partly filled vector.
pub fn columns_of<S: Simd>(outputs: usize) -> usize {
    let rest = outputs % S::F32_LANES;
    if rest == 1 || COLUMN_COST * rest <= S::F32_LANES { rest } else { 0 }
}

/// Outputs at the end of a run that are computed apart from its full vectors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// None: full vectors, or a partly filled one.
    None,
    /// One by one, by [`TailKernel`].
    Columns(usize),
    /// At once, by [`PairKernel`] with vectors of half the lanes.
    Half(usize),
}

impl Tail {
    pub fn of<S: Simd>(outputs: usize) -> Tail {
        match outputs % S::F32_LANES {
            0 => Tail::None,
            rest if S::F32_LANES < LONGEST => match columns_of::<S>(outputs) {
                0 => Tail::None,
                _ => Tail::Columns(rest),
            },
            rest if COLUMN_COST * rest <= LONGEST / 2 => Tail::Columns(rest),
            rest if rest <= LONGEST / 2 => Tail::Half(rest),
            _ => Tail::None,
        }
    }

    /// Its outputs.
    pub fn outputs(self) -> usize {
        match self {
            Tail::None => 0,
            Tail::Columns(count) | Tail::Half(count) => count,
        }
    }

    /// Panels that its kernel computes at once, at most.
    pub fn panels(self) -> usize {
        match self {
            Tail::None => 1,
            Tail::Columns(_) => COLUMN_PANELS,
            Tail::Half(_) => 2,
        }
    }

    /// Channels of `count`, in whole panels or pairs of them, whose tails are computed apart.
    pub fn channels(self, count: usize) -> usize {
        match self {
            Tail::None => 0,
            Tail::Columns(_) => count - count % PANEL,
            Tail::Half(_) => count - count % (2 * PANEL),
        }
    }
}

/// Cost of `outputs` outputs, in outputs of full vectors, with their [`Tail`] on hosts with the longest vectors.
pub fn computed(outputs: usize) -> usize {
    let rest = outputs % LONGEST;
    let half = if rest <= LONGEST / 2 { LONGEST / 2 } else { LONGEST };
    outputs - rest + (COLUMN_COST * rest).min(half)
}

/// Cost of one output by [`TailKernel`], in lanes of a vector of outputs; lanes past a panel are wasted.
const COLUMN_COST: usize = 5;

impl<const P: usize> WithSimd for TailKernel<'_, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.sum_tail(simd, P);
    }
}

impl Panels<'_> {
    /// Computes one output of some panels, whose number is a constant after inlining. The function is one copy of LLVM IR.
    #[inline(always)]
    fn sum_tail<S: Simd>(self, simd: S, count: usize) {
        let Panels { panels, distance, taps, source, tap_stride, sums, stride, resume } = self;
        let vectors = const { PANEL.div_ceil(S::F32_LANES) };
        let numbers = vectors * S::F32_LANES;
        let place = |panel: usize, channel: usize| (panel * PANEL + channel) * stride;
        let mut columns = [[simd.splat_f32s(0.0); PANEL]; COLUMN_PANELS];
        if resume {
            for (p, column) in columns.iter_mut().enumerate().take(count) {
                let mut before = [0.0; LONGEST];
                for (c, sum) in before.iter_mut().take(PANEL).enumerate() {
                    *sum = sums[place(p, c)];
                }
                column[..vectors].copy_from_slice(S::as_simd_f32s(&before[..numbers]).0);
            }
        }
        let mut each: [&[f32]; COLUMN_PANELS] = [&[]; COLUMN_PANELS];
        for p in 0..count {
            each[p] = &panels[p * distance..][..taps * PANEL + COLUMN_SLACK];
        }
        for tap in 0..taps {
            let x = simd.splat_f32s(source[tap * tap_stride]);
            for p in 0..count {
                let weights = S::as_simd_f32s(&each[p][tap * PANEL..][..numbers]).0;
                for v in 0..vectors {
                    columns[p][v] = simd.mul_add_f32s(weights[v], x, columns[p][v]);
                }
            }
        }
        for (p, column) in columns.iter().enumerate().take(count) {
            let mut after = [0.0; LONGEST];
            S::as_mut_simd_f32s(&mut after[..numbers]).0.copy_from_slice(&column[..vectors]);
            for (c, &sum) in after.iter().take(PANEL).enumerate() {
                sums[place(p, c)] = sum;
            }
        }
    }
}
