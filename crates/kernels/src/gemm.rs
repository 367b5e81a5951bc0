//! fp32 GEMM.

pub mod microkernel;
