//! Conversion of a [`Container`] to a [`Program`]: roles of base registers, and ports to bind.

use crate::order;
use anemone_facts::chips::CHIPS;
use anemone_facts::formats::dialects::{self, Dialect};
use anemone_facts::formats::hwx as rows;
use anemone_facts::{Field, Layout, chips};

use super::defs::{Container, RunState, Section, TensorRecord, name16, name16_text};
use crate::{BAR_COUNT, Direction, Element, Nchw, Port, Program, StreamError, Strides};

/// Error for a container that cannot be lifted into a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiftError {
    /// Programs of the CPU subtype are not executed.
    #[error(
        "CPU subtype {subtype} at {offset:#x}: a program for {found}; only programs for {known} are executed and patched"
    )]
    Subtype {
        /// Byte offset of the subtype.
        offset: u64,
        /// CPU subtype found.
        subtype: u32,
        /// Generation of the subtype.
        found: String,
        /// Generations whose programs can be lifted.
        known: String,
    },
    /// The container lacks a part.
    #[error("no {what} in {commands} load commands that end at {offset:#x}")]
    Missing {
        /// The part.
        what: &'static str,
        /// Byte offset of the end of the commands.
        offset: u64,
        /// Number of commands.
        commands: usize,
    },
    /// A base register does not hold the address of its role.
    #[error("run state at {offset:#x}: base register {bar} is {found:#x}, {what} is at {expected:#x}")]
    Base {
        /// Byte offset of the run state.
        offset: u64,
        /// Base register.
        bar: u8,
        /// Its value.
        found: u64,
        /// Part that it should address.
        what: &'static str,
        /// Address of that part.
        expected: u64,
    },
    /// No base register of the machine holds a port's address.
    #[error("port {name:?} at {offset:#x}: no base register below {bars} holds its address {address:#x}")]
    Unbound {
        /// Byte offset of the port command.
        offset: u64,
        /// Port name.
        name: String,
        /// Address of its window.
        address: u64,
        /// Base registers of the machine.
        bars: usize,
    },
    /// A task uses a base register without a port or segment.
    #[error("task {task} at stream offset {offset:#x}: {field:?} is base register {bar}, which is not bound")]
    Unknown {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor in the stream.
        offset: u32,
        /// The header field.
        field: Field,
        /// Base register.
        bar: u32,
    },
    /// No tensor record has a port's name.
    #[error("port {name:?} at {offset:#x}: none of {records} tensor records has its name")]
    NoRecord {
        /// Byte offset of the port command.
        offset: u64,
        /// Port name.
        name: String,
        /// Number of tensor records.
        records: usize,
    },
    /// A word of a tensor record has a value that a port cannot represent.
    #[error("tensor record of {name:?} at {offset:#x}: {what} is {found:#x}, expected {expected}")]
    Record {
        /// Byte offset of the record.
        offset: u64,
        /// Port name.
        name: String,
        /// The quantity.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Expected value.
        expected: &'static str,
    },
    /// No run state has the name.
    #[error("no procedure is called {name:?}; the container has {known}")]
    Procedure {
        /// Requested name.
        name: String,
        /// Names of the container's procedures.
        known: String,
    },
    /// The number of tasks in the stream differs from that in the run state.
    #[error("run state at {offset:#x}: {stated} tasks, the stream has {found}")]
    TaskCount {
        /// Byte offset of the run state.
        offset: u64,
        /// Number stated.
        stated: u32,
        /// Number found.
        found: usize,
    },
    /// The stream is not a chain of task descriptors.
    #[error("task stream at file offset {offset:#x}: {source}")]
    Stream {
        /// Byte offset of the stream in the file.
        offset: u64,
        /// Reason.
        source: StreamError,
    },
}

/// Header fields that name base registers, with the flag that enables each.
pub(crate) const BASES: [(Field, Field); 8] = [
    (Field::RBase0, Field::Rbe0),
    (Field::RBase1, Field::Rbe1),
    (Field::WBase, Field::Wbe),
    (Field::TBase, Field::Tbe),
    (Field::KBase0, Field::Kbe0),
    (Field::KBase1, Field::Kbe1),
    (Field::KBase2, Field::Kbe2),
    (Field::KBase3, Field::Kbe3),
];

/// The layout of a CPU subtype whose programs are executed.
pub(crate) fn layout_of(subtype: u32) -> Option<&'static Layout> {
    CHIPS.iter().find(|c| c.cpu_subtype == Some(subtype)).and_then(|c| c.layout)
}

/// Text for a CPU subtype's generation.
fn generation(subtype: u32) -> String {
    let row = chips::SUBTYPES.iter().find(|row| row.subtype == subtype);
    row.map(chips::Subtype::describe).filter(|d| !d.is_empty()).unwrap_or("an unknown generation".into())
}

/// Text for the generations whose programs are executed.
fn executed() -> String {
    let mut known: Vec<u32> = CHIPS.iter().filter(|c| c.layout.is_some()).filter_map(|c| c.cpu_subtype).collect();
    known.dedup();
    known.into_iter().map(generation).collect::<Vec<_>>().join("; ")
}

/// Segment and section names for a part of the kernel data, by its number.
pub(super) fn kernel_names(part: usize) -> ([u8; 16], [u8; 16]) {
    let stem = |name: &str| name16(&format!("{}{part}", name.trim_end_matches('0')));
    (stem(rows::KERNEL.segment), stem(rows::KERNEL.section))
}

/// Number of a section among those of kernel data in segments of their own; `None` for other sections.
fn kernel_number(section: &Section) -> Option<usize> {
    let segment = name16_text(&section.segment);
    let number = segment.strip_prefix(rows::KERNEL.segment.trim_end_matches('0'))?.parse().ok()?;
    ((section.segment, section.name) == kernel_names(number)).then_some(number)
}

/// Element type of a type number.
pub(crate) fn element_of(number: u32) -> Option<Element> {
    match rows::type_name(number)? {
        "uint8" => Some(Element::Uint8),
        "int8" => Some(Element::Int8),
        "float16" => Some(Element::Float16),
        _ => None,
    }
}

/// Type number of an element type.
pub(crate) fn type_of(element: Element) -> u32 {
    let name = match element {
        Element::Uint8 => "uint8",
        Element::Int8 => "int8",
        Element::Float16 => "float16",
    };
    rows::type_number(name).unwrap_or(rows::TYPE_FLOAT16)
}

impl Section {
    /// Returns true if it contains kernel data in a segment of its own.
    pub(crate) fn is_kernel(&self) -> bool {
        kernel_number(self).is_some()
    }
}

impl Container {
    /// Register layout of the container's generation, if it is known.
    pub fn layout(&self) -> Option<&'static Layout> {
        chips::layout_of(self.header.cpu_subtype)
    }

    /// The run state and its byte offset.
    pub fn run_state(&self) -> Option<(u64, RunState<'_>)> {
        self.threads().find_map(|(at, t)| t.run_state().map(|r| (at, r)))
    }

    /// Tensor records with their byte offsets.
    pub fn tensor_records(&self) -> impl Iterator<Item = (u64, TensorRecord<'_>)> {
        self.threads().filter_map(|(at, t)| t.tensor().map(|r| (at, r)))
    }

    /// Run states with their byte offsets, one for each procedure.
    pub fn run_states(&self) -> impl Iterator<Item = (u64, RunState<'_>)> {
        self.threads().filter_map(|(at, t)| t.run_state().map(|r| (at, r)))
    }

    /// Names of the procedures in order: the position of each is its number.
    pub fn procedures(&self) -> Vec<String> {
        self.run_states().map(|(_, run)| run.name()).collect()
    }

    /// Sections with the first procedure's kernel data, in order.
    pub fn kernel_sections(&self) -> Vec<&Section> {
        self.kernel_sections_of(self.run_state().map(|(_, run)| run))
    }

    /// Sections with a procedure's kernel data, in order.
    pub fn kernel_sections_of(&self, run: Option<RunState>) -> Vec<&Section> {
        let base = run.map(|r| r.base(Program::KERNEL_BAR as usize));
        let mut all: Vec<&Section> = self.kernel_section_at(base).into_iter().collect();
        let Some(first) = all.first().and_then(|s| kernel_number(s)) else { return all };
        let bases: Vec<u64> = self.run_states().map(|(_, r)| r.base(Program::KERNEL_BAR as usize)).collect();
        while let Some(last) = all.last() {
            let (segment, section) = kernel_names(first + all.len());
            let end = last.address.saturating_add(last.bytes).next_multiple_of(rows::PAGE);
            let next = self.sections().find(|s| s.segment == segment && s.name == section && s.address == end);
            // Kernel data of another procedure ends that of this one.
            let Some(next) = next.filter(|s| !bases.contains(&s.address)) else { break };
            all.push(next);
        }
        all
    }

    /// Every section with kernel data in a segment of its own, in the order of their numbers.
    pub(crate) fn all_kernel_sections(&self) -> Vec<&Section> {
        let mut all: Vec<(usize, &Section)> =
            self.sections().filter_map(|s| kernel_number(s).map(|number| (number, s))).collect();
        order::by_key(&mut all, |(number, _)| *number);
        all.into_iter().map(|(_, section)| section).collect()
    }

    /// The first section with the first procedure's kernel data: a segment of its own if there is one and the base
    /// register refers to it.
    pub fn kernel_section(&self) -> Option<&Section> {
        self.kernel_section_at(self.run_state().map(|(_, r)| r.base(Program::KERNEL_BAR as usize)))
    }

    fn kernel_section_at(&self, base: Option<u64>) -> Option<&Section> {
        let own = self.sections().find(|s| kernel_number(s).is_some_and(|n| base.map_or(n == 0, |b| b == s.address)));
        own.or_else(|| self.section(rows::CONST.segment, rows::CONST.section))
    }

    /// The part of the task stream of a procedure: up to the start of the next one.
    pub(crate) fn stream_of(&self, run: &RunState) -> Option<(&Section, std::ops::Range<usize>)> {
        let text = self.section(rows::TEXT.segment, rows::TEXT.section)?;
        let entry = run.base(Program::STREAM_BAR as usize);
        let others = self.run_states().map(|(_, r)| r.base(Program::STREAM_BAR as usize));
        let next = others.filter(|&at| at > entry).min().unwrap_or(u64::MAX);
        let place = |address: u64| address.saturating_sub(text.address).min(text.data.len() as u64) as usize;
        (entry >= text.address).then(|| (text, place(entry)..place(next)))
    }

    /// Address and size in bytes of the intermediate region: its contiguous sections.
    fn scratch(&self) -> Option<(u64, u64)> {
        let (segment, section) = (name16(rows::BSS.segment), name16(rows::BSS.section));
        let mut all: Vec<&Section> = self.sections().filter(|s| s.segment == segment && s.name == section).collect();
        order::by_key(&mut all, |s| s.address);
        let (first, rest) = all.split_first()?;
        let end = rest.iter().fold(first.address.saturating_add(first.bytes), |end, s| {
            let follows = s.address == end.next_multiple_of(rows::PAGE);
            if follows { s.address.saturating_add(s.bytes) } else { end }
        });
        Some((first.address, end - first.address))
    }

    /// Version of the compiler in the banner.
    pub fn compiler_version(&self) -> Option<String> {
        let banner = self.banner()?;
        let line = banner.lines().find_map(|l| l.strip_prefix("zin_ane_compiler v"))?;
        Some(line.trim().to_string())
    }

    /// The dialect of the compiler that the banner names.
    pub fn dialect(&self) -> Option<&'static Dialect> {
        dialects::of_version(&self.compiler_version()?)
    }

    /// Lifts the container into a program: its first procedure, with stream and kernel data unchanged.
    ///
    /// Refuses generations whose programs are listed but not executed, and containers with inconsistent run state, sections, port commands
    /// and tensor records.
    pub fn program(&self) -> Result<Program, LiftError> {
        self.lifted(self.run_state())
    }

    /// As [`Container::program`], the procedure of that name.
    pub fn program_of(&self, procedure: &str) -> Result<Program, LiftError> {
        let found = self.run_states().find(|(_, run)| run.name() == procedure);
        let known = || self.procedures().join(", ");
        self.lifted(Some(found.ok_or_else(|| LiftError::Procedure { name: procedure.into(), known: known() })?))
    }

    /// The programs of all procedures, in order.
    pub fn programs(&self) -> Result<Vec<Program>, LiftError> {
        match self.run_states().count() {
            0 => self.program().map(|program| vec![program]),
            _ => self.run_states().map(|run| self.lifted(Some(run))).collect(),
        }
    }

    fn lifted(&self, run: Option<(u64, RunState)>) -> Result<Program, LiftError> {
        let layout = layout_of(self.header.cpu_subtype).ok_or_else(|| LiftError::Subtype {
            offset: rows::SUBTYPE_OFFSET,
            subtype: self.header.cpu_subtype,
            found: generation(self.header.cpu_subtype),
            known: executed(),
        })?;
        let missing = |what| LiftError::Missing {
            what,
            offset: rows::HEADER_BYTES as u64 + self.commands.iter().map(|c| c.bytes()).sum::<u64>(),
            commands: self.commands.len(),
        };
        let (offset, run) = run.ok_or_else(|| missing("run state"))?;
        let text = self
            .section(rows::TEXT.segment, rows::TEXT.section)
            .ok_or_else(|| missing("task stream section (__TEXT,__text)"))?;
        let kernel_sections = self.kernel_sections_of(Some(run));
        let kernel = kernel_sections.first().copied();
        let scratch = self.scratch();
        let base = |bar: u8, what, expected| match run.base(bar as usize) {
            found if found == expected => Ok(()),
            found => Err(LiftError::Base { offset, bar, found, what, expected }),
        };
        let several = self.run_states().count() > 1;
        if !several {
            base(Program::STREAM_BAR, "the task stream", text.address)?;
        }
        let (_, part) = self.stream_of(&run).ok_or_else(|| missing("task stream at the procedure's base register"))?;
        let program = Program {
            name: run.name(),
            layout,
            stream: text.data[part.clone()].to_vec(),
            first_task_words: run.first_task_words(),
            kernel: self.kernel_bytes(run),
            scratch_bytes: scratch.map_or(0, |(_, bytes)| bytes),
            ports: self.ports(&run)?,
        };
        let tasks = program.tasks().map_err(|source| {
            let offset = u64::from(text.file_offset) + part.start as u64;
            LiftError::Stream { offset, source }
        })?;
        if tasks.len() != run.tasks() as usize {
            return Err(LiftError::TaskCount { offset, stated: run.tasks(), found: tasks.len() });
        }
        for (i, task) in tasks.iter().enumerate() {
            for (field, _) in BASES.into_iter().filter(|&(_, enable)| task.get(layout, enable) == Some(1)) {
                let bar = task.get(layout, field).unwrap_or(0);
                let known = match (bar as u8, kernel, scratch) {
                    (Program::STREAM_BAR, _, _) => true,
                    (Program::KERNEL_BAR, Some(k), _) => {
                        base(Program::KERNEL_BAR, "kernel data", k.address)?;
                        true
                    }
                    (Program::SCRATCH_BAR, _, Some(s)) => {
                        base(Program::SCRATCH_BAR, "the intermediate region", s.0)?;
                        true
                    }
                    (b, _, _) => program.ports.iter().any(|p| p.bar == b),
                };
                if !known {
                    return Err(LiftError::Unknown { task: i, offset: task.offset, field, bar });
                }
            }
        }
        Ok(program)
    }

    /// Ports in the order of their commands, inputs before outputs.
    fn ports(&self, run: &RunState) -> Result<Vec<Port>, LiftError> {
        let procedure = run.name();
        let mut records: Vec<(u64, TensorRecord)> = self.tensor_records().collect();
        if records.iter().any(|(_, r)| r.procedure() == procedure) {
            records.retain(|(_, r)| r.procedure() == procedure);
        }
        let mut ports = Vec::new();
        let several = self.run_states().count() > 1;
        for (offset, window) in self.windows() {
            let name = window.name();
            // Windows of other procedures are not in the base registers of this one.
            let of_this = |b| run.base(b) == window.address;
            if several && !(Program::FIRST_PORT_BAR as usize..BAR_COUNT).any(of_this) {
                continue;
            }
            // Later compilers call an output `x@output` in its record's first name and `x` in the second.
            let (at, record) = *records
                .iter()
                .find(|(_, r)| r.names().contains(&name))
                .ok_or_else(|| LiftError::NoRecord { offset, name: name.clone(), records: records.len() })?;
            let bar =
                (Program::FIRST_PORT_BAR as usize..BAR_COUNT).find(|&b| run.base(b) == window.address).ok_or_else(
                    || LiftError::Unbound { offset, name: name.clone(), address: window.address, bars: BAR_COUNT },
                )?;
            let section = self.sections().find(|s| s.address == window.address && is_window(&name16_text(&s.segment)));
            ports.push(port(name, bar as u8, at, record, section.map(|s| s.bytes))?);
        }
        order::by_key(&mut ports, |p| p.direction == Direction::Output);
        Ok(ports)
    }
}

fn is_window(segment: &str) -> bool {
    segment == rows::INPUT.segment || segment == rows::OUTPUT.segment
}

fn port(name: String, bar: u8, offset: u64, r: TensorRecord, bytes: Option<u64>) -> Result<Port, LiftError> {
    use rows::tensor as t;
    let wrong = |what, found: u64, expected| LiftError::Record { offset, name: name.clone(), what, found, expected };
    let direction = match r.direction() {
        t::INPUT => Direction::Input,
        t::OUTPUT => Direction::Output,
        d => return Err(wrong("direction", d as u64, "1 (input) or 2 (output)")),
    };
    let kind = r.0.word(t::KIND);
    if kind != t::KIND_VALUE {
        return Err(wrong(
            "kind",
            kind as u64,
            "3: other kinds are taken as tiled and compressed, which is not executed",
        ));
    }
    let number = r.0.word(t::TYPE);
    let element = element_of(number).ok_or_else(|| wrong("element type", number as u64, "uint8, int8 or float16"))?;
    let stride = r.0.quantity(t::ELEMENT_STRIDE);
    if stride != element.bytes() {
        return Err(wrong("element stride", stride, "the element's size"));
    }
    let depth = r.0.word(t::D);
    let mut shape = Nchw { n: r.0.word(t::N), c: r.0.word(t::C), h: r.0.word(t::H), w: r.0.word(t::W) };
    for (what, extent) in [("batch", shape.n), ("channels", shape.c), ("rows", shape.h), ("columns", shape.w)] {
        if extent == 0 {
            return Err(wrong(what, 0, "at least 1"));
        }
    }
    let mut strides = Strides {
        batch_bytes: r.0.quantity(t::BATCH_STRIDE),
        plane_bytes: r.0.quantity(t::PLANE_STRIDE),
        row_bytes: r.0.quantity(t::ROW_STRIDE),
    };
    let volume_channels = (depth > 1).then_some(shape.c);
    if depth > 1 {
        // Planes of a depth and batches of channels are contiguous.
        let (plane, batch) = (strides.plane_bytes, strides.batch_bytes);
        let joined = shape.n.checked_mul(shape.c).ok_or_else(|| wrong("channels", shape.c.into(), "fewer"))?;
        if !plane.is_multiple_of(depth.into()) || shape.n > 1 && batch != plane.saturating_mul(shape.c.into()) {
            return Err(wrong("depth", depth as u64, "planes that are dense in depth and batch"));
        }
        strides = Strides { batch_bytes: plane, plane_bytes: plane / u64::from(depth), ..strides };
        shape = Nchw { n: joined, c: depth, ..shape };
    }
    let bytes = bytes.unwrap_or(r.0.quantity(t::BYTES));
    Ok(Port { name, direction, bar, shape, volume_channels, strides, element, bytes })
}
