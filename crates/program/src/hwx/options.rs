//! Content of a container in addition to its program, and errors of building one.

use anemone_facts::formats::dialects::{self, Dialect};
use anemone_facts::formats::hwx as rows;

use super::defs::{Container, name16_text};
use crate::StreamError;

/// Content of a container in addition to its program.
#[derive(Clone, Debug)]
pub struct Options {
    /// Compiler whose container layout is used.
    pub dialect: &'static Dialect,
    /// Compiler target in the banner; empty: the generation of the program's registers.
    pub target: String,
    /// Path of the source network in the banner.
    pub netplist_path: String,
    /// Path of the container in the banner.
    pub output_path: String,
    /// Names of the kernel symbols in order, one per stream. Further names are derived from the kernel bytes: `K`,
    /// then 64 upper-case hexadecimal digits of the SHA-256 of the task's streams, then `_ne_<engine>` for kernels
    /// with coefficients. The vendor's own digits come from an unknown input; nothing depends on them.
    pub kernel_names: Vec<String>,
    /// Symbols of element types in addition to those that the dialect lists.
    pub more_types: Vec<String>,
    /// Number of the first tensor's symbol; `None` for the next after the element types.
    pub first_tensor_number: Option<u32>,
    /// Largest size in bytes of a section of kernel data in a segment of its own; whole pages.
    pub kernel_section_bytes: u64,
    /// Version of the language component of the source network, in the banner of dialects with modules; empty if there is none.
    pub component: String,
    /// Number of segments of the intermediate region; one of the book's samples has two.
    pub scratch_segments: u64,
    /// Base-2 logarithm of the alignment of the task stream's section.
    pub text_align_log2: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            dialect: &dialects::ZIN_421,
            target: String::new(),
            netplist_path: String::new(),
            output_path: String::new(),
            kernel_names: Vec::new(),
            more_types: Vec::new(),
            first_tensor_number: None,
            kernel_section_bytes: dialects::MAX_KERNEL_SECTION_BYTES,
            component: String::new(),
            scratch_segments: 1,
            text_align_log2: rows::TEXT.align_log2,
        }
    }
}

impl Options {
    /// The options with which [`super::from_program`] reproduces a container.
    pub fn of(container: &Container) -> Options {
        let banner = container.banner().unwrap_or_default();
        let path = |option: &str| {
            let line = banner.lines().filter_map(|l| l.strip_prefix('\t')?.strip_prefix(option)).next_back();
            line.unwrap_or_default().to_string()
        };
        let windows: Vec<u64> = container.windows().map(|(_, w)| w.address).collect();
        let kernel_names = container.symtab().map_or(Vec::new(), |t| {
            let kernels = t.symbols.iter().filter(|s| s.kind == rows::SYMBOL_DEFINED && !windows.contains(&s.value));
            kernels.map(|s| t.name(s)).collect()
        });
        let scratch =
            container.segments().filter(|s| s.sections.iter().any(|x| name16_text(&x.name) == rows::BSS.section));
        let text = container.section(rows::TEXT.segment, rows::TEXT.section);
        Options {
            text_align_log2: text.map_or(rows::TEXT.align_log2, |text| text.align_log2),
            scratch_segments: (scratch.count() as u64).max(1),
            dialect: container.dialect().filter(|d| d.written).unwrap_or(&dialects::ZIN_421),
            target: path(rows::BANNER_TARGET),
            netplist_path: path(rows::BANNER_INPUT),
            output_path: path(rows::BANNER_OUTPUT),
            component: path(dialects::BANNER_COMPONENT),
            kernel_names,
            ..Options::default()
        }
    }
}

/// Error for a program that a container cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The stream is not a chain of task descriptors.
    #[error("task stream: {0}")]
    Stream(#[from] StreamError),
    /// The dialect has a reader only.
    #[error("containers of {dialect} can be read, not written; writable are {known}")]
    Dialect {
        /// Name of the dialect.
        dialect: &'static str,
        /// Dialects that can be written.
        known: String,
    },
    /// The generation has no CPU subtype.
    #[error("no CPU subtype is known for {generation}")]
    Generation {
        /// Generation name.
        generation: &'static str,
    },
    /// No program is given.
    #[error("no procedure: a container has at least one")]
    Empty,
    /// The name of a procedure is in use, or its generation differs from the first one's.
    #[error(
        "procedure {name:?} for {generation}: every procedure has a name of its own, and all are for one generation"
    )]
    Procedure {
        /// Name of the procedure.
        name: String,
        /// Generation that it is compiled for.
        generation: &'static str,
    },
    /// A quantity does not fit its field.
    #[error("{what} is {found:#x}, at most {limit:#x}")]
    Limit {
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Largest value.
        limit: u64,
    },
    /// A port's base register is taken by another part or port, or does not exist.
    #[error("port {name:?}: base register {bar} is not free (first port register {first}, registers {count})")]
    Bar {
        /// Port name.
        name: String,
        /// Base register.
        bar: u8,
        /// First base register of ports.
        first: u8,
        /// Number of base registers.
        count: usize,
    },
    /// A kernel stream reaches past the kernel data.
    #[error("task {task}: kernel stream {engine} is {bytes:#x} bytes at {offset:#x}, kernel data has {have:#x}")]
    Kernel {
        /// Position in the chain.
        task: usize,
        /// Stream.
        engine: u32,
        /// Byte offset in the kernel data.
        offset: u64,
        /// Bytes of the stream.
        bytes: u64,
        /// Bytes of kernel data.
        have: u64,
    },
    /// A name or path holds a zero byte, or a path a line break.
    #[error("{what} {text:?}: byte {at} is a control character")]
    Text {
        /// The name's role.
        what: &'static str,
        /// The text.
        text: String,
        /// Byte offset of the character.
        at: usize,
    },
}
