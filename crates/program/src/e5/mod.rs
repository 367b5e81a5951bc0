//! The dispatch descriptor `.e5`: reader, writer, builder, checks.
//!
//! Every table is a [`Record`] over its row in `facts`, so that reader, writer, listing and explanation follow the rows.
//! A file that our writing order would not reproduce is kept whole: `Descriptor::read(b)?.write() == b`.

mod build;
mod check;
mod layout;
mod read;
mod repeat;
mod sequence;
pub(crate) mod write;

use anemone_facts::formats::e5::TableRow;
use std::collections::HashMap;

pub use build::{
    Call, Counted, Declared, ENGINE_SUFFIX, HostCall, HostTensor, Info, State, Step, container_hash, from_calls,
    from_steps, with_engine_names, without_engine_names,
};
pub use check::Problem;
pub use read::Error;
pub use repeat::{Carried, Mark, Repeat, Scanned, Source};
pub use sequence::{Dispatch, EngineCall, Sequence, Unfollowed};

/// A value of a table's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Absent field.
    Absent,
    /// A number, whose width is in the row. Signed ones are sign-extended.
    Number(u64),
    /// A text.
    Text(String),
    /// A table, or the chosen table of a union.
    Record(Box<Record>),
    /// A vector.
    List(Vec<Value>),
    /// A nested FlatBuffer.
    Nested(Box<Record>),
    /// Bytes where a FlatBuffer was expected.
    Bytes(Vec<u8>),
}

/// A table with its fields in the order of its row.
#[derive(Clone, Debug)]
pub struct Record {
    /// Row of the table.
    pub table: &'static TableRow,
    /// One value per field.
    pub fields: Vec<Value>,
    /// Byte offset in the file it was read from; 0 when made.
    pub offset: u64,
    /// Slots of the vtable beyond those of the row.
    pub unknown_slots: usize,
}

impl PartialEq for Record {
    /// Compares tables and fields; the offset in the file is ignored.
    fn eq(&self, other: &Record) -> bool {
        std::ptr::eq(self.table, other.table) && self.fields == other.fields
    }
}

impl Eq for Record {}

impl Record {
    /// A record without values.
    pub fn empty(table: &'static TableRow) -> Record {
        Record { table, fields: vec![Value::Absent; table.fields.len()], offset: 0, unknown_slots: 0 }
    }

    /// Value of a field.
    pub fn get(&self, name: &str) -> &Value {
        self.table.field(name).and_then(|i| self.fields.get(i)).unwrap_or(&Value::Absent)
    }

    /// Text of a field; empty if it is not a text.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// Number of a field, the default 0 when absent.
    pub fn number(&self, name: &str) -> u64 {
        match self.get(name) {
            Value::Number(n) => *n,
            _ => 0,
        }
    }

    /// Elements of a field; empty if it is not a vector.
    pub fn list(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Value::List(all) => all,
            _ => &[],
        }
    }

    /// Tables of a vector.
    pub fn records(&self, name: &str) -> impl Iterator<Item = &Record> {
        self.list(name).iter().filter_map(|v| match v {
            Value::Record(r) => Some(r.as_ref()),
            _ => None,
        })
    }

    /// The table that a field holds.
    pub fn record(&self, name: &str) -> Option<&Record> {
        match self.get(name) {
            Value::Record(r) | Value::Nested(r) => Some(r),
            _ => None,
        }
    }
}

/// A dispatch descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The root table.
    pub root: Record,
    /// The bytes of the file, if writing the root would give others.
    original: Option<Vec<u8>>,
}

impl Descriptor {
    /// A descriptor of a root table.
    pub fn of(root: Record) -> Descriptor {
        Descriptor { root, original: None }
    }

    /// A descriptor whose file has these bytes.
    pub(crate) fn with_bytes(root: Record, bytes: Vec<u8>) -> Descriptor {
        let original = (write::write(&root) != bytes).then_some(bytes);
        Descriptor { root, original }
    }

    /// Reads a file; every offset is checked before it is followed.
    pub fn read(bytes: &[u8]) -> Result<Descriptor, Error> {
        Ok(Descriptor::with_bytes(read::read(bytes)?, bytes.to_vec()))
    }

    /// The file's bytes.
    pub fn write(&self) -> Vec<u8> {
        self.original.clone().unwrap_or_else(|| write::write(&self.root))
    }

    /// The bytes of the root table, in our order.
    pub fn canonical(&self) -> Vec<u8> {
        write::write(&self.root)
    }

    /// Returns true if writing the root table gives the bytes of the file.
    pub fn is_canonical(&self) -> bool {
        self.original.is_none()
    }

    /// Contradictions; empty for a consistent descriptor.
    pub fn check(&self) -> Vec<Problem> {
        check::check(self)
    }

    /// Operations in order: their records, from the argument frames.
    pub fn operations(&self) -> impl Iterator<Item = &Record> {
        self.frames().filter_map(|frame| frame.record("operation"))
    }

    /// Attributes of the operations, by the names of their sections.
    pub fn attributes(&self) -> HashMap<&str, &Record> {
        let attributes = |s| Some((Record::text(s, "name"), s.record("data")?.record("attrs")?));
        self.root.records("sections").filter_map(attributes).collect()
    }

    /// Argument frames in order.
    pub fn frames(&self) -> impl Iterator<Item = &Record> {
        self.root.records("sections").filter_map(|s| s.record("data")).filter(|r| r.table.name == "ArgFrame")
    }
}
