//! Memory behind the base address registers, and the on-chip tile memory. Bounds and first writes are tracked.

use crate::fault::FaultKind;
use crate::number;
use anemone_facts::Field;
use anemone_program::{BAR_COUNT, Element};
use half::f16;
use half::slice::HalfBitsSliceExt;

/// A contiguous piece of memory. Tracks which halfwords have been written when asked to.
#[derive(Clone, Debug)]
pub struct Region {
    name: String,
    /// 8-byte words, so that halfword views are always aligned.
    storage: Vec<u64>,
    bytes: usize,
    /// One bit per halfword, set once written; `None` = everything counts as written.
    written: Option<Vec<u64>>,
}

impl Region {
    /// A region with contents, all of it readable.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Region {
        let mut region =
            Region { name: name.into(), storage: vec![0; bytes.len().div_ceil(8)], bytes: bytes.len(), written: None };
        region.bytes_mut().copy_from_slice(bytes);
        region
    }

    /// A region that must be written before it is read.
    pub fn unwritten(name: impl Into<String>, bytes: usize) -> Region {
        Region {
            name: name.into(),
            storage: vec![0; bytes.div_ceil(8)],
            bytes,
            written: Some(vec![0; bytes.div_ceil(128)]),
        }
    }

    /// Contents.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.storage)[..self.bytes]
    }

    /// Contents, to be filled by the caller; everything counts as written afterwards.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.written = None;
        &mut bytemuck::cast_slice_mut(&mut self.storage)[..self.bytes]
    }

    /// Makes everything unwritten again.
    pub(crate) fn forget(&mut self) {
        let bits = self.written.get_or_insert_with(|| vec![0; self.bytes.div_ceil(128)]);
        bits.fill(0);
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether every byte of a range has been written.
    pub fn is_written(&self, address: u64, bytes: u64) -> bool {
        let Some(bits) = &self.written else { return true };
        let (first, last) = (address as usize / 2, (address + bytes).div_ceil(2) as usize);
        words_of(first, last).all(|(word, mask)| bits.get(word).is_some_and(|w| w & mask == mask))
    }

    fn range(&self, field: Field, address: u64, bytes: u64) -> Result<std::ops::Range<usize>, FaultKind> {
        match address.checked_add(bytes) {
            Some(end) if end <= self.bytes as u64 => Ok(address as usize..end as usize),
            _ => Err(FaultKind::Stray { field, region: self.name.clone(), address, bytes, limit: self.bytes as u64 }),
        }
    }

    /// Halfwords at an even address, checked for bounds and for having been written.
    pub(crate) fn read(&self, field: Field, address: u64, elements: usize) -> Result<&[f16], FaultKind> {
        let bytes = 2 * elements as u64;
        let range = self.range(field, address, bytes)?;
        if !self.is_written(address, bytes) {
            return Err(FaultKind::Unwritten { field, region: self.name.clone(), address, bytes });
        }
        let halfwords: &[u16] = bytemuck::cast_slice(&self.storage);
        Ok(halfwords[range.start / 2..range.end / 2].reinterpret_cast())
    }

    /// Bytes at any address, checked as in [`Region::read`].
    pub(crate) fn read_bytes(&self, field: Field, address: u64, bytes: usize) -> Result<&[u8], FaultKind> {
        let range = self.range(field, address, bytes as u64)?;
        if !self.is_written(address, bytes as u64) {
            return Err(FaultKind::Unwritten { field, region: self.name.clone(), address, bytes: bytes as u64 });
        }
        Ok(&self.bytes()[range])
    }

    /// Halfwords at an even address, to be overwritten.
    pub(crate) fn write(&mut self, field: Field, address: u64, elements: usize) -> Result<&mut [f16], FaultKind> {
        let range = self.range(field, address, 2 * elements as u64)?;
        let (first, last) = (range.start / 2, range.end / 2);
        if let Some(bits) = &mut self.written {
            words_of(first, last).for_each(|(word, mask)| bits[word] |= mask);
        }
        let halfwords: &mut [u16] = bytemuck::cast_slice_mut(&mut self.storage);
        Ok(halfwords[first..last].reinterpret_cast_mut())
    }
}

impl Region {
    /// Elements of any format, widened; checked as in [`Region::read`].
    pub(crate) fn read_row(
        &self,
        field: Field,
        address: u64,
        element: Element,
        row: &mut [f32],
    ) -> Result<(), FaultKind> {
        match element {
            Element::Float16 => number::widen_row(self.read(field, address, row.len())?, row),
            Element::Int8 | Element::Uint8 => {
                number::widen_bytes(self.read_bytes(field, address, row.len())?, element, row);
            }
        }
        Ok(())
    }

    /// Elements of any format, rounded on the way in. A byte marks its halfword as written.
    pub(crate) fn write_row(
        &mut self,
        field: Field,
        address: u64,
        element: Element,
        row: &[f32],
    ) -> Result<(), FaultKind> {
        match element {
            Element::Float16 => number::round_row(row, self.write(field, address, row.len())?),
            Element::Int8 | Element::Uint8 => {
                let range = self.range(field, address, row.len() as u64)?;
                if let Some(bits) = &mut self.written {
                    words_of(range.start / 2, range.end.div_ceil(2)).for_each(|(word, mask)| bits[word] |= mask);
                }
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.storage);
                number::round_bytes(row, element, &mut bytes[range]);
            }
        }
        Ok(())
    }
}

/// The 64-bit words that hold bits `first..last`, with the bits' mask in each.
fn words_of(first: usize, last: usize) -> impl Iterator<Item = (usize, u64)> {
    let mut i = first;
    std::iter::from_fn(move || {
        (i < last).then(|| {
            let (word, bit) = (i / 64, i % 64);
            let n = (64 - bit).min(last - i);
            let ones = if n == 64 { u64::MAX } else { (1 << n) - 1 };
            i += n;
            (word, ones << bit)
        })
    })
}

/// The memory that a program runs against: one region per base address register.
#[derive(Clone, Debug)]
pub struct Memory {
    regions: Vec<Option<Region>>,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { regions: (0..BAR_COUNT).map(|_| None).collect() }
    }
}

impl Memory {
    /// Memory with nothing bound.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Memory for a program: its stream and kernel bound, scratch and ports allocated and still unwritten.
    pub fn for_program(program: &anemone_program::Program) -> Memory {
        use anemone_program::Program;
        let mut memory = Memory::new();
        memory.bind(Program::STREAM_BAR, &program.stream);
        memory.bind(Program::KERNEL_BAR, &program.kernel);
        if program.scratch_bytes > 0 {
            memory.allocate(Program::SCRATCH_BAR, program.scratch_bytes as usize);
        }
        for port in &program.ports {
            memory.allocate(port.bar, port.bytes as usize);
        }
        memory
    }

    /// Binds contents to a base register.
    pub fn bind(&mut self, bar: u8, bytes: &[u8]) {
        self.put(bar, Region::from_bytes(format!("BAR {bar}"), bytes));
    }

    /// Binds unwritten memory to a base register.
    pub fn allocate(&mut self, bar: u8, bytes: usize) {
        self.put(bar, Region::unwritten(format!("BAR {bar}"), bytes));
    }

    fn put(&mut self, bar: u8, region: Region) {
        if let Some(slot) = self.regions.get_mut(bar as usize) {
            *slot = Some(region);
        }
    }

    /// The region behind a base register.
    pub fn region(&self, bar: u8) -> Option<&Region> {
        self.regions.get(bar as usize)?.as_ref()
    }

    /// The region behind a base register, writable.
    pub fn region_mut(&mut self, bar: u8) -> Option<&mut Region> {
        self.regions.get_mut(bar as usize)?.as_mut()
    }
}
