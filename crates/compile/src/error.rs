//! Errors of compilation.

use anemone_check::Refusal;
use anemone_net::{Net, Op};
use anemone_program::FieldError;

/// Refusal or internal defect, with its location and the compared numbers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No register layout of the chip is known, so that nothing can be emitted for it.
    #[error("no register layout is known for {chip}: nothing can be compiled for it")]
    NoLayout {
        /// Compiler target.
        chip: &'static str,
    },
    /// An operation that this compiler does not lower.
    #[error("{op} ({kind}): {reason}")]
    Unsupported {
        /// Operation name.
        op: String,
        /// Its kind.
        kind: String,
        /// The form that is not supported.
        reason: String,
        /// A form that is supported.
        suggestion: &'static str,
    },
    /// A layer that the chip's compiler refuses, with its own message if it is known.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// A quantity exceeds a limit of the chip.
    #[error("{op}: {what} is {found}, the limit of {chip} is {limit}")]
    Limit {
        /// Operation name.
        op: String,
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The chip's limit.
        limit: u64,
        /// Compiler target.
        chip: &'static str,
    },
    /// A rule of the dry run refuses a layer.
    #[error("{op}: {}{}", refusal.message, refusal.apple.as_ref().map_or(String::new(), |text| format!("; apple: {text}")))]
    Rule {
        /// Operation name.
        op: String,
        /// Refusal, with its fix.
        refusal: Box<Refusal>,
    },
    /// A task would read outside of its operand: a defect of the compiler.
    #[error(
        "{op}: reads {row_bytes} bytes at {at_bytes:#x} of {operand} ({operand_bytes} bytes), outside of its elements"
    )]
    Reads {
        /// Operation name.
        op: String,
        /// Name of the value that is read.
        operand: String,
        /// Offset of the row in the operand's memory.
        at_bytes: u64,
        /// Length of the row.
        row_bytes: u64,
        /// Size of the operand's memory.
        operand_bytes: u64,
    },
    /// The log reports that the result is no longer needed.
    #[error("the compilation was stopped")]
    Stopped,
    /// The network is malformed.
    #[error("{0}")]
    Net(String),
    /// A value does not fit its register: legalization passed a layer that it should have refused.
    #[error("layer {layer}: {source}")]
    Field {
        /// Layer name.
        layer: String,
        /// The field and its limit.
        source: FieldError,
    },
}

/// Quantities of layers that a network states as extents of values.
const EXTENTS: [&str; 7] = ["batch", "channels", "depth", "height", "width", "kernel width", "kernel height"];

impl Error {
    /// The error in terms of a network: an extent that only a rewriting made gives way to those of the operation.
    pub(crate) fn in_terms_of(self, net: &Net) -> Error {
        let Error::Rule { op: name, mut refusal } = self else { return self };
        let of_op = |op: &&Op| op.name == name;
        let values = net.ops.iter().filter(of_op).flat_map(|op| op.inputs.iter().chain(&op.outputs));
        let shapes: Vec<&[usize]> = values.map(|&id| net.value(id).ty.shape.as_slice()).collect();
        let greatest = shapes.iter().max_by_key(|shape| shape.iter().max());
        let made = |found: usize| !shapes.iter().any(|shape| shape.contains(&found));
        if let (Some(shape), Ok(found)) = (greatest, refusal.found.parse())
            && EXTENTS.contains(&refusal.quantity)
            && made(found)
        {
            refusal.cause = format!("extents of {shape:?}");
            refusal.message =
                format!("extents of {shape:?}: no form is within the limit of {}, {}", refusal.quantity, refusal.limit);
            (refusal.found, refusal.apple) = (format!("{shape:?}"), None);
        }
        Error::Rule { op: name, refusal }
    }

    /// Name of the operation that the error refers to, if any.
    pub fn op(&self) -> Option<&str> {
        match self {
            Error::Unsupported { op, .. } | Error::Limit { op, .. } | Error::Rule { op, .. } => Some(op),
            Error::Reads { op, .. } => Some(op),
            Error::Refused(refused) => Some(&refused.op),
            Error::NoLayout { .. } | Error::Net(_) | Error::Stopped | Error::Field { .. } => None,
        }
    }
}

/// Native layer that a chip's compiler refuses.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{op} ({kind}): refused by {stage} for {chip}: {}", apple.as_deref().unwrap_or(reason))]
pub struct Refused {
    /// Operation name.
    pub op: String,
    /// Its kind.
    pub kind: String,
    /// Compiler target.
    pub chip: &'static str,
    /// Stage that refuses.
    pub stage: &'static str,
    /// Value found and value allowed.
    pub reason: String,
    /// Apple's text.
    pub apple: Option<String>,
    /// Suggested fix.
    pub suggestion: String,
}

/// Result of the compiler's stages.
pub type Result<T> = std::result::Result<T, Error>;
