//! Tensor layouts, and records built by the names of their fields.

use anemone_facts::formats::{by_name, e5 as rows};

use super::{Record, Value};
use crate::{Element, Port};

/// Layout of a tensor: extents and byte strides of batch, channels, height, width.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    extents: [u64; 4],
    stride_bytes: [u64; 4],
    /// Code of the element type.
    pub storage: u64,
}

impl Layout {
    /// Layout on the engine's side, with the port's strides.
    pub fn engine(port: &Port) -> Layout {
        let (s, strides) = (port.shape, port.strides);
        let stride_bytes = [strides.batch_bytes, strides.plane_bytes, strides.row_bytes, port.element.bytes()];
        Layout { extents: [s.n, s.c, s.h, s.w].map(u64::from), stride_bytes, storage: storage(port.element) }
    }

    /// Layout on the host's side, without padding.
    pub fn host(port: &Port) -> Layout {
        let s = port.shape;
        Layout::dense([s.n, s.c, s.h, s.w].map(u64::from), port.element.bytes(), storage(port.element))
    }

    /// Layout of a shape without padding. Axes beyond four are folded into the first; missing ones are 1.
    pub fn of_shape(shape: &[u64], storage: u64) -> Layout {
        let (outer, inner) = shape.split_at(shape.len().saturating_sub(3));
        let mut extents = [1; 4];
        extents[0] = outer.iter().fold(1u64, |all, &n| all.saturating_mul(n));
        for (slot, &n) in extents[4 - inner.len()..].iter_mut().zip(inner) {
            *slot = n;
        }
        let bits = anemone_facts::driver::IO_TYPES.get(storage as usize).map_or(8, |t| t.1);
        Layout::dense(extents, u64::from(bits.div_ceil(8)), storage)
    }

    fn dense(extents: [u64; 4], element_bytes: u64, storage: u64) -> Layout {
        let [_, c, h, w] = extents;
        let row_bytes = w.saturating_mul(element_bytes);
        let plane_bytes = row_bytes.saturating_mul(h);
        let batch_bytes = plane_bytes.saturating_mul(c);
        Layout { extents, stride_bytes: [batch_bytes, plane_bytes, row_bytes, element_bytes], storage }
    }
}

/// Code of an element type.
pub(super) fn storage(element: Element) -> u64 {
    let name = match element {
        Element::Uint8 => "uint8",
        Element::Int8 => "int8",
        Element::Float16 => "float16",
    };
    by_name(anemone_facts::enums::ELEMENTS, name).map_or(0, |c| c.code as u64)
}

/// Builds a record from table and field names.
pub(super) fn record(table: &str, fields: Vec<(&str, Value)>) -> Record {
    let row = rows::table(table).unwrap_or(&rows::TABLES[0]);
    let mut out = Record::empty(row);
    for (name, value) in fields {
        debug_assert!(row.field(name).is_some(), "{table}.{name}");
        if let Some(i) = row.field(name) {
            out.fields[i] = value;
        }
    }
    out
}

pub(super) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

pub(super) fn number(n: impl Into<u64>) -> Value {
    Value::Number(n.into())
}

pub(super) fn numbers(all: impl IntoIterator<Item = u64>) -> Value {
    Value::List(all.into_iter().map(Value::Number).collect())
}

pub(super) fn table(record: Record) -> Value {
    Value::Record(Box::new(record))
}

pub(super) fn tables(all: Vec<Record>) -> Value {
    Value::List(all.into_iter().map(table).collect())
}

pub(super) fn operand(l: &Layout) -> Record {
    let (extents, strides) = (l.extents, l.stride_bytes);
    let fields = vec![
        ("dim", numbers(extents)),
        ("stride", numbers(strides)),
        ("width", number(extents[3])),
        ("height", number(extents[2])),
        ("channels", number(extents[1])),
        ("batch_number", number(extents[0])),
        ("sequence_length", number(1u64)),
        ("stride_width", number(strides[3])),
        ("stride_height", number(strides[2])),
        ("stride_channels", number(strides[1])),
        ("stride_batch_number", number(strides[0])),
        ("stride_sequence_length", number(strides[0])),
        ("storage_type", number(l.storage)),
    ];
    record("Operand", vec![("descriptor", table(record("TensorDescriptor", fields)))])
}
