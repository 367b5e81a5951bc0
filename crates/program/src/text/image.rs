//! The text form of a register image, both ways: registers by group and field, then patches of the loader.

use anemone_facts::layout::v10::{GROUPS, IMAGE_BYTES, RELOCATIONS};
use anemone_facts::{Layout, Space, layout};

use super::block;
use super::lex::{Line, Lines, TextError, quote};
use crate::task::image::{BarKind, CachePrimitive, CustomBar, Descriptor, Image, LiveIn};

/// Names of the kinds of bar values.
const KINDS: [(BarKind, &str); 3] =
    [(BarKind::Address, "address"), (BarKind::DataSet, "data-set"), (BarKind::Offset, "offset")];

fn registers() -> &'static Layout {
    &layout::M11
}

/// Lists an image. `assemble_image(&list_image(d))` equals `d`.
pub fn list_image(descriptor: &Descriptor) -> String {
    let layout = registers();
    let mut out = format!("image version={} bytes={IMAGE_BYTES:#x}\n", layout.td_version);
    let mut named = Image::default();
    let mut words = descriptor.image.registers();
    for g in &GROUPS {
        out += &format!("group {} @{:#x} registers={} ; {}\n", g.name, g.struct_base, g.registers, g.contents);
        for (register, word) in words.by_ref().take(g.registers as usize) {
            block::print_word(&mut out, layout, Space::Register, 4 * register, word);
            // Every register of a group has a place in the image.
            let _ = named.set_register(register, word);
        }
    }
    block::print_differences(&mut out, descriptor.image.bytes(), named.bytes());
    for bar in &descriptor.bars {
        let slot = RELOCATIONS.iter().find(|s| s.register == bar.register).map_or("", |s| s.what);
        out += &format!("bar {} ; {slot}\n", place(bar));
    }
    for l in &descriptor.live_ins {
        let input = quote(l.input.as_bytes());
        out += &format!("live-in {input} start={} stop={} step={} {}\n", l.start, l.stop, l.step, place(&l.bar));
    }
    out + "end\n"
}

fn place(bar: &CustomBar) -> String {
    let kind = KINDS.iter().find(|(k, _)| *k == bar.kind).map_or("", |(_, name)| name);
    format!("register={:#x} bit={} width={} kind={kind}", bar.register, bar.bit, bar.width)
}

/// Assembles an image from its listing.
pub fn assemble_image(text: &str) -> Result<Descriptor, TextError> {
    let layout = registers();
    let mut lines = Lines::of(text)?;
    let head = lines.expect("image")?;
    if head.u32(1, "version")? != layout.td_version {
        return Err(head.keyed(1, "version")?.error(format!("{}", layout.td_version)));
    }
    if head.u32(2, "bytes")? != IMAGE_BYTES {
        return Err(head.keyed(2, "bytes")?.error(format!("{IMAGE_BYTES:#x}")));
    }
    head.ends_at(3)?;
    let mut descriptor = Descriptor::default();
    for g in &GROUPS {
        let Some(line) = lines.next_if("group") else { continue };
        line.at(1).expect(g.name)?;
        line.at(2).expect(&format!("@{:#x}", g.struct_base))?;
        if line.u32(3, "registers")? != g.registers {
            return Err(line.keyed(3, "registers")?.error(format!("{}", g.registers)));
        }
        line.ends_at(4)?;
        let first = g.aperture.unwrap_or(0);
        let addresses: Vec<u32> = (0..g.registers).map(|i| first + 4 * i).collect();
        let mut words = vec![0; addresses.len()];
        block::parse_words(&mut lines, layout, Space::Register, &addresses, &mut words)?;
        for (addr, word) in addresses.into_iter().zip(words) {
            descriptor.image.set_register(addr / 4, word).map_err(|e| line.at(1).error(e.to_string()))?;
        }
    }
    let mut bytes = descriptor.image.bytes().to_vec();
    while let Some(line) = lines.next_if("data") {
        block::data(&mut bytes, &line)?;
    }
    descriptor.image = Image::of_bytes(&bytes).map_err(|e| head.at(0).error(e.to_string()))?;
    loop {
        let Some(line) = lines.next() else { return Err(lines.missing("end")) };
        match line.word() {
            "bar" => {
                descriptor.bars.push(parse_place(&line, 1)?);
                line.ends_at(5)?;
            }
            "live-in" => {
                let input = line.at(1).string()?;
                let [start, stop, step] = [(2, "start"), (3, "stop"), (4, "step")].map(|(i, key)| line.u64(i, key));
                let bar = parse_place(&line, 5)?;
                descriptor.live_ins.push(LiveIn { input, start: start?, stop: stop?, step: step?, bar });
                line.ends_at(9)?;
            }
            "cache" => {
                let word = line.at(1);
                let known = CachePrimitive::ALL.into_iter().find(|primitive| primitive.name() == word.text);
                let names = || CachePrimitive::ALL.map(CachePrimitive::name).join(", ");
                let primitive = known.ok_or_else(|| word.error(format!("one of {}", names())))?;
                let value = line.u64(2, "value")?;
                descriptor.image.set_cache(primitive, value).map_err(|e| word.error(e.to_string()))?;
            }
            "end" => {
                line.ends_at(1)?;
                return match lines.next() {
                    Some(line) => Err(line.at(0).error("the end of the text")),
                    None => Ok(descriptor),
                };
            }
            _ => return Err(line.at(0).error("group, data, bar, live-in or end")),
        }
    }
}

fn parse_place(line: &Line, i: usize) -> Result<CustomBar, TextError> {
    let kind = line.keyed(i + 3, "kind")?;
    let names = || KINDS.map(|(_, name)| name).join(", ");
    let found = KINDS.iter().find(|(_, name)| *name == kind.text);
    Ok(CustomBar {
        register: line.u32(i, "register")?,
        bit: line.keyed(i + 1, "bit")?.number(31)? as u32,
        width: line.keyed(i + 2, "width")?.number(64)? as u32,
        kind: found.map(|(k, _)| *k).ok_or_else(|| kind.error(format!("one of {}", names())))?,
    })
}
