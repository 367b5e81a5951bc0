//! MIL programs as such: the messages of the model format, their text form both ways, and writing a net as one.

mod lex;
mod parse;
mod print;
pub(crate) mod proto;
mod write;

pub use parse::{Fault, parse};
pub use print::print;
pub use proto::Program;
pub use write::{Written, manifest, model, write};

/// Attribute of a message that keeps what the text writes as `operation<opset>`; no text can spell this name.
pub(crate) const OPSET_TAG: &str = "<opset>";

#[cfg(test)]
mod tests;
