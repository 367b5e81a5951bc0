//! The compiler's container: reader, writer, conversion to and from [`crate::Program`].
//!
//! Reading keeps every byte: bytes without a structure are kept as [`Residue`] and written back in place, so that
//! `Container::read(b)?.write() == b` for every input that is accepted.

mod build;
mod defs;
mod image;
mod kernel;
mod lift;
mod load;
mod loaded;
mod options;
mod outline;
mod read;
mod runtime;
mod symbols;
mod write;

pub use crate::bytes::Residue;
pub use build::{from_program, from_programs, to_file};
pub(crate) use defs::text_at;
pub use defs::{
    Command, Container, Error, Header, PortWindow, Relocation, RunState, Section, Segment, Symbol, Symtab,
    TensorRecord, Thread, name16, name16_text,
};
pub use image::{Aperture, Image, MapError, Problem, Resolved};
pub use kernel::KernelData;
pub use lift::LiftError;
pub(crate) use lift::{BASES, element_of, type_of};
pub use load::LoadFinding;
pub use loaded::{LoadedError, SIGNATURE, TRAILER_BYTES, is_loaded};
pub use options::{BuildError, Options};
pub use runtime::{ProcedureTasks, RuntimeGraph};
pub use symbols::{SymbolError, TensorSymbol};
