//! Winograd transforms: of the source, of the kernels, and of the sums.

use super::*;

/// Layout of transformed elements: `[position in the tile][channel]`.
pub(super) struct Planes {
    pub(super) stride: usize,
    /// Elements between positions.
    pub(super) plane: usize,
}

impl Planes {
    pub(super) fn of(channels: usize, stride: usize) -> Planes {
        Planes { stride, plane: channels * stride + LONGEST }
    }

    pub(super) fn elements(&self) -> usize {
        PLACES * self.plane + LONGEST
    }
}

#[inline(always)]
pub(super) fn load<S: Simd>(from: &[f32], at: usize) -> S::f32s {
    S::as_simd_f32s(&from[at..][..S::F32_LANES]).0[0]
}

#[inline(always)]
pub(super) fn store<S: Simd>(x: S::f32s, to: &mut [f32], at: usize) {
    S::as_mut_simd_f32s(&mut to[at..][..S::F32_LANES]).0[0] = x;
}

/// Transforms the input tiles of one channel.
pub(super) struct InputTiles<'a> {
    /// Even columns, and odd ones a phase further; rows are `width` apart.
    pub(super) staged: &'a [f32],
    pub(super) phase: usize,
    pub(super) width: usize,
    pub(super) down: usize,
    pub(super) across: usize,
    pub(super) to: &'a mut [f32],
    pub(super) plane: usize,
}

impl WithSimd for InputTiles<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let InputTiles { staged, phase, width, down, across, to, plane } = self;
        let mut places = <[&mut [f32]; PLACES]>::default();
        let reached = (down - 1) * across + across.next_multiple_of(S::F32_LANES);
        for (place, to) in places.iter_mut().zip(to.chunks_mut(plane)) {
            *place = &mut to[..reached];
        }
        for row in 0..down {
            let mut columns = [[staged; 2]; INPUT_TILE];
            for (i, columns) in columns.iter_mut().enumerate() {
                let at = (OUTPUT_TILE * row + i) * width;
                *columns = [&staged[at..][..width + LONGEST], &staged[at + phase..][..width + LONGEST]];
            }
            for column in (0..across).step_by(S::F32_LANES) {
                let mut rows = [[simd.splat_f32s(0.0); INPUT_TILE]; INPUT_TILE];
                for (to, [even, odd]) in rows.iter_mut().zip(columns) {
                    // One column more than a vector has lanes.
                    let (Some(even), Some(odd)) = (even[column..].first_chunk(), odd[column..].first_chunk()) else {
                        return;
                    };
                    let [even, odd]: [&[f32; LONGEST + 1]; 2] = [even, odd];
                    let (x, y) = (load::<S>(even, 0), load::<S>(odd, 0));
                    let (z, w) = (load::<S>(even, 1), load::<S>(odd, 1));
                    *to = transform(simd, [x, y, z, w]);
                }
                for j in 0..INPUT_TILE {
                    let done = transform(simd, [rows[0][j], rows[1][j], rows[2][j], rows[3][j]]);
                    for i in 0..INPUT_TILE {
                        store::<S>(done[i], places[i * INPUT_TILE + j], row * across + column);
                    }
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn transform<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; INPUT_TILE]) -> [S::f32s; INPUT_TILE] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Transforms the kernels of two panels, for each input channel, to lines of output channels.
pub(super) struct Lines<'a> {
    /// Coefficients of each panel, tap by tap; those of the second one are offset by half a line.
    pub(super) halves: [&'a [f32]; 2],
    pub(super) to: &'a mut [f32],
}

impl WithSimd for Lines<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Lines { halves: [first, second], to } = self;
        let half = simd.splat_f32s(0.5);
        for (to, at) in to.as_chunks_mut::<STEP>().0.iter_mut().zip((0..).step_by(KERNEL * PANEL)) {
            let (Some(first), Some(second)) = (first[at..].first_chunk(), second[at..].first_chunk()) else { return };
            let halves: [&[f32; KERNEL * PANEL + LINE]; 2] = [first, second];
            for part in (0..LINE).step_by(S::F32_LANES) {
                let mut columns = [[half; INPUT_TILE]; 3];
                for (i, column) in columns.iter_mut().enumerate() {
                    let (x, y) = (both(simd, halves, 3 * i, part), both(simd, halves, 3 * i + 1, part));
                    *column = transform_kernel_row(simd, half, [x, y, both(simd, halves, 3 * i + 2, part)]);
                }
                let [first, second, third] = &columns;
                for (j, ((&x, &y), &z)) in first.iter().zip(second).zip(third).enumerate() {
                    for (i, done) in transform_kernel_row(simd, half, [x, y, z]).into_iter().enumerate() {
                        store::<S>(done, to, (i * INPUT_TILE + j) * LINE + part);
                    }
                }
            }
        }
    }
}

/// Loads part of a line of coefficients: below the middle from the first panel, above it from the second.
#[inline(always)]
pub(super) fn both<S: Simd>(
    simd: S,
    [first, second]: [&[f32; KERNEL * PANEL + LINE]; 2],
    tap: usize,
    part: usize,
) -> S::f32s {
    let at = tap * PANEL + part;
    if part + S::F32_LANES <= HALF {
        load::<S>(first, at)
    } else if part >= HALF {
        load::<S>(second, at)
    } else {
        let mask = simd.mask_between_m32s(0, HALF as u32).mask();
        simd.select_f32s(mask, load::<S>(first, at), load::<S>(second, at))
    }
}

/// Kernel transform of one dimension. Multiplications by one half are exact.
#[inline(always)]
pub(super) fn transform_kernel_row<S: Simd>(simd: S, half: S::f32s, [a, b, c]: [S::f32s; 3]) -> [S::f32s; INPUT_TILE] {
    let (outer, inner) = (simd.mul_f32s(simd.add_f32s(a, c), half), simd.mul_f32s(b, half));
    [a, simd.add_f32s(outer, inner), simd.sub_f32s(outer, inner), c]
}

/// Transforms the sums of one channel to rows of outputs.
pub(super) struct Results<'a> {
    pub(super) from: &'a [f32],
    pub(super) plane: usize,
    pub(super) down: usize,
    pub(super) across: usize,
    pub(super) to: &'a mut [f32],
    /// Elements between rows of outputs.
    pub(super) stride: usize,
}

impl WithSimd for Results<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Results { from, plane, down, across, to, stride } = self;
        let mut places = [from; PLACES];
        let reached = (down - 1) * across + across.next_multiple_of(S::F32_LANES);
        for (place, from) in places.iter_mut().zip(from.chunks(plane)) {
            *place = &from[..reached];
        }
        for row in 0..down {
            for column in (0..across).step_by(S::F32_LANES) {
                let at = row * across + column;
                let mut rows = [[simd.splat_f32s(0.0); OUTPUT_TILE]; INPUT_TILE];
                for (to, places) in rows.iter_mut().zip(places.as_chunks::<INPUT_TILE>().0) {
                    let (x, y) = (load::<S>(places[0], at), load::<S>(places[1], at));
                    *to = gather(simd, [x, y, load::<S>(places[2], at), load::<S>(places[3], at)]);
                }
                let even = gather(simd, [rows[0][0], rows[1][0], rows[2][0], rows[3][0]]);
                let odd = gather(simd, [rows[0][1], rows[1][1], rows[2][1], rows[3][1]]);
                for i in 0..OUTPUT_TILE {
                    let at = (OUTPUT_TILE * row + i) * stride + OUTPUT_TILE * column;
                    simd::interleave(simd, even[i], odd[i], &mut to[at..][..OUTPUT_TILE * S::F32_LANES]);
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn gather<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; INPUT_TILE]) -> [S::f32s; OUTPUT_TILE] {
    [simd.add_f32s(simd.add_f32s(a, b), c), simd.sub_f32s(simd.sub_f32s(b, c), d)]
}
