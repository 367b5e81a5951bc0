//! Coefficients out of the engines' streams.
//!
//! Engine `e` of `E` computes output channels in passes of `E * lanes`: in pass `p` it holds channels
//! `p * E * lanes + e * lanes + lane`. Its stream holds the activation table where the task has one, the palette where
//! it has one, then the passes of every group. A pass is a row of `lanes` factors and one of `lanes` biases where the
//! task has them, then one row of `lanes` coefficients for each (input channel, kernel plane, kernel row, kernel column).
//! The form that skips zeros stores masks and values instead of the rows. Each group starts on a 64-byte boundary. See
//! `docs/evidence.md`, keys `h13-kernel`, `h13-zero-skip` and `book-streams`.

mod parts;
mod zero_skip;

pub(crate) use parts::StreamPart;

use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{format, kernel, neural, nonlinear};
use anemone_facts::kernel::{ALIGN_BYTES, extra, zero_skip as skip};
use anemone_facts::lut::STREAM_BYTES;
use anemone_facts::weights::PALETTE_WIDTHS;
use anemone_kernels::conv::Coefficients;
use anemone_kernels::cost;
use anemone_kernels::filter::{CoefficientRow, Values};
use anemone_kernels::num;
use anemone_kernels::workers::chunks;
use half::f16;
use half::slice::HalfBitsSliceExt;

/// How the passes of a task's streams are laid out.
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
    /// Address and size of every engine's stream, in bytes; `None` where it is off.
    streams: Vec<Option<[u64; 2]>>,
}

/// How one pass stores its coefficients.
enum Store {
    Fp16,
    Int8,
    Uint8,
    /// Indices of so many bits into these values.
    Palette(u32, Vec<f16>),
    /// Masks and values, kernel elements in this order.
    ZeroSkipping(Vec<Option<usize>>),
}

impl Form {
    /// Output channels of one pass over all engines.
    fn per_pass(&self) -> usize {
        self.engines * self.lanes
    }

    /// Passes in which an engine has a channel.
    fn passes(&self, engine: usize) -> usize {
        self.outputs.saturating_sub(engine * self.lanes).div_ceil(self.per_pass())
    }

    /// First output channel of a pass.
    fn first(&self, engine: usize, pass: usize) -> usize {
        pass * self.per_pass() + engine * self.lanes
    }

    /// Bytes before the coefficients of a pass.
    fn lead_bytes(&self) -> u64 {
        self.scale_bytes + self.bias_bytes
    }

    /// A pass from what leads it and its coefficients.
    fn pass<'a>(&self, first: usize, lead: &'a [u8], body: &'a [u8]) -> Pass<'a> {
        let (scales, biases) = lead.split_at(self.scale_bytes as usize);
        Pass { first, scales, biases, body }
    }

    /// Bytes of one pass; the form that skips zeros states its own.
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

    /// Bytes of the masks of one pass in the form that skips zeros.
    fn mask_bytes(&self) -> u64 {
        let Store::ZeroSkipping(order) = &self.store else { return 0 };
        let inputs = self.taps / order.iter().flatten().count().max(1);
        (inputs * (order.len() * self.mask_bits()).div_ceil(8)) as u64
    }

    /// Mask bits of one kernel element.
    fn mask_bits(&self) -> usize {
        self.lanes.max(skip::MIN_MASK_BITS)
    }

    /// Bits of an index into the values that coefficients can have, and these, where they are few.
    fn palette(&self) -> Option<(u32, Vec<f16>)> {
        let of_bytes = |value: fn(u8) -> f16| Some((8, (0..=u8::MAX).map(value).collect()));
        match &self.store {
            Store::Int8 => of_bytes(|byte| num::round(f32::from(byte as i8))),
            Store::Uint8 => of_bytes(|byte| num::round(f32::from(byte))),
            Store::Palette(bits, palette) => Some((*bits, palette.clone())),
            Store::Fp16 | Store::ZeroSkipping(_) => None,
        }
    }

    /// Puts what a pass holds, in order, into its place in `[channel][tap]`.
    fn place<T: Copy>(&self, first: usize, pass: impl Iterator<Item = T>, to: &mut [T]) {
        for (i, x) in pass.take(self.taps * self.lanes).enumerate() {
            to[(first + i % self.lanes) * self.taps + i / self.lanes] = x;
        }
    }

    /// As [`Form::place`], of fp16 numbers: whole channels, or rows of lanes.
    fn place_halves(&self, first: usize, body: &[u8], to: &mut [f16]) {
        let Ok(halves) = bytemuck::try_cast_slice::<u8, u16>(body) else {
            return self.place(first, halfwords(body), to);
        };
        let halves: &[f16] = halves.reinterpret_cast();
        let to = &mut to[first * self.taps..];
        if self.lanes == 1 {
            let count = self.taps.min(halves.len());
            return to[..count].copy_from_slice(&halves[..count]);
        }
        for (tap, row) in halves.chunks_exact(self.lanes).take(self.taps).enumerate() {
            to[tap..].iter_mut().step_by(self.taps).zip(row).for_each(|(to, x)| *to = *x);
        }
    }
}

/// Indices of so many bits, the first in the lowest bits of a little-endian number.
fn indices(bytes: &[u8], bits: u32) -> impl Iterator<Item = u8> {
    let bits = bits as usize;
    (0..bytes.len() * 8 / bits.max(1)).map(move |i| {
        let (byte, shift) = (i * bits / 8, i * bits % 8);
        let next = bytes.get(byte + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([bytes[byte], next]) >> shift & ((1 << bits) - 1)) as u8
    })
}

impl Machine<'_> {
    /// Engines that take part, and output channels each computes at a time.
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
        on.then(|| [CoeffBase, CoeffSize].map(|field| self.task.bytes_at(self.layout, field, i)))
    }

    /// Part of the stream of one engine, bounds checked against its stated size.
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

    /// Every field that coefficients and their form depend on: all that this file reads.
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

    /// Every extra stream that is on has a use in this task.
    pub(crate) fn check_extra_streams(&self) -> Result<(), FaultKind> {
        let coefficients = self.get(KernelMode) == kernel::REAL && self.get(NeOpMode) == neural::MAC;
        if !coefficients && self.get(PostScaleMode) == 1 {
            return Err(self.inconsistent(PostScaleMode, "factors of channels come with coefficients"));
        }
        let uses = [
            (extra::BIAS, coefficients && self.get(BiasMode) == 1, BiasMode),
            (extra::POST_SCALE, coefficients && self.get(PostScaleMode) == 1, PostScaleMode),
            (extra::PALETTE, coefficients && self.get(PalettizedEn) == 1, PalettizedEn),
            (extra::TABLE, self.get(NonlinearMode) == nonlinear::LUT, NonlinearMode),
        ];
        for (i, used, field) in uses {
            if self.extra_is_on(i) && !used {
                return Err(self.inconsistent(field, "an extra stream is on that the task has no use for"));
            }
        }
        Ok(())
    }

    /// An extra coefficient stream, bounds checked against its stated size.
    fn extra_stream(&self, i: u32, from: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let (base, size) =
            (self.task.bytes_at(self.layout, ExtraBase, i), self.task.bytes_at(self.layout, ExtraSize, i));
        within(from, bytes, size, || format!("extra stream {i}"))?;
        self.kernel_bytes(base + from, bytes)
    }

    /// The activation table's record: it leads every stream, or has a stream of its own.
    pub(crate) fn table_record(&self, bytes: u64) -> Result<&[u8], FaultKind> {
        match self.extra_is_on(extra::TABLE) {
            true => self.extra_stream(extra::TABLE, 0, bytes),
            false => self.stream(0, 0, bytes),
        }
    }

    /// Form of a task's streams, and where they lie.
    pub(crate) fn form(&self, outputs: usize, taps: usize) -> Result<Form, FaultKind> {
        let (engines, held) = self.engines_and_lanes()?;
        // A single pass that is partly filled is as wide as its channels (`h13-kernel`).
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
                let axes = [[Kh, Kw], [Sy, Sx]].map(|pair| pair.map(|f| self.size(f).max(1)));
                Store::ZeroSkipping(skip::order(axes[0], axes[1]))
            }
            (_, _, true) => {
                return Err(self.inconsistent(SparseFmt, "zeros are skipped among fp16 coefficients only"));
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
        Ok(Form { engines, lanes, outputs, taps, scale_bytes, bias_bytes, head_bytes, store, streams })
    }

    /// Coefficients of group `g`: `out` channels of `taps` coefficients each.
    pub(crate) fn coefficients(&self, g: usize, out: usize, taps: usize) -> Result<Coefficients, FaultKind> {
        self.coefficients_and_scales(g, out, taps).map(|(coefficients, _)| coefficients)
    }

    /// As [`Machine::coefficients`], and what each channel's sum is multiplied by before its bias.
    pub(crate) fn coefficients_and_scales(
        &self,
        g: usize,
        out: usize,
        taps: usize,
    ) -> Result<(Coefficients, Option<Vec<f32>>), FaultKind> {
        self.coefficients_of(&self.form(out, taps)?, g)
    }

    /// Coefficients of group `g` where they lie, by output channel; `None` unless they are fp16 numbers without anything between them.
    pub(crate) fn coefficient_rows(&self, form: &Form, g: usize) -> Result<Option<Vec<CoefficientRow<'_>>>, FaultKind> {
        let plain = matches!(form.store, Store::Fp16) && form.lead_bytes() == 0 && self.get(BiasMode) != 1;
        if !plain {
            return Ok(None);
        }
        let mut passes = Vec::new();
        for engine in (0..form.engines).filter(|&e| form.passes(e) > 0) {
            self.dense_passes(form, engine, g, &mut passes)?;
        }
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
        Ok(rows.iter().all(whole).then_some(rows))
    }

    /// Rows of coefficients where they lie, by group; `None` unless they are plain fp16 numbers. Those of many small groups, as attention
    /// in windows has, are found side by side.
    pub(crate) fn rows_of_groups(
        &self,
        form: &Form,
        groups: usize,
        cout: usize,
    ) -> Result<Option<Vec<Vec<CoefficientRow<'_>>>>, FaultKind> {
        // To find a row takes as long as to gather some elements.
        let nanos = cost::one_by_one(16 * groups * cout);
        let at_once = groups.div_ceil(4 * self.workers.threads_for(nanos));
        let mut all: Vec<Result<Option<Vec<CoefficientRow>>, FaultKind>> = (0..groups).map(|_| Ok(None)).collect();
        chunks(&mut all, at_once, nanos, |i, rows| {
            rows.iter_mut().enumerate().for_each(|(j, rows)| *rows = self.coefficient_rows(form, i * at_once + j));
        });
        all.into_iter().collect()
    }

    /// As [`Machine::coefficients_and_scales`], from streams of a form.
    pub(crate) fn coefficients_of(&self, form: &Form, g: usize) -> Result<(Coefficients, Option<Vec<f32>>), FaultKind> {
        let (out, taps) = (form.outputs, form.taps);
        // All streams are found before anything is allocated: what they hold bounds what is needed.
        let mut passes = Vec::new();
        for engine in (0..form.engines).filter(|&e| form.passes(e) > 0) {
            match form.store {
                Store::ZeroSkipping(_) => self.zero_skipping_passes(form, engine, g, &mut passes)?,
                _ => self.dense_passes(form, engine, g, &mut passes)?,
            }
        }
        let mut biases = self.of_channels(BiasMode, extra::BIAS, g, out)?;
        let mut scales = self.of_channels(PostScaleMode, extra::POST_SCALE, g, out)?;
        for pass in &passes {
            for (values, row) in [(&mut biases, pass.biases), (&mut scales, pass.scales)] {
                let values = values.iter_mut().flatten().skip(pass.first);
                values.zip(halfwords(row)).for_each(|(v, x)| *v = x.to_f32());
            }
        }
        let weights = if let Some((bits, palette)) = form.palette() {
            let mut all = vec![0; out * taps];
            passes.iter().for_each(|pass| form.place(pass.first, indices(pass.body, bits), &mut all));
            Values::Indices(all, palette)
        } else {
            let mut weights = vec![f16::ZERO; out * taps];
            for pass in &passes {
                match &form.store {
                    Store::ZeroSkipping(order) => self.scatter(form, order, pass, &mut weights)?,
                    _ => form.place_halves(pass.first, pass.body, &mut weights),
                }
            }
            Values::Halves(weights)
        };
        Ok((Coefficients { weights, biases }, scales))
    }

    /// A number for each channel of a group, where the task has them: from a stream of their own, or to be filled in.
    fn of_channels(&self, mode: Field, stream: u32, g: usize, out: usize) -> Result<Option<Vec<f32>>, FaultKind> {
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
        // A group takes as much of every stream as of the first engine's, which has the most passes.
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

/// The bytes of one pass of one engine.
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
