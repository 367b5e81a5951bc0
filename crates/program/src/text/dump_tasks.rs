//! Explanation of task descriptors: headers, registers, activation tables, kernel streams.

use anemone_facts::lut::{self, place};
use anemone_facts::{Codec, Field, Layout, Space};
use half::f16;

use super::dump::{Builder, Entry, Node, Part, text};
use super::value;
use crate::Task;
use crate::hwx::KernelData;
use crate::task::{ADDRESS_TAG, Form, STREAM_PREFIX, decode_what_stands};

/// Coefficients shown of a kernel stream.
const PREVIEW: usize = 8;

/// A stream with kernel data, and their positions in the file.
pub(super) struct Source<'a> {
    pub layout: &'static Layout,
    pub stream: &'a [u8],
    pub stream_offset: u64,
    pub first_task_words: u32,
    pub kernel: KernelData<'a>,
    /// Relocations against the kernel data, ascending: offset in the stream, and start of the target section.
    pub kernel_links: Vec<(u64, u64)>,
    /// Name of the procedure, if there are several.
    pub procedure: Option<String>,
}

pub(super) fn explain(b: &mut Builder, s: &Source) {
    let (tasks, error) = decode_what_stands(s.layout, s.stream, s.first_task_words);
    if let Some(error) = &error {
        b.anomaly(Part::Td, Some(s.stream_offset), "task stream", error.to_string());
    }
    let shown = b.selection.task;
    for (i, task) in tasks.iter().enumerate() {
        anomalies(b, s, i, task);
        if shown.is_none_or(|n| n == i) {
            header(b, s, i, task);
            registers(b, s, i, task);
            table(b, s, i, task);
            weights(b, s, i, task);
        }
    }
    if shown.is_none() && error.is_none() {
        partitions(b, s, &tasks);
    }
    if let Some(n) = shown.filter(|&n| n >= tasks.len()) {
        b.anomaly(Part::Td, None, format!("task {n}"), format!("the stream has {} tasks", tasks.len()));
    }
    if error.is_none() {
        gaps(b, s, &tasks);
    }
}

/// Partitions: the tasks of each request to the engine.
fn partitions(b: &mut Builder, s: &Source, tasks: &[Task]) {
    let tasks_of = |(i, range): (usize, std::ops::Range<usize>)| {
        let place = s.stream_offset + u64::from(tasks[range.start].offset);
        let span = match range.len() {
            1 => format!("task {}", range.start),
            _ => format!("tasks {} to {}", range.start, range.end - 1),
        };
        let mut entry = text(Some(place), &format!("partition {i}"), span);
        entry.meaning = "tasks that one request to the engine executes";
        entry
    };
    let entries: Vec<Entry> =
        crate::program::partitions(s.layout, tasks).into_iter().enumerate().map(tasks_of).collect();
    if entries.len() > 1 {
        let offset = Some(s.stream_offset);
        b.add(Part::Td, Node { title: "partitions".into(), offset, entries, nodes: Vec::new() });
    }
}

/// Checks that bytes between tasks and after the last one are zero, as in every known stream; streams of packets have their prefix in
/// front of the first task or of a later one.
fn gaps(b: &mut Builder, s: &Source, tasks: &[Task]) {
    let ends = tasks.iter().map(|t| t.offset as usize + 4 * t.word_count() as usize);
    let starts = tasks.iter().map(|t| t.offset as usize).chain([s.stream.len()]);
    for (i, (end, next)) in [0].into_iter().chain(ends).zip(starts).enumerate() {
        let gap = s.stream.get(end..next).unwrap_or(&[]);
        let begins = s.layout.codec == Codec::Packets && (i < tasks.len() || tasks.is_empty());
        let gap = if begins { gap.strip_suffix(&STREAM_PREFIX).unwrap_or(gap) } else { gap };
        if let Some(at) = gap.iter().position(|&x| x != 0) {
            let what = format!("nonzero bytes between tasks, from {end:#x} to {next:#x}");
            b.anomaly(Part::Td, Some(s.stream_offset + (end + at) as u64), "task stream", what);
        }
    }
}

/// Byte offset in the file of every word of a task, with its space and address.
fn places(s: &Source, task: &Task) -> Vec<(u64, Space, u32, u32)> {
    let mut at = s.stream_offset + task.offset as u64;
    let mut out = Vec::new();
    for (i, &word) in task.header.iter().enumerate() {
        out.push((at, Space::Header, 4 * i as u32, word));
        at += 4;
    }
    for run in &task.runs {
        at += 4;
        for (addr, word) in run.registers() {
            out.push((at, Space::Register, addr, word));
            at += 4;
        }
    }
    out
}

fn fields(s: &Source, offset: u64, space: Space, addr: u32, word: u32) -> Vec<Entry> {
    let address = (space == Space::Register).then_some(addr);
    let mut out: Vec<Entry> = s
        .layout
        .rows_at(space, addr)
        .map(|(row, i)| {
            let raw = (word & row.mask()) >> row.lo;
            let (value, note) = value::print(s.layout, row, raw);
            let info = row.field.info();
            Entry {
                offset: Some(offset),
                address,
                name: value::name(row, i),
                value,
                raw: Some(raw as u64),
                note,
                meaning: info.meaning,
                evidence: Some(row.evidence.letter()),
            }
        })
        .collect();
    let unclaimed = word & s.layout.unclaimed(space, addr);
    if unclaimed != 0 {
        let mut entry = text(Some(offset), "?", format!("{unclaimed:#x}")).note("bits without a field");
        (entry.address, entry.raw) = (address, Some(unclaimed as u64));
        out.push(entry);
    }
    out
}

fn anomalies(b: &mut Builder, s: &Source, index: usize, task: &Task) {
    for (offset, space, addr, word) in places(s, task) {
        let unclaimed = word & s.layout.unclaimed(space, addr);
        let (part, place) = match space {
            Space::Header => (Part::Td, format!("task {index}, header +{addr:#04x}")),
            Space::Register => (Part::Regs, format!("task {index}, register {addr:#x}")),
        };
        if unclaimed != 0 {
            b.bits(part, offset, place.clone(), unclaimed);
        }
        for (row, _) in s.layout.rows_at(space, addr) {
            let raw = (word & row.mask()) >> row.lo;
            if let anemone_facts::Coding::Names(names) = row.field.info().coding
                && names.get(raw as usize).is_none_or(|n| n.is_empty())
            {
                let what = format!("{} = {raw} has no name", row.field.info().name);
                b.anomaly(part, Some(offset), place.clone(), what);
            }
        }
    }
}

fn title(s: &Source, index: usize, task: &Task) -> String {
    let of = s.procedure.as_ref().map_or(String::new(), |name| format!("procedure {name:?}, "));
    format!("{of}task {index} (stream offset {:#x}, {} words)", task.offset, task.word_count())
}

fn header(b: &mut Builder, s: &Source, index: usize, task: &Task) {
    if !b.wants(Part::Td) {
        return;
    }
    let words = places(s, task).into_iter().filter(|p| p.1 == Space::Header);
    let entries = words.flat_map(|(offset, space, addr, word)| fields(s, offset, space, addr, word)).collect();
    let offset = Some(s.stream_offset + task.offset as u64);
    b.add(Part::Td, Node { title: title(s, index, task), offset, entries, nodes: Vec::new() });
}

/// Text for the content of a run's first word in addition to address and count.
fn form(form: Form) -> String {
    match form {
        Form::Run | Form::Packet(0) => String::new(),
        Form::Packet(tag) if tag & !0xff == ADDRESS_TAG => format!(" from slot {}", tag & 0xff),
        Form::Packet(tag) => format!(", tag {tag:#x}"),
        Form::Masked(mask) => format!(", mask {mask:#06x}"),
    }
}

fn registers(b: &mut Builder, s: &Source, index: usize, task: &Task) {
    if !b.wants(Part::Regs) {
        return;
    }
    let words = places(s, task);
    let mut nodes = Vec::new();
    let mut at = task.header.len();
    for run in &task.runs {
        let here = &words[at..at + run.words.len()];
        at += run.words.len();
        let block = s.layout.block_of(run.addr).map_or("in no register block", |b| b.name);
        nodes.push(Node {
            title: format!("run {:#x} of {} words{}: {block}", run.addr, run.words.len(), form(run.form)),
            offset: here.first().map(|w| w.0 - 4),
            entries: here.iter().flat_map(|&(o, space, addr, word)| fields(s, o, space, addr, word)).collect(),
            nodes: Vec::new(),
        });
    }
    let offset = Some(s.stream_offset + task.offset as u64);
    b.add(Part::Regs, Node { title: title(s, index, task), offset, entries: Vec::new(), nodes });
}

/// Offset that a task's streams count from: the start of the kernel data; or, if the descriptor has an address, of this task's
/// part. `None` if the task reads its kernel from a tensor.
fn kernel_start(s: &Source, task: &Task) -> Option<u64> {
    match s.layout.codec {
        Codec::Runs => Some(0),
        Codec::Packets => linked(s, task, Field::KernelAddrLo, Field::KernelAddrHi),
    }
}

/// An address in two registers that the loader relocates to the kernel data; in the file it is an offset.
fn linked(s: &Source, task: &Task, low: Field, high: Field) -> Option<u64> {
    let row = s.layout.row(low)?;
    let word = places(s, task).into_iter().find(|w| (w.1, w.2) == (row.space, row.addr))?;
    let high = task.get(s.layout, high)?;
    let at = word.0.checked_sub(s.stream_offset)?;
    let link = s.kernel_links.binary_search_by_key(&at, |link| link.0).ok()?;
    let section = s.kernel_links[link].1;
    section.checked_add(u64::from(word.3) | u64::from(high) << 32)
}

/// Offset and bytes of an enabled kernel stream, clipped to the kernel data; `start` is that of [`kernel_start`].
fn kernel_stream<'a>(s: &'a Source, task: &Task, start: u64, i: u32) -> Option<(u64, u64, &'a [u8])> {
    (task.get_at(s.layout, Field::CoeffEn, i) == Some(1)).then(|| {
        let base = start.saturating_add(task.bytes_at(s.layout, Field::CoeffBase, i));
        let bytes = task.bytes_at(s.layout, Field::CoeffSize, i);
        let data = usize::try_from(base).ok().and_then(|base| s.kernel.bytes.get(base..)).unwrap_or(&[]);
        (base, bytes, &data[..data.len().min(bytes as usize)])
    })
}

/// Coefficient streams of one task in their stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKernel {
    /// Position of the task in its stream.
    pub task: usize,
    /// Format of the coefficients by the task's fields. Errors: the reason if they are not plain halfwords.
    pub format: Result<&'static str, &'static str>,
    /// Enabled, non-empty streams: engine, byte offset in the file, bytes.
    pub streams: Vec<(u32, u64, u64)>,
}

/// Coefficient streams of a container, for every generation whose descriptors are listed; tasks without them are omitted. The position of
/// an element inside of a stream is known for version 7 only ([`crate::patch`]).
pub fn stored_kernels(container: &crate::hwx::Container) -> Vec<StoredKernel> {
    super::dump_file::sources(container).iter().flat_map(stored_kernels_of).collect()
}

fn stored_kernels_of(s: &Source) -> Vec<StoredKernel> {
    let (tasks, _) = decode_what_stands(s.layout, s.stream, s.first_task_words);
    let engines = s.layout.row(Field::CoeffEn).map_or(0, |r| r.count as u32);
    let of = |(index, task): (usize, &Task)| {
        let start = kernel_start(s, task)?;
        let streams: Vec<(u32, u64, u64)> = (0..engines)
            .filter_map(|i| kernel_stream(s, task, start, i).map(|found| (i, found)))
            .filter(|(_, (_, bytes, data))| *bytes > 0 && data.len() as u64 == *bytes)
            .map(|(i, (base, bytes, _))| (i, s.kernel.file_offset(base), bytes))
            .collect();
        let on = |field| task.get(s.layout, field).is_some_and(|v| v != 0);
        let named = |field| task.name(s.layout, field);
        let format = match named(Field::KernelFmt).or(named(Field::KernelFormat)) {
            _ if on(Field::PalettizedEn) => Err("palette indices"),
            _ if on(Field::SparseFmt) => Err("sparse coefficients"),
            Some("fp16") => Ok("fp16"),
            Some("int8") => Err("int8 coefficients"),
            // The task does not set the format: two bytes per coefficient imply it.
            None if two_bytes(s, task, streams.iter().map(|(.., bytes)| bytes).sum()) => Ok("fp16"),
            _ => Err("coefficients of an unknown format"),
        };
        (!streams.is_empty()).then_some(StoredKernel { task: index, format, streams })
    };
    tasks.iter().enumerate().filter_map(of).collect()
}

/// Returns true if streams of this size have two bytes for every coefficient of a task.
fn two_bytes(s: &Source, task: &Task, bytes: u64) -> bool {
    let get = |field| task.get(s.layout, field).map_or(1, u64::from);
    let taps = get(Field::Kh).saturating_mul(get(Field::Kw));
    let count = get(Field::Cin).saturating_mul(get(Field::Cout)).saturating_mul(taps);
    count.saturating_mul(2) == bytes
}

fn half_at(data: &[u8], i: usize) -> Option<u16> {
    data.get(2 * i..2 * i + 2).map(|h| u16::from_le_bytes([h[0], h[1]]))
}

/// Offset and bytes of the table that the task reads. Errors: a missing table.
fn table_record<'a>(s: &'a Source, task: &Task) -> Result<Option<(u64, &'a [u8])>, &'static str> {
    match s.layout.codec {
        Codec::Runs if task.name(s.layout, Field::NonlinearMode) == Some("lut") => {
            // The table precedes the coefficients, if there are any, in every engine's stream.
            let record =
                kernel_stream(s, task, 0, 0).and_then(|(base, _, data)| Some((base, data.get(..lut::STREAM_BYTES)?)));
            record.map(Some).ok_or("the first kernel stream is disabled, or shorter than a table")
        }
        // The table has a stream of its own.
        Codec::Packets if task.get(s.layout, Field::LutStreamEn) == Some(1) => {
            let Some(base) = linked(s, task, Field::LutAddrLo, Field::LutAddrHi) else { return Ok(None) };
            let record = usize::try_from(base).ok().and_then(|at| s.kernel.bytes.get(at..)?.get(..lut::STREAM_BYTES));
            record.map(|record| Some((base, record))).ok_or("the table passes the end of the kernel data")
        }
        _ => Ok(None),
    }
}

fn table(b: &mut Builder, s: &Source, index: usize, task: &Task) {
    let (base, record) = match table_record(s, task) {
        Ok(Some(found)) => found,
        Ok(None) => return,
        Err(what) => return b.anomaly(Part::Lut, None, format!("task {index}"), what),
    };
    let offset = s.kernel.file_offset(base);
    let entry = |i: usize, name: String, meaning: &'static str| {
        let raw = half_at(record, i).unwrap_or(0);
        let mut entry = text(Some(offset + 2 * i as u64), &name, f16::from_bits(raw).to_string());
        (entry.raw, entry.note, entry.meaning) = (Some(raw as u64), format!("{raw:#06x}"), meaning);
        entry
    };
    let mut entries = vec![
        entry(place::X_LOW, "x-low".into(), "smallest argument of the table"),
        entry(place::X_HIGH, "x-high".into(), "largest argument of the table"),
        entry(place::Y_LOW, "y-low".into(), "result at and below x-low"),
        entry(place::Y_HIGH, "y-high".into(), "result at and above x-high"),
    ];
    entries.extend((0..lut::KNOTS).map(|k| entry(place::KNOT + k, format!("knot[{k}]"), "")));
    entries.push(entry(place::LEFT, "left-slope".into(), "slope left of the table"));
    entries.push(entry(place::LEFT + 1, "left-intercept".into(), "intercept left of the table"));
    entries.push(entry(place::RIGHT, "right-slope".into(), "slope right of the table"));
    entries.push(entry(place::RIGHT + 1, "right-intercept".into(), "intercept right of the table"));
    let shift = half_at(record, place::SHIFT).unwrap_or(0);
    let mode = half_at(record, place::MODE).unwrap_or(0);
    let number = |i: usize, name: &str, raw: u16, value: String, meaning: &'static str| {
        let mut entry = text(Some(offset + 2 * i as u64), name, value);
        (entry.raw, entry.meaning) = (Some(raw as u64), meaning);
        entry
    };
    let shift_meaning = "argument is scaled by two to this power";
    entries.push(number(place::SHIFT, "shift", shift, (shift as i16).to_string(), shift_meaning));
    let named = lut::Mode::from_code(mode & 0x1f).map_or("unknown".to_string(), |m| format!("{m:?}"));
    entries.push(number(place::MODE, "mode", mode & 0x1f, named.clone(), "map from argument to coordinate"));
    let symmetry = lut::Symmetry::from_code(mode >> 5 & 7).map_or("unknown".to_string(), |m| format!("{m:?}"));
    let meaning = "treatment of negative arguments";
    entries.push(number(place::MODE, "symmetry", mode >> 5 & 7, symmetry.clone(), meaning));
    if named == "unknown" || symmetry == "unknown" || mode >> 8 != 0 {
        let what = format!("unknown mode word {mode:#06x}");
        b.anomaly(Part::Lut, Some(offset + 2 * place::MODE as u64), format!("task {index}"), what);
    }
    if record.get(lut::RECORD_BYTES..).is_some_and(|rest| rest.iter().any(|&x| x != 0)) {
        let at = Some(offset + lut::RECORD_BYTES as u64);
        b.anomaly(Part::Lut, at, format!("task {index}"), "nonzero bytes after the table");
    }
    b.add(Part::Lut, Node { title: format!("task {index}: table"), offset: Some(offset), entries, nodes: Vec::new() });
}

fn weights(b: &mut Builder, s: &Source, index: usize, task: &Task) {
    let Some(start) = kernel_start(s, task) else { return };
    let count = s.layout.row(Field::CoeffEn).map_or(0, |r| r.count as u32);
    // Other forms do not start with halfwords.
    let plain = s.layout.codec == Codec::Runs
        && [Field::SparseFmt, Field::PalettizedEn].iter().all(|&f| task.get(s.layout, f) != Some(1));
    let leads = task.name(s.layout, Field::NonlinearMode) == Some("lut");
    let halves = plain && !leads && task.name(s.layout, Field::KernelFmt) == Some("fp16");
    let mut entries = Vec::new();
    for (i, (base, bytes, data)) in (0..count).filter_map(|i| kernel_stream(s, task, start, i).map(|k| (i, k))) {
        if data.len() as u64 != bytes {
            let what = format!("{bytes:#x} bytes at {base:#x} pass the end of {:#x} bytes", s.kernel.bytes.len());
            b.anomaly(Part::Weights, None, format!("task {index}, kernel stream {i}"), what);
        }
        let offset = s.kernel.file_offset(base);
        let value = format!("{bytes:#x} bytes at kernel offset {base:#x}");
        entries.push(text(Some(offset), &format!("stream[{i}]"), value));
        if halves {
            let bias = usize::from(task.get(s.layout, Field::BiasMode) == Some(1));
            let shown = |from: usize, n: usize| {
                let values = (from..from + n).map_while(|k| half_at(data, k)).map(|h| f16::from_bits(h).to_string());
                values.collect::<Vec<_>>().join(" ")
            };
            if bias == 1 {
                entries.push(text(Some(offset), &format!("bias[{i}]"), shown(0, 1)));
            }
            let first = text(Some(offset + 2 * bias as u64), &format!("coefficients[{i}]"), shown(bias, PREVIEW));
            entries.push(first.note("the first ones of the stream, padding included"));
        }
    }
    if !entries.is_empty() {
        let title = format!("task {index}: kernel streams");
        b.add(Part::Weights, Node { title, offset: None, entries, nodes: Vec::new() });
    }
}
