//! The listing of a program: ports, every task by field, kernel data.

use anemone_facts::{Layout, layout};

use super::block;
use super::lex::{Lines, TextError, Token, quote};
use crate::{Direction, Element, Nchw, Port, Program, Strides};

/// Names of directions in listings.
const DIRECTIONS: [(Direction, &str); 2] = [(Direction::Input, "input"), (Direction::Output, "output")];
/// Names of element types in listings.
pub(super) const ELEMENTS: [(Element, &str); 3] =
    [(Element::Uint8, "uint8"), (Element::Int8, "int8"), (Element::Float16, "float16")];

/// Lists a program. Never fails: a stream that is not a chain of descriptors is listed as data.
pub fn list(program: &Program) -> String {
    let mut out = format!(
        "program {} layout={} first-words={} scratch={:#x}\n",
        quote(program.name.as_bytes()),
        program.layout.generation,
        program.first_task_words,
        program.scratch_bytes
    );
    for p in &program.ports {
        let (s, d) = (p.shape, p.strides);
        out += &format!(
            "port {} {} bar={} {}n={} c={} h={} w={} batch-stride={:#x} plane-stride={:#x} row-stride={:#x} \
             element={} bytes={:#x}\n",
            name_of(&DIRECTIONS, p.direction),
            quote(p.name.as_bytes()),
            p.bar,
            p.volume_channels.map_or_else(String::new, |channels| format!("volume-channels={channels} ")),
            s.n,
            s.c,
            s.h,
            s.w,
            d.batch_bytes,
            d.plane_bytes,
            d.row_bytes,
            name_of(&ELEMENTS, p.element),
            p.bytes
        );
    }
    out += &format!("stream bytes={}\n", block::size(&program.stream));
    block::print(&mut out, &program.stream, Some((program.layout, program.first_task_words)));
    out += &format!("kernel bytes={}\n", block::size(&program.kernel));
    block::print(&mut out, &program.kernel, None);
    out
}

/// Assembles a program from its listing.
pub fn assemble(text: &str) -> Result<Program, TextError> {
    let mut lines = Lines::of(text)?;
    let head = lines.expect("program")?;
    let layout = layout_named(&head.keyed(2, "layout")?)?;
    head.ends_at(5)?;
    let mut ports = Vec::new();
    while let Some(line) = lines.next_if("port") {
        // A port with five axes states so before its extents.
        let five = line.keyed(4, "volume-channels").ok();
        let volume_channels = five.map(|word| word.number(u32::MAX.into())).transpose()?.map(|n| n as u32);
        let at = |word: usize| word + usize::from(volume_channels.is_some());
        let joined = line.u32(at(4), "n")?;
        if volume_channels.is_some_and(|channels| channels == 0 || !joined.is_multiple_of(channels)) {
            return Err(line.at(4).error("channels of which `n` is a multiple"));
        }
        ports.push(Port {
            volume_channels,
            direction: named(&DIRECTIONS, &line.at(1), "`input` or `output`")?,
            name: line.at(2).string()?,
            bar: line.keyed(3, "bar")?.number(crate::BAR_COUNT as u64 - 1)? as u8,
            shape: Nchw { n: joined, c: line.u32(at(5), "c")?, h: line.u32(at(6), "h")?, w: line.u32(at(7), "w")? },
            strides: Strides {
                batch_bytes: line.u64(at(8), "batch-stride")?,
                plane_bytes: line.u64(at(9), "plane-stride")?,
                row_bytes: line.u64(at(10), "row-stride")?,
            },
            element: named(&ELEMENTS, &line.keyed(at(11), "element")?, "`uint8`, `int8` or `float16`")?,
            bytes: line.u64(at(12), "bytes")?,
        });
        line.ends_at(at(13))?;
    }
    let stream = lines.expect("stream")?;
    stream.ends_at(2)?;
    let stream = block::parse(&mut lines, &stream.keyed(1, "bytes")?, Some(layout))?;
    let kernel = lines.expect("kernel")?;
    kernel.ends_at(2)?;
    let kernel = block::parse(&mut lines, &kernel.keyed(1, "bytes")?, None)?;
    match lines.next() {
        Some(line) => Err(line.at(0).error("`data`, or the end of the text")),
        None => Ok(Program {
            name: head.at(1).string()?,
            layout,
            stream,
            first_task_words: head.u32(3, "first-words")?,
            kernel: kernel.into(),
            scratch_bytes: head.u64(4, "scratch")?,
            ports,
        }),
    }
}

pub(super) fn layout_named(token: &Token) -> Result<&'static Layout, TextError> {
    layout::by_name(token.text).ok_or_else(|| {
        let names: Vec<&str> = layout::KNOWN.iter().map(|l| l.generation).collect();
        token.error(format!("a generation: {}", names.join(", ")))
    })
}

pub(super) fn name_of<T: PartialEq + Copy>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(v, _)| *v == value).map_or("", |(_, n)| n)
}

fn named<T: Copy>(names: &[(T, &'static str)], token: &Token, expected: &str) -> Result<T, TextError> {
    names.iter().find(|(_, n)| *n == token.text).map(|(v, _)| *v).ok_or_else(|| token.error(expected))
}
