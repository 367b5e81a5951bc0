//! What the machine is: registers, chips, formats and limits as rows.
//!
//! This room holds facts only. It does no I/O, depends on nothing, and decides nothing that a row does not say.
//! Assembler, disassembler, engine, validator, documents and command line all read the same rows.

pub mod chips;
pub mod code;
pub mod driver;
pub mod enums;
mod fields;
pub mod formats;
pub mod kernel;
pub mod layout;
pub mod lut;
pub mod numerics;
pub mod probes;
mod table;
pub mod tolerance;

pub use fields::Field;
pub use table::{Block, Coding, Evidence, FieldInfo, Layout, Row, Space};
