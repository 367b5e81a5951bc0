//! The address translation unit (DART): pages, apertures, device addresses, faults. Every access of the engine to a surface passes through it.
//!
//! Every isolation context has its own aperture. A surface has one (modelled) physical address for its lifetime,
//! so two mappings of one surface are two device addresses of the same pages.

use crate::error::Code;
use anemone_facts::driver::limits as rows;
use std::collections::BTreeMap;

/// A mapping's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Mapped, no request uses it.
    Idle,
    /// Mapped and in use.
    Busy,
    /// Known, but without leaf entries.
    Evicted,
    /// Hit by a fault.
    Poisoned,
}

/// A surface at a device address.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Surface identity.
    pub surface: u32,
    /// Device address of its first page.
    pub iova: u64,
    /// Bytes of the surface.
    pub bytes: u64,
    /// Usage code.
    pub usage: u32,
    /// Protection class: 1 device write, 3 read and write.
    pub protection: u32,
    /// Pool it counts for.
    pub pool: u32,
    /// State.
    pub state: State,
    busy: u32,
    references: u32,
    last_use: u64,
    /// True if its pages were unmapped while a request used it.
    cleared: bool,
}

/// Latched translation fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Status register: fault bit and stream.
    pub status: u32,
    /// True for a write access.
    pub write: bool,
    /// Stream.
    pub stream: u32,
    /// Address.
    pub address: u32,
    /// Index in the second level.
    pub l2: u32,
    /// Index in the third level.
    pub l3: u32,
}

/// A physically contiguous part of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Byte offset within the access.
    pub at: u64,
    /// Physical address.
    pub phys: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A page's segment record: 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Device address.
    pub iova: u64,
    /// Physical address.
    pub phys: u64,
    /// Protection class.
    pub protection: u64,
}

impl Segment {
    /// The record's bytes.
    pub fn bytes(&self) -> [u8; 40] {
        let mut out = [0; 40];
        let words = [self.iova, self.phys, rows::PAGE_BYTES, self.protection, 0];
        for (slot, word) in out.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        out
    }
}

#[derive(Debug, Default)]
struct Context {
    leaves: BTreeMap<u64, u64>,
    maps: BTreeMap<u64, Mapping>,
}

/// The translation unit with all its contexts.
#[derive(Debug)]
pub struct Dart {
    contexts: BTreeMap<u64, Context>,
    aperture_bytes: u64,
    places: BTreeMap<u32, (u64, u64)>,
    next_phys: u64,
    uses: u64,
    ttl: Option<u64>,
    fault: Option<Fault>,
    translated: u64,
    evicted: u64,
}

const FIRST_PHYS: u64 = 0x100_0000_0000;

impl Default for Dart {
    fn default() -> Self {
        Dart::new(rows::APERTURE_BYTES)
    }
}

impl Dart {
    /// A unit with contexts of `aperture_bytes` of device addresses, limited to the machine's.
    pub fn new(aperture_bytes: u64) -> Dart {
        Dart {
            contexts: BTreeMap::new(),
            aperture_bytes: aperture_bytes.min(rows::APERTURE_BYTES),
            places: BTreeMap::new(),
            next_phys: FIRST_PHYS,
            uses: 0,
            ttl: None,
            fault: None,
            translated: 0,
            evicted: 0,
        }
    }

    /// Protection class of a usage; `None` for an unknown usage.
    pub fn protection(usage: u32) -> Option<u32> {
        rows::USAGES.iter().find(|(code, _, _)| *code == usage).map(|&(_, _, class)| class)
    }

    /// Maps a surface in whole pages. The same surface with the same usage has one address; another usage has its own.
    /// A full aperture evicts the least recently used idle mapping.
    pub fn map(&mut self, context: u64, surface: u32, bytes: u64, usage: u32, pool: u32) -> Result<u64, Code> {
        let protection = Dart::protection(usage).ok_or(Code::BAD_ARGUMENT)?;
        if bytes == 0 || bytes > self.aperture_bytes {
            return Err(if bytes == 0 { Code::BAD_ARGUMENT } else { Code::NO_RESOURCES });
        }
        self.uses += 1;
        let now = self.uses;
        let inside = self.contexts.entry(context).or_default();
        let same = |m: &&mut Mapping| m.surface == surface && m.usage == usage && m.state != State::Evicted;
        if let Some(found) = inside.maps.values_mut().find(same) {
            found.references += 1;
            found.last_use = now;
            return Ok(found.iova);
        }
        let size = bytes.next_multiple_of(rows::PAGE_BYTES);
        let iova = loop {
            if let Some(iova) = self.contexts.get(&context).and_then(|c| c.gap(size, self.aperture_bytes)) {
                break iova;
            }
            if !self.evict_oldest(context) {
                return Err(Code::NO_RESOURCES);
            }
        };
        let phys = self.place(surface, size)?;
        let inside = self.contexts.entry(context).or_default();
        for at in (0..size).step_by(rows::PAGE_BYTES as usize) {
            inside.leaves.insert(iova + at, ((phys + at) & rows::LEAF_FRAME) | rows::LEAF_VALID);
        }
        inside.maps.insert(
            iova,
            Mapping {
                surface,
                iova,
                bytes,
                usage,
                protection,
                pool,
                state: State::Idle,
                busy: 0,
                references: 1,
                last_use: now,
                cleared: false,
            },
        );
        Ok(iova)
    }

    fn place(&mut self, surface: u32, size: u64) -> Result<u64, Code> {
        if let Some(&(phys, had)) = self.places.get(&surface)
            && had >= size
        {
            return Ok(phys);
        }
        let phys = self.next_phys;
        self.next_phys = phys.checked_add(size).filter(|&p| p <= rows::LEAF_FRAME).ok_or(Code::NO_MEMORY)?;
        self.places.insert(surface, (phys, size));
        Ok(phys)
    }

    /// Physical address of a surface's first page; `None` before its first mapping.
    pub fn phys(&self, surface: u32) -> Option<u64> {
        self.places.get(&surface).map(|p| p.0)
    }

    fn evict_oldest(&mut self, context: u64) -> bool {
        let Some(inside) = self.contexts.get_mut(&context) else { return false };
        let idle = inside.maps.values().filter(|m| m.state == State::Idle);
        let Some(iova) = idle.min_by_key(|m| m.last_use).map(|m| m.iova) else { return false };
        inside.clear(iova);
        self.evicted += 1;
        if let Some(m) = inside.maps.remove(&iova) {
            // Known without leaves; kept beyond the aperture, so that its addresses are free.
            let key = self.aperture_bytes + m.last_use * rows::PAGE_BYTES;
            inside.maps.insert(key, Mapping { state: State::Evicted, ..m });
        }
        true
    }

    /// Removes a mapping. Leaf entries become 0.
    pub fn unmap(&mut self, context: u64, surface: u32, usage: u32) -> Result<(), Code> {
        let inside = self.contexts.get_mut(&context).ok_or(Code::NOT_FOUND)?;
        let found = inside.maps.iter_mut().find(|(_, m)| m.surface == surface && m.usage == usage);
        let (&key, mapping) = found.ok_or(Code::NOT_FOUND)?;
        if mapping.busy > 0 {
            return Err(Code::BUSY);
        }
        mapping.references -= 1;
        if mapping.references == 0 {
            if mapping.state != State::Evicted {
                inside.clear(key);
            }
            inside.maps.remove(&key);
        }
        Ok(())
    }

    /// Begins a request's use of a mapping. An evicted one is mapped again, possibly at another address.
    pub fn begin(&mut self, context: u64, surface: u32, usage: u32) -> Result<u64, Code> {
        let inside = self.contexts.get_mut(&context).ok_or(Code::NOT_FOUND)?;
        let found = inside.maps.iter().find(|(_, m)| m.surface == surface && m.usage == usage);
        let (&key, mapping) = found.ok_or(Code::NOT_FOUND)?;
        let iova = if mapping.state == State::Evicted {
            let (bytes, pool) = (mapping.bytes, mapping.pool);
            inside.maps.remove(&key);
            self.map(context, surface, bytes, usage, pool)?
        } else {
            key
        };
        if let Some(m) = self.contexts.get_mut(&context).and_then(|c| c.maps.get_mut(&iova)) {
            m.busy += 1;
            m.state = State::Busy;
        }
        Ok(iova)
    }

    /// Ends a request's use of a mapping.
    pub fn end(&mut self, context: u64, iova: u64) {
        self.uses += 1;
        let now = self.uses;
        if let Some(m) = self.contexts.get_mut(&context).and_then(|c| c.maps.get_mut(&iova)) {
            m.busy = m.busy.saturating_sub(1);
            m.last_use = now;
            if m.busy == 0 && m.state == State::Busy {
                m.state = State::Idle;
            }
            let gone = m.busy == 0 && m.cleared;
            if gone && let Some(c) = self.contexts.get_mut(&context) {
                c.maps.remove(&iova);
            }
        }
    }

    /// Sets the idle time, in uses, after which [`Dart::flush_inactive`] evicts; `None` keeps mappings until the aperture is full.
    pub fn set_ttl(&mut self, uses: Option<u64>) {
        self.ttl = uses;
    }

    /// Evicts idle mappings older than the time to live, or all idle ones if there is none. Returns the number evicted.
    pub fn flush_inactive(&mut self, context: u64) -> usize {
        let limit = self.uses.saturating_sub(self.ttl.unwrap_or(0));
        let old = |m: &&Mapping| m.state == State::Idle && m.last_use <= limit;
        let count = self.contexts.get(&context).map_or(0, |c| c.maps.values().filter(old).count());
        (0..count).filter(|_| self.evict_oldest(context)).count()
    }

    /// Removes every mapping of a context. Returns their number.
    pub fn close(&mut self, context: u64) -> usize {
        self.contexts.remove(&context).map_or(0, |c| c.maps.len())
    }

    /// Leaf entry of a page; 0 if it is not mapped.
    pub fn leaf(&self, context: u64, iova: u64) -> u64 {
        let page = iova & !(rows::PAGE_BYTES - 1);
        self.contexts.get(&context).and_then(|c| c.leaves.get(&page)).copied().unwrap_or(0)
    }

    /// Mappings of a context, by device address.
    pub fn mappings(&self, context: u64) -> impl Iterator<Item = &Mapping> {
        self.contexts.get(&context).into_iter().flat_map(|c| c.maps.values())
    }

    /// Segment records of a mapping, one per page.
    pub fn segments(&self, context: u64, iova: u64) -> Vec<Segment> {
        let Some(m) = self.contexts.get(&context).and_then(|c| c.maps.get(&iova)) else { return Vec::new() };
        let pages = m.bytes.div_ceil(rows::PAGE_BYTES);
        let at = |i: u64| iova + i * rows::PAGE_BYTES;
        let phys = |i| self.leaf(context, at(i)) & rows::LEAF_FRAME;
        (0..pages).map(|i| Segment { iova: at(i), phys: phys(i), protection: u64::from(m.protection) }).collect()
    }

    /// Physical address of a device address in a context. `None` is a fault, which is latched unless the engine's status word
    /// marks it as benign.
    pub fn translate(&mut self, context: u64, stream: u32, iova: u64, write: bool, engine_word: u32) -> Option<u64> {
        let leaf = self.leaf(context, iova);
        if leaf & rows::LEAF_VALID != 0 && iova < self.aperture_bytes {
            return Some(leaf & rows::LEAF_FRAME | iova & (rows::PAGE_BYTES - 1));
        }
        if u64::from(engine_word | 0x80) != rows::BENIGN_WORD {
            let page = iova / rows::PAGE_BYTES;
            self.fault.get_or_insert(Fault {
                status: rows::FAULT_STATUS as u32 | stream,
                write,
                stream,
                address: iova as u32,
                l2: (page >> 11) as u32,
                l3: (page & 0x7ff) as u32,
            });
            self.contexts.get_mut(&context).into_iter().flat_map(|c| c.maps.values_mut()).for_each(|m| {
                if m.busy > 0 {
                    m.state = State::Poisoned;
                }
            });
        }
        None
    }

    /// Physical spans of an access of `bytes` bytes at a device address, page by page. An unmapped page is a fault, which is latched;
    /// the error is the first unmapped address.
    pub fn walk(&mut self, context: u64, stream: u32, iova: u64, bytes: u64, write: bool) -> Result<Vec<Span>, u64> {
        let mut spans: Vec<Span> = Vec::with_capacity(1);
        let mut at = 0;
        while at < bytes {
            let address = iova + at;
            let length = (rows::PAGE_BYTES - address % rows::PAGE_BYTES).min(bytes - at);
            let phys = self.translate(context, stream, address, write, 0).ok_or(address)?;
            match spans.last_mut() {
                Some(last) if last.phys + last.bytes == phys => last.bytes += length,
                _ => spans.push(Span { at, phys, bytes: length }),
            }
            at += length;
        }
        self.translated += bytes;
        Ok(spans)
    }

    /// Forgets the physical address of a surface that no longer exists.
    pub fn forget(&mut self, surface: u32) {
        self.places.remove(&surface);
    }

    /// Clears the pages of a context's mappings, or of one surface's, even if requests use them; the next access faults,
    /// the next request maps them again. Returns the number of mappings.
    pub fn unmap_now(&mut self, context: u64, surface: Option<u32>) -> usize {
        let Some(inside) = self.contexts.get_mut(&context) else { return 0 };
        let wanted = |m: &&Mapping| m.state != State::Evicted && surface.is_none_or(|s| s == m.surface);
        let all: Vec<u64> = inside.maps.values().filter(wanted).map(|m| m.iova).collect();
        for &iova in &all {
            inside.clear(iova);
            match inside.maps.get_mut(&iova) {
                Some(m) if m.busy > 0 => m.cleared = true,
                _ => drop(inside.maps.remove(&iova)),
            }
        }
        all.len()
    }

    /// Number of mappings in all contexts, translated bytes, and number of evictions.
    pub fn counts(&self) -> (usize, u64, u64) {
        let live = |c: &Context| c.maps.values().filter(|m| m.state != State::Evicted).count();
        (self.contexts.values().map(live).sum(), self.translated, self.evicted)
    }

    /// Number of uses after which an idle mapping may be evicted.
    pub fn ttl(&self) -> Option<u64> {
        self.ttl
    }

    /// The latched fault.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Recovery: clears the latched fault and releases poisoned mappings.
    pub fn recover(&mut self) -> Option<Fault> {
        for context in self.contexts.values_mut() {
            for m in context.maps.values_mut().filter(|m| m.state == State::Poisoned) {
                (m.state, m.busy) = (State::Idle, 0);
            }
            context.maps.retain(|_, m| m.busy > 0 || !m.cleared);
        }
        self.fault.take()
    }
}

impl Context {
    fn gap(&self, size: u64, limit: u64) -> Option<u64> {
        let mut at = 0;
        for m in self.maps.values().filter(|m| m.state != State::Evicted) {
            if m.iova >= at + size {
                return Some(at);
            }
            at = at.max(m.iova + m.bytes.next_multiple_of(rows::PAGE_BYTES));
        }
        (at + size <= limit).then_some(at)
    }

    fn clear(&mut self, iova: u64) {
        let Some(m) = self.maps.get(&iova) else { return };
        let end = iova + m.bytes.next_multiple_of(rows::PAGE_BYTES);
        let pages: Vec<u64> = self.leaves.range(iova..end).map(|(&at, _)| at).collect();
        for at in pages {
            self.leaves.remove(&at);
        }
    }
}

/// Rebase of device addresses, set once at program creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebase {
    /// First device address.
    pub dva_base: u64,
    /// Bytes of the region.
    pub region_bytes: u64,
    /// Base address that the region is mapped at.
    pub mapped_base: u64,
}

impl Rebase {
    /// The runtime address of a device address, which must be in the region.
    pub fn apply(&self, iova: u64) -> Result<u64, Code> {
        let offset = iova.checked_sub(self.dva_base).filter(|&o| o < self.region_bytes).ok_or(Code::BAD_ARGUMENT)?;
        self.mapped_base.checked_add(offset).ok_or(Code::BAD_ARGUMENT)
    }
}

/// Table address in a base register; `None` if its valid bit is clear.
pub fn table_base(register: u32) -> Option<u64> {
    let word = u64::from(register);
    (word & rows::BASE_VALID != 0).then_some((word & !rows::BASE_VALID) << rows::BASE_SHIFT)
}
