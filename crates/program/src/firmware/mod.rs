//! The firmware container: a package of programs, each with sections; reader, writer, checks, builder.
//!
//! Reading keeps every byte: `Package::read(b)?.write() == b`. The three levels are known, the positions of their fields are
//! ours; see `docs/evidence.md`, key `firmware`.

mod convert;
mod file;

use anemone_facts::formats::firmware as rows;

pub use convert::{LiftError, from_programs, unhashed};
pub use file::Error;

use crate::bytes::Residue;
use bytes::Bytes;

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Version of the package.
    pub version: u32,
    /// Checksum word.
    pub checksum: u32,
    /// Programs in the order of the package record.
    pub programs: Vec<Entry>,
    /// Size of the file in bytes, if it is larger than its structures.
    pub file_bytes: u64,
    /// Bytes that no record explains, and that are not zero fill.
    pub residue: Vec<Residue>,
}

/// A program of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Byte offset of its record.
    pub offset: u64,
    /// Identity.
    pub id: u32,
    /// Flags.
    pub flags: u32,
    /// Number of procedures.
    pub procedures: u32,
    /// Hash of the model.
    pub hash: [u8; rows::HASH_BYTES],
    /// Last word of the record.
    pub reserved: u32,
    /// Sections in the order of their records.
    pub sections: Vec<Section>,
}

/// A section with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Kind of the content.
    pub kind: u32,
    /// Byte offset of the content in the package.
    pub offset: u64,
    /// Alignment of the content in bytes.
    pub align: u32,
    /// Flags.
    pub flags: u32,
    /// Content.
    pub data: Bytes,
}

impl Entry {
    /// The first section of a kind.
    pub fn section(&self, kind: u32) -> Option<&Section> {
        self.sections.iter().find(|s| s.kind == kind)
    }

    /// Byte offset of a section's record.
    pub fn record_offset(&self, section: usize) -> u64 {
        self.offset + (rows::PROGRAM_BYTES + rows::SECTION_BYTES * section) as u64
    }
}

/// A contradiction in a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} at {offset:#x}: {what}")]
pub struct Problem {
    /// Program and section.
    pub place: String,
    /// Byte offset.
    pub offset: u64,
    /// Description of the contradiction, with values.
    pub what: String,
}

impl Package {
    /// Contradictions; empty for a consistent package. Checks bounds, overlaps, kinds, and the requirements of programs.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut note = |place: String, offset: u64, what: String| problems.push(Problem { place, offset, what });
        if self.version != rows::VERSION {
            note("package".into(), 4, format!("version {}; the known one is {}", self.version, rows::VERSION));
        }
        if self.checksum != rows::CHECKSUM_VALID {
            let what = format!("checksum {:#010x}; its computation is unknown", self.checksum);
            note("package".into(), 20, what);
        }
        let mut taken: Vec<(u64, u64, String)> = Vec::new();
        let head = (rows::PACKAGE_BYTES + 8 * self.programs.len()) as u64;
        taken.push((0, head, "package record".into()));
        for (i, p) in self.programs.iter().enumerate() {
            taken.push((p.offset, p.record_offset(p.sections.len()), format!("record of program {i}")));
            for (j, s) in p.sections.iter().enumerate() {
                let place = format!("program {i}, section {j}");
                let at = p.record_offset(j);
                if anemone_facts::formats::by_code(rows::SECTION_KINDS, s.kind).is_none() {
                    note(place.clone(), at, format!("unknown kind {}", s.kind));
                }
                if !s.align.is_power_of_two() || !s.offset.is_multiple_of(s.align as u64) {
                    note(place.clone(), at, format!("offset {:#x} is not a multiple of {:#x}", s.offset, s.align));
                }
                if !s.data.is_empty() {
                    taken.push((s.offset, s.offset + s.data.len() as u64, place));
                }
            }
            if self.programs[..i].iter().any(|q| q.id == p.id) {
                note(format!("program {i}"), p.offset, format!("another program has the identity {}", p.id));
            }
            let found = p.sections.iter().filter(|s| s.kind == rows::PROCEDURE).count();
            if found as u64 != p.procedures as u64 {
                note(format!("program {i}"), p.offset, format!("{} procedures, {found} sections", p.procedures));
            }
            if let Err(e) = p.program() {
                note(format!("program {i}"), p.offset, e.to_string());
            }
        }
        taken.sort();
        for pair in taken.windows(2).filter(|pair| pair[0].1 > pair[1].0) {
            let what = format!("overlaps {}, which ends at {:#x}", pair[0].2, pair[0].1);
            note(pair[1].2.clone(), pair[1].0, what);
        }
        problems
    }
}
