//! Parsing of types in MIL text.

use super::super::lex::{Token, integer};
use super::super::proto::*;
use super::values::longs;
use super::{Parsed, Parser, RANK};
use crate::stored::Element;
use std::collections::BTreeMap;

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Parsed<ValueType> {
        self.deeper("types", Self::ty_inner)
    }

    fn ty_inner(&mut self) -> Parsed<ValueType> {
        let (start, end) = (self.now.start, self.now.end);
        let word = self.word("a type, such as `tensor<fp16, [1, 3]>`")?;
        let kind = match word.as_str() {
            "tensor" => {
                self.expect('<', "`<` and an element type")?;
                let element = self.element()?;
                self.expect(',', "`,` and extents")?;
                self.expect('[', "`[` and extents")?;
                let dimensions = self.dimensions()?;
                self.expect('>', "`>`")?;
                TypeKind::Tensor(tensor_type(element, dimensions))
            }
            "tensor_buffer" => {
                self.expect('<', "`<` and an element type")?;
                let element = self.element()?;
                let mut tensor = tensor_type(element, vec![]);
                while self.accept(',') {
                    let name = self.word("`shape`, `strides` or `interleave_factors`")?;
                    self.expect('=', "`=`")?;
                    self.expect('[', "`[`")?;
                    if name == "shape" {
                        tensor.dimensions = self.dimensions()?;
                        tensor.rank = tensor.dimensions.len() as i64;
                    } else {
                        let values = self.list(']', Self::long)?;
                        tensor.attributes.insert(name, longs(values));
                    }
                }
                self.expect('>', "`,` or `>`")?;
                TypeKind::Tensor(tensor)
            }
            "list" => {
                self.expect('<', "`<` and a type")?;
                let ty = Some(Box::new(self.ty()?));
                let length = if self.accept(',') { Some(self.dimension()?) } else { None };
                self.expect('>', "`>`")?;
                TypeKind::List(Box::new(ListType { ty, length }))
            }
            "tuple" => {
                self.expect('<', "`<` and types")?;
                TypeKind::Tuple(TupleType { types: self.list('>', Self::ty)? })
            }
            "dict" | "dictionary" => {
                self.expect('<', "`<` and the type of keys")?;
                let key = Some(Box::new(self.ty()?));
                self.expect(',', "`,` and the type of values")?;
                let value = Some(Box::new(self.ty()?));
                self.expect('>', "`>`")?;
                TypeKind::Dictionary(Box::new(DictionaryType { key, value }))
            }
            "state" => {
                self.expect('<', "`<` and a type")?;
                let wrapped = Some(Box::new(self.ty()?));
                self.expect('>', "`>`")?;
                TypeKind::State(Box::new(StateType { wrapped }))
            }
            name => match element_of(name) {
                Some(element) => TypeKind::Tensor(tensor_type(element, vec![])),
                None => {
                    self.fault_at(start, end, format!("`{name}`"), "a type, such as `tensor<fp16, [1, 3]>` or `int32`");
                    return None;
                }
            },
        };
        Some(ValueType { kind: Some(kind) })
    }

    pub(super) fn element(&mut self) -> Parsed<Element> {
        let (start, end) = (self.now.start, self.now.end);
        let word = self.word("an element type, such as `fp16`")?;
        if let Some(element) = element_of(&word) {
            return Some(element);
        }
        self.fault_at(start, end, format!("`{word}`"), "an element type, such as `fp16`, `int32` or `bool`");
        None
    }

    pub(super) fn dimensions(&mut self) -> Parsed<Vec<Dimension>> {
        let (start, end) = (self.now.start, self.now.end);
        let dimensions = self.list(']', Self::dimension)?;
        if dimensions.len() > RANK {
            self.fault_at(start, end, format!("{} extents", dimensions.len()), &format!("at most {RANK}"));
            return None;
        }
        Some(dimensions)
    }

    pub(super) fn dimension(&mut self) -> Parsed<Dimension> {
        if self.accept('?') || self.accept('*') {
            return Some(Dimension { extent: Some(Extent::Unknown(UnknownDimension { variadic: false })) });
        }
        let size = match &self.now.token {
            Token::Number(text) => integer(text).and_then(|v| u64::try_from(v).ok()),
            // A symbolic extent is unknown here.
            Token::Word(_) => {
                self.advance();
                return Some(Dimension { extent: Some(Extent::Unknown(UnknownDimension { variadic: false })) });
            }
            _ => None,
        };
        match size {
            Some(size) => {
                self.advance();
                Some(Dimension { extent: Some(Extent::Constant(ConstantDimension { size })) })
            }
            None => self.fault("an extent or `?`"),
        }
    }

    pub(super) fn long(&mut self) -> Parsed<i64> {
        let value = match &self.now.token {
            Token::Number(text) => integer(text).and_then(|v| i64::try_from(v).ok()),
            _ => None,
        };
        match value {
            Some(value) => {
                self.advance();
                Some(value)
            }
            None => self.fault("an integer"),
        }
    }
}

/// Type names that are not element types.
pub(super) const COMPOUND: [&str; 7] = ["tensor", "tensor_buffer", "list", "tuple", "dict", "dictionary", "state"];

/// The element type of that name.
pub(super) fn element_of(name: &str) -> Option<Element> {
    ELEMENTS.iter().find(|(_, _, n)| *n == name).map(|row| row.1)
}

pub(super) fn tensor_type(element: Element, dimensions: Vec<Dimension>) -> TensorType {
    let number = ELEMENTS.iter().find(|(_, e, _)| *e == element).map_or(0, |row| row.0);
    TensorType { data_type: number, rank: dimensions.len() as i64, dimensions, attributes: BTreeMap::new() }
}
