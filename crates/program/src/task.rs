//! Task descriptors: header words and register runs, read and written by field. The descriptor's version alone determines the form of
//! a stream.

mod cache;
mod chain;
pub mod image;
mod packets;

use anemone_facts::{Codec, Coding, Field, Layout, Space};

/// Registers written by one run of a descriptor, and the form of the word in front of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Byte address of the first register.
    pub addr: u32,
    /// Coding of the run's first word, with its further content.
    pub form: Form,
    /// Register values.
    pub words: Vec<u32>,
}

/// Coding of a run's first word; see [`Codec`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Consecutive registers, byte address: versions up to 7.
    #[default]
    Run,
    /// Consecutive registers, word address, and a tag of ten bits: 0, or bit 8 with the number of an address slot.
    Packet(u16),
    /// The first register, and each `first + 1 + i` with bit i set here.
    Masked(u16),
}

/// Largest word count that the first word of a run of consecutive registers can state.
pub const MAX_RUN_WORDS: usize = 64;
/// Prefix of the first task of every known stream of packets. It has the form of a task without words.
pub const STREAM_PREFIX: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Tag bit of packets whose registers the loader fills in; the lower eight bits are the slot.
pub const ADDRESS_TAG: u16 = 1 << 8;

impl Run {
    /// Consecutive registers in the form of versions up to 7.
    pub fn consecutive(addr: u32, words: Vec<u32>) -> Run {
        Run { addr, form: Form::Run, words }
    }

    /// The run announced by a first word in a generation's stream, with zeros as values.
    pub fn announced(layout: &Layout, first_word: u32) -> Run {
        match layout.codec {
            Codec::Runs => chain::run(first_word),
            Codec::Packets => packets::run(first_word),
        }
    }

    /// Byte addresses of the registers, in the order of the words.
    pub fn addresses(&self) -> impl Iterator<Item = u32> + use<> {
        let (addr, form, count) = (self.addr, self.form, self.words.len() as u32);
        let bits = match form {
            Form::Masked(mask) => u32::from(mask) << 1 | 1,
            _ => 0,
        };
        // With a mask only its set bits count; else registers are consecutive.
        let consecutive = (0..if bits == 0 { count } else { 0 }).map(move |i| addr.wrapping_add(4 * i));
        consecutive.chain((0..17).filter(move |i| bits >> i & 1 == 1).map(move |i| addr.wrapping_add(4 * i)))
    }

    /// Address and value of each register.
    pub fn registers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.addresses().zip(self.words.iter().copied())
    }

    /// The word in front of the values.
    pub fn first_word(&self) -> u32 {
        match self.form {
            Form::Run => chain::first_word(self.addr, self.words.len()),
            Form::Packet(tag) => packets::first_word(self.addr, self.words.len(), tag),
            Form::Masked(mask) => packets::masked_word(self.addr, mask),
        }
    }
}

/// A task descriptor at a position in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Byte offset in the stream.
    pub offset: u32,
    /// Header words; one more than the layout's fixed header if there is an optional word.
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
        /// Requested field.
        field: Field,
        /// Generation name.
        generation: &'static str,
    },
    /// The descriptor does not write the register that holds the field.
    #[error("this descriptor does not write the register of {field:?} (address {addr:#x})")]
    NotWritten {
        /// Requested field.
        field: Field,
        /// Address of its register.
        addr: u32,
    },
    /// A value does not fit its bits.
    #[error("{field:?} = {value:#x} does not fit: at most {max:#x}")]
    Range {
        /// Field.
        field: Field,
        /// Raw value.
        value: u64,
        /// Largest raw value.
        max: u32,
    },
    /// A byte quantity is not a multiple of the field's granule.
    #[error("{field:?} = {value:#x} bytes is not a multiple of {granule}")]
    Granule {
        /// Field.
        field: Field,
        /// Byte quantity.
        value: u64,
        /// Granule in bytes.
        granule: u32,
    },
}

/// Error for a stream that is not a chain of task descriptors.
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
    /// The chain goes backwards, or to a misaligned position.
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
    /// A descriptor that writes every register of every block, with zeros: the form that compilers up to 7.6.4 emit.
    pub fn full(layout: &Layout) -> Task {
        Task {
            offset: 0,
            header: vec![0; layout.header_words as usize],
            runs: layout.blocks.iter().map(|b| Run::consecutive(b.addr, vec![0; b.words as usize])).collect(),
        }
    }

    /// Value of the register at a byte address, if the descriptor writes it.
    pub fn register(&self, addr: u32) -> Option<u32> {
        self.run_of(addr).map(|(r, i)| self.runs[r].words[i])
    }

    fn run_of(&self, addr: u32) -> Option<(usize, usize)> {
        self.runs.iter().enumerate().find_map(|(r, run)| match run.form {
            Form::Masked(_) => run.addresses().position(|a| a == addr).map(|i| (r, i)),
            _ => {
                let delta = addr.checked_sub(run.addr)?;
                (delta % 4 == 0 && ((delta / 4) as usize) < run.words.len()).then_some((r, (delta / 4) as usize))
            }
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

    /// Raw bits of a field; `None` if the layout lacks it or the descriptor does not write its register.
    pub fn get(&self, layout: &Layout, field: Field) -> Option<u32> {
        self.get_at(layout, field, 0)
    }

    /// Raw bits of element `i` of an array field.
    pub fn get_at(&self, layout: &Layout, field: Field, i: u32) -> Option<u32> {
        let row = layout.row(field)?;
        let word = self.word(row.space, row.addr + 4 * i)?;
        Some((word & row.mask()) >> row.lo)
    }

    /// Name of a field's value; `None` if it is absent, not coded by names, or has no name.
    pub fn name(&self, layout: &Layout, field: Field) -> Option<&'static str> {
        let value = self.get(layout, field)?;
        match field.info().coding {
            Coding::Names(names) => names.get(value as usize).copied().filter(|n| !n.is_empty()),
            _ => None,
        }
    }

    /// Byte quantity of a field coded as shifted: the bits in place, low bits zero. 0 if absent.
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

    /// Every word that is not the first of a run: space, address, value; in stream order.
    pub fn places(&self) -> impl Iterator<Item = (Space, u32, u32)> {
        let header = self.header.iter().enumerate().map(|(i, &w)| (Space::Header, 4 * i as u32, w));
        header.chain(self.runs.iter().flat_map(|r| r.registers().map(|(addr, w)| (Space::Register, addr, w))))
    }

    /// Words with bits that no row explains: space, address, those bits.
    pub fn unexplained(&self, layout: &Layout) -> Vec<(Space, u32, u32)> {
        self.places()
            .map(|(space, addr, word)| (space, addr, word & layout.unclaimed(space, addr)))
            .filter(|&(_, _, bits)| bits != 0)
            .collect()
    }

    /// The descriptor's words as in a stream.
    pub fn words(&self) -> Vec<u32> {
        let mut out = self.header.clone();
        for run in &self.runs {
            debug_assert!((1..=MAX_RUN_WORDS).contains(&run.words.len()));
            out.push(run.first_word());
            out.extend_from_slice(&run.words);
        }
        out
    }

    /// Size in words.
    pub fn word_count(&self) -> u32 {
        self.header.len() as u32 + self.runs.iter().map(|r| 1 + r.words.len() as u32).sum::<u32>()
    }
}

/// Decodes the descriptor of `words` words at `offset`; `task` is its position in the stream, for errors.
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
        let first = all[at];
        let mut run = Run::announced(layout, first);
        let end = at + 1 + run.words.len();
        if end > all.len() {
            let here = offset + 4 * at as u32;
            let end = offset + 4 * words;
            return Err(StreamError::RunPastEnd { task, offset, run_header: first, at: here, end });
        }
        run.words.copy_from_slice(&all[at + 1..end]);
        runs.push(run);
        at = end;
    }
    Ok(Task { offset, header: all[..header_words].to_vec(), runs })
}

/// An optional word (a dependency id) follows the header when its last fixed word has both low bits set.
pub(crate) fn has_optional_word(fixed: &[u32]) -> bool {
    fixed.last().is_some_and(|word| word & 3 == 3)
}

/// The descriptors of a stream, in order. `first_task_words` is ignored if descriptors state their own size.
pub fn decode_stream(layout: &Layout, stream: &[u8], first_task_words: u32) -> Result<Vec<Task>, StreamError> {
    match decode_what_stands(layout, stream, first_task_words) {
        (tasks, None) => Ok(tasks),
        (_, Some(error)) => Err(error),
    }
}

/// As [`decode_stream`], returning the descriptors before the first error too.
pub fn decode_what_stands(layout: &Layout, stream: &[u8], first_task_words: u32) -> (Vec<Task>, Option<StreamError>) {
    let mut tasks = Vec::new();
    let error = match layout.codec {
        Codec::Runs => chain::decode(layout, stream, first_task_words, &mut tasks),
        Codec::Packets => packets::decode(layout, stream, &mut tasks),
    };
    (tasks, error.err())
}

/// Places tasks consecutively at the layout's alignment, links them, and returns the stream.
///
/// The gaps are zero and the stream ends with the last task's last word.
pub fn encode_stream(layout: &Layout, tasks: &mut [Task]) -> Result<Vec<u8>, FieldError> {
    // The reader expects an additional header word if the last fixed one ends in two set bits.
    for task in tasks.iter_mut() {
        if task.header.len() == layout.header_words as usize && has_optional_word(&task.header) {
            task.header.push(0);
        }
    }
    match layout.codec {
        Codec::Runs => chain::encode(layout, tasks),
        Codec::Packets => packets::encode(layout, tasks),
    }
}

/// Writes a task's words at its offset; the stream is extended with zeros.
fn put(stream: &mut Vec<u8>, task: &Task) {
    stream.resize(task.offset as usize, 0);
    stream.extend(task.words().into_iter().flat_map(u32::to_le_bytes));
}
