//! Dialects of the container: differences between compiler versions.

use super::Evidence::{self, Bytes, Claimed};
use super::hwx::{self, SectionRow};

/// Convention where the book's chapters and the bytes of Apple's programs disagree (`docs/conflicts.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Convention {
    /// That of the bytes.
    #[default]
    Samples,
    /// That of the chapters.
    Book,
}

/// Segments, one page each, of the intermediate region in the book's identity layer.
pub const BOOK_SCRATCH_SEGMENTS: u64 = 2;

/// A compiler version's container.
#[derive(Debug)]
pub struct Dialect {
    /// Name on the command line.
    pub name: &'static str,
    /// Version in the banner.
    pub version: &'static str,
    /// Evidence of the row as a whole.
    pub evidence: Evidence,
    /// One sentence.
    pub meaning: &'static str,
    /// Command that binds a tensor to its window.
    pub port_command: u32,
    /// Flavor of the run state.
    pub run_flavor: u32,
    /// Words of the run state.
    pub run_words: usize,
    /// Words of a tensor record.
    pub tensor_words: usize,
    /// Number of element types with a symbol: the first ones of [`hwx::TYPES`].
    pub types: usize,
    /// Section with kernel data.
    pub kernel: SectionRow,
    /// Intermediate region and windows have the lowest addresses, before the stream.
    pub windows_first: bool,
    /// Inputs have the lowest base registers.
    pub inputs_first: bool,
    /// Kernels have a symbol for each of the sixteen engines; those of idle engines point to the section's end.
    pub idle_symbols: bool,
    /// Output records have `@output` in their first name and not in the second.
    pub output_suffix: bool,
    /// A note with the runtime's version follows the banner.
    pub note: bool,
    /// Lines of the banner before the target.
    pub banner: &'static [&'static str],
    /// Prefix of the options in the banner.
    pub flags: &'static [&'static str],
    /// True if [`crate::formats::hwx`] has all that the writer needs.
    pub written: bool,
}

/// Suffix of output names in later dialects.
pub const OUTPUT_SUFFIX: &str = "@output";
/// The note of later dialects: owner, offset of its data, size, and two words.
pub const NOTE_WORDS: [u32; 10] = [0x762e_7472, 0x6973_7265, 0x0000_6e6f, 0, 0x28, 0, 4, 0, 0x0001_0001, 0];

/// Key of the banner's line with the module's version.
pub const BANNER_MODULE_VERSION: &str = "ModuleVersion:";
/// Line of the banner with the version of the language component that the source network states. The book says that the
/// banner names it; its text is our own.
pub const BANNER_COMPONENT: &str = " coremlc-component-MIL: ";

const BANNER_509: &[&str] = &[
    "ANEC v1",
    "zin_ane_compiler v9.509.0",
    "",
    " Module ANEC: ",
    "\t ModuleBundleName: com.apple.ANECompilerFramework",
    "\t ModuleVersion: 9.509.0",
    "\t ModuleCompilationFlags: ",
];

/// Most bytes of one section of kernel data: `--max-kernel-section-size` of the banner. More are split into several sections.
pub const MAX_KERNEL_SECTION_BYTES: u64 = 134_217_728;

/// Options that the book's sample names; the compiler writes more.
const FLAGS_509: &[&str] = &[
    "--fl2-cache-mode=resident",
    "--fkernel-rewind=enabled",
    "--memcache-size=4194304",
    "--bss-limit=3221225472",
    "--foptimize-ne-utilization=true",
    "--split-kernel-section=true",
    "--max-kernel-section-size=134217728",
    "--e4m3-overflow-setting=Saturate",
    "--enable-global-cw-optimization=true",
];

/// Compiler 4.2.1.
pub static ZIN_421: Dialect = Dialect {
    name: "zin-4.2.1",
    version: "4.2.1",
    evidence: Bytes,
    meaning: "32-bit windows, ten element types, kernel data behind the stream",
    port_command: hwx::PORT,
    run_flavor: hwx::FLAVOR_RUN,
    run_words: hwx::run_state::WORDS,
    tensor_words: hwx::tensor::WORDS,
    types: hwx::TYPES_421,
    kernel: hwx::CONST,
    windows_first: false,
    inputs_first: false,
    idle_symbols: false,
    output_suffix: false,
    note: false,
    banner: hwx::BANNER_421,
    flags: hwx::BANNER_FLAGS_421,
    written: true,
};

/// Compiler 5.4.1: longer tensor records, fifteen element types.
pub static ZIN_541: Dialect = Dialect {
    name: "zin-5.4.1",
    version: "5.4.1",
    evidence: Claimed,
    meaning: "as 4.2.1, with longer tensor records and fifteen element types",
    tensor_words: 0x34a,
    types: 15,
    output_suffix: true,
    banner: &["ANEC v1", "zin_ane_compiler v5.4.1"],
    ..ZIN_421
};

/// Compiler 7.6.4: 64-bit windows, inputs before outputs.
pub static ZIN_764: Dialect = Dialect {
    name: "zin-7.6.4",
    version: "7.6.4",
    meaning: "as 5.4.1, with 64-bit windows, inputs before outputs, and properties in the run state",
    port_command: hwx::PORT64,
    run_words: 0x21a,
    inputs_first: true,
    banner: &["ANEC v1", "zin_ane_compiler v7.6.4"],
    ..ZIN_541
};

/// Compiler 9.509: kernel data in a segment of its own, windows before the stream.
pub static ZIN_9509: Dialect = Dialect {
    name: "zin-9.509",
    version: "9.509.0",
    meaning: "as 7.6.4, with kernel data in its own segment, windows before the stream, and a note",
    types: 23,
    kernel: hwx::KERNEL,
    windows_first: true,
    idle_symbols: true,
    note: true,
    banner: BANNER_509,
    flags: FLAGS_509,
    ..ZIN_764
};

/// Compiler 10.26.6, of the M4 containers: read and rewritten; not written from a program.
pub static ZIN_10266: Dialect = Dialect {
    name: "zin-10.26.6",
    version: "10.26.6",
    evidence: Bytes,
    meaning: "as 9.509, with another run state and packets as task stream; read only",
    run_flavor: hwx::FLAVOR_RUN_LATER,
    run_words: 0x222,
    written: false,
    ..ZIN_9509
};

/// All dialects, oldest first.
pub static DIALECTS: &[&Dialect] = &[&ZIN_421, &ZIN_541, &ZIN_764, &ZIN_9509, &ZIN_10266];

/// The dialect of a name.
pub fn by_name(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|d| d.name == name).copied()
}

/// The dialect of a banner: that of its version, otherwise the newest one that is older.
pub fn of_version(version: &str) -> Option<&'static Dialect> {
    let parts = |v: &str| -> [u64; 3] {
        let mut numbers = v.split('.').map(|p| p.parse().unwrap_or(0));
        std::array::from_fn(|_| numbers.next().unwrap_or(0))
    };
    DIALECTS.iter().rev().find(|d| parts(d.version) <= parts(version)).copied()
}
