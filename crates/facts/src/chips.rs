//! Chips: compiler targets with the hardware abstraction layer's numbers, one row each.
//!
//! A value that no source gives is `None`, and a decision that needs it must say so. Sources: the book's HAL tables
//! (chapters 20, 24, 34, 35 and appendix A); see `docs/evidence.md`, key `hal`.

use crate::layout;
use crate::table::Layout;

/// One compiler target.
#[derive(Debug)]
pub struct Chip {
    /// Compiler target, lower case.
    pub target: &'static str,
    /// Capability family.
    pub family: &'static str,
    /// Marketing names that mean this target.
    pub marketing: &'static [&'static str],
    /// Silicon it stands for.
    pub silicon: &'static str,
    /// Mach-O CPU subtype of its containers.
    pub cpu_subtype: Option<u32>,
    /// Register layout, once decoded.
    pub layout: Option<&'static Layout>,
    /// The HAL's numbers.
    pub hal: Hal,
}

/// Numbers of the hardware abstraction layer; a field's name is the book's, its offset stands in [`HAL_ROWS`].
#[derive(Debug)]
#[allow(missing_docs)] // each field's meaning and unit is its row in HAL_ROWS, printed by `ane targets`
pub struct Hal {
    pub acc_budget: Option<u64>,
    pub max_tensor_width: Option<u64>,
    pub max_tensor_height: Option<u64>,
    pub max_tensor_depth: Option<u64>,
    pub max_tensor_channels: Option<u64>,
    pub max_tensor_batch: Option<u64>,
    pub max_operand_bytes: Option<u64>,
    pub dram_alignment: Option<u64>,
    pub l2_bank_align: Option<u64>,
    pub max_l2_dst_stride: Option<u64>,
    pub kmem_cap_dense: Option<u64>,
    pub kmem_cap_streamed: Option<u64>,
    pub instruction_alignment: Option<u64>,
    pub num_nes: Option<u64>,
    pub oc_per_acc_tiny: Option<u64>,
    pub oc_per_acc_small: Option<u64>,
    pub oc_per_acc_fp16: Option<u64>,
    pub oc_per_acc_other: Option<u64>,
    pub reduction_transpose_extent: Option<u64>,
    pub pe_min_patch_width_log2: Option<u64>,
    pub patch_width_cap_log2: Option<u64>,
    pub max_transpose_height: Option<u64>,
    pub max_transpose_width: Option<u64>,
    pub max_kernel_width_fp16: Option<u64>,
    pub max_kernel_height: Option<u64>,
    pub max_rank: Option<u64>,
    pub l2_bytes: Option<u64>,
    pub f_max_hz: Option<u64>,
}

/// Meaning of one HAL number.
pub struct HalRow {
    /// Field name in [`Hal`].
    pub name: &'static str,
    /// Byte offset in the HAL structure where one is known.
    pub offset: Option<u32>,
    /// Unit.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Reads the value.
    pub get: fn(&Hal) -> Option<u64>,
}

macro_rules! hal_rows {
    ( $( $name:ident $offset:expr, $unit:literal, $meaning:literal; )* ) => {
        /// Every HAL number with its meaning.
        pub static HAL_ROWS: &[HalRow] = &[ $( HalRow {
            name: stringify!($name), offset: $offset, unit: $unit, meaning: $meaning, get: |h| h.$name,
        } ),* ];
    };
}

hal_rows! {
    acc_budget Some(0x0c), "work units", "accumulators per core";
    max_tensor_width Some(0x138), "elements", "largest tensor width";
    max_tensor_height None, "elements", "largest tensor height";
    max_tensor_depth Some(0x158), "elements", "largest tensor depth";
    max_tensor_channels None, "channels", "most channels of a tensor";
    max_tensor_batch None, "", "largest batch";
    max_operand_bytes Some(0x1b8), "bytes", "working-set test on one operand; matmul resident-weight threshold; partition ceiling";
    dram_alignment Some(0x1c0), "bytes", "DMA width granule";
    l2_bank_align Some(0x1c8), "banks", "L2 banks: the modulus of a conflict";
    max_l2_dst_stride Some(0x1f8), "bytes", "upper bound of the stride search against bank conflicts";
    kmem_cap_dense Some(0x200), "bytes", "kernel memory for weights that are not streamed";
    kmem_cap_streamed Some(0x210), "bytes", "kernel memory for streamable weights";
    instruction_alignment Some(0x218), "bytes", "granule of task descriptors in a stream";
    num_nes Some(0x238), "cores", "neural-engine cores as the compiler counts them (programs address 16 streams all the same)";
    oc_per_acc_tiny Some(0x3a8), "channels", "output channels per accumulator, tiny source";
    oc_per_acc_small Some(0x3b0), "channels", "output channels per accumulator, small source";
    oc_per_acc_fp16 Some(0x3b8), "channels", "output channels per accumulator, fp16";
    oc_per_acc_other Some(0x3c0), "channels", "output channels per accumulator, otherwise";
    reduction_transpose_extent Some(0x3f0), "elements", "a reduced axis this long takes the transpose route";
    pe_min_patch_width_log2 Some(0x400), "log2 elements", "smallest planar-engine patch width";
    patch_width_cap_log2 Some(0x410), "log2 elements", "largest patch width";
    max_transpose_height Some(0x468), "elements", "largest native transpose height";
    max_transpose_width Some(0x470), "elements", "largest native transpose width";
    max_kernel_width_fp16 Some(0x38), "elements", "largest fp16 kernel width, large mode";
    max_kernel_height None, "elements", "largest kernel height, large mode";
    max_rank None, "axes", "largest tensor rank";
    l2_bytes None, "bytes", "on-chip tile memory";
    f_max_hz None, "Hz", "highest engine clock";
}

/// Every known target. The default target comes first.
pub static CHIPS: &[Chip] = &[Chip {
    target: "h13",
    family: "A13",
    marketing: &["m1"],
    silicon: "M1 (T8103)",
    cpu_subtype: Some(4),
    layout: Some(&layout::H13),
    hal: Hal {
        acc_budget: Some(8),
        max_tensor_width: Some(16384),
        max_tensor_height: Some(16384),
        max_tensor_depth: Some(16384),
        max_tensor_channels: Some(65536),
        max_tensor_batch: Some(65536),
        max_operand_bytes: Some(2 << 20),
        dram_alignment: Some(16),
        l2_bank_align: Some(64),
        max_l2_dst_stride: Some(2 << 20),
        kmem_cap_dense: Some(64 << 10),
        kmem_cap_streamed: Some(16 << 20),
        instruction_alignment: Some(256),
        num_nes: Some(4),
        oc_per_acc_tiny: Some(8),
        oc_per_acc_small: Some(4),
        oc_per_acc_fp16: Some(2),
        oc_per_acc_other: Some(1),
        reduction_transpose_extent: Some(192),
        pe_min_patch_width_log2: Some(4),
        patch_width_cap_log2: Some(9),
        max_transpose_height: Some(16384),
        max_transpose_width: Some(16384),
        max_kernel_width_fp16: Some(13),
        max_kernel_height: Some(29),
        max_rank: Some(5),
        l2_bytes: Some(2 << 20),
        f_max_hz: Some(1_428_000_000),
    },
}];

/// The chip that a user names by compiler target or by marketing name, in any case.
pub fn by_name(name: &str) -> Option<&'static Chip> {
    let name = name.to_ascii_lowercase();
    CHIPS.iter().find(|c| c.target == name || c.marketing.contains(&name.as_str()))
}
