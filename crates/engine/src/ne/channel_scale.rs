//! Convolutions with a scale for each channel: `y = scale * sum + bias` by output channel, then the epilogue of
//! every sum. See `docs/evidence.md`, key `book-streams`.

use super::{Convolution, Neural};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::Parameters;
use crate::packed::Scaled;
use anemone_conv::Coefficients;
use anemone_kernels::cost;
use anemone_kernels::num::wide::{Exact as Number, Wide};
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_kernels::view::{Part, TensorView};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{PER_THREAD, chunks};

impl Machine<'_> {
    pub(crate) fn pack_scaled(&self, of: &Convolution, groups: usize, cout: usize) -> Result<Scaled, FaultKind> {
        let mut scaled = Scaled::default();
        for g in 0..groups {
            let (Coefficients { weights, biases }, scales) = self.coefficients_and_scales(g, cout, of.taps())?;
            let scales = scales.unwrap_or_else(|| vec![1.0; cout]);
            let biases = biases.unwrap_or_else(|| vec![0.0; cout]);
            scaled.gains.push(scales.into_iter().zip(biases).map(|(scale, bias)| [scale, bias]).collect());
            match self.mac {
                Some(mac) => scaled.sets.push((of.sets(mac, &weights, cout), None)),
                None => scaled.weights.push(weights),
            }
        }
        Ok(scaled)
    }

    /// Result of a convolution, before it is transposed and stored.
    pub(crate) fn convolve_scaled(
        &self,
        scaled: &Scaled,
        convolution: &Convolution,
        neural: &Neural,
        source: TensorView,
    ) -> Result<Tensor, FaultKind> {
        let output = neural.output;
        let of_plane = |plane: usize| (plane / output.c.max(1), plane % output.c.max(1));
        let gain = |plane: usize| {
            let (g, c) = of_plane(plane);
            let gains = scaled.gains.get(g).or(scaled.gains.first());
            gains.and_then(|gains| gains.get(c)).copied().unwrap_or([1.0, 0.0])
        };
        let size = output.plane().max(1);
        let Some(rules) = self.model.rounding() else {
            let mut y = Tensor::zeros(output)?;
            let nanos = cost::one_by_one(y.data.len().saturating_mul(convolution.taps()));
            chunks(&mut y.data, size, nanos, |i, plane| {
                let (g, c) = of_plane(i);
                let Some(weights) = scaled.weights.get(g).or(scaled.weights.first()) else { return };
                let weights = (c * convolution.taps()..(c + 1) * convolution.taps()).map(|i| weights.get(i).to_f32());
                let first = if convolution.unicast { c * convolution.per_output } else { 0 };
                sum(&convolution.window, source, g, first, weights, output, plane);
                let [scale, bias] = gain(i);
                for v in plane.iter_mut() {
                    *v = *v * scale + bias;
                }
            });
            return self.finished(neural, y);
        };
        let sums = self.exact_sums(&scaled.sets, convolution, source, [neural.input, output])?;
        let gains: Vec<[Number; 2]> = (0..output.g * output.c).map(|i| gain(i).map(Number::canonicalize)).collect();
        self.finish_exact_from(rules, sums, move |i, v| {
            let [scale, bias] = gains[i / size];
            Number::canonicalize(v).mul(scale).add(bias)
        })
    }
}

/// Accumulates the sums of one channel, tap by tap in fp32.
fn sum(
    window: &Window,
    source: TensorView,
    group: usize,
    first_channel: usize,
    weights: impl Iterator<Item = f32> + Clone,
    output: Extents,
    to: &mut [f32],
) {
    let part = Part { rows: 0..output.h, columns: 0..output.w };
    let mut met = vec![0.0; to.len().min(PER_THREAD)];
    for (i, to) in to.chunks_mut(PER_THREAD).enumerate() {
        for (tap, weight) in weights.clone().enumerate() {
            let met = &mut met[..to.len()];
            window.gather_tap(source, group, first_channel, &part, tap, i * PER_THREAD, met);
            for (y, x) in to.iter_mut().zip(met) {
                *y += weight * *x;
            }
        }
    }
}
