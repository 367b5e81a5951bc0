//! Packed columns of operands: decoded, in panels, with the statistics that bound their sums.

use super::decode::{Reading, exp2i};
use super::{LONGEST, PARALLEL_THRESHOLD, SEGMENT, WIDTH};
use crate::isa;
use crate::num::reference::LEAST_EXPONENT;
use crate::par::share;
use crate::params::AccumulatorSpec;
use crate::simd;
use bytemuck::{Pod, Zeroable};
use pulp::{Simd, WithSimd};

/// Panels packed together, because their columns are contiguous in the source.
const PANELS_AT_ONCE: usize = 8;

/// Operands of one tap for all columns of a panel. Aligned to the longest vectors.
#[derive(Clone, Copy, Debug, Zeroable, Pod)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [f32; WIDTH]);

/// Packed operands: columns of a GEMM.
#[derive(Clone, Debug)]
pub struct Columns {
    pub(super) mac: AccumulatorSpec,
    pub(super) taps: usize,
    pub(super) columns: usize,
    /// By panel, then tap; zero beyond the last column.
    pub(super) panels: Vec<Line>,
    /// Set of the exponents that occur, one bit each; zeros have none. By panel, then tap.
    pub(super) exponents: Vec<u32>,
    /// Largest norm of a column. By panel, then segment.
    pub(super) norms: Vec<f32>,
}

impl Columns {
    /// Packs `[tap][column]` fp16 numbers held in fp32. Missing ones count as zero.
    pub fn pack(mac: &AccumulatorSpec, taps: usize, columns: usize, values: &[f32]) -> Columns {
        let mut new = Columns::empty(mac);
        new.resize(taps, columns);
        if new.panels.is_empty() {
            return new;
        }
        let segments = taps.div_ceil(SEGMENT);
        let parts = new.panels.chunks_mut(PANELS_AT_ONCE * taps);
        let parts = parts.zip(new.exponents.chunks_mut(PANELS_AT_ONCE * taps));
        let parts = parts.zip(new.norms.chunks_mut(PANELS_AT_ONCE * segments)).collect();
        let shared = columns * taps >= PARALLEL_THRESHOLD / 8;
        share(parts, shared, false, &|group, ((panels, exponents), norms): ((&mut [Line], &mut [u32]), &mut [f32])| {
            let first = group * PANELS_AT_ONCE * WIDTH;
            let (reading, source) = (Some(Reading::new(mac)), &Rows { values, columns });
            isa::arch().dispatch(Packing { reading, columns, first, taps, source, panels, exponents, norms });
        });
        new
    }

    /// Without any columns.
    pub fn empty(mac: &AccumulatorSpec) -> Columns {
        Columns { mac: *mac, taps: 0, columns: 0, panels: vec![], exponents: vec![], norms: vec![] }
    }

    /// [`Columns::pack`] on this thread, reusing the allocation. `decoded` is true if the source's numbers are decoded already.
    #[inline(always)]
    pub fn fill<S: Simd>(&mut self, simd: S, taps: usize, columns: usize, decoded: bool, source: &impl Operands) {
        self.resize(taps, columns);
        let (segments, reading) = (taps.div_ceil(SEGMENT), (!decoded).then(|| Reading::new(&self.mac)));
        if self.panels.is_empty() {
            return;
        }
        let parts = self.panels.chunks_mut(PANELS_AT_ONCE * taps);
        let parts = parts.zip(self.exponents.chunks_mut(PANELS_AT_ONCE * taps));
        let parts = parts.zip(self.norms.chunks_mut(PANELS_AT_ONCE * segments));
        for (group, ((panels, exponents), norms)) in parts.enumerate() {
            let first = group * PANELS_AT_ONCE * WIDTH;
            Packing { reading, columns, first, taps, source, panels, exponents, norms }.with_simd(simd);
        }
    }

    fn resize(&mut self, taps: usize, columns: usize) {
        let (panels, segments) = (columns.div_ceil(WIDTH), taps.div_ceil(SEGMENT));
        (self.taps, self.columns) = (taps, columns);
        self.panels.resize(panels * taps, Line([0.0; WIDTH]));
        self.exponents.resize(panels * taps, 0);
        self.norms.resize(panels * segments, 0.0);
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Source of the operands to pack.
pub trait Operands {
    /// Reads operands of one tap, from column `first` on.
    fn row<S: Simd>(&self, simd: S, tap: usize, first: usize, to: &mut [f32]);
}

/// Dense operands, `[tap][column]`. Missing ones count as zero.
struct Rows<'a> {
    values: &'a [f32],
    columns: usize,
}

impl Operands for Rows<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, to: &mut [f32]) {
        let from = &self.values[(tap * self.columns + first).min(self.values.len())..];
        let (whole, missing) = to.split_at_mut(from.len().min(to.len()));
        whole.copy_from_slice(&from[..whole.len()]);
        missing.fill(0.0);
    }
}

/// Packs consecutive panels, the first of which starts with column `first`. Without a `reading` the numbers are decoded already.
struct Packing<'a, O> {
    reading: Option<Reading>,
    columns: usize,
    first: usize,
    taps: usize,
    source: &'a O,
    panels: &'a mut [Line],
    exponents: &'a mut [u32],
    norms: &'a mut [f32],
}

impl<O: Operands> WithSimd for Packing<'_, O> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Packing { reading, columns, first, taps, source, panels, exponents, norms } = self;
        let segments = taps.div_ceil(SEGMENT);
        let outputs = columns.min(first + PANELS_AT_ONCE * WIDTH) - first;
        let mut rows = [Line([0.0; WIDTH]); PANELS_AT_ONCE * SEGMENT];
        for segment in 0..segments {
            let start = segment * SEGMENT;
            let count = SEGMENT.min(taps - start);
            for (t, row) in rows.chunks_exact_mut(PANELS_AT_ONCE).enumerate() {
                let row = &mut lines(row)[..outputs];
                if t >= count {
                    row.fill(0.0);
                    continue;
                }
                source.row(simd, start + t, first, row);
                if let Some(reading) = reading {
                    reading.row(row);
                }
            }
            for panel in 0..outputs.div_ceil(WIDTH) {
                let at = panel * taps + start;
                let (lines, met) = (&mut panels[at..at + count], &mut exponents[at..at + count]);
                norms[panel * segments + segment] = pack_segment(simd, &rows[panel..], lines, met);
            }
        }
    }
}

/// Flattens lines.
#[inline(always)]
fn lines(lines: &mut [Line]) -> &mut [f32] {
    bytemuck::cast_slice_mut(lines)
}

/// Packs some taps of a panel, whose lines are [`PANELS_AT_ONCE`] apart in `rows`. Returns the largest norm of a column.
#[inline(always)]
fn pack_segment<S: Simd>(simd: S, rows: &[Line], panel: &mut [Line], exponents: &mut [u32]) -> f32 {
    // Exponents in the position of fp32; the smallest one stands for everything below.
    const DIGITS: u32 = f32::MANTISSA_DIGITS - 1;
    let (zero, one, digits) = (simd.splat_f32s(0.0), simd.splat_u32s(1), simd.splat_u32s(DIGITS));
    let least = simd.splat_f32s(exp2i(LEAST_EXPONENT));
    let mut met = [simd.splat_u32s(0); SEGMENT];
    let mut largest = zero;
    for v in 0..WIDTH / S::F32_LANES {
        let mut squares = zero;
        for (t, met) in met.iter_mut().enumerate() {
            let Some(row) = rows.get(t * PANELS_AT_ONCE) else { return 0.0 };
            let x = S::as_simd_f32s(&row.0).0[v];
            squares = simd.mul_add_e_f32s(x, x, squares);
            let magnitude = simd::abs(simd, x);
            let clamped = simd.transmute_u32s_f32s(simd.max_f32s(magnitude, least));
            let above = simd.sub_u32s(clamped, simd.transmute_u32s_f32s(least));
            let bit = simd.wrapping_dyn_shl_u32s(one, simd.wrapping_dyn_shr_u32s(above, digits));
            let some = simd.greater_than_f32s(magnitude, zero);
            *met = simd.or_u32s(*met, simd.select_u32s(some, bit, simd.splat_u32s(0)));
            if let Some(to) = panel.get_mut(t) {
                S::as_mut_simd_f32s(&mut to.0).0[v] = x;
            }
        }
        largest = simd.max_f32s(largest, squares);
    }
    for (to, met) in exponents.iter_mut().zip(met) {
        let mut lanes = [0u32; LONGEST];
        S::as_mut_simd_u32s(&mut lanes[..S::F32_LANES]).0[0] = met;
        *to = lanes.iter().fold(0, |set, lane| set | lane);
    }
    simd.reduce_max_f32s(largest).sqrt()
}
