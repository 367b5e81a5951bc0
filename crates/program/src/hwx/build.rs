//! [`Program`] to [`Container`], laid out as a named compiler version lays it out.

use anemone_facts::Field;
use anemone_facts::formats::dialects::{self, DIALECTS, Dialect};
use anemone_facts::formats::hwx as rows;
use sha2::{Digest, Sha256};

use super::defs::{
    Command, Container, Header, PortWindow, Relocation, Section, Segment, Symbol, Symtab, Thread, name16,
};
use super::lift::{kernel_names, type_of};
use super::options::{BuildError, Options};
use super::symbols::TensorSymbol;
use crate::{Direction, Port, Program, Task};

/// One past the largest address that a window of 32 bits has; later dialects need no more either.
const ADDRESS_LIMIT: u64 = 1 << 32;
/// What stands before the engine's number in the name of a kernel symbol.
const ENGINE_SUFFIX: &str = "_ne_";

/// Builds the container of a program.
///
/// The layout follows [`Options::dialect`]; that of compiler 4.2.1 byte for byte. An intermediate region is written as
/// later compilers write it (`__DATA,__bss`): no container of compiler 4.2.1 with one is known.
pub fn from_program(program: &Program, options: &Options) -> Result<Container, BuildError> {
    let dialect = options.dialect;
    if !dialect.written {
        let known: Vec<&str> = DIALECTS.iter().filter(|d| d.written).map(|d| d.name).collect();
        return Err(BuildError::Dialect { dialect: dialect.name, known: known.join(", ") });
    }
    let tasks = program.tasks()?;
    check_texts(program, options)?;
    let plan = Plan::of(program, options, &tasks)?;
    let streams = kernel_streams(program, &tasks)?;
    let symtab = symtab(program, options, &plan, &streams);
    let info = |base| rows::RELOCATION_FLAGS | u32::from(plan.section_of_kernel(base));
    let relocations: Vec<Relocation> =
        streams.iter().map(|s| Relocation { offset: s.word_offset as i32, info: info(s.base) }).collect();

    let mut commands = segments(program, &plan, dialect, relocations);
    for (port, address) in program.ports.iter().zip(&plan.windows) {
        commands.push(window(port, *address, dialect));
    }
    commands.push(run_state(program, &tasks, &plan, dialect));
    // The vendor keeps a procedure's inputs by name; outputs follow in order.
    let mut inputs: Vec<&Port> = program.ports_of(Direction::Input).collect();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    for port in inputs.into_iter().chain(program.ports_of(Direction::Output)) {
        commands.push(tensor_record(program, port, dialect));
    }
    commands.push(ident(program, options));
    if dialect.note {
        let body = dialects::NOTE_WORDS.iter().flat_map(|w| w.to_le_bytes()).collect();
        commands.push(Command::Unknown { id: rows::NOTE, body });
    }
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

/// Most sections of a container: symbols number them in a byte.
const MOST_SECTIONS: u64 = 255;

/// Where everything lies in the address space.
struct Plan {
    subtype: u32,
    /// Whether any kernel stream is enabled.
    kernel: bool,
    text_address: u64,
    text_segment_bytes: u64,
    const_address: u64,
    const_bytes: u64,
    /// Address of kernel data, and number of its first section, from 1.
    kernel_address: u64,
    kernel_section: u8,
    /// Bytes of each section of kernel data but the last, which are whole pages, so that the sections follow each other.
    kernel_section_bytes: u64,
    /// Address and bytes of every segment of the intermediate region.
    scratch: Vec<(u64, u64)>,
    /// Address of each port's window, in port order.
    windows: Vec<u64>,
    /// Number of the first window's section, from 1.
    first_window: u8,
}

impl Plan {
    fn of(program: &Program, options: &Options, tasks: &[Task]) -> Result<Plan, BuildError> {
        let dialect = options.dialect;
        let generation = program.layout.generation;
        let chip = anemone_facts::silicon::by_name(generation);
        let subtype = chip.and_then(|c| c.cpu_subtype).ok_or(BuildError::Generation { generation })?;
        let kernel = tasks.iter().any(|t| enabled(program, t).next().is_some());
        // Kernel data that stands in a segment of its own leaves an empty section behind the stream.
        let apart = dialect.kernel != rows::CONST && !program.kernel.is_empty();
        let const_offset = (program.stream.len() as u64).next_multiple_of(rows::CONST_ALIGN);
        let const_bytes = match program.kernel.len() as u64 {
            0 => rows::EMPTY_CONST_BYTES,
            _ if apart => rows::EMPTY_CONST_BYTES,
            n => n,
        };
        let text_segment_bytes = (const_offset + const_bytes).next_multiple_of(rows::PAGE);
        if program.scratch_bytes > ADDRESS_LIMIT {
            let found = program.scratch_bytes;
            return Err(BuildError::Limit { what: "intermediate region", found, limit: ADDRESS_LIMIT });
        }
        let mut next = rows::VM_BASE as u128;
        let mut take = |bytes: u64| {
            let address = next as u64;
            next += pages(bytes);
            address
        };
        let pieces = options.scratch_segments.clamp(1, program.scratch_bytes.div_ceil(rows::PAGE).max(1));
        let piece = program.scratch_bytes.div_ceil(pieces).next_multiple_of(rows::PAGE).max(rows::PAGE);
        let count = program.scratch_bytes.div_ceil(piece);
        let sizes = (0..count).map(|i| piece.min(program.scratch_bytes - i * piece));
        let mut text_address = 0;
        if !dialect.windows_first {
            text_address = take(text_segment_bytes);
        }
        let scratch: Vec<(u64, u64)> = sizes.map(|bytes| (take(bytes), bytes)).collect();
        let mut taken = [false; crate::BAR_COUNT];
        let mut windows = Vec::new();
        for port in &program.ports {
            let free = taken.get_mut(port.bar as usize).filter(|t| !**t && port.bar >= Program::FIRST_PORT_BAR);
            let Some(free) = free else {
                let (name, bar, first) = (port.name.clone(), port.bar, Program::FIRST_PORT_BAR);
                return Err(BuildError::Bar { name, bar, first, count: crate::BAR_COUNT });
            };
            *free = true;
            windows.push(take(port.bytes));
        }
        if dialect.windows_first {
            text_address = take(text_segment_bytes);
        }
        let const_address = text_address + const_offset;
        let kernel_address = if apart { take(program.kernel.len() as u64) } else { const_address };
        if next > ADDRESS_LIMIT as u128 {
            let found = u64::try_from(next).unwrap_or(u64::MAX);
            return Err(BuildError::Limit { what: "end of the address space", found, limit: ADDRESS_LIMIT });
        }
        // Sections count from 1 in the order of the segments.
        let (scratches, ports) = (scratch.len() as u8, windows.len() as u8);
        let (first_window, text_section) =
            if dialect.windows_first { (1 + scratches, 1 + scratches + ports) } else { (3 + scratches, 1) };
        let kernel_section = text_section + if apart { 2 } else { 1 };
        let kernel_section_bytes = (options.kernel_section_bytes / rows::PAGE * rows::PAGE).max(rows::PAGE);
        let kernel_sections = (program.kernel.len() as u64).div_ceil(kernel_section_bytes);
        if apart && kernel_sections + u64::from(kernel_section) > MOST_SECTIONS {
            let limit = (MOST_SECTIONS - u64::from(kernel_section)) * kernel_section_bytes;
            return Err(BuildError::Limit { what: "kernel data", found: program.kernel.len() as u64, limit });
        }
        Ok(Plan {
            subtype,
            kernel,
            text_address,
            text_segment_bytes,
            const_address,
            const_bytes,
            kernel_address,
            kernel_section,
            kernel_section_bytes,
            scratch,
            windows,
            first_window,
        })
    }

    /// Number of the section with that byte of the kernel data.
    fn section_of_kernel(&self, base: u64) -> u8 {
        self.kernel_section + if self.apart() { (base / self.kernel_section_bytes) as u8 } else { 0 }
    }

    /// Returns true if kernel data stands in segments of its own.
    fn apart(&self) -> bool {
        self.kernel_address != self.const_address
    }
}

/// Whole pages that hold some bytes.
fn pages(bytes: u64) -> u128 {
    (bytes as u128).next_multiple_of(rows::PAGE as u128)
}

/// Enabled kernel streams of a task; none where the kernel base leads to a tensor, as in products of two tensors.
fn enabled<'a>(program: &'a Program, task: &'a Task) -> impl Iterator<Item = u32> + 'a {
    let get = |field| task.get(program.layout, field);
    let tensor = get(Field::Kbe0) == Some(1) && get(Field::KBase0) != Some(Program::KERNEL_BAR.into());
    let count = program.layout.row(Field::CoeffEn).filter(|_| !tensor).map_or(0, |r| r.count as u32);
    (0..count).filter(|&i| task.get_at(program.layout, Field::CoeffEn, i) == Some(1))
}

/// One enabled kernel stream.
struct KernelStream {
    /// Byte offset of its base register's word in the task stream.
    word_offset: u32,
    /// Byte offset in the kernel data.
    base: u64,
    /// Symbol name when none is given.
    name: String,
}

fn kernel_streams(program: &Program, tasks: &[Task]) -> Result<Vec<KernelStream>, BuildError> {
    let layout = program.layout;
    let mut out = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let mut hash = Sha256::new();
        let mut streams = Vec::new();
        for engine in enabled(program, task) {
            let base = task.bytes_at(layout, Field::CoeffBase, engine);
            let bytes = task.bytes_at(layout, Field::CoeffSize, engine);
            let data = program.kernel.get(base as usize..).and_then(|k| k.get(..bytes as usize));
            let have = program.kernel.len() as u64;
            hash.update(data.ok_or(BuildError::Kernel { task: index, engine, offset: base, bytes, have })?);
            streams.push((engine, base));
        }
        let digits: String = hash.finalize().iter().map(|b| format!("{b:02X}")).collect();
        let coefficients = task.get(layout, Field::KernelMode) == Some(0);
        for (engine, base) in streams {
            let suffix = if coefficients { format!("{ENGINE_SUFFIX}{engine}") } else { String::new() };
            // A descriptor that leaves the base register out has nothing to relocate.
            let Some(word_offset) = word_offset(task, layout.row(Field::CoeffBase).map_or(0, |r| r.addr) + 4 * engine)
            else {
                continue;
            };
            out.push(KernelStream { word_offset, base, name: format!("K{digits}{suffix}") });
        }
    }
    Ok(out)
}

/// Byte offset in the stream of the word that sets a register.
fn word_offset(task: &Task, addr: u32) -> Option<u32> {
    let mut at = task.offset + 4 * task.header.len() as u32;
    for run in &task.runs {
        at += 4;
        if addr >= run.addr && addr < run.addr + 4 * run.words.len() as u32 {
            return Some(at + addr - run.addr);
        }
        at += 4 * run.words.len() as u32;
    }
    None
}

fn section(row: &rows::SectionRow, address: u64, bytes: u64) -> Section {
    Section {
        name: name16(row.section),
        segment: name16(row.segment),
        address,
        bytes,
        file_offset: 0,
        align_log2: row.align_log2,
        relocations_offset: 0,
        flags: row.section_flags,
        reserved: [0; 3],
        data: Vec::new(),
        relocations: Vec::new(),
    }
}

fn segment(row: &rows::SectionRow, address: u64, bytes: u64, sections: Vec<Section>) -> Segment {
    Segment {
        name: name16(row.segment),
        address,
        bytes,
        file_offset: 0,
        file_bytes: 0,
        max_protection: row.protection,
        protection: row.protection,
        flags: row.segment_flags,
        sections,
        tail: Vec::new(),
    }
}

/// Segments in order; file offsets are set when everything else is known.
fn segments(program: &Program, plan: &Plan, dialect: &Dialect, relocations: Vec<Relocation>) -> Vec<Command> {
    let mut text = section(&rows::TEXT, plan.text_address, program.stream.len() as u64);
    text.data = program.stream.clone();
    if plan.kernel {
        text.flags |= rows::HAS_RELOCATIONS;
    }
    text.relocations = relocations;
    let mut constants = section(&rows::CONST, plan.const_address, plan.const_bytes);
    if !plan.apart() {
        constants.data = program.kernel.clone();
    }
    constants.data.resize(plan.const_bytes as usize, 0);
    let mut stream = segment(&rows::TEXT, plan.text_address, plan.text_segment_bytes, vec![text, constants]);
    stream.file_bytes = plan.text_segment_bytes;
    if plan.kernel {
        stream.flags = 0;
    }
    let mut windows = Vec::new();
    for &(address, bytes) in &plan.scratch {
        let scratch = section(&rows::BSS, address, bytes);
        windows.push(segment(&rows::BSS, address, pages(bytes) as u64, vec![scratch]));
    }
    for (port, &address) in program.ports.iter().zip(&plan.windows) {
        let row = match port.direction {
            Direction::Input => &rows::INPUT,
            Direction::Output => &rows::OUTPUT,
        };
        windows.push(segment(row, address, pages(port.bytes) as u64, vec![section(row, address, port.bytes)]));
    }
    let mut all = vec![segment(&rows::PAGE_ZERO, 0, rows::PAGE, Vec::new())];
    if dialect.windows_first {
        all.append(&mut windows);
    }
    all.push(stream);
    all.append(&mut windows);
    if plan.apart() {
        let mut address = plan.kernel_address;
        for (i, part) in program.kernel.chunks(plan.kernel_section_bytes as usize).enumerate() {
            let mut kernel = section(&dialect.kernel, address, part.len() as u64);
            (kernel.segment, kernel.name) = kernel_names(i);
            kernel.data = part.to_vec();
            let (name, bytes) = (kernel.segment, pages(kernel.bytes) as u64);
            let mut own = segment(&dialect.kernel, address, bytes, vec![kernel]);
            (own.name, own.file_bytes) = (name, bytes);
            all.push(own);
            address += bytes;
        }
    }
    all.into_iter().map(Command::Segment).collect()
}

/// Zero-terminated texts, padded so that a command of `fixed` bytes and them ends on the command granule.
fn texts(fixed: usize, texts: &[&str]) -> Vec<u8> {
    let mut tail = Vec::new();
    for text in texts {
        tail.extend_from_slice(text.as_bytes());
        tail.push(0);
    }
    tail.resize((fixed + tail.len()).next_multiple_of(rows::COMMAND_ALIGN) - fixed, 0);
    tail
}

fn window(port: &Port, address: u64, dialect: &Dialect) -> Command {
    let wide = dialect.port_command == rows::PORT64;
    let mut window = PortWindow { wide, name_offset: 0, version: 0, address, tail: Vec::new() };
    window.name_offset = window.fixed_bytes() as u32;
    window.tail = texts(window.fixed_bytes(), &[&port.name]);
    Command::Port(window)
}

fn run_state(program: &Program, tasks: &[Task], plan: &Plan, dialect: &Dialect) -> Command {
    use rows::run_state as r;
    let mut words = vec![0; dialect.run_words];
    let mut base = |bar: u8, address: u64| {
        words[2 * bar as usize] = address as u32;
        words[2 * bar as usize + 1] = (address >> 32) as u32;
    };
    base(Program::STREAM_BAR, plan.text_address);
    base(Program::KERNEL_BAR, plan.kernel_address);
    if let Some(&(address, _)) = plan.scratch.first() {
        base(Program::SCRATCH_BAR, address);
    }
    for (port, &address) in program.ports.iter().zip(&plan.windows) {
        base(port.bar, address);
    }
    let bits = |field| tasks.iter().map(|t| t.get(program.layout, field).unwrap_or(0).count_ones()).sum();
    let fixed = 16 + 4 * dialect.run_words;
    words[r::ENTRY] = plan.text_address as u32;
    words[r::FIRST_TASK] = program.first_task_words.saturating_sub(1);
    words[r::TASKS] = tasks.len() as u32;
    words[r::MASK] = r::MASK_VALUE;
    words[r::NAME] = fixed as u32;
    words[r::DEBUG_EVENTS] = bits(Field::DebugLogEvents);
    words[r::EVENTS] = bits(Field::LogEvents);
    if let Some(property) = words.get_mut(r::PROPERTY..r::PROPERTY + rows::PROPERTY_WORDS) {
        let cycles = tasks.iter().filter_map(|t| t.get(program.layout, Field::ExeCycles)).max().unwrap_or(0);
        property.copy_from_slice(&[rows::PROPERTY_MAX_CYCLES, rows::PROPERTY_BYTES, cycles, 0]);
        words[r::PROPERTIES] = 1;
        words[r::SCRATCH] = program.scratch_bytes as u32;
    }
    Command::Thread(Thread { flavor: rows::FLAVOR_RUN, words, tail: texts(fixed, &[&program.name]) })
}

fn tensor_record(program: &Program, port: &Port, dialect: &Dialect) -> Command {
    use rows::tensor as t;
    let mut words = vec![0; dialect.tensor_words];
    let fixed = 16 + 4 * dialect.tensor_words;
    let plain = port.name.strip_suffix(dialects::OUTPUT_SUFFIX).unwrap_or(&port.name);
    let (first, second) = match port.direction {
        Direction::Output if dialect.output_suffix => (format!("{plain}{}", dialects::OUTPUT_SUFFIX), plain),
        _ => (port.name.clone(), port.name.as_str()),
    };
    let names = [fixed, fixed + program.name.len() + 1, fixed + program.name.len() + first.len() + 2];
    let element = port.element.bytes();
    let (direction, used) = match port.direction {
        Direction::Input => (t::INPUT, port.bytes),
        Direction::Output => (t::OUTPUT, port.strides.tight_bytes(port.shape, element)),
    };
    let singles = [
        (t::KIND, t::KIND_VALUE),
        (t::DIRECTION, direction),
        (t::PROCEDURE, names[0] as u32),
        (t::NAME, names[1] as u32),
        (t::TYPE, type_of(port.element)),
        (t::N, port.shape.n),
        (t::C, port.shape.c),
        (t::H, port.shape.h),
        (t::W, port.shape.w),
        (t::D, 1),
        (t::INTERLEAVE, 1),
        (t::SECOND_NAME, names[2] as u32),
    ];
    let doubles = [
        (t::BATCH_STRIDE, port.strides.batch_bytes),
        (t::PLANE_STRIDE, port.strides.plane_bytes),
        (t::ROW_STRIDE, port.strides.row_bytes),
        (t::ELEMENT_STRIDE, element),
        (t::BYTES, port.bytes),
        (t::USED_BYTES, used),
    ];
    for (at, value) in singles {
        words[at] = value;
    }
    for (at, value) in doubles {
        words[at] = value as u32;
        words[at + 1] = (value >> 32) as u32;
    }
    let tail = texts(fixed, &[&program.name, &first, second]);
    Command::Thread(Thread { flavor: rows::FLAVOR_TENSOR, words, tail })
}

fn ident(program: &Program, options: &Options) -> Command {
    let mut text = String::new();
    for line in options.dialect.banner {
        text += &format!("{line}\n");
    }
    let flags = options.dialect.flags.iter().map(|f| f.to_string());
    let target = if options.target.is_empty() { program.layout.generation } else { &options.target };
    let target = format!("{}{target}", rows::BANNER_TARGET);
    let input = format!("{}{}", rows::BANNER_INPUT, options.netplist_path);
    let output = format!("{}{}", rows::BANNER_OUTPUT, options.output_path);
    for line in [target].into_iter().chain(flags).chain([input, output]) {
        text += &format!("\t{line}\n");
    }
    Command::Ident(texts(8, &[&text]))
}

/// Symbols: kernel streams (in later dialects after the windows), inputs, outputs, element types, tensors.
fn symtab(program: &Program, options: &Options, plan: &Plan, streams: &[KernelStream]) -> Symtab {
    let dialect = options.dialect;
    let mut table =
        Symtab { symbols_offset: 0, strings_offset: 0, symbols: Vec::new(), strings: vec![0], tail: Vec::new() };
    let mut add = |name: &str, kind, section, desc, value| {
        table.symbols.push(Symbol { name_offset: table.strings.len() as u32, kind, section, desc, value });
        table.strings.extend_from_slice(name.as_bytes());
        table.strings.push(0);
    };
    let kernels = kernel_symbols(program, options, plan, streams);
    let add_kernels = |add: &mut dyn FnMut(&str, u8, u8, u16, u64)| {
        for (name, desc, value) in &kernels {
            let last = (program.kernel.len() as u64).saturating_sub(1);
            let section = plan.section_of_kernel((value - plan.kernel_address).min(last));
            add(name, rows::SYMBOL_DEFINED, section, *desc, *value);
        }
    };
    if !dialect.windows_first {
        add_kernels(&mut add);
    }
    for direction in [Direction::Input, Direction::Output] {
        let desc = if direction == Direction::Input { rows::DESC_READ_ONLY } else { 0 };
        for (i, port) in program.ports.iter().enumerate().filter(|(_, p)| p.direction == direction) {
            add(&port.name, rows::SYMBOL_DEFINED, plan.first_window + i as u8, desc, plan.windows[i]);
        }
    }
    if dialect.windows_first {
        add_kernels(&mut add);
    }
    let types = rows::TYPES[..dialect.types].iter().copied().chain(options.more_types.iter().map(String::as_str));
    let mut number = 1;
    for text in types {
        add(text, rows::SYMBOL_TYPE, 0, 0, 0);
        number += 1;
    }
    number = options.first_tensor_number.unwrap_or(number);
    for port in &program.ports {
        let symbol = TensorSymbol {
            name: port.name.clone(),
            number,
            shape: port.shape,
            strides: port.strides,
            element_bytes: port.element.bytes(),
            element_type: type_of(port.element),
        };
        add(&symbol.to_string(), rows::SYMBOL_TENSOR, 0, (number % rows::TENSOR_DESC_MODULUS) as u16, 0);
        number = number.wrapping_add(rows::TENSOR_TYPE_STEP);
    }
    table
}

/// Name, description and address of every kernel symbol.
fn kernel_symbols(
    program: &Program,
    options: &Options,
    plan: &Plan,
    streams: &[KernelStream],
) -> Vec<(String, u16, u64)> {
    // Tasks that share kernel data share its symbols.
    let mut seen = std::collections::HashSet::new();
    let kernels: Vec<&KernelStream> = streams.iter().filter(|s| seen.insert(s.base)).collect();
    let mut out: Vec<(String, u16, u64)> = Vec::new();
    let mut engine_of: Vec<(String, u32)> = Vec::new();
    for (i, stream) in kernels.iter().enumerate() {
        let name = options.kernel_names.get(i).unwrap_or(&stream.name);
        if let Some((stem, engine)) = name.rsplit_once(ENGINE_SUFFIX).and_then(|(s, n)| Some((s, n.parse().ok()?))) {
            engine_of.push((stem.to_string(), engine));
        }
        out.push((name.clone(), rows::DESC_READ_ONLY, plan.kernel_address + stream.base));
    }
    if options.dialect.idle_symbols {
        let end = plan.kernel_address + program.kernel.len() as u64;
        let mut stems: Vec<&String> = engine_of.iter().map(|(stem, _)| stem).collect();
        stems.dedup();
        for stem in stems {
            let used = |engine: u32| engine_of.iter().any(|(s, e)| s == stem && *e == engine);
            for engine in (0..anemone_facts::kernel::ENGINES as u32).filter(|&e| !used(e)) {
                out.push((format!("{stem}{ENGINE_SUFFIX}{engine}"), 0, end));
            }
        }
    }
    out
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
