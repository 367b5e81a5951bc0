//! Reader and writer of [`Package`]. Every size is checked against the file before anything is allocated for it.

use ::bytes::Bytes;
use anemone_facts::formats::firmware as rows;

use super::{Entry, Package, Section};
use crate::bytes::{self, place, put, put64, u32_at, u64_at};

/// Total size of sections, as a multiple of the file's size.
const CLAIM_FACTOR: u64 = 2;

/// A file that is not a package, or whose records reach outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A record or section reaches past the end.
    #[error("{what} at {offset:#x}: needs {need:#x} bytes, the file has {have:#x}")]
    Truncated {
        /// Structure.
        what: &'static str,
        /// Byte offset.
        offset: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes of the file.
        have: u64,
    },
    /// A record begins with another word.
    #[error("{what} at {offset:#x}: magic {found:#010x}, expected {expected:#010x}")]
    Magic {
        /// Structure.
        what: &'static str,
        /// Byte offset.
        offset: u64,
        /// Word found.
        found: u32,
        /// Word expected.
        expected: u32,
    },
    /// The package states another size than the file has.
    #[error("package at 0x0: states {stated:#x} bytes, the file has {have:#x}")]
    Size {
        /// Bytes stated.
        stated: u64,
        /// Bytes of the file.
        have: u64,
    },
    /// Records or sections together exceed the file's size by far, so they overlap.
    #[error("{what} at {offset:#x}: {claimed:#x} bytes are referenced so far, the file has {have:#x}")]
    Overlap {
        /// Structure.
        what: &'static str,
        /// Byte offset.
        offset: u64,
        /// Bytes referenced so far.
        claimed: u64,
        /// Bytes of the file.
        have: u64,
    },
}

struct File<'a> {
    bytes: &'a [u8],
    claimed: u64,
}

impl<'a> File<'a> {
    fn claim(&mut self, what: &'static str, offset: u64, need: u64) -> Result<&'a [u8], Error> {
        let have = self.bytes.len() as u64;
        let slice = bytes::slice(self.bytes, offset, need).ok_or(Error::Truncated { what, offset, need, have })?;
        self.claimed += need;
        if self.claimed > CLAIM_FACTOR * have {
            return Err(Error::Overlap { what, offset, claimed: self.claimed, have });
        }
        Ok(slice)
    }

    fn record(&mut self, what: &'static str, offset: u64, need: usize, magic: u32) -> Result<&'a [u8], Error> {
        let record = self.claim(what, offset, need as u64)?;
        match u32_at(record, 0) {
            found if found == magic => Ok(record),
            found => Err(Error::Magic { what, offset, found, expected: magic }),
        }
    }
}

impl Package {
    /// Reads a package.
    pub fn read(bytes: &[u8]) -> Result<Package, Error> {
        let mut file = File { bytes, claimed: 0 };
        let head = file.record("package record", 0, rows::PACKAGE_BYTES, rows::PACKAGE_MAGIC)?;
        let (stated, have) = (u64_at(head, 8), bytes.len() as u64);
        if stated != have {
            return Err(Error::Size { stated, have });
        }
        let count = u32_at(head, 16) as u64;
        let places = file.claim("positions of programs", rows::PACKAGE_BYTES as u64, 8 * count)?;
        let programs =
            places.chunks_exact(8).map(|p| program(&mut file, u64_at(p, 0))).collect::<Result<_, Error>>()?;
        let (version, checksum) = (u32_at(head, 4), u32_at(head, 20));
        let mut package = Package { version, checksum, programs, file_bytes: have, residue: Vec::new() };
        package.residue = bytes::differences(bytes, &package.write());
        Ok(package)
    }

    /// The package's bytes. Counts and sizes follow from the content; offsets are written unchanged.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![0; self.file_bytes as usize];
        for p in &self.programs {
            for s in &p.sections {
                place(&mut out, s.offset, &s.data);
            }
        }
        for p in &self.programs {
            let mut record = Vec::new();
            put(&mut record, &[rows::PROGRAM_MAGIC, p.id, p.flags, p.procedures, p.sections.len() as u32]);
            record.extend_from_slice(&p.hash);
            put(&mut record, &[p.reserved]);
            for s in &p.sections {
                put(&mut record, &[rows::SECTION_MAGIC, s.kind]);
                put64(&mut record, &[s.offset, s.data.len() as u64]);
                put(&mut record, &[s.align, s.flags]);
            }
            place(&mut out, p.offset, &record);
        }
        let end = out.len().max(rows::PACKAGE_BYTES + 8 * self.programs.len()) as u64;
        let mut head = Vec::new();
        put(&mut head, &[rows::PACKAGE_MAGIC, self.version]);
        put64(&mut head, &[end]);
        put(&mut head, &[self.programs.len() as u32, self.checksum]);
        put64(&mut head, &self.programs.iter().map(|p| p.offset).collect::<Vec<_>>());
        place(&mut out, 0, &head);
        for r in &self.residue {
            place(&mut out, r.offset, &r.bytes);
        }
        out
    }
}

fn program(file: &mut File, offset: u64) -> Result<Entry, Error> {
    let head = file.record("program record", offset, rows::PROGRAM_BYTES, rows::PROGRAM_MAGIC)?;
    let count = u32_at(head, 16) as u64;
    let first = offset + rows::PROGRAM_BYTES as u64;
    // All at once, before any is read, so that the file bounds their number.
    let size = rows::SECTION_BYTES as u64;
    file.claim("section records", first, size * count)?;
    let mut sections = Vec::new();
    for i in 0..count {
        let at = first + size * i;
        let record = file.record("section record", at, rows::SECTION_BYTES, rows::SECTION_MAGIC)?;
        let (offset, bytes) = (u64_at(record, 8), u64_at(record, 16));
        sections.push(Section {
            kind: u32_at(record, 4),
            offset,
            align: u32_at(record, 24),
            flags: u32_at(record, 28),
            data: Bytes::copy_from_slice(file.claim("section content", offset, bytes)?),
        });
    }
    let mut hash = [0; rows::HASH_BYTES];
    hash.copy_from_slice(&head[20..20 + rows::HASH_BYTES]);
    Ok(Entry {
        offset,
        id: u32_at(head, 4),
        flags: u32_at(head, 8),
        procedures: u32_at(head, 12),
        hash,
        reserved: u32_at(head, 52),
        sections,
    })
}
