//! Streams of descriptor versions 8 and later: packets, and consecutive tasks that state their own size.

use anemone_facts::{Field, Layout};

use super::{FieldError, Form, Run, STREAM_PREFIX, StreamError, Task, decode as decode_task, put};

/// Mask of the register word address, 15 bits of a packet's first word.
const ADDR_MASK: u32 = (1 << 15) - 1;
/// Mask of the number of consecutive registers minus one, above the address.
const COUNT_MASK: u32 = (1 << 6) - 1;
/// Mask of the tag, above the count.
const TAG_MASK: u32 = (1 << 10) - 1;
/// Flag of a packet with a mask instead of count and tag.
const MASKED: u32 = 1 << 31;

/// First word of a packet of consecutive registers.
pub(super) fn first_word(addr: u32, words: usize, tag: u16) -> u32 {
    let count = (words as u32).wrapping_sub(1) & COUNT_MASK;
    (u32::from(tag) & TAG_MASK) << 21 | count << 15 | ((addr / 4) & ADDR_MASK)
}

/// First word of a packet with a mask.
pub(super) fn masked_word(addr: u32, mask: u16) -> u32 {
    MASKED | u32::from(mask) << 15 | ((addr / 4) & ADDR_MASK)
}

/// The run announced by a packet's first word, with zeros as values.
pub(super) fn run(first: u32) -> Run {
    let addr = 4 * (first & ADDR_MASK);
    if first & MASKED != 0 {
        let mask = (first >> 15) as u16;
        Run { addr, form: Form::Masked(mask), words: vec![0; 1 + mask.count_ones() as usize] }
    } else {
        let words = vec![0; (first >> 15 & COUNT_MASK) as usize + 1];
        Run { addr, form: Form::Packet((first >> 21 & TAG_MASK) as u16), words }
    }
}

/// Walks the stream; units of size 0 between tasks are skipped: the prefix, and padding.
pub(super) fn decode(layout: &Layout, stream: &[u8], tasks: &mut Vec<Task>) -> Result<(), StreamError> {
    let align = layout.align_bytes as usize;
    let Some(size) = layout.row(Field::TaskSize) else { return Ok(()) };
    let mut at = 0;
    while let Some(word) = stream.get(at..at + 4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        match (word & size.mask()) >> size.lo {
            0 => at += align,
            words => {
                let task = decode_task(layout, stream, tasks.len(), at as u32, words)?;
                tasks.push(task);
                at = (at + 4 * words as usize).next_multiple_of(align);
            }
        }
    }
    Ok(())
}

/// Sets sizes and offsets, and returns the stream with its prefix.
pub(super) fn encode(layout: &Layout, tasks: &mut [Task]) -> Result<Vec<u8>, FieldError> {
    let mut stream = STREAM_PREFIX.to_vec();
    for task in tasks.iter_mut() {
        task.offset = stream.len().next_multiple_of(layout.align_bytes as usize) as u32;
        let words = task.word_count();
        task.set(layout, Field::TaskSize, words)?;
        put(&mut stream, task);
    }
    Ok(stream)
}
