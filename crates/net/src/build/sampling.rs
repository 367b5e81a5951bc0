//! Sampling of an image at computed positions.

use super::{Builder, Built};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, Outside, ResizeMode};

/// Most positions of a grid that is created while reading.
const GRID_ELEMENTS: usize = 1 << 24;

/// Distribution of sampling positions over an extent: the sampling modes of the Core ML operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// First and last positions at the ends; a single one at the first.
    StrictAlignCorners,
    /// As strict, but a single position in the middle.
    AlignCorners,
    /// Steps of the extent divided by the count.
    Default,
    /// As the default, with both ends moved inwards by half a step.
    OffsetCorners,
    /// Centres of equal parts.
    UnalignCorners,
}

impl Spread {
    /// Position of step `i` of `count` between `first` and `last`, as weights of the two.
    fn weight(self, i: usize, count: usize) -> (f32, f32, f32) {
        let (i, n) = (i as f32, count as f32);
        // `first + (last - first) * t + half`; the span counts `extra` more elements.
        match self {
            Spread::StrictAlignCorners if count == 1 => (0.0, 0.0, 0.0),
            Spread::AlignCorners if count == 1 => (0.5, 0.0, 0.0),
            Spread::StrictAlignCorners | Spread::AlignCorners => (i / (n - 1.0), 0.0, 0.0),
            // The span is one element longer than the distance of its ends.
            Spread::Default => (i / n, i / n, 0.0),
            Spread::OffsetCorners if count == 1 => (0.5, 0.0, 0.0),
            Spread::OffsetCorners => ((i + 0.5) / n, 0.0, 0.0),
            Spread::UnalignCorners => {
                let t = (i + 0.5) / n;
                (t, t, -0.5)
            }
        }
    }
}

impl Builder {
    /// A grid `[N, Ho, Wo, 2]` from columns `[N, Wo]` and rows `[N, Ho]`.
    pub fn grid(&mut self, columns: ValueId, rows: ValueId) -> Built {
        let (n, w, h) = (self.shape(columns)[0], self.shape(columns)[1], self.shape(rows)[1]);
        let columns = self.reshape(columns, [n, 1, w, 1])?;
        let columns = self.broadcast(columns, [n, h, w, 1])?;
        let rows = self.reshape(rows, [n, h, 1, 1])?;
        let rows = self.broadcast(rows, [n, h, w, 1])?;
        self.concat(&[columns, rows], 3)
    }

    pub fn sample(&mut self, x: ValueId, coordinates: ValueId, mode: ResizeMode, outside: Outside) -> Built {
        self.op("sampled", OpKind::Sample { mode, outside }, &[x, coordinates])
    }

    /// Pixel positions from coordinates normalized to -1..1; the extents give `(scale, offset)` per axis.
    pub fn pixels_of(&mut self, grid: ValueId, extents: [usize; 2], align_corners: bool) -> Built {
        let of = |n: usize| {
            let n = n as f32;
            if align_corners { ((n - 1.0) / 2.0, (n - 1.0) / 2.0) } else { (n / 2.0, (n - 1.0) / 2.0) }
        };
        let ((sx, ox), (sy, oy)) = (of(extents[0]), of(extents[1]));
        let scale = self.floats([2], &[sx, sy], grid);
        let offset = self.floats([2], &[ox, oy], grid);
        let scaled = self.binary(Binary::Mul, grid, scale)?;
        self.binary(Binary::Add, scaled, offset)
    }

    /// Boxes `[B, 4]` (top, left, bottom, right in pixels of `x`) of the images `[B, C, H, W]`, each sampled at
    /// `to` rows and columns.
    pub fn crop_boxes(
        &mut self,
        x: ValueId,
        boxes: ValueId,
        to: [usize; 2],
        spread: Spread,
        outside: Outside,
    ) -> Built {
        let count = self.shape(boxes)[0];
        let side = |b: &mut Builder, i: usize| {
            let side = b.slice(boxes, 1, i, i + 1)?;
            b.reshape(side, [count, 1])
        };
        let [top, left, bottom, right] = [side(self, 0)?, side(self, 1)?, side(self, 2)?, side(self, 3)?];
        let columns = self.interpolated(left, right, to[1], spread)?;
        let rows = self.interpolated(top, bottom, to[0], spread)?;
        let grid = self.grid(columns, rows)?;
        self.sample(x, grid, ResizeMode::Linear, outside)
    }

    /// `count` positions `[B, count]` between two `[B, 1]`.
    fn interpolated(&mut self, first: ValueId, last: ValueId, count: usize, spread: Spread) -> Built {
        let weights: Vec<(f32, f32, f32)> = (0..count).map(|i| spread.weight(i, count)).collect();
        let t: Vec<f32> = weights.iter().map(|w| w.0).collect();
        let fixed: Vec<f32> = weights.iter().map(|w| w.1 + w.2).collect();
        let t = self.floats([1, count], &t, first);
        let fixed = self.floats([1, count], &fixed, first);
        let span = self.binary(Binary::Sub, last, first)?;
        let along = self.binary(Binary::Mul, span, t)?;
        let at = self.binary(Binary::Add, along, fixed)?;
        self.binary(Binary::Add, at, first)
    }

    /// Positions `[N, to..., D]` of an affine map `[N, D, D + 1]` applied to a grid over -1..1 in each of the `D`
    /// extents `to`; the position along the innermost extent comes first.
    pub fn affine_grid(&mut self, theta: ValueId, to: &[usize], align_corners: bool) -> Result<ValueId, Error> {
        let (d, count) = (to.len(), elements(to));
        if self.shape(theta).get(1..) != Some(&[d, d + 1]) || count > GRID_ELEMENTS {
            return Err(self.unsupported("affine_grid", format!("map {:?} for extents {to:?}", self.shape(theta))));
        }
        let n = self.shape(theta)[0];
        let at = |i: usize, count: usize| {
            let (i, m) = (i as f32, count as f32);
            match (align_corners, count) {
                (true, 1) => 0.0,
                (true, _) => 2.0 * i / (m - 1.0) - 1.0,
                (false, _) => (2.0 * i + 1.0) / m - 1.0,
            }
        };
        let place = |i: usize, axis: usize| at(i / elements(&to[axis + 1..]) % to[axis], to[axis]);
        let base = (0..count).flat_map(|i| (0..d).rev().map(move |axis| place(i, axis)).chain([1.0]));
        let base: Vec<f32> = base.collect();
        let base = self.floats([1, count, d + 1], &base, theta);
        let base = self.broadcast(base, [n, count, d + 1])?;
        let grid = self.matmul(base, theta, true)?;
        let whole = [&[n][..], to, &[d]].concat();
        let grid = self.reshape(grid, whole)?;
        self.cast(grid, DType::F32)
    }
}
