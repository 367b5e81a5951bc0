//! Blocks of bytes in listings: task descriptors by field if they decode, hexadecimal data for the rest.
//!
//! Data lines overwrite bytes of tasks; zero bytes are omitted.

use anemone_facts::{Codec, Layout, Space};

use super::lex::{Line, Lines, MAX_BLOCK_BYTES, SPARSE, TextError};
use super::value;
use crate::task::{ADDRESS_TAG, Form, MAX_RUN_WORDS, Run, Task, decode_what_stands};

/// Bytes on a data line.
const DATA_LINE_BYTES: usize = 32;
/// Largest register address: 26 bits of the first word of a run; 15 bits, counted in words, of a packet's.
const fn max_addr(codec: Codec) -> u64 {
    match codec {
        Codec::Runs => (1 << 26) - 1,
        Codec::Packets => 4 * ((1 << 15) - 1),
    }
}

/// Lists a block's bytes; `stream` has layout and first task size if the block is a task stream.
pub(super) fn print(out: &mut String, bytes: &[u8], stream: Option<(&Layout, u32)>) {
    let tasks = stream.map_or(Vec::new(), |(layout, words)| decode_what_stands(layout, bytes, words).0);
    let mut image = vec![0; bytes.len()];
    for (i, task) in tasks.iter().enumerate() {
        let words = task.words();
        if let (Some((layout, _)), Some(place)) = (stream, image.get_mut(task.offset as usize..)) {
            print_task(out, layout, i, task);
            for (at, word) in place.chunks_exact_mut(4).zip(&words) {
                at.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    print_differences(out, bytes, &image);
}

/// Smallest size in bytes of a block that may be marked as sparse.
const SPARSE_BYTES: usize = 1 << 20;
/// A block is sparse if fewer than one line in this many has data.
const SPARSE_LINES: usize = 16;

/// The size of a block in its line, with a mark if it is sparse.
pub(super) fn size(bytes: &[u8]) -> String {
    let lines = bytes.chunks(DATA_LINE_BYTES);
    let sparse = bytes.len() >= SPARSE_BYTES && {
        let all = lines.len();
        lines.filter(|line| line.iter().any(|&b| b != 0)).count() < all / SPARSE_LINES
    };
    format!("{:#x}{}", bytes.len(), if sparse { SPARSE } else { "" })
}

/// Data lines for the bytes that differ from an image of the same size.
pub(super) fn print_differences(out: &mut String, bytes: &[u8], image: &[u8]) {
    let lines = bytes.chunks(DATA_LINE_BYTES).zip(image.chunks(DATA_LINE_BYTES));
    for (i, (line, _)) in lines.enumerate().filter(|(_, (a, b))| a != b) {
        *out += &format!("data @{:#x} {}\n", i * DATA_LINE_BYTES, hex(line));
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn print_task(out: &mut String, layout: &Layout, index: usize, task: &Task) {
    *out += &format!("task {index} @{:#x} words={}\n", task.offset, task.word_count());
    *out += &format!("  header words={}\n", task.header.len());
    for (i, &word) in task.header.iter().enumerate() {
        print_word(out, layout, Space::Header, 4 * i as u32, word);
    }
    for run in &task.runs {
        let block = layout.block_of(run.addr).map_or("in no register block", |b| b.name);
        let (form, note) = match run.form {
            Form::Run | Form::Packet(0) => (String::new(), String::new()),
            Form::Packet(tag) if tag & !0xff == ADDRESS_TAG => {
                (format!(" tag={tag:#x}"), format!(", slot {}", tag & 0xff))
            }
            Form::Packet(tag) => (format!(" tag={tag:#x}"), String::new()),
            Form::Masked(mask) => (format!(" mask={mask:#x}"), String::new()),
        };
        *out += &format!("  run {:#x} words={}{form} ; {block}{note}\n", run.addr, run.words.len());
        for (addr, word) in run.registers() {
            print_word(out, layout, Space::Register, addr, word);
        }
    }
}

pub(super) fn print_word(out: &mut String, layout: &Layout, space: Space, addr: u32, word: u32) {
    let place = match space {
        Space::Header => format!("+{addr:#04x}"),
        Space::Register => format!("{addr:#x}"),
    };
    let mut line = |name: &str, value: String, note: String| {
        let note = if note.is_empty() { note } else { format!(" ; {note}") };
        *out += &format!("    {place} {name} = {value}{note}\n");
    };
    for (row, i) in layout.rows_at(space, addr) {
        let raw = (word & row.mask()) >> row.lo;
        if raw != 0 {
            let (value, note) = value::print(layout, row, raw);
            line(&value::name(row, i), value, note);
        }
    }
    let unclaimed = word & layout.unclaimed(space, addr);
    if unclaimed != 0 {
        line("?", format!("{unclaimed:#x}"), "bits without a field".to_string());
    }
}

/// Parses a block of a stated size.
pub(super) fn parse(
    lines: &mut Lines,
    bytes: &super::lex::Token,
    layout: Option<&'static Layout>,
) -> Result<Vec<u8>, TextError> {
    let mut block: Vec<u8> = lines.zeros(bytes)?;
    parse_over(lines, &mut block, layout)?;
    Ok(block)
}

/// Parses differences from an existing block.
pub(super) fn parse_over(
    lines: &mut Lines,
    block: &mut [u8],
    layout: Option<&'static Layout>,
) -> Result<(), TextError> {
    let size = block.len();
    loop {
        if let Some(line) = lines.next_if("data") {
            data(block, &line)?;
        } else if let Some(line) = lines.next_if("task") {
            let layout = layout.ok_or_else(|| line.at(0).error("data: the register layout is unknown"))?;
            let (at, task) = (offset(&line, 2)?, parse_task(lines, &line, layout)?);
            let words: Vec<u8> = task.words().into_iter().flat_map(u32::to_le_bytes).collect();
            put(block, at, &words).ok_or_else(|| line.at(2).error(format!("a task inside {size:#x} bytes")))?;
        } else {
            return Ok(());
        }
    }
}

/// Writes the bytes of a data line.
pub(super) fn data(block: &mut [u8], line: &Line) -> Result<(), TextError> {
    let (at, data) = (offset(line, 1)?, line.at(2).hex()?);
    line.ends_at(3)?;
    let size = block.len();
    put(block, at, &data).ok_or_else(|| line.at(1).error(format!("data inside {size:#x} bytes")))
}

fn put(block: &mut [u8], at: u64, data: &[u8]) -> Option<()> {
    let end = (at as usize).checked_add(data.len())?;
    block.get_mut(at as usize..end)?.copy_from_slice(data);
    Some(())
}

/// `@offset` at a position.
fn offset(line: &Line, i: usize) -> Result<u64, TextError> {
    let token = line.at(i);
    token.strip("@").ok_or_else(|| token.error("`@` and an offset"))?.number(MAX_BLOCK_BYTES)
}

fn parse_task(lines: &mut Lines, line: &Line, layout: &'static Layout) -> Result<Task, TextError> {
    line.at(1).u32()?;
    let stated = line.u32(3, "words")?;
    line.ends_at(4)?;
    let header = lines.expect("header")?;
    let words = header.keyed(1, "words")?;
    header.ends_at(2)?;
    let (fixed, count) = (layout.header_words as u64, words.u32()? as u64);
    if count != fixed && count != fixed + 1 {
        return Err(words.error(format!("{fixed} or {} words", fixed + 1)));
    }
    let mut task = Task { offset: 0, header: vec![0; count as usize], runs: Vec::new() };
    let places: Vec<u32> = (0..count as u32).map(|i| 4 * i).collect();
    parse_words(lines, layout, Space::Header, &places, &mut task.header)?;
    // The preceding word announces the optional word; a header of another length would not read back.
    let optional = task.header.get(fixed as usize - 1).is_some_and(|w| w & 3 == 3);
    if optional != (count > fixed) && stated as u64 > count {
        return Err(words
            .error(format!("{} words, as the header's last word states", if optional { fixed + 1 } else { fixed })));
    }
    while let Some(line) = lines.next_if("run") {
        let mut run = parse_run(&line, layout)?;
        let addresses: Vec<u32> = run.addresses().collect();
        parse_words(lines, layout, Space::Register, &addresses, &mut run.words)?;
        task.runs.push(run);
        if task.word_count() > stated {
            break;
        }
    }
    if task.word_count() != stated {
        let found = task.word_count();
        return Err(line.at(3).error(format!("words={found}, the size of header and runs")));
    }
    Ok(task)
}

/// The line that begins a run, whose values are zero.
fn parse_run(line: &Line, layout: &'static Layout) -> Result<Run, TextError> {
    let place = line.at(1);
    let addr = place.number(max_addr(layout.codec))? as u32;
    let words = line.keyed(2, "words")?;
    let count = words.number(MAX_RUN_WORDS as u64)? as usize;
    if count == 0 {
        return Err(words.error("at least 1 word"));
    }
    let extra = line.at(3);
    let form = match layout.codec {
        Codec::Runs => Form::Run,
        Codec::Packets if !addr.is_multiple_of(4) => return Err(place.error("a multiple of 4")),
        Codec::Packets if extra.text.starts_with("mask=") => {
            let mask = line.keyed(3, "mask")?.number(u16::MAX as u64)? as u16;
            let stated = 1 + mask.count_ones() as usize;
            if stated != count {
                return Err(words.error(format!("{stated} words, as the mask states")));
            }
            Form::Masked(mask)
        }
        Codec::Packets if extra.text.is_empty() => Form::Packet(0),
        Codec::Packets => Form::Packet(line.keyed(3, "tag")?.number(0x3ff)? as u16),
    };
    line.ends_at(if form == Form::Run || extra.text.is_empty() { 3 } else { 4 })?;
    Ok(Run { addr, form, words: vec![0; count] })
}

/// Field lines of one run or of the header, whose words stand at `addresses`.
pub(super) fn parse_words(
    lines: &mut Lines,
    layout: &'static Layout,
    space: Space,
    addresses: &[u32],
    words: &mut [u32],
) -> Result<(), TextError> {
    let starts_field = |line: &Line| line.word().starts_with(|c: char| c == '+' || c.is_ascii_digit());
    while lines.peek().is_some_and(starts_field) {
        let Some(line) = lines.next() else { break };
        let place = line.at(0);
        let number = match space {
            Space::Header => place.strip("+").ok_or_else(|| place.error("`+` and an offset in the header"))?,
            Space::Register => place,
        };
        // A run may begin at the last address and continue.
        let addr = number.number(max_addr(Codec::Runs) + 4 * MAX_RUN_WORDS as u64)? as u32;
        let word = (addresses.iter().position(|&a| a == addr)).and_then(|i| words.get_mut(i)).ok_or_else(|| {
            let (first, last) = (addresses.first().unwrap_or(&0), addresses.last().unwrap_or(&0));
            place.error(format!("an address of the run, from {first:#x} to {last:#x}"))
        })?;
        line.at(2).expect("=")?;
        line.ends_at(4)?;
        if line.at(1).text == "?" {
            let bits = line.at(3).u32()?;
            let claimed = !layout.unclaimed(space, addr);
            if bits & claimed != 0 {
                return Err(line.at(3).error(format!("bits without a field (fields have {claimed:#x})")));
            }
            *word |= bits;
        } else {
            let (row, at) = value::resolve(layout, &line.at(1))?;
            if (row.space, at) != (space, addr) {
                return Err(place.error(format!("{at:#x}, the address of {}", line.at(1).text)));
            }
            *word = (*word & !row.mask()) | (value::parse(layout, row, &line.at(3))? << row.lo);
        }
    }
    Ok(())
}
