//! Reader of [`Container`]. Every size is checked against the file before anything is allocated for it.

use anemone_facts::formats::hwx as rows;
use bytes::Bytes;

use super::defs::{
    Command, Container, Error, Header, Name16, PortWindow, Relocation, Section, Segment, Symbol, Symtab, Thread,
};
use crate::bytes::{differences, nonzero, u32_at, u64_at};

/// Total size of structures, as a multiple of the file's size. No known container has overlapping structures.
const CLAIM_FACTOR: u64 = 2;

impl Container {
    /// Reads a container.
    ///
    /// Errors: a wrong magic, and structures that reach outside the file or overlap on a large scale. Unknown
    /// commands, flavors and flags are kept.
    pub fn read(bytes: &[u8]) -> Result<Container, Error> {
        Container::parse(bytes, true, None).map(|(container, _)| container)
    }

    /// As [`Container::read`], of shared bytes, such as a mapped file: contents of sections are slices of them, not copies.
    pub fn read_shared(bytes: &Bytes) -> Result<Container, Error> {
        Container::parse(bytes, true, Some(bytes)).map(|(container, _)| container)
    }

    /// As [`Container::read`], with or without the contents of sections; returns true if no structures overlap. Otherwise
    /// the residue is known only with contents.
    pub(super) fn parse(bytes: &[u8], contents: bool, shared: Option<&Bytes>) -> Result<(Container, bool), Error> {
        let mut file = File { bytes, contents, shared, claimed: 0, ranges: Vec::new() };
        let head = file.words::<8>("header", 0)?;
        if head[0] != rows::MAGIC {
            return Err(Error::Magic { offset: 0, found: head[0], expected: rows::MAGIC });
        }
        let header =
            Header { cpu_type: head[1], cpu_subtype: head[2], file_type: head[3], flags: head[6], reserved: head[7] };
        let (count, stated) = (head[4], head[5] as u64);
        let start = rows::HEADER_BYTES as u64;
        file.slice("load commands", start, stated)?;
        let mut commands = Vec::new();
        let mut at = start;
        for index in 0..count as usize {
            if at + 8 > start + stated {
                return Err(Error::CommandArea { offset: start, stated, count, found: at + 8 - start });
            }
            let [id, size] = file.words::<2>("load command", at)?;
            let size = size as u64;
            if size < 8 || at + size > start + stated {
                let need = if size < 8 { 8 } else { at + size - start };
                if size < 8 {
                    return Err(Error::CommandSize { index, offset: at, id, size, need });
                }
                return Err(Error::CommandArea { offset: start, stated, count, found: need });
            }
            let body = file.slice("load command", at + 8, size - 8)?;
            let cursor = Body { index, offset: at, id, body };
            commands.push(command(&mut file, &cursor)?);
            at += size;
        }
        if at != start + stated {
            return Err(Error::CommandArea { offset: start, stated, count, found: at - start });
        }
        let mut container = Container { header, commands, file_bytes: bytes.len() as u64, residue: Vec::new() };
        let head = container.head();
        let gaps = file.gaps(&head);
        let apart = gaps.is_some();
        container.residue = match gaps {
            Some(gaps) => gaps.flat_map(|(from, to)| nonzero(bytes, from, to)).collect(),
            None if contents => differences(bytes, &container.write()),
            None => Vec::new(),
        };
        Ok((container, apart))
    }
}

/// The file, and the total size of structures so far.
struct File<'a> {
    bytes: &'a [u8],
    /// True if contents of sections are kept.
    contents: bool,
    /// The same bytes, if contents may be slices of them.
    shared: Option<&'a Bytes>,
    claimed: u64,
    /// First and one past the last byte of every structure that is copied.
    ranges: Vec<(usize, usize)>,
}

impl<'a> File<'a> {
    /// Bytes of the file; an empty slice may have any offset.
    fn slice(&self, what: &'static str, offset: u64, need: u64) -> Result<&'a [u8], Error> {
        let have = self.bytes.len() as u64;
        if need == 0 {
            return Ok(&[]);
        }
        match offset.checked_add(need) {
            Some(end) if end <= have => Ok(&self.bytes[offset as usize..end as usize]),
            _ => Err(Error::Truncated { what, offset, need, have }),
        }
    }

    /// As [`File::slice`], counted against the limit: the result will be copied.
    fn claim(&mut self, what: &'static str, offset: u64, need: u64) -> Result<&'a [u8], Error> {
        let slice = self.slice(what, offset, need)?;
        self.claimed += need;
        let have = self.bytes.len() as u64;
        if self.claimed > CLAIM_FACTOR * have {
            return Err(Error::Overlap { what, offset, claimed: self.claimed, have });
        }
        if need > 0 {
            self.ranges.push((offset as usize, (offset + need) as usize));
        }
        Ok(slice)
    }

    /// Ranges without structures, if structures do not overlap and the head is written as it was read: then all bytes
    /// in structures are reproduced, and only those between them need inspection.
    fn gaps(mut self, head: &[u8]) -> Option<impl Iterator<Item = (usize, usize)>> {
        if !self.bytes.starts_with(head) {
            return None;
        }
        self.ranges.push((0, head.len()));
        self.ranges.sort_unstable();
        let apart = self.ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let end = self.bytes.len();
        apart.then(|| {
            let starts: Vec<usize> = self.ranges.iter().skip(1).map(|r| r.0).chain([end]).collect();
            self.ranges.into_iter().map(|r| r.1).zip(starts)
        })
    }

    fn words<const N: usize>(&self, what: &'static str, offset: u64) -> Result<[u32; N], Error> {
        let slice = self.slice(what, offset, 4 * N as u64)?;
        Ok(std::array::from_fn(|i| u32_at(slice, 4 * i)))
    }
}

fn name_at(bytes: &[u8], at: usize) -> Name16 {
    bytes.get(at..at + 16).and_then(|b| b.try_into().ok()).unwrap_or([0; 16])
}

/// Content of a command after id and size.
struct Body<'a> {
    index: usize,
    offset: u64,
    id: u32,
    body: &'a [u8],
}

impl<'a> Body<'a> {
    /// Requires the command to have `need` bytes, id and size included.
    fn require(&self, need: u64) -> Result<(), Error> {
        let size = self.body.len() as u64 + 8;
        if size < need {
            return Err(Error::CommandSize { index: self.index, offset: self.offset, id: self.id, size, need });
        }
        Ok(())
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(self.body, at)
    }

    fn tail(&self, at: usize) -> Vec<u8> {
        self.body.get(at..).unwrap_or(&[]).to_vec()
    }
}

fn command(file: &mut File, c: &Body) -> Result<Command, Error> {
    Ok(match c.id {
        rows::SEGMENT => Command::Segment(segment(file, c)?),
        rows::PORT => {
            c.require(20)?;
            Command::Port(PortWindow {
                wide: false,
                name_offset: c.u32(0),
                version: c.u32(4),
                address: c.u32(8) as u64,
                tail: c.tail(12),
            })
        }
        rows::PORT64 => {
            c.require(24)?;
            Command::Port(PortWindow {
                wide: true,
                name_offset: c.u32(0),
                version: c.u32(4),
                address: u64_at(c.body, 8),
                tail: c.tail(16),
            })
        }
        rows::THREAD => {
            c.require(16)?;
            let count = c.u32(4);
            c.require(16 + 4 * count as u64)?;
            let words = (0..count as usize).map(|i| c.u32(8 + 4 * i)).collect();
            Command::Thread(Thread { flavor: c.u32(0), words, tail: c.tail(8 + 4 * count as usize) })
        }
        rows::IDENT => Command::Ident(c.body.to_vec()),
        rows::SYMTAB => Command::Symtab(symtab(file, c)?),
        id => Command::Unknown { id, body: c.body.to_vec() },
    })
}

fn segment(file: &mut File, c: &Body) -> Result<Segment, Error> {
    c.require(rows::SEGMENT_BYTES as u64)?;
    let count = c.u32(56);
    c.require(rows::SEGMENT_BYTES as u64 + rows::SECTION_BYTES as u64 * count as u64)?;
    let (file_offset, file_bytes) = (u64_at(c.body, 32), u64_at(c.body, 40));
    file.slice("segment content", file_offset, file_bytes)?;
    let mut sections = Vec::with_capacity(count as usize);
    for i in 0..count as usize {
        let entry = c.body.get(rows::SEGMENT_BYTES - 8 + rows::SECTION_BYTES * i..).unwrap_or(&[]);
        sections.push(section(file, entry, file_bytes != 0)?);
    }
    Ok(Segment {
        name: name_at(c.body, 0),
        address: u64_at(c.body, 16),
        bytes: u64_at(c.body, 24),
        file_offset,
        file_bytes,
        max_protection: c.u32(48),
        protection: c.u32(52),
        flags: c.u32(60),
        sections,
        tail: c.tail(rows::SEGMENT_BYTES - 8 + rows::SECTION_BYTES * count as usize),
    })
}

/// A section entry; a segment without bytes in the file has sections without content.
fn section(file: &mut File, b: &[u8], in_file: bool) -> Result<Section, Error> {
    let (bytes, file_offset) = (u64_at(b, 40), u32_at(b, 48));
    let (relocations_offset, count) = (u32_at(b, 56), u32_at(b, 60));
    let data = match file_offset {
        0 => &[],
        _ if !in_file => &[],
        at => file.claim("section content", at as u64, bytes)?,
    };
    let entries = file.claim("relocations", relocations_offset as u64, rows::RELOCATION_BYTES as u64 * count as u64)?;
    Ok(Section {
        name: name_at(b, 0),
        segment: name_at(b, 16),
        address: u64_at(b, 32),
        bytes,
        file_offset,
        align_log2: u32_at(b, 52),
        relocations_offset,
        flags: u32_at(b, 64),
        reserved: [u32_at(b, 68), u32_at(b, 72), u32_at(b, 76)],
        data: match file.shared {
            _ if !file.contents || data.is_empty() => Bytes::new(),
            Some(shared) => shared.slice_ref(data),
            None => Bytes::copy_from_slice(data),
        },
        relocations: entries
            .chunks_exact(rows::RELOCATION_BYTES)
            .map(|e| Relocation { offset: u32_at(e, 0) as i32, info: u32_at(e, 4) })
            .collect(),
    })
}

fn symtab(file: &mut File, c: &Body) -> Result<Symtab, Error> {
    c.require(24)?;
    let (symbols_offset, count, strings_offset, bytes) = (c.u32(0), c.u32(4), c.u32(8), c.u32(12));
    let entries = file.claim("symbols", symbols_offset as u64, rows::SYMBOL_BYTES as u64 * count as u64)?;
    let strings = file.claim("symbol names", strings_offset as u64, bytes as u64)?;
    Ok(Symtab {
        symbols_offset,
        strings_offset,
        symbols: entries
            .chunks_exact(rows::SYMBOL_BYTES)
            .map(|e| Symbol {
                name_offset: u32_at(e, 0),
                kind: e[4],
                section: e[5],
                desc: u16::from_le_bytes([e[6], e[7]]),
                value: u64_at(e, 8),
            })
            .collect(),
        strings: strings.to_vec(),
        tail: c.tail(16),
    })
}
