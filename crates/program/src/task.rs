//! One task descriptor: header words and register runs, read and written by field.

use anemone_facts::{Coding, Field, Layout, Space};

/// Consecutive registers written by one run of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Byte address of the first register.
    pub addr: u32,
    /// Register values.
    pub words: Vec<u32>,
}

/// Largest word count that a run header can state.
pub const MAX_RUN_WORDS: usize = 64;
/// Register addresses occupy 26 bits of a run header.
const ADDR_MASK: u32 = (1 << 26) - 1;

/// A task descriptor at a place in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Byte offset in the stream.
    pub offset: u32,
    /// Header words; one more than the layout's fixed header where an optional word follows.
    pub header: Vec<u32>,
    /// Register runs in stream order.
    pub runs: Vec<Run>,
}

/// A field that cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The generation has no such field.
    #[error("{generation} has no field {field:?}")]
    Absent {
        /// The field asked for.
        field: Field,
        /// Generation name.
        generation: &'static str,
    },
    /// The descriptor does not write the register that holds the field.
    #[error("this descriptor does not write the register of {field:?} (address {addr:#x})")]
    NotWritten {
        /// The field asked for.
        field: Field,
        /// Address of its register.
        addr: u32,
    },
    /// A value does not fit its bits.
    #[error("{field:?} = {value:#x} does not fit: at most {max:#x}")]
    Range {
        /// The field to be set.
        field: Field,
        /// Raw value that was offered.
        value: u64,
        /// Largest raw value.
        max: u32,
    },
    /// A byte quantity is not a multiple of the field's granule.
    #[error("{field:?} = {value:#x} bytes is not a multiple of {granule}")]
    Granule {
        /// The field to be set.
        field: Field,
        /// Byte quantity that was offered.
        value: u64,
        /// Granule in bytes.
        granule: u32,
    },
}

/// A stream that is not a chain of task descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A descriptor or run reaches past the end.
    #[error("task {task} at {offset:#x}: needs {need} bytes from {at:#x}, the stream has {have}")]
    Truncated {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor.
        offset: u32,
        /// Byte offset where reading failed.
        at: u32,
        /// Bytes needed from there.
        need: u32,
        /// Bytes in the stream.
        have: usize,
    },
    /// The descriptor is shorter than its header.
    #[error("task {task} at {offset:#x}: {words} words are fewer than the header's {header}")]
    TooShort {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor.
        offset: u32,
        /// Words of the descriptor.
        words: u32,
        /// Words of the header.
        header: u32,
    },
    /// A run's registers reach past the descriptor's stated size.
    #[error(
        "task {task} at {offset:#x}: run {run_header:#010x} at {at:#x} passes the end of the descriptor at {end:#x}"
    )]
    RunPastEnd {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor.
        offset: u32,
        /// The run header.
        run_header: u32,
        /// Its byte offset.
        at: u32,
        /// End of the descriptor.
        end: u32,
    },
    /// The chain goes backwards, or to a misaligned place.
    #[error("task {task} at {offset:#x}: next pointer {next:#x} does not lie after this task on a {align:#x} boundary")]
    BadNext {
        /// Position in the chain.
        task: usize,
        /// Byte offset of the descriptor.
        offset: u32,
        /// The pointer.
        next: u32,
        /// Required alignment.
        align: u32,
    },
}

impl Task {
    /// A descriptor that writes every register of every block, all zero: the form that compilers up to 7.6.4 emit.
    pub fn full(layout: &Layout) -> Task {
        Task {
            offset: 0,
            header: vec![0; layout.header_words as usize],
            runs: layout.blocks.iter().map(|b| Run { addr: b.addr, words: vec![0; b.words as usize] }).collect(),
        }
    }

    /// Value of the register at a byte address, if the descriptor writes it.
    pub fn register(&self, addr: u32) -> Option<u32> {
        self.run_of(addr).map(|(r, i)| self.runs[r].words[i])
    }

    fn run_of(&self, addr: u32) -> Option<(usize, usize)> {
        self.runs.iter().enumerate().find_map(|(r, run)| {
            let delta = addr.checked_sub(run.addr)?;
            (delta % 4 == 0 && ((delta / 4) as usize) < run.words.len()).then_some((r, (delta / 4) as usize))
        })
    }

    fn word_mut(&mut self, space: Space, addr: u32) -> Option<&mut u32> {
        match space {
            Space::Header => self.header.get_mut(addr as usize / 4),
            Space::Register => {
                let (r, i) = self.run_of(addr)?;
                Some(&mut self.runs[r].words[i])
            }
        }
    }

    /// Word at an address of either space.
    pub fn word(&self, space: Space, addr: u32) -> Option<u32> {
        match space {
            Space::Header => self.header.get(addr as usize / 4).copied(),
            Space::Register => self.register(addr),
        }
    }

    /// Raw bits of a field; `None` when the layout lacks it or the descriptor does not write its register.
    pub fn get(&self, layout: &Layout, field: Field) -> Option<u32> {
        self.get_at(layout, field, 0)
    }

    /// Raw bits of element `i` of an array field.
    pub fn get_at(&self, layout: &Layout, field: Field, i: u32) -> Option<u32> {
        let row = layout.row(field)?;
        let word = self.word(row.space, row.addr + 4 * i)?;
        Some((word & row.mask()) >> row.lo)
    }

    /// Name of a field's value; `None` when absent, not coded by names, or a value without a name.
    pub fn name(&self, layout: &Layout, field: Field) -> Option<&'static str> {
        let value = self.get(layout, field)?;
        match field.info().coding {
            Coding::Names(names) => names.get(value as usize).copied().filter(|n| !n.is_empty()),
            _ => None,
        }
    }

    /// Byte quantity of a field coded as shifted: the bits in place, low bits zero. 0 when absent.
    pub fn bytes(&self, layout: &Layout, field: Field) -> u64 {
        self.bytes_at(layout, field, 0)
    }

    /// As [`Task::bytes`] for element `i` of an array field.
    pub fn bytes_at(&self, layout: &Layout, field: Field, i: u32) -> u64 {
        let lo = layout.row(field).map_or(0, |r| r.lo);
        (self.get_at(layout, field, i).unwrap_or(0) as u64) << lo
    }

    /// Sets the raw bits of a field.
    pub fn set(&mut self, layout: &Layout, field: Field, value: u32) -> Result<(), FieldError> {
        self.set_at(layout, field, 0, value)
    }

    /// Sets the raw bits of element `i` of an array field.
    pub fn set_at(&mut self, layout: &Layout, field: Field, i: u32, value: u32) -> Result<(), FieldError> {
        let row = layout.row(field).ok_or(FieldError::Absent { field, generation: layout.generation })?;
        if value > row.max() {
            return Err(FieldError::Range { field, value: value as u64, max: row.max() });
        }
        let addr = row.addr + 4 * i;
        let word = self.word_mut(row.space, addr).ok_or(FieldError::NotWritten { field, addr })?;
        *word = (*word & !row.mask()) | (value << row.lo);
        Ok(())
    }

    /// Sets a byte quantity of a shifted field; it must be a multiple of the field's granule.
    pub fn set_bytes(&mut self, layout: &Layout, field: Field, bytes: u64) -> Result<(), FieldError> {
        self.set_bytes_at(layout, field, 0, bytes)
    }

    /// As [`Task::set_bytes`] for element `i` of an array field.
    pub fn set_bytes_at(&mut self, layout: &Layout, field: Field, i: u32, bytes: u64) -> Result<(), FieldError> {
        let row = layout.row(field).ok_or(FieldError::Absent { field, generation: layout.generation })?;
        let granule = 1u32 << row.lo;
        if !bytes.is_multiple_of(granule as u64) {
            return Err(FieldError::Granule { field, value: bytes, granule });
        }
        let raw = bytes >> row.lo;
        if raw > row.max() as u64 {
            return Err(FieldError::Range { field, value: bytes, max: row.mask() });
        }
        self.set_at(layout, field, i, raw as u32)
    }

    /// Words that carry bits which no row claims: space, address, those bits.
    pub fn unexplained(&self, layout: &Layout) -> Vec<(Space, u32, u32)> {
        let header = self.header.iter().enumerate().map(|(i, &w)| (Space::Header, 4 * i as u32, w));
        let registers = self
            .runs
            .iter()
            .flat_map(|r| r.words.iter().enumerate().map(|(i, &w)| (Space::Register, r.addr + 4 * i as u32, w)));
        header
            .chain(registers)
            .map(|(space, addr, word)| (space, addr, word & layout.unclaimed(space, addr)))
            .filter(|&(_, _, bits)| bits != 0)
            .collect()
    }

    /// The descriptor's words as they stand in a stream.
    pub fn words(&self) -> Vec<u32> {
        let mut out = self.header.clone();
        for run in &self.runs {
            debug_assert!((1..=MAX_RUN_WORDS).contains(&run.words.len()));
            out.push(((run.words.len() as u32 - 1) << 26) | (run.addr & ADDR_MASK));
            out.extend_from_slice(&run.words);
        }
        out
    }

    /// Size in words.
    pub fn word_count(&self) -> u32 {
        self.header.len() as u32 + self.runs.iter().map(|r| 1 + r.words.len() as u32).sum::<u32>()
    }
}

/// Decodes the descriptor of `words` words at `offset`; `task` is its position in the chain, for errors.
pub fn decode(layout: &Layout, stream: &[u8], task: usize, offset: u32, words: u32) -> Result<Task, StreamError> {
    let bytes =
        stream.get(offset as usize..).and_then(|s| s.get(..words as usize * 4)).ok_or(StreamError::Truncated {
            task,
            offset,
            at: offset,
            need: words.saturating_mul(4),
            have: stream.len(),
        })?;
    let all: Vec<u32> = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let fixed = layout.header_words as usize;
    if all.len() < fixed {
        return Err(StreamError::TooShort { task, offset, words, header: layout.header_words });
    }
    let optional = has_optional_word(&all[..fixed]) && all.len() > fixed;
    let header_words = fixed + usize::from(optional);
    let mut runs = Vec::new();
    let mut at = header_words;
    while at < all.len() {
        let run_header = all[at];
        let count = (run_header >> 26) as usize + 1;
        let end = at + 1 + count;
        if end > all.len() {
            let here = offset + 4 * at as u32;
            return Err(StreamError::RunPastEnd { task, offset, run_header, at: here, end: offset + 4 * words });
        }
        runs.push(Run { addr: run_header & ADDR_MASK, words: all[at + 1..end].to_vec() });
        at = end;
    }
    Ok(Task { offset, header: all[..header_words].to_vec(), runs })
}

/// An optional word (a dependency id) follows the header when its last fixed word has both low bits set.
fn has_optional_word(fixed: &[u32]) -> bool {
    fixed.last().is_some_and(|word| word & 3 == 3)
}

/// Follows the chain from the stream's start.
pub fn decode_stream(layout: &Layout, stream: &[u8], first_task_words: u32) -> Result<Vec<Task>, StreamError> {
    let mut tasks = Vec::new();
    let (mut offset, mut words) = (0u32, first_task_words);
    loop {
        let task = decode(layout, stream, tasks.len(), offset, words)?;
        let next_size = task.get(layout, Field::NextSize).unwrap_or(0);
        let next = task.get(layout, Field::NextPointer).unwrap_or(0);
        let index = tasks.len();
        tasks.push(task);
        if next_size == 0 {
            return Ok(tasks);
        }
        // Forward only: a chain that goes back would never end.
        if next < offset.saturating_add(4 * words) || next % layout.align_bytes != 0 {
            return Err(StreamError::BadNext { task: index, offset, next, align: layout.align_bytes });
        }
        (offset, words) = (next, next_size + 1);
    }
}

/// Lays tasks one after another on the layout's boundary, sets chain and ids, and returns the stream.
///
/// The gaps are zero and the stream ends with the last task's last word.
pub fn encode_stream(layout: &Layout, tasks: &mut [Task]) -> Result<Vec<u8>, FieldError> {
    let mut offset = 0u32;
    for task in tasks.iter_mut() {
        // The reader takes an eleventh word where the tenth ends in two set bits; a kernel base of 3 makes it so.
        if task.header.len() == layout.header_words as usize && has_optional_word(&task.header) {
            task.header.push(0);
        }
        task.offset = offset;
        offset = (offset + 4 * task.word_count()).next_multiple_of(layout.align_bytes);
    }
    let next: Vec<(u32, u32)> = tasks.iter().skip(1).map(|t| (t.offset, t.word_count() - 1)).chain([(0, 0)]).collect();
    let mut stream = Vec::new();
    for (task, (pointer, size)) in tasks.iter_mut().zip(next) {
        task.set(layout, Field::NextPointer, pointer)?;
        task.set(layout, Field::NextSize, size)?;
        stream.resize(task.offset as usize, 0);
        stream.extend(task.words().into_iter().flat_map(u32::to_le_bytes));
    }
    Ok(stream)
}
