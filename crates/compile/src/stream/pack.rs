//! Packing of coefficients into the engines' streams.
//!
//! Up to sixteen engines, each with `lanes` output channels at a time; see `docs/evidence.md`, keys `h13-kernel`,
//! `h13-zero-skip` and `book-streams`.

use crate::ir::*;
use crate::lut::Table;
use anemone_facts::kernel::{ALIGN_BYTES, ENGINES, PASS_BYTES, zero_skip};
use anemone_facts::lut::STREAM_BYTES;
use anemone_facts::staging::{LANES, LANES_SMALL, SMALL_SIDE};
use anemone_net::stored::pack;
use half::f16;
use rayon::prelude::*;

/// Width of an uncompressed coefficient in bits.
const FP16_BITS: usize = 16;
/// Width of a coefficient of one byte in bits.
const INT8_BITS: usize = 8;
/// Least size in bytes of the streams of a layer that several threads write.
const PARALLEL_BYTES: usize = 1 << 18;

/// Distribution of a layer's output channels over engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Active engines; a power of two.
    pub engines: usize,
    /// Output channels per engine at a time: a power of two, or the channels of a single, partly filled pass.
    pub lanes: usize,
    /// Output channels of one group.
    outputs: usize,
    groups: usize,
    taps: usize,
    bias: bool,
    /// Kernel and stride, rows first, if zeros are skipped.
    skips: Option<[[usize; 2]; 2]>,
    /// Mask bits of one kernel element, if zeros are skipped.
    mask_bits: usize,
    /// Width of a coefficient in bits, or of its index if there is a palette.
    bits: usize,
    /// Size of the palette in bytes, which precedes the coefficients of every stream, behind the table.
    palette_bytes: u64,
    /// Size of the activation table in bytes, which starts every stream.
    table_bytes: u64,
}

/// Number of engines for `outputs` channels.
pub fn engines_for(outputs: usize) -> usize {
    outputs.next_power_of_two().min(ENGINES)
}

impl Packing {
    /// The packing of a layer's coefficients in their current form; without coefficients there are no taps.
    pub fn of(layer: &Layer) -> Packing {
        match &layer.kind {
            Kind::Conv { weights, .. } => Packing::in_form(layer, &weights.form),
            _ => Packing::in_form(layer, &StreamForm::Fp16),
        }
    }

    /// As [`Packing::of`], with the coefficients in a given stream form.
    pub fn in_form(layer: &Layer, form: &StreamForm) -> Packing {
        let outputs = if layer.transpose { layer.result.width } else { layer.result.channels() };
        let engines = engines_for(outputs);
        if let Kind::Product { lanes, .. } = layer.kind {
            let taps = layer.sources[0].channels();
            return Packing {
                engines: engines_for(outputs / lanes),
                lanes,
                outputs,
                groups: layer.sources[0].groups(),
                taps,
                bias: false,
                skips: None,
                mask_bits: 0,
                bits: FP16_BITS,
                palette_bytes: 0,
                table_bytes: 0,
            };
        }
        let Kind::Conv { connect, weights, bias, window, nonlinear, .. } = &layer.kind else {
            return Packing {
                engines,
                lanes: 1,
                outputs,
                groups: 1,
                taps: 0,
                bias: false,
                skips: None,
                mask_bits: 0,
                bits: FP16_BITS,
                palette_bytes: 0,
                table_bytes: 0,
            };
        };
        let source = &layer.sources[0];
        let groups = source.groups();
        // The number of accumulators depends on the results: 512 outputs of 8 x 8 positions that stride 2 takes from 16 x 16 are one pass
        // of 32 lanes (`conv_probe_k1_c256_n512_s16_st2_g1_bias0_same`).
        let small = layer.result.height().max(layer.result.width) <= SMALL_SIDE && !layer.transpose;
        let cap = if small { LANES_SMALL } else { LANES };
        let mut lanes = 1;
        // Only full passes: the layout of a last, partly filled pass of several lanes is not known.
        if *connect == Connect::Dense {
            while lanes < cap && outputs.is_multiple_of(engines * lanes * 2) {
                lanes *= 2;
            }
        }
        let taps = weights.values.len() / (outputs * groups).max(1);
        // A single, partly filled pass is as wide as its channels if one of all lanes would not fit kernel memory
        // (`docs/evidence.md`, key `h13-kernel`).
        let held = outputs / engines;
        let bias = bias.is_some() && layer.bias_number().is_none();
        let plane = |lanes: usize| (2 * lanes * (taps + bias as usize)) as u64;
        let single = *connect == Connect::Dense && outputs.is_multiple_of(engines) && held < cap;
        if single
            && !held.is_power_of_two()
            && plane(held.next_power_of_two()) > PASS_BYTES
            && plane(held) <= PASS_BYTES
        {
            lanes = held;
        }
        let places = zero_skip::order(window.kernel, window.stride);
        let empty = places.iter().filter(|place| place.is_none()).count();
        let (skips, bits, palette_bytes) = match form {
            StreamForm::Fp16 => (empty * zero_skip::WORTH_EMPTY > places.len(), FP16_BITS, 0),
            StreamForm::ZeroSkipping => (true, FP16_BITS, 0),
            StreamForm::Int8 => (false, INT8_BITS, 0),
            StreamForm::Palette { bits, .. } => {
                (false, *bits as usize, (ELEMENT_BYTES << bits).next_multiple_of(ALIGN_BYTES))
            }
        };
        let skips = skips.then_some([window.kernel, window.stride]);
        let table_bytes = if let Nonlinear::Table(_) = nonlinear { STREAM_BYTES as u64 } else { 0 };
        let sides = [layer.result.height(), layer.result.width];
        let mask_bits = lanes.max(zero_skip::least_mask_bits(sides, layer.transpose));
        Packing { engines, lanes, outputs, groups, taps, bias, skips, mask_bits, bits, palette_bytes, table_bytes }
    }

    /// Returns true if all engines compute their outputs at once.
    pub fn is_one_pass(&self) -> bool {
        self.outputs == self.engines * self.lanes
    }

    /// Returns true if the streams skip zeros.
    pub fn skips_zeros(&self) -> bool {
        self.skips.is_some()
    }

    /// Number of engines with at least one channel.
    pub fn active(&self) -> usize {
        self.outputs.div_ceil(self.lanes).min(self.engines)
    }

    /// Number of passes of an engine over the output channels of a group; the first engine has the most.
    pub(crate) fn passes(&self, engine: usize) -> usize {
        self.outputs.saturating_sub(engine * self.lanes).div_ceil(self.engines * self.lanes)
    }

    /// Size in bytes of the coefficients that an engine holds at a time.
    pub fn plane_bytes(&self) -> u64 {
        (2 * self.lanes * self.taps) as u64
    }

    /// Width of a palette index; `None` without a palette.
    pub fn palette_bits(&self) -> Option<u32> {
        (self.palette_bytes > 0).then_some(self.bits as u32)
    }

    /// Size of each engine's stream in bytes; an upper bound if zeros are skipped.
    pub fn stream_bytes(&self) -> u64 {
        self.table_bytes + self.palette_bytes + self.group_bytes() * self.groups as u64
    }

    /// Size in bytes of one group in a stream, without the palette.
    fn group_bytes(&self) -> u64 {
        let mut pass = (self.lanes * self.taps * self.bits).div_ceil(8);
        if self.bias {
            pass += self.lanes * ELEMENT_BYTES as usize;
        }
        if let Some([kernel, stride]) = self.skips {
            let inputs = self.taps / (kernel[0] * kernel[1]).max(1);
            pass +=
                zero_skip::COUNT_BYTES + inputs * self.mask_bits(zero_skip::order(kernel, stride).len()).div_ceil(8);
        }
        (pass * self.passes(0)).next_multiple_of(ALIGN_BYTES as usize) as u64
    }

    /// Number of mask bits of one input channel.
    fn mask_bits(&self, places: usize) -> usize {
        places * self.mask_bits
    }

    /// Size of all streams in bytes; an upper bound if zeros are skipped.
    pub fn total_bytes(&self) -> u64 {
        self.stream_bytes() * self.active() as u64
    }

    /// All streams, concatenated, and the size of each in bytes.
    pub fn streams(&self, weights: &Weights, bias: Option<&[f32]>, table: Option<&Table>) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = vec![0; self.total_bytes() as usize];
        let sizes = self.put_streams(weights, bias, table, &mut bytes);
        bytes.truncate(sizes.iter().sum::<u64>() as usize);
        (bytes, sizes)
    }

    /// As [`Packing::streams`], to the start of `bytes`, which are [`Packing::total_bytes`] zeros.
    pub fn put_streams(
        &self,
        weights: &Weights,
        bias: Option<&[f32]>,
        table: Option<&Table>,
        bytes: &mut [u8],
    ) -> Vec<u64> {
        let palette = Lookup::of(&weights.form);
        let mut head = table.map_or(vec![], Table::stream);
        if let Some(palette) = &palette {
            head.extend(&palette.bytes);
        }
        head.resize((self.table_bytes + self.palette_bytes) as usize, 0);
        let parallel = bytes.len() >= PARALLEL_BYTES;
        let streams = Streams { packing: self, coefficients: &weights.values, bias, palette, head };
        if let Some([kernel, stride]) = self.skips {
            let order = zero_skip::order(kernel, stride);
            let of = |engine| streams.without_zeros(engine, &order);
            let stored: Vec<Vec<u8>> = match parallel {
                true => (0..self.active()).into_par_iter().map(of).collect(),
                false => (0..self.active()).map(of).collect(),
            };
            let mut rest = bytes;
            stored.iter().for_each(|stream| next(&mut rest, stream.len()).copy_from_slice(stream));
            return stored.iter().map(|stream| stream.len() as u64).collect();
        }
        let size = (self.stream_bytes() as usize).max(1);
        let put = |(engine, to): (usize, &mut [u8])| streams.put(engine, to);
        match parallel {
            true => bytes.par_chunks_exact_mut(size).enumerate().for_each(put),
            false => bytes.chunks_exact_mut(size).enumerate().for_each(put),
        }
        vec![size as u64; self.active()]
    }

    /// Writes a pass in stream order: channels of one tap are adjacent. `bytes` gives the encoding of a coefficient.
    fn put_side_by_side<const N: usize>(&self, to: &mut [u8], bytes: impl Fn(usize) -> [u8; N]) {
        for (tap, set) in to.chunks_exact_mut(N * self.lanes).enumerate() {
            for (lane, slot) in set.as_chunks_mut::<N>().0.iter_mut().enumerate() {
                *slot = bytes(lane * self.taps + tap);
            }
        }
    }
}

/// Contents of the streams of a layer.
struct Streams<'a> {
    packing: &'a Packing,
    coefficients: &'a [f16],
    bias: Option<&'a [f32]>,
    palette: Option<Lookup>,
    /// Start of every stream: the table and the palette.
    head: Vec<u8>,
}

impl Streams<'_> {
    /// Passes of an engine over a group: the first output channel of each, among those of all groups.
    fn passes(&self, engine: usize, group: usize) -> impl Iterator<Item = usize> {
        let Packing { engines, lanes, outputs, .. } = *self.packing;
        (0..self.packing.passes(engine)).map(move |pass| group * outputs + (pass * engines + engine) * lanes)
    }

    /// The biases of a pass in the order of its channels.
    fn biases(&self, first: usize) -> impl Iterator<Item = [u8; 2]> {
        let of_pass = self.bias.map_or(&[][..], |bias| &bias[first..first + self.packing.lanes]);
        of_pass.iter().map(|&x| f16::from_f32(x).to_le_bytes())
    }

    /// Writes the stream of an engine; `to` is zero.
    fn put(&self, engine: usize, to: &mut [u8]) {
        let packing = self.packing;
        let (head, groups) = to.split_at_mut(self.head.len());
        head.copy_from_slice(&self.head);
        for (g, mut to) in groups.chunks_exact_mut(packing.group_bytes() as usize).enumerate() {
            for first in self.passes(engine, g) {
                for bias in self.biases(first) {
                    next(&mut to, bias.len()).copy_from_slice(&bias);
                }
                let halves = &self.coefficients[first * packing.taps..][..packing.lanes * packing.taps];
                match &self.palette {
                    None if packing.bits == INT8_BITS => {
                        // A negative number is its two's complement.
                        let to = next(&mut to, halves.len());
                        packing.put_side_by_side(to, |i| (halves[i].to_f32() as i8).to_le_bytes());
                    }
                    None => packing.put_side_by_side(next(&mut to, 2 * halves.len()), |i| halves[i].to_le_bytes()),
                    Some(palette) => {
                        let indices: Vec<u8> = halves.iter().map(|&x| palette.index(x)).collect();
                        let mut ordered = vec![0; indices.len()];
                        packing.put_side_by_side(&mut ordered, |i| [indices[i]]);
                        let packed = pack(&ordered, packing.bits);
                        next(&mut to, packed.len()).copy_from_slice(&packed);
                    }
                }
            }
        }
    }

    /// The stream of an engine, without zeros.
    fn without_zeros(&self, engine: usize, order: &[Option<usize>]) -> Vec<u8> {
        let mut bytes = self.head.clone();
        for g in 0..self.packing.groups {
            for first in self.passes(engine, g) {
                bytes.extend(self.biases(first).flatten());
                self.put_pass_without_zeros(&mut bytes, first, order);
            }
            bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES as usize), 0);
        }
        bytes
    }

    /// Writes one pass from output channel `first` on: the count, then masks of eight bits with their values.
    fn put_pass_without_zeros(&self, bytes: &mut Vec<u8>, first: usize, order: &[Option<usize>]) {
        let Packing { lanes, taps, .. } = *self.packing;
        let count_at = bytes.len();
        bytes.extend([0; zero_skip::COUNT_BYTES]);
        let elements = order.iter().flatten().count();
        let bits = self.packing.mask_bits;
        // Bits of a byte that belong to one position, whatever the number of lanes.
        let run = 1 << bits.trailing_zeros().min(3);
        for input in 0..taps / elements {
            for first_bit in (0..self.packing.mask_bits(order.len())).step_by(8) {
                // The mask, followed by the non-zero values.
                let mut piece = [0; 1 + 2 * 8];
                let mut length = 1;
                // Eight bits cover one position of the kernel, or several.
                for bit in (0..8).step_by(run) {
                    let Some(&Some(tap)) = order.get((first_bit + bit) / bits) else { continue };
                    let held = ((first_bit + bit) % bits..lanes).take(run);
                    let values = held.map(|lane| self.coefficients[(first + lane) * taps + input * elements + tap]);
                    for (i, value) in values.enumerate() {
                        // Branch-free: a zero is overwritten by the next value.
                        let stays = value.to_bits() << 1 != 0;
                        piece[0] |= u8::from(stays) << (bit + i);
                        piece[length..length + 2].copy_from_slice(&value.to_le_bytes());
                        length += 2 * usize::from(stays);
                    }
                }
                bytes.extend_from_slice(&piece[..length]);
            }
        }
        let count = bytes.len() - count_at - zero_skip::COUNT_BYTES;
        for (i, byte) in bytes[count_at..][..zero_skip::COUNT_BYTES].iter_mut().enumerate() {
            *byte = (count >> (8 * i)) as u8;
        }
    }
}

/// Takes the first bytes of a slice.
fn next<'a>(to: &mut &'a mut [u8], bytes: usize) -> &'a mut [u8] {
    let (now, later) = std::mem::take(to).split_at_mut(bytes);
    *to = later;
    now
}

/// Map from values to palette indices.
struct Lookup {
    /// The palette as it is stored in a stream.
    bytes: Vec<u8>,
    /// Index by the bits of a value.
    indices: Vec<u8>,
}

impl Lookup {
    fn of(form: &StreamForm) -> Option<Lookup> {
        let StreamForm::Palette { entries, bits } = form else { return None };
        let mut bytes: Vec<u8> = entries.iter().flat_map(|x| x.to_le_bytes()).collect();
        bytes.resize((ELEMENT_BYTES << bits) as usize, 0);
        let mut indices = vec![0; 1 << 16];
        // An index has at most 8 bits.
        entries.iter().enumerate().for_each(|(i, x)| indices[usize::from(x.to_bits())] = i as u8);
        Some(Lookup { bytes, indices })
    }

    fn index(&self, value: f16) -> u8 {
        self.indices[usize::from(value.to_bits())]
    }
}
