//! CPU kernels of convolution, of pooling, and of binary operations on tensors, over the vectors, formats and products of `anemone_kernels`.
//!
//! The two crates of kernels are compiled side by side, and an edit of this one leaves the other as it is. Like `anemone_kernels`, this one knows
//! nothing of the Apple Neural Engine.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | selection of fp32 kernels with reasons, predicted times |
//! | [`Im2col`], [`Kernels`] | partition and staging of a source; packed coefficients |
//! | [`convolve`] and its like | im2col, direct, pointwise, GEMV |
//! | [`depthwise`] | depthwise windows, pooling |
//! | [`winograd`] | 3x3 windows of stride 1 |
//! | [`nchwc`] | channels in blocks of 16; [`FusedDepthwise`] computes a convolution and the depthwise one that reads it |
//! | [`exact`] | fixed-point accumulators |
//! | [`elementwise`] | binary operations and pooling, from memory to memory |
//!
//! Dependencies: `anemone-kernels`, `half` for fp16, `pulp` to choose vector instructions at run time without `unsafe`, `rayon` for the number of
//! threads.

// One index runs over the sums and operands of a register tile; a copy of a few numbers is unrolled, not a call.
#![allow(clippy::needless_range_loop, clippy::manual_memcpy)]
#![allow(
    missing_docs,
    reason = "an interface between two crates of this workspace, documented where it says more than its name"
)]

mod convolution;
pub mod elementwise;

pub use convolution::{
    BatchMember, Coefficients, FusedDepthwise, Im2col, Kernels, Packing, RepackCache, can_fuse_depthwise, convolve,
    convolve_by, convolve_direct, convolve_gemv, convolve_nchwc, convolve_pointwise, convolve_rows, convolve_winograd,
    depthwise, exact, nchwc, registry, takes_rows, winograd,
};

/// Items that the tests in `tests/units` reach.
#[doc(hidden)]
pub mod testing {
    pub use crate::convolution::pair::PACKED_CAPACITY;
}
