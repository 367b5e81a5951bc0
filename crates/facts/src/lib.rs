//! Facts about the machine as rows: registers, chips, formats and limits.
//!
//! This crate has facts only: no I/O, no dependencies, and no decision that a row does not state.
//! Assembler, disassembler, engine, validator, documents and command line use the same rows.
//!
//! A chip by any of its names, and a field with its place in a generation:
//!
//! ```
//! use anemone_facts::{Field, layout, silicon};
//!
//! let chip = silicon::by_name("iPhone 12").expect("a known product");
//! assert_eq!(chip.target, "h13");
//! let row = layout::H13.rows.iter().find(|row| row.field == Field::Cin).expect("a row");
//! assert_eq!(row.evidence.letter(), "X");
//! ```

mod basis;
pub mod book;
pub mod chips;
pub mod code;
pub mod cost;
pub mod driver;
pub mod enums;
pub mod epilogue;
mod fields;
pub mod formats;
pub mod hal;
pub mod kernel;
pub mod layout;
pub mod legal;
pub mod lint;
pub mod lut;
pub mod native;
pub mod numerics;
pub mod ops;
mod own;
pub mod placement;
pub mod probes;
pub mod silicon;
pub mod staging;
mod table;
pub mod tolerance;
pub mod validators;
pub mod weights;

pub use basis::Basis;
pub use fields::{Coding, Field, FieldInfo};
pub use table::{Block, Codec, Evidence, Layout, Row, Space};
