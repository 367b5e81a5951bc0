//! Parsing of values in MIL text: literals of every type, and references to weight files.

use super::super::lex::{Token, float, integer};
use super::super::proto::*;
use super::types::{element_of, tensor_type};
use super::{Parsed, Parser};
use crate::stored::Element;
use half::f16;

impl Parser<'_> {
    /// A type with its value in parentheses.
    pub(super) fn value(&mut self) -> Parsed<Value> {
        let ty = self.ty()?;
        self.expect('(', "`(` and the value")?;
        let source = self.source(&ty)?;
        self.expect(')', "`)`")?;
        Some(Value { ty: Some(ty), source: Some(source) })
    }

    fn source(&mut self, ty: &ValueType) -> Parsed<Source> {
        if self.keyword("BLOBFILE") {
            return self.blob_file();
        }
        let immediate = match ty.kind.as_ref()? {
            TypeKind::Tensor(tensor) => Immediate::Tensor(self.tensor(tensor)?),
            TypeKind::List(list) => {
                self.expect('[', "`[` and elements")?;
                let element = list.ty.as_deref().cloned().unwrap_or_default();
                let values = self.list(']', |p| p.inner(&element))?;
                // Readers of the message take a list of strings for a tensor of strings.
                Immediate::List(ValueList { values })
            }
            TypeKind::Tuple(tuple) => {
                self.expect('(', "`(` and elements")?;
                let mut values = Vec::new();
                for (i, ty) in tuple.types.iter().enumerate() {
                    if i > 0 {
                        self.expect(',', "`,`")?;
                    }
                    values.push(self.inner(ty)?);
                }
                self.expect(')', "`)`")?;
                Immediate::Tuple(ValueList { values })
            }
            TypeKind::Dictionary(dictionary) => {
                self.expect('{', "`{` and pairs")?;
                let key = dictionary.key.as_deref().cloned().unwrap_or_default();
                let value = dictionary.value.as_deref().cloned().unwrap_or_default();
                let pairs = self.list('}', |p| {
                    p.expect('{', "`{` and a pair")?;
                    let key = Some(p.inner(&key)?);
                    p.expect(',', "`,` and a value")?;
                    let value = Some(p.inner(&value)?);
                    p.expect('}', "`}`")?;
                    Some(Pair { key, value })
                })?;
                Immediate::Dictionary(DictionaryValue { pairs })
            }
            TypeKind::State(_) => return self.fault("a type that has values"),
        };
        Some(Source::Immediate(ImmediateValue { value: Some(immediate) }))
    }

    /// An element of a list, tuple or dictionary: with its type, or without if that is known.
    fn inner(&mut self, ty: &ValueType) -> Parsed<Value> {
        self.deeper("values", |p| {
            if p.begins_value() {
                return p.value();
            }
            let source = p.source(ty)?;
            Some(Value { ty: Some(ty.clone()), source: Some(source) })
        })
    }

    fn blob_file(&mut self) -> Parsed<Source> {
        self.expect('(', "`(` and `path`")?;
        let (mut file_name, mut offset) = (None, None);
        let parts = self.list(')', |p| {
            let (start, end) = (p.now.start, p.now.end);
            let name = p.word("`path` or `offset`")?;
            p.expect('=', "`=`")?;
            let value = p.value()?;
            Some((name, value, start, end))
        })?;
        for (name, value, start, end) in parts {
            let scalar = match value.source {
                Some(Source::Immediate(ImmediateValue { value: Some(Immediate::Tensor(t)) })) => t.elements,
                _ => None,
            };
            match (name.as_str(), scalar) {
                ("path", Some(Elements::Strings(s))) => file_name = s.values.into_iter().next(),
                ("offset", Some(Elements::LongInts(v))) => offset = v.values.first().map(|&v| v as u64),
                ("offset", Some(Elements::Ints(v))) => offset = v.values.first().and_then(|&v| u64::try_from(v).ok()),
                _ => self.fault_at(start, end, format!("`{name}`"), "`path` as string and `offset` as uint64"),
            }
        }
        match (file_name, offset) {
            (Some(file_name), Some(offset)) => Some(Source::BlobFile(BlobFileValue { file_name, offset })),
            _ => self.fault("`path` and `offset` before this"),
        }
    }

    /// Elements of a tensor: a scalar, or a list, nested or flat.
    fn tensor(&mut self, ty: &TensorType) -> Parsed<TensorValue> {
        let element = element(ty.data_type)?;
        let (start, end) = (self.now.start, self.now.end);
        let mut made = Made::default();
        self.elements(element, &mut made)?;
        let extents = ty.dimensions.iter().map(|d| match &d.extent {
            Some(Extent::Constant(c)) => Some(c.size),
            _ => None,
        });
        let count = extents.collect::<Option<Vec<u64>>>().map(|e| e.iter().fold(1u64, |n, &d| n.saturating_mul(d)));
        if let Some(count) = count.filter(|&count| count != made.count as u64) {
            self.fault_at(start, end, format!("{} elements", made.count), &format!("{count}, as the type has"));
            return None;
        }
        Some(TensorValue { elements: Some(made.elements(element)) })
    }

    fn elements(&mut self, element: Element, made: &mut Made) -> Parsed<()> {
        if !self.accept('[') {
            return self.scalar(element, made);
        }
        self.deeper("lists", |p| {
            let mut first = true;
            while !p.accept(']') {
                if !std::mem::take(&mut first) {
                    p.expect(',', "`,` or `]`")?;
                }
                p.elements(element, made)?;
            }
            Some(())
        })
    }

    fn scalar(&mut self, element: Element, made: &mut Made) -> Parsed<()> {
        // Some writers repeat the type before every element.
        if matches!(&self.now.token, Token::Word(word) if element_of(word) == Some(element)) {
            self.advance();
            self.expect('(', "`(` after the type of an element")?;
            self.plain_scalar(element, made)?;
            return self.expect(')', "`)` after an element with its type");
        }
        self.plain_scalar(element, made)
    }

    fn plain_scalar(&mut self, element: Element, made: &mut Made) -> Parsed<()> {
        let expected = match element {
            Element::String => "a text in quotes",
            Element::Bool => "`true` or `false`",
            Element::Int(_) | Element::UInt(_) => "an integer of that type",
            _ => "a number",
        };
        let taken = match (&self.now.token, element) {
            (Token::Text(text), Element::String) => {
                made.texts.push(text.clone());
                true
            }
            (Token::Word(word), Element::Bool) if word == "true" || word == "false" => {
                made.integers.push(i64::from(word == "true"));
                true
            }
            (Token::Number(text), Element::Bool) if text == "0" || text == "1" => {
                made.integers.push(i64::from(text == "1"));
                true
            }
            (Token::Number(text), Element::Int(bits)) => {
                let held = integer(text).filter(|v| (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(v));
                held.map(|v| made.integers.push(v as i64)).is_some()
            }
            (Token::Number(text), Element::UInt(bits)) => {
                let held = integer(text).filter(|v| (0..1i128 << bits).contains(v));
                held.map(|v| made.integers.push(v as u64 as i64)).is_some()
            }
            (Token::Number(text), Element::Float16 | Element::Float32 | Element::Float64 | Element::BFloat16) => {
                float(text).map(|v| made.floats.push(v)).is_some()
            }
            _ => false,
        };
        if !taken {
            return self.fault(expected);
        }
        made.count += 1;
        self.advance();
        Some(())
    }
}

/// Elements during parsing.
#[derive(Default)]
struct Made {
    count: usize,
    texts: Vec<String>,
    integers: Vec<i64>,
    floats: Vec<f64>,
}

impl Made {
    /// The elements in the message field that the format uses for this type.
    fn elements(self, element: Element) -> Elements {
        let packed = |bytes: Vec<u8>| Elements::Bytes(Bytes { values: bytes.into() });
        match element {
            Element::String => Elements::Strings(Strings { values: self.texts }),
            Element::Bool => Elements::Bools(Bools { values: self.integers.iter().map(|&v| v != 0).collect() }),
            Element::Float32 => Elements::Floats(Floats { values: self.floats.iter().map(|&v| v as f32).collect() }),
            Element::Float64 => Elements::Doubles(Doubles { values: self.floats }),
            Element::Float16 => packed(self.floats.iter().flat_map(|&v| f16::from_f64(v).to_le_bytes()).collect()),
            Element::BFloat16 => {
                packed(self.floats.iter().flat_map(|&v| half::bf16::from_f64(v).to_le_bytes()).collect())
            }
            Element::Int(32) => Elements::Ints(Ints { values: self.integers.iter().map(|&v| v as i32).collect() }),
            Element::Int(64) | Element::UInt(64) => Elements::LongInts(LongInts { values: self.integers }),
            Element::UInt(32) => packed(self.integers.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect()),
            Element::Int(16) | Element::UInt(16) => {
                packed(self.integers.iter().flat_map(|&v| (v as u16).to_le_bytes()).collect())
            }
            Element::Int(bits) | Element::UInt(bits) => {
                let bytes: Vec<u8> = self.integers.iter().map(|&v| v as u8).collect();
                packed(if bits >= 8 { bytes } else { crate::stored::pack(&bytes, bits as usize) })
            }
        }
    }
}

/// A string as a value.
pub fn text_value(text: &str) -> Value {
    let elements = Elements::Strings(Strings { values: vec![text.to_string()] });
    let ty = ValueType { kind: Some(TypeKind::Tensor(tensor_type(Element::String, vec![]))) };
    immediate(ty, elements)
}

pub(super) fn longs(values: Vec<i64>) -> Value {
    let size = values.len() as u64;
    let dimension = Dimension { extent: Some(Extent::Constant(ConstantDimension { size })) };
    let ty = ValueType { kind: Some(TypeKind::Tensor(tensor_type(Element::Int(64), vec![dimension]))) };
    immediate(ty, Elements::LongInts(LongInts { values }))
}

fn immediate(ty: ValueType, elements: Elements) -> Value {
    let tensor = Immediate::Tensor(TensorValue { elements: Some(elements) });
    Value { ty: Some(ty), source: Some(Source::Immediate(ImmediateValue { value: Some(tensor) })) }
}
