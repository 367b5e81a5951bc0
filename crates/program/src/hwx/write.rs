//! Writer of [`Container`]: each structure at its stated offset, zero fill between.

use anemone_facts::formats::hwx as rows;

use super::defs::{Command, Container, Section, Segment, Symtab};
use crate::bytes::{place, put, put64};

impl Container {
    /// The container's bytes. Counts and sizes in header and commands follow from the content; offsets are written
    /// unchanged.
    pub fn write(&self) -> Vec<u8> {
        let head = self.head();
        let mut out = vec![0; self.file_bytes as usize];
        for command in &self.commands {
            match command {
                Command::Segment(s) => {
                    for section in &s.sections {
                        if section.file_offset != 0 {
                            place(&mut out, section.file_offset as u64, &section.data);
                        }
                        place(&mut out, section.relocations_offset as u64, &relocations(section));
                    }
                }
                Command::Symtab(s) => {
                    place(&mut out, s.symbols_offset as u64, &symbols(s));
                    place(&mut out, s.strings_offset as u64, &s.strings);
                }
                _ => {}
            }
        }
        place(&mut out, 0, &head);
        for r in &self.residue {
            place(&mut out, r.offset, &r.bytes);
        }
        out
    }

    /// Header and load commands.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let h = &self.header;
        let size: u64 = self.commands.iter().map(Command::bytes).sum();
        let counts = [self.commands.len() as u32, size as u32];
        let words = [rows::MAGIC, h.cpu_type, h.cpu_subtype, h.file_type, counts[0], counts[1], h.flags, h.reserved];
        put(&mut out, &words);
        for command in &self.commands {
            put(&mut out, &[command.id(), command.bytes() as u32]);
            match command {
                Command::Segment(s) => segment(&mut out, s),
                Command::Port(p) => {
                    put(&mut out, &[p.name_offset, p.version, p.address as u32]);
                    if p.wide {
                        put(&mut out, &[(p.address >> 32) as u32]);
                    }
                    out.extend_from_slice(&p.tail);
                }
                Command::Thread(t) => {
                    put(&mut out, &[t.flavor, t.words.len() as u32]);
                    put(&mut out, &t.words);
                    out.extend_from_slice(&t.tail);
                }
                Command::Ident(body) | Command::Unknown { body, .. } => out.extend_from_slice(body),
                Command::Symtab(s) => {
                    let (count, bytes) = (s.symbols.len() as u32, s.strings.len() as u32);
                    put(&mut out, &[s.symbols_offset, count, s.strings_offset, bytes]);
                    out.extend_from_slice(&s.tail);
                }
            }
        }
        out
    }
}

fn segment(out: &mut Vec<u8>, s: &Segment) {
    out.extend_from_slice(&s.name);
    put64(out, &[s.address, s.bytes, s.file_offset, s.file_bytes]);
    put(out, &[s.max_protection, s.protection, s.sections.len() as u32, s.flags]);
    for section in &s.sections {
        out.extend_from_slice(&section.name);
        out.extend_from_slice(&section.segment);
        put64(out, &[section.address, section.bytes]);
        let count = section.relocations.len() as u32;
        put(out, &[section.file_offset, section.align_log2, section.relocations_offset, count, section.flags]);
        put(out, &section.reserved);
    }
    out.extend_from_slice(&s.tail);
}

fn relocations(section: &Section) -> Vec<u8> {
    section.relocations.iter().flat_map(|r| [r.offset as u32, r.info]).flat_map(u32::to_le_bytes).collect()
}

fn symbols(table: &Symtab) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows::SYMBOL_BYTES * table.symbols.len());
    for s in &table.symbols {
        put(&mut out, &[s.name_offset]);
        out.extend_from_slice(&[s.kind, s.section]);
        out.extend_from_slice(&s.desc.to_le_bytes());
        put64(&mut out, &[s.value]);
    }
    out
}
