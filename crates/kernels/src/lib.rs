//! CPU kernels: slices and plain structs in, slices out.
//!
//! The crate knows nothing of the Apple Neural Engine: no task, no register field, no fault, and it depends on no other crate of the
//! workspace. `anemone_conv` has the kernels of convolution. Parameters of arithmetic arrive as plain structs ([`params`]); whoever calls converts its own rows and errors.
//!
//! | module | contents |
//! |---|---|
//! | [`params`] | accumulator, rounding, element types |
//! | [`num`] | number formats, rounding, reference accumulators |
//! | [`simd`] | vectors: conversion on the way, dispatch helpers |
//! | [`line`](mod@line) | rows of numbers between two roundings |
//! | [`host`] | host intrinsics, the one file with `unsafe` |
//! | [`par`] | partitioning of work over threads |
//! | [`arena`], [`arrays`] | scratch memory; arrays made element by element |
//! | [`workers`] | thread pool with scratch memory for each thread |
//! | [`tensor`], [`view`], [`window`] | dense tensors; strided views, partitions, tiles, transposes; window geometry |
//! | [`axes`] | axes of elementwise work joined to long rows |
//! | [`table`] | activation tables |
//! | [`epilogue`] | bias, scale, activation, table, rounding, store |
//! | [`filter`] | packed filter panels |
//! | [`gemm`] | fp32 GEMM micro-kernels |
//! | [`exact`] | GEMM with fixed-point accumulators, bit-equal to [`num::reference`] |
//! | [`binary`], [`rows`], [`reduce`] | elementwise operations, reductions |
//! | [`map`] | chains of elementwise stages, block by block |
//! | [`registry`], [`cost`] | selection of kernels with reasons, predicted times |
//! | [`copy`], [`interleave`] | copies, conversion, channel interleave |
//!
//! Dependencies: `half` for fp16, `bytemuck` to view vectors as arrays without `unsafe`, `pulp` to choose vector instructions at run
//! time without `unsafe`, `rayon` for threads.
//!
//! Numbers are rounded to fp16 as the arrays round them, to nearest even:
//!
//! ```
//! use anemone_kernels::num;
//! use half::f16;
//!
//! let mut row = [f16::ZERO; 3];
//! num::round_row(&[1.0, 2049.0, 65519.0], &mut row);
//! assert_eq!(row.map(f32::from), [1.0, 2048.0, 65504.0]);
//! ```

// One index runs over the sums and operands of a register tile; a copy of a few numbers is unrolled, not a call.
#![allow(clippy::needless_range_loop, clippy::manual_memcpy)]
#![allow(
    missing_docs,
    reason = "an interface between two crates of this workspace, documented where it says more than its name"
)]

pub mod arena;
pub mod arrays;
pub mod axes;
pub mod binary;
pub mod copy;
pub mod cost;
pub mod epilogue;
pub mod exact;
pub mod filter;
pub mod gemm;
pub mod host;
pub mod interleave;
pub mod isa;
pub mod line;
pub mod map;
pub mod num;
pub mod par;
pub mod params;
pub mod reduce;
pub mod registry;
pub mod rows;
pub mod simd;
pub mod table;
pub mod tensor;
pub mod view;
pub mod window;
pub mod workers;

/// Items that the tests in `tests/units` reach.
#[doc(hidden)]
pub mod testing {
    pub use crate::copy::strided::{Piece, copy, cut, each};
    pub use crate::exact::decode::{Reading, raised};
    pub use crate::exact::microkernel::settle_away;
}
