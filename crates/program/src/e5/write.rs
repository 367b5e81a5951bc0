//! Writer of records as FlatBuffer bytes, in a fixed order: equal records give equal bytes.

use crate::order;
use anemone_facts::formats::e5::Kind;
use flatbuffers::{FlatBufferBuilder, Push, TableFinishedWIPOffset, UnionWIPOffset, Vector, WIPOffset};

use super::{Record, Value};

/// Content of a slot of a table.
enum Slot {
    U8(u8),
    I32(i32),
    U32(u32),
    U64(u64),
    /// Reference to a structure; only its position matters.
    Offset(WIPOffset<UnionWIPOffset>),
}

/// A file with this root.
pub fn write(root: &Record) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    // Makes the size of the buffer a multiple of eight bytes, even without 64-bit numbers.
    b.push(0u64);
    let root = record(&mut b, root, true);
    b.finish_minimal(root);
    b.finished_data().to_vec()
}

type Builder = FlatBufferBuilder<'static>;

fn record(b: &mut Builder, r: &Record, is_root: bool) -> WIPOffset<TableFinishedWIPOffset> {
    let mut slots: Vec<(usize, Slot)> = Vec::new();
    for (i, (row, value)) in r.table.fields.iter().zip(&r.fields).enumerate() {
        let slot = r.table.slot(i);
        match (row.kind, value) {
            (Kind::Union(tables), Value::Record(inner)) => {
                let chosen = tables.iter().position(|t| *t == inner.table.name).map_or(0, |n| n as u8 + 1);
                slots.push((slot, Slot::U8(chosen)));
                slots.push((slot + 1, Slot::Offset(record(b, inner, false).as_union_value())));
            }
            (kind, value) => slots.extend(element(b, kind, value).map(|s| (slot, s))),
        }
    }
    if is_root {
        // The root's vtable then starts as in Apple's files: after the root's offset and four bytes of padding.
        while !b.unfinished_data().len().is_multiple_of(8) {
            b.push(0u8);
        }
    }
    let start = b.start_table();
    // Tables grow downwards: the field pushed last has the lowest address. Wide numbers go first, so that no padding
    // separates the others.
    order::by_key(&mut slots, |(slot, s)| {
        let size = match s {
            Slot::U64(_) => 8,
            Slot::U8(_) => 1,
            _ => 4,
        };
        std::cmp::Reverse((size, *slot))
    });
    for (slot, value) in slots {
        let entry = (4 + 2 * slot) as u16;
        match value {
            Slot::U8(x) => b.push_slot_always(entry, x),
            Slot::I32(x) => b.push_slot_always(entry, x),
            Slot::U32(x) => b.push_slot_always(entry, x),
            Slot::U64(x) => b.push_slot_always(entry, x),
            Slot::Offset(x) => b.push_slot_always(entry, x),
        }
    }
    let end = b.end_table(start);
    WIPOffset::new(end.value())
}

fn element(b: &mut Builder, kind: Kind, value: &Value) -> Option<Slot> {
    Some(match (kind, value) {
        (Kind::U8(_), Value::Number(n)) => Slot::U8(*n as u8),
        (Kind::I32(_), Value::Number(n)) => Slot::I32(*n as i32),
        (Kind::U32, Value::Number(n)) => Slot::U32(*n as u32),
        (Kind::U64, Value::Number(n)) => Slot::U64(*n),
        (Kind::Text, Value::Text(text)) => Slot::Offset(WIPOffset::new(b.create_string(text).value())),
        (Kind::Table(_), Value::Record(inner)) => Slot::Offset(record(b, inner, false).as_union_value()),
        (Kind::Nested(_), Value::Nested(inner)) => Slot::Offset(bytes(b, &write(inner))),
        (Kind::Nested(_), Value::Bytes(data)) => Slot::Offset(bytes(b, data)),
        (Kind::Vector(inner), Value::List(all)) => Slot::Offset(vector(b, *inner, all)),
        _ => return None,
    })
}

/// Bytes aligned to eight bytes, as required for a nested FlatBuffer.
fn bytes(b: &mut Builder, data: &[u8]) -> WIPOffset<UnionWIPOffset> {
    while !(b.unfinished_data().len() + data.len()).is_multiple_of(8) {
        b.push(0u8);
    }
    WIPOffset::new(b.create_vector(data).value())
}

fn vector(b: &mut Builder, inner: Kind, all: &[Value]) -> WIPOffset<UnionWIPOffset> {
    let numbers = || all.iter().map(|v| if let Value::Number(n) = v { *n } else { 0 });
    match inner {
        Kind::U64 => place(b.create_vector_from_iter(numbers())),
        Kind::U32 => place(b.create_vector_from_iter(numbers().map(|n| n as u32))),
        _ => {
            let offsets: Vec<WIPOffset<UnionWIPOffset>> = all
                .iter()
                .filter_map(|v| match element(b, inner, v) {
                    Some(Slot::Offset(offset)) => Some(offset),
                    _ => None,
                })
                .collect();
            place(b.create_vector(&offsets))
        }
    }
}

fn place<T: Push>(vector: WIPOffset<Vector<'_, T>>) -> WIPOffset<UnionWIPOffset> {
    WIPOffset::new(vector.value())
}
