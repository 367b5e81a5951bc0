//! Channel interleave: from channels-last groups to planes and back.

use crate::arrays::array_of;
use crate::tensor::{Extents, Tensor};

/// Extents of a tensor whose channels are interleaved in groups of `by`.
pub fn interleaved(ext: Extents, by: usize) -> Extents {
    Extents { c: ext.c / by, w: ext.w * by, ..ext }
}

/// Deinterleaves a tensor: each row of `by` interleaved channels becomes `by` rows. `ext` are the extents of the result.
pub fn separate(from: &Tensor, ext: Extents, by: usize) -> Tensor {
    let mut data = vec![0.0; from.data.len()];
    for (i, packed) in from.data.chunks_exact((ext.w * by).max(1)).enumerate() {
        let rows = &mut data[first(ext, by, i)..];
        match by {
            2 => deal::<2>(packed, ext, rows),
            4 => deal::<4>(packed, ext, rows),
            8 => deal::<8>(packed, ext, rows),
            _ => (0..by).for_each(|k| {
                let row = &mut rows[k * ext.plane()..][..ext.w];
                row.iter_mut().zip(packed[k..].iter().step_by(by)).for_each(|(to, x)| *to = *x);
            }),
        }
    }
    Tensor { ext, data }
}

/// Inverse of [`separate`].
pub fn interlace(from: &Tensor, by: usize) -> Tensor {
    let ext = from.ext;
    let mut data = vec![0.0; from.data.len()];
    for (i, packed) in data.chunks_exact_mut((ext.w * by).max(1)).enumerate() {
        let rows = &from.data[first(ext, by, i)..];
        match by {
            2 => gather::<2>(rows, ext, packed),
            4 => gather::<4>(rows, ext, packed),
            8 => gather::<8>(rows, ext, packed),
            _ => (0..by).for_each(|k| {
                let row = &rows[k * ext.plane()..][..ext.w];
                packed[k..].iter_mut().step_by(by).zip(row).for_each(|(to, x)| *to = *x);
            }),
        }
    }
    Tensor { ext: interleaved(ext, by), data }
}

/// Offset of the first of the rows that interleaved row `i` contains.
fn first(ext: Extents, by: usize, i: usize) -> usize {
    let (set, h) = (i / ext.h.max(1), i % ext.h.max(1));
    set * by * ext.plane() + h * ext.w
}

fn deal<const N: usize>(packed: &[f32], ext: Extents, rows: &mut [f32]) {
    for k in 0..N {
        let row = rows[k * ext.plane()..][..ext.w].iter_mut();
        for (to, set) in row.zip(packed.as_chunks::<N>().0) {
            *to = set[k];
        }
    }
}

fn gather<const N: usize>(rows: &[f32], ext: Extents, packed: &mut [f32]) {
    let rows: [&[f32]; N] = array_of(|k| &rows[k * ext.plane()..][..ext.w]);
    for (i, set) in packed.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        *set = array_of(|k| rows[k][i]);
    }
}
