//! Coefficients out of the engines' streams.
//!
//! Engine `e` of `E` computes output channels in passes of `E * lanes`: in pass `p` it holds channels
//! `p * E * lanes + e * lanes + lane`. A pass is one plane of its stream: a row of `lanes` biases where the task has
//! biases, then one row of `lanes` coefficients for each (input channel, kernel row, kernel column). The planes of a
//! group follow each other; each group starts on a 64-byte boundary, the same in all streams. See `docs/evidence.md`, key `h13-kernel`.

use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_facts::Field::*;
use anemone_facts::kernel::ALIGN_BYTES;
use half::f16;

/// Coefficients of one group, `[out][in * kh * kw]`, and biases.
pub(crate) struct Coefficients {
    pub(crate) weights: Vec<f32>,
    pub(crate) biases: Option<Vec<f32>>,
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

    /// The stream of one engine, bounds checked against its stated size.
    pub(crate) fn stream(&self, engine: usize, from: u64, bytes: u64) -> Result<&[u8], FaultKind> {
        let i = engine as u32;
        if self.task.get_at(self.layout, CoeffEn, i).unwrap_or(0) != 1 {
            return Err(FaultKind::Inconsistent {
                field: CoeffEn,
                value: 0,
                reason: format!("engine {engine} computes channels but its stream is off"),
            });
        }
        let (base, size) =
            (self.task.bytes_at(self.layout, CoeffBase, i), self.task.bytes_at(self.layout, CoeffSize, i));
        if from + bytes > size {
            return Err(FaultKind::Stray {
                field: CoeffSize,
                region: format!("the stream of engine {engine}"),
                address: from,
                bytes,
                limit: size,
            });
        }
        self.kernel_bytes(base + from, bytes)
    }

    /// Coefficients of group `g`: `out` channels of `taps` coefficients each.
    pub(crate) fn coefficients(&self, g: usize, out: usize, taps: usize) -> Result<Coefficients, FaultKind> {
        let (engines, lanes) = self.engines_and_lanes()?;
        let with_bias = self.get(BiasMode) == 1;
        self.require(KernelDmaMaster, 1, "coefficients are streamed")?;
        self.require(KernelFmt, 2, "only fp16 coefficients are executed")?;
        let per_pass = engines * lanes;
        if lanes > 1 && !out.is_multiple_of(per_pass) {
            return Err(
                self.inconsistent(OcgSize, "output channels fill whole passes when engines hold several at a time")
            );
        }
        let plane = 2 * ((taps + usize::from(with_bias)) * lanes) as u64;
        // A group takes as much of every stream as of the first engine's, which has the most passes.
        let group_bytes = (plane * out.div_ceil(per_pass) as u64).next_multiple_of(ALIGN_BYTES);
        // All streams are found before anything is allocated: what they hold bounds what is needed.
        let mut streams = Vec::new();
        for e in 0..engines {
            // Passes in which this engine has a channel.
            let passes = (out.saturating_sub(e * lanes)).div_ceil(per_pass) as u64;
            if passes > 0 {
                streams.push((e, self.stream(e, group_bytes * g as u64, plane * passes)?));
            }
        }
        let mut weights = vec![0.0; out * taps];
        let mut biases = vec![0.0; if with_bias { out } else { 0 }];
        for (e, bytes) in streams {
            for (p, plane) in bytes.chunks_exact(plane as usize).enumerate() {
                let first = p * per_pass + e * lanes;
                let mut rows = plane.chunks_exact(2 * lanes);
                if with_bias && let Some(row) = rows.next() {
                    for (lane, x) in halfwords(row).enumerate() {
                        biases[first + lane] = x;
                    }
                }
                for (tap, row) in rows.enumerate() {
                    for (lane, x) in halfwords(row).enumerate() {
                        weights[(first + lane) * taps + tap] = x;
                    }
                }
            }
        }
        Ok(Coefficients { weights, biases: with_bias.then_some(biases) })
    }
}

fn halfwords(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
}
