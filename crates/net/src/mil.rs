//! MIL programs: the messages of the model format, their text form both ways, and conversion of a net to a program.

#[doc(hidden)]
pub(crate) mod lex;
mod parse;
mod print;
#[doc(hidden)]
pub mod proto;
mod write;

pub use parse::{Fault, parse};
pub use print::{print, printed};
#[doc(inline)]
pub use proto::Program;
pub use write::{Written, manifest, model, write};

/// Attribute of a message that holds the suffix of `operation<opset>` in text; the text form cannot spell its name.
pub(crate) const OPSET_TAG: &str = "<opset>";

/// Build information of the version of the framework's compiler whose text is written here; its readers require it.
const BUILD_INFO: &str =
    "program(1.0) [buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3520.4.1\"}})] {}";

/// The attributes of a program.
fn build_info() -> std::collections::BTreeMap<String, proto::Value> {
    let mut attributes = parse(BUILD_INFO).unwrap_or_default().attributes;
    attributes.retain(|name, _| name == "buildInfo");
    attributes
}

/// Version of the language component that MIL text states in its build information; `None` for other bytes and text without one.
pub fn component(bytes: &[u8]) -> Option<String> {
    let program = parse(std::str::from_utf8(bytes).ok()?).ok()?;
    let text = |value: &proto::Value| match value.source.as_ref()? {
        proto::Source::Immediate(proto::ImmediateValue { value: Some(proto::Immediate::Tensor(t)) }) => {
            match t.elements.as_ref()? {
                proto::Elements::Strings(s) => s.values.first().cloned(),
                _ => None,
            }
        }
        _ => None,
    };
    let Some(proto::Source::Immediate(info)) = program.attributes.get("buildInfo")?.source.as_ref() else {
        return None;
    };
    let Some(proto::Immediate::Dictionary(info)) = &info.value else { return None };
    let pair = info.pairs.iter().find(|p| p.key.as_ref().and_then(text).as_deref() == Some("coremlc-component-MIL"))?;
    text(pair.value.as_ref()?)
}
