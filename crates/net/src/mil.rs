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

/// Build information of the framework's compiler, in the version whose text is written here: its readers ask for it.
const BUILD_INFO: &str =
    "program(1.0) [buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3520.4.1\"}})] {}";

/// The attributes of a program.
fn build_info() -> std::collections::BTreeMap<String, proto::Value> {
    let mut attributes = parse(BUILD_INFO).unwrap_or_default().attributes;
    attributes.retain(|name, _| name == "buildInfo");
    attributes
}

#[cfg(test)]
mod tests;
