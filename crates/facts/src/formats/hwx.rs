//! The compiler's container: a Mach-O-64 shape with its own magic, commands and flags. Little-endian throughout.

use super::Evidence::{Bytes, Claimed, Executed};
use super::{Code, Word, code, word};

/// First word of a container.
pub const MAGIC: u32 = 0xbeef_face;
/// CPU type of every container; the generation is the CPU subtype.
pub const CPU_TYPE: u32 = 0x80;
/// File type of every container.
pub const FILE_TYPE: u32 = 2;
/// Header flags of every container.
pub const HEADER_FLAGS: u32 = 0x20_0000;
/// Bytes of the file header.
pub const HEADER_BYTES: usize = 32;
/// Byte offset of the CPU subtype in the header.
pub const SUBTYPE_OFFSET: u64 = 8;
/// Byte offset of the size of all commands in the header.
pub const COMMAND_BYTES_OFFSET: usize = 20;
/// Bytes of a segment command without its sections.
pub const SEGMENT_BYTES: usize = 72;
/// Bytes of a section entry.
pub const SECTION_BYTES: usize = 80;
/// Bytes of a symbol entry.
pub const SYMBOL_BYTES: usize = 16;
/// Bytes of a relocation entry.
pub const RELOCATION_BYTES: usize = 8;
/// Alignment of commands, relocations and names inside commands.
pub const COMMAND_ALIGN: usize = 8;
/// Alignment of segments, in the address space and in the file.
pub const PAGE: u64 = 0x4000;
/// Address of the first segment with content.
pub const VM_BASE: u64 = 0x3000_0000;
/// Alignment of the constant section.
pub const CONST_ALIGN: u64 = 64;
/// Bytes of the constant section of a program without kernel data; all zero.
pub const EMPTY_CONST_BYTES: u64 = 0x4000;

/// Load commands.
pub static COMMANDS: &[Code] = &[
    code(SEGMENT, "segment", Bytes, "address range with sections"),
    code(SYMTAB, "symtab", Bytes, "symbols and their names"),
    code(THREAD, "thread", Bytes, "run state or tensor record, told apart by the flavor"),
    code(PORT, "port", Bytes, "names the address window of a bound tensor; 32-bit address"),
    code(IDENT, "ident", Bytes, "compiler version and options as text"),
    code(NOTE, "note", Claimed, "owner-named data; later generations keep a runtime version here"),
    code(PORT64, "port64", Bytes, "names the address window of a bound tensor; 64-bit address"),
];
/// Command id of a segment.
pub const SEGMENT: u32 = 0x19;
/// Command id of the symbol table.
pub const SYMTAB: u32 = 2;
/// Command id of run state and tensor records.
pub const THREAD: u32 = 4;
/// Command id of a port window with a 32-bit address.
pub const PORT: u32 = 6;
/// Command id of the banner.
pub const IDENT: u32 = 8;
/// Command id of a note.
pub const NOTE: u32 = 0x31;
/// Command id of a port window with a 64-bit address.
pub const PORT64: u32 = 0x40;

/// Flavors of the thread command.
pub static FLAVORS: &[Code] = &[
    code(FLAVOR_RUN, "run-state", Bytes, "base addresses, entry, first task size, task and event counts"),
    code(FLAVOR_TENSOR, "tensor", Bytes, "shape, strides and names of a bound tensor"),
    code(FLAVOR_RUN_LATER, "run-state-later", Claimed, "run state of later generations; other word positions"),
];
/// Flavor of the run state.
pub const FLAVOR_RUN: u32 = 1;
/// Flavor of a tensor record.
pub const FLAVOR_TENSOR: u32 = 3;
/// Flavor of the run state of later generations.
pub const FLAVOR_RUN_LATER: u32 = 4;

/// Words of the run state, flavor 1.
pub mod run_state {
    use super::*;
    /// Words that compiler 4.2.1 writes.
    pub const WORDS: usize = 0x214;
    /// 64-bit base addresses; they start at word 0.
    pub const BASES: usize = BASE_WORDS / 2;
    /// Entry address: start of the task stream.
    pub const ENTRY: usize = 512;
    /// Words of the first task descriptor, minus one.
    pub const FIRST_TASK: usize = 514;
    /// Number of task descriptors.
    pub const TASKS: usize = 515;
    /// Always [`MASK_VALUE`].
    pub const MASK: usize = 517;
    /// Value of word [`MASK`].
    pub const MASK_VALUE: u32 = 0xffff;
    /// Offset of the procedure name from the command's start.
    pub const NAME: usize = 523;
    /// Bits set in DebugLogEvents over all tasks.
    pub const DEBUG_EVENTS: usize = 528;
    /// Bits set in LogEvents over all tasks.
    pub const EVENTS: usize = 530;
    /// Bytes of the intermediate region, from compiler 7 on.
    pub const SCRATCH: usize = 526;
    /// Number of properties, from compiler 7 on.
    pub const PROPERTIES: usize = 532;
    /// First word of the first property.
    pub const PROPERTY: usize = 534;
    /// All words with a known meaning, except the table of base addresses.
    pub static ROWS: &[Word] = &[
        word(ENTRY, 2, "entry", Executed, "address of the first task descriptor"),
        word(FIRST_TASK, 1, "first-task", Executed, "words of the first task descriptor - 1"),
        word(TASKS, 1, "tasks", Executed, "number of task descriptors"),
        word(MASK, 1, "mask", Bytes, "0xffff in every sample"),
        word(NAME, 1, "name", Bytes, "offset of the procedure name from the command's start"),
        word(SCRATCH, 1, "scratch-bytes", Claimed, "nonzero in the one sample that has an intermediate region"),
        word(DEBUG_EVENTS, 1, "debug-events", Bytes, "bits set in DebugLogEvents over all tasks"),
        word(EVENTS, 1, "events", Bytes, "bits set in LogEvents over all tasks"),
        word(PROPERTIES, 1, "properties", Claimed, "number of properties that follow, from compiler 7 on"),
    ];
}

/// Word positions of a flavor of run state: base addresses, properties, and its other words.
#[derive(Clone, Copy, Debug)]
pub struct RunShape {
    /// Flavor.
    pub flavor: u32,
    /// Words per entry of the base address table; the address is in the first two.
    pub base_step: usize,
    /// First of the two words of the entry address.
    pub entry: usize,
    /// Word with the number of properties.
    pub property_count: usize,
    /// First word of the properties. Each has four: tag, size in bytes, 64-bit value.
    pub properties: usize,
    /// Words with a known meaning.
    pub rows: &'static [Word],
}

/// Words of the table of base addresses, in every flavor.
pub const BASE_WORDS: usize = 512;
/// Words of a property.
pub const PROPERTY_WORDS: usize = 4;
/// Size in the header of every property.
pub const PROPERTY_BYTES: u32 = 8;

/// Flavors of run state.
pub static RUN_SHAPES: &[RunShape] = &[
    RunShape {
        flavor: FLAVOR_RUN,
        base_step: 2,
        entry: 512,
        property_count: 532,
        properties: 534,
        rows: run_state::ROWS,
    },
    RunShape {
        flavor: FLAVOR_RUN_LATER,
        base_step: 4,
        entry: 512,
        property_count: 536,
        properties: 538,
        rows: RUN_LATER_ROWS,
    },
];

/// Tags of run state properties.
pub static PROPERTIES: &[Code] = &[
    code(2, "scratch-bytes", Bytes, "bytes of the intermediate region"),
    code(3, "property-3", Claimed, "0x808020004 in every sample with an intermediate region; meaning unknown"),
    code(7, "max-task-latency", Claimed, "single-precision bits of the compiler's option of that name"),
    code(PROPERTY_MAX_CYCLES, "max-cycles", Claimed, "largest cost estimate of a task"),
];

/// Tag of the largest cost estimate.
pub const PROPERTY_MAX_CYCLES: u32 = 9;

/// Words of the run state of later generations, flavor 4.
pub static RUN_LATER_ROWS: &[Word] = &[
    word(512, 2, "entry", Bytes, "address of the first task descriptor"),
    word(516, 1, "word-516", Claimed, "4 in every sample"),
    word(517, 1, "stream-words", Bytes, "words of the whole task stream"),
    word(520, 1, "tasks", Claimed, "number of task descriptors"),
    word(522, 2, "word-522", Claimed, "all ones in every sample"),
    word(525, 1, "mask", Bytes, "0xffff in every sample"),
    word(526, 1, "name", Bytes, "offset of the procedure name from the command's start"),
    word(530, 2, "scratch-bytes", Bytes, "bytes of the intermediate region"),
    word(532, 1, "word-532", Claimed, "differs between programs"),
    word(534, 1, "word-534", Claimed, "4 in every sample"),
    word(536, 1, "properties", Bytes, "number of properties that follow"),
];

/// Words of a tensor record, flavor 3.
pub mod tensor {
    use super::*;
    /// Words that compiler 4.2.1 writes.
    pub const WORDS: usize = 0x1e;
    /// Always [`KIND_VALUE`].
    pub const KIND: usize = 0;
    /// Value of word [`KIND`].
    pub const KIND_VALUE: u32 = 3;
    /// [`INPUT`] or [`OUTPUT`].
    pub const DIRECTION: usize = 1;
    /// The program reads the tensor.
    pub const INPUT: u32 = 1;
    /// The program writes the tensor.
    pub const OUTPUT: u32 = 2;
    /// Offset of the procedure name from the command's start.
    pub const PROCEDURE: usize = 2;
    /// Offset of the tensor name from the command's start.
    pub const NAME: usize = 4;
    /// Number of the element type in [`super::TYPES`].
    pub const TYPE: usize = 5;
    /// Batch.
    pub const N: usize = 6;
    /// Channels.
    pub const C: usize = 7;
    /// Rows.
    pub const H: usize = 8;
    /// Columns.
    pub const W: usize = 9;
    /// Depth.
    pub const D: usize = 10;
    /// Stride of batches, in bytes.
    pub const BATCH_STRIDE: usize = 16;
    /// Stride of channels, in bytes.
    pub const PLANE_STRIDE: usize = 18;
    /// Stride of rows, in bytes.
    pub const ROW_STRIDE: usize = 20;
    /// Stride of columns, in bytes.
    pub const ELEMENT_STRIDE: usize = 22;
    /// Bytes of the whole buffer.
    pub const BYTES: usize = 24;
    /// 1 in every sample.
    pub const INTERLEAVE: usize = 26;
    /// Offset of the second name from the command's start.
    pub const SECOND_NAME: usize = 27;
    /// Bytes of an input's buffer; first to one past last element of an output.
    pub const USED_BYTES: usize = 28;
    /// All words with a known meaning.
    pub static ROWS: &[Word] = &[
        word(KIND, 1, "kind", Bytes, "3 in every sample"),
        word(DIRECTION, 1, "direction", Bytes, "1 input, 2 output"),
        word(PROCEDURE, 1, "procedure", Bytes, "offset of the procedure name from the command's start"),
        word(NAME, 1, "name", Bytes, "offset of the tensor name from the command's start"),
        word(TYPE, 1, "type", Bytes, "number of the element type"),
        word(N, 1, "n", Bytes, "batch"),
        word(C, 1, "c", Bytes, "channels"),
        word(H, 1, "h", Bytes, "rows"),
        word(W, 1, "w", Bytes, "columns"),
        word(D, 1, "d", Claimed, "depth, 1 in every sample"),
        word(BATCH_STRIDE, 2, "batch-stride", Bytes, "bytes between batches"),
        word(PLANE_STRIDE, 2, "plane-stride", Bytes, "bytes between channels"),
        word(ROW_STRIDE, 2, "row-stride", Bytes, "bytes between rows"),
        word(ELEMENT_STRIDE, 2, "element-stride", Bytes, "bytes between columns"),
        word(BYTES, 2, "bytes", Bytes, "bytes of the buffer"),
        word(INTERLEAVE, 1, "interleave", Claimed, "channels interleaved, 1 in every sample"),
        word(SECOND_NAME, 1, "second-name", Bytes, "offset of the second name from the command's start"),
        word(USED_BYTES, 2, "used-bytes", Bytes, "buffer of an input, extent of an output's elements"),
    ];
}

/// A segment or section with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRow {
    /// Segment name.
    pub segment: &'static str,
    /// Section name; empty for a segment without sections.
    pub section: &'static str,
    /// Protection, initial and maximal.
    pub protection: u32,
    /// Flags of the segment.
    pub segment_flags: u32,
    /// Flags of the section.
    pub section_flags: u32,
    /// Base-2 logarithm of the section's alignment.
    pub align_log2: u32,
    /// One sentence.
    pub meaning: &'static str,
}

/// The unmapped first page.
pub const PAGE_ZERO: SectionRow = SectionRow {
    segment: "__PAGEZERO",
    section: "",
    protection: 0,
    segment_flags: 4,
    section_flags: 0,
    align_log2: 0,
    meaning: "unmapped page at address 0",
};
/// The task stream. With kernel data the segment's flags are 0 and the section also has [`HAS_RELOCATIONS`].
pub const TEXT: SectionRow = SectionRow {
    segment: "__TEXT",
    section: "__text",
    protection: 5,
    segment_flags: 4,
    section_flags: 0x28,
    align_log2: 14,
    meaning: "task descriptors",
};
/// Kernel data.
pub const CONST: SectionRow = SectionRow {
    segment: "__TEXT",
    section: "__const",
    protection: 5,
    segment_flags: 4,
    section_flags: 0x26,
    align_log2: 6,
    meaning: "kernel data: coefficients and tables",
};
/// The intermediate region.
pub const BSS: SectionRow = SectionRow {
    segment: "__DATA",
    section: "__bss",
    protection: 3,
    segment_flags: 4,
    section_flags: 0x25,
    align_log2: 6,
    meaning: "intermediate tensors",
};
/// The window of an input.
pub const INPUT: SectionRow = SectionRow {
    segment: "__FVMLIB",
    section: "__const",
    protection: 1,
    segment_flags: 6,
    section_flags: 0x21,
    align_log2: 14,
    meaning: "input tensor, bound by the caller",
};
/// The window of an output.
pub const OUTPUT: SectionRow = SectionRow {
    segment: "__FVMLIB",
    section: "__data",
    protection: 2,
    segment_flags: 6,
    section_flags: 0x23,
    align_log2: 14,
    meaning: "output tensor, bound by the caller",
};
/// Kernel data of later compilers.
pub const KERNEL: SectionRow = SectionRow {
    segment: "__KERN_0",
    section: "__kern_0",
    protection: 1,
    segment_flags: 4,
    section_flags: 0x26,
    align_log2: 6,
    meaning: "kernel data of later compilers",
};
/// Known sections, for explanations.
pub static SECTIONS: &[SectionRow] = &[PAGE_ZERO, TEXT, CONST, BSS, INPUT, OUTPUT, KERNEL];

/// A section that is read and never written: its flags are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionName {
    /// Segment name.
    pub segment: &'static str,
    /// Section name.
    pub section: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Evidence.
    pub evidence: super::Evidence,
}

const fn named(segment: &'static str, section: &'static str, meaning: &'static str) -> SectionName {
    SectionName { segment, section, meaning, evidence: Claimed }
}

/// The runtime graph of programs for one engine and for two.
pub const RUNTIME: SectionName =
    named("__RUNTIME", "__runtime", "runtime graph: for each procedure the regions to map and the engine to start");
/// Sections of containers for subtype 11 (`docs/evidence.md`, key `m6-containers`).
pub static OTHER_SECTIONS: &[SectionName] = &[
    RUNTIME,
    named("__DEBUG", "__debug_info", "debugging information"),
    named("__DATA", "__bss_sh", "intermediate tensors that two engines share"),
];

/// Contents of a section with a known name.
pub fn section_meaning(segment: &str, section: &str) -> Option<&'static str> {
    let made = SECTIONS.iter().map(|r| (r.segment, r.section, r.meaning));
    let others = OTHER_SECTIONS.iter().map(|r| (r.segment, r.section, r.meaning));
    made.chain(others).find(|r| (r.0, r.1) == (segment, section)).map(|r| r.2)
}

/// Symbols of the runtime graph (`docs/evidence.md`, key `m6-containers`). The form of the graph's bytes is not known.
pub mod runtime {
    /// Prefix of the symbol of an operation.
    pub const OPERATION: &str = "rt_op_";
    /// Prefix of the symbol of an operation that starts an engine.
    pub const KICK: &str = "rt_op_ane_kick_";
    /// Prefix of the symbol at the first byte of a task stream.
    pub const STREAM_START: &str = "text_section_start_for_";
    /// Bits set in the type of every symbol of the graph.
    pub const KIND_BITS: u8 = 0x0e;
}
/// Section flag: relocations follow the string table.
pub const HAS_RELOCATIONS: u32 = 0x100;

/// Symbol types.
pub static SYMBOL_TYPES: &[Code] = &[
    code(SYMBOL_DEFINED as u32, "defined", Bytes, "kernel stream or tensor at an address in a section"),
    code(SYMBOL_TENSOR as u32, "tensor", Bytes, "shape and strides of a tensor, as text"),
    code(SYMBOL_TYPE as u32, "type", Bytes, "element type, as text"),
];
/// Type of a symbol that names an address.
pub const SYMBOL_DEFINED: u8 = 0x0f;
/// Type of a symbol that describes a tensor.
pub const SYMBOL_TENSOR: u8 = 0x20;
/// Type of a symbol that describes an element type.
pub const SYMBOL_TYPE: u8 = 0x80;
/// Description word of kernel and input symbols; output symbols have 0.
pub const DESC_READ_ONLY: u16 = 2;
/// The description word of a tensor symbol is its type number modulo this.
pub const TENSOR_DESC_MODULUS: u32 = 32;
/// Type numbers that a tensor symbol uses: the tensor and four axes.
pub const TENSOR_TYPE_STEP: u32 = 5;

/// Second word of a relocation of 32 bits without its section: relative.
pub const RELOCATION_FLAGS: u32 = 0x0500_0000;
/// Second word of a relocation of 64 bits without its section: relative.
pub const RELOCATION_FLAGS_64: u32 = 0x0700_0000;
/// Bits of the second word that are the section's number.
pub const RELOCATION_SECTION: u32 = 0x00ff_ffff;

/// Element types in the order of their symbols; the number is the position plus one.
pub static TYPES: &[&str] = &[
    "void:t1=1",
    "int8:t2=r2;0;127",
    "uint8:t3=r1;0;255",
    "int16:t4=r1;-32768;32767",
    "float16:t5=r1;2;0",
    "float:t6=r1;4;0",
    "raw10:t7=r1;-512;511",
    "lut:t8=",
    "uint4:t9=r1;0;15",
    "uint6:t10=r1;0;63",
    "uint1:t11=r1;0,1",
    "uint2:t12=r1;0;3",
    "packed10:t13=r1;-512;511",
    "y10:t14=r1;-512;511",
    "uint16:t15=r1;0;65535",
    "e4m3:t16=r1;1;0",
    "int32:t17=r1;-2147483648;2147483647",
    "uint32:t18=r1;0;4294967295",
    "int64:t19=r1;-9223372036854775808;9223372036854775807",
    "uint64:t20=r1;0;18446744073709551615",
    "raw12:t21=r1;-512;511",
    "y12:t22=r1;-512;511",
    "int4:t23=r1;-8;7",
];
/// Number of [`TYPES`] that compiler 4.2.1 writes.
pub const TYPES_421: usize = 10;
/// Number of the half precision type.
pub const TYPE_FLOAT16: u32 = 5;

/// Name of an element type: the text before the colon of its symbol.
pub fn type_name(number: u32) -> Option<&'static str> {
    let text = TYPES.get(number.checked_sub(1)? as usize)?;
    text.split(':').next()
}

/// Number of an element type by name.
pub fn type_number(name: &str) -> Option<u32> {
    (1..=TYPES.len() as u32).find(|&n| type_name(n) == Some(name))
}

/// First two lines of the banner of compiler 4.2.1.
pub static BANNER_421: &[&str] = &["ANEC v1", "zin_ane_compiler v4.2.1"];
/// Option lines of compiler 4.2.1 between target and paths; each line starts with a tab.
pub static BANNER_FLAGS_421: &[&str] = &[
    "--fdram-allocator=ffreuse",
    "--fdram-tensor-priority=sizethenliverange",
    "--fl2-allocator=ffreuse",
    "--fl3-allocator=ffreuse",
    "--fl2-cache-mode=resident",
    "--fsignature=ident",
    "--memcache-strategy=",
    "--memcache-size=4194304",
    "--fspatial-split=disabled",
    "--fkernel-rewind=enabled",
    "--Wl-undefined=fvmlib",
];
/// Banner option before the target.
pub const BANNER_TARGET: &str = "-t ";
/// Banner option before the netplist path.
pub const BANNER_INPUT: &str = "-i ";
/// Banner option before the output path.
pub const BANNER_OUTPUT: &str = "-o ";
/// Procedure name in files of compiler 4.2.1.
pub const PROCEDURE_421: &str = "net";
