//! What a container holds beside its program, and why a program cannot become one.

use anemone_facts::formats::hwx as rows;

use super::defs::Container;
use crate::StreamError;

/// Compiler whose container layout is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// `zin_ane_compiler v4.2.1`: port commands with 32-bit addresses, ten element types, kernel data in `__TEXT`.
    #[default]
    Zin421,
}

/// What a container holds beside its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Container layout.
    pub compat: Compat,
    /// Path of the source network in the banner.
    pub netplist_path: String,
    /// Path of the container in the banner.
    pub output_path: String,
    /// Names of the kernel symbols in order, one per stream. Where it ends, names are made from the kernel bytes: `K`,
    /// then 64 upper-case hexadecimal digits of the SHA-256 of the task's streams, then `_ne_<engine>` for kernels
    /// with coefficients. The vendor's own digits come from an unknown input; nothing depends on them.
    pub kernel_names: Vec<String>,
}

impl Options {
    /// The options with which [`super::from_program`] gives a container back, taken from it.
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
        Options {
            compat: Compat::Zin421,
            netplist_path: path(rows::BANNER_INPUT),
            output_path: path(rows::BANNER_OUTPUT),
            kernel_names,
        }
    }
}

/// A program that a container cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The stream is not a chain of task descriptors.
    #[error("task stream: {0}")]
    Stream(#[from] StreamError),
    /// The generation has no CPU subtype.
    #[error("no CPU subtype is known for {generation}")]
    Generation {
        /// Generation name.
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
