//! The open driver's model file: a packed header, stream and kernel data.

use anemone_facts::formats::raw::{self as rows, anec};
use anemone_facts::layout;

use super::{Error, NAME, chain, stream_end};
use crate::{Direction, Element, Nchw, Port, Program, Strides};

/// Reads the open driver's model file. Outputs have the first base registers, then inputs; elements are half precision.
///
/// Stream and kernel data begin at [`anec::DATA`], in older files at [`anec::DATA_FIRST`], whichever decodes.
pub fn read_anec(bytes: &[u8]) -> Result<Program, Error> {
    read_anec_at(bytes, anec::DATA).or_else(|error| read_anec_at(bytes, anec::DATA_FIRST).map_err(|_| error))
}

/// As [`read_anec`], with the position of stream and kernel data given.
pub fn read_anec_at(bytes: &[u8], data_offset: usize) -> Result<Program, Error> {
    let layout = &layout::H13;
    slice(bytes, "model header", 0, anec::HEADER_BYTES as u64)?;
    let u32_at = |at: usize| bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let u64_at = |at: usize| u32_at(at) as u64 | (u32_at(at + 4) as u64) << 32;
    let header = |what, at: usize, found: u64, expected: u64| match found == expected {
        true => Ok(()),
        false => Err(Error::Header { what, offset: at as u64, found, expected }),
    };
    let (size, stream_bytes, kernel_bytes) = (u64_at(anec::SIZE), u64_at(anec::TSK_SIZE), u64_at(anec::KRN_SIZE));
    let data = slice(bytes, "stream and kernel data", data_offset as u64, size)?;
    let stream = slice(data, "task stream", 0, stream_bytes)?;
    let kernel_at = stream_bytes.next_multiple_of(rows::KERNEL_ALIGN);
    // A file without kernel data may end with the stream, before the padding.
    let expected =
        if kernel_bytes == 0 { size.clamp(stream_bytes, kernel_at) } else { kernel_at.saturating_add(kernel_bytes) };
    header("size", anec::SIZE, size, expected)?;
    let words = u32_at(anec::TD_SIZE) / 4;
    header("bytes of the first task", anec::TD_SIZE, u32_at(anec::TD_SIZE) as u64, 4 * words as u64)?;
    let tasks = chain(layout, stream, words)?;
    header("number of tasks", anec::TD_COUNT, u32_at(anec::TD_COUNT) as u64, tasks.len() as u64)?;
    header("bytes of the stream", anec::TSK_SIZE, stream_bytes, stream_end(&tasks) as u64)?;
    let (inputs, outputs) = (u32_at(anec::SRC_COUNT), u32_at(anec::DST_COUNT));
    let first = Program::FIRST_PORT_BAR as u64;
    if first + inputs as u64 + outputs as u64 > anec::BARS as u64 {
        let found = inputs as u64 + outputs as u64;
        return Err(Error::Header {
            what: "number of ports",
            offset: anec::SRC_COUNT as u64,
            found,
            expected: anec::BARS as u64 - first,
        });
    }
    let tiles = |bar: usize| u32_at(anec::TILES + 4 * bar) as u64 * anec::TILE;
    let port = |direction, name: String, bar: usize| {
        let at = |i: usize| u64_at(anec::NCHW + 48 * bar + 8 * i);
        let extent = |what, i: usize| match u32::try_from(at(i)) {
            Ok(e) if e > 0 => Ok(e),
            _ => Err(Error::Port { bar: bar as u8, what, found: at(i), limit: u32::MAX as u64 }),
        };
        let shape =
            Nchw { n: extent("batch", 0)?, c: extent("channels", 1)?, h: extent("rows", 2)?, w: extent("columns", 3)? };
        let strides =
            Strides { batch_bytes: at(4).saturating_mul(shape.c as u64), plane_bytes: at(4), row_bytes: at(5) };
        let element = Element::Float16;
        Ok(Port { name, direction, bar: bar as u8, shape, volume_channels: None, strides, element, bytes: tiles(bar) })
    };
    let bar = |i: u32| first as usize + i as usize;
    let ports = (0..inputs)
        .map(|i| port(Direction::Input, format!("input{i}"), bar(outputs + i)))
        .chain((0..outputs).map(|i| port(Direction::Output, format!("output{i}"), bar(i))))
        .collect::<Result<_, Error>>()?;
    Ok(Program {
        name: NAME.to_string(),
        layout,
        stream: stream.to_vec(),
        first_task_words: words,
        kernel: data.get(kernel_at as usize..).unwrap_or(&[]).to_vec().into(),
        scratch_bytes: tiles(Program::SCRATCH_BAR as usize),
        ports,
    })
}

/// Writes the open driver's model file with stream and kernel data at [`anec::DATA`]; see [`write_anec_at`].
pub fn write_anec(program: &Program) -> Result<Vec<u8>, Error> {
    write_anec_at(program, anec::DATA)
}

/// Writes the open driver's model file with stream and kernel data at [`anec::DATA`] or [`anec::DATA_FIRST`].
///
/// Errors: base registers other than outputs first, then inputs (see [`Program::with_ports_in_order`]), and a stream that is
/// not a chain.
pub fn write_anec_at(program: &Program, data_offset: usize) -> Result<Vec<u8>, Error> {
    let tasks = chain(program.layout, &program.stream, program.first_task_words)?;
    let count = |direction| program.ports_of(direction).count();
    let (inputs, outputs) = (count(Direction::Input), count(Direction::Output));
    let order = program.ports_of(Direction::Output).chain(program.ports_of(Direction::Input));
    for (bar, port) in (Program::FIRST_PORT_BAR as u64..).zip(order) {
        if port.bar as u64 != bar || bar >= anec::BARS as u64 {
            return Err(Error::Port {
                bar: port.bar,
                what: "base register",
                found: port.bar as u64,
                limit: bar.min(anec::BARS as u64 - 1),
            });
        }
    }
    let mut data = program.stream.clone();
    data.resize(data.len().next_multiple_of(rows::KERNEL_ALIGN as usize), 0);
    data.extend_from_slice(&program.kernel);
    let mut out = vec![0; data_offset.max(anec::HEADER_BYTES)];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = out.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(anec::SIZE, &(data.len() as u64).to_le_bytes());
    put(anec::TD_SIZE, &program.first_task_words.saturating_mul(4).to_le_bytes());
    put(anec::TD_COUNT, &(tasks.len() as u32).to_le_bytes());
    put(anec::TSK_SIZE, &(program.stream.len() as u64).to_le_bytes());
    put(anec::KRN_SIZE, &(program.kernel.len() as u64).to_le_bytes());
    put(anec::SRC_COUNT, &(inputs as u32).to_le_bytes());
    put(anec::DST_COUNT, &(outputs as u32).to_le_bytes());
    // Loaders require the command buffer to be larger than the stream, even if the stream fills whole tiles.
    let commands = data.len().max(program.stream.len() + 1) as u64;
    let mut buffers = vec![(Program::STREAM_BAR, commands), (Program::SCRATCH_BAR, program.scratch_bytes)];
    buffers.extend(program.ports.iter().map(|p| (p.bar, p.bytes)));
    for (bar, bytes) in buffers {
        let (tiles, limit) = (bytes.div_ceil(anec::TILE), u32::MAX as u64);
        let fits = u32::try_from(tiles).map_err(|_| Error::Port { bar, what: "tiles", found: tiles, limit })?;
        put(anec::TILES + 4 * bar as usize, &fits.to_le_bytes());
    }
    for p in &program.ports {
        let s = p.shape;
        // The header has no batch stride: batches are contiguous.
        let dense = p.strides.plane_bytes.saturating_mul(s.c as u64);
        if s.n > 1 && p.strides.batch_bytes != dense {
            let found = p.strides.batch_bytes;
            return Err(Error::Port { bar: p.bar, what: "batch stride", found, limit: dense });
        }
        let entry = [s.n as u64, s.c as u64, s.h as u64, s.w as u64, p.strides.plane_bytes, p.strides.row_bytes];
        for (i, value) in entry.into_iter().enumerate() {
            put(anec::NCHW + 48 * p.bar as usize + 8 * i, &value.to_le_bytes());
        }
    }
    out.extend_from_slice(&data);
    Ok(out)
}

fn slice<'a>(bytes: &'a [u8], what: &'static str, offset: u64, need: u64) -> Result<&'a [u8], Error> {
    let have = bytes.len() as u64;
    match offset.checked_add(need) {
        Some(end) if end <= have => Ok(&bytes[offset as usize..end as usize]),
        _ => Err(Error::Truncated { what, offset, need, have }),
    }
}
