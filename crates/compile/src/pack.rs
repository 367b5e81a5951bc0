//! Coefficients into the engines' streams.
//!
//! Sixteen engines at most, each holding `lanes` output channels at a time; see `docs/evidence.md`, key `h13-kernel`.

use crate::anec::*;
use anemone_facts::kernel::{ALIGN_BYTES, ENGINES};
use half::f16;

/// Most output channels per engine at a time with small sources, and otherwise: the HAL's eight accumulators with four
/// or two channels each.
const MAX_LANES_SMALL: usize = 32;
const MAX_LANES: usize = 16;
/// A source with sides up to this is small.
const SMALL_SIDE: usize = 8;

/// How a layer's output channels are spread over engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Engines that take part; a power of two.
    pub engines: usize,
    /// Output channels per engine at a time; a power of two.
    pub lanes: usize,
    /// Output channels of one group.
    outputs: usize,
    groups: usize,
    taps: usize,
    bias: bool,
}

/// Engines for `outputs` channels.
pub fn engines_for(outputs: usize) -> usize {
    outputs.next_power_of_two().min(ENGINES)
}

impl Packing {
    /// The packing of a convolution layer; without coefficients there are no taps.
    pub fn of(layer: &Layer) -> Packing {
        let outputs = if layer.transpose { layer.result.width } else { layer.result.channels() };
        let engines = engines_for(outputs);
        if let Kind::Product { lanes } = layer.kind {
            let taps = layer.sources[0].channels();
            return Packing { engines: engines_for(outputs / lanes), lanes, outputs, groups: 1, taps, bias: false };
        }
        let Kind::Conv { connect, weights, bias, .. } = &layer.kind else {
            return Packing { engines, lanes: 1, outputs, groups: 1, taps: 0, bias: false };
        };
        let source = &layer.sources[0];
        let groups = source.groups();
        let small = source.height().max(source.width) <= SMALL_SIDE && !layer.transpose;
        let cap = if small { MAX_LANES_SMALL } else { MAX_LANES };
        let mut lanes = 1;
        // Only whole passes: how a last, partly filled pass of several lanes is stored is not known.
        if *connect == Connect::Dense {
            while lanes < cap && outputs.is_multiple_of(engines * lanes * 2) {
                lanes *= 2;
            }
        }
        let taps = weights.len() / (outputs * groups).max(1);
        Packing { engines, lanes, outputs, groups, taps, bias: bias.is_some() }
    }

    /// Engines with at least one channel.
    pub fn active(&self) -> usize {
        self.outputs.div_ceil(self.lanes).min(self.engines)
    }

    fn passes(&self, engine: usize) -> usize {
        self.outputs.saturating_sub(engine * self.lanes).div_ceil(self.engines * self.lanes)
    }

    /// Bytes of the coefficients that an engine holds at a time.
    pub fn plane_bytes(&self) -> u64 {
        (2 * self.lanes * self.taps) as u64
    }

    /// Bytes of each engine's stream.
    pub fn stream_bytes(&self) -> u64 {
        let plane = 2 * self.lanes * (self.taps + usize::from(self.bias));
        ((plane * self.passes(0)).next_multiple_of(ALIGN_BYTES as usize) * self.groups) as u64
    }

    /// Bytes of all streams.
    pub fn total_bytes(&self) -> u64 {
        self.stream_bytes() * self.active() as u64
    }

    /// The streams one after another, each of [`Packing::stream_bytes`].
    pub fn streams(&self, weights: &[f32], bias: Option<&[f32]>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.total_bytes() as usize);
        let put = |bytes: &mut Vec<u8>, x: f32| bytes.extend(f16::from_f32(x).to_le_bytes());
        for engine in 0..self.active() {
            let start = bytes.len();
            for g in 0..self.groups {
                for pass in 0..self.passes(engine) {
                    let first = g * self.outputs + (pass * self.engines + engine) * self.lanes;
                    if let Some(bias) = bias {
                        (first..first + self.lanes).for_each(|c| put(&mut bytes, bias[c]));
                    }
                    for tap in 0..self.taps {
                        (first..first + self.lanes).for_each(|c| put(&mut bytes, weights[c * self.taps + tap]));
                    }
                }
                let group = self.stream_bytes() as usize / self.groups;
                bytes.resize(start + (g + 1) * group, 0);
            }
        }
        bytes
    }
}
