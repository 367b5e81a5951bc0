//! Convolution in fp32: the im2col plan ([`Im2col`]), the choice of a kernel, and the direct kernel.
//!
//! The plan is virtual: no unfolded matrix is written. It stages the source in fp32 with its padding, and splits it by stride phases, so
//! that the outputs of a tap read consecutive elements from an offset of the tap's own. Output rows are as long as staged rows; columns
//! beyond an output row's end are computed and never stored. Other kernels: 1x1 ([`crate::gemm::packed`], [`nchwc`], [`crate::gemv`]),
//! [`depthwise`], 3x3 ([`winograd`]), and fixed-point accumulators ([`exact`]).

use crate::conv::nchwc::{Accumulator, Operand, ResidualAdd};
use crate::conv::registry::Query;
use crate::cost;
use crate::epilogue::Epilogue;
use crate::filter::{Filter, PackedFilter, Values};
use crate::gemm::microkernel::{self, MicroKernel, PANEL, SLACK};
use crate::gemm::packed;
use crate::gemv;
use crate::host::Rows;
use crate::simd;
use crate::tensor::{Extents, LIMIT, SizeError};
use crate::view::{BLOCK, OutputTile, Strides, TensorView, Transposed, dense, partition};
use crate::window::Window;
use crate::workers::{Scratch, Workers, chunks, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::collections::HashMap;
use std::ops::Range;

pub mod depthwise;
pub mod exact;
pub mod nchwc;
pub mod registry;
pub mod winograd;
use std::sync::{Arc, OnceLock};

/// L2 budget for a staged source, in elements: every output channel reads it again.
const STAGED_ELEMENTS: usize = 3 << 16;
/// Outputs of a panel per tile: their sums stay in L1 until they are rounded and stored.
const OUTPUTS: usize = 1 << 10;
/// K block: weights of a panel and their operands stay in L1.
const TAPS: usize = 288;
/// M block: channels whose sums are kept between K blocks.
const CHANNELS: usize = 8 * PANEL;
/// Elements of depthwise input staged per batch: small enough for L1, large enough to avoid store-forwarding stalls.
pub const NEAR: usize = 1 << 12;
/// Most channels of such a batch.
pub const MOST_AT_ONCE: usize = CHANNELS;
/// f32 lanes of the longest vectors.
const VECTOR: usize = 16;
/// Break-even output channels for im2col.
const UNFOLDING: usize = 24;
/// Longest reduction for which operands are unfolded (im2col) for NCHWc16.
const UNFOLDED: usize = 64;
/// Cost model: widening one weight = 10 outputs; packing one input = 8 channels.
const WIDENING: usize = 10;
const PACKING: usize = 8;
/// Cost model: reading an element from another core's cache, in multiply-adds.
const FETCH: usize = 16;

/// Partition of a convolution, or pooling, into shares, and staging of a share's source.
#[derive(Clone, Debug)]
pub struct Im2col {
    pub window: Window,
    /// Source channels that one output reads.
    channels: usize,
    /// True if every output channel reads channels of its own.
    unicast: bool,
    /// Stride phases that a source channel is split into: rows, columns.
    phases: [usize; 2],
    /// Extents of a staged plane.
    height: usize,
    pub width: usize,
    /// Most output rows and channels of a share.
    pub share_rows: usize,
    pub share_channels: usize,
}

impl Im2col {
    /// A plan for a result of these extents by as many threads.
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
    fn width(window: &Window, columns: usize) -> usize {
        let [k, s, p, from] = [window.k, window.s, window.p, window.from].map(|axes| axes[1]);
        let read = columns + (k - 1) / s;
        if s > 1 { read } else { read.saturating_sub(p).max(read.min(from + p)).max(columns) }
    }

    /// Returns true if unfolding taps (im2col) beats sliding over staged rows: it costs the sums of `UNFOLDING` channels for every wanted
    /// output, and saves those of the columns between rows.
    fn is_small(&self, columns: usize) -> bool {
        let (computed, wanted) = (self.share_rows * self.width, self.share_rows * columns);
        let saved = computed.next_multiple_of(VECTOR).saturating_sub(wanted + wanted % VECTOR);
        !self.unicast && saved * self.share_channels > UNFOLDING * wanted
    }

    /// The same plan for shares of `rows` output rows.
    pub fn of_rows(&self, rows: usize) -> Im2col {
        let height = rows + (self.window.k[0] - 1) / self.window.s[0];
        Im2col { share_rows: rows, height, ..self.clone() }
    }

    /// Returns true if every output reads all channels at one position.
    pub fn is_pointwise(&self) -> bool {
        !self.unicast && self.channels > 0 && self.window.is_pointwise()
    }

    /// Returns true if every output channel reads one channel of its own, and the depthwise kernel has the window.
    fn is_depthwise(&self) -> bool {
        self.unicast && self.channels == 1 && depthwise::convolves(&self.window)
    }

    /// Returns true if rows of the source are shorter than a vector.
    fn is_narrow(&self) -> bool {
        self.window.from[1] < VECTOR
    }

    /// Returns true if the NCHWc16 kernel applies: every output reads all channels, at one position or through few taps (im2col).
    fn may_be_blocks(&self) -> bool {
        let few = self.channels * self.window.elements() <= UNFOLDED;
        !self.unicast && self.channels > 0 && !self.is_gemv() && (few || self.is_pointwise())
    }

    /// Positions of the window with a nonzero coefficient, if dropping all others pays: of a dilated window, say.
    fn kept(&self, groups: &[Coefficients]) -> Option<Vec<usize>> {
        let elements = self.window.elements();
        if self.unicast || elements <= 1 || self.may_be_blocks() || self.is_gemv() {
            return None;
        }
        let mut used = vec![false; elements];
        groups.iter().for_each(|group| group.weights.mark(&mut used));
        let kept: Vec<usize> = (0..elements).filter(|&at| used[at]).collect();
        // One is left where all are zeros.
        let kept = if kept.is_empty() { vec![0] } else { kept };
        (kept.len() * SPARSE <= elements * (SPARSE - 1)).then_some(kept)
    }

    /// Returns true for a pointwise convolution of several outputs that reads whole blocks of channels.
    pub fn is_of_blocks(&self) -> bool {
        self.is_pointwise() && !self.is_gemv() && self.channels.is_multiple_of(BLOCK)
    }

    /// Returns true for a pointwise convolution to a single position: a matrix-vector product.
    pub fn is_gemv(&self) -> bool {
        self.is_pointwise() && self.window.to == [1; 2]
    }

    /// Offset of each tap in the staged source, by channel, kernel row and kernel column.
    pub fn offsets(&self) -> Vec<u32> {
        let mut offsets = Vec::with_capacity(self.channels * self.window.elements());
        offsets.extend(self.places().map(|place| place as u32));
        offsets
    }

    /// As [`Im2col::offsets`].
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let [k, s] = [self.window.k, self.window.s];
        let taps = (0..self.channels).flat_map(move |c| (0..k[0]).map(move |kh| (c, kh)));
        taps.flat_map(move |(c, kh)| (0..k[1]).map(move |kw| (c, kh, kw))).map(move |(c, kh, kw)| {
            let plane = (c * self.phases[0] + kh % s[0]) * self.phases[1] + kw % s[1];
            (plane * self.height + kh / s[0]) * self.width + kw / s[1]
        })
    }

    /// Number of elements that the channels of one output are staged to.
    pub fn staged_elements(&self) -> usize {
        self.channels * self.phases[0] * self.phases[1] * self.height * self.width
    }

    /// Number of output channels per batch, of `outputs` that read channels of their own. The padding value must follow the last one that
    /// was ever staged.
    pub fn at_once(&self, outputs: usize) -> usize {
        (NEAR / self.staged_elements().max(1)).min(MOST_AT_ONCE).min(outputs).max(1)
    }

    /// Number of elements that may be read past the staged ones.
    pub fn staged_slack(&self) -> usize {
        SLACK + (self.window.k[1] - 1) / self.window.s[1]
    }

    /// Stages channels from `first` on, for the outputs of a group from a row on. `outside` is the padding value; `None` for a buffer that
    /// held other channels of the same share, which is padded already.
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
        // Columns that a phase takes some of.
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
                        to[..columns.len()].iter_mut().zip(taken).for_each(|(to, x)| *to = *x);
                    }
                }
            }
        }
    }

    /// Range of staged rows, or columns, of a phase that lie inside the source; `first` is the output row they begin with.
    fn inside(&self, axis: usize, first: usize, phase: usize, staged: usize) -> Range<usize> {
        let Window { s, p, from, .. } = &self.window;
        let place = |input: usize| input.saturating_sub(phase).div_ceil(s[axis]).saturating_sub(first).min(staged);
        place(p[axis])..place(from[axis] + p[axis])
    }
}

/// Stages rows split into even and odd columns (stride 2), behind `p` columns of padding.
#[inline(always)]
pub fn stage_pairs<S: Simd>(simd: S, from: &[f16], p: usize, [first, second]: [&mut [f32]; 2], rows: Rows) {
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
pub fn by_parity(p: usize, [first, second]: [&mut [f32]; 2]) -> [&mut [f32]; 2] {
    let (even, odd) = if p.is_multiple_of(2) { (first, second) } else { (second, first) };
    [&mut even[p / 2..], &mut odd[p.div_ceil(2)..]]
}

/// Fills the halo of a staged plane around some rows and columns.
#[inline(always)]
fn fill_halo(plane: &mut [f32], width: usize, rows: &Range<usize>, columns: &Range<usize>, with: f32) {
    let (above, rest) = plane.split_at_mut(rows.start * width);
    let (rows, below) = rest.split_at_mut(rows.len() * width);
    above.fill(with);
    below.fill(with);
    for row in rows.chunks_exact_mut(width) {
        let (row, right) = row.split_at_mut(columns.end);
        right.iter_mut().chain(&mut row[..columns.start]).for_each(|x| *x = with);
    }
}

/// Coefficients of one group, `[out][in * kh * kw]`, and biases. Every form of coefficient is an fp16 number.
pub struct Coefficients {
    pub weights: Values,
    pub biases: Option<Vec<f32>>,
}

/// Coefficients of all groups.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// One filter for all groups, or one per group. Tasks that read the same streams share them.
    groups: Arc<Vec<Filter>>,
    /// Offset of each tap in the staged source.
    offsets: Vec<u32>,
    /// Positions of the window that are kept; the coefficients of all others are zeros. `None` if all are kept.
    kept: Option<Arc<[usize]>>,
    /// Filters with all positions, made where a source turns out not to be finite: zero times infinity is NaN.
    all: Arc<OnceLock<Arc<Vec<Filter>>>>,
    /// Channels per panel.
    height: usize,
}

/// Positions of zeros alone are dropped if they are at least one in this many of the window's.
const SPARSE: usize = 4;

impl Kernels {
    /// Packs the coefficients of the streams: one item for all groups, or one per group. `transposed` is true if results are stored with
    /// channels and columns exchanged.
    pub fn pack(staging: &Im2col, transposed: bool, channels: usize, groups: Vec<Coefficients>) -> Kernels {
        let kept = staging.kept(&groups);
        let height = Kernels::height_for(staging, transposed, channels);
        let elements = staging.window.elements();
        let taps = staging.channels * kept.as_ref().map_or(elements, |kept| kept.len());
        let mut filters: Vec<(Option<Coefficients>, Option<Filter>)> =
            groups.into_iter().map(|group| (Some(group), None)).collect();
        let nanos = cost::one_by_one(channels * taps * filters.len());
        chunks(&mut filters, 1, nanos, |_, filters| {
            for (group, filter) in filters {
                let Some(Coefficients { weights, biases }) = group.take() else { continue };
                let finite = weights.is_finite();
                let weights = match &kept {
                    Some(kept) => weights.positions(elements, kept),
                    None => weights,
                };
                *filter = Some(Filter { packed: PackedFilter::of(&weights, channels, taps, height), biases, finite });
            }
        });
        let groups = filters.into_iter().filter_map(|(_, filter)| filter).collect();
        let mut kernels = Kernels {
            groups: Arc::new(groups),
            offsets: Vec::new(),
            kept: kept.map(Arc::from),
            all: Arc::default(),
            height,
        };
        kernels.read_from(staging);
        kernels
    }

    /// Channels per panel that the convolution's kernel needs.
    pub fn height_for(staging: &Im2col, transposed: bool, channels: usize) -> usize {
        let blocks = !transposed && staging.is_narrow() && nchwc::suits(channels);
        match staging.unicast {
            true if staging.is_depthwise() && blocks => BLOCK,
            true => 1,
            false if staging.is_gemv() => gemv::PANEL,
            false if staging.is_pointwise() && blocks => BLOCK,
            false => PANEL,
        }
    }

    /// Sets tap offsets for a source staged by this plan; the coefficients stay shared.
    pub fn read_from(&mut self, staging: &Im2col) {
        self.offsets = match &self.kept {
            None => staging.offsets(),
            Some(kept) => {
                let all = staging.offsets();
                let channels = all.chunks_exact(staging.window.elements().max(1));
                channels.flat_map(|of_channel| kept.iter().filter_map(|&at| of_channel.get(at).copied())).collect()
            }
        };
    }

    /// The same coefficients with all positions of the window; `None` if none is left out.
    fn with_all_positions(&self, staging: &Im2col) -> Option<Kernels> {
        let kept = self.kept.as_ref()?;
        let elements = staging.window.elements();
        let whole = |filter: &Filter| {
            let (channels, taps) = (filter.packed.channels(), staging.channels * elements);
            let values = filter.packed.values().spread(elements, kept);
            Filter { packed: PackedFilter::of(&values, channels, taps, self.height), ..filter.clone() }
        };
        let groups = self.all.get_or_init(|| Arc::new(self.groups.iter().map(whole).collect())).clone();
        Some(Kernels { groups, offsets: staging.offsets(), kept: None, all: Arc::default(), height: self.height })
    }

    /// Returns true if panels are blocks of 16 channels.
    pub fn are_blocks(&self) -> bool {
        self.height == BLOCK
    }

    /// Coefficients and biases of every group for the exact array, in blocks of channels or in panels of [`gemv`].
    pub fn abreast(staging: &Im2col, groups: Vec<(PackedFilter, Option<Vec<f32>>)>) -> Kernels {
        let height = if staging.is_gemv() { gemv::PANEL } else { BLOCK };
        let groups = groups.into_iter().map(|(packed, biases)| Filter {
            packed: packed.with_height(height),
            biases,
            // Asked of what goes through Winograd's form.
            finite: false,
        });
        Kernels { groups: Arc::new(groups.collect()), offsets: Vec::new(), kept: None, all: Arc::default(), height }
    }

    /// Number of channels of a group.
    pub fn channels(&self) -> usize {
        self.groups.first().map_or(0, |kernel| kernel.packed.channels())
    }

    /// Repacks into blocks of 16 channels, unless [`Kernels::pack`] did: a plan does that once it knows which tasks are fused.
    pub fn repack_nchwc16(&mut self, shared: &mut RepackCache<Filter>) {
        if !self.are_blocks() {
            let in_blocks = |mut kernels: Vec<Filter>| {
                kernels.iter_mut().for_each(|kernel| kernel.packed = kernel.packed.with_height(BLOCK));
                Kernels {
                    groups: Arc::new(kernels),
                    offsets: Vec::new(),
                    kept: None,
                    all: Arc::default(),
                    height: BLOCK,
                }
            };
            self.groups = shared.get(std::mem::take(&mut self.groups), BLOCK, in_blocks).groups;
            self.height = BLOCK;
        }
    }

    /// Size of the coefficients in bytes.
    pub fn bytes(&self) -> usize {
        self.groups.iter().map(|kernel| kernel.packed.bytes()).sum()
    }

    pub fn of(&self, share: &OutputTile) -> Option<&Filter> {
        self.groups.get(share.group).or(self.groups.first())
    }
}

/// Cache of repacked coefficients: those that tasks share are repacked to another panel height once for all of them.
pub struct RepackCache<T>(HashMap<(*const Vec<T>, usize), Repacked<T>>);

/// The source, held so that its address stays unique, and its repacked panels.
type Repacked<T> = (Arc<Vec<T>>, Kernels);

impl<T> Default for RepackCache<T> {
    fn default() -> Self {
        RepackCache(HashMap::new())
    }
}

impl<T: Clone> RepackCache<T> {
    pub fn get(&mut self, from: Arc<Vec<T>>, height: usize, pack: impl FnOnce(Vec<T>) -> Kernels) -> Kernels {
        match Arc::try_unwrap(from) {
            // Nothing is held twice where only one task has them.
            Ok(own) => pack(own),
            Err(shared) => {
                let key = (Arc::as_ptr(&shared), height);
                // The key is theirs as long as they are held here.
                let (_, kernels) = self.0.entry(key).or_insert_with(|| {
                    let kernels = pack(Vec::clone(&shared));
                    (shared, kernels)
                });
                kernels.clone()
            }
        }
    }
}

/// Destination of a result.
pub struct TensorViewMut<'a> {
    pub data: &'a mut [f16],
    pub strides: Strides,
    /// True if it is stored with channels and columns exchanged.
    pub transposed: bool,
}

impl TensorViewMut<'_> {
    /// Rewrites a transposed result of one column as a plain one, whose channels are one element apart.
    pub fn in_columns(mut self, ext: Extents) -> Self {
        if self.transposed && ext.w == 1 {
            (self.transposed, self.strides[1]) = (false, 1);
        }
        self
    }
}

/// `to = finish(kernels * from)`; `ext` is the result's extents before it is transposed.
pub fn convolve(
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
) {
    if kernels.groups.is_empty() {
        return;
    }
    let to = to.in_columns(ext);
    let whole = match kernels.kept {
        Some(_) if !is_source_finite(workers, staging, from, ext) => kernels.with_all_positions(staging),
        _ => None,
    };
    let kernels = whole.as_ref().unwrap_or(kernels);
    let query = Query { staging, kernels, transposed: to.transposed, ext };
    registry::run(registry::Work { workers, query, finish, from, to });
}

/// Convolution to a single position: a matrix-vector product. Panels of coefficients are those of [`gemv`].
pub fn convolve_gemv<A: Accumulator>(
    workers: &Workers,
    kernels: &Kernels,
    finish: A,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
) {
    let Some(first) = kernels.groups.first() else { return };
    let shared = workers.shares(cost::products(ext.g * ext.c * first.packed.taps()));
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    let channels = ext.c.div_ceil(threads).next_multiple_of(gemv::PANEL);
    workers.each(partition(to.data, ext, to.strides, 1, channels), shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(gemv::Job { kernel, finish, from, share, scratch });
    });
}

/// Coefficients and epilogue of some channels of a result.
#[derive(Clone, Copy)]
pub struct BatchMember<'a> {
    pub kernels: &'a Kernels,
    pub finish: Epilogue<'a>,
}

impl<'a> BatchMember<'a> {
    /// Filter and epilogue of a share.
    pub fn of(&self, share: &OutputTile) -> Option<(&'a Filter, &Epilogue<'a>)> {
        Some((self.kernels.of(share)?, &self.finish))
    }
}

/// Pointwise convolution. Several members make consecutive channels of one result, which is then transposed.
pub fn convolve_pointwise(
    workers: &Workers,
    members: &[BatchMember],
    mut from: TensorView,
    to: TensorViewMut,
    mut ext: Extents,
) {
    let Some(first) = members.first().and_then(|member| member.kernels.groups.first()) else { return };
    let shared = workers.shares(cost::products(ext.g * ext.c * ext.plane() * first.packed.taps()));
    let TensorViewMut { data, mut strides, transposed } = to;
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    let shares = if transposed {
        let columns = ext.w.div_ceil(threads).next_multiple_of(16);
        partition(data, ext.transposed(), strides, ext.h, columns)
    } else {
        split_rows(&mut ext, &mut [(&mut from.strides, 1), (&mut strides, 1)], threads);
        let rows = ext.h.div_ceil(threads);
        let channels = ext.c.div_ceil(threads).next_multiple_of(PANEL);
        // Work of the longest share, and each share's own preparation of operands that all shares read.
        let computed = |outputs: usize, channels: usize| microkernel::computed(outputs) * channels;
        let by_rows = computed(rows * ext.w, ext.c) + WIDENING * ext.c;
        let by_channels = computed(ext.plane(), channels) + PACKING * ext.plane();
        if by_rows <= by_channels {
            partition(data, ext, strides, rows, ext.c)
        } else {
            partition(data, ext, strides, ext.h, channels)
        }
    };
    let columns = if transposed { ext.c } else { ext.w };
    workers.each(shares, shared, |share, scratch| {
        workers.arch.dispatch(packed::Job { members, from, windows: None, columns, transposed, share, scratch });
    });
}

/// Convolution by the NCHWc16 kernel. The source may be in blocks of channels, its rows without gaps.
pub fn convolve_nchwc<A: Accumulator>(
    workers: &Workers,
    kernels: &Kernels,
    finish: A,
    mut from: Operand,
    mut residual: Option<ResidualAdd>,
    to: TensorViewMut,
    mut ext: Extents,
) {
    let Some(first) = kernels.groups.first() else { return };
    let shared = workers.shares(cost::products(ext.g * ext.c * ext.plane() * first.packed.taps()));
    let TensorViewMut { data, mut strides, .. } = to;
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    if from.staging.is_pointwise() {
        let numbers = if from.in_blocks { BLOCK } else { 1 };
        let (from, to) = ((&mut from.source.strides, numbers), (&mut strides, 1));
        match residual.as_mut().and_then(|residual| residual.source.as_mut()) {
            Some(other) => split_rows(&mut ext, &mut [from, to, (&mut other.strides, 1)], threads),
            None => split_rows(&mut ext, &mut [from, to], threads),
        }
    }
    let rows = ext.h.div_ceil(threads);
    let channels = ext.c.div_ceil(threads).next_multiple_of(BLOCK);
    // Work of the longest share, and each share's own preparation of operands that all shares read.
    let [widening, packing] = A::COSTS;
    let by_rows = (rows * ext.w + widening) * ext.c;
    let by_channels = ext.plane() * (channels + packing);
    let shares = if by_rows <= by_channels {
        partition(data, ext, strides, rows, ext.c)
    } else {
        partition(data, ext, strides, ext.h, channels)
    };
    workers.each(shares, shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(nchwc::Job { kernel, finish, from, columns: ext.w, residual, share, scratch });
    });
}

pub fn convolve_direct(
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
    small: bool,
    shared: bool,
) {
    let TensorViewMut { data, strides, transposed } = to;
    let depthwise = staging.is_depthwise() && !transposed;
    let shares = match transposed {
        true => partition(data, ext.transposed(), strides, staging.share_rows, ext.w),
        false => partition(data, ext, strides, staging.share_rows, staging.share_channels),
    };
    workers.each(shares, shared, |share, scratch| {
        let (Some(kernel), offsets) = (kernels.of(share), &kernels.offsets[..]) else { return };
        let (of, window, columns) = (depthwise::WindowOp::Kernel(kernel, finish), &staging.window, ext.w);
        if depthwise {
            return workers.arch.dispatch(depthwise::Job { of, window, from, columns, share, scratch });
        }
        if small {
            let (windows, columns) = (Some((staging, offsets)), ext.w);
            let members = &[BatchMember { kernels, finish: *finish }];
            return workers.arch.dispatch(packed::Job { members, from, windows, columns, transposed, share, scratch });
        }
        workers.arch.dispatch(Job { staging, kernel, finish, offsets, from, ext, transposed, share, scratch });
    });
}

/// A pointwise convolution, or one of few taps, fused with the depthwise convolution that alone reads its result.
pub struct FusedDepthwise<'a, A> {
    pub kernels: [&'a Kernels; 2],
    pub finish: [A; 2],
    pub stagings: [&'a Im2col; 2],
}

/// Most operands of the first convolution, taps times positions, that are packed together.
const MADE_OF: usize = 1 << 16;

/// Returns true if kernels have both windows, and both results' channels fill blocks well enough.
pub fn can_fuse_depthwise([first, second]: [&Im2col; 2], channels: [usize; 2]) -> bool {
    let taps = first.channels * first.window.elements();
    first.may_be_blocks()
        && second.is_depthwise()
        && channels.into_iter().all(nchwc::suits)
        && taps * second.window.from[1] <= MADE_OF / second.window.k[0]
}

impl<A: Accumulator> FusedDepthwise<'_, A> {
    /// Executes both; `ext` is the second result's extents. `in_blocks` stores it in blocks of channels, without gaps.
    pub fn convolve(&self, workers: &Workers, from: TensorView, to: TensorViewMut, ext: Extents, in_blocks: bool) {
        let (before, window) = (self.stagings[0], &self.stagings[1].window);
        let ([k, s], [height, columns]) = ([window.k[0], window.s[0]], window.from);
        let Some(first) = self.kernels[0].groups.first() else { return };
        let taps = first.packed.taps();
        let shared = workers.shares(cost::products(ext.g * ext.c * height * columns * taps));
        let threads = if shared { rayon::current_num_threads() } else { 1 };
        // What is made for so many rows of results.
        let made = |rows: usize| ((rows - 1) * s + k).min(height) * columns;
        let most = (1..=ext.h).take_while(|&rows| made(rows) * taps <= MADE_OF).last().unwrap_or(1);
        let bands = ext.h.div_ceil(most);
        let [rows, band] = [bands.next_multiple_of(threads), bands].map(|bands| ext.h.div_ceil(bands));
        let channels = ext.c.div_ceil(threads).next_multiple_of(BLOCK);
        let [widening, packing] = A::COSTS;
        let by_rows = (made(rows) + widening) * ext.c * ext.h.div_ceil(rows);
        // Blocks are read by rows.
        let handed = if in_blocks { ext.c * ext.plane() * (threads - 1) / threads * FETCH / taps.max(1) } else { 0 };
        let by_channels = made(band) * (channels + packing) * bands * threads + handed;
        let (rows, channels) = if by_rows <= by_channels { (rows, ext.c) } else { (band, channels) };
        let shares = match in_blocks {
            true => {
                let ext = Extents { c: ext.c / BLOCK, w: ext.w * BLOCK, ..ext };
                partition(to.data, ext, dense(ext), rows, channels / BLOCK)
            }
            false => partition(to.data, ext, to.strides, rows, channels),
        };
        workers.each(shares, shared, |share, scratch| {
            let [Some(first), Some(second)] = self.kernels.map(|kernels| kernels.of(share)) else { return };
            let (kernels, finish, columns) = ([first, second], self.finish, ext.w);
            let from = Operand { source: from, in_blocks: false, staging: before };
            let pair = nchwc::FusedKernel { kernels, finish, window, from, columns, in_blocks, share, scratch };
            workers.arch.dispatch(pair);
        });
    }
}

/// Returns true if every number of a source is finite: kernels that leave products out, or sum others, need that.
fn is_source_finite(workers: &Workers, staging: &Im2col, from: TensorView, ext: Extents) -> bool {
    workers.arch.dispatch(
        #[inline(always)]
        || (0..ext.g).all(|group| winograd::is_finite(from, group, staging.channels, staging.window.from)),
    )
}

/// Convolution in the form of [`crate::conv::winograd`].
pub fn convolve_winograd(
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
    shared: bool,
) {
    let (window, channels, columns) = (&staging.window, staging.channels, ext.w);
    let [rows, share_channels] = winograd::cut_of(channels, ext, if shared { rayon::current_num_threads() } else { 1 });
    workers.each(partition(to.data, ext, to.strides, rows, share_channels), shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(winograd::Job { kernel, finish, window, channels, from, columns, share, scratch });
    });
}

/// Splits a plane without gaps into as many rows as there are threads, if it divides evenly. Each tensor comes with its elements per
/// column.
fn split_rows(ext: &mut Extents, tensors: &mut [(&mut Strides, usize)], threads: usize) {
    let whole = |(strides, numbers): &(&mut Strides, usize)| ext.h == 1 || strides[2] == ext.w * numbers;
    let n = ext.plane();
    if tensors.iter().all(whole) && n.is_multiple_of(threads) {
        (ext.h, ext.w) = (threads, n / threads);
        tensors.iter_mut().for_each(|(strides, numbers)| strides[2] = ext.w * *numbers);
    }
}

/// One share of the direct kernel. In a share of a transposed result channels and columns are exchanged.
struct Job<'a, 'b> {
    staging: &'a Im2col,
    kernel: &'a Filter,
    finish: &'a Epilogue<'a>,
    offsets: &'a [u32],
    from: TensorView<'a>,
    ext: Extents,
    transposed: bool,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { staging, kernel, finish, offsets, from, ext, transposed, share, scratch } = self;
        let columns = ext.w;
        let taps = kernel.packed.taps();
        let area = staging.staged_elements();
        let outputs = share.rows * staging.width;
        let stride = outputs + SLACK;
        let (first, channels) = if transposed { (0, ext.c) } else { (share.first_channel, share.channels()) };
        let at_once = if staging.unicast { staging.at_once(channels) } else { CHANNELS };
        let sources = if staging.unicast { at_once } else { 1 };
        let staged = scratch_slice(&mut scratch.staged, sources * area + staging.staged_slack());
        let sums = scratch_slice(&mut scratch.sums, at_once * stride);
        let widened = scratch_slice(&mut scratch.panel, PANEL * TAPS.min(taps));
        let halves = scratch_slice(&mut scratch.halves, if transposed { at_once * share.rows * columns } else { 0 });
        let rows = Rows { count: share.rows, columns, from_stride: staging.width, to_stride: columns };
        staged[sources * area..].fill(0.0);
        for c in (0..channels).step_by(at_once) {
            let channel = first + c;
            let count = at_once.min(channels - c);
            // Each visit finds what surrounds the source where the first one left it.
            let around = (c == 0).then_some(0.0);
            if staging.unicast {
                for (m, staged) in staged.chunks_exact_mut(area).enumerate().take(count) {
                    staging.stage(
                        simd,
                        from,
                        [share.group, share.first_row],
                        (channel + m) * staging.channels,
                        around,
                        staged,
                        &mut scratch.wide,
                    );
                }
            } else if c == 0 {
                staging.stage(
                    simd,
                    from,
                    [share.group, share.first_row],
                    0,
                    around,
                    &mut staged[..area],
                    &mut scratch.wide,
                );
            }
            let height = if staging.unicast { 1 } else { PANEL };
            for tap in (0..taps).step_by(TAPS) {
                let some = tap..taps.min(tap + TAPS);
                for m in (0..count).step_by(height) {
                    let source = if staging.unicast { &staged[m * area..] } else { &staged[..] };
                    let height = kernel.packed.height(channel + m);
                    let panel = kernel.packed.widen(channel + m, some.clone(), widened);
                    let sums = &mut sums[m * stride..];
                    let places = &offsets[some.clone()];
                    let resume = tap > 0;
                    MicroKernel { panel, height, source, places, sums, stride, outputs, resume }.with_simd(simd);
                }
            }
            for m in 0..count {
                let bias = kernel.bias(channel + m);
                // Also processes inter-row padding; it is never stored.
                finish.stages(bias, &mut sums[m * stride..][..outputs]);
            }
            if !transposed {
                share.store(
                    [c, 0, 0],
                    count,
                    sums,
                    stride,
                    rows,
                    #[inline(always)]
                    |from, to, rows| finish.rows(simd, from, to, rows),
                );
                continue;
            }
            for m in 0..count {
                finish.rows(simd, &sums[m * stride..], &mut halves[m * share.rows * columns..], rows);
            }
            let from = Transposed { data: halves, stride: share.rows * columns, columns, first: c };
            from.store(&mut scratch.squares, share, 0, share.rows, 0, count);
        }
    }
}

#[cfg(test)]
mod tests;
