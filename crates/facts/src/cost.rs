//! Cost of a program on silicon: rates of a chip, fitted to published measurements, with their error.
//!
//! These rates estimate the duration of a program; the compiler's own estimates, which decide splits and placement, are others
//! (`ESTIMATE_BYTES` of [`crate::code`], [`crate::placement`]). See `docs/evidence.md`, key `cost`.

/// Multiply-accumulates of the array per cycle, on every chip.
pub const MACS_PER_CYCLE: u64 = 4096;

/// Rates of a chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Compiler targets that they hold for.
    pub targets: &'static [&'static str],
    /// Machine that was measured.
    pub machine: &'static str,
    /// Bandwidth of host copies of inputs, in bytes per nanosecond.
    pub in_bytes_per_ns: f64,
    /// Bandwidth of host copies of outputs, in bytes per nanosecond.
    pub out_bytes_per_ns: f64,
    /// Bandwidth of coefficients from memory, in bytes per nanosecond.
    pub weight_bytes_per_ns: f64,
    /// Bandwidth of activations to and from memory, in bytes per nanosecond.
    pub activation_bytes_per_ns: f64,
    /// Throughput of the planar engine, in elements per nanosecond.
    pub planar_per_ns: f64,
    /// Overhead of a task, in nanoseconds.
    pub task_ns: f64,
    /// Number of measured points.
    pub points: u32,
    /// Median error on points held out of the fit, in percent.
    pub median_percent: u32,
    /// Error that nine in ten points stay within (90th percentile), in percent.
    pub most_percent: u32,
}

/// Every chip with a fit. Chips without one have no rates: a time is not guessed.
pub static RATES: &[Rates] = &[
    Rates {
        targets: &["h13", "t1"],
        machine: "M1",
        in_bytes_per_ns: 9.2,
        out_bytes_per_ns: 4.8,
        weight_bytes_per_ns: 59.0,
        activation_bytes_per_ns: 40.0,
        planar_per_ns: 7.5,
        task_ns: 260.0,
        points: 13,
        median_percent: 8,
        most_percent: 24,
    },
    Rates {
        targets: &["h13g"],
        machine: "M1 Max",
        in_bytes_per_ns: 13.1,
        out_bytes_per_ns: 4.7,
        weight_bytes_per_ns: 63.5,
        activation_bytes_per_ns: 75.0,
        planar_per_ns: 4.7,
        task_ns: 100.0,
        points: 73,
        median_percent: 11,
        most_percent: 40,
    },
];

/// Rates of a compiler target.
pub fn rates(target: &str) -> Option<&'static Rates> {
    RATES.iter().find(|r| r.targets.contains(&target))
}
