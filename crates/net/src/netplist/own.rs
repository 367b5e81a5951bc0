//! Keys of our own in a netplist for everything that the schema cannot express, so that reading gives the same network. Other readers
//! ignore them.
//!
//! | key | in | meaning |
//! |---|---|---|
//! | `AnemoneShape` | inputs, constants, units | extents, if a value does not have four axes |
//! | `AnemoneOperation` | units | operation with its attributes, if the unit's parameters are not sufficient |
//! | `AnemoneForm` | constants, convolutions | compressed form of the elements |
//! | `AnemoneConstants`, `AnemoneStates` | networks | constants without dense elements; states with their ports |

use super::{Writer, dictionary, number};
use crate::error::Error;
use crate::graph::{Data, Tensor};
use crate::ops::OpKind;
use crate::stored::{Element, Form, Stored, to_bytes};
use crate::text::{Attribute, Attributes, attributes};
use plist::{Dictionary, Value};

pub(crate) const SHAPE: &str = "AnemoneShape";
pub(crate) const OPERATION: &str = "AnemoneOperation";
pub(crate) const FORM: &str = "AnemoneForm";
pub(crate) const CONSTANTS: &str = "AnemoneConstants";
pub(crate) const STATES: &str = "AnemoneStates";

/// Prefix of the type tags of units that are not in the schema.
pub(crate) const TAG_PREFIX: &str = "anemone.";

/// Names of the axes of a value, outermost first; `None` beyond five axes.
pub(crate) fn axis_names(rank: usize) -> Option<&'static [&'static str]> {
    Some(match rank {
        0 => &[],
        1 => &["Channel"],
        2 => &["Batch", "Channel"],
        3 => &["Batch", "Channel", "Width"],
        4 => &["Batch", "Channel", "Height", "Width"],
        5 => &["Batch", "Channel", "Depth", "Height", "Width"],
        _ => return None,
    })
}

/// Extents as `[N, C, D, H, W]`; axes before the last five are merged into the batch.
pub(crate) fn five(shape: &[usize]) -> [usize; 5] {
    match *shape {
        [] => [1; 5],
        [c] => [1, c, 1, 1, 1],
        [n, c] => [n, c, 1, 1, 1],
        [n, c, w] => [n, c, 1, 1, w],
        [n, c, h, w] => [n, c, 1, h, w],
        [ref batch @ .., c, d, h, w] => [crate::graph::elements(batch), c, d, h, w],
    }
}

/// Extents as a list.
pub(super) fn shape(shape: &[usize]) -> Value {
    Value::Array(shape.iter().map(|&extent| number(extent)).collect())
}

/// An operation with its attributes.
pub(super) fn operation(kind: &OpKind) -> Value {
    let mut entry = dictionary([("Kind", kind.name().into())]);
    entry.extend(attributes(kind).into_iter().map(|(name, value)| (name.to_string(), text(&value))));
    entry.into()
}

fn text(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Word(text) | Attribute::Text(text) => Value::from(text.clone()),
        Attribute::List(items) => Value::Array(items.iter().map(text).collect()),
    }
}

/// The operation that [`operation`] wrote. Errors: a description of the defect.
pub(crate) fn read_operation(entry: &Dictionary) -> Result<OpKind, String> {
    let name = entry.get("Kind").and_then(Value::as_string).ok_or("it has no `Kind`")?;
    let attributes = entry.iter().filter(|(key, _)| *key != "Kind");
    let list = attributes.map(|(key, value)| Ok((key.clone(), attribute(value)?))).collect::<Result<_, String>>()?;
    Attributes { op: name, list }.kind().map_err(|fault| fault.to_string())
}

fn attribute(value: &Value) -> Result<Attribute, String> {
    match value {
        Value::String(text) => Ok(Attribute::Word(text.clone())),
        Value::Array(items) => Ok(Attribute::List(items.iter().map(attribute).collect::<Result<_, _>>()?)),
        _ => Err("attributes are texts and lists of texts".into()),
    }
}

fn element_name(element: Element) -> String {
    format!("{element:?}").replace(['(', ')'], "")
}

fn element(name: &str) -> Option<Element> {
    let bits = |prefix: &str| name.strip_prefix(prefix)?.parse().ok().filter(|bits| (1..=64).contains(bits));
    Some(match name {
        "Bool" => Element::Bool,
        "Float16" => Element::Float16,
        "Float32" => Element::Float32,
        "Float64" => Element::Float64,
        "BFloat16" => Element::BFloat16,
        _ => bits("UInt").map(Element::UInt).or_else(|| bits("Int").map(Element::Int))?,
    })
}

impl Writer<'_> {
    /// A tensor in the weight file, in its stored form.
    pub(super) fn form(&mut self, tensor: &Tensor) -> Value {
        let mut entry = match &tensor.data {
            Data::Stored(stored) => self.stored(stored),
            dense => self.plain_form(dense, Element::of(dense.dtype())),
        };
        entry.insert("Shape".into(), shape(&tensor.shape));
        entry.into()
    }

    fn plain_form(&mut self, data: &Data, element: Element) -> Dictionary {
        let bytes = to_bytes(data, element);
        let count = bytes.len();
        let offset = self.append(bytes);
        dictionary([
            ("Form", "Plain".into()),
            ("Type", element_name(element).into()),
            ("Offset", number(offset)),
            ("Bytes", number(count)),
        ])
    }

    fn stored(&mut self, stored: &std::sync::Arc<Stored>) -> Dictionary {
        let (name, parts) = match stored.form() {
            Form::Plain { element, .. } => return self.plain_form(&Data::Stored(stored.clone()), *element),
            Form::Scaled { data, scale, offset, mask } => (
                "Scaled",
                [Some(("Data", data)), Some(("Scale", scale))]
                    .into_iter()
                    .chain([offset.as_ref().map(|o| ("ZeroPoint", o)), mask.as_ref().map(|m| ("Mask", m))])
                    .flatten()
                    .collect::<Vec<_>>(),
            ),
            Form::Palette { indices, table, mask, .. } => {
                let mask = mask.as_ref().map(|m| ("Mask", m));
                ("Palette", [Some(("Data", indices)), Some(("Table", table)), mask].into_iter().flatten().collect())
            }
            Form::Sparse { mask, values } => ("Sparse", vec![("Mask", mask), ("Data", values)]),
        };
        let mut entry = dictionary([("Form", name.into())]);
        if let Form::Palette { axis, .. } = stored.form() {
            entry.insert("Axis".into(), number(*axis));
        }
        for (key, part) in parts {
            let part = self.form(part);
            entry.insert(key.into(), part);
        }
        entry
    }
}

/// The tensor that [`Writer::form`] wrote; `bytes` returns a part of the weight file by offset and length.
pub(crate) fn read_form(
    entry: &Dictionary,
    place: &str,
    bytes: &mut dyn FnMut(usize, usize) -> Result<bytes::Bytes, Error>,
) -> Result<Tensor, Error> {
    let missing = |key: &str| Error::Missing { place: place.to_string(), key: key.to_string() };
    let size = |key: &str| {
        let value = entry.get(key).and_then(Value::as_unsigned_integer);
        value.and_then(|v| usize::try_from(v).ok()).ok_or_else(|| missing(key))
    };
    let shape = read_shape(entry.get("Shape").ok_or_else(|| missing("Shape"))?).ok_or_else(|| missing("Shape"))?;
    let word = |key: &str| entry.get(key).and_then(Value::as_string).ok_or_else(|| missing(key));
    let mut part = |key: &str| {
        let part = entry.get(key).map(|v| v.as_dictionary().ok_or_else(|| missing(key))).transpose()?;
        part.map(|part| read_form(part, place, bytes)).transpose()
    };
    let mask = part("Mask")?;
    let form = match word("Form")? {
        "Plain" => {
            let element = element(word("Type")?).ok_or_else(|| missing("Type"))?;
            let data = bytes(size("Offset")?, size("Bytes")?)?;
            if let Some(dtype) = element.dtype().filter(|&dtype| Element::of(dtype) == element) {
                let count = crate::graph::elements(&shape);
                if count.checked_mul(dtype.bytes()) != Some(data.len()) {
                    return Err(Error::Stored {
                        reason: format!("{} bytes for {count} elements of {dtype}", data.len()),
                    });
                }
                return Ok(Tensor { shape, data: Data::from_le_bytes(dtype, &data) });
            }
            Form::Plain { element, bytes: data }
        }
        "Scaled" => Form::Scaled {
            data: part("Data")?.ok_or_else(|| missing("Data"))?,
            scale: part("Scale")?.ok_or_else(|| missing("Scale"))?,
            offset: part("ZeroPoint")?,
            mask,
        },
        "Palette" => Form::Palette {
            indices: part("Data")?.ok_or_else(|| missing("Data"))?,
            table: part("Table")?.ok_or_else(|| missing("Table"))?,
            axis: size("Axis")?,
            mask,
        },
        "Sparse" => Form::Sparse {
            mask: mask.ok_or_else(|| missing("Mask"))?,
            values: part("Data")?.ok_or_else(|| missing("Data"))?,
        },
        other => return Err(Error::Stored { reason: format!("no form is called `{other}`") }),
    };
    Stored::tensor(form, shape)
}

/// Extents from a list of at most eight positive integers.
pub(crate) fn read_shape(value: &Value) -> Option<Vec<usize>> {
    let list = value.as_array().filter(|list| list.len() <= crate::graph::MAX_RANK)?;
    let extent = |v: &Value| v.as_unsigned_integer().and_then(|v| usize::try_from(v).ok()).filter(|&v| v > 0);
    list.iter().map(extent).collect()
}
