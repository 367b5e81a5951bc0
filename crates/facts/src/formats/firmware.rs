//! The firmware container: a package of programs, each with sections. Records as rows.
//!
//! Magic numbers, the three levels and the kinds of sections are given (C); the offsets of fields in the records and
//! the contents of sections are ours, because no source has them: see `docs/evidence.md`, key `firmware`.

use super::Evidence::Claimed;
use super::{Code, Word, code, word};

/// First word of a package; its bytes in a file read `HENA`.
pub const PACKAGE_MAGIC: u32 = 0x414e_4548;
/// First word of a program record; its bytes read `PENA`.
pub const PROGRAM_MAGIC: u32 = 0x414e_4550;
/// First word of a section record; its bytes read `SENA`.
pub const SECTION_MAGIC: u32 = 0x414e_4553;
/// Version that is written.
pub const VERSION: u32 = 1;
/// Checksum word of a package whose content is valid.
pub const CHECKSUM_VALID: u32 = 0xffff_ffff;
/// Alignment of the content of sections.
pub const ALIGN: u64 = 0x100;

/// Bytes of a package record without the 64-bit offsets of its programs.
pub const PACKAGE_BYTES: usize = 24;
/// Bytes of a program record without its sections.
pub const PROGRAM_BYTES: usize = 56;
/// Bytes of a section record.
pub const SECTION_BYTES: usize = 32;
/// Bytes of a model's hash.
pub const HASH_BYTES: usize = 32;

/// Words of a package record.
pub static PACKAGE: &[Word] = &[
    word(0, 1, "magic", Claimed, "ANEH"),
    word(1, 1, "version", Claimed, "version of the package"),
    word(2, 2, "bytes", Claimed, "bytes of the package"),
    word(4, 1, "programs", Claimed, "number of programs; their 64-bit byte offsets follow the record"),
    word(5, 1, "checksum", Claimed, "all ones: taken as valid"),
];
/// Words of a program record.
pub static PROGRAM: &[Word] = &[
    word(0, 1, "magic", Claimed, "ANEP"),
    word(1, 1, "id", Claimed, "identity of the program"),
    word(2, 1, "flags", Claimed, "0"),
    word(3, 1, "procedures", Claimed, "number of procedures"),
    word(4, 1, "sections", Claimed, "number of section records that follow"),
    word(5, 8, "hash", Claimed, "SHA-256 of stream and kernel data"),
    word(13, 1, "reserved", Claimed, "0"),
];
/// Words of a section record.
pub static SECTION: &[Word] = &[
    word(0, 1, "magic", Claimed, "ANES"),
    word(1, 1, "kind", Claimed, "kind of the content"),
    word(2, 2, "offset", Claimed, "byte offset in the package"),
    word(4, 2, "bytes", Claimed, "bytes of the content"),
    word(6, 1, "align", Claimed, "boundary that the content starts on"),
    word(7, 1, "flags", Claimed, "0"),
];

/// Kinds of sections.
pub static SECTION_KINDS: &[Code] = &[
    code(GENERIC, "generic", Claimed, "register layout, size of the first descriptor, intermediate bytes"),
    code(KERNEL, "kernel", Claimed, "coefficients and tables"),
    code(TEXT, "text", Claimed, "task descriptors"),
    code(OPERATION, "operation", Claimed, "place and size of each task descriptor"),
    code(PROCEDURE, "procedure", Claimed, "a procedure's name and bound tensors"),
];
/// Kind of general numbers.
pub const GENERIC: u32 = 0;
/// Kind of kernel data.
pub const KERNEL: u32 = 1;
/// Kind of a task stream.
pub const TEXT: u32 = 2;
/// Kind of the list of descriptors.
pub const OPERATION: u32 = 3;
/// Kind of a procedure.
pub const PROCEDURE: u32 = 4;

/// Words of a generic section.
pub static GENERIC_ROWS: &[Word] = &[
    word(0, 1, "td-version", Claimed, "version of the task descriptors"),
    word(1, 1, "first-task", Claimed, "words of the first task descriptor"),
    word(2, 2, "scratch-bytes", Claimed, "bytes of the intermediate region"),
];
/// Words of one entry of an operation section.
pub static OPERATION_ROWS: &[Word] = &[
    word(0, 1, "offset", Claimed, "byte offset of the descriptor in the text section"),
    word(1, 1, "words", Claimed, "words of the descriptor"),
];
/// Words of a procedure section before its ports.
pub static PROCEDURE_ROWS: &[Word] = &[
    word(0, 1, "first-operation", Claimed, "position of its first operation"),
    word(1, 1, "operations", Claimed, "number of operations"),
    word(
        2,
        1,
        "ports",
        Claimed,
        "number of port entries that follow; names follow the partition entries, each ended by a zero byte",
    ),
    word(
        3,
        1,
        "partitions",
        Claimed,
        "number of partition entries, which follow the port entries; 0 if they are not stated",
    ),
];
/// Words of a partition entry of a procedure section.
pub static PARTITION_ROWS: &[Word] = &[
    word(0, 1, "first-operation", Claimed, "position of its first operation"),
    word(1, 1, "operations", Claimed, "number of operations, which one request to the engine executes"),
];
/// Words of a port entry of a procedure section.
pub static PORT_ROWS: &[Word] = &[
    word(0, 1, "bar", Claimed, "base address register"),
    word(1, 1, "direction", Claimed, "1 input, 2 output"),
    word(2, 1, "type", Claimed, "number of the element type, as in the compiler's container"),
    word(3, 1, "reserved", Claimed, "0"),
    word(4, 1, "n", Claimed, "batch"),
    word(5, 1, "c", Claimed, "channels"),
    word(6, 1, "h", Claimed, "rows"),
    word(7, 1, "w", Claimed, "columns"),
    word(8, 2, "batch-stride", Claimed, "bytes between batches"),
    word(10, 2, "plane-stride", Claimed, "bytes between channels"),
    word(12, 2, "row-stride", Claimed, "bytes between rows"),
    word(14, 2, "bytes", Claimed, "bytes of the buffer"),
];

/// Number of words of a record: the end of its last row.
pub const fn words(rows: &[Word]) -> usize {
    let last = &rows[rows.len() - 1];
    last.at + last.words
}
