//! Conversion of programs to packages and back.

use anemone_facts::chips::CHIPS;
use anemone_facts::formats::firmware as rows;
use anemone_facts::formats::hwx::tensor;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::ops::Range;

use super::{Entry, Package, Section};
use crate::bytes::{put, put64, slice, u32_at, u64_at};
use crate::hwx::{element_of, text_at, type_of};
use crate::{Direction, Nchw, Port, Program, StreamError, Strides};

/// Error for a package whose program cannot be lifted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiftError {
    /// A section is missing.
    #[error("no {what} section among {sections}")]
    Missing {
        /// Kind of the section.
        what: &'static str,
        /// Number of sections.
        sections: usize,
    },
    /// A section is shorter than its records.
    #[error("{what} section: record at {offset:#x} needs {need:#x} bytes, the section has {have:#x}")]
    Short {
        /// Kind of the section.
        what: &'static str,
        /// Byte offset in the section.
        offset: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes of the section.
        have: u64,
    },
    /// A number is out of its range.
    #[error("{what} is {found}, expected {expected}")]
    Value {
        /// The quantity.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Expected value.
        expected: &'static str,
    },
    /// The text section is not the chain of the operations.
    #[error("text section: {0}")]
    Stream(#[from] StreamError),
    /// Position or size of an operation differs from its descriptor.
    #[error("operation {index}: {words} words at {offset:#x}, the chain has {found_words} at {found:#x}")]
    Operation {
        /// Position.
        index: usize,
        /// Position in the operation section.
        offset: u32,
        /// Size in the operation section.
        words: u32,
        /// Position in the chain.
        found: u32,
        /// Size in the chain.
        found_words: u32,
    },
    /// A partition differs from that of the headers.
    #[error("partition {index} is operations {}, the headers have {}", shown(.stated), shown(.found))]
    Partition {
        /// Position.
        index: usize,
        /// Operations that the procedure states.
        stated: Option<Range<usize>>,
        /// Operations by the headers.
        found: Option<Range<usize>>,
    },
    /// The number of operations differs from that of descriptors.
    #[error("{stated} operations, the chain has {found} descriptors")]
    Count {
        /// Operations.
        stated: usize,
        /// Descriptors.
        found: usize,
    },
}

fn shown(operations: &Option<Range<usize>>) -> String {
    operations.as_ref().map_or("none".to_string(), |range| format!("{range:?}"))
}

/// A package of programs; identities count from 0.
pub fn from_programs(programs: &[&Program]) -> Result<Package, StreamError> {
    packaged(programs, |program| {
        let mut hash = Sha256::new();
        hash.update(&program.stream);
        hash.update(&program.kernel);
        hash.finalize().into()
    })
}

/// As [`from_programs`], for a package that is not written to a file: its hashes are zeros.
pub fn unhashed(programs: &[&Program]) -> Result<Package, StreamError> {
    packaged(programs, |_| [0; rows::HASH_BYTES])
}

fn packaged(programs: &[&Program], hash: impl Fn(&Program) -> [u8; rows::HASH_BYTES]) -> Result<Package, StreamError> {
    let mut package = Package {
        version: rows::VERSION,
        checksum: rows::CHECKSUM_VALID,
        programs: programs.iter().enumerate().map(|(i, p)| entry(i as u32, p, hash(p))).collect::<Result<_, _>>()?,
        file_bytes: 0,
        residue: Vec::new(),
    };
    let mut at = (rows::PACKAGE_BYTES + 8 * package.programs.len()) as u64;
    for p in &mut package.programs {
        p.offset = at;
        at = p.record_offset(p.sections.len());
    }
    for section in package.programs.iter_mut().flat_map(|p| &mut p.sections) {
        at = at.next_multiple_of(rows::ALIGN);
        section.offset = at;
        at += section.data.len() as u64;
    }
    package.file_bytes = at.next_multiple_of(rows::ALIGN);
    Ok(package)
}

fn entry(id: u32, program: &Program, hash: [u8; rows::HASH_BYTES]) -> Result<Entry, StreamError> {
    let tasks = program.tasks()?;
    let mut generic = Vec::new();
    put(&mut generic, &[program.layout.td_version, program.first_task_words]);
    put64(&mut generic, &[program.scratch_bytes]);
    let mut operations = Vec::new();
    for task in &tasks {
        put(&mut operations, &[task.offset, task.word_count()]);
    }
    let mut procedure = Vec::new();
    let partitions = program.partitions()?;
    put(&mut procedure, &[0, tasks.len() as u32, program.ports.len() as u32, partitions.len() as u32]);
    for p in &program.ports {
        let direction = if p.direction == Direction::Input { tensor::INPUT } else { tensor::OUTPUT };
        put(
            &mut procedure,
            &[p.bar as u32, direction, type_of(p.element), 0, p.shape.n, p.shape.c, p.shape.h, p.shape.w],
        );
        put64(&mut procedure, &[p.strides.batch_bytes, p.strides.plane_bytes, p.strides.row_bytes, p.bytes]);
    }
    for partition in &partitions {
        put(&mut procedure, &[partition.start as u32, partition.len() as u32]);
    }
    for name in std::iter::once(&program.name).chain(program.ports.iter().map(|p| &p.name)) {
        procedure.extend_from_slice(name.as_bytes());
        procedure.push(0);
    }
    let section = |kind, data| Section { kind, offset: 0, align: rows::ALIGN as u32, flags: 0, data };
    Ok(Entry {
        offset: 0,
        id,
        flags: 0,
        procedures: 1,
        hash,
        reserved: 0,
        sections: vec![
            section(rows::GENERIC, generic.into()),
            section(rows::KERNEL, program.kernel.clone()),
            section(rows::TEXT, program.stream.clone().into()),
            section(rows::OPERATION, operations.into()),
            section(rows::PROCEDURE, procedure.into()),
        ],
    })
}

impl Entry {
    fn data(&self, kind: u32, what: &'static str) -> Result<&Bytes, LiftError> {
        let section = self.section(kind).ok_or(LiftError::Missing { what, sections: self.sections.len() })?;
        Ok(&section.data)
    }

    /// The program: its first procedure.
    pub fn program(&self) -> Result<Program, LiftError> {
        let generic = record("generic", self.data(rows::GENERIC, "generic")?, 0, 4 * rows::words(rows::GENERIC_ROWS))?;
        let version = u32_at(generic, 0);
        let layout =
            CHIPS.iter().filter_map(|c| c.layout).find(|l| l.td_version == version).ok_or(LiftError::Value {
                what: "version of the task descriptors",
                found: version as u64,
                expected: "a known one",
            })?;
        let procedure = self.data(rows::PROCEDURE, "procedure")?;
        let head = record("procedure", procedure, 0, 4 * rows::words(rows::PROCEDURE_ROWS))?;
        let count = u32_at(head, 8) as u64;
        let size = 4 * rows::words(rows::PORT_ROWS);
        let first = head.len() as u64;
        let all = record("procedure", procedure, first, (count as usize).saturating_mul(size))?;
        let mut name_at = head.len() + all.len() + 4 * rows::words(rows::PARTITION_ROWS) * u32_at(head, 12) as usize;
        let mut name = || {
            let name = text_at(procedure, name_at);
            name_at += name.len() + 1;
            name
        };
        let program = Program {
            name: name(),
            layout,
            stream: self.data(rows::TEXT, "text")?.to_vec(),
            first_task_words: u32_at(generic, 4),
            kernel: self.data(rows::KERNEL, "kernel")?.clone(),
            scratch_bytes: u64_at(generic, 8),
            ports: all.chunks_exact(size).map(|p| port(p, name())).collect::<Result<_, _>>()?,
        };
        self.operations(&program)?;
        let (stated, found) = (self.partitions()?, program.partitions()?);
        if !stated.is_empty() && stated != found {
            let at = stated.iter().zip(&found).position(|(a, b)| a != b).unwrap_or(stated.len().min(found.len()));
            return Err(LiftError::Partition {
                index: at,
                stated: stated.get(at).cloned(),
                found: found.get(at).cloned(),
            });
        }
        Ok(program)
    }

    /// Partitions that the procedure states, as positions of operations; empty if it states none.
    pub fn partitions(&self) -> Result<Vec<Range<usize>>, LiftError> {
        let procedure = self.data(rows::PROCEDURE, "procedure")?;
        let head = record("procedure", procedure, 0, 4 * rows::words(rows::PROCEDURE_ROWS))?;
        let (ports, count) = (u32_at(head, 8) as usize, u32_at(head, 12) as usize);
        let size = 4 * rows::words(rows::PARTITION_ROWS);
        let first = (4 * rows::words(rows::PORT_ROWS)).saturating_mul(ports).saturating_add(head.len());
        let all = record("procedure", procedure, first as u64, count.saturating_mul(size))?;
        let range = |p: &[u8]| {
            let first = u32_at(p, 0) as usize;
            first..first.saturating_add(u32_at(p, 4) as usize)
        };
        Ok(all.chunks_exact(size).map(range).collect())
    }

    /// Checks the positions of operations against the chain.
    fn operations(&self, program: &Program) -> Result<(), LiftError> {
        let stated = self.data(rows::OPERATION, "operation")?;
        let tasks = program.tasks()?;
        let size = 4 * rows::words(rows::OPERATION_ROWS);
        if stated.len() != size * tasks.len() {
            return Err(LiftError::Count { stated: stated.len() / size, found: tasks.len() });
        }
        for (index, (o, task)) in stated.chunks_exact(size).zip(&tasks).enumerate() {
            let (offset, words) = (u32_at(o, 0), u32_at(o, 4));
            let (found, found_words) = (task.offset, task.word_count());
            if (offset, words) != (found, found_words) {
                return Err(LiftError::Operation { index, offset, words, found, found_words });
            }
        }
        Ok(())
    }
}

fn record<'a>(what: &'static str, section: &'a [u8], offset: u64, need: usize) -> Result<&'a [u8], LiftError> {
    let (need, have) = (need as u64, section.len() as u64);
    slice(section, offset, need).ok_or(LiftError::Short { what, offset, need, have })
}

fn port(p: &[u8], name: String) -> Result<Port, LiftError> {
    let value = |what, found: u32, expected| LiftError::Value { what, found: found as u64, expected };
    let bar = u32_at(p, 0);
    let first = Program::FIRST_PORT_BAR as u32;
    let direction = match u32_at(p, 4) {
        tensor::INPUT => Direction::Input,
        tensor::OUTPUT => Direction::Output,
        d => return Err(value("direction", d, "1 (input) or 2 (output)")),
    };
    if bar < first || bar >= crate::BAR_COUNT as u32 {
        return Err(value("base register of a port", bar, "4 to 31"));
    }
    let element = element_of(u32_at(p, 8)).ok_or(value("element type", u32_at(p, 8), "uint8, int8 or float16"))?;
    let shape = Nchw { n: u32_at(p, 16), c: u32_at(p, 20), h: u32_at(p, 24), w: u32_at(p, 28) };
    let strides = Strides { batch_bytes: u64_at(p, 32), plane_bytes: u64_at(p, 40), row_bytes: u64_at(p, 48) };
    Ok(Port { name, direction, bar: bar as u8, shape, volume_channels: None, strides, element, bytes: u64_at(p, 56) })
}
