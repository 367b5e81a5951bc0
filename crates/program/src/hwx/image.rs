//! The loaded program image: a container at the addresses of one load, with its apertures and resolved relocations.
//!
//! The bytes are a container's. Streams address memory by base register and offset, so that loading changes addresses in
//! commands, symbols and run state, and no word of the stream: the value at a relocation stays relative to its section,
//! and resolves to section address plus value.

use crate::order;
use anemone_facts::formats::hwx as rows;

use super::defs::{Command, Container, name16_text};
use crate::bytes::{slice, u32_at, u64_at};

/// A container that cannot be loaded at a base.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The base is not page-aligned.
    #[error("base {base:#x} is not a multiple of {page:#x}")]
    Base {
        /// The base.
        base: u64,
        /// Bytes of a page.
        page: u64,
    },
    /// An address leaves the range of its field.
    #[error("{what} at {address:#x} cannot move to base {base:#x}: addresses end at {limit:#x}")]
    Range {
        /// Structure at the address.
        what: String,
        /// Its address in the file.
        address: u64,
        /// The base.
        base: u64,
        /// One past the largest address.
        limit: u64,
    },
}

/// A range of addresses with a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aperture {
    /// Segment and section, and for a window the tensor.
    pub name: String,
    /// First address.
    pub address: u64,
    /// Used bytes.
    pub bytes: u64,
    /// Mapped bytes: whole pages for a segment's last section.
    pub mapped: u64,
    /// Access rights of the engine: 1 read, 2 write, 4 execute.
    pub protection: u32,
    /// Base registers that hold the address.
    pub bars: Vec<u8>,
    /// Purpose.
    pub role: &'static str,
}

/// A resolved relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Address of the word.
    pub place: u64,
    /// Number of the target section, from 1.
    pub section: u32,
    /// Value at the address, relative to the section.
    pub value: u64,
    /// Section address plus value; `None` if target or word do not exist.
    pub address: Option<u64>,
}

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Address of the first page.
    pub base: u64,
    /// The container with moved addresses.
    pub container: Container,
    /// Apertures by address.
    pub apertures: Vec<Aperture>,
    /// Relocations in order.
    pub relocations: Vec<Resolved>,
}

/// A defect that would make a run fail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} at {address:#x}: {what}")]
pub struct Problem {
    /// Aperture, relocation or base register.
    pub place: String,
    /// Address.
    pub address: u64,
    /// Description.
    pub what: String,
}

impl Image {
    /// Maps a container so that its first page is at `base`; [`rows::VM_BASE`] is that of files.
    pub fn map(container: &Container, base: u64) -> Result<Image, MapError> {
        if !base.is_multiple_of(rows::PAGE) {
            return Err(MapError::Base { base, page: rows::PAGE });
        }
        Ok(Image::of_loaded(Image::moved(container, rows::VM_BASE, base)?, base))
    }

    /// The image of a container whose addresses are those of a load at `base`.
    pub(super) fn of_loaded(container: Container, base: u64) -> Image {
        let (apertures, relocations) = (apertures(&container), resolve(&container));
        Image { base, container, apertures, relocations }
    }

    /// The container with all addresses from `from` on moved to `to`.
    pub(super) fn moved(container: &Container, from: u64, to: u64) -> Result<Container, MapError> {
        let mut moved = container.clone();
        let file_bytes = moved.file_bytes;
        // Residue of the header or of moved records is no longer valid.
        moved.residue.clear();
        move_all(&mut moved, from, to)?;
        moved.file_bytes = file_bytes;
        Ok(moved)
    }

    /// The bytes of the image.
    pub fn write(&self) -> Vec<u8> {
        self.container.write()
    }

    /// Defects; empty for an image that can run.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut note = |place: &str, address: u64, what: String| {
            problems.push(Problem { place: place.to_string(), address, what });
        };
        for a in &self.apertures {
            if !a.address.is_multiple_of(rows::CONST_ALIGN) {
                note(&a.name, a.address, format!("not on a boundary of {:#x}", rows::CONST_ALIGN));
            }
            if a.bytes > a.mapped {
                note(&a.name, a.address, format!("{:#x} bytes in a mapping of {:#x}", a.bytes, a.mapped));
            }
        }
        for pair in self.apertures.windows(2) {
            let end = pair[0].address.saturating_add(pair[0].bytes);
            if end > pair[1].address {
                note(&pair[1].name, pair[1].address, format!("overlaps {}, which ends at {end:#x}", pair[0].name));
            }
        }
        let inside =
            |address: u64| self.apertures.iter().any(|a| address >= a.address && address - a.address <= a.bytes.max(1));
        for r in &self.relocations {
            match r.address {
                None => note("relocation", r.place, format!("no section {}, or no word here", r.section)),
                Some(address) if !inside(address) => {
                    note("relocation", r.place, format!("resolves to {address:#x}, which is in no aperture"));
                }
                _ => {}
            }
        }
        for (_, t) in self.container.threads() {
            for (bar, at) in t.base_words().enumerate() {
                let address = t.quantity(at);
                if address != 0 && !inside(address) {
                    note(&format!("base register {bar}"), address, "in no aperture".into());
                }
            }
        }
        problems
    }
}

fn move_all(c: &mut Container, from: u64, base: u64) -> Result<(), MapError> {
    let to = |address: u64, what: &str, limit: u64| -> Result<u64, MapError> {
        if address < from {
            return Ok(address);
        }
        let moved = (address - from).checked_add(base).filter(|&a| a < limit);
        moved.ok_or_else(|| MapError::Range { what: what.to_string(), address, base, limit })
    };
    const WIDE: u64 = u64::MAX;
    for command in &mut c.commands {
        match command {
            Command::Segment(s) => {
                s.address = to(s.address, &name16_text(&s.name), WIDE)?;
                for x in &mut s.sections {
                    x.address = to(x.address, &name16_text(&x.name), WIDE)?;
                }
            }
            Command::Port(p) => {
                let limit = if p.wide { WIDE } else { 1 << 32 };
                p.address = to(p.address, &p.name(), limit)?;
            }
            Command::Thread(t) => {
                let entry = t.run_shape().map(|s| s.entry);
                let words = t.words.len();
                let places: Vec<usize> = t.base_words().chain(entry).filter(|at| at + 1 < words).collect();
                for at in places {
                    let address = to(t.quantity(at), "run state", WIDE)?;
                    (t.words[at], t.words[at + 1]) = (address as u32, (address >> 32) as u32);
                }
            }
            Command::Symtab(t) => {
                for s in t.symbols.iter_mut().filter(|s| s.kind == rows::SYMBOL_DEFINED) {
                    s.value = to(s.value, "symbol", WIDE)?;
                }
            }
            Command::Ident(_) | Command::Unknown { .. } => {}
        }
    }
    Ok(())
}

fn apertures(c: &Container) -> Vec<Aperture> {
    let run = c.threads().map(|(_, t)| t).find(|t| t.run_shape().is_some());
    let bars = |address: u64| -> Vec<u8> {
        run.map_or(Vec::new(), |t| {
            let all = t.base_words().enumerate();
            all.filter(|&(bar, at)| bar < 256 && t.quantity(at) == address).map(|(bar, _)| bar as u8).collect()
        })
    };
    let mut out = Vec::new();
    for s in c.segments() {
        for (i, x) in s.sections.iter().enumerate() {
            let (segment, section) = (name16_text(&x.segment), name16_text(&x.name));
            let window = c.windows().find(|(_, w)| w.address == x.address).map(|(_, w)| w.name());
            let row = rows::SECTIONS.iter().find(|r| r.segment == segment && r.section == section);
            let end = match s.sections.get(i + 1) {
                Some(next) => next.address,
                None => s.address.saturating_add(s.bytes),
            };
            let tensor = window.filter(|w| !w.is_empty()).map_or(String::new(), |w| format!(" {w:?}"));
            out.push(Aperture {
                name: format!("{segment},{section}{tensor}"),
                address: x.address,
                bytes: x.bytes,
                mapped: end.saturating_sub(x.address),
                protection: s.protection,
                bars: bars(x.address),
                role: row.map_or("unknown", |r| r.meaning),
            });
        }
    }
    order::by_key(&mut out, |a| a.address);
    out
}

fn resolve(c: &Container) -> Vec<Resolved> {
    let sections: Vec<_> = c.sections().collect();
    let mut out = Vec::new();
    for x in &sections {
        for r in &x.relocations {
            let width = 1u64 << r.width_log2();
            let word = slice(&x.data, r.offset as u32 as u64, width);
            let value = word.map(|w| if width == 8 { u64_at(w, 0) } else { u32_at(w, 0) as u64 });
            let target = (r.target() as usize).checked_sub(1).and_then(|i| sections.get(i));
            let address = target.zip(value).and_then(|(t, v)| t.address.checked_add(v));
            let place = x.address.wrapping_add(r.offset as u32 as u64);
            out.push(Resolved { place, section: r.target(), value: value.unwrap_or(0), address });
        }
    }
    out
}
