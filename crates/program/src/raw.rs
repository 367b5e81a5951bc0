//! Raw task streams: a `.bin` file (stream, then kernel data) and the open driver's `.anec` model file.
//!
//! Neither names its ports: a `.bin` has no header at all. Ports are derived from the descriptors: base register
//! 4 and above, an output if some task writes it. Base register 0 is the start of the stream, 1 kernel data, 3
//! intermediate tensors.

use crate::order;
use anemone_facts::formats::raw as rows;
use anemone_facts::{Field, Layout, layout};

mod anec;

pub use anec::{read_anec, read_anec_at, write_anec, write_anec_at};

use crate::task::{Task, decode};
use crate::{BAR_COUNT, Direction, Element, Nchw, Port, Program, StreamError, Strides};

/// Error for a file that is not a raw stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No size of the first descriptor makes the file a chain of descriptors.
    #[error("no descriptor chain at 0x0 of {have:#x} bytes; read as {words:#x} words: {source}")]
    NoChain {
        /// Bytes of the file.
        have: usize,
        /// Words of the first descriptor in the reported attempt.
        words: u32,
        /// Error of that attempt.
        source: StreamError,
    },
    /// The chain decodes, but a run writes registers that the generation does not have.
    #[error("task {task} at {offset:#x}: run at register {addr:#x} of {words} words lies in no register block")]
    Registers {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor.
        offset: u32,
        /// First register of the run.
        addr: u32,
        /// Words of the run.
        words: usize,
    },
    /// A task accesses memory in a format without a name.
    #[error("task {task} at {offset:#x}: {field:?} = {value} is not an element format")]
    Format {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor.
        offset: u32,
        /// The format field.
        field: Field,
        /// Its value.
        value: u32,
    },
    /// A model file is shorter than its header, stream and kernel data.
    #[error("{what} at {offset:#x}: needs {need:#x} bytes, the file has {have:#x}")]
    Truncated {
        /// Part of the file.
        what: &'static str,
        /// Byte offset of the part.
        offset: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes of the file.
        have: u64,
    },
    /// A quantity in a model file's header contradicts another.
    #[error("{what} at {offset:#x} is {found:#x}, expected {expected:#x}")]
    Header {
        /// The quantity.
        what: &'static str,
        /// Byte offset in the file.
        offset: u64,
        /// Value found.
        found: u64,
        /// Value that follows from the rest.
        expected: u64,
    },
    /// Error for a program that a model file cannot represent.
    #[error("port {bar} of a model file: {what} is {found:#x}, at most {limit:#x}")]
    Port {
        /// Base register.
        bar: u8,
        /// The quantity.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Largest value.
        limit: u64,
    },
}

/// Procedure name of programs that come without one.
const NAME: &str = "net";
/// Granule in bytes of derived buffer sizes: the unit of base offsets and strides.
const BUFFER_GRANULE: u64 = 64;

/// Reads a stream that is followed by kernel data at the next multiple of 16.
///
/// The size of the first descriptor is not stated anywhere; the sizes that compilers emit are tried first, then
/// all others, until a whole chain decodes into register blocks of the generation.
pub fn read_bin(bytes: &[u8]) -> Result<Program, Error> {
    let layout = &layout::H13;
    let words = first_task_words(layout, bytes)?;
    let tasks = chain(layout, bytes, words)?;
    let end = stream_end(&tasks);
    let kernel = end.next_multiple_of(rows::KERNEL_ALIGN as usize);
    let (ports, scratch_bytes) = ports(layout, &tasks)?;
    Ok(Program {
        name: NAME.to_string(),
        layout,
        stream: bytes.get(..end).unwrap_or(bytes).to_vec(),
        first_task_words: words,
        kernel: bytes.get(kernel..).unwrap_or(&[]).to_vec().into(),
        scratch_bytes,
        ports,
    })
}

/// Stream and kernel data in the form of [`read_bin`].
pub fn write_bin(program: &Program) -> Vec<u8> {
    let mut out = program.stream.clone();
    if !program.kernel.is_empty() {
        out.resize(out.len().next_multiple_of(rows::KERNEL_ALIGN as usize), 0);
        out.extend_from_slice(&program.kernel);
    }
    out
}

fn stream_end(tasks: &[Task]) -> usize {
    tasks.last().map_or(0, |t| t.offset as usize + 4 * t.word_count() as usize)
}

/// Number of words of the first descriptor. Errors: that of the most common size.
fn first_task_words(layout: &'static Layout, bytes: &[u8]) -> Result<u32, Error> {
    let usual = chain(layout, bytes, rows::FULL_TASK_WORDS);
    let Err(error) = usual else { return Ok(rows::FULL_TASK_WORDS) };
    let largest = layout.row(Field::NextSize).map_or(0, |r| r.max()) + 1;
    [rows::SHORT_TASK_WORDS]
        .into_iter()
        .chain((layout.header_words + 2..=largest).rev())
        // The first descriptor alone is cheap to reject; the chain is followed only if it decodes.
        .filter(|&w| decode(layout, bytes, 0, 0, w).is_ok_and(|t| in_blocks(layout, 0, &t).is_ok()))
        .find(|&w| chain(layout, bytes, w).is_ok())
        .ok_or(error)
}

/// The chain, with a check that each run is within register blocks.
fn chain(layout: &'static Layout, bytes: &[u8], words: u32) -> Result<Vec<Task>, Error> {
    let tasks = crate::task::decode_stream(layout, bytes, words).map_err(|source| Error::NoChain {
        have: bytes.len(),
        words,
        source,
    })?;
    tasks.iter().enumerate().try_for_each(|(i, t)| in_blocks(layout, i, t))?;
    Ok(tasks)
}

fn in_blocks(layout: &Layout, index: usize, task: &Task) -> Result<(), Error> {
    for run in &task.runs {
        let last = run.addr.saturating_add(4 * (run.words.len() as u32).saturating_sub(1));
        let block = layout.block_of(run.addr);
        if run.addr % 4 != 0 || block.is_none_or(|b| last >= b.addr + 4 * b.words) {
            return Err(Error::Registers { task: index, offset: task.offset, addr: run.addr, words: run.words.len() });
        }
    }
    Ok(())
}

/// One access of a task to memory, as described by its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Position of the task in the chain.
    pub task: usize,
    /// Base register.
    pub bar: u8,
    /// Direction.
    pub direction: Direction,
    /// Byte offset from the base register.
    pub base: u64,
    /// Extents; `n` is the group count.
    pub shape: Nchw,
    /// Byte strides; `batch_bytes` is the group stride.
    pub strides: Strides,
    /// Element format.
    pub element: Element,
}

impl Access {
    /// One past the last byte, relative to the base register; saturating at `u64::MAX`.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.strides.tight_bytes(self.shape, self.element.bytes()))
    }
}

struct Side {
    base_register: Field,
    enable: Field,
    format: Field,
    /// Number of interleaved channels.
    interleave: Field,
    base: Field,
    strides: [Field; 3],
    broadcast: Option<[Field; 3]>,
    /// Flags of each engine for an exchange of C and W in memory.
    turned: &'static [Field],
}

const SIDES: [Side; 3] = [
    Side {
        base_register: Field::RBase0,
        enable: Field::Rbe0,
        format: Field::Src1MemFmt,
        interleave: Field::Src1Interleave,
        base: Field::Src1Base,
        strides: [Field::Src1GroupStride, Field::Src1PlaneStride, Field::Src1RowStride],
        broadcast: Some([Field::Src1BroadcastC, Field::Src1BroadcastH, Field::Src1BroadcastW]),
        turned: &[Field::Src1Transpose],
    },
    Side {
        base_register: Field::RBase1,
        enable: Field::Rbe1,
        format: Field::Src2MemFmt,
        interleave: Field::Src2Interleave,
        base: Field::Src2Base,
        strides: [Field::Src2GroupStride, Field::Src2PlaneStride, Field::Src2RowStride],
        broadcast: Some([Field::Src2BroadcastC, Field::Src2BroadcastH, Field::Src2BroadcastW]),
        turned: &[Field::Src2Transpose],
    },
    Side {
        base_register: Field::WBase,
        enable: Field::Wbe,
        format: Field::DstMemFmt,
        interleave: Field::DstInterleave,
        base: Field::DstBase,
        strides: [Field::DstGroupStride, Field::DstPlaneStride, Field::DstRowStride],
        broadcast: None,
        turned: &[Field::NeTranspose, Field::ResultTranspose],
    },
];

/// Memory that the tasks of a stream access, task by task: source 1, source 2, destination.
///
/// Operands that are read or written with C and W exchanged, or with channels interleaved, have their extents in memory.
pub fn accesses(layout: &Layout, tasks: &[Task]) -> Result<Vec<Access>, Error> {
    let mut out = Vec::new();
    for (i, task) in tasks.iter().enumerate() {
        let get = |field| task.get(layout, field).unwrap_or(0);
        let class = task.name(layout, Field::TaskClass).unwrap_or("");
        let reduces = class.starts_with("pe-reduce") && get(Field::Kw) <= 1 && get(Field::Kh) <= 1;
        for side in &SIDES {
            if get(side.enable) == 0 {
                continue;
            }
            let n = get(Field::NumGroups).max(1);
            let mut shape = match side.broadcast {
                Some(flags) => {
                    let [c, h, w] = flags.map(|f| get(f) == 1);
                    let extent = |one, field| if one { 1 } else { get(field) };
                    Nchw { n, c: extent(c, Field::Cin), h: extent(h, Field::Hin), w: extent(w, Field::Win) }
                }
                None => Nchw { n, c: get(Field::Cout), h: get(Field::Hout), w: get(Field::Wout) },
            };
            // A reduction states its input extents in the output's fields; it leaves one element per plane.
            if side.broadcast.is_none() && reduces {
                (shape.h, shape.w) = (1, 1);
            }
            // The neural engine transposes its results, the planar engine its results and its sources.
            let of_neural = class == "ne";
            let obeyed = |field: &Field| (*field == Field::NeTranspose) == of_neural;
            if side.turned.iter().any(|field| obeyed(field) && get(*field) == 1) {
                (shape.c, shape.w) = (shape.w, shape.c);
            }
            // Interleaved channels are adjacent in one row.
            let by = get(side.interleave).max(1);
            if let (true, Some(w)) = (shape.c.is_multiple_of(by), shape.w.checked_mul(by)) {
                (shape.c, shape.w) = (shape.c / by, w);
            }
            let [batch_bytes, plane_bytes, row_bytes] = side.strides.map(|f| task.bytes(layout, f));
            out.push(Access {
                task: i,
                bar: get(side.base_register) as u8,
                direction: if side.broadcast.is_some() { Direction::Input } else { Direction::Output },
                base: task.bytes(layout, side.base),
                shape,
                strides: Strides { batch_bytes, plane_bytes, row_bytes },
                element: match get(side.format) {
                    0 => Element::Uint8,
                    1 => Element::Int8,
                    2 => Element::Float16,
                    value => return Err(Error::Format { task: i, offset: task.offset, field: side.format, value }),
                },
            });
        }
    }
    Ok(out)
}

/// Extents and strides of a tensor in memory order: rows within planes, with as many rows as fit into a plane if
/// tasks read a part. The stride of an axis of extent one is that of the next inner axis.
fn as_in_memory(shape: &mut Nchw, strides: &mut Strides) {
    if shape.n > 1 && shape.c == 1 && strides.batch_bytes < strides.plane_bytes {
        let (to, stride) = match shape.h {
            1 => (&mut shape.h, &mut strides.row_bytes),
            _ => (&mut shape.c, &mut strides.plane_bytes),
        };
        (*to, *stride) = (shape.n, strides.batch_bytes);
        shape.n = 1;
        strides.batch_bytes = 0;
    }
    if shape.c > 1 && shape.h > 1 && strides.plane_bytes < strides.row_bytes {
        std::mem::swap(&mut shape.c, &mut shape.h);
        std::mem::swap(&mut strides.plane_bytes, &mut strides.row_bytes);
    }
    if shape.h == 1 && shape.c > 1 {
        strides.row_bytes = strides.plane_bytes;
    }
    if shape.h > 1 && shape.c > 1 && strides.row_bytes > 0 && strides.plane_bytes.is_multiple_of(strides.row_bytes) {
        let rows = strides.plane_bytes / strides.row_bytes;
        shape.h = shape.h.max(u32::try_from(rows).unwrap_or(shape.h));
    }
}

/// Ports, inputs first, and the size of the intermediate region in bytes.
fn ports(layout: &Layout, tasks: &[Task]) -> Result<(Vec<Port>, u64), Error> {
    let all = accesses(layout, tasks)?;
    let bytes = |bar: u8| {
        let end = all.iter().filter(|a| a.bar == bar).map(Access::end).max().unwrap_or(0);
        end.checked_next_multiple_of(BUFFER_GRANULE).unwrap_or(u64::MAX)
    };
    let mut ports = Vec::new();
    for bar in Program::FIRST_PORT_BAR..BAR_COUNT as u8 {
        let uses: Vec<&Access> = all.iter().filter(|a| a.bar == bar).collect();
        // A row-wise reduction describes rows as groups: of equally large accesses the one with most rows has the
        // extents of the tensor.
        let Some(widest) = uses.iter().max_by_key(|a| (a.end() - a.base, a.shape.h, std::cmp::Reverse(a.task))) else {
            continue;
        };
        let written = uses.iter().any(|a| a.direction == Direction::Output);
        let mut shape = widest.shape;
        // Tasks that each write some of the channels state their first channel as an offset.
        let plane = widest.strides.plane_bytes;
        for a in uses.iter().filter(|a| a.strides.plane_bytes == plane && plane != 0 && a.base % plane == 0) {
            let channels = (a.base / plane).saturating_add(a.shape.c as u64);
            if a.base != 0 && (a.shape.n, a.shape.h, a.shape.w) == (shape.n, shape.h, shape.w) {
                shape.c = shape.c.max(u32::try_from(channels).unwrap_or(u32::MAX));
            }
        }
        let mut strides = widest.strides;
        as_in_memory(&mut shape, &mut strides);
        if strides.batch_bytes == 0 {
            strides.batch_bytes = strides.plane_bytes.saturating_mul(shape.c as u64);
        }
        let tight = strides.tight_bytes(shape, widest.element.bytes());
        ports.push(Port {
            name: String::new(),
            direction: if written { Direction::Output } else { Direction::Input },
            bar,
            shape,
            volume_channels: None,
            strides,
            element: widest.element,
            bytes: bytes(bar).max(tight.checked_next_multiple_of(BUFFER_GRANULE).unwrap_or(u64::MAX)),
        });
    }
    order::by_key(&mut ports, |p| p.direction == Direction::Output);
    for direction in [Direction::Input, Direction::Output] {
        let stem = if direction == Direction::Input { "input" } else { "output" };
        for (i, port) in ports.iter_mut().filter(|p| p.direction == direction).enumerate() {
            port.name = format!("{stem}{i}");
        }
    }
    Ok((ports, bytes(Program::SCRATCH_BAR)))
}
