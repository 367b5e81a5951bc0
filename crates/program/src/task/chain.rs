//! Streams of descriptor versions up to 7: runs of consecutive registers, and a chain of tasks linked by next pointers.

use anemone_facts::code::constant::TASK_PAGE_BYTES;
use anemone_facts::{Field, Layout};

use super::{FieldError, Form, Run, StreamError, Task, decode as decode_task, put};

/// Mask of the register address, 26 bits of a run's first word.
const ADDR_MASK: u32 = (1 << 26) - 1;

pub(super) fn first_word(addr: u32, words: usize) -> u32 {
    ((words as u32 - 1) << 26) | (addr & ADDR_MASK)
}

/// The run announced by a first word, with zeros as values.
pub(super) fn run(first: u32) -> Run {
    Run { addr: first & ADDR_MASK, form: Form::Run, words: vec![0; (first >> 26) as usize + 1] }
}

/// Follows the chain from the stream's start.
pub(super) fn decode(
    layout: &Layout,
    stream: &[u8],
    first_task_words: u32,
    tasks: &mut Vec<Task>,
) -> Result<(), StreamError> {
    let (mut offset, mut words) = (0u32, first_task_words);
    loop {
        let task = decode_task(layout, stream, tasks.len(), offset, words)?;
        let next_size = task.get(layout, Field::NextSize).unwrap_or(0);
        let next = task.get(layout, Field::NextPointer).unwrap_or(0);
        let index = tasks.len();
        tasks.push(task);
        if next_size == 0 {
            return Ok(());
        }
        // Forward only: a chain with a backward link would never end.
        if next < offset.saturating_add(4 * words) || next % layout.align_bytes != 0 {
            return Err(StreamError::BadNext { task: index, offset, next, align: layout.align_bytes });
        }
        (offset, words) = (next, next_size + 1);
    }
}

/// Sets links and offsets, and returns the stream.
pub(super) fn encode(layout: &Layout, tasks: &mut [Task]) -> Result<Vec<u8>, FieldError> {
    let mut offset = 0u32;
    for task in tasks.iter_mut() {
        let bytes = 4 * task.word_count();
        // No task crosses a page.
        if offset % TASK_PAGE_BYTES + bytes > TASK_PAGE_BYTES {
            offset = offset.next_multiple_of(TASK_PAGE_BYTES);
        }
        task.offset = offset;
        offset = (offset + bytes).next_multiple_of(layout.align_bytes);
    }
    let next: Vec<(u32, u32)> = tasks.iter().skip(1).map(|t| (t.offset, t.word_count() - 1)).chain([(0, 0)]).collect();
    let mut stream = Vec::new();
    for (task, (pointer, size)) in tasks.iter_mut().zip(next) {
        task.set(layout, Field::NextPointer, pointer)?;
        task.set(layout, Field::NextSize, size)?;
        put(&mut stream, task);
    }
    Ok(stream)
}
