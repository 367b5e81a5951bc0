//! The `.net` text form of a graph: printer and parser.
//!
//! ```text
//! net "main" {
//!   input %x: f16[1, 3, 8, 8] surface=[64, 512, 1]
//!   const %w: f16[4, 3, 1, 1] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.5]
//!   const %b: f16[400] = blob 0
//!   %y: f16[1, 4, 8, 8] = conv(%x, %w) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1
//!   %z: f16[1, 4, 8, 8] = relu(%y) name="activation"
//!   output %z
//! }
//! ```
//!
//! Statements are in definition order, a constant before its first use. Constants of more than
//! [`INLINE_ELEMENTS`] elements are references to a table of tensors that accompanies the text. `surface` is row
//! bytes, plane bytes and interleave. `state %in %out name="..."` pairs an input with its next value, `counted %rows %count axis=0` an
//! output with the one that has its number of real rows. An operation has the name of its first result unless it has a `name`. Names with
//! characters other than letters, digits and `_.@/$+-` are quoted. `#` begins a comment that ends with its line.

mod attributes;
mod parse;
mod print;

pub(crate) use attributes::{Attribute, Attributes, attributes};
pub use parse::parse;
pub use print::print;

/// Attributes of an operation with their values in text form.
pub(crate) fn attributes_of(kind: &crate::ops::OpKind) -> Vec<(&'static str, String)> {
    attributes::attributes(kind).into_iter().map(|(name, value)| (name, value.to_string())).collect()
}

/// Most elements of a constant that is written in the text itself.
pub const INLINE_ELEMENTS: usize = 16;

/// Returns true for a character that unquoted names may have.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.@/$+-".contains(c)
}
