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
mod tests {
    use super::*;
    use crate::epilogue::Activation;
    use crate::filter::Values;
    use crate::view::reach;
    use crate::window::some_windows;
    use crate::workers::arches;
    use half::f16;

    /// Every way to compute a product of matrices has the same bits, turned or not, wherever its rows lie.
    #[test]
    fn the_ways_to_one_product_agree() {
        let finish = Epilogue { bias: 0.5, scale: 0.75, activation: &Activation::Relu };
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        for (g, cin, cout, h, w) in [(1, 300, 130, 1, 70), (2, 20, 7, 5, 7), (1, 600, 64, 16, 16)] {
            let (input, ext) = (Extents { g, c: cin, h, w }, Extents { g, c: cout, h, w });
            let k = [1, 1];
            let window = Window { k, s: k, p: [0, 0], from: [h, w], to: [h, w] };
            let staging = Im2col::new(window, cin, false, ext, rayon::current_num_threads()).expect("it is small");
            let kernels = |channels: Range<usize>| {
                let weights = |g| channels.clone().flat_map(|c| c * cin..(c + 1) * cin).map(|i| draw(i + g)).collect();
                let biases: Vec<f32> = channels.clone().map(|c| c as f32 / 64.0).collect();
                let groups =
                    (0..g).map(|g| Coefficients { weights: Values::Halves(weights(g)), biases: Some(biases.clone()) });
                Kernels::pack(&staging, false, channels.len(), groups.collect())
            };
            let (all, first, rest) = (kernels(0..cout), kernels(0..cout / 3), kernels(cout / 3..cout));
            // Rows with gaps, and channels within rows.
            let strides = [h * cin * (w + 3), w + 3, cin * (w + 3)];
            let x: Vec<f16> = (0..reach(input, strides)).map(draw).collect();
            let from = TensorView { data: &x, strides };
            let workers = Workers::new();
            let run = |members: &[&Kernels], transposed: bool| {
                let stored = if transposed { ext.transposed() } else { ext };
                let mut data = vec![f16::NAN; reach(stored, dense(stored))];
                let to = TensorViewMut { data: &mut data, strides: dense(stored), transposed };
                let members: Vec<BatchMember> = members.iter().map(|kernels| BatchMember { kernels, finish }).collect();
                match members.is_empty() {
                    true => convolve_direct(&workers, &staging, &all, &finish, from, to, ext, false, true),
                    false => convolve_pointwise(&workers, &members, from, to, ext),
                }
                data
            };
            let wanted = run(&[], false);
            assert!(wanted.iter().all(|x| !x.is_nan()));
            assert_eq!(run(&[&all], false), wanted);
            let transposed = run(&[], true);
            assert_eq!(run(&[&all], true), transposed);
            assert_eq!(run(&[&first, &rest], true), transposed);
            let at = |data: &[f16], e: Extents, [g, c, h, w]: [usize; 4]| data[((g * e.c + c) * e.h + h) * e.w + w];
            for (i, &x) in wanted.iter().enumerate() {
                let (w, h, c, g) = (i % ext.w, i / ext.w % ext.h, i / ext.plane() % ext.c, i / ext.plane() / ext.c);
                assert_eq!(at(&transposed, ext.transposed(), [g, w, h, c]), x);
            }
        }
    }

    /// Windows of every kind, slid over and unfolded, by every instruction set: the sums of the taps in their order. In Winograd's
    /// form nearly those.
    #[test]
    fn windows_take_their_taps_in_order() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
        let mut squares = 0;
        for (i, (window, [cin, cout], unicast)) in some_windows().enumerate() {
            let Window { k, s, p, from, to } = window.clone();
            let ext = Extents { g: 1, c: cout, h: to[0], w: to[1] };
            let of_output = if unicast { 1 } else { cin };
            let staging = Im2col::new(window.clone(), of_output, unicast, ext, rayon::current_num_threads())
                .expect("it is small");
            let taps = of_output * k[0] * k[1];
            let weights: Vec<f16> = (0..cout * taps).map(|n| draw(n + i)).collect();
            let groups = [Coefficients { weights: Values::Halves(weights.clone()), biases: None }];
            let kernels = Kernels::pack(&staging, false, cout, groups.into());
            let strides = [0, from[0] * (from[1] + 1), from[1] + 1];
            let x: Vec<f16> = (0..cin * strides[1]).map(draw).collect();
            let mut wanted = Vec::new();
            for (c, h, w) in (0..cout).flat_map(|c| (0..to[0]).flat_map(move |h| (0..to[1]).map(move |w| (c, h, w)))) {
                let sum = (0..taps).fold(0.0f32, |sum, tap| {
                    let (channel, kh, kw) = (tap / (k[0] * k[1]), tap / k[1] % k[0], tap % k[1]);
                    let channel = if unicast { c } else { channel };
                    let (h, w) = ((h * s[0] + kh).checked_sub(p[0]), (w * s[1] + kw).checked_sub(p[1]));
                    let (Some(h), Some(w)) = (h.filter(|&h| h < from[0]), w.filter(|&w| w < from[1])) else {
                        return sum;
                    };
                    let x = x[channel * strides[1] + h * strides[2] + w];
                    weights[c * taps + tap].to_f32().mul_add(x.to_f32(), sum)
                });
                wanted.push(f16::from_f32(sum));
            }
            for arch in arches() {
                let workers = Workers::used(arch);
                for small in if unicast { &[false][..] } else { &[false, true] } {
                    let mut data = vec![f16::NAN; wanted.len()];
                    let to = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
                    let from = TensorView { data: &x, strides };
                    convolve_direct(&workers, &staging, &kernels, &finish, from, to, ext, *small, true);
                    let wrong = (0..data.len()).find(|&n| data[n] != wanted[n]);
                    assert_eq!(wrong, None, "{:?}, {cin} to {cout}, {arch:?}, small {small}", staging.window);
                }
                if staging.window.k != [3; 2] || staging.window.s != [1; 2] || unicast {
                    continue;
                }
                // Another order of additions.
                let mut data = vec![f16::NAN; wanted.len()];
                let to = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
                convolve_winograd(
                    &workers,
                    &staging,
                    &kernels,
                    &finish,
                    TensorView { data: &x, strides },
                    to,
                    ext,
                    true,
                );
                squares += 1;
                for (found, wanted) in data.iter().zip(&wanted) {
                    let off = (found.to_f32() - wanted.to_f32()).abs();
                    let most = wanted.to_f32().abs() / 1024.0 + taps as f32 / (1 << 21) as f32;
                    assert!(off <= most, "{:?}, {cin} to {cout}, {arch:?}: {found} for {wanted}", staging.window);
                }
            }
        }
        assert!(squares > 20);
    }

    /// Positions of zeros are left out, and count where a number of the source is not finite: zero times infinity is NaN.
    #[test]
    fn zeros_of_a_window_meet_infinities() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
        let (cin, cout, n) = (5, 21, 12);
        let ext = Extents { g: 1, c: cout, h: n, w: n };
        let window = Window { k: [5; 2], s: [1; 2], p: [2; 2], from: [n; 2], to: [n; 2] };
        let staging = Im2col::new(window, cin, false, ext, 2).expect("it is small");
        let dilated = |i: usize| (i / 5).is_multiple_of(2) && (i % 5).is_multiple_of(2);
        let weight = |i: usize| if dilated(i % 25) { draw(i) } else { f16::ZERO };
        let weights: Vec<f16> = (0..cout * cin * 25).map(weight).collect();
        let groups = vec![Coefficients { weights: Values::Halves(weights.clone()), biases: None }];
        let kernels = Kernels::pack(&staging, false, cout, groups);
        assert!(kernels.kept.is_some());
        for odd in [f16::ONE, f16::INFINITY, f16::NAN] {
            let mut x: Vec<f16> = (0..cin * n * n).map(|i| draw(i + 7)).collect();
            x[2 * n * n + 4 * n + 6] = odd;
            let workers = Workers::new();
            let mut found = vec![f16::ONE; cout * n * n];
            let to = TensorViewMut { data: &mut found, strides: dense(ext), transposed: false };
            let from = TensorView { data: &x, strides: dense(Extents { c: cin, ..ext }) };
            convolve(&workers, &staging, &kernels, &finish, from, to, ext);
            for (at, found) in found.iter().enumerate() {
                let (c, h, w) = (at / (n * n), at / n % n, at % n);
                let sum = (0..cin * 25).fold(0.0f32, |sum, tap| {
                    let (kh, kw) = (h + tap / 5 % 5, w + tap % 5);
                    let inside = (2..n + 2).contains(&kh) && (2..n + 2).contains(&kw);
                    let read = if inside { x[tap / 25 * n * n + (kh - 2) * n + kw - 2].to_f32() } else { 0.0 };
                    weights[c * cin * 25 + tap].to_f32().mul_add(read, sum)
                });
                let wanted = f16::from_f32(sum);
                assert!(*found == wanted || found.is_nan() && wanted.is_nan(), "{odd} {at}: {found} for {wanted}");
            }
            assert_eq!(found.iter().any(|x| x.is_nan()), odd != f16::ONE);
        }
    }

    /// A pair has the bits of its tasks one after the other: through clamps, in fp16, beside infinities and NaN, however it is cut. So
    /// has a product of what a pair leaves in blocks.
    #[test]
    fn pairs_have_the_bits_of_two_tasks() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        let odd = [f16::NAN, f16::INFINITY, f16::NEG_INFINITY, f16::NEG_ZERO, f16::MIN_POSITIVE_SUBNORMAL, f16::MAX];
        let activations = [
            Activation::None,
            Activation::Relu,
            Activation::Clamp(0.0, 6.0),
            Activation::Clamp(-0.5, 0.75),
            Activation::Clamp(-0.0, 2.0),
        ];
        let (mut tried, mut cuts, mut products, mut sums) = (0, 0, 0, 0);
        // Of the first one: result, channels, kernel, stride, padding.
        for (i, ([h, w], [cin, c], [k1, s1, p1])) in [
            ([7, 7], [40, 61], [1, 1, 0]),
            ([14, 14], [5, 24], [1, 1, 0]),
            ([9, 40], [3, 13], [1, 1, 0]),
            ([16, 33], [390, 48], [1, 1, 0]),
            ([5, 1], [2, 14], [1, 1, 0]),
            ([64, 112], [64, 16], [1, 1, 0]),
            ([15, 14], [33, 80], [1, 1, 0]),
            ([9, 17], [3, 32], [3, 2, 1]),
            ([20, 12], [2, 13], [5, 1, 2]),
            ([6, 30], [1, 48], [3, 3, 0]),
            ([3, 1100], [1, 16], [3, 1, 1]),
        ]
        .into_iter()
        .enumerate()
        {
            let of = [h, w].map(|n: usize| (n - 1) * s1 + k1 - 2 * p1);
            for (k, s, p) in [(3, 1, 1), (3, 2, 1), (3, 2, 0), (5, 1, 2), (5, 2, 2), (3, 1, 0)] {
                let to = [h, w].map(|n: usize| (n + 2 * p).checked_sub(k).map_or(0, |n| n / s + 1));
                if to.contains(&0) {
                    continue;
                }
                let ext = |[h, w]: [usize; 2]| Extents { g: 1, c, h, w };
                let before = Window { k: [k1; 2], s: [s1; 2], p: [p1; 2], from: of, to: [h, w] };
                let window = Window { k: [k; 2], s: [s; 2], p: [p; 2], from: [h, w], to };
                let first =
                    Im2col::new(before, cin, false, ext([h, w]), rayon::current_num_threads()).expect("it is small");
                let second = Im2col::new(window, 1, true, ext(to), rayon::current_num_threads()).expect("it is small");
                cuts += usize::from(h * w * cin * k1 * k1 > 2 * MADE_OF);
                let kernels = |staging: &Im2col, taps: usize, biases: bool| {
                    let weights = Values::Halves((0..c * taps).map(|n| draw(n + i)).collect());
                    let biases = biases.then(|| (0..c).map(|n| draw(n).to_f32()).collect());
                    Kernels::pack(staging, false, c, vec![Coefficients { weights, biases }])
                };
                let kernels = [kernels(&first, cin * k1 * k1, i % 2 == 0), kernels(&second, k * k, i % 2 == 1)];
                let blocks = kernels.clone().map(|mut kernels| {
                    kernels.repack_nchwc16(&mut RepackCache::default());
                    kernels
                });
                assert!(can_fuse_depthwise([&first, &second], [c; 2]));
                let mut x: Vec<f16> = (0..cin * of[0] * (of[1] + 1)).map(draw).collect();
                if s == 1 {
                    x.iter_mut().step_by(97).zip(odd).for_each(|(x, odd)| *x = odd);
                }
                let from = TensorView { data: &x, strides: [0, of[0] * (of[1] + 1), of[1] + 1] };
                let finish = |n: usize, bias| Epilogue { bias, scale: 1.0 + bias, activation: &activations[n % 5] };
                let finish = [finish(tried, 0.0), finish(tried + 2, if p == 0 { 0.5 } else { 0.0 })];
                for arch in arches() {
                    let workers = Workers::used(arch);
                    let between = Extents { g: 1, c, h, w };
                    let mut data = vec![f16::ONE; c * h * w];
                    let target = TensorViewMut { data: &mut data, strides: dense(between), transposed: false };
                    convolve(&workers, &first, &kernels[0], &finish[0], from, target, between);
                    let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    let mut alone = vec![f16::ONE; c * h * w];
                    let target = TensorViewMut { data: &mut alone, strides: dense(between), transposed: false };
                    convolve(&workers, &first, &blocks[0], &finish[0], from, target, between);
                    assert!(bits(&alone) == bits(&data), "{h}x{w}, {cin} to {c}, {k1} {s1} {p1}, {arch:?}");
                    let source = TensorView { data: &data, strides: dense(between) };
                    let mut wanted = vec![f16::ONE; c * to[0] * to[1]];
                    let mut found = wanted.clone();
                    // Rows of channels, or channels of rows.
                    let strides = if i % 2 == 0 { dense(ext(to)) } else { [0, to[1], c * to[1]] };
                    let target = TensorViewMut { data: &mut wanted, strides, transposed: false };
                    convolve(&workers, &second, &kernels[1], &finish[1], source, target, ext(to));
                    let target = TensorViewMut { data: &mut found, strides, transposed: false };
                    let stagings = [&first, &second];
                    let pair = FusedDepthwise { kernels: blocks.each_ref(), finish, stagings };
                    pair.convolve(&workers, from, target, ext(to), false);
                    assert!(bits(&found) == bits(&wanted), "{h}x{w}, {cin} to {c}, {k} {s} {p}, {arch:?}");
                    if !c.is_multiple_of(BLOCK) {
                        continue;
                    }
                    let ext = |c: usize| Extents { g: 1, c, h: to[0], w: to[1] };
                    let window = Window { k: [1; 2], s: [1; 2], p: [0; 2], from: to, to };
                    let third =
                        Im2col::new(window, c, false, ext(37), rayon::current_num_threads()).expect("it is small");
                    let groups = [Coefficients {
                        weights: Values::Halves((0..37 * c).map(|n| draw(n + i)).collect()),
                        biases: Some((0..37).map(|n| draw(n).to_f32()).collect()),
                    }];
                    let mut product = Kernels::pack(&third, false, 37, groups.into());
                    let mut products_of = [vec![f16::ONE; 37 * to[0] * to[1]], vec![f16::ONE; 37 * to[0] * to[1]]];
                    let [wanted_product, found_product] = &mut products_of;
                    let from_wanted = TensorView { data: &wanted, strides };
                    let target = TensorViewMut { data: wanted_product, strides: dense(ext(37)), transposed: false };
                    convolve(&workers, &third, &product, &finish[0], from_wanted, target, ext(37));
                    product.repack_nchwc16(&mut RepackCache::default());
                    let mut blocks = vec![f16::ONE; c * to[0] * to[1]];
                    let target = TensorViewMut { data: &mut blocks, strides: dense(ext(c)), transposed: false };
                    pair.convolve(&workers, from, target, ext(c), true);
                    let strides = dense(Extents { c: c / BLOCK, w: to[1] * BLOCK, ..ext(c) });
                    let source = TensorView { data: &blocks, strides };
                    let operand = Operand { source, in_blocks: true, staging: &third };
                    let target = TensorViewMut { data: found_product, strides: dense(ext(37)), transposed: false };
                    convolve_nchwc(&workers, &product, finish[0], operand, None, target, ext(37));
                    assert!(bits(found_product) == bits(wanted_product), "{h}x{w}, {c} to 37, {k} {s} {p}, {arch:?}");
                    products += 1;
                    if !workers.converts() {
                        continue;
                    }
                    // The sum with another tensor, from elsewhere and where that stands; in rows with others between.
                    let (row, plane) = (to[1] + 1, to[0] * (to[1] + 1));
                    let strides = if i % 2 == 0 { [0, plane, row] } else { [0, row, 37 * row] };
                    let other: Vec<f16> = (0..37 * plane).map(|n| draw(n + 5)).collect();
                    let mut wanted_sum = other.clone();
                    for (n, product) in wanted_product.iter().enumerate() {
                        let at = n / to[1] / to[0] * strides[1] + n / to[1] % to[0] * strides[2] + n % to[1];
                        wanted_sum[at] = crate::num::round(product.to_f32() + other[at].to_f32());
                    }
                    let known = |x: &[f16]| x.iter().map(|x| (!x.is_nan()).then(|| x.to_bits())).collect::<Vec<_>>();
                    for (source, is_first) in [(Some(TensorView { data: &other, strides }), false), (None, true)] {
                        let mut data = other.clone();
                        let target = TensorViewMut { data: &mut data, strides, transposed: false };
                        let residual = Some(ResidualAdd { source, is_first });
                        convolve_nchwc(&workers, &product, finish[0], operand, residual, target, ext(37));
                        assert!(known(&data) == known(&wanted_sum), "{h}x{w}, {c} to 37, {k} {s} {p}, {is_first}");
                    }
                    sums += 1;
                }
                tried += 1;
            }
        }
        assert!(tried > 25 && cuts > 0 && products > 5, "{tried} {cuts} {products}");
        assert!(sums > 5 || !Workers::new().converts(), "{sums}");
    }

    /// Products of few columns, where the last ones go one by one, by every instruction set.
    #[test]
    fn columns_alone_have_the_sums_of_columns_together() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
        for (cin, cout, w) in [
            (300, 100, 1),
            (1280, 330, 1),
            (5, 9, 1),
            (40, 61, 49),
            (7, 13, 17),
            (600, 48, 66),
            (3, 5, 2),
            (33, 80, 13),
            (9, 31, 3),
        ] {
            let (input, ext) = (Extents { g: 1, c: cin, h: 1, w }, Extents { g: 1, c: cout, h: 1, w });
            let window = Window { k: [1, 1], s: [1, 1], p: [0, 0], from: [1, w], to: [1, w] };
            let staging = Im2col::new(window, cin, false, ext, rayon::current_num_threads()).expect("it is small");
            let weights: Vec<f16> = (0..cout * cin).map(draw).collect();
            let biases: Vec<f32> = (0..cout).map(|c| draw(c).to_f32()).collect();
            let kernels = |transposed: bool| {
                let (weights, biases) = (Values::Halves(weights.clone()), Some(biases.clone()));
                let groups = [Coefficients { weights, biases }];
                Kernels::pack(&staging, transposed, cout, groups.into())
            };
            let x: Vec<f16> = (0..cin * w).map(|i| draw(i + 5)).collect();
            let sum = |c: usize, o: usize| {
                let product = |k: usize| (weights[c * cin + k].to_f32(), x[k * w + o].to_f32());
                let sum = (0..cin).map(product).fold(0.0f32, |sum, (weight, x)| weight.mul_add(x, sum));
                sum + biases[c]
            };
            for arch in arches() {
                let workers = Workers::used(arch);
                for transposed in [false, true] {
                    let stored = if transposed { ext.transposed() } else { ext };
                    let mut data = vec![f16::NAN; cout * w];
                    let to = TensorViewMut { data: &mut data, strides: dense(stored), transposed };
                    convolve(
                        &workers,
                        &staging,
                        &kernels(transposed),
                        &finish,
                        TensorView { data: &x, strides: dense(input) },
                        to,
                        ext,
                    );
                    for (i, &found) in data.iter().enumerate() {
                        let (c, o) = if transposed { (i % cout, i / cout) } else { (i / w, i % w) };
                        assert_eq!(
                            found,
                            f16::from_f32(sum(c, o)),
                            "{cin} {cout} {w}, {arch:?}, {transposed}, {c}, {o}"
                        );
                    }
                }
            }
        }
    }
}
