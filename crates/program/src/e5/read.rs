//! Reader of FlatBuffer bytes to records. Every offset and size is checked before it is used, and bytes read are counted against
//! the size of the file, so that shared tables cannot multiply.

use anemone_facts::formats::e5::{self as rows, FieldRow, Kind, TableRow};

use super::{Record, Value};

/// Total size of the values read, as a multiple of the file's size: a limited amount of sharing is allowed.
const CLAIM_FACTOR: u64 = 4;

/// A file that is not a dispatch descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A structure reaches past the end.
    #[error("{table}.{field}: {what} at {offset:#x} needs {need:#x} bytes, the buffer has {have:#x}")]
    Truncated {
        /// Table.
        table: &'static str,
        /// Field; empty for the table itself.
        field: &'static str,
        /// Structure.
        what: &'static str,
        /// Byte offset.
        offset: u64,
        /// Bytes needed from the offset.
        need: u64,
        /// Bytes of the buffer.
        have: u64,
    },
    /// A number is out of its range.
    #[error("{table}.{field}: {what} at {offset:#x} is {found:#x}, expected {expected}")]
    Value {
        /// Table.
        table: &'static str,
        /// Field; empty for the table itself.
        field: &'static str,
        /// Quantity.
        what: &'static str,
        /// Byte offset.
        offset: u64,
        /// Value found.
        found: u64,
        /// Expected value.
        expected: &'static str,
    },
    /// Tables are shared so often that reading them would exceed the file's size by far.
    #[error("{table}: with the table at {offset:#x}, {claimed:#x} bytes are referenced in a buffer of {have:#x}")]
    Shared {
        /// Table.
        table: &'static str,
        /// Byte offset.
        offset: u64,
        /// Bytes referenced so far.
        claimed: u64,
        /// Bytes of the buffer.
        have: u64,
    },
}

/// Reads the root table.
pub(super) fn read(bytes: &[u8]) -> Result<Record, Error> {
    let root = rows::table(rows::ROOT).unwrap_or(&rows::TABLES[0]);
    Buffer { bytes, start: 0, limit: CLAIM_FACTOR * bytes.len() as u64, claimed: 0 }.root(root)
}

/// A FlatBuffer inside a file.
struct Buffer<'a> {
    bytes: &'a [u8],
    /// Byte offset of the buffer in the file, for errors.
    start: u64,
    limit: u64,
    claimed: u64,
}

/// Structure being read, for errors.
#[derive(Clone, Copy)]
struct Place {
    table: &'static str,
    field: &'static str,
}

impl Buffer<'_> {
    fn at(&self, at: usize) -> u64 {
        self.start + at as u64
    }

    fn slice(&self, p: Place, what: &'static str, at: usize, need: usize) -> Result<&[u8], Error> {
        let have = self.bytes.len();
        match at.checked_add(need) {
            Some(end) if end <= have => Ok(&self.bytes[at..end]),
            _ => Err(Error::Truncated {
                table: p.table,
                field: p.field,
                what,
                offset: self.at(at),
                need: need as u64,
                have: have as u64,
            }),
        }
    }

    fn number<const N: usize>(&self, p: Place, what: &'static str, at: usize) -> Result<u64, Error> {
        let bytes = self.slice(p, what, at, N)?;
        Ok(bytes.iter().rev().fold(0, |all, &b| all << 8 | b as u64))
    }

    /// Target of the 32-bit offset at a position: always ahead, never itself.
    fn follow(&self, p: Place, at: usize) -> Result<usize, Error> {
        let found = self.number::<4>(p, "offset", at)?;
        if found == 0 {
            return Err(self.wrong(p, "offset", at, 0, "a forward offset"));
        }
        at.checked_add(found as usize).ok_or_else(|| self.wrong(p, "offset", at, found, "a position in the buffer"))
    }

    fn wrong(&self, p: Place, what: &'static str, at: usize, found: u64, expected: &'static str) -> Error {
        Error::Value { table: p.table, field: p.field, what, offset: self.at(at), found, expected }
    }

    fn claim(&mut self, table: &'static str, at: usize, bytes: usize) -> Result<(), Error> {
        self.claimed += bytes as u64;
        if self.claimed > self.limit {
            let (offset, claimed, have) = (self.at(at), self.claimed, self.bytes.len() as u64);
            return Err(Error::Shared { table, offset, claimed, have });
        }
        Ok(())
    }

    fn root(&mut self, table: &'static TableRow) -> Result<Record, Error> {
        let at = self.follow(Place { table: table.name, field: "" }, 0)?;
        self.record(table, at)
    }

    fn record(&mut self, table: &'static TableRow, at: usize) -> Result<Record, Error> {
        let p = Place { table: table.name, field: "" };
        let step = self.number::<4>(p, "table", at)? as u32 as i32 as i64;
        let vtable = at as i64 - step;
        let vtable = usize::try_from(vtable)
            .map_err(|_| self.wrong(p, "offset of the vtable", at, step as u64, "a position in the buffer"))?;
        let vtable_bytes = self.number::<2>(p, "vtable", vtable)? as usize;
        let table_bytes = self.number::<2>(p, "size of the table", vtable + 2)? as usize;
        if vtable_bytes < 4 || !vtable_bytes.is_multiple_of(2) {
            return Err(self.wrong(p, "size of the vtable", vtable, vtable_bytes as u64, "an even number from 4"));
        }
        self.slice(p, "vtable", vtable, vtable_bytes)?;
        self.slice(p, "table", at, table_bytes.max(4))?;
        self.claim(table.name, at, vtable_bytes + table_bytes)?;
        let slots = (vtable_bytes - 4) / 2;
        let place = |this: &Self, p: Place, slot: usize, size: usize| -> Result<Option<usize>, Error> {
            if slot >= slots {
                return Ok(None);
            }
            let entry = vtable + 4 + 2 * slot;
            let inside = this.number::<2>(p, "vtable entry", entry)? as usize;
            if inside == 0 {
                return Ok(None);
            }
            if inside < 4 || inside + size > table_bytes {
                return Err(this.wrong(p, "vtable entry", entry, inside as u64, "a position in the table"));
            }
            Ok(Some(at + inside))
        };
        let mut record = Record::empty(table);
        record.offset = self.at(at);
        let mut known = 0;
        for (i, field) in table.fields.iter().enumerate() {
            let p = Place { table: table.name, field: field.name };
            let slot = table.slot(i);
            known = slot + 1 + usize::from(matches!(field.kind, Kind::Union(_)));
            record.fields[i] = if let Kind::Union(tables) = field.kind {
                let chosen = place(self, p, slot, 1)?.map_or(Ok(0), |at| self.number::<1>(p, "choice", at))?;
                match (chosen, place(self, p, slot + 1, 4)?) {
                    (0, None) => Value::Absent,
                    (n, Some(at)) if (1..=tables.len() as u64).contains(&n) => {
                        let to = self.follow(p, at)?;
                        Value::Record(Box::new(self.named(p, tables[n as usize - 1], to)?))
                    }
                    (n, _) => return Err(self.wrong(p, "choice", at, n, "a table of the union, with its value")),
                }
            } else if let Kind::Nested(roots) = field.kind {
                // The preceding number selects the type of the table.
                let chosen = match i.checked_sub(1).map(|before| &record.fields[before]) {
                    Some(Value::Number(n)) => roots.get(*n as usize),
                    Some(Value::Absent) => roots.first(),
                    _ => None,
                };
                let root = chosen.and_then(|r| rows::table(r));
                place(self, p, slot, 4)?.map_or(Ok(Value::Absent), |at| self.nested(p, root, at))?
            } else {
                match place(self, p, slot, size(field.kind))? {
                    None => Value::Absent,
                    Some(at) => self.value(p, field, at)?,
                }
            };
        }
        record.unknown_slots = slots.saturating_sub(known);
        Ok(record)
    }

    fn named(&mut self, p: Place, name: &'static str, at: usize) -> Result<Record, Error> {
        let table = rows::table(name).ok_or_else(|| self.wrong(p, "table", at, 0, "a table of the schema"))?;
        self.record(table, at)
    }

    /// A nested FlatBuffer with that root; bytes if it cannot be read.
    fn nested(&mut self, p: Place, root: Option<&'static TableRow>, at: usize) -> Result<Value, Error> {
        let (from, bytes) = self.vector(p, at, 1)?;
        self.claim(p.table, from, bytes)?;
        let data = &self.bytes[from..from + bytes];
        let (start, limit) = (self.at(from), CLAIM_FACTOR * bytes as u64);
        let read = root.map(|table| Buffer { bytes: data, start, limit, claimed: 0 }.root(table));
        Ok(match read {
            Some(Ok(record)) => Value::Nested(Box::new(record)),
            _ => Value::Bytes(data.to_vec()),
        })
    }

    fn value(&mut self, p: Place, field: &FieldRow, at: usize) -> Result<Value, Error> {
        match field.kind {
            Kind::Vector(inner) => {
                let (from, count) = self.vector(p, at, size(*inner))?;
                self.claim(p.table, from, count * size(*inner))?;
                let all = (0..count).map(|i| self.element(p, *inner, from + i * size(*inner)));
                Ok(Value::List(all.collect::<Result<_, _>>()?))
            }
            kind => self.element(p, kind, at),
        }
    }

    fn element(&mut self, p: Place, kind: Kind, at: usize) -> Result<Value, Error> {
        Ok(match kind {
            Kind::U8(_) => Value::Number(self.number::<1>(p, "number", at)?),
            Kind::I32(_) => Value::Number(self.number::<4>(p, "number", at)? as u32 as i32 as i64 as u64),
            Kind::U32 => Value::Number(self.number::<4>(p, "number", at)?),
            Kind::U64 => Value::Number(self.number::<8>(p, "number", at)?),
            Kind::Text => {
                let (from, bytes) = self.vector(p, at, 1)?;
                self.claim(p.table, from, bytes)?;
                let text = str::from_utf8(&self.bytes[from..from + bytes]).map_err(|e| {
                    let bad = from + e.valid_up_to();
                    self.wrong(p, "text", bad, self.bytes.get(bad).copied().unwrap_or(0) as u64, "UTF-8")
                })?;
                Value::Text(text.to_string())
            }
            Kind::Table(name) => {
                let to = self.follow(p, at)?;
                Value::Record(Box::new(self.named(p, name, to)?))
            }
            Kind::Vector(_) | Kind::Union(_) | Kind::Nested(_) => {
                return Err(self.wrong(p, "vector", at, 0, "a vector of numbers, texts or tables"));
            }
        })
    }

    /// Position and number of elements of the vector that the offset at a position refers to.
    fn vector(&self, p: Place, at: usize, element: usize) -> Result<(usize, usize), Error> {
        let to = self.follow(p, at)?;
        let count = self.number::<4>(p, "number of elements", to)? as usize;
        self.slice(p, "elements", to + 4, count.saturating_mul(element))?;
        Ok((to + 4, count))
    }
}

/// Size of a kind in a table or vector, in bytes.
fn size(kind: Kind) -> usize {
    match kind {
        Kind::U8(_) => 1,
        Kind::U64 => 8,
        _ => 4,
    }
}
