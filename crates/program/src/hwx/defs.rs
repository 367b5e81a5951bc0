//! Typed model of the container: header, load commands, sections, symbols, relocations.
//!
//! Every type keeps the bytes that its fields do not cover (`tail`), so that writing what was read changes nothing.

use crate::bytes::Residue;
use anemone_facts::formats::{Word, hwx as rows};
use bytes::Bytes;

/// Error for a file that is not a container, or has structures that reach outside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A structure reaches past the end of the file.
    #[error("{what} at {offset:#x}: needs {need:#x} bytes, the file has {have:#x}")]
    Truncated {
        /// Structure.
        what: &'static str,
        /// Byte offset of the structure.
        offset: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes of the file.
        have: u64,
    },
    /// The first word is not the container's magic.
    #[error("magic at {offset:#x} is {found:#010x}, a container has {expected:#010x}")]
    Magic {
        /// Byte offset.
        offset: u64,
        /// Word found.
        found: u32,
        /// Word expected.
        expected: u32,
    },
    /// A load command is smaller than its fixed part, or than its content.
    #[error("command {index} at {offset:#x} (id {id:#x}): {size:#x} bytes, needs {need:#x}")]
    CommandSize {
        /// Position among the commands.
        index: usize,
        /// Byte offset of the command.
        offset: u64,
        /// Command id.
        id: u32,
        /// Stated size.
        size: u64,
        /// Smallest possible size.
        need: u64,
    },
    /// The commands do not fill the area stated in the header.
    #[error("commands at {offset:#x}: header states {stated:#x} bytes, {count} commands take {found:#x}")]
    CommandArea {
        /// Byte offset of the first command.
        offset: u64,
        /// Bytes that the header states.
        stated: u64,
        /// Number of commands that the header states.
        count: u32,
        /// Bytes that they occupy.
        found: u64,
    },
    /// Structures together exceed the file's size by far, so they overlap.
    #[error("{what} at {offset:#x}: structures so far refer to {claimed:#x} bytes in a file of {have:#x}")]
    Overlap {
        /// Structure.
        what: &'static str,
        /// Byte offset of the structure.
        offset: u64,
        /// Bytes referenced, this structure included.
        claimed: u64,
        /// Bytes of the file.
        have: u64,
    },
}

/// The file header without the two counts, which follow from the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// CPU type, the same in every container.
    pub cpu_type: u32,
    /// CPU subtype, which determines the generation.
    pub cpu_subtype: u32,
    /// File type, the same in every container.
    pub file_type: u32,
    /// Flags, the same in every container.
    pub flags: u32,
    /// Last word, 0.
    pub reserved: u32,
}

/// A whole container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// File header.
    pub header: Header,
    /// Load commands in file order, with the sections, symbols and relocations they refer to.
    pub commands: Vec<Command>,
    /// Size of the file in bytes, if it is larger than its structures.
    pub file_bytes: u64,
    /// Bytes that no structure explains, and that are not zero fill.
    pub residue: Vec<Residue>,
}

/// One load command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Address range with sections.
    Segment(Segment),
    /// Address window of a bound tensor.
    Port(PortWindow),
    /// Run state or tensor record.
    Thread(Thread),
    /// Compiler banner; everything after command id and size.
    Ident(Vec<u8>),
    /// Symbol table.
    Symtab(Symtab),
    /// Another command; everything after command id and size.
    Unknown {
        /// Command id.
        id: u32,
        /// The rest of the command.
        body: Vec<u8>,
    },
}

/// A fixed name field: 16 bytes, zero-padded.
pub type Name16 = [u8; 16];

/// Text of a fixed name field up to its first zero.
pub fn name16_text(name: &Name16) -> String {
    text_at(name, 0)
}

/// A fixed name field; a longer name is truncated.
pub fn name16(text: &str) -> Name16 {
    let mut name = [0; 16];
    let n = text.len().min(16);
    name[..n].copy_from_slice(&text.as_bytes()[..n]);
    name
}

/// Text from an offset to the first zero or the end; invalid UTF-8 is replaced.
pub(crate) fn text_at(bytes: &[u8], at: usize) -> String {
    let rest = bytes.get(at..).unwrap_or(&[]);
    let end = rest.iter().position(|&b| b == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

/// A segment and its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Name.
    pub name: Name16,
    /// Address.
    pub address: u64,
    /// Bytes in the address space.
    pub bytes: u64,
    /// Byte offset in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Largest protection.
    pub max_protection: u32,
    /// Initial protection.
    pub protection: u32,
    /// Flags.
    pub flags: u32,
    /// Sections.
    pub sections: Vec<Section>,
    /// Bytes of the command after the last section.
    pub tail: Vec<u8>,
}

/// A section with its content and relocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name.
    pub name: Name16,
    /// Name of the segment, repeated.
    pub segment: Name16,
    /// Address.
    pub address: u64,
    /// Bytes in the address space.
    pub bytes: u64,
    /// Byte offset of the content in the file; 0 without content.
    pub file_offset: u32,
    /// Base-2 logarithm of the alignment.
    pub align_log2: u32,
    /// Byte offset of the relocations in the file.
    pub relocations_offset: u32,
    /// Flags.
    pub flags: u32,
    /// Three words, 0 in every sample.
    pub reserved: [u32; 3],
    /// Content; empty if the file offset is 0.
    pub data: Bytes,
    /// Relocations.
    pub relocations: Vec<Relocation>,
}

/// A relocation entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Byte offset in the section.
    pub offset: i32,
    /// Packed section number, width and flags.
    pub info: u32,
}

impl Relocation {
    /// Number of the target section (or symbol).
    pub fn target(&self) -> u32 {
        self.info & 0x00ff_ffff
    }

    /// Returns true if the value is relative.
    pub fn relative(&self) -> bool {
        self.info & 0x0100_0000 != 0
    }

    /// Base-2 logarithm of the size of the value in bytes.
    pub fn width_log2(&self) -> u32 {
        (self.info >> 25) & 3
    }
}

/// The address window of a bound tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortWindow {
    /// True if the address has 64 bits (later compilers).
    pub wide: bool,
    /// Offset of the name from the command's start.
    pub name_offset: u32,
    /// Second word, 0.
    pub version: u32,
    /// Address of the window.
    pub address: u64,
    /// Everything after the address: name and padding.
    pub tail: Vec<u8>,
}

impl PortWindow {
    /// Bytes of the command before the tail.
    pub fn fixed_bytes(&self) -> usize {
        if self.wide { 24 } else { 20 }
    }

    /// Name of the tensor; empty if the offset is out of bounds.
    pub fn name(&self) -> String {
        text_after(&self.tail, self.name_offset, self.fixed_bytes())
    }
}

/// Text at an offset from a command's start, where `tail` starts `fixed` bytes into the command.
fn text_after(tail: &[u8], offset: u32, fixed: usize) -> String {
    (offset as usize).checked_sub(fixed).map_or(String::new(), |at| text_at(tail, at))
}

/// A record of words: run state or tensor record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Flavor, which determines the meaning of the words.
    pub flavor: u32,
    /// The words.
    pub words: Vec<u32>,
    /// Everything after the words: names and padding.
    pub tail: Vec<u8>,
}

impl Thread {
    /// A word; 0 beyond the end of the record.
    pub fn word(&self, at: usize) -> u32 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// Two words as a little-endian quantity; 0 beyond the end of the record.
    pub fn quantity(&self, at: usize) -> u64 {
        self.word(at) as u64 | (self.word(at + 1) as u64) << 32
    }

    /// The text whose offset from the command's start is in a word.
    pub fn text(&self, at: usize) -> String {
        text_after(&self.tail, self.word(at), 16 + 4 * self.words.len())
    }

    /// Layout of run state in its flavor; `None` for other records.
    pub fn run_shape(&self) -> Option<&'static rows::RunShape> {
        rows::RUN_SHAPES.iter().find(|s| s.flavor == self.flavor && self.words.len() >= rows::BASE_WORDS)
    }

    /// Positions of the first words of its base addresses.
    pub fn base_words(&self) -> impl Iterator<Item = usize> + use<> {
        let step = self.run_shape().map(|s| s.base_step);
        step.into_iter().flat_map(|step| (0..rows::BASE_WORDS).step_by(step))
    }

    /// Rows that name its words after the base addresses.
    pub fn word_rows(&self) -> &'static [Word] {
        match self.run_shape() {
            Some(shape) => shape.rows,
            None if self.flavor == rows::FLAVOR_TENSOR => rows::tensor::ROWS,
            None => &[],
        }
    }

    /// Positions of the first words of a run state's properties: tag, size, 64-bit value.
    pub fn property_words(&self) -> impl Iterator<Item = usize> + use<> {
        let shape = self.run_shape();
        let (count, first) = shape.map_or((0, 0), |s| (self.word(s.property_count) as usize, s.properties));
        let most = self.words.len().saturating_sub(first) / rows::PROPERTY_WORDS;
        (0..count.min(most)).map(move |i| first + rows::PROPERTY_WORDS * i)
    }

    /// The record as run state, if its flavor is that of run state with known words.
    pub fn run_state(&self) -> Option<RunState<'_>> {
        (self.flavor == rows::FLAVOR_RUN).then_some(RunState(self))
    }

    /// The record as tensor record, if its flavor is that.
    pub fn tensor(&self) -> Option<TensorRecord<'_>> {
        (self.flavor == rows::FLAVOR_TENSOR).then_some(TensorRecord(self))
    }
}

/// A thread record as run state.
#[derive(Clone, Copy, Debug)]
pub struct RunState<'a>(pub &'a Thread);

impl RunState<'_> {
    /// Value of a base address register; 0 beyond the end of the table.
    pub fn base(&self, bar: usize) -> u64 {
        if bar < rows::run_state::BASES { self.0.quantity(2 * bar) } else { 0 }
    }

    /// Address of the first task descriptor.
    pub fn entry(&self) -> u64 {
        self.0.quantity(rows::run_state::ENTRY)
    }

    /// Words of the first task descriptor.
    pub fn first_task_words(&self) -> u32 {
        self.0.word(rows::run_state::FIRST_TASK).saturating_add(1)
    }

    /// Number of task descriptors.
    pub fn tasks(&self) -> u32 {
        self.0.word(rows::run_state::TASKS)
    }

    /// Name of the procedure.
    pub fn name(&self) -> String {
        self.0.text(rows::run_state::NAME)
    }
}

/// A thread record as tensor record.
#[derive(Clone, Copy, Debug)]
pub struct TensorRecord<'a>(pub &'a Thread);

impl TensorRecord<'_> {
    /// Word for the direction.
    pub fn direction(&self) -> u32 {
        self.0.word(rows::tensor::DIRECTION)
    }

    /// Name of the procedure that the tensor belongs to.
    pub fn procedure(&self) -> String {
        self.0.text(rows::tensor::PROCEDURE)
    }

    /// The two names; later compilers have `x@output` and `x` for outputs.
    pub fn names(&self) -> [String; 2] {
        [self.0.text(rows::tensor::NAME), self.0.text(rows::tensor::SECOND_NAME)]
    }
}

/// Symbols and their string table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symtab {
    /// Byte offset of the symbols in the file.
    pub symbols_offset: u32,
    /// Byte offset of the string table in the file.
    pub strings_offset: u32,
    /// Symbols.
    pub symbols: Vec<Symbol>,
    /// String table.
    pub strings: Vec<u8>,
    /// Bytes of the command after its four words.
    pub tail: Vec<u8>,
}

impl Symtab {
    /// Name of a symbol.
    pub fn name(&self, symbol: &Symbol) -> String {
        text_at(&self.strings, symbol.name_offset as usize)
    }
}

/// A symbol entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Offset of the name in the string table.
    pub name_offset: u32,
    /// Type.
    pub kind: u8,
    /// Number of the section, counted over all segments from 1.
    pub section: u8,
    /// Description.
    pub desc: u16,
    /// Address.
    pub value: u64,
}

impl Command {
    /// Command id.
    pub fn id(&self) -> u32 {
        match self {
            Command::Segment(_) => rows::SEGMENT,
            Command::Port(p) if p.wide => rows::PORT64,
            Command::Port(_) => rows::PORT,
            Command::Thread(_) => rows::THREAD,
            Command::Ident(_) => rows::IDENT,
            Command::Symtab(_) => rows::SYMTAB,
            Command::Unknown { id, .. } => *id,
        }
    }

    /// Bytes of the command, id and size included.
    pub fn bytes(&self) -> u64 {
        let body = match self {
            Command::Segment(s) => rows::SEGMENT_BYTES - 8 + rows::SECTION_BYTES * s.sections.len() + s.tail.len(),
            Command::Port(p) => p.fixed_bytes() - 8 + p.tail.len(),
            Command::Thread(t) => 8 + 4 * t.words.len() + t.tail.len(),
            Command::Ident(body) | Command::Unknown { body, .. } => body.len(),
            Command::Symtab(s) => 16 + s.tail.len(),
        };
        8 + body as u64
    }
}

impl Container {
    /// Commands with their byte offsets.
    pub fn commands_at(&self) -> impl Iterator<Item = (u64, &Command)> {
        self.commands.iter().scan(rows::HEADER_BYTES as u64, |at, c| {
            let offset = *at;
            *at += c.bytes();
            Some((offset, c))
        })
    }

    /// Segments in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.commands.iter().filter_map(|c| match c {
            Command::Segment(s) => Some(s),
            _ => None,
        })
    }

    /// Sections of all segments in order; symbols count them from 1.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.segments().flat_map(|s| &s.sections)
    }

    /// The first section of that segment and name.
    pub fn section(&self, segment: &str, section: &str) -> Option<&Section> {
        let (segment, section) = (name16(segment), name16(section));
        self.segments().filter(|s| s.name == segment).flat_map(|s| &s.sections).find(|s| s.name == section)
    }

    /// Thread records with their byte offsets.
    pub fn threads(&self) -> impl Iterator<Item = (u64, &Thread)> {
        self.commands_at().filter_map(|(at, c)| match c {
            Command::Thread(t) => Some((at, t)),
            _ => None,
        })
    }

    /// Port windows with their byte offsets.
    pub fn windows(&self) -> impl Iterator<Item = (u64, &PortWindow)> {
        self.commands_at().filter_map(|(at, c)| match c {
            Command::Port(p) => Some((at, p)),
            _ => None,
        })
    }

    /// The symbol table.
    pub fn symtab(&self) -> Option<&Symtab> {
        self.commands.iter().find_map(|c| match c {
            Command::Symtab(s) => Some(s),
            _ => None,
        })
    }

    /// The compiler's banner without padding.
    pub fn banner(&self) -> Option<String> {
        self.commands.iter().find_map(|c| match c {
            Command::Ident(body) => Some(text_at(body, 0)),
            _ => None,
        })
    }
}
