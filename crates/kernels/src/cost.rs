//! Cost model: predicted single-thread times of kernels, and the times from which work is split between threads.
//!
//! Constants are fitted to operations of small and large networks on AVX2 hosts. They select threads and kernels; results do not depend
//! on them.

/// Predicted time from which work is split between spinning threads. The handover and the join take some microseconds.
pub const SHARED_NANOS: usize = 10_000;

/// Predicted time from which work is split between parked threads. Waking a thread takes tens of microseconds.
pub const SHARED_ASLEEP_NANOS: usize = 200_000;

/// Sum of the predicted times of all operations worth splitting from which threads keep spinning for the whole run.
pub const AWAKE_NANOS: usize = 300_000;

/// Predicted nanoseconds of `macs` multiply-accumulates in fp32.
pub fn products(macs: usize) -> usize {
    macs / 16
}

/// Predicted nanoseconds of `macs` multiply-accumulates in fixed point.
pub fn exact_products(macs: usize) -> usize {
    macs / 4
}

/// Predicted nanoseconds of an elementwise operation on `elements` elements in rows.
pub fn elementwise(elements: usize) -> usize {
    elements / 4
}

/// Predicted nanoseconds of `elements` scalar table look-ups, gathers or reduction steps.
pub fn one_by_one(elements: usize) -> usize {
    elements
}
