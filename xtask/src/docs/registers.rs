//! Pages on the task descriptor: fields of each generation with their evidence, versions, and unexplained bits.

use super::*;

/// Rows by evidence letter, and by the engine's treatment.
struct Counts {
    rows: usize,
    evidence: [usize; 4],
    treatment: [usize; 3],
}

impl Counts {
    fn of(layout: &Layout) -> Counts {
        let mut counts = Counts { rows: layout.rows.len(), evidence: [0; 4], treatment: [0; 3] };
        for row in layout.rows {
            counts.evidence[match row.evidence {
                Evidence::Executed => 0,
                Evidence::Bytes => 1,
                Evidence::Claimed => 2,
                Evidence::Own => 3,
            }] += 1;
            counts.treatment[match treatment(row.field) {
                Treatment::Obeyed => 0,
                Treatment::NoEffect => 1,
                Treatment::Only(..) => 2,
            }] += 1;
        }
        counts
    }
}

pub(super) fn status(layouts: &[&'static Layout]) -> String {
    let mut out = String::from(
        "\n| generation | fields known | X | B | C | O | obeyed by the engine | no effect on results | accepted only at stated values |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for layout in layouts {
        let Counts { rows, evidence: [x, b, c, o], treatment: [obeyed, none, only] } = Counts::of(layout);
        let name = layout.generation;
        let link = format!("[{name}](machine/registers-{name}.md)");
        let engine = if executes(layout) {
            format!("{obeyed} | {none} | {only}")
        } else {
            "listed, not executed | |".to_string()
        };
        let _ = writeln!(out, "| {link} | {rows} | {x} | {b} | {c} | {o} | {engine} |");
    }
    out.push('\n');
    out
}

/// Every row of a generation.
pub(super) fn registers(layout: &'static Layout) -> String {
    let mut out = String::new();
    let Counts { rows, evidence: [x, b, c, o], treatment: [obeyed, none, only] } = Counts::of(layout);
    let (name, version) = (layout.generation, layout.td_version);
    let form = match layout.codec {
        Codec::Runs => {
            "A descriptor is header words, then runs of registers. A run starts with one word: bits 31:26 hold the \
             number of registers minus 1, bits 25:0 the byte address of the first."
        }
        Codec::Packets => {
            "A stream starts with the words 1, 0, 0, 0; descriptors follow one another and state their own size. A \
             descriptor is header words, then packets. A packet starts with one word: bits 14:0 hold the word address of \
             the first register (a quarter of the byte address below). Bit 31 clear: bits 20:15 hold the number of \
             consecutive registers minus 1; bits 30:21 are 0, or bit 29 is set and bits 28:21 name the slot from which \
             the loader fills the registers in. Bit 31 set: bit 15 + i says that register first + 1 + i is written too."
        }
    };
    let engine = match executes(layout) {
        true => format!(
            "The software engine obeys {obeyed} of them; {none} have no effect on results; {only} are accepted only at stated values."
        ),
        false => "Programs of this generation are read, listed and written; the engine does not execute them.".into(),
    };
    let (words, known, bits) = claimed(layout);
    let of_own = if o > 0 { format!("; {o} more are this project's own (evidence O)") } else { String::new() };
    let rows = rows - o;
    let _ = write!(
        out,
        "# Registers of {name}\n\n{OPEN}\n\n\
         This page lists every known field of the task descriptors of generation {name}: {rows} fields, {x} of them with evidence \
         X, {b} with B, {c} with C{of_own} ([evidence](../evidence.md)). They lie in {known} of {words} words and take {bits} \
         bits. {engine} [Coverage](coverage.md) gives the share of set bits that they explain.\n\n\
         Descriptors have version {version}, {} header words, and begin on {:#x}-byte boundaries. {form}\n\n\
         - **address**: byte offset in the header, or byte address of the register. `x16` marks an array of 16 words, 4 \
         bytes apart.\n\
         - **coding**: `uint` is a number; `flag` is one bit; `<< n` is a number of bytes without its low n bits, which are \
         zero; `log2` is a base-2 logarithm; `fp16` and `fp32` are IEEE bit patterns; otherwise the names of the values.\n\
         - **evidence**: X (executed), B (bytes), C (claimed) or O (own). **source**: section of \
         [evidence](../evidence.md).\n",
        layout.header_words, layout.align_bytes
    );
    out.push_str(if executes(layout) {
        "- **engine**: what the software engine does with the field.\n\n"
    } else {
        "\n"
    });
    out.push_str("## Header\n\n");
    table(&mut out, layout, layout.rows.iter().filter(|r| r.space == Space::Header));
    for block in layout.blocks {
        let end = block.addr + 4 * block.words;
        let _ = write!(out, "## {}\n\nAddress {:#07x}, {} words.\n\n", block.name, block.addr, block.words);
        let inside = |r: &&Row| r.space == Space::Register && r.addr >= block.addr && r.addr < end;
        table(&mut out, layout, layout.rows.iter().filter(inside));
    }
    if o > 0 {
        out.push_str("## Registers of own tasks\n\nOnly [own tasks](../native.md) of this project write these registers; no device has them.\n\n");
        table(&mut out, layout, layout.rows.iter().filter(|r| r.evidence == Evidence::Own));
    }
    out.push_str("## Bits without a field\n\n");
    out.push_str("No known field has these bits. If one is set, the disassembler lists it and the software engine refuses the program.\n\n");
    out.push_str("| block | address | bits |\n|---|---|---|\n");
    let header = (0..layout.header_words).map(|i| ("header", Space::Header, 4 * i));
    let registers =
        layout.blocks.iter().flat_map(|b| (0..b.words).map(move |i| (b.name, Space::Register, b.addr + 4 * i)));
    for (name, space, addr) in header.chain(registers) {
        let free = layout.unclaimed(space, addr);
        if free != 0 {
            let _ = writeln!(out, "| {name} | {} | {} |", address(space, addr), ranges(free));
        }
    }
    let _ = write!(out, "\n{CLOSE}\n");
    out
}

/// Number of words of a layout, of those with a row, and of bits with a row.
fn claimed(layout: &'static Layout) -> (u32, u32, u32) {
    let header = (0..layout.header_words).map(|i| (Space::Header, 4 * i));
    let registers = layout.blocks.iter().flat_map(|b| (0..b.words).map(move |i| (Space::Register, b.addr + 4 * i)));
    header.chain(registers).fold((0, 0, 0), |(words, known, bits), (space, addr)| {
        let here = 32 - layout.unclaimed(space, addr).count_ones();
        (words + 1, known + u32::from(here != 0), bits + here)
    })
}

fn table<'a>(out: &mut String, layout: &Layout, rows: impl Iterator<Item = &'a Row>) {
    let executed = executes(layout);
    let (title, rule) = if executed { (" engine |", "---|") } else { ("", "") };
    let _ = writeln!(out, "| address | bits | field | coding | unit | meaning | evidence | source |{title}");
    let _ = writeln!(out, "|---|---|---|---|---|---|---|---|{rule}");
    for row in rows {
        let info = row.field.info();
        let many = if row.count > 1 { format!(" x{}", row.count) } else { String::new() };
        let mut cells = vec![
            address(row.space, row.addr) + &many,
            range(row.lo, row.hi),
            format!("`{}`", info.name),
            coding(info.coding),
            cell(info.unit),
            cell(info.meaning),
            row.evidence.letter().to_string(),
            format!("[{0}](../evidence.md#{0})", row.source),
        ];
        if executed {
            cells.push(cell(&engine(treatment(row.field))));
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

/// Descriptor versions by CPU subtype, and the register image of version 10.
pub(super) fn versions() -> String {
    let mut out = format!(
        "# Descriptor versions\n\n{OPEN}\n\n\
         The CPU subtype of a container determines the version of its task descriptors. Versions with a linked layout are read and \
         written by field. For `by address`, tasks are read and registers have their address as name. For `bytes`, the stream \
         is listed as bytes.\n\n\
         | CPU subtype | descriptor version | targets | silicon | read and written | evidence | source |\n|---|---|---|---|---|---|---|\n"
    );
    for row in SUBTYPES {
        let layout = anemone_facts::layout::of_version(row.td_version);
        let layout = match layout {
            Some(l) if !l.blocks.is_empty() => format!("[{0}](registers-{0}.md)", l.generation),
            Some(_) => "by address".to_string(),
            None => "bytes".to_string(),
        };
        let mut targets: Vec<&str> = row.targets().map(|c| c.target).collect();
        targets.extend(Some(row.other).filter(|o| !o.is_empty()));
        let (targets, letter) = (targets.join(", "), row.evidence.letter());
        let silicon: Vec<&str> = row.targets().flat_map(|c| c.silicon()).map(|s| s.title).collect();
        let source = format!("[{0}](../evidence.md#{0})", row.source);
        let (subtype, version, silicon) = (row.subtype, row.td_version, silicon.join(", "));
        let _ = writeln!(out, "| {subtype} | {version} | {targets} | {silicon} | {layout} | {letter} | {source} |");
    }
    let _ = write!(
        out,
        "\n## Register image of version 10\n\n\
         A structure of {:#x} bytes with seven groups of registers; [td-image](../evidence.md#td-image)). A DMA stride is a \
         signed number of {} bits at bit {}. Serialized, each register that differs from its default, or each address, is \
         one record of {} bytes.\n\n\
         | group | struct base | registers | address | contents |\n|---|---|---|---|---|\n",
        v10::IMAGE_BYTES,
        v10::STRIDE_BITS,
        v10::STRIDE_BIT,
        v10::RECORD_BYTES
    );
    for g in &v10::GROUPS {
        let address = g.aperture.map_or("none".to_string(), |a| format!("{a:#x}"));
        let _ = writeln!(out, "| {} | {:#x} | {} | {address} | {} |", g.name, g.struct_base, g.registers, g.contents);
    }
    out.push_str("\n| field | accessor offset | mask |\n|---|---|---|\n");
    for f in &v10::FIELDS {
        let _ = writeln!(out, "| `{}` | {:#05x} | {:#x} |", f.name, f.offset, f.mask);
    }
    out.push_str("\n| relocation register (word address) | slot |\n|---|---|\n");
    for slot in &v10::RELOCATIONS {
        let _ = writeln!(out, "| {:#x} | {} |", slot.register, slot.what);
    }
    let _ = write!(out, "\n{CLOSE}\n");
    out
}

pub(super) fn coverage(layouts: &[&'static Layout]) -> String {
    let set: u64 = SAMPLED.iter().map(|s| s.set_bits).sum();
    let unexplained: u64 = SAMPLED.iter().map(|s| s.unexplained_bits).sum();
    let mut out = format!(
        "# Coverage\n\n{OPEN}\n\n\
         This page counts the known fields of each generation's task descriptors, and the share of the bits in descriptors of \
         Apple's compilers that those fields explain: of {set} set bits in the samples below, {unexplained} belong to no field. \
         `ane dump FILE --coverage` prints the same counts for any compiled file, with the words that hold unexplained bits.\n\n\
         ## Fields by generation\n\nX, B, C and O count fields by their [evidence](../evidence.md).\n\n| generation | descriptor version | fields | X | B | C | O | words with a field | bits of fields |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    for layout in layouts {
        let (words, known, bits) = claimed(layout);
        let Counts { rows, evidence: [x, b, c, o], .. } = Counts::of(layout);
        let (name, version) = (layout.generation, layout.td_version);
        let _ = writeln!(
            out,
            "| [{name}](registers-{name}.md) | {version} | {rows} | {x} | {b} | {c} | {o} | {known} of {words} | {bits} |"
        );
    }
    out.push_str(
        "\n## Samples explained\n\nEach row is a set of sample files. `cargo test -p anemone-program --test program generations` counts them again. \
         **unnamed** counts set bits of fields whose place is known but not their meaning; **unexplained** counts set bits \
         that belong to no field.\n\n\
         | generation | samples | files | tasks | fields seen | set bits | unnamed | unexplained | source |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let share = |part: u64, whole: u64| format!("{part} ({:.2} %)", 100.0 * part as f64 / whole.max(1) as f64);
    for s in SAMPLED {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | [{source}](../evidence.md#{source}) |",
            s.generation,
            s.folder,
            s.files,
            s.tasks,
            s.fields_seen,
            s.set_bits,
            share(s.unnamed_bits, s.set_bits),
            share(s.unexplained_bits, s.set_bits),
            source = s.source,
        );
    }
    let _ = write!(out, "\n{CLOSE}\n");
    out
}

fn address(space: Space, addr: u32) -> String {
    match space {
        Space::Header => format!("{addr:#04x}"),
        Space::Register => format!("{addr:#07x}"),
    }
}

fn range(lo: u8, hi: u8) -> String {
    if lo == hi { lo.to_string() } else { format!("{hi}:{lo}") }
}

/// Set bits of a word as ranges, highest first.
fn ranges(mut word: u32) -> String {
    let mut all = Vec::new();
    while word != 0 {
        let hi = 31 - word.leading_zeros();
        let ones = (word << (31 - hi)).leading_ones();
        let lo = hi + 1 - ones;
        all.push(range(lo as u8, hi as u8));
        word &= !(u32::MAX >> (32 - ones) << lo);
    }
    all.join(", ")
}

fn coding(coding: Coding) -> String {
    match coding {
        Coding::Uint => "uint".into(),
        Coding::Flag => "flag".into(),
        Coding::Shifted(n) => format!("<< {n}"),
        Coding::Log2 => "log2".into(),
        Coding::F16 => "fp16".into(),
        Coding::F32 => "fp32".into(),
        Coding::Names(names) => {
            let named = names.iter().enumerate().filter(|(_, n)| !n.is_empty());
            named.map(|(i, n)| format!("{i} {n}")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn engine(treatment: Treatment) -> String {
    match treatment {
        Treatment::Obeyed => "obeys".into(),
        Treatment::NoEffect => "no effect".into(),
        Treatment::Only(values, reason) => {
            let values: Vec<String> = values.iter().map(u32::to_string).collect();
            format!("only {}: {reason}", values.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_named_as_ranges() {
        assert_eq!(ranges(0xffff_ffff), "31:0");
        assert_eq!(ranges(0x8000_0001), "31, 0");
        assert_eq!(ranges(0x00f0_0300), "23:20, 9:8");
    }
}
