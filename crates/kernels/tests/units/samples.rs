//! Samples that several tests draw from: accumulators, windows, idle epilogues, used workers.

use anemone_kernels::num::wide::Wide;
use anemone_kernels::params::{AccumulatorSpec, Specials, Ties, Tile};
use anemone_kernels::reduce::ElementwiseEpilogue;
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, Workers};
use pulp::Arch;

/// A plain Q15.16 integer accumulator.
pub static FIXED: AccumulatorSpec = AccumulatorSpec {
    fraction_bits: 16,
    least_exponent_sum: -16,
    ceiling_log2: Some(15),
    tile: None,
    ties: Ties::Away,
    specials: Specials::Numbers,
    flush_subnormals: false,
};

/// With a first stage and infinities; subnormal operands are flushed.
pub static TILED: AccumulatorSpec = AccumulatorSpec {
    tile: Some(Tile { lanes: 4, significand_bits: 12 }),
    ties: Ties::Even,
    specials: Specials::Infinities,
    flush_subnormals: true,
    ..FIXED
};

/// The same without a ceiling.
pub static TILED_SUM: AccumulatorSpec = AccumulatorSpec { ceiling_log2: None, ..TILED };

/// Epilogue without any stage.
pub fn nothing<N: Wide>() -> ElementwiseEpilogue<N> {
    let [zero, one] = [0.0, 1.0].map(N::canonicalize);
    ElementwiseEpilogue { plain: true, last: one, scale: one, bias: zero, epsilon: zero, function: None, relu: false }
}

/// Workers for an instruction set, with scratch buffers that hold garbage: no result may depend on it.
pub fn used(arch: Arch) -> Workers {
    let mut workers = Workers::new();
    workers.arch = arch;
    // An item that is not shared is processed by the thread that asks, in its own buffers.
    rayon::broadcast(|_| {
        workers.each(vec![()], false, |_, scratch| {
            let Scratch { staged, packed, wide, panel, sums, .. } = scratch;
            [staged, packed, wide, panel, sums].into_iter().for_each(|buffer| buffer.resize(1 << 16, f32::NAN));
        });
    });
    workers
}

/// Random windows of every kind, with input and output channels, and true for a depthwise one.
pub fn some_windows() -> impl Iterator<Item = (Window, [usize; 2], bool)> {
    let mix = |x: u64| (x ^ x >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..400).map(move |i| {
        let pick = |n: u64, of: usize| 1 + (mix(mix((i << 8 | n) + 1)) >> 33) as usize % of;
        let (k, s) = match i % 4 {
            // Common sizes.
            0 => ([[3, 5][i as usize / 4 % 2]; 2], [pick(3, 2); 2]),
            _ => ([pick(1, 5), pick(2, 5)], [pick(3, 3), pick(4, 3)]),
        };
        let p = [pick(5, k[0]) - 1, pick(6, k[1]) - 1];
        // A few rows are longer than a block.
        let from = if i % 50 == 7 { [2, 1400] } else { [pick(7, 9), pick(8, 40)] };
        let reached = |a: usize| from[a] + p[a] + pick(9 + a as u64, k[a]) - 1;
        let to = std::array::from_fn(|a| reached(a).saturating_sub(k[a]) / s[a] + 1);
        let (cin, cout, unicast) = (pick(11, 40), if from[1] > 40 { 3 } else { pick(12, 70) }, i % 3 == 0);
        (Window { k, s, p, from, to }, if unicast { [cin; 2] } else { [cin, cout] }, unicast)
    })
}
