//! Kernel section: coefficient streams and tables, and the DMA engines that load them.

use super::Emitter;
use crate::ir::*;
use crate::lut::Table;
use crate::memory::Placed;
use crate::stream::pack::Packing;
use anemone_facts::code::*;
use anemone_facts::kernel::ENGINES;
use anemone_facts::{Field::*, lut};
use anemone_net::Tensor;
use anemone_program::{FieldError, Run};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Upper bound of the kernel section in bytes, without tables of layers without coefficients.
fn kernel_bytes(placed: &Placed) -> usize {
    let of_layer = |layer: &Layer| match &layer.kind {
        Kind::Conv { .. } => Packing::of(layer).total_bytes().next_multiple_of(ROW_ALIGN) as usize,
        _ => 0,
    };
    placed.constants.len() + placed.graph.layers.iter().map(of_layer).sum::<usize>()
}

/// The kernel section under construction; equal blocks are stored once.
pub(super) struct Kernel {
    /// Space for all blocks; zero from `used` on. Pages are touched when blocks are written, by the threads that write them.
    bytes: Vec<u8>,
    used: usize,
    /// Offsets and owners of blocks, by a cheap key: their length and the bytes in the middle.
    blocks: HashMap<(usize, Vec<u8>), Vec<Block>>,
    /// Blocks of coefficients that several layers have, such as the steps of a recurrent layer, by their constant.
    packed: HashMap<*const Tensor, Vec<Packed>>,
}

/// Offset and owner of a block.
type Block = (usize, Option<Owner>);

/// The operation and the coefficients of a block: pieces of one constant are stored apart (`rrmm_r2rb_m176_k2048_n2048_tx0_ty1`).
#[derive(Debug)]
pub(super) struct Owner {
    operation: String,
    coefficients: *const Weights,
}

/// The block of a layer, and what determines its bytes.
struct Packed {
    /// Keeps the constant's address from being used again.
    _constant: Weak<Tensor>,
    range: Range<usize>,
    packing: Packing,
    bias: Option<Arc<Vec<f32>>>,
    table: Option<Arc<Table>>,
    offset: u64,
    sizes: Vec<u64>,
}

impl Owner {
    /// Returns true if blocks of the two owners may be one.
    fn shares(&self, other: &Owner) -> bool {
        self.operation != other.operation || self.coefficients == other.coefficients
    }
}

impl Kernel {
    /// The section with only the program's constants.
    pub(super) fn of(placed: &Placed) -> Kernel {
        let used = placed.constants.len();
        let mut bytes = vec![0; kernel_bytes(placed)];
        bytes[..used].copy_from_slice(&placed.constants);
        Kernel { bytes, used, blocks: HashMap::new(), packed: HashMap::new() }
    }

    /// The section as stored in the program: never empty.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        let bytes = if self.used == 0 { constant::EMPTY_KERNEL_BYTES } else { self.used };
        self.bytes.resize(bytes, 0);
        self.bytes
    }

    /// Places the coefficients of a layer. Streams of the same constant, packed alike, are made once.
    fn place_packed(
        &mut self,
        weights: &Weights,
        packing: &Packing,
        bias: Option<&Arc<Vec<f32>>>,
        nonlinear: &Nonlinear,
    ) -> (u64, Vec<u64>) {
        let table = if let Nonlinear::Table(table) = nonlinear { Some(table) } else { None };
        let shared = weights.values.shared_range().filter(|_| weights.form == StreamForm::Fp16);
        if let Some((constant, range)) = shared {
            let alike = |p: &&Packed| {
                let biases = match (&p.bias, bias) {
                    (Some(a), Some(b)) => a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits())),
                    (a, b) => a.is_none() && b.is_none(),
                };
                p.range == *range && p.packing == *packing && biases && p.table.as_ref() == table
            };
            if let Some(known) = self.packed.get(&Arc::as_ptr(constant)).and_then(|all| all.iter().find(alike)) {
                return (known.offset, known.sizes.clone());
            }
        }
        let put = |to: &mut [u8]| packing.put_streams(weights, bias.map(|b| b.as_slice()), nonlinear.table(), to);
        let (offset, sizes) = self.place(None, packing.total_bytes(), put);
        if let Some((constant, range)) = shared {
            let (range, packing, bias, table) = (range.clone(), *packing, bias.cloned(), table.cloned());
            let packed = Packed {
                _constant: Arc::downgrade(constant),
                range,
                packing,
                bias,
                table,
                offset,
                sizes: sizes.clone(),
            };
            self.packed.entry(Arc::as_ptr(constant)).or_default().push(packed);
        }
        (offset, sizes)
    }

    /// Places the block of streams that `put` writes to at most `most` bytes, all zero; it returns the size of each stream. Returns the
    /// block's offset and the sizes.
    pub(super) fn place(
        &mut self,
        owner: Option<Owner>,
        most: u64,
        put: impl FnOnce(&mut [u8]) -> Vec<u64>,
    ) -> (u64, Vec<u64>) {
        const TELLING_BYTES: usize = 64;
        let start = self.used.next_multiple_of(ROW_ALIGN as usize);
        let end = start + most as usize;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let sizes = put(&mut self.bytes[start..end]);
        let written = sizes.iter().sum::<u64>() as usize;
        let (known, rest) = self.bytes.split_at(start);
        let block = &rest[..written];
        let middle = block.len() / 2;
        let key = (block.len(), block[middle..block.len().min(middle + TELLING_BYTES)].to_vec());
        let alike = self.blocks.entry(key).or_default();
        let shared = |of: &Option<Owner>| of.as_ref().zip(owner.as_ref()).is_none_or(|(of, owner)| of.shares(owner));
        if let Some(&(at, _)) = alike.iter().find(|(at, of)| shared(of) && known[*at..].starts_with(block)) {
            self.bytes[start..start + written].fill(0);
            return (at as u64, sizes);
        }
        alike.push((start, owner));
        self.used = start + written;
        (start as u64, sizes)
    }
}

impl Emitter<'_> {
    /// Output channels that a task states for each engine and pass. A piece of a convolution that skips zeros, if it is one pass, states
    /// those of the widest piece, which comes last (`conv_probe_k3_c256_n256_s32_st2_g1_bias0_same`: 64 and 192 outputs, both 16; without
    /// skipped zeros, `conv_probe_k3_c256_n256_s16_st1_g1_bias1_valid`, 32 and 224 outputs have 2 and 16).
    pub(super) fn stated_lanes(&self, packing: &Packing) -> usize {
        let alike = packing.is_one_pass() && packing.skips_zeros() && self.conventions().passes_fit_kernel_memory;
        let pieces = self.placed.graph.layers[self.index + 1..]
            .iter()
            .take_while(|l| alike && matches!(l.kind, Kind::Conv { .. }) && l.name == self.layer.name);
        pieces.map(|l| Packing::of(l).lanes).fold(packing.lanes, usize::max)
    }

    /// Kernel DMA: places the streams and sets the engines' addresses. Returns the bytes they move.
    pub(super) fn coefficients(
        &mut self,
        kernel: &mut Kernel,
        packing: &Packing,
    ) -> std::result::Result<u64, FieldError> {
        if !self.is_neural() && !self.conventions().planar_streams_declared {
            return Ok(0);
        }
        for i in 0..ENGINES as u32 {
            self.task.set_at(self.layout, CoeffCacheHint, i, hint::NO_ALLOC)?;
            self.task.set_bytes_at(self.layout, CoeffSize, i, constant::IDLE_STREAM_BYTES)?;
        }
        for i in 0..4 {
            self.task.set_at(self.layout, ExtraCacheHint, i, hint::NO_ALLOC)?;
            if self.conventions().extra_streams_sized {
                self.task.set_bytes_at(self.layout, ExtraSize, i, constant::IDLE_STREAM_BYTES)?;
            }
        }
        let (mut offset, sizes, apart) = match &self.layer.kind {
            Kind::Conv { weights, bias, nonlinear, .. } => {
                let bias = bias.as_ref().filter(|_| self.layer.bias_number().is_none());
                let (offset, sizes) = if self.conventions().pieces_stored_apart {
                    let owner = Owner { operation: self.layer.name.clone(), coefficients: Arc::as_ptr(weights) };
                    let bias = bias.map(|b| b.as_slice());
                    let put = |to: &mut [u8]| packing.put_streams(weights, bias, nonlinear.table(), to);
                    kernel.place(Some(owner), packing.total_bytes(), put)
                } else {
                    kernel.place_packed(weights, packing, bias, nonlinear)
                };
                (offset, sizes, true)
            }
            // All engines read the same table.
            Kind::Neuron { nonlinear: Nonlinear::Table(table), .. }
            | Kind::SumChannels { nonlinear: Nonlinear::Table(table) }
            | Kind::MulChannels { nonlinear: Nonlinear::Table(table) } => {
                let (block, streams) = (table.stream(), self.engines(packing).min(self.computed().0));
                // Under a convention there is space for one table per engine, although one would do.
                let most = (block.len() * if self.conventions().tables_per_engine { streams } else { 1 }) as u64;
                let (offset, _) = kernel.place(None, most, |to| {
                    to[..block.len()].copy_from_slice(&block);
                    vec![most]
                });
                // One table is loaded for all engines.
                (offset, vec![lut::STREAM_BYTES as u64; streams], false)
            }
            // The streams are in memory already, one plane each.
            Kind::Product { .. } => {
                let planes = self.layer.sources[1];
                let base = self.address(&planes).offset_bytes;
                self.set(KernelDmaMaster, 1)?;
                for i in 0..planes.channels() {
                    let at = base + i as u64 * planes.axes[1].stride_bytes;
                    self.task.set_at(self.layout, CoeffEn, i as u32, 1)?;
                    self.task.set_bytes_at(self.layout, CoeffBase, i as u32, at)?;
                    self.task.set_bytes_at(self.layout, CoeffSize, i as u32, packing.stream_bytes())?;
                }
                return Ok(0);
            }
            _ => return Ok(0),
        };
        let bytes = if apart { sizes.iter().sum() } else { lut::STREAM_BYTES as u64 };
        self.set(KernelDmaMaster, 1)?;
        self.set(KernelDmaSparse, u32::from(packing.skips_zeros()))?;
        self.set(SparseFmt, u32::from(packing.skips_zeros()))?;
        for (i, size) in (0..).zip(sizes) {
            self.task.set_at(self.layout, CoeffEn, i, 1)?;
            self.task.set_bytes_at(self.layout, CoeffBase, i, offset)?;
            self.task.set_bytes_at(self.layout, CoeffSize, i, size)?;
            offset += if apart { size } else { 0 };
        }
        Ok(bytes)
    }

    /// Omits bases and sizes of the streams, for tasks without coefficients.
    pub(super) fn leave_out_streams(&mut self) {
        let (Some(from), Some(to)) = (self.layout.row(CoeffBase), self.layout.row(ExtraEn)) else { return };
        let Some(at) =
            self.task.runs.iter().position(|r| (r.addr..r.addr + 4 * r.words.len() as u32).contains(&from.addr))
        else {
            return;
        };
        let run = &mut self.task.runs[at];
        let rest = run.words.split_off((to.addr - run.addr) as usize / 4);
        run.words.truncate((from.addr - run.addr) as usize / 4);
        self.task.runs.insert(at + 1, Run::consecutive(to.addr, rest));
    }
}
