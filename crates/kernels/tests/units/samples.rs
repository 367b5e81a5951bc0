//! Samples that several tests draw from: an accumulator, an idle epilogue, used workers.

use anemone_kernels::isa::Isa;
use anemone_kernels::num::wide::Wide;
use anemone_kernels::params::{AccumulatorSpec, Specials, Ties};
use anemone_kernels::reduce::ElementwiseEpilogue;
use anemone_kernels::workers::{Scratch, Workers};

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

/// Epilogue without any stage.
pub fn nothing<N: Wide>() -> ElementwiseEpilogue<N> {
    let [zero, one] = [0.0, 1.0].map(N::canonicalize);
    ElementwiseEpilogue { plain: true, last: one, scale: one, bias: zero, epsilon: zero, function: None, relu: false }
}

/// Workers for an instruction set, with scratch buffers that hold garbage: no result may depend on it.
pub fn used(arch: Isa) -> Workers {
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
