//! Builder of a [`Container`] from a [`Program`], in the layout of a named compiler version.

mod commands;
mod kernels;

use crate::order;
use anemone_facts::formats::dialects::DIALECTS;
use anemone_facts::formats::hwx as rows;

use super::defs::{Command, Container, Header, Relocation, Segment};
use super::options::{BuildError, Options};
use crate::{Direction, Port, Program, Task};
use bytes::Bytes;
use kernels::KernelStream;

/// One past the largest 32-bit address of a window; later dialects need no more either.
const ADDRESS_LIMIT: u64 = 1 << 32;

/// Builds the container of a program.
///
/// The layout follows [`Options::dialect`]; that of compiler 4.2.1 byte for byte. An intermediate region has the form of
/// later compilers (`__DATA,__bss`), since no container of compiler 4.2.1 with one is known.
pub fn from_program(program: &Program, options: &Options) -> Result<Container, BuildError> {
    from_programs(std::slice::from_ref(program), options)
}

/// Builds one container of several procedures: each has a run state with base registers for its own part of
/// the task stream, its own kernel sections and its own windows. Equal kernel data is stored once, and the intermediate
/// region is shared. No sample with several procedures is known: the records are those of one procedure, repeated.
///
/// Errors: as [`from_program`], no program, duplicate names, programs of different generations.
pub fn from_programs(programs: &[Program], options: &Options) -> Result<Container, BuildError> {
    build(programs, options, true)
}

/// The file of a program's container in pieces, in order: equal to that of [`from_program`] and [`Container::write`], with kernel data
/// shared with the program, so that a large model's weights are not copied.
pub fn to_file(program: &Program, options: &Options) -> Result<Vec<Bytes>, BuildError> {
    let container = build(std::slice::from_ref(program), options, false)?;
    // Without contents, kernel data is zeros here, which take no memory until they are written.
    let frame = Bytes::from(container.write());
    let (mut pieces, mut at, mut taken) = (Vec::new(), 0, 0);
    let sections = container.segments().flat_map(|s| &s.sections).filter(|s| s.data.is_empty() && s.file_offset > 0);
    for section in sections {
        let bytes = (section.bytes as usize).min(program.kernel.len() - taken);
        let start = section.file_offset as usize;
        if bytes == 0 || start + bytes > frame.len() {
            continue;
        }
        pieces.extend([frame.slice(at..start), program.kernel.slice(taken..taken + bytes)]);
        (at, taken) = (start + bytes, taken + bytes);
    }
    pieces.push(frame.slice(at..));
    Ok(pieces)
}

/// The container, with kernel data if `held`; layout and sizes do not depend on it.
fn build(programs: &[Program], options: &Options, held: bool) -> Result<Container, BuildError> {
    let dialect = options.dialect;
    if !dialect.written {
        let known: Vec<&str> = DIALECTS.iter().filter(|d| d.written).map(|d| d.name).collect();
        return Err(BuildError::Dialect { dialect: dialect.name, known: known.join(", ") });
    }
    for (at, program) in programs.iter().enumerate() {
        check_texts(program, options)?;
        let other = programs[..at].iter().any(|p| p.name == program.name);
        if other || program.layout.generation != programs[0].layout.generation {
            return Err(BuildError::Procedure { name: program.name.clone(), generation: program.layout.generation });
        }
    }
    let mut parts = programs.iter().map(Part::of).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan::of(&mut parts, options)?;
    let symtab = kernels::symtab(&parts, options, &plan);
    let info = |part: &Part, base| rows::RELOCATION_FLAGS | u32::from(plan.section_of_kernel(part, base));
    let of_part = |part: &Part| {
        let one = |s: &KernelStream| Relocation {
            offset: (part.stream_at + u64::from(s.word_offset)) as i32,
            info: info(part, s.base),
        };
        part.streams.iter().map(one).collect::<Vec<_>>()
    };
    let relocations: Vec<Relocation> = parts.iter().flat_map(of_part).collect();

    let mut commands = commands::segments(&parts, &plan, options, relocations, held);
    for part in &parts {
        for (port, address) in part.program.ports.iter().zip(&part.windows) {
            commands.push(commands::window(port, *address, dialect));
        }
    }
    for part in &parts {
        commands.push(commands::run_state(part, &plan, dialect));
        // The vendor sorts the inputs of a procedure by name; outputs follow in order.
        let mut inputs: Vec<&Port> = part.program.ports_of(Direction::Input).collect();
        order::by(&mut inputs, |a, b| a.name.cmp(&b.name));
        for port in inputs.into_iter().chain(part.program.ports_of(Direction::Output)) {
            commands.push(commands::tensor_record(part.program, port, dialect));
        }
    }
    commands.push(commands::ident(parts[0].program, options));
    commands.extend(commands::note(dialect));
    commands.push(Command::Symtab(symtab));
    place(commands, plan.subtype)
}

fn check_texts(program: &Program, options: &Options) -> Result<(), BuildError> {
    let names = program.ports.iter().map(|p| ("port name", &p.name, false));
    let kernels = options.kernel_names.iter().map(|k| ("kernel name", k, false));
    let paths = [("netplist path", &options.netplist_path, true), ("output path", &options.output_path, true)];
    for (what, text, line) in names.chain(kernels).chain(paths).chain([("procedure name", &program.name, false)]) {
        if let Some(at) = text.bytes().position(|b| b == 0 || line && b == b'\n') {
            return Err(BuildError::Text { what, text: text.clone(), at });
        }
    }
    Ok(())
}

/// Largest number of sections of a container: symbols number them in a byte.
const MOST_SECTIONS: u64 = 255;

/// A procedure, and the positions of its parts.
struct Part<'a> {
    program: &'a Program,
    tasks: Vec<Task>,
    streams: Vec<KernelStream>,
    /// Byte offset of its task stream in the text section.
    stream_at: u64,
    /// Address of its kernel data, and number of its first section, from 1.
    kernel_address: u64,
    kernel_section: u8,
    /// False if an earlier part has the same kernel data.
    own_kernel: bool,
    /// Address of each port's window, in port order.
    windows: Vec<u64>,
    /// Number of the first window's section, from 1.
    first_window: u8,
}

impl<'a> Part<'a> {
    fn of(program: &'a Program) -> Result<Part<'a>, BuildError> {
        let tasks = program.tasks()?;
        let streams = kernels::streams(program, &tasks)?;
        let (stream_at, kernel_address, kernel_section, first_window) = (0, 0, 0, 0);
        let windows = Vec::new();
        Ok(Part {
            program,
            tasks,
            streams,
            stream_at,
            kernel_address,
            kernel_section,
            own_kernel: true,
            windows,
            first_window,
        })
    }

    /// Checks that the base registers of ports are in their range and distinct.
    fn check_registers(&self) -> Result<(), BuildError> {
        let mut taken = [false; crate::BAR_COUNT];
        for port in &self.program.ports {
            let free = taken.get_mut(port.bar as usize).filter(|t| !**t && port.bar >= Program::FIRST_PORT_BAR);
            let Some(free) = free else {
                let (name, bar, first) = (port.name.clone(), port.bar, Program::FIRST_PORT_BAR);
                return Err(BuildError::Bar { name, bar, first, count: crate::BAR_COUNT });
            };
            *free = true;
        }
        Ok(())
    }
}

/// Addresses of the parts that procedures share.
struct Plan {
    subtype: u32,
    /// True if any kernel stream is enabled.
    kernel: bool,
    text_address: u64,
    text_bytes: u64,
    text_segment_bytes: u64,
    const_address: u64,
    const_bytes: u64,
    /// Row of the sections with kernel data.
    kernel_row: &'static rows::SectionRow,
    /// Size in bytes of each section of a procedure's kernel data except the last, in whole pages, so that sections are
    /// contiguous.
    kernel_section_bytes: u64,
    /// Size of the intermediate region in bytes.
    scratch_bytes: u64,
    /// Address and size in bytes of every segment of the intermediate region.
    scratch: Vec<(u64, u64)>,
}

impl Plan {
    fn of(parts: &mut [Part], options: &Options) -> Result<Plan, BuildError> {
        let dialect = options.dialect;
        let first = parts.first().ok_or(BuildError::Empty)?;
        let generation = first.program.layout.generation;
        let chip = anemone_facts::silicon::by_name(generation);
        let subtype = chip.and_then(|c| c.cpu_subtype).ok_or(BuildError::Generation { generation })?;
        let kernel =
            parts.iter().any(|part| part.tasks.iter().any(|t| kernels::enabled(part.program, t).next().is_some()));
        // Each of several procedures has kernel sections of its own.
        let kernel_row = if parts.len() > 1 { &rows::KERNEL } else { &dialect.kernel };
        // Kernel data in a segment of its own leaves an empty section behind the stream.
        let apart = *kernel_row != rows::CONST;
        let mut text_bytes = 0u64;
        for part in parts.iter_mut() {
            part.stream_at = text_bytes.next_multiple_of(rows::CONST_ALIGN);
            text_bytes = part.stream_at + part.program.stream.len() as u64;
        }
        let const_offset = text_bytes.next_multiple_of(rows::CONST_ALIGN);
        let const_bytes = match parts[0].program.kernel.len() as u64 {
            n if n > 0 && !apart => n,
            _ => rows::EMPTY_CONST_BYTES,
        };
        let text_segment_bytes = (const_offset + const_bytes).next_multiple_of(rows::PAGE);
        let scratch_bytes = parts.iter().map(|p| p.program.scratch_bytes).max().unwrap_or(0);
        if scratch_bytes > ADDRESS_LIMIT {
            return Err(BuildError::Limit { what: "intermediate region", found: scratch_bytes, limit: ADDRESS_LIMIT });
        }
        let mut next = rows::VM_BASE as u128;
        let mut take = |bytes: u64| {
            let address = next as u64;
            next += pages(bytes);
            address
        };
        // A region of several segments fills at least a page of each.
        let scratch_bytes = match (options.scratch_segments, scratch_bytes) {
            (0 | 1, bytes) | (_, bytes @ 0) => bytes,
            (segments, bytes) => bytes.max(segments * rows::PAGE),
        };
        let pieces = options.scratch_segments.clamp(1, scratch_bytes.div_ceil(rows::PAGE).max(1));
        let piece = scratch_bytes.div_ceil(pieces).next_multiple_of(rows::PAGE).max(rows::PAGE);
        let count = scratch_bytes.div_ceil(piece);
        let sizes = (0..count).map(|i| piece.min(scratch_bytes - i * piece));
        let mut text_address = 0;
        if !dialect.windows_first {
            text_address = take(text_segment_bytes);
        }
        let scratch: Vec<(u64, u64)> = sizes.map(|bytes| (take(bytes), bytes)).collect();
        for part in parts.iter_mut() {
            part.check_registers()?;
            part.windows = part.program.ports.iter().map(|port| take(port.bytes)).collect();
        }
        if dialect.windows_first {
            text_address = take(text_segment_bytes);
        }
        let const_address = text_address + const_offset;
        let kernel_section_bytes = (options.kernel_section_bytes / rows::PAGE * rows::PAGE).max(rows::PAGE);
        let places =
            Sections { scratch: scratch.len() as u64, windows_first: dialect.windows_first, kernel_section_bytes };
        number_sections(parts, &places, const_address, apart, &mut take)?;
        if next > ADDRESS_LIMIT as u128 {
            let found = u64::try_from(next).unwrap_or(u64::MAX);
            return Err(BuildError::Limit { what: "end of the address space", found, limit: ADDRESS_LIMIT });
        }
        Ok(Plan {
            subtype,
            kernel,
            text_address,
            text_bytes,
            text_segment_bytes,
            const_address,
            const_bytes,
            kernel_row,
            kernel_section_bytes,
            scratch_bytes,
            scratch,
        })
    }

    /// Number of the section that contains this byte of a part's kernel data.
    fn section_of_kernel(&self, part: &Part, base: u64) -> u8 {
        part.kernel_section + if self.is_apart(part) { (base / self.kernel_section_bytes) as u8 } else { 0 }
    }

    /// Returns true if a part's kernel data is in segments of its own.
    fn is_apart(&self, part: &Part) -> bool {
        part.kernel_address != self.const_address
    }
}

/// Properties of a container that determine section numbers.
struct Sections {
    /// Segments of the intermediate region.
    scratch: u64,
    windows_first: bool,
    kernel_section_bytes: u64,
}

/// Numbers the sections of windows and kernel data, from 1 in the order of the segments, and assigns addresses to kernel data: if it
/// is `apart`, from `take`; equal data once.
fn number_sections(
    parts: &mut [Part],
    places: &Sections,
    const_address: u64,
    apart: bool,
    take: &mut dyn FnMut(u64) -> u64,
) -> Result<(), BuildError> {
    let mut section = places.scratch + if places.windows_first { 1 } else { 3 };
    for part in parts.iter_mut() {
        part.first_window = section.min(MOST_SECTIONS) as u8;
        section += part.windows.len() as u64;
    }
    section += if places.windows_first { 2 } else { 0 };
    // The section behind the stream.
    let const_section = if places.windows_first { (section - 1).min(MOST_SECTIONS) as u8 } else { 2 };
    for at in 0..parts.len() {
        let (before, rest) = parts.split_at_mut(at);
        let part = &mut rest[0];
        let bytes = part.program.kernel.len() as u64;
        if !apart || bytes == 0 {
            (part.kernel_address, part.kernel_section) = (const_address, const_section);
            continue;
        }
        if let Some(same) = before.iter().find(|p| p.program.kernel == part.program.kernel) {
            (part.kernel_address, part.kernel_section) = (same.kernel_address, same.kernel_section);
            part.own_kernel = false;
            continue;
        }
        let sections = bytes.div_ceil(places.kernel_section_bytes);
        if sections + section > MOST_SECTIONS {
            let limit = MOST_SECTIONS.saturating_sub(section) * places.kernel_section_bytes;
            return Err(BuildError::Limit { what: "kernel data", found: bytes, limit });
        }
        part.kernel_address = take(bytes);
        part.kernel_section = section as u8;
        section += sections;
    }
    Ok(())
}

/// Number of pages for a number of bytes.
fn pages(bytes: u64) -> u128 {
    (bytes as u128).next_multiple_of(rows::PAGE as u128)
}

/// Sets every file offset: header, commands, symbols, names, relocations, then segments from the next page on.
fn place(mut commands: Vec<Command>, cpu_subtype: u32) -> Result<Container, BuildError> {
    let mut at = rows::HEADER_BYTES as u64 + commands.iter().map(Command::bytes).sum::<u64>();
    for command in &mut commands {
        if let Command::Symtab(t) = command {
            t.symbols_offset = at as u32;
            at += (rows::SYMBOL_BYTES * t.symbols.len()) as u64;
            t.strings_offset = at as u32;
            at += t.strings.len() as u64;
        }
    }
    at = at.next_multiple_of(rows::COMMAND_ALIGN as u64);
    let sections = commands.iter_mut().filter_map(|c| match c {
        Command::Segment(s) => Some(s),
        _ => None,
    });
    let mut segments: Vec<&mut Segment> = sections.collect();
    for section in segments.iter_mut().flat_map(|s| &mut s.sections).filter(|s| !s.relocations.is_empty()) {
        section.relocations_offset = at as u32;
        at += (rows::RELOCATION_BYTES * section.relocations.len()) as u64;
    }
    for segment in segments.iter_mut().filter(|s| s.file_bytes > 0) {
        at = at.next_multiple_of(rows::PAGE);
        segment.file_offset = at;
        for section in &mut segment.sections {
            section.file_offset = (at + (section.address - segment.address)) as u32;
        }
        at += segment.file_bytes;
    }
    if at > u32::MAX as u64 {
        return Err(BuildError::Limit { what: "file size", found: at, limit: u32::MAX as u64 });
    }
    let header = Header {
        cpu_type: rows::CPU_TYPE,
        cpu_subtype,
        file_type: rows::FILE_TYPE,
        flags: rows::HEADER_FLAGS,
        reserved: 0,
    };
    Ok(Container { header, commands, file_bytes: at, residue: Vec::new() })
}
