//! The commands of a container: segments, windows, run states, tensor records, banner.

use super::{Part, Plan, pages};
use crate::hwx::defs::{Command, PortWindow, Relocation, Section, Segment, Thread, name16};
use crate::hwx::lift::{kernel_names, type_of};
use crate::hwx::options::Options;
use crate::{Direction, Port, Program};
use anemone_facts::Field;
use anemone_facts::formats::dialects::{self, Dialect};
use anemone_facts::formats::hwx as rows;
use bytes::Bytes;

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
        data: Bytes::new(),
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

/// Segments in order; file offsets are set at the end.
/// Without `held`, sections of kernel data have addresses but no contents.
pub(super) fn segments(
    parts: &[Part],
    plan: &Plan,
    options: &Options,
    relocations: Vec<Relocation>,
    held: bool,
) -> Vec<Command> {
    let mut text = section(&rows::TEXT, plan.text_address, plan.text_bytes);
    let mut streams = Vec::new();
    for part in parts {
        streams.resize(part.stream_at as usize, 0);
        streams.extend_from_slice(&part.program.stream);
    }
    text.data = streams.into();
    if plan.kernel {
        text.flags |= rows::HAS_RELOCATIONS;
    }
    text.relocations = relocations;
    text.align_log2 = options.text_align_log2;
    let mut constants = section(&rows::CONST, plan.const_address, plan.const_bytes);
    let mut inside = parts.iter().filter(|part| !plan.is_apart(part) && !part.program.kernel.is_empty()).peekable();
    if held || inside.peek().is_none() {
        let mut all = Vec::new();
        inside.for_each(|part| all.extend_from_slice(&part.program.kernel));
        all.resize(plan.const_bytes as usize, 0);
        constants.data = all.into();
    }
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
    let ports = parts.iter().flat_map(|part| part.program.ports.iter().zip(&part.windows));
    for (port, &address) in ports {
        let row = match port.direction {
            Direction::Input => &rows::INPUT,
            Direction::Output => &rows::OUTPUT,
        };
        windows.push(segment(row, address, pages(port.bytes) as u64, vec![section(row, address, port.bytes)]));
    }
    let mut all = vec![segment(&rows::PAGE_ZERO, 0, rows::PAGE, Vec::new())];
    if options.dialect.windows_first {
        all.append(&mut windows);
    }
    all.push(stream);
    all.append(&mut windows);
    let mut number = 0;
    for part in parts.iter().filter(|part| plan.is_apart(part) && part.own_kernel) {
        let mut address = part.kernel_address;
        for piece in part.program.kernel.chunks(plan.kernel_section_bytes as usize) {
            let mut kernel = section(plan.kernel_row, address, piece.len() as u64);
            (kernel.segment, kernel.name) = kernel_names(number);
            kernel.data = if held { part.program.kernel.slice_ref(piece) } else { Bytes::new() };
            let (name, bytes) = (kernel.segment, pages(kernel.bytes) as u64);
            let mut own = segment(plan.kernel_row, address, bytes, vec![kernel]);
            (own.name, own.file_bytes) = (name, bytes);
            all.push(own);
            address += bytes;
            number += 1;
        }
    }
    all.into_iter().map(Command::Segment).collect()
}

/// Zero-terminated texts, padded so that a command of `fixed` bytes followed by them ends on the command granule.
fn texts(fixed: usize, texts: &[&str]) -> Vec<u8> {
    let mut tail = Vec::new();
    for text in texts {
        tail.extend_from_slice(text.as_bytes());
        tail.push(0);
    }
    tail.resize((fixed + tail.len()).next_multiple_of(rows::COMMAND_ALIGN) - fixed, 0);
    tail
}

pub(super) fn window(port: &Port, address: u64, dialect: &Dialect) -> Command {
    let wide = dialect.port_command == rows::PORT64;
    let mut window = PortWindow { wide, name_offset: 0, version: 0, address, tail: Vec::new() };
    window.name_offset = window.fixed_bytes() as u32;
    window.tail = texts(window.fixed_bytes(), &[&port.name]);
    Command::Port(window)
}

pub(super) fn run_state(part: &Part, plan: &Plan, dialect: &Dialect) -> Command {
    use rows::run_state as r;
    let Part { program, tasks, .. } = part;
    let entry = plan.text_address + part.stream_at;
    let mut words = vec![0; dialect.run_words];
    let mut base = |bar: u8, address: u64| {
        words[2 * bar as usize] = address as u32;
        words[2 * bar as usize + 1] = (address >> 32) as u32;
    };
    base(Program::STREAM_BAR, entry);
    base(Program::KERNEL_BAR, part.kernel_address);
    if let Some(&(address, _)) = plan.scratch.first() {
        base(Program::SCRATCH_BAR, address);
    }
    for (port, &address) in program.ports.iter().zip(&part.windows) {
        base(port.bar, address);
    }
    let bits = |field| tasks.iter().map(|t| t.get(program.layout, field).unwrap_or(0).count_ones()).sum();
    let fixed = 16 + 4 * dialect.run_words;
    words[r::ENTRY] = entry as u32;
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
        words[r::SCRATCH] = plan.scratch_bytes as u32;
    }
    Command::Thread(Thread { flavor: rows::FLAVOR_RUN, words, tail: texts(fixed, &[&program.name]) })
}

pub(super) fn tensor_record(program: &Program, port: &Port, dialect: &Dialect) -> Command {
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
    let (extents, [batch_bytes, plane_bytes]) = match port.volume_channels.filter(|_| port.has_dense_volumes()) {
        Some(channels) => {
            let batch_bytes = port.strides.batch_bytes.saturating_mul(channels.into());
            ([port.shape.n / channels.max(1), channels, port.shape.c], [batch_bytes, port.strides.batch_bytes])
        }
        None => ([port.shape.n, port.shape.c, 1], [port.strides.batch_bytes, port.strides.plane_bytes]),
    };
    let singles = [
        (t::KIND, t::KIND_VALUE),
        (t::DIRECTION, direction),
        (t::PROCEDURE, names[0] as u32),
        (t::NAME, names[1] as u32),
        (t::TYPE, type_of(port.element)),
        (t::N, extents[0]),
        (t::C, extents[1]),
        (t::H, port.shape.h),
        (t::W, port.shape.w),
        (t::D, extents[2]),
        (t::INTERLEAVE, 1),
        (t::SECOND_NAME, names[2] as u32),
    ];
    let doubles = [
        (t::BATCH_STRIDE, batch_bytes),
        (t::PLANE_STRIDE, plane_bytes),
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

pub(super) fn ident(program: &Program, options: &Options) -> Command {
    let mut text = String::new();
    for line in options.dialect.banner {
        text += &format!("{line}\n");
        if line.contains(dialects::BANNER_MODULE_VERSION) && !options.component.is_empty() {
            text += &format!("\t{}{}\n", dialects::BANNER_COMPONENT, options.component);
        }
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

/// The owner's note of later dialects.
pub(super) fn note(dialect: &Dialect) -> Option<Command> {
    let body = dialects::NOTE_WORDS.iter().flat_map(|w| w.to_le_bytes()).collect();
    dialect.note.then_some(Command::Unknown { id: rows::NOTE, body })
}
