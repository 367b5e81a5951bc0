//! Predicted times of kernels on one thread, and the times from which work is shared between threads.
//!
//! Fitted to steps of small and large networks on AVX2 hosts. They decide where work is done, never what is computed.

/// Time from which work is handed to threads that look for it: to hand it over and to wait for its end takes some microseconds.
pub const SHARED_NANOS: usize = 20_000;

/// Time from which work is handed to threads that sleep: to wake one, and to be woken by it, takes tens of microseconds.
pub const SHARED_ASLEEP_NANOS: usize = 200_000;

/// Time from which threads are kept looking for work throughout a run, if steps that are worth sharing take so long in sum.
pub const AWAKE_NANOS: usize = 300_000;

/// Nanoseconds of so many multiply-accumulates in fp32.
pub fn products(macs: usize) -> usize {
    macs / 16
}

/// Nanoseconds of so many multiply-accumulates in fixed point.
pub fn exact_products(macs: usize) -> usize {
    macs / 4
}

/// Nanoseconds of an elementwise operation on rows of so many elements.
pub fn elementwise(elements: usize) -> usize {
    elements / 4
}

/// Nanoseconds of so many elements that are looked up, folded, or gathered one by one.
pub fn one_by_one(elements: usize) -> usize {
    elements
}
