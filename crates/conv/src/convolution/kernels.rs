//! Packed coefficients of a convolution, by group.

use super::{Im2col, gemv, nchwc};
use anemone_kernels::cost;
use anemone_kernels::exact::vector::PanelStats;
use anemone_kernels::filter::{CoefficientRow, Filter, PackedFilter, Values};
use anemone_kernels::gemm::microkernel::PANEL;
use anemone_kernels::view::{BLOCK, OutputTile};
use anemone_kernels::workers::chunks;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Coefficients of one group, `[out][in * kh * kw]`, and biases. Every coefficient is an fp16 number.
pub struct Coefficients {
    pub weights: Values,
    pub biases: Option<Vec<f32>>,
}

/// Coefficients of all groups.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// One filter shared by all groups, or one per group. Tasks that read the same streams share the allocation.
    pub(super) groups: Arc<Vec<Filter>>,
    /// Offset of each tap in the staged source.
    pub(super) offsets: Vec<u32>,
    /// Window positions that are kept; the coefficients at the others are zero. `None` if all are kept.
    pub kept: Option<Arc<[usize]>>,
    /// Filters with all positions, made on demand for a source that is not finite: zero times infinity is NaN.
    pub(super) all: Arc<OnceLock<Arc<Vec<Filter>>>>,
    /// Statistics of each filter for the GEMV of a fixed-point accumulator; empty for other kernels.
    stats: Arc<Vec<PanelStats>>,
    pub(super) packing: Packing,
}

/// Layout of packed coefficients, by the number of channels in a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Channel-major, without panels.
    Rows,
    Panels6,
    Blocks16,
    Panels64,
}

impl Packing {
    /// Channels per panel.
    pub fn height(self) -> usize {
        match self {
            Packing::Rows => 1,
            Packing::Panels6 => PANEL,
            Packing::Blocks16 => BLOCK,
            Packing::Panels64 => gemv::PANEL,
        }
    }

    /// Layout that the selected kernel reads. `transposed` is true if results are stored with channels and columns exchanged.
    pub fn for_staging(staging: &Im2col, transposed: bool, channels: usize) -> Packing {
        let blocks = !transposed && staging.is_narrow() && nchwc::suits(channels);
        match staging.unicast {
            true if (staging.is_depthwise() || staging.is_by_channel()) && blocks => Packing::Blocks16,
            true => Packing::Rows,
            false if staging.is_gemv() => Packing::Panels64,
            false if staging.is_pointwise() && blocks => Packing::Blocks16,
            false => Packing::Panels6,
        }
    }

    /// Reason for the rejection of kernels that read other layouts.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Packing::Rows => "coefficients are packed in rows of channels",
            Packing::Panels6 => "coefficients are packed in panels of 6 channels",
            Packing::Blocks16 => "coefficients are packed in blocks of 16 channels",
            Packing::Panels64 => "coefficients are packed in panels of 64 channels",
        }
    }
}

impl std::fmt::Display for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.reason().trim_start_matches("coefficients are packed in "))
    }
}

/// Window positions with zero coefficients are skipped if they are at least one in this many.
pub(super) const SPARSE: usize = 4;

impl Kernels {
    /// Packs the coefficients of the streams: one item for all groups, or one per group. `transposed` is true if results are stored with
    /// channels and columns exchanged.
    pub fn pack(staging: &Im2col, transposed: bool, channels: usize, groups: Vec<Coefficients>) -> Kernels {
        let kept = staging.kept(&groups);
        let packing = Packing::for_staging(staging, transposed, channels);
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
                *filter = Some(Filter {
                    packed: PackedFilter::of(&weights, channels, taps, packing.height()),
                    biases,
                    finite,
                });
            }
        });
        let groups = filters.into_iter().filter_map(|(_, filter)| filter).collect();
        let mut kernels = Kernels {
            groups: Arc::new(groups),
            offsets: Vec::new(),
            kept: kept.map(Arc::from),
            all: Arc::default(),
            stats: Arc::default(),
            packing,
        };
        kernels.read_from(staging);
        kernels
    }

    /// [`Kernels::pack`] for a pointwise convolution, from strided rows of coefficients and their biases: one item for all groups, or one
    /// per group.
    pub fn pack_rows(
        staging: &Im2col,
        transposed: bool,
        channels: usize,
        groups: Vec<(Vec<CoefficientRow>, Option<Vec<f32>>)>,
    ) -> Kernels {
        let packing = Packing::for_staging(staging, transposed, channels);
        let taps = staging.channels;
        let nanos = cost::elementwise(channels * taps * groups.len());
        let mut filters: Vec<_> = groups.into_iter().map(|group| (group, None)).collect();
        chunks(&mut filters, 1, nanos, |_, filters| {
            for ((rows, biases), filter) in filters {
                // Only windows of several taps test for finite coefficients.
                *filter = Some(Filter {
                    packed: PackedFilter::of_rows(rows, taps, packing.height()),
                    biases: biases.take(),
                    finite: false,
                });
            }
        });
        let groups = Arc::new(filters.into_iter().filter_map(|(_, filter)| filter).collect());
        let mut kernels =
            Kernels { groups, offsets: Vec::new(), kept: None, all: Arc::default(), stats: Arc::default(), packing };
        kernels.read_from(staging);
        kernels
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

    /// The coefficients with all window positions; `None` if none was skipped.
    pub(super) fn with_all_positions(&self, staging: &Im2col) -> Option<Kernels> {
        let kept = self.kept.as_ref()?;
        let elements = staging.window.elements();
        let whole = |filter: &Filter| {
            let (channels, taps) = (filter.packed.channels(), staging.channels * elements);
            let values = filter.packed.values().spread(elements, kept);
            Filter { packed: PackedFilter::of(&values, channels, taps, self.packing.height()), ..filter.clone() }
        };
        let groups = self.all.get_or_init(|| Arc::new(self.groups.iter().map(whole).collect())).clone();
        let (all, stats) = (Arc::default(), Arc::default());
        Some(Kernels { groups, offsets: staging.offsets(), kept: None, all, stats, packing: self.packing })
    }

    /// Layout in which the coefficients are packed.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Coefficients and biases of every group for fixed-point accumulators, in blocks of 16 channels or in panels of 64 for GEMV.
    pub fn pack_exact(staging: &Im2col, groups: Vec<(PackedFilter, Option<Vec<f32>>)>) -> Kernels {
        let packing = if staging.is_gemv() { Packing::Panels64 } else { Packing::Blocks16 };
        let mut stats = Vec::new();
        let groups = groups.into_iter().map(|(packed, biases)| {
            let packed = packed.with_height(packing.height());
            let measured = packing == Packing::Panels64;
            stats.extend(measured.then(|| PanelStats::of(&packed, biases.as_deref(), packing.height())));
            // Only Winograd's kernel tests for finite coefficients.
            Filter { packed, biases, finite: false }
        });
        let groups = Arc::new(groups.collect());
        let stats = Arc::new(stats);
        Kernels { groups, offsets: Vec::new(), kept: None, all: Arc::default(), stats, packing }
    }

    /// Number of channels of a group.
    pub fn channels(&self) -> usize {
        self.groups.first().map_or(0, |kernel| kernel.packed.channels())
    }

    /// Repacks into blocks of 16 channels, unless [`Kernels::pack`] did; called once it is known which tasks are fused.
    pub fn repack_nchwc16(&mut self, shared: &mut RepackCache<Filter>) {
        if self.packing != Packing::Blocks16 {
            let in_blocks = |mut kernels: Vec<Filter>| {
                for kernel in kernels.iter_mut() {
                    kernel.packed = kernel.packed.with_height(BLOCK);
                }
                Kernels {
                    groups: Arc::new(kernels),
                    offsets: Vec::new(),
                    kept: None,
                    all: Arc::default(),
                    stats: Arc::default(),
                    packing: Packing::Blocks16,
                }
            };
            self.groups = shared.get(std::mem::take(&mut self.groups), BLOCK, in_blocks).groups;
            self.packing = Packing::Blocks16;
        }
    }

    /// Size of the coefficients in bytes.
    pub fn bytes(&self) -> usize {
        let filters = self.groups.iter().map(|kernel| kernel.packed.bytes());
        filters.chain(self.stats.iter().map(PanelStats::bytes)).sum()
    }

    pub fn of(&self, share: &OutputTile) -> Option<&Filter> {
        self.groups.get(share.group).or(self.groups.first())
    }

    /// Statistics of the filter of a tile.
    pub(super) fn stats_of(&self, share: &OutputTile) -> Option<&PanelStats> {
        self.stats.get(share.group).or(self.stats.first())
    }
}

/// Cache of repacked coefficients: coefficients that tasks share are repacked to another panel height once.
pub struct RepackCache<T> {
    positions: Positions,
    repacked: Vec<Repacked<T>>,
}

/// Positions in a list by address and panel height. Not generic, so that the map's code is compiled once.
#[derive(Default)]
struct Positions(HashMap<(usize, usize), usize>);

impl Positions {
    /// Position of a key, which is `new` for a key not seen before.
    #[inline(never)]
    fn of(&mut self, key: (usize, usize), new: usize) -> usize {
        *self.0.entry(key).or_insert(new)
    }
}

/// The source, kept alive so that its address stays a unique key, and its repacked panels.
pub(super) type Repacked<T> = (Arc<Vec<T>>, Kernels);

impl<T> Default for RepackCache<T> {
    fn default() -> Self {
        RepackCache { positions: Positions::default(), repacked: Vec::new() }
    }
}

impl<T: Clone> RepackCache<T> {
    pub fn get(&mut self, from: Arc<Vec<T>>, height: usize, pack: impl FnOnce(Vec<T>) -> Kernels) -> Kernels {
        match Arc::try_unwrap(from) {
            // Coefficients of a single task are not cached.
            Ok(own) => pack(own),
            Err(shared) => {
                // The address is unique as long as the entry holds the source.
                let key = (Arc::as_ptr(&shared).addr(), height);
                let at = self.positions.of(key, self.repacked.len());
                if let Some((_, kernels)) = self.repacked.get(at) {
                    return kernels.clone();
                }
                let kernels = pack(Vec::clone(&shared));
                self.repacked.push((shared, kernels.clone()));
                kernels
            }
        }
    }
}
