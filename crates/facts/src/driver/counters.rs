//! Counters of a task descriptor: 24 names in seven groups. Names are descriptive; see `docs/evidence.md`, key `driver`.

/// A group of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Counters, in order.
    pub counters: &'static [&'static str],
}

/// Groups in order.
pub static GROUPS: &[Group] = &[
    Group {
        name: "NE",
        unit: "cycles",
        counters: &["nominal", "compute", "throttle", "input stall", "output stall", "kernel stall"],
    },
    Group { name: "L2", unit: "cycles", counters: &["nominal", "throttle", "read stall", "write stall"] },
    Group { name: "L2PE", unit: "cycles", counters: &["compute", "input stall", "output stall"] },
    Group { name: "precision", unit: "cycles", counters: &["FP16", "INT8"] },
    Group { name: "KM", unit: "cycles", counters: &["stall"] },
    Group {
        name: "traffic",
        unit: "bytes",
        counters: &["DMA read", "DMA read-write", "AF to KM", "AF to L2", "L2 to AF", "L2 to NE", "NE to L2"],
    },
    Group { name: "DPE", unit: "energy", counters: &["energy"] },
];

/// Mask that enables every counter; masks above it enable none.
pub const FULL_MASK: u32 = 0xf;

/// The driver's mask for a requested mask.
pub const fn driver_mask(requested: u32) -> u32 {
    if requested <= FULL_MASK { requested } else { 0 }
}

/// Number of counters.
pub const COUNT: usize = 24;

/// Multiply-accumulates per cycle of the model, over all engines; chosen: `docs/evidence.md`, key `driver-choice`.
pub const MACS_PER_CYCLE: u64 = 4096;

/// Elements that the planar engine processes per cycle of the model; chosen, as above.
pub const PLANAR_PER_CYCLE: u64 = 64;

/// Energy of one multiply-accumulate in the model: twice the 0.37 pJ that a floating-point operation needs at best on an M1,
/// by the book's chapter 21; chosen for all tasks, as above.
pub const FEMTOJOULES_PER_MAC: u64 = 740;
