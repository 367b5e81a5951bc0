//! Messages of the Core ML model format that ML Programs need. Field numbers are those of the public format.

use crate::graph::DType;
use crate::stored::Element;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int32, tag = "1")]
    pub specification_version: i32,
    #[prost(message, optional, tag = "2")]
    pub description: Option<ModelDescription>,
    #[prost(oneof = "Kind", tags = "200, 201, 202, 303, 403, 500, 502, 555, 3000")]
    pub kind: Option<Kind>,
}

/// Kinds of model; only the ML Program is decoded, the others are recognized.
#[derive(Clone, PartialEq, Oneof)]
pub enum Kind {
    #[prost(message, tag = "200")]
    PipelineClassifier(Other),
    #[prost(message, tag = "201")]
    PipelineRegressor(Other),
    #[prost(message, tag = "202")]
    Pipeline(Other),
    #[prost(message, tag = "303")]
    NeuralNetworkRegressor(NeuralNetwork),
    #[prost(message, tag = "403")]
    NeuralNetworkClassifier(NeuralNetwork),
    #[prost(message, tag = "500")]
    NeuralNetwork(NeuralNetwork),
    #[prost(message, tag = "502")]
    MlProgram(Program),
    #[prost(message, tag = "555")]
    CustomModel(Other),
    #[prost(message, tag = "3000")]
    SerializedModel(Other),
}

/// The older network format, only decoded to report its content.
#[derive(Clone, PartialEq, Message)]
pub struct NeuralNetwork {
    #[prost(message, repeated, tag = "1")]
    pub layers: Vec<Layer>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Layer {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A message whose content is ignored.
#[derive(Clone, PartialEq, Message)]
pub struct Other {}

#[derive(Clone, PartialEq, Message)]
pub struct ModelDescription {
    #[prost(message, repeated, tag = "1")]
    pub input: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "10")]
    pub output: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "13")]
    pub state: Vec<FeatureDescription>,
    #[prost(message, repeated, tag = "20")]
    pub functions: Vec<FunctionDescription>,
    #[prost(string, tag = "21")]
    pub default_function_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct FunctionDescription {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub input: Vec<FeatureDescription>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FeatureDescription {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub ty: Option<FeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FeatureType {
    #[prost(message, optional, tag = "4")]
    pub image: Option<ImageFeatureType>,
    #[prost(message, optional, tag = "5")]
    pub multi_array: Option<ArrayFeatureType>,
    #[prost(message, optional, tag = "8")]
    pub state: Option<StateFeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StateFeatureType {
    #[prost(message, optional, tag = "1")]
    pub array: Option<ArrayFeatureType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImageFeatureType {
    #[prost(int64, tag = "1")]
    pub width: i64,
    #[prost(int64, tag = "2")]
    pub height: i64,
    #[prost(int32, tag = "3")]
    pub color_space: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ArrayFeatureType {
    #[prost(int64, repeated, tag = "1")]
    pub shape: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(message, optional, tag = "21")]
    pub enumerated_shapes: Option<EnumeratedShapes>,
    #[prost(message, optional, tag = "31")]
    pub shape_range: Option<ShapeRange>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EnumeratedShapes {
    #[prost(message, repeated, tag = "1")]
    pub shapes: Vec<Shape>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(int64, repeated, tag = "1")]
    pub shape: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeRange {
    #[prost(message, repeated, tag = "1")]
    pub size_ranges: Vec<SizeRange>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SizeRange {
    #[prost(uint64, tag = "1")]
    pub lower_bound: u64,
    #[prost(int64, tag = "2")]
    pub upper_bound: i64,
}

/// A MIL program: functions of operations in blocks.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct Program {
    #[prost(int64, tag = "1")]
    pub version: i64,
    #[prost(btree_map = "string, message", tag = "2")]
    pub functions: BTreeMap<String, Function>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub attributes: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Function {
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<NamedValueType>,
    #[prost(string, tag = "2")]
    pub opset: String,
    #[prost(btree_map = "string, message", tag = "3")]
    pub block_specializations: BTreeMap<String, Block>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub attributes: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Block {
    #[prost(message, repeated, tag = "1")]
    pub inputs: Vec<NamedValueType>,
    #[prost(string, repeated, tag = "2")]
    pub outputs: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub operations: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Operation {
    #[prost(string, tag = "1")]
    pub ty: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub inputs: BTreeMap<String, Argument>,
    #[prost(message, repeated, tag = "3")]
    pub outputs: Vec<NamedValueType>,
    #[prost(message, repeated, tag = "4")]
    pub blocks: Vec<Block>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attributes: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Argument {
    #[prost(message, repeated, tag = "1")]
    pub arguments: Vec<Binding>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Binding {
    #[prost(oneof = "Bound", tags = "1, 2")]
    pub bound: Option<Bound>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Bound {
    #[prost(string, tag = "1")]
    Name(String),
    #[prost(message, tag = "2")]
    Value(Value),
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedValueType {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub ty: Option<ValueType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueType {
    #[prost(oneof = "TypeKind", tags = "1, 2, 3, 4, 5")]
    pub kind: Option<TypeKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum TypeKind {
    #[prost(message, tag = "1")]
    Tensor(TensorType),
    #[prost(message, tag = "2")]
    List(Box<ListType>),
    #[prost(message, tag = "3")]
    Tuple(TupleType),
    #[prost(message, tag = "4")]
    Dictionary(Box<DictionaryType>),
    #[prost(message, tag = "5")]
    State(Box<StateType>),
}

#[derive(Clone, PartialEq, Message)]
pub struct ListType {
    #[prost(message, optional, boxed, tag = "1")]
    pub ty: Option<Box<ValueType>>,
    #[prost(message, optional, tag = "2")]
    pub length: Option<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TupleType {
    #[prost(message, repeated, tag = "1")]
    pub types: Vec<ValueType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DictionaryType {
    #[prost(message, optional, boxed, tag = "1")]
    pub key: Option<Box<ValueType>>,
    #[prost(message, optional, boxed, tag = "2")]
    pub value: Option<Box<ValueType>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StateType {
    #[prost(message, optional, boxed, tag = "1")]
    pub wrapped: Option<Box<ValueType>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub data_type: i32,
    #[prost(int64, tag = "2")]
    pub rank: i64,
    #[prost(message, repeated, tag = "3")]
    pub dimensions: Vec<Dimension>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub attributes: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(oneof = "Extent", tags = "1, 2")]
    pub extent: Option<Extent>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Extent {
    #[prost(message, tag = "1")]
    Constant(ConstantDimension),
    #[prost(message, tag = "2")]
    Unknown(UnknownDimension),
}

#[derive(Clone, PartialEq, Message)]
pub struct ConstantDimension {
    #[prost(uint64, tag = "1")]
    pub size: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnknownDimension {
    #[prost(bool, tag = "1")]
    pub variadic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(message, optional, tag = "2")]
    pub ty: Option<ValueType>,
    #[prost(oneof = "Source", tags = "3, 5")]
    pub source: Option<Source>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Source {
    #[prost(message, tag = "3")]
    Immediate(ImmediateValue),
    #[prost(message, tag = "5")]
    BlobFile(BlobFileValue),
}

#[derive(Clone, PartialEq, Message)]
pub struct ImmediateValue {
    #[prost(oneof = "Immediate", tags = "1, 2, 3, 4")]
    pub value: Option<Immediate>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Immediate {
    #[prost(message, tag = "1")]
    Tensor(TensorValue),
    #[prost(message, tag = "2")]
    Tuple(ValueList),
    #[prost(message, tag = "3")]
    List(ValueList),
    #[prost(message, tag = "4")]
    Dictionary(DictionaryValue),
}

#[derive(Clone, PartialEq, Message)]
pub struct DictionaryValue {
    #[prost(message, repeated, tag = "1")]
    pub pairs: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Pair {
    #[prost(message, optional, tag = "1")]
    pub key: Option<Value>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Value>,
}

/// A tuple or a list: the two have the same fields.
#[derive(Clone, PartialEq, Message)]
pub struct ValueList {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BlobFileValue {
    #[prost(string, tag = "1")]
    pub file_name: String,
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

impl BlobFileValue {
    /// Path of the file, relative to the model.
    pub fn path(&self) -> &str {
        self.file_name.strip_prefix("@model_path/").unwrap_or(&self.file_name)
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorValue {
    #[prost(oneof = "Elements", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub elements: Option<Elements>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Elements {
    #[prost(message, tag = "1")]
    Floats(Floats),
    #[prost(message, tag = "2")]
    Ints(Ints),
    #[prost(message, tag = "3")]
    Bools(Bools),
    #[prost(message, tag = "4")]
    Strings(Strings),
    #[prost(message, tag = "5")]
    LongInts(LongInts),
    #[prost(message, tag = "6")]
    Doubles(Doubles),
    #[prost(message, tag = "7")]
    Bytes(Bytes),
}

macro_rules! repeated {
    ($($name:ident: $kind:ident, $ty:ty;)*) => {$(
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            #[prost($kind, repeated, tag = "1")]
            pub values: Vec<$ty>,
        }
    )*};
}

repeated! {
    Floats: float, f32;
    Ints: int32, i32;
    Bools: bool, bool;
    Strings: string, String;
    LongInts: int64, i64;
    Doubles: double, f64;
}

#[derive(Clone, PartialEq, Message)]
pub struct Bytes {
    #[prost(bytes = "bytes", tag = "1")]
    pub values: bytes::Bytes,
}

/// Element type by its number in the format.
pub fn element(number: i32) -> Option<Element> {
    ELEMENTS.iter().find(|(n, ..)| *n == number).map(|row| row.1)
}

/// Name of an element type in MIL text.
pub fn name_of(dtype: DType) -> &'static str {
    let element = Element::of(dtype);
    ELEMENTS.iter().find(|row| row.1 == element).map_or("", |row| row.2)
}

/// Number and name in MIL text of every element type.
pub const ELEMENTS: [(i32, Element, &str); 20] = [
    (1, Element::Bool, "bool"),
    (2, Element::String, "string"),
    (10, Element::Float16, "fp16"),
    (11, Element::Float32, "fp32"),
    (12, Element::Float64, "fp64"),
    (13, Element::BFloat16, "bf16"),
    (21, Element::Int(8), "int8"),
    (22, Element::Int(16), "int16"),
    (23, Element::Int(32), "int32"),
    (24, Element::Int(64), "int64"),
    (25, Element::Int(4), "int4"),
    (31, Element::UInt(8), "uint8"),
    (32, Element::UInt(16), "uint16"),
    (33, Element::UInt(32), "uint32"),
    (34, Element::UInt(64), "uint64"),
    (35, Element::UInt(4), "uint4"),
    (36, Element::UInt(2), "uint2"),
    (37, Element::UInt(1), "uint1"),
    (38, Element::UInt(6), "uint6"),
    (39, Element::UInt(3), "uint3"),
];

/// Number of the element type in a weight file's record; several share one if the format has no number of their own.
pub fn blob_number(element: Element) -> Option<u32> {
    Some(match element {
        Element::Float16 => 1,
        Element::Float32 => 2,
        Element::UInt(8) | Element::Bool => 3,
        Element::Int(8) => 4,
        Element::BFloat16 => 5,
        Element::Int(16) => 6,
        Element::UInt(16) => 7,
        Element::Int(4) => 8,
        Element::UInt(1) => 9,
        Element::UInt(2) => 10,
        Element::UInt(4) => 11,
        Element::UInt(3) => 12,
        Element::UInt(6) => 13,
        Element::Int(32) => 14,
        Element::UInt(32) => 15,
        _ => return None,
    })
}
