//! Programs and containers as text: a listing that assembles back, and an explanation for people.
//!
//! Three forms. The listing of a [`crate::Program`] ([`list`], [`assemble`]) and of a whole container
//! ([`list_container`], [`assemble_container`]) are line-oriented, name every field, leave out what is zero, and give
//! identical bytes back. The [`Dump`] explains a container with offsets and evidence; it is not read back.
//!
//! Common to the listings: tokens are separated by blanks, `;` starts a comment, numbers are decimal or `0x`
//! hexadecimal, texts stand in double quotes, indentation means nothing.

mod asm;
mod block;
mod dump;
mod dump_file;
mod dump_tasks;
mod lex;
mod listing;
mod value;

pub use asm::{assemble_container, list_container};
pub use dump::{Anomaly, Chapter, Dump, Entry, Node, Part, Selection, UnknownPart};
pub use lex::TextError;
pub use listing::{assemble, list};
