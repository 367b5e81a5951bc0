//! The listing of a firmware container: records and content of every section, task streams by field.

use anemone_facts::Layout;
use anemone_facts::formats::{by_code, firmware as rows};

use super::block::{self, hex};
use super::lex::{Line, Lines, MAX_BLOCK_BYTES, TextError};
use super::listing::layout_named;
use crate::firmware::{Entry, Package, Section};
use crate::hwx::Residue;

/// Lists a package. `assemble_package(&list_package(p))` equals `p`.
pub fn list_package(p: &Package) -> String {
    let mut out = format!("firmware bytes={:#x} version={} checksum={:#x}\n", p.file_bytes, p.version, p.checksum);
    for e in &p.programs {
        let program = e.program().ok();
        let stream = program.as_ref().map(|p| (p.layout, p.first_task_words));
        out += &format!(
            "entry @{:#x} id={} flags={:#x} procedures={} reserved={:#x} layout={} hash={}\n",
            e.offset,
            e.id,
            e.flags,
            e.procedures,
            e.reserved,
            stream.map_or("-", |(layout, _)| layout.generation),
            hex(&e.hash)
        );
        for s in &e.sections {
            let kind = by_code(rows::SECTION_KINDS, s.kind).map_or("unknown", |k| k.name);
            out += &format!(
                "section {} @{:#x} align={:#x} flags={:#x} bytes={} ; {kind}\n",
                s.kind,
                s.offset,
                s.align,
                s.flags,
                block::size(&s.data)
            );
            block::print(&mut out, &s.data, stream.filter(|_| s.kind == rows::TEXT));
        }
    }
    for r in &p.residue {
        out += &format!("residue @{:#x} {}\n", r.offset, hex(&r.bytes));
    }
    out + "end\n"
}

/// Assembles a package from its listing.
pub fn assemble_package(text: &str) -> Result<Package, TextError> {
    let mut lines = Lines::of(text)?;
    let head = lines.expect("firmware")?;
    head.ends_at(4)?;
    let mut p = Package {
        version: head.u32(2, "version")?,
        checksum: head.u32(3, "checksum")?,
        programs: Vec::new(),
        file_bytes: head.keyed(1, "bytes")?.number(MAX_BLOCK_BYTES)?,
        residue: Vec::new(),
    };
    while let Some(line) = lines.next() {
        match line.word() {
            "entry" => p.programs.push(entry(&mut lines, &line)?),
            "residue" => {
                line.ends_at(3)?;
                p.residue.push(Residue { offset: offset(&line, 1)?, bytes: line.at(2).hex()? });
            }
            "end" => {
                line.ends_at(1)?;
                return lines.next().map_or(Ok(p), |line| Err(line.at(0).error("the end of the text")));
            }
            _ => return Err(line.at(0).error("entry, residue or end")),
        }
    }
    Err(lines.missing("end"))
}

fn offset(line: &Line, i: usize) -> Result<u64, TextError> {
    let token = line.at(i);
    token.strip("@").ok_or_else(|| token.error("`@` and an offset"))?.number(MAX_BLOCK_BYTES)
}

fn entry(lines: &mut Lines, line: &Line) -> Result<Entry, TextError> {
    let layout = line.keyed(6, "layout")?;
    let layout: Option<&'static Layout> = if layout.text == "-" { None } else { Some(layout_named(&layout)?) };
    let hash = line.keyed(7, "hash")?;
    line.ends_at(8)?;
    let mut e = Entry {
        offset: offset(line, 1)?,
        id: line.u32(2, "id")?,
        flags: line.u32(3, "flags")?,
        procedures: line.u32(4, "procedures")?,
        hash: hash.hex()?.try_into().map_err(|_| hash.error("32 bytes"))?,
        reserved: line.u32(5, "reserved")?,
        sections: Vec::new(),
    };
    while let Some(line) = lines.next_if("section") {
        line.ends_at(6)?;
        e.sections.push(Section {
            kind: line.at(1).u32()?,
            offset: offset(&line, 2)?,
            align: line.u32(3, "align")?,
            flags: line.u32(4, "flags")?,
            data: block::parse(lines, &line.keyed(5, "bytes")?, layout)?.into(),
        });
    }
    Ok(e)
}
