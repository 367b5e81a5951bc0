//! fp32 GEMM.

pub mod microkernel;
pub mod product;
pub mod rows;
