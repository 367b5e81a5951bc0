//! Printer of MIL text. Parsing the text gives the same program, as far as its values have a text form.

use super::OPSET_TAG;
use super::lex::hex_float;
use super::proto::*;
use crate::stored::{Element, unpack};
use half::{bf16, f16};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The text of a program; maps are in key order.
pub fn print(program: &Program) -> String {
    printed(program).0
}

/// The text of a program, and the files with its constants, relative to the model, each once.
pub fn printed(program: &Program) -> (String, Vec<String>) {
    let mut printer = Printer { out: String::new(), files: BTreeSet::new() };
    printer.program(program);
    (printer.out, printer.files.into_iter().collect())
}

struct Printer {
    out: String,
    files: BTreeSet<String>,
}

impl Printer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        for (i, one) in items.into_iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            item(self, one);
        }
    }

    fn program(&mut self, program: &Program) {
        let version = match program.attributes.get(OPSET_TAG).and_then(text_of) {
            Some(version) => version.to_string(),
            None => format!("{}.0", program.version),
        };
        let _ = writeln!(self.out, "program({version})");
        if self.attributes(&program.attributes) {
            self.put("\n");
        }
        self.put("{\n");
        for (name, function) in &program.functions {
            let blocks = &function.block_specializations;
            let Some(block) = blocks.get(&function.opset).or(blocks.values().next()) else { continue };
            let _ = write!(self.out, "    func {name}");
            if !function.opset.is_empty() {
                let _ = write!(self.out, "<{}>", function.opset);
            }
            self.put("(");
            self.list(&function.inputs, Self::named_type);
            self.put(") ");
            if self.attributes(&function.attributes) {
                self.put(" ");
            }
            self.block(block, 2);
            self.put(";\n");
        }
        self.put("}\n");
    }

    /// Prints the attributes in brackets, without the opset tag. Returns false, and prints nothing, if there are none.
    fn attributes(&mut self, attributes: &BTreeMap<String, Value>) -> bool {
        let told = || attributes.iter().filter(|(name, _)| *name != OPSET_TAG);
        if told().next().is_none() {
            return false;
        }
        self.put("[");
        self.list(told(), |p, (name, value)| {
            let _ = write!(p.out, "{name} = ");
            p.value(value);
        });
        self.put("]");
        true
    }

    fn named_type(&mut self, named: &NamedValueType) {
        self.ty(named.ty.as_ref());
        let _ = write!(self.out, " {}", named.name);
    }

    fn block(&mut self, block: &Block, depth: usize) {
        self.put("{\n");
        for operation in &block.operations {
            self.out.extend(std::iter::repeat_n("    ", depth));
            self.operation(operation, depth);
            self.put(";\n");
        }
        self.out.extend(std::iter::repeat_n("    ", depth - 1));
        self.put("} -> (");
        self.list(&block.outputs, |p, name| p.put(name));
        self.put(")");
    }

    fn operation(&mut self, operation: &Operation, depth: usize) {
        if !operation.outputs.is_empty() {
            self.list(&operation.outputs, Self::named_type);
            self.put(" = ");
        }
        self.put(&operation.ty);
        if let Some(tag) = operation.attributes.get(OPSET_TAG).and_then(text_of) {
            let _ = write!(self.out, "<{tag}>");
        }
        self.put("(");
        self.list(&operation.inputs, |p, (name, argument)| {
            let _ = write!(p.out, "{name} = ");
            match argument.arguments.as_slice() {
                [one] => p.binding(one),
                many => {
                    p.put("(");
                    p.list(many, Self::binding);
                    p.put(")");
                }
            }
        });
        self.put(")");
        self.attributes(&operation.attributes);
        for (i, block) in operation.blocks.iter().enumerate() {
            self.put(if i > 0 { ", (" } else { " (" });
            self.list(&block.inputs, Self::named_type);
            self.put(") ");
            self.block(block, depth + 1);
        }
    }

    fn binding(&mut self, binding: &Binding) {
        match &binding.bound {
            Some(Bound::Name(name)) => self.put(name),
            Some(Bound::Value(value)) => self.value(value),
            None => {}
        }
    }

    fn ty(&mut self, ty: Option<&ValueType>) {
        match ty.and_then(|t| t.kind.as_ref()) {
            Some(TypeKind::Tensor(tensor)) => self.tensor_type(tensor),
            Some(TypeKind::List(list)) => {
                self.put("list<");
                self.ty(list.ty.as_deref());
                if let Some(length) = &list.length {
                    self.put(", ");
                    self.dimension(length);
                }
                self.put(">");
            }
            Some(TypeKind::Tuple(tuple)) => {
                self.put("tuple<");
                self.list(&tuple.types, |p, ty| p.ty(Some(ty)));
                self.put(">");
            }
            Some(TypeKind::Dictionary(dictionary)) => {
                self.put("dict<");
                self.ty(dictionary.key.as_deref());
                self.put(", ");
                self.ty(dictionary.value.as_deref());
                self.put(">");
            }
            Some(TypeKind::State(state)) => {
                self.put("state<");
                self.ty(state.wrapped.as_deref());
                self.put(">");
            }
            None => self.put("unknown"),
        }
    }

    fn tensor_type(&mut self, tensor: &TensorType) {
        let name = ELEMENTS.iter().find(|row| row.0 == tensor.data_type).map_or("unknown", |row| row.2);
        let buffer = tensor.attributes.contains_key("strides");
        if tensor.dimensions.is_empty() && !buffer {
            return self.put(name);
        }
        let _ = write!(
            self.out,
            "tensor{}<{name}, {}[",
            if buffer { "_buffer" } else { "" },
            if buffer { "shape=" } else { "" }
        );
        self.list(&tensor.dimensions, Self::dimension);
        self.put("]");
        if buffer {
            // The order of the format's own tools.
            for key in ["strides", "interleave_factors"] {
                if let Some(value) = tensor.attributes.get(key) {
                    let _ = write!(self.out, ", {key}=");
                    self.elements_of(value);
                }
            }
        }
        self.put(">");
    }

    fn dimension(&mut self, dimension: &Dimension) {
        match &dimension.extent {
            Some(Extent::Constant(constant)) => {
                let _ = write!(self.out, "{}", constant.size);
            }
            _ => self.put("?"),
        }
    }

    fn value(&mut self, value: &Value) {
        self.ty(value.ty.as_ref());
        self.put("(");
        self.elements_of(value);
        self.put(")");
    }

    /// The value without its type.
    fn elements_of(&mut self, value: &Value) {
        match &value.source {
            Some(Source::BlobFile(blob)) => {
                self.files.insert(blob.path().to_string());
                self.put("BLOBFILE(path = string(");
                self.text(&blob.file_name);
                let _ = write!(self.out, "), offset = uint64({}))", blob.offset);
            }
            Some(Source::Immediate(immediate)) => match &immediate.value {
                Some(Immediate::Tensor(tensor)) => self.tensor(tensor, value.ty.as_ref()),
                Some(Immediate::Tuple(list)) => {
                    self.put("(");
                    self.list(&list.values, Self::elements_of);
                    self.put(")");
                }
                Some(Immediate::List(list)) => {
                    self.put("[");
                    self.list(&list.values, Self::elements_of);
                    self.put("]");
                }
                Some(Immediate::Dictionary(dictionary)) => {
                    self.put("{");
                    self.list(&dictionary.pairs, |p, pair| {
                        p.put("{");
                        pair.key.iter().for_each(|key| p.elements_of(key));
                        p.put(", ");
                        pair.value.iter().for_each(|value| p.elements_of(value));
                        p.put("}");
                    });
                    self.put("}");
                }
                None => {}
            },
            None => {}
        }
    }

    fn tensor(&mut self, tensor: &TensorValue, ty: Option<&ValueType>) {
        let Some(TypeKind::Tensor(ty)) = ty.and_then(|t| t.kind.as_ref()) else { return };
        let scalar = ty.dimensions.is_empty();
        if !scalar {
            self.put("[");
        }
        let float = |p: &mut Self, v: f64| p.put(&hex_float(v));
        let number = |p: &mut Self, v: i64| {
            let _ = write!(p.out, "{v}");
        };
        match &tensor.elements {
            Some(Elements::Floats(v)) => self.list(&v.values, |p, &v| float(p, v.into())),
            Some(Elements::Doubles(v)) => self.list(&v.values, |p, &v| float(p, v)),
            Some(Elements::Ints(v)) => self.list(&v.values, |p, &v| number(p, v.into())),
            Some(Elements::LongInts(v)) => self.list(&v.values, |p, &v| number(p, v)),
            Some(Elements::Bools(v)) => self.list(&v.values, |p, v| p.put(if *v { "true" } else { "false" })),
            Some(Elements::Strings(v)) => self.list(&v.values, |p, v| p.text(v)),
            Some(Elements::Bytes(bytes)) => self.packed(&bytes.values, ty),
            None => {}
        }
        if !scalar {
            self.put("]");
        }
    }

    fn packed(&mut self, bytes: &[u8], ty: &TensorType) {
        let extents = ty.dimensions.iter().map(|d| match &d.extent {
            Some(Extent::Constant(c)) => usize::try_from(c.size).unwrap_or(0),
            _ => 0,
        });
        let number = |p: &mut Self, v: i64| {
            let _ = write!(p.out, "{v}");
        };
        match element(ty.data_type) {
            Some(Element::Float16) => {
                self.list(bytes.as_chunks().0, |p, &b| p.put(&hex_float(f16::from_le_bytes(b).into())));
            }
            Some(Element::BFloat16) => {
                self.list(bytes.as_chunks().0, |p, &b| p.put(&hex_float(bf16::from_le_bytes(b).into())));
            }
            Some(Element::Float32) => {
                self.list(bytes.as_chunks().0, |p, &b| p.put(&hex_float(f32::from_le_bytes(b).into())));
            }
            Some(Element::Int(8)) => self.list(bytes, |p, &b| number(p, (b as i8).into())),
            Some(Element::Bool) => self.list(bytes, |p, &b| p.put(if b != 0 { "true" } else { "false" })),
            Some(Element::UInt(8)) => self.list(bytes, |p, &b| number(p, b.into())),
            Some(Element::Int(16)) => self.list(bytes.as_chunks().0, |p, &b| number(p, i16::from_le_bytes(b).into())),
            Some(Element::UInt(16)) => self.list(bytes.as_chunks().0, |p, &b| number(p, u16::from_le_bytes(b).into())),
            Some(Element::Int(32)) => self.list(bytes.as_chunks().0, |p, &b| number(p, i32::from_le_bytes(b).into())),
            Some(Element::UInt(32)) => self.list(bytes.as_chunks().0, |p, &b| number(p, u32::from_le_bytes(b).into())),
            Some(Element::Int(64) | Element::UInt(64)) => {
                self.list(bytes.as_chunks().0, |p, &b| number(p, i64::from_le_bytes(b)));
            }
            Some(Element::UInt(bits)) => {
                let count = extents.product::<usize>().min(bytes.len().saturating_mul(8) / bits.max(1) as usize);
                self.list(unpack(bytes, bits as usize, count), |p, v| number(p, v.into()));
            }
            Some(Element::Int(bits)) => {
                let count = extents.product::<usize>().min(bytes.len().saturating_mul(8) / bits.max(1) as usize);
                let shift = 8 - bits.min(8);
                self.list(unpack(bytes, bits as usize, count), |p, v| {
                    number(p, (((v << shift) as i8) >> shift).into())
                });
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '\n' => self.put("\\n"),
                '\t' => self.put("\\t"),
                '\r' => self.put("\\r"),
                '\0' => self.put("\\0"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// The text of a value that is a single string.
fn text_of(value: &Value) -> Option<&str> {
    match &value.source {
        Some(Source::Immediate(ImmediateValue { value: Some(Immediate::Tensor(tensor)) })) => match &tensor.elements {
            Some(Elements::Strings(texts)) => texts.values.first().map(String::as_str),
            _ => None,
        },
        _ => None,
    }
}
