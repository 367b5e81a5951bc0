//! Outlines of ML Programs: the declarations of the file, without translation and without weights.

use crate::mil::proto::{
    Block, Bound, Elements, Extent, Function, Immediate, NamedValueType, Operation, Source, TypeKind, Value, ValueType,
};
use crate::outline::{Argument, KEPT_ELEMENTS, Named, Origin, Outline, OutlineConstant, OutlineOp, OutlineType};
use std::collections::HashMap;

/// The outline of one function.
pub(super) fn outline(name: &str, function: &Function, origin: Origin) -> Outline {
    let blocks = &function.block_specializations;
    let only = blocks.values().next().filter(|_| blocks.len() == 1);
    let mut scope = Scope::default();
    let inputs: Vec<Named> = function.inputs.iter().map(named).collect();
    for input in &inputs {
        scope.items.insert(input.name.clone(), Argument::Value(input.clone()));
    }
    let mut outline = Outline {
        name: name.to_string(),
        opset: Some(function.opset.clone()),
        origin,
        inputs,
        states: Vec::new(),
        ops: Vec::new(),
        outputs: Vec::new(),
        conditions: Vec::new(),
    };
    if let Some(block) = blocks.get(&function.opset).or(only) {
        scope.block(block, &mut outline);
    }
    outline
}

#[derive(Default)]
struct Scope {
    items: HashMap<String, Argument>,
}

impl Scope {
    fn block(&mut self, block: &Block, outline: &mut Outline) {
        for op in &block.operations {
            if op.ty == "const" {
                let value =
                    op.attributes.get("val").or_else(|| match &op.inputs.get("val")?.arguments.first()?.bound {
                        Some(Bound::Value(value)) => Some(value),
                        _ => None,
                    });
                if let (Some(value), Some(output)) = (value, op.outputs.first()) {
                    self.items.insert(output.name.clone(), Argument::Constant(constant(value)));
                }
                continue;
            }
            let op = self.operation(op);
            outline.ops.push(op);
        }
        outline.outputs = block.outputs.clone();
    }

    fn operation(&mut self, op: &Operation) -> OutlineOp {
        let mut arguments = Vec::new();
        let mut inputs: Vec<_> = op.inputs.iter().collect();
        inputs.sort_unstable_by(|a, b| a.0.cmp(b.0));
        for (name, argument) in inputs {
            for binding in &argument.arguments {
                let item = match &binding.bound {
                    Some(Bound::Name(bound)) => self.items.get(bound).cloned(),
                    Some(Bound::Value(value)) => Some(Argument::Constant(constant(value))),
                    None => None,
                };
                arguments.extend(item.map(|item| (name.clone(), item)));
            }
        }
        let outputs: Vec<Named> = op.outputs.iter().map(named).collect();
        let decompresses = op.ty.starts_with("constexpr_");
        let mut live = arguments.iter().filter(|(_, a)| matches!(a, Argument::Value(_)));
        // Random operations are not constant, whatever their operands.
        let drawn = op.ty.starts_with("random_");
        let constant =
            decompresses || (!arguments.is_empty() && live.next().is_none() && op.blocks.is_empty() && !drawn);
        for output in &outputs {
            let item = if constant {
                Argument::Constant(OutlineConstant {
                    ty: output.ty.clone(),
                    inline: false,
                    numbers: None,
                    text: None,
                    compressed: decompresses.then(|| op.ty.clone()),
                })
            } else {
                Argument::Value(output.clone())
            };
            self.items.insert(output.name.clone(), item);
        }
        OutlineOp {
            op: op.ty.clone(),
            name: outputs.first().map_or(String::new(), |o| o.name.clone()),
            arguments,
            outputs,
            blocks: op.blocks.len(),
            constant,
            unread: None,
        }
    }
}

fn named(value: &NamedValueType) -> Named {
    Named { name: value.name.clone(), ty: value.ty.as_ref().map_or_else(unknown, typed) }
}

fn unknown() -> OutlineType {
    OutlineType { element: "unknown", shape: vec![], state: false }
}

fn typed(ty: &ValueType) -> OutlineType {
    match &ty.kind {
        Some(TypeKind::Tensor(tensor)) => {
            let extents = tensor.dimensions.iter().map(|d| match &d.extent {
                Some(Extent::Constant(constant)) => usize::try_from(constant.size).ok(),
                _ => None,
            });
            OutlineType { element: element(tensor.data_type), shape: extents.collect(), state: false }
        }
        Some(TypeKind::State(_)) => OutlineType { element: "state", shape: vec![], state: true },
        _ => unknown(),
    }
}

/// MIL name of an element type, by its number in the format.
fn element(number: i32) -> &'static str {
    match number {
        1 => "bool",
        2 => "string",
        10 => "fp16",
        11 => "fp32",
        12 => "fp64",
        13 => "bf16",
        21 => "int8",
        22 => "int16",
        23 => "int32",
        24 => "int64",
        25 => "int4",
        31 => "uint8",
        32 => "uint16",
        33 => "uint32",
        34 => "uint64",
        35 => "uint4",
        36 => "uint2",
        37 => "uint1",
        38 => "uint6",
        39 => "uint3",
        _ => "unknown",
    }
}

fn constant(value: &Value) -> OutlineConstant {
    let ty = value.ty.as_ref().map_or_else(unknown, typed);
    let mut constant = OutlineConstant { ty, inline: true, numbers: None, text: None, compressed: None };
    let immediate = match &value.source {
        Some(Source::Immediate(immediate)) => immediate,
        _ => {
            constant.inline = false;
            return constant;
        }
    };
    let Some(Immediate::Tensor(tensor)) = &immediate.value else { return constant };
    if constant.ty.elements() > KEPT_ELEMENTS {
        return constant;
    }
    let floats = |values: &[f32]| Some(values.iter().map(|&v| f64::from(v)).collect());
    match &tensor.elements {
        Some(Elements::Strings(strings)) => constant.text = strings.values.first().cloned(),
        Some(Elements::Floats(values)) => constant.numbers = floats(&values.values),
        Some(Elements::Doubles(values)) => constant.numbers = Some(values.values.clone()),
        Some(Elements::Ints(values)) => constant.numbers = Some(values.values.iter().map(|&v| f64::from(v)).collect()),
        Some(Elements::LongInts(values)) => constant.numbers = Some(values.values.iter().map(|&v| v as f64).collect()),
        Some(Elements::Bools(values)) => {
            constant.numbers = Some(values.values.iter().map(|&v| f64::from(u8::from(v))).collect());
        }
        Some(Elements::Bytes(bytes)) => constant.numbers = packed(&bytes.values, constant.ty.element),
        None => constant.numbers = Some(Vec::new()),
    }
    constant
}

/// Elements packed into bytes, little-endian; sub-byte types are not unpacked.
fn packed(bytes: &[u8], element: &str) -> Option<Vec<f64>> {
    Some(match element {
        "fp16" => bytes.as_chunks().0.iter().map(|&b| half::f16::from_le_bytes(b).to_f64()).collect(),
        "fp32" => bytes.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
        "int8" => bytes.iter().map(|&b| f64::from(b as i8)).collect(),
        "uint8" | "bool" => bytes.iter().map(|&b| f64::from(b)).collect(),
        "int16" => bytes.as_chunks().0.iter().map(|&b| f64::from(i16::from_le_bytes(b))).collect(),
        "uint16" => bytes.as_chunks().0.iter().map(|&b| f64::from(u16::from_le_bytes(b))).collect(),
        "int32" => bytes.as_chunks().0.iter().map(|&b| f64::from(i32::from_le_bytes(b))).collect(),
        _ => return None,
    })
}
