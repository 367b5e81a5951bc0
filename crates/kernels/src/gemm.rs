//! fp32 GEMM.

pub mod microkernel;
pub mod rows;
