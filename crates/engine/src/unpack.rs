//! Unpacking of coefficients from the engines' streams.
//!
//! Engine `e` of `E` computes output channels in passes of `E * lanes`: in pass `p` it computes channels
//! `p * E * lanes + e * lanes + lane`. Its stream contains the activation table if the task has one, the palette if it has one,
//! and then the passes of every group. A pass is a row of `lanes` scale factors and one of `lanes` biases, if the task has
//! them, then one row of `lanes` coefficients for each (input channel, kernel plane, kernel row, kernel column). The
//! zero-skipping form stores masks and values in place of the rows. Each group starts on a 64-byte boundary. See
//! `docs/evidence.md`, keys `h13-kernel`, `h13-zero-skip` and `book-streams`.

mod parts;
mod zero_skip;

pub(crate) use parts::StreamPart;

use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_conv::Coefficients;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{format, kernel, neural, nonlinear};
use anemone_facts::kernel::{ALIGN_BYTES, extra, zero_skip as skip};
use anemone_facts::lut::STREAM_BYTES;
use anemone_facts::weights::PALETTE_WIDTHS;
use anemone_kernels::arrays::MapEach;
use anemone_kernels::cost;
use anemone_kernels::filter::{CoefficientRow, Values};
use anemone_kernels::num;
use anemone_kernels::workers::chunks;
use half::f16;
use half::slice::HalfBitsSliceExt;

/// Layout of the passes of a task's streams.
pub(crate) struct Form {
    engines: usize,
    lanes: usize,
    outputs: usize,
    taps: usize,
    /// Bytes of the scale factors at the start of a pass.
    scale_bytes: u64,
    /// Bytes of the biases, which follow the scale factors.
    bias_bytes: u64,
    /// Bytes before the first group.
    head_bytes: u64,
    store: Store,
    /// Mask bits of one kernel element in the zero-skipping form.
    mask_bits: usize,
    /// Address and size of every engine's stream, in bytes; `None` if it is off.
    streams: Vec<Option<[u64; 2]>>,
}

/// A number for each channel of a group, if the task has them.
type ByChannel = Option<Vec<f32>>;

/// Coefficients of a group as one strided row for each output channel, and the biases of the channels.
pub(crate) type RowsAndBiases<'a> = (Vec<CoefficientRow<'a>>, Option<Vec<f32>>);

/// Coefficient format of a pass.
enum Store {
    Fp16,
    Int8,
    Uint8,
    /// Bits of an index, and the palette it selects from.
    Palette(u32, Vec<f16>),
    /// Masks and values; the kernel elements in the order of the mask bits.
    ZeroSkipping(Vec<Option<usize>>),
}

impl Form {
    /// Output channels of one pass over all engines.
    fn per_pass(&self) -> usize {
        self.engines * self.lanes
    }

    /// Number of passes in which an engine computes a channel.
    fn passes(&self, engine: usize) -> usize {
        self.outputs.saturating_sub(engine * self.lanes).div_ceil(self.per_pass())
    }

    /// First output channel of a pass.
    fn first(&self, engine: usize, pass: usize) -> usize {
        pass * self.per_pass() + engine * self.lanes
    }

    /// Bytes of scale factors and biases before the coefficients of a pass.
    fn lead_bytes(&self) -> u64 {
        self.scale_bytes + self.bias_bytes
    }

    /// A pass from its scale factors and biases (`lead`) and its coefficients.
    fn pass<'a>(&self, first: usize, lead: &'a [u8], body: &'a [u8]) -> Pass<'a> {
        let (scales, biases) = lead.split_at(self.scale_bytes as usize);
        Pass { first, scales, biases, body }
    }

    /// Bytes of one pass; without the masks and values of the zero-skipping form.
    fn pass_bytes(&self) -> u64 {
        let coefficients = (self.taps * self.lanes) as u64;
        self.lead_bytes()
            + match &self.store {
                Store::Fp16 => 2 * coefficients,
                Store::Int8 | Store::Uint8 => coefficients,
                Store::Palette(bits, _) => (coefficients * u64::from(*bits)).div_ceil(8),
                Store::ZeroSkipping(_) => 0,
            }
    }

    /// Bytes of the masks of one zero-skipping pass.
    fn mask_bytes(&self) -> u64 {
        let Store::ZeroSkipping(order) = &self.store else { return 0 };
        let inputs = self.taps / order.iter().flatten().count().max(1);
        (inputs * (order.len() * self.mask_bits).div_ceil(8)) as u64
    }

    /// Index width in bits, and the values that coefficients can have, for formats with few values.
    fn palette(&self) -> Option<(u32, Vec<f16>)> {
        let of_bytes = |value: fn(u8) -> f16| Some((8, (0..=u8::MAX).map(value).collect()));
        match &self.store {
            Store::Int8 => of_bytes(|byte| num::round(f32::from(byte as i8))),
            Store::Uint8 => of_bytes(|byte| num::round(f32::from(byte))),
            Store::Palette(bits, palette) => Some((*bits, palette.clone())),
            Store::Fp16 | Store::ZeroSkipping(_) => None,
        }
    }

    /// Scatters the elements of a pass to `[channel][tap]`.
    fn place<T: Copy>(&self, first: usize, pass: impl Iterator<Item = T>, to: &mut [T]) {
        for (i, x) in pass.take(self.taps * self.lanes).enumerate() {
            to[(first + i % self.lanes) * self.taps + i / self.lanes] = x;
        }
    }

    /// [`Form::place`] for fp16 coefficients to the channels of one pass, by whole channels or rows of lanes.
    fn place_halves(&self, body: &[u8], to: &mut [f16]) {
        let Ok(halves) = bytemuck::try_cast_slice::<u8, u16>(body) else {
            return self.place(0, halfwords(body), to);
        };
        let halves: &[f16] = halves.reinterpret_cast();
        if self.lanes == 1 {
            let count = self.taps.min(halves.len());
            return to[..count].copy_from_slice(&halves[..count]);
        }
        for (tap, row) in halves.chunks_exact(self.lanes).take(self.taps).enumerate() {
            to[tap..].iter_mut().step_by(self.taps).zip(row).for_each(|(to, x)| *to = *x);
        }
    }
}

/// Indices of `bits` bits, little-endian, the first in the lowest bits.
fn indices(bytes: &[u8], bits: u32) -> impl Iterator<Item = u8> {
    let bits = bits as usize;
    (0..bytes.len() * 8 / bits.max(1)).map(move |i| {
        let (byte, shift) = (i * bits / 8, i * bits % 8);
        let next = bytes.get(byte + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([bytes[byte], next]) >> shift & ((1 << bits) - 1)) as u8
    })
}

impl Machine<'_> {
    /// Number of active engines, and output channels that each computes at a time.
    fn engines_and_lanes(&self) -> Result<(usize, usize), FaultKind> {
        let engines = 1usize << self.get(ActiveNe);
        let streams = self.layout.row(CoeffEn).map_or(0, |row| row.count as usize);
        if engines > streams {
            return Err(self.inconsistent(ActiveNe, "more engines than coefficient streams"));
        }
        Ok((engines, 1 << self.get(OcgSize)))
    }

    /// Address and size of an engine's stream, in bytes; `None` if it is off.
    fn stream_place(&self, engine: usize) -> Option<[u64; 2]> {
        let i = engine as u32;
        let on = self.task.get_at(self.layout, CoeffEn, i) == Some(1);
        on.then(|| [CoeffBase, CoeffSize].map_each(|field| self.task.bytes_at(self.layout, field, i)))
    }

    /// Bytes of one engine's stream, checked against its stated size.
    pub(crate) fn stream(&self, engine: usize, from: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        self.stream_at(self.stream_place(engine), engine, from, bytes)
    }

    fn stream_at(&self, place: Option<[u64; 2]>, engine: usize, from: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let Some([base, size]) = place else {
            return Err(FaultKind::Inconsistent {
                field: CoeffEn,
                value: 0,
                reason: format!("engine {engine} computes channels but its stream is off"),
            });
        };
        within(from, bytes, size, || format!("the stream of engine {engine}"))?;
        self.kernel_bytes(base + from, bytes)
    }

    /// Values of every field that this file reads: coefficients and their form depend on nothing else.
    pub(crate) fn stream_words(&self) -> Vec<u32> {
        let fields = [
            KBase0,
            Kbe0,
            ActiveNe,
            OcgSize,
            KernelDmaMaster,
            KernelDmaSparse,
            KernelMode,
            NeOpMode,
            KernelFmt,
            PalettizedEn,
            PalettizedBits,
            SparseFmt,
            BiasMode,
            PostScaleMode,
            NonlinearMode,
            GroupKernelReuse,
            Kd,
            Kh,
            Kw,
            Sy,
            Sx,
        ];
        let arrays = [CoeffEn, CoeffBase, CoeffSize, ExtraEn, ExtraBase, ExtraSize];
        let mut words: Vec<u32> = fields.iter().map(|&field| self.get(field)).collect();
        for field in arrays {
            let count = self.layout.row(field).map_or(0, |row| u32::from(row.count));
            words.extend((0..count).map(|i| self.task.get_at(self.layout, field, i).unwrap_or(0)));
        }
        words
    }

    /// Returns true if an extra coefficient stream is on.
    fn extra_is_on(&self, i: u32) -> bool {
        self.task.get_at(self.layout, ExtraEn, i) == Some(1)
    }

    /// Checks that the task uses every extra stream that is on.
    pub(crate) fn check_extra_streams(&self) -> Result<(), FaultKind> {
        let coefficients = self.get(KernelMode) == kernel::REAL && self.get(NeOpMode) == neural::MAC;
        if !coefficients && self.get(PostScaleMode) == 1 {
            return Err(self.inconsistent(PostScaleMode, "channel scales need coefficients"));
        }
        let uses = [
            (extra::BIAS, coefficients && self.get(BiasMode) == 1, BiasMode),
            (extra::POST_SCALE, coefficients && self.get(PostScaleMode) == 1, PostScaleMode),
            (extra::PALETTE, coefficients && self.get(PalettizedEn) == 1, PalettizedEn),
            (extra::TABLE, self.get(NonlinearMode) == nonlinear::LUT, NonlinearMode),
        ];
        for (i, used, field) in uses {
            if self.extra_is_on(i) && !used {
                return Err(self.inconsistent(field, "a stream is enabled that the task does not read"));
            }
        }
        Ok(())
    }

    /// Bytes of an extra coefficient stream, checked against its stated size.
    fn extra_stream(&self, i: u32, from: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let (base, size) =
            (self.task.bytes_at(self.layout, ExtraBase, i), self.task.bytes_at(self.layout, ExtraSize, i));
        within(from, bytes, size, || format!("extra stream {i}"))?;
        self.kernel_bytes(base + from, bytes)
    }

    /// Record of the activation table, at the start of every stream or in a stream of its own.
    pub(crate) fn table_record(&self, bytes: u64) -> Result<&[u8], FaultKind> {
        match self.extra_is_on(extra::TABLE) {
            true => self.extra_stream(extra::TABLE, 0, bytes),
            false => self.stream(0, 0, bytes),
        }
    }

    /// Form and locations of a task's streams.
    pub(crate) fn form(&self, outputs: usize, taps: usize) -> Result<Form, FaultKind> {
        let (engines, held) = self.engines_and_lanes()?;
        // A single, partly filled pass is as wide as its channels (`h13-kernel`).
        let partly = outputs < engines * held && outputs.is_multiple_of(engines) && outputs > 0;
        let lanes = if partly { outputs / engines } else { held };
        self.require(KernelDmaMaster, 1, "coefficients are streamed")?;
        self.require(KernelDmaSparse, self.get(SparseFmt), "the kernel DMA and the engines agree on skipped zeros")?;
        if lanes > 1 && !outputs.is_multiple_of(engines * lanes) {
            return Err(
                self.inconsistent(OcgSize, "output channels fill whole passes when engines hold several at a time")
            );
        }
        let with_bias = self.get(BiasMode) == 1;
        let inline_bias = with_bias && !self.extra_is_on(extra::BIAS);
        let inline_scale = self.get(PostScaleMode) == 1 && !self.extra_is_on(extra::POST_SCALE);
        let table = self.get(NonlinearMode) == nonlinear::LUT && !self.extra_is_on(extra::TABLE);
        let mut head_bytes = if table { STREAM_BYTES as u64 } else { 0 };
        let store = match (self.get(KernelFmt), self.get(PalettizedEn) == 1, self.get(SparseFmt) == 1) {
            (format::FP16, false, true) => {
                let axes = [[Kh, Kw], [Sy, Sx]].map_each(|pair| pair.map_each(|f| self.size(f).max(1)));
                Store::ZeroSkipping(skip::order(axes[0], axes[1]))
            }
            (_, _, true) => {
                return Err(self.inconsistent(SparseFmt, "only fp16 coefficients can be stored without their zeros"));
            }
            (format::FP16, false, false) => Store::Fp16,
            (format::INT8, false, false) => Store::Int8,
            (format::UINT8, false, false) => Store::Uint8,
            (format::FP16, true, false) => {
                let bits = self.get(PalettizedBits);
                if !PALETTE_WIDTHS.iter().any(|width| width.bits == bits) {
                    return Err(self.inconsistent(PalettizedBits, "no palette has indices of this width"));
                }
                let bytes = 2u64 << bits;
                let palette = if self.extra_is_on(extra::PALETTE) {
                    self.extra_stream(extra::PALETTE, 0, bytes)?
                } else {
                    self.stream(0, head_bytes, bytes)?
                };
                if !self.extra_is_on(extra::PALETTE) {
                    head_bytes += bytes.next_multiple_of(ALIGN_BYTES);
                }
                Store::Palette(bits, halfwords(palette).collect())
            }
            (value, true, false) => {
                return Err(FaultKind::NotHonoured {
                    field: KernelFmt,
                    value,
                    reason: "only palettes of fp16 values are executed",
                });
            }
            (value, false, false) => {
                return Err(FaultKind::NotHonoured {
                    field: KernelFmt,
                    value,
                    reason: "coefficients are uint8, int8 or fp16",
                });
            }
        };
        let row_bytes = |inline| if inline { 2 * lanes as u64 } else { 0 };
        let (scale_bytes, bias_bytes) = (row_bytes(inline_scale), row_bytes(inline_bias));
        let streams = (0..engines).map(|engine| self.stream_place(engine)).collect();
        let sides = [Hout, Wout].map_each(|field| self.size(field));
        let mask_bits = lanes.max(skip::least_mask_bits(sides, self.get(NeTranspose) == 1));
        Ok(Form { engines, lanes, outputs, taps, scale_bytes, bias_bytes, head_bytes, store, mask_bits, streams })
    }

    /// Coefficients of group `g`: `out` channels of `taps` coefficients each.
    pub(crate) fn coefficients(&self, g: usize, out: usize, taps: usize) -> Result<Coefficients, FaultKind> {
        self.coefficients_and_scales(g, out, taps).map(|(coefficients, _)| coefficients)
    }

    /// [`Machine::coefficients`] with the scale factors, which are applied to each channel's sum before its bias.
    pub(crate) fn coefficients_and_scales(
        &self,
        g: usize,
        out: usize,
        taps: usize,
    ) -> Result<(Coefficients, Option<Vec<f32>>), FaultKind> {
        self.coefficients_of(&self.form(out, taps)?, g)
    }

    /// Strided rows of coefficients of group `g`, one for each output channel, and their biases; `None` unless they are fp16 without
    /// scale factors.
    pub(crate) fn coefficient_rows(&self, form: &Form, g: usize) -> Result<Option<RowsAndBiases<'_>>, FaultKind> {
        if !matches!(form.store, Store::Fp16) || self.get(PostScaleMode) == 1 {
            return Ok(None);
        }
        let passes = self.passes_of(form, g)?;
        let (biases, _) = self.biases_and_scales(form, g, &passes)?;
        let mut rows = vec![CoefficientRow::default(); form.outputs];
        for pass in &passes {
            let Ok(halves) = bytemuck::try_cast_slice::<u8, u16>(pass.body) else { return Ok(None) };
            let halves: &[f16] = halves.reinterpret_cast();
            for (lane, row) in rows[pass.first..].iter_mut().take(form.lanes).enumerate() {
                let Some(data) = halves.get(lane..) else { return Ok(None) };
                *row = CoefficientRow { data, stride: form.lanes };
            }
        }
        let whole = |row: &CoefficientRow| row.data.len() > form.taps.saturating_sub(1) * row.stride;
        Ok(rows.iter().all(whole).then_some((rows, biases)))
    }

    /// [`Machine::coefficient_rows`] of every group; `None` unless they are uncompressed fp16. Many small groups, as in windowed attention, are
    /// located in parallel.
    pub(crate) fn rows_of_groups(
        &self,
        form: &Form,
        groups: usize,
        cout: usize,
    ) -> Result<Option<Vec<RowsAndBiases<'_>>>, FaultKind> {
        // Locating a row costs as much as gathering some elements.
        let nanos = cost::one_by_one(16 * groups * cout);
        let at_once = groups.div_ceil(4 * self.workers.threads_for(nanos));
        let mut all: Vec<Result<Option<RowsAndBiases>, FaultKind>> = (0..groups).map(|_| Ok(None)).collect();
        chunks(&mut all, at_once, nanos, |i, rows| {
            rows.iter_mut().enumerate().for_each(|(j, rows)| *rows = self.coefficient_rows(form, i * at_once + j));
        });
        all.into_iter().collect()
    }

    /// [`Machine::coefficients_and_scales`] for streams of a given form.
    pub(crate) fn coefficients_of(&self, form: &Form, g: usize) -> Result<(Coefficients, Option<Vec<f32>>), FaultKind> {
        let (out, taps) = (form.outputs, form.taps);
        // All streams are located before anything is allocated, so that their sizes bound the allocation.
        let passes = self.passes_of(form, g)?;
        let (biases, scales) = self.biases_and_scales(form, g, &passes)?;
        let weights = if let Some((bits, palette)) = form.palette() {
            let mut all = vec![0; out * taps];
            passes.iter().for_each(|pass| form.place(pass.first, indices(pass.body, bits), &mut all));
            Values::Indices(all, palette)
        } else {
            let mut weights = vec![f16::ZERO; out * taps];
            match &form.store {
                Store::ZeroSkipping(order) => {
                    passes.iter().try_for_each(|pass| self.scatter(form, order, pass, &mut weights))?;
                }
                _ => {
                    // The channels of a pass are adjacent, and those of two passes disjoint.
                    let mut in_order: Vec<Option<&Pass>> = vec![None; out.div_ceil(form.lanes)];
                    let place = |pass: &Pass| pass.first / form.lanes;
                    passes.iter().for_each(|pass| in_order[place(pass)] = Some(pass));
                    let elements = (form.lanes * taps).max(1);
                    chunks(&mut weights, elements, cost::elementwise(out * taps), |i, to| {
                        in_order[i].iter().for_each(|pass| form.place_halves(pass.body, to));
                    });
                }
            }
            Values::Halves(weights)
        };
        Ok((Coefficients { weights, biases }, scales))
    }

    /// Passes of group `g`, of all engines.
    fn passes_of<'a>(&'a self, form: &Form, g: usize) -> Result<Vec<Pass<'a>>, FaultKind> {
        let mut passes = Vec::new();
        for engine in (0..form.engines).filter(|&e| form.passes(e) > 0) {
            match form.store {
                Store::ZeroSkipping(_) => self.zero_skipping_passes(form, engine, g, &mut passes)?,
                _ => self.dense_passes(form, engine, g, &mut passes)?,
            }
        }
        Ok(passes)
    }

    /// Biases and scale factors of the channels of group `g`, if the task has them: from the passes or from streams of their own.
    fn biases_and_scales(&self, form: &Form, g: usize, passes: &[Pass]) -> Result<(ByChannel, ByChannel), FaultKind> {
        let mut biases = self.of_channels(BiasMode, extra::BIAS, g, form.outputs)?;
        let mut scales = self.of_channels(PostScaleMode, extra::POST_SCALE, g, form.outputs)?;
        for pass in passes {
            for (values, row) in [(&mut biases, pass.biases), (&mut scales, pass.scales)] {
                let values = values.iter_mut().flatten().skip(pass.first);
                for (v, x) in values.zip(halfwords(row)) {
                    *v = x.to_f32();
                }
            }
        }
        Ok((biases, scales))
    }

    /// Scale or bias of each channel of a group, if the task has them: from a stream of their own, or zeros to be overwritten.
    fn of_channels(&self, mode: Field, stream: u32, g: usize, out: usize) -> Result<ByChannel, FaultKind> {
        if self.get(mode) != 1 {
            return Ok(None);
        }
        if !self.extra_is_on(stream) {
            return Ok(Some(vec![0.0; out]));
        }
        let bytes = self.extra_stream(stream, 2 * (g * out) as u64, 2 * out as u64)?;
        Ok(Some(halfwords(bytes).map(|x| x.to_f32()).collect()))
    }

    fn dense_passes<'a>(
        &'a self,
        form: &Form,
        engine: usize,
        g: usize,
        passes: &mut Vec<Pass<'a>>,
    ) -> Result<(), FaultKind> {
        // A group takes as many bytes of every stream as of the first engine's, which has the most passes.
        let group_bytes = (form.pass_bytes() * form.passes(0) as u64).next_multiple_of(ALIGN_BYTES);
        let from = form.head_bytes + group_bytes * g as u64;
        let place = form.streams.get(engine).copied().flatten();
        let bytes = self.stream_at(place, engine, from, form.pass_bytes() * form.passes(engine) as u64)?;
        for (i, bytes) in bytes.chunks_exact((form.pass_bytes() as usize).max(1)).enumerate() {
            let (lead, body) = bytes.split_at(form.lead_bytes() as usize);
            passes.push(form.pass(form.first(engine, i), lead, body));
        }
        Ok(())
    }
}

/// Bytes of one pass of one engine.
struct Pass<'a> {
    /// First output channel.
    first: usize,
    scales: &'a [u8],
    biases: &'a [u8],
    body: &'a [u8],
}

fn within(from: u64, bytes: u64, size: u64, region: impl Fn() -> String) -> Result<(), FaultKind> {
    match from.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(FaultKind::Stray { field: CoeffSize, region: region(), address: from, bytes, limit: size }),
    }
}

fn halfwords(bytes: &[u8]) -> impl Iterator<Item = f16> {
    bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]))
}
