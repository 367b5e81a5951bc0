//! Types and data in MIL files.

use super::super::blob::decode;
use crate::error::Error;
use crate::graph::{DType, Data, MAX_RANK, TensorType};
use crate::mil::proto::{self, Elements, Extent, Immediate, TypeKind};
use crate::stored::Element;

/// Type of a function's input, and true for a state; `defaults` returns its extents if they are not fixed.
pub fn input_type(
    input: &proto::NamedValueType,
    defaults: &dyn Fn(&str) -> Option<Vec<i64>>,
) -> Result<(TensorType, bool), Error> {
    let place = || format!("input `{}`", input.name);
    let kind = input.ty.as_ref().and_then(|t| t.kind.as_ref());
    let (inner, state) = match kind {
        Some(TypeKind::State(state)) => (state.wrapped.as_ref().and_then(|t| t.kind.as_ref()), true),
        other => (other, false),
    };
    let tensor = match inner {
        Some(TypeKind::Tensor(tensor)) => tensor,
        _ => return Err(Error::Missing { place: place(), key: "tensor type".to_string() }),
    };
    let default = defaults(&input.name).filter(|shape| shape.len() == tensor.dimensions.len());
    let extent = |axis: usize, dimension: &proto::Dimension| match &dimension.extent {
        Some(Extent::Constant(constant)) => usize::try_from(constant.size).ok(),
        _ => usize::try_from(*default.as_ref()?.get(axis)?).ok(),
    };
    let shape: Option<Vec<usize>> = tensor.dimensions.iter().enumerate().map(|(i, d)| extent(i, d)).collect();
    let shape = shape.ok_or_else(|| Error::Missing { place: place(), key: "default shape".to_string() })?;
    let element = proto::element(tensor.data_type).filter(|e| e.bits() >= 8);
    let dtype = element.and_then(Element::dtype).ok_or_else(|| {
        let (found, key) = (format!("element type {}", tensor.data_type), "type".to_string());
        Error::WrongType { place: place(), key, found, expected: "a float or integer type" }
    })?;
    Ok((TensorType { dtype, shape }, state))
}

/// Declared element type and extents of a value.
pub fn value_type(value: &proto::Value, place: &dyn Fn() -> String) -> Result<(Element, Vec<usize>), Error> {
    let Some(TypeKind::Tensor(tensor)) = value.ty.as_ref().and_then(|t| t.kind.as_ref()) else {
        return Err(Error::Missing { place: place(), key: "tensor type".to_string() });
    };
    let element = proto::element(tensor.data_type).ok_or_else(|| Error::WrongType {
        place: place(),
        key: "element type".to_string(),
        found: tensor.data_type.to_string(),
        expected: "a known element type",
    })?;
    let extent = |d: &proto::Dimension| match &d.extent {
        Some(Extent::Constant(constant)) => usize::try_from(constant.size).ok(),
        _ => None,
    };
    let shape: Option<Vec<usize>> = tensor.dimensions.iter().map(extent).collect();
    let shape = shape.ok_or_else(|| Error::Missing { place: place(), key: "extents".to_string() })?;
    if shape.len() > MAX_RANK + 2 {
        let (found, most) = (shape.len() as i64, MAX_RANK as i64 + 2);
        return Err(Error::OutOfRange { place: place(), key: "rank".to_string(), found, least: 0, most });
    }
    Ok((element, shape))
}

/// Elements stored in the file itself.
pub fn immediate_data(
    immediate: &proto::ImmediateValue,
    element: Element,
    count: usize,
    place: &dyn Fn() -> String,
) -> Result<Data, Error> {
    let Some(Immediate::Tensor(proto::TensorValue { elements: Some(elements) })) = &immediate.value else {
        // An empty list of elements has no encoding at all.
        return decode(bytes::Bytes::new(), element, count, &place());
    };
    let wrong = |found: &str| Error::WrongType {
        place: place(),
        key: "elements".to_string(),
        found: found.to_string(),
        expected: "of the stated type",
    };
    match elements {
        Elements::Bytes(bytes) => decode(bytes.values.clone(), element, count, &place()),
        Elements::Floats(floats) => match element {
            Element::Float16 => Ok(Data::from_f32(DType::F16, &floats.values)),
            Element::Float32 | Element::Float64 | Element::BFloat16 => Ok(Data::F32(floats.values.clone())),
            _ => Err(wrong("floats")),
        },
        Elements::Doubles(doubles) => match element {
            Element::Float32 | Element::Float64 => Ok(Data::F32(doubles.values.iter().map(|&v| v as f32).collect())),
            _ => Err(wrong("doubles")),
        },
        Elements::Ints(ints) => match integer_type(element) {
            Some(dtype) => Ok(Data::from_i32(dtype, &ints.values)),
            None => Err(wrong("integers")),
        },
        Elements::LongInts(ints) => {
            let dtype = integer_type(element).ok_or_else(|| wrong("integers"))?;
            let narrow = ints.values.iter().map(|&found| {
                let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
                let key = "element".to_string();
                i32::try_from(found).map_err(|_| Error::OutOfRange { place: place(), key, found, least, most })
            });
            Ok(Data::from_i32(dtype, &narrow.collect::<Result<Vec<i32>, Error>>()?))
        }
        Elements::Bools(bools) => match element {
            Element::Bool => Ok(Data::Bool(bools.values.clone())),
            _ => Err(wrong("truth values")),
        },
        Elements::Strings(_) => Err(wrong("strings")),
    }
}

/// The tensor element type for integers of this kind.
fn integer_type(element: Element) -> Option<DType> {
    Some(match element {
        Element::Int(1..=8) => DType::I8,
        Element::Int(16) => DType::I16,
        Element::UInt(16) => DType::U16,
        Element::Int(32 | 64) | Element::UInt(32 | 64) => DType::I32,
        Element::UInt(1..=8) => DType::U8,
        _ => return None,
    })
}
