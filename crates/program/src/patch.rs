//! Replacement of coefficients, biases and table knots in the kernel data of a program; the task stream is unchanged.
//!
//! The position of an element follows from the task's fields; see `docs/evidence.md`, key `h13-kernel`. The distance between
//! the streams of a kernel is its bytes per engine rounded up to 64 bytes: 0xC0 and 0x40 for the two kernels of
//! the book's sample.

use anemone_facts::code::{kernel, nonlinear};
use anemone_facts::kernel::ALIGN_BYTES;
use anemone_facts::{Field, lut};

use crate::{Program, StreamError, Task};

/// A part of a task's kernel data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Coefficients, `[out][in][row][column]`; `out` counts over groups.
    Weights,
    /// One bias per output channel.
    Bias,
    /// The 33 knots of the activation table.
    Table,
}

/// The kernel data of one task, as described by its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Position of the task in the chain.
    pub task: usize,
    /// Extents of the coefficients: output channels over all groups, input channels of each, rows, columns. `None` for a
    /// task that has a table only.
    pub weights: Option<[usize; 4]>,
    /// True if output channels have biases.
    pub bias: bool,
    /// True if there is an activation table.
    pub table: bool,
    /// Base offset and size of each enabled stream, by engine.
    pub streams: Vec<Option<(u64, u64)>>,
    /// Number of engines in use.
    engines: usize,
    /// Output channels per engine at a time.
    lanes: usize,
    groups: usize,
}

/// Error for kernel data that cannot be changed as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The stream is not a chain of task descriptors.
    #[error("task stream: {0}")]
    Stream(#[from] StreamError),
    /// The task has no such part.
    #[error("task {task} has no {part:?}")]
    Absent {
        /// Position of the task.
        task: usize,
        /// The part.
        part: Part,
    },
    /// A field has a value whose storage form is unknown.
    #[error("task {task}: {field:?} = {value}: {reason}")]
    Storage {
        /// Position of the task.
        task: usize,
        /// The field.
        field: Field,
        /// Its value.
        value: u32,
        /// Reason.
        reason: &'static str,
    },
    /// The number of values is wrong.
    #[error("task {task}: {part:?} takes {expected} values, {found} are given")]
    Count {
        /// Position of the task.
        task: usize,
        /// The part.
        part: Part,
        /// Expected number of values.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A stream is disabled, or shorter than the fields require.
    #[error("task {task}: engine {engine} needs {need:#x} bytes of coefficients, its stream has {have:#x}")]
    Stray {
        /// Position of the task.
        task: usize,
        /// Engine.
        engine: usize,
        /// Bytes it needs.
        need: u64,
        /// Bytes of its stream that lie in the kernel data.
        have: u64,
    },
}

/// Halfwords to write at byte offsets of the kernel data.
pub type Edits = Vec<(u64, u16)>;

/// The kernels of a program, task by task; tasks without kernel data are omitted.
pub fn kernels(program: &Program) -> Result<Vec<Result<Kernel, PatchError>>, PatchError> {
    let tasks = program.tasks()?;
    let own = |task: &Task| {
        let get = |field| task.get(program.layout, field).unwrap_or(0);
        get(Field::Kbe0) == 1 && get(Field::KBase0) == Program::KERNEL_BAR as u32 && get(Field::CoeffEn) == 1
    };
    Ok(tasks.iter().enumerate().filter(|(_, t)| own(t)).map(|(i, t)| Kernel::of(program, i, t)).collect())
}

impl Kernel {
    fn of(program: &Program, index: usize, task: &Task) -> Result<Kernel, PatchError> {
        let layout = program.layout;
        let get = |field| task.get(layout, field).unwrap_or(0);
        let size = |field| get(field).max(1) as usize;
        let count = layout.row(Field::CoeffEn).map_or(0, |r| r.count as u32);
        let stream = |i| {
            let place = (task.bytes_at(layout, Field::CoeffBase, i), task.bytes_at(layout, Field::CoeffSize, i));
            (task.get_at(layout, Field::CoeffEn, i) == Some(1)).then_some(place)
        };
        let real = get(Field::KernelMode) == kernel::REAL && get(Field::KernelDmaMaster) == 1;
        let refuse = |field, reason| PatchError::Storage { task: index, field, value: get(field), reason };
        let coefficients = real && get(Field::KernelFmt) != 0;
        if coefficients {
            if task.name(layout, Field::KernelFmt) != Some("fp16") {
                return Err(refuse(Field::KernelFmt, "only fp16 coefficients are supported"));
            }
            for field in [Field::SparseFmt, Field::KernelDmaSparse] {
                if get(field) != 0 {
                    return Err(refuse(field, "positions of zero-skipped coefficients depend on their values"));
                }
            }
        }
        let groups = if get(Field::GroupKernelReuse) == 1 { 1 } else { size(Field::NumGroups) };
        let per_output = if get(Field::UnicastEn) == 1 { size(Field::UnicastCin) } else { size(Field::Cin) };
        let outputs = size(Field::Cout) * groups;
        let (engines, held) = (1usize << get(Field::ActiveNe).min(16), 1usize << get(Field::OcgSize).min(16));
        // A single, partly filled pass is as wide as its channels.
        let each = size(Field::Cout);
        let partly = each < engines * held && each.is_multiple_of(engines) && each > 0;
        Ok(Kernel {
            task: index,
            weights: coefficients.then_some([outputs, per_output, size(Field::Kh), size(Field::Kw)]),
            bias: coefficients && get(Field::BiasMode) == 1,
            table: get(Field::NonlinearMode) == nonlinear::LUT,
            streams: (0..count).map(stream).collect(),
            engines,
            lanes: if partly { each / engines } else { held },
            groups,
        })
    }

    /// Number of values of a part.
    pub fn count(&self, part: Part) -> Result<usize, PatchError> {
        let absent = PatchError::Absent { task: self.task, part };
        match (part, self.weights) {
            (Part::Weights, Some(extents)) => Ok(extents.into_iter().fold(1, usize::saturating_mul)),
            (Part::Bias, Some(extents)) if self.bias => Ok(extents[0]),
            (Part::Table, _) if self.table => Ok(lut::KNOTS),
            _ => Err(absent),
        }
    }

    /// Byte distance between the streams of neighbouring engines, if it is the same for all.
    pub fn stride(&self) -> Option<u64> {
        let bases: Vec<u64> = self.streams.iter().flatten().map(|s| s.0).collect();
        let steps: Vec<u64> = bases.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        steps.first().copied().filter(|first| steps.iter().all(|s| s == first))
    }

    /// Byte offsets in the kernel data of every value of a part, in the part's order; for a table, those of each stream
    /// in sequence.
    fn places(&self, program: &Program, part: Part) -> Result<Vec<u64>, PatchError> {
        let count = self.count(part)?;
        let within = |engine: usize, from: u64, bytes: u64| {
            let stray = |need, have| PatchError::Stray { task: self.task, engine, need, have };
            let (base, size) = self.streams.get(engine).copied().flatten().ok_or(stray(from + bytes, 0))?;
            let have = size.min((program.kernel.len() as u64).saturating_sub(base));
            if from.saturating_add(bytes) > have { Err(stray(from + bytes, have)) } else { Ok(base + from) }
        };
        if part == Part::Table {
            let mut out = Vec::new();
            for (engine, stream) in self.streams.iter().enumerate() {
                let Some((_, size)) = stream else { continue };
                let table = size.saturating_sub(lut::STREAM_BYTES as u64);
                let first = table + 2 * lut::place::KNOT as u64;
                out.extend((0..lut::KNOTS as u64).map(|k| (first + 2 * k, engine)));
            }
            return out.into_iter().map(|(at, engine)| within(engine, at, 2)).collect();
        }
        let Some([outputs, inputs, rows, columns]) = self.weights else { return Ok(Vec::new()) };
        let taps = inputs.saturating_mul(rows).saturating_mul(columns);
        // Checked before allocation: all the values are in the kernel data.
        if count as u64 > program.kernel.len() as u64 {
            let have = program.kernel.len() as u64;
            return Err(PatchError::Stray { task: self.task, engine: 0, need: 2 * count as u64, have });
        }
        let group_outputs = outputs / self.groups;
        let engines = self.engines;
        let per_pass = engines * self.lanes;
        let lead = usize::from(self.bias);
        let plane = 2 * self.lanes * (taps + lead);
        let group = (plane as u64 * group_outputs.div_ceil(per_pass) as u64).next_multiple_of(ALIGN_BYTES);
        let mut out = Vec::with_capacity(count);
        for channel in 0..outputs {
            let (g, c) = (channel / group_outputs, channel % group_outputs);
            let (pass, engine, lane) = (c / per_pass, c / self.lanes % engines, c % self.lanes);
            let start = g as u64 * group + (pass * plane) as u64;
            let row = |r: usize| within(engine, start + (2 * (r * self.lanes + lane)) as u64, 2);
            match part {
                Part::Bias => out.push(row(0)?),
                _ => {
                    for tap in 0..taps {
                        out.push(row(lead + tap)?);
                    }
                }
            }
        }
        Ok(out)
    }

    /// Current bits of a part's values.
    pub fn read(&self, program: &Program, part: Part) -> Result<Vec<u16>, PatchError> {
        let places = self.places(program, part)?;
        let bits = |at: &u64| {
            let at = *at as usize;
            program.kernel.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
        };
        let mut all: Vec<u16> = places.iter().map(bits).collect();
        all.truncate(self.count(part)?);
        Ok(all)
    }

    /// The halfwords that differ from the current ones.
    pub fn edits(&self, program: &Program, part: Part, values: &[u16]) -> Result<Edits, PatchError> {
        let expected = self.count(part)?;
        if values.len() != expected {
            return Err(PatchError::Count { task: self.task, part, expected, found: values.len() });
        }
        let places = self.places(program, part)?;
        let edits = places.into_iter().zip(values.iter().cycle()).map(|(at, &bits)| (at, bits));
        Ok(edits
            .filter(|(at, bits)| program.kernel.get(*at as usize..*at as usize + 2) != Some(&bits.to_le_bytes()))
            .collect())
    }

    /// Returns true if any of the edits is within the streams.
    pub fn reads(&self, edits: &Edits) -> bool {
        let inside = |at: u64| self.streams.iter().flatten().any(|&(base, size)| at >= base && at - base < size);
        edits.iter().any(|&(at, _)| inside(at))
    }
}

/// Writes halfwords into bytes in which the kernel data begins at `start`. Edits past the end are ignored; those of
/// [`Kernel::edits`] are within the kernel data.
pub fn apply(bytes: &mut [u8], start: u64, edits: &Edits) {
    for &(at, bits) in edits {
        let at = (start + at) as usize;
        if let Some(place) = bytes.get_mut(at..at + 2) {
            place.copy_from_slice(&bits.to_le_bytes());
        }
    }
}
