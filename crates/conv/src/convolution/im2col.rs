//! Im2col plan: partition of a convolution into tiles, and staging of a tile's source.

use super::kernels::{Coefficients, SPARSE};
use super::{L1_BATCH, MOST_AT_ONCE, OUTPUTS, STAGED_ELEMENTS, UNFOLDED, UNFOLDING, VECTOR, depthwise};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::gemm::microkernel::{PANEL, SLACK};
use anemone_kernels::host::Rows;
use anemone_kernels::simd;
use anemone_kernels::tensor::{Extents, LIMIT, SizeError};
use anemone_kernels::view::{BLOCK, TensorView};
use anemone_kernels::window::Window;
use anemone_kernels::workers::scratch_slice;
use half::f16;
use pulp::Simd;
use std::ops::Range;

/// Partition of a convolution or pooling into tiles, and the layout in which the source of a tile is staged.
#[derive(Clone, Debug)]
pub struct Im2col {
    pub window: Window,
    /// Source channels that one output reads.
    pub(super) channels: usize,
    /// True for depthwise: every output channel reads input channels of its own.
    pub(super) unicast: bool,
    /// Stride phases that a source channel is split into: rows, columns.
    pub(super) phases: [usize; 2],
    /// Extents of a staged plane.
    pub(super) height: usize,
    pub width: usize,
    /// Most output rows and channels of a tile.
    pub share_rows: usize,
    pub share_channels: usize,
}

impl Im2col {
    /// Plans a result with extents `ext` for a number of threads.
    pub fn new(
        window: Window,
        channels: usize,
        unicast: bool,
        to: Extents,
        threads: usize,
    ) -> Result<Im2col, SizeError> {
        let [k, s] = [window.k, window.s];
        let phases = [k[0].min(s[0]), k[1].min(s[1])];
        let width = Im2col::width(&window, to.w);
        let height = |rows: usize| rows + (k[0] - 1) / s[0];
        let staged = |rows: usize| channels as u64 * (phases[0] * phases[1] * height(rows) * width) as u64;
        if staged(1) + SLACK as u64 > LIMIT {
            return Err(SizeError { elements: staged(1), limit: LIMIT });
        }
        let fits = |rows: &usize| rows * width <= OUTPUTS && staged(*rows) <= STAGED_ELEMENTS as u64;
        let rows = (1..=to.h).take_while(fits).last().unwrap_or(1);
        let blocks = to.h.div_ceil(rows).max(1);
        let panels = if unicast { to.c } else { to.c.div_ceil(PANEL) };
        let (blocks, share_panels) = if threads == 1 || blocks >= 2 * threads {
            (blocks.next_multiple_of(threads), panels)
        } else if panels >= 2 * threads {
            (blocks, panels.div_ceil(threads))
        } else {
            (blocks.next_multiple_of(threads), panels)
        };
        let share_rows = to.h.div_ceil(blocks).max(1);
        let share_channels = (share_panels * if unicast { 1 } else { PANEL }).max(1);
        let height = height(share_rows);
        Ok(Im2col { window, channels, unicast, phases, height, width, share_rows, share_channels })
    }

    /// Columns of a staged row. Right padding of a row doubles as left padding of the next.
    pub(super) fn width(window: &Window, columns: usize) -> usize {
        let [k, s, p, from] = [window.k, window.s, window.p, window.from].map_each(|axes| axes[1]);
        let read = columns + (k - 1) / s;
        if s > 1 { read } else { read.saturating_sub(p).max(read.min(from + p)).max(columns) }
    }

    /// Returns true if unfolding (im2col) is cheaper than the direct kernel. For every output, unfolding costs as much as the sums of
    /// `UNFOLDING` channels; it saves the sums in the padding between rows, which the direct kernel computes and discards.
    pub(super) fn is_small(&self, columns: usize) -> bool {
        let (computed, wanted) = (self.share_rows * self.width, self.share_rows * columns);
        let saved = computed.next_multiple_of(VECTOR).saturating_sub(wanted + wanted % VECTOR);
        !self.unicast && saved * self.share_channels > UNFOLDING * wanted
    }

    /// The same plan with tiles of `rows` output rows.
    pub fn of_rows(&self, rows: usize) -> Im2col {
        let height = rows + (self.window.k[0] - 1) / self.window.s[0];
        Im2col { share_rows: rows, height, ..self.clone() }
    }

    /// Returns true for a 1x1 convolution without stride and padding that reads all channels.
    pub fn is_pointwise(&self) -> bool {
        !self.unicast && self.channels > 0 && self.window.is_pointwise()
    }

    /// Returns true if every output channel reads one channel of its own, and the depthwise kernel is specialized for the window.
    pub(super) fn is_depthwise(&self) -> bool {
        self.unicast && self.channels == 1 && depthwise::convolves(&self.window)
    }

    /// Returns true if every output channel reads one channel of its own, through more than one element.
    pub(super) fn is_by_channel(&self) -> bool {
        self.unicast && self.channels == 1 && self.window.elements() > 1
    }

    /// Returns true if rows of the source are too short for kernels whose vectors hold elements of rows: shorter than a vector, and than half of
    /// one for the [direct](super::direct) kernel of a depthwise window, which computes many rows at once.
    pub(super) fn is_narrow(&self) -> bool {
        let most = if self.is_by_channel() && !self.is_depthwise() { VECTOR / 2 } else { VECTOR - 1 };
        self.window.from[1] <= most
    }

    /// Returns true if the NCHWc16 kernel applies: every output reads all channels, through a 1x1 window or few taps (im2col).
    pub(super) fn may_be_blocks(&self) -> bool {
        let few = self.channels * self.window.elements() <= UNFOLDED;
        !self.unicast && self.channels > 0 && !self.is_gemv() && (few || self.is_pointwise())
    }

    /// Window positions with a nonzero coefficient, if skipping the others pays, as for a dilated window.
    pub(super) fn kept(&self, groups: &[Coefficients]) -> Option<Vec<usize>> {
        let elements = self.window.elements();
        let whole = self.is_depthwise() || self.is_by_channel() && self.is_narrow();
        if whole || elements <= 1 || self.may_be_blocks() || self.is_gemv() {
            return None;
        }
        let mut used = vec![false; elements];
        for group in groups {
            group.weights.mark(&mut used);
        }
        let kept: Vec<usize> = (0..elements).filter(|&at| used[at]).collect();
        // All zeros: one position is kept.
        let kept = if kept.is_empty() { vec![0] } else { kept };
        (kept.len() * SPARSE <= elements * (SPARSE - 1)).then_some(kept)
    }

    /// Returns true for a 1x1 convolution of several outputs whose input channels are a multiple of the block size.
    pub fn is_of_blocks(&self) -> bool {
        self.is_pointwise() && !self.is_gemv() && self.channels.is_multiple_of(BLOCK)
    }

    /// Returns true for a 1x1 convolution with a single output position: a matrix-vector product.
    pub fn is_gemv(&self) -> bool {
        self.is_pointwise() && self.window.to == [1; 2]
    }

    /// Offset of each tap in the staged source, by channel, kernel row and kernel column.
    pub fn offsets(&self) -> Vec<u32> {
        let mut offsets = Vec::with_capacity(self.channels * self.window.elements());
        offsets.extend(self.places().map(|place| place as u32));
        offsets
    }

    /// Iterator over [`Im2col::offsets`].
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let [k, s] = [self.window.k, self.window.s];
        let taps = (0..self.channels).flat_map(move |c| (0..k[0]).map(move |kh| (c, kh)));
        taps.flat_map(move |(c, kh)| (0..k[1]).map(move |kw| (c, kh, kw))).map(move |(c, kh, kw)| {
            let plane = (c * self.phases[0] + kh % s[0]) * self.phases[1] + kw % s[1];
            (plane * self.height + kh / s[0]) * self.width + kw / s[1]
        })
    }

    /// Elements of the staged input channels of one output.
    pub fn staged_elements(&self) -> usize {
        self.channels * self.phases[0] * self.phases[1] * self.height * self.width
    }

    /// Depthwise output channels per batch, for `outputs` outputs. The element behind the largest batch that was staged must hold the padding
    /// value.
    pub fn at_once(&self, outputs: usize) -> usize {
        (L1_BATCH / self.staged_elements().max(1)).min(MOST_AT_ONCE).min(outputs).max(1)
    }

    /// Elements that may be read past the staged ones.
    pub fn staged_slack(&self) -> usize {
        SLACK + (self.window.k[1] - 1) / self.window.s[1]
    }

    /// Stages channels from `first` on, for the outputs of a group from a row on. `outside` is the padding value; `None` for a buffer that
    /// held other channels of the same tile, whose halo is filled already.
    #[inline(always)]
    pub fn stage<S: Simd>(
        &self,
        simd: S,
        source: TensorView,
        [group, first_row]: [usize; 2],
        first: usize,
        outside: Option<f32>,
        to: &mut [f32],
        wide: &mut Vec<f32>,
    ) {
        let (s, p, from) = (self.window.s, self.window.p, self.window.from);
        let mut planes = to.chunks_exact_mut(self.height * self.width);
        // Source columns of which at least one phase reads some.
        let across = ((self.width - 1) * s[1] + self.phases[1]).saturating_sub(p[1]).min(from[1]);
        for c in first..first + self.channels {
            for kh in 0..self.phases[0] {
                let rows = self.inside(0, first_row, kh, self.height);
                let top = (first_row + rows.start) * s[0] + kh;
                let met = if rows.is_empty() { &[] } else { source.from(group, c, top - p[0]) };
                let read = Rows {
                    count: rows.len(),
                    columns: across,
                    from_stride: source.strides[2] * s[0],
                    to_stride: across,
                };
                if [s[1], self.phases[1]] == [2; 2] {
                    let (Some(first), Some(second)) = (planes.next(), planes.next()) else { return };
                    if let Some(outside) = outside {
                        fill_halo(first, self.width, &rows, &self.inside(1, 0, 0, self.width), outside);
                        fill_halo(second, self.width, &rows, &self.inside(1, 0, 1, self.width), outside);
                    }
                    let begin = rows.start * self.width;
                    let planes = [&mut first[begin..], &mut second[begin..]];
                    stage_pairs(simd, met, p[1], planes, Rows { to_stride: self.width, ..read });
                    continue;
                }
                let wide = scratch_slice(wide, if s[1] > 1 { rows.len() * across } else { 0 });
                if !wide.is_empty() {
                    simd::widen_rows(simd, met, wide, read);
                }
                for kw in 0..self.phases[1] {
                    let Some(plane) = planes.next() else { return };
                    let columns = self.inside(1, 0, kw, self.width);
                    if let Some(outside) = outside {
                        fill_halo(plane, self.width, &rows, &columns, outside);
                    }
                    if rows.is_empty() || columns.is_empty() {
                        continue;
                    }
                    let plane = &mut plane[rows.start * self.width + columns.start..];
                    let at = columns.start * s[1] + kw - p[1];
                    if s[1] == 1 {
                        let read = Rows { columns: columns.len(), to_stride: self.width, ..read };
                        simd::widen_rows(simd, &met[at..], plane, read);
                        continue;
                    }
                    for (from, to) in wide.chunks_exact(across).zip(plane.chunks_mut(self.width)) {
                        let taken = from[at..].iter().step_by(s[1]);
                        for (to, x) in to[..columns.len()].iter_mut().zip(taken) {
                            *to = *x;
                        }
                    }
                }
            }
        }
    }

    /// Staged rows (or columns) of a phase that lie inside the source; `first` is the first output row (or column).
    pub(super) fn inside(&self, axis: usize, first: usize, phase: usize, staged: usize) -> Range<usize> {
        let Window { s, p, from, .. } = &self.window;
        let place = |input: usize| input.saturating_sub(phase).div_ceil(s[axis]).saturating_sub(first).min(staged);
        place(p[axis])..place(from[axis] + p[axis])
    }
}

/// Stages rows split into even and odd columns (stride 2), behind `p` columns of padding.
#[inline(always)]
pub(super) fn stage_pairs<S: Simd>(simd: S, from: &[f16], p: usize, [first, second]: [&mut [f32]; 2], rows: Rows) {
    if rows.columns * rows.count == 0 {
        return;
    }
    let [even, odd] = by_parity(p, [first, second]);
    for row in 0..rows.count {
        let (from, to) = (&from[row * rows.from_stride..][..rows.columns], row * rows.to_stride);
        simd::widen_pairs(simd, from, &mut even[to..], &mut odd[to..]);
    }
}

/// Destinations of the even and odd columns of a source, in planes that begin with `p` columns of padding.
#[inline(always)]
fn by_parity(p: usize, [first, second]: [&mut [f32]; 2]) -> [&mut [f32]; 2] {
    let (even, odd) = if p.is_multiple_of(2) { (first, second) } else { (second, first) };
    [&mut even[p / 2..], &mut odd[p.div_ceil(2)..]]
}

/// Fills the halo of a staged plane around some rows and columns.
#[inline(always)]
pub(super) fn fill_halo(plane: &mut [f32], width: usize, rows: &Range<usize>, columns: &Range<usize>, with: f32) {
    let (above, rest) = plane.split_at_mut(rows.start * width);
    let (rows, below) = rest.split_at_mut(rows.len() * width);
    above.fill(with);
    below.fill(with);
    for row in rows.chunks_exact_mut(width) {
        let (row, right) = row.split_at_mut(columns.end);
        right.iter_mut().chain(&mut row[..columns.start]).for_each(|x| *x = with);
    }
}
