//! The error type of this crate: every variant has the place, the value found and the values allowed.

use crate::types::{DType, TensorType};

/// Errors in a graph, a text or a model file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Error {
    // Types of one operation; `InOp` says which one.
    #[error("{kind} has {}", operands(*.found, *.least, *.most))]
    Arity { kind: String, found: usize, least: usize, most: usize },
    #[error("{kind} has {found} results, gives {expected}")]
    Results { kind: &'static str, found: usize, expected: usize },
    #[error("{kind}: operand {operand} has rank {found}, takes {least} to {most}")]
    Rank { kind: &'static str, operand: usize, found: usize, least: usize, most: usize },
    #[error("{kind}: axis {axis} of operand {operand} has extent {found}, expected {expected}")]
    Extent { kind: &'static str, operand: usize, axis: usize, found: usize, expected: usize },
    #[error("{kind}: operand {operand} is {found}, takes {expected}")]
    ElementType { kind: &'static str, operand: usize, found: DType, expected: &'static str },
    #[error("{kind}: {what} has {found} entries, expected {expected}")]
    AttributeLength { kind: &'static str, what: &'static str, found: usize, expected: usize },
    #[error("{kind}: {what} is {found}, allowed is {least} to {most}")]
    Attribute { kind: &'static str, what: &'static str, found: u64, least: u64, most: u64 },
    #[error("{kind}: axis {axis}: window of {window} does not fit the padded extent {extent}")]
    Window { kind: &'static str, axis: usize, window: u64, extent: u64 },
    #[error("{kind}: extents {x:?} do not broadcast with {y:?}")]
    Broadcast { kind: &'static str, x: Vec<usize>, y: Vec<usize> },
    #[error("{kind}: the result's type cannot be derived and is not declared")]
    NotDeclared { kind: &'static str },
    #[error("{kind}: {found} elements do not fill the {expected} of the result")]
    ElementCount { kind: &'static str, found: usize, expected: usize },
    #[error("{what} has extents {shape:?}: {elements} elements, limit {limit}")]
    TooLarge { what: String, shape: Vec<usize>, elements: usize, limit: usize },
    #[error("{what} has extent 0 along axis {axis}")]
    Empty { what: String, axis: usize },

    // Graphs.
    #[error("{op}: {source}")]
    InOp { op: String, source: Box<Error> },
    #[error("{op}: value {id} does not exist, the net has {count}")]
    NoSuchValue { op: String, id: u32, count: usize },
    #[error("{op}: operand `{value}` is used before it is defined")]
    NotDefined { op: String, value: String },
    #[error("`{value}` is defined again by {op}")]
    DefinedTwice { op: String, value: String },
    #[error("the name `{name}` is used by values {first} and {second}")]
    NameTwice { name: String, first: u32, second: u32 },
    #[error("output `{value}` is not defined")]
    OutputNotDefined { value: String },
    #[error("`{value}` is {found}, but {op} gives {expected}")]
    TypeMismatch { op: String, value: String, found: TensorType, expected: TensorType },
    #[error("constant `{value}` has type {ty}, but its data is {found} with {elements} elements")]
    ConstantData { value: String, ty: TensorType, found: TensorType, elements: usize },
    #[error("state `{name}` does not lead from an input to an output of the same type")]
    State { name: String },
    #[error("the number of rows of `{name}` along axis {axis} is not one element of another output")]
    Counted { name: String, axis: usize },
    #[error("{found} inputs given, the net has {expected}")]
    InputCount { found: usize, expected: usize },
    #[error("input `{input}` is {found}, the net takes {expected}")]
    InputType { input: String, found: TensorType, expected: TensorType },
    #[error("stored constant: {reason}")]
    Stored { reason: String },
    #[error("{op}: index {found} is outside an axis of extent {extent}")]
    Index { op: String, found: i64, extent: usize },

    // Text form.
    #[error("line {line}, column {column}: {what}")]
    Text { line: usize, column: usize, what: TextFault },

    // Files.
    #[error("{path}: cannot be read: {reason}")]
    File { path: String, reason: String },
    #[error("{place}: not understood: {reason}")]
    Syntax { place: String, reason: String },
    #[error("{place}: {what} needs bytes {offset}..{end}, {available} are there")]
    OutOfBounds { place: String, what: &'static str, offset: u64, end: u64, available: u64 },
    #[error("{place}: {what} is {found:#x}, expected {expected:#x}")]
    Magic { place: String, what: &'static str, found: u64, expected: u64 },
    #[error("{place}: `{key}` is missing")]
    Missing { place: String, key: String },
    #[error("{place}: `{key}` is {found}, expected {expected}")]
    WrongType { place: String, key: String, found: String, expected: &'static str },
    #[error("{place}: `{key}` is {found}, allowed is {least} to {most}")]
    OutOfRange { place: String, key: String, found: i64, least: i64, most: i64 },
    #[error("{place}: no value is named `{name}`")]
    UnknownName { place: String, name: String },
    #[error("no function is called `{name}`; the model has {known}")]
    NoFunction { name: String, known: String },
    #[error("input `{input}`: the shape {found:?} is not one that the model takes: {takes}")]
    InputShape { input: String, found: Vec<usize>, takes: String },
    #[error("no input has the extent `{name}` that is given: {reason}")]
    OtherExtent { name: String, reason: String },
    #[error("input `{input}`: axis {axis} has no extent; give one for `{name}`")]
    NoExtent { input: String, axis: usize, name: String },
    #[error("the dimension `{name}` is {first} in the array of one input and {second} in that of input `{input}`")]
    ExtentsDiffer { name: String, first: usize, input: String, second: usize },
    #[error("{place}: nested {found} deep, limit {limit}")]
    TooDeep { place: String, found: usize, limit: usize },
    #[error("the model is a {found}, not an ML Program; {help}")]
    ModelKind { found: String, help: &'static str },
    #[error("InvalidParamSyntax: unit `{unit}` ({layer}): `{key}`: {reason}")]
    InvalidParam { unit: String, layer: &'static str, key: String, reason: String },
    #[error("`{output}`: {op} is not supported: {reason}")]
    Unsupported { op: String, output: String, reason: String },
}

/// Faults that the text parser finds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum TextFault {
    #[error("found {found}, expected {expected}")]
    Unexpected { found: String, expected: &'static str },
    #[error("no operation is called `{name}`")]
    UnknownOp { name: String },
    #[error("`{value}` is not defined")]
    UnknownValue { value: String },
    #[error("`{value}` is defined again")]
    DefinedTwice { value: String },
    #[error("{op} has no attribute `{name}`")]
    UnknownAttribute { op: String, name: String },
    #[error("{op} needs the attribute `{name}`")]
    MissingAttribute { op: String, name: String },
    #[error("attribute `{name}` is not {expected}")]
    AttributeType { name: String, expected: &'static str },
    #[error("blob {index} does not exist, {count} are given")]
    UnknownBlob { index: usize, count: usize },
    #[error("blob {index} is {found}, the text says {expected}")]
    BlobType { index: usize, found: TensorType, expected: TensorType },
    #[error("{found} elements, the type has {expected}")]
    ElementCount { found: usize, expected: usize },
}

/// A number of operands and those that are allowed, in words.
pub fn operands(found: usize, least: usize, most: usize) -> String {
    let ending = if found == 1 { "" } else { "s" };
    let takes = match most {
        _ if least == most => most.to_string(),
        usize::MAX => format!("at least {least}"),
        _ => format!("{least} to {most}"),
    };
    format!("{found} operand{ending}, takes {takes}")
}

impl Error {
    /// The same error, with the operation it happened in.
    pub(crate) fn in_op(self, op: &str) -> Error {
        Error::InOp { op: op.to_string(), source: Box::new(self) }
    }
}
