//! Programs and containers as text: a listing that assembles back, and an explanation.
//!
//! A listing is line-oriented, names every field, omits zeros, and reproduces identical bytes: of a
//! [`crate::Program`] ([`list`], [`assemble`]), of a container ([`list_container`], [`assemble_container`]), of a dispatch
//! descriptor ([`list_descriptor`], [`assemble_descriptor`]), of a firmware container ([`list_package`],
//! [`assemble_package`]) and of a register image ([`list_image`], [`assemble_image`]). The [`Dump`] explains any of them
//! with offsets and evidence; it cannot be read back.
//!
//! Common to the listings: tokens are separated by blanks, `;` starts a comment, numbers are decimal or `0x`
//! hexadecimal, texts are in double quotes, indentation is ignored.

mod asm;
mod asm_e5;
mod asm_firmware;
mod block;
mod diff;
mod dump;
mod dump_file;
mod dump_forms;
mod dump_tasks;
mod image;
pub(crate) mod lex;
mod listing;
mod value;

pub use asm::{assemble_container, list_container};
pub use asm_e5::{assemble_descriptor, list_descriptor};
pub use asm_firmware::{assemble_package, list_package};
pub use diff::{Change, differences};
pub use dump::{Anomaly, Chapter, Dump, Entry, Node, Part, Selection, UnknownPart};
pub use dump_tasks::{StoredKernel, stored_kernels};
pub use image::{assemble_image, list_image};
pub use lex::TextError;
pub use listing::{assemble, list};
