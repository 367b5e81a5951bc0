//! Memory behind the base address registers, and tile memory, with bounds checks and tracking of written halfwords.

use crate::fault::FaultKind;
use crate::numerics::element_type;
use anemone_facts::Field;
use anemone_kernels::num;
use anemone_kernels::workers::BounceBuffers;
use anemone_program::{BAR_COUNT, Element};
use bytes::Bytes;
use half::f16;
use half::slice::HalfBitsSliceExt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A contiguous memory region. Tracks which halfwords have been written, unless all count as written.
#[derive(Clone, Debug)]
pub struct Region {
    name: String,
    storage: Storage,
    bytes: usize,
    /// One bit per halfword, set once it is written; `None` if everything counts as written.
    written: Option<Vec<u64>>,
    /// True while `written` is neither checked nor updated, in runs whose accesses are known to be valid.
    trusted: bool,
    /// Version of `written`: a new number whenever it may have changed. Unique over all regions but copies.
    stamp: u64,
}

/// Contents of a region.
#[derive(Clone, Debug)]
enum Storage {
    /// 8-byte words, so that halfword views are always aligned.
    Own(Vec<u64>),
    /// Bytes shared with a program, aligned to halfwords; copied on the first write.
    Shared(Bytes),
}

impl Storage {
    fn of(bytes: &[u8]) -> Storage {
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Storage::Own(words)
    }

    /// All bytes of the storage, at least those of the region.
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Own(words) => bytemuck::cast_slice(words),
            Storage::Shared(bytes) => bytes,
        }
    }

    fn halfwords(&self) -> &[u16] {
        let bytes = self.bytes();
        bytemuck::cast_slice(&bytes[..bytes.len() & !1])
    }

    fn words_mut(&mut self) -> &mut [u64] {
        if let Storage::Shared(bytes) = self {
            *self = Storage::of(bytes);
        }
        match self {
            Storage::Own(words) => words,
            Storage::Shared(_) => &mut [],
        }
    }
}

fn next_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed)
}

impl Region {
    /// A region with contents that count as written.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Region {
        Region::holding(name, Storage::of(bytes), bytes.len())
    }

    /// [`Region::from_bytes`] without a copy: the bytes are copied on the first write, or at once if they are not aligned.
    pub fn sharing(name: impl Into<String>, bytes: &Bytes) -> Region {
        let aligned = bytes.as_ptr().addr().is_multiple_of(align_of::<u16>());
        let storage = if aligned { Storage::Shared(bytes.clone()) } else { Storage::of(bytes) };
        Region::holding(name, storage, bytes.len())
    }

    fn holding(name: impl Into<String>, storage: Storage, bytes: usize) -> Region {
        Region { name: name.into(), storage, bytes, written: None, trusted: false, stamp: next_stamp() }
    }

    /// A region that must be written before it is read.
    pub fn unwritten(name: impl Into<String>, bytes: usize) -> Region {
        Region {
            name: name.into(),
            storage: Storage::Own(vec![0; bytes.div_ceil(8)]),
            bytes,
            written: Some(vec![0; bytes.div_ceil(128)]),
            trusted: false,
            stamp: next_stamp(),
        }
    }

    /// Contents.
    pub fn bytes(&self) -> &[u8] {
        &self.storage.bytes()[..self.bytes]
    }

    /// Mutable contents; everything counts as written afterwards.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.written.take().is_some() {
            self.stamp = next_stamp();
        }
        &mut bytemuck::cast_slice_mut(self.storage.words_mut())[..self.bytes]
    }

    /// Marks everything as unwritten.
    pub(crate) fn forget(&mut self) {
        let bits = self.written.get_or_insert_with(|| vec![0; self.bytes.div_ceil(128)]);
        bits.fill(0);
        self.stamp = next_stamp();
    }

    /// Suspends or resumes the tracking and checking of written halfwords.
    pub(crate) fn set_trusted(&mut self, trusted: bool) {
        self.trusted = trusted;
    }

    /// Returns true if accesses are not checked one by one.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Changes the length of a region of its own memory; new bytes are zeros that count as unwritten.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let Storage::Own(words) = &mut self.storage else { return };
        if bytes != self.bytes {
            words.resize(bytes.div_ceil(8), 0);
            if let Some(written) = &mut self.written {
                written.resize(bytes.div_ceil(128), 0);
            }
            self.bytes = bytes;
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true for a region without bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns true if every byte of a range has been written.
    pub fn is_written(&self, address: u64, bytes: u64) -> bool {
        let Some(bits) = &self.written else { return true };
        let (first, last) = (address as usize / 2, (address + bytes).div_ceil(2) as usize);
        words_of(first, last).all(|(word, mask)| bits.get(word).is_some_and(|w| w & mask == mask))
    }

    #[inline]
    pub(crate) fn halfwords(&self) -> &[f16] {
        self.storage.halfwords()[..self.bytes / 2].reinterpret_cast()
    }

    #[inline]
    fn halfwords_mut(&mut self) -> &mut [f16] {
        let halfwords: &mut [u16] = bytemuck::cast_slice_mut(self.storage.words_mut());
        halfwords[..self.bytes / 2].reinterpret_cast_mut()
    }

    /// Copies bytes from the same addresses of another region, if both contain them. Written halfwords are not tracked.
    pub(crate) fn copy_from(&mut self, from: &Region, bytes: Range<usize>) {
        let to: &mut [u8] = bytemuck::cast_slice_mut(self.storage.words_mut());
        if let Some((to, from)) = to.get_mut(bytes.clone()).zip(from.bytes().get(bytes)) {
            to.copy_from_slice(from);
        }
    }

    fn range(&self, field: Field, address: u64, bytes: u64) -> Result<std::ops::Range<usize>, FaultKind> {
        match address.checked_add(bytes) {
            Some(end) if end <= self.bytes as u64 => Ok(address as usize..end as usize),
            _ => Err(FaultKind::Stray { field, region: self.name.clone(), address, bytes, limit: self.bytes as u64 }),
        }
    }

    /// Halfwords at an even address; checks bounds and that they have been written.
    pub(crate) fn read(&self, field: Field, address: u64, elements: usize) -> Result<&[f16], FaultKind> {
        let bytes = 2 * elements as u64;
        let range = self.range(field, address, bytes)?;
        if !self.trusted && !self.is_written(address, bytes) {
            return Err(FaultKind::Unwritten { field, region: self.name.clone(), address, bytes });
        }
        Ok(self.storage.halfwords()[range.start / 2..range.end / 2].reinterpret_cast())
    }

    /// Bytes at any address, checked as in [`Region::read`].
    pub(crate) fn read_bytes(&self, field: Field, address: u64, bytes: usize) -> Result<&[u8], FaultKind> {
        let range = self.range(field, address, bytes as u64)?;
        if !self.trusted && !self.is_written(address, bytes as u64) {
            return Err(FaultKind::Unwritten { field, region: self.name.clone(), address, bytes: bytes as u64 });
        }
        Ok(&self.bytes()[range])
    }

    /// Halfwords at an even address to overwrite; checks bounds and marks them as written.
    pub(crate) fn write(&mut self, field: Field, address: u64, elements: usize) -> Result<&mut [f16], FaultKind> {
        let range = self.range(field, address, 2 * elements as u64)?;
        let (first, last) = (range.start / 2, range.end / 2);
        if let Some(bits) = self.written.as_mut().filter(|_| !self.trusted) {
            for (word, mask) in words_of(first, last) {
                bits[word] |= mask;
            }
        }
        let halfwords: &mut [u16] = bytemuck::cast_slice_mut(self.storage.words_mut());
        Ok(halfwords[first..last].reinterpret_cast_mut())
    }
}

/// Written state of a region: its size in bytes, and a bit per written halfword (`None` = all); `None` if nothing is bound.
type State = Option<(usize, Option<Vec<u64>>)>;

/// Written state of all regions: sizes, and written halfwords.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot(Vec<State>);

/// Version of the written state of every region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<Option<u64>>);

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
            Element::Float16 => num::widen_row(self.read(field, address, row.len())?, row),
            Element::Int8 | Element::Uint8 => {
                num::widen_bytes(self.read_bytes(field, address, row.len())?, element_type(element), row);
            }
        }
        Ok(())
    }

    /// Stores elements of any format, rounded from fp32. A byte marks its halfword as written.
    pub(crate) fn write_row(
        &mut self,
        field: Field,
        address: u64,
        element: Element,
        row: &[f32],
    ) -> Result<(), FaultKind> {
        match element {
            Element::Float16 => num::round_row(row, self.write(field, address, row.len())?),
            Element::Int8 | Element::Uint8 => {
                let range = self.range(field, address, row.len() as u64)?;
                if let Some(bits) = &mut self.written {
                    for (word, mask) in words_of(range.start / 2, range.end.div_ceil(2)) {
                        bits[word] |= mask;
                    }
                }
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.storage.words_mut());
                num::round_bytes(row, element_type(element), &mut bytes[range]);
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// Size of a region in bytes, and a bit per written halfword; `None` if nothing is bound.
    pub(crate) fn region(&mut self, bar: u8) -> Option<&mut (usize, Option<Vec<u64>>)> {
        self.0.get_mut(usize::from(bar))?.as_mut()
    }

    /// Returns true if nothing of a region has been written, or nothing is bound.
    #[inline]
    pub(crate) fn is_blank(&self, bar: u8) -> bool {
        let state = self.0.get(usize::from(bar)).and_then(|state| state.as_ref());
        state.is_none_or(|(_, written)| written.as_ref().is_some_and(|bits| bits.iter().all(|&word| word == 0)))
    }
}

/// The 64-bit words that contain bits `first..last`, with the mask of these bits in each word.
pub(crate) fn words_of(first: usize, last: usize) -> impl Iterator<Item = (usize, u64)> {
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
    /// Memory without any region.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Memory for a program: its stream and kernel bound, scratch and ports allocated and still unwritten.
    pub fn for_program(program: &anemone_program::Program) -> Memory {
        use anemone_program::Program;
        let mut memory = Memory::new();
        memory.bind(Program::STREAM_BAR, &program.stream);
        memory.share(Program::KERNEL_BAR, &program.kernel);
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

    /// Binds shared contents to a base register without a copy; see [`Region::sharing`].
    pub fn share(&mut self, bar: u8, bytes: &Bytes) {
        self.put(bar, Region::sharing(format!("BAR {bar}"), bytes));
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

    /// The current written state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(self.regions.iter().map(|r| r.as_ref().map(|r| (r.bytes, r.written.clone()))).collect())
    }

    /// Returns true if all sizes equal those of a snapshot, and everything it has as written is written.
    pub(crate) fn covers(&self, snapshot: &Snapshot) -> bool {
        self.regions.iter().zip(&snapshot.0).all(|(region, state)| match (region, state) {
            (None, None) => true,
            (Some(region), Some((bytes, written))) => {
                region.bytes == *bytes
                    && match (&region.written, written) {
                        (None, _) => true,
                        (Some(now), None) => now.iter().all(|&w| w == u64::MAX),
                        (Some(now), Some(then)) => now.iter().zip(then).all(|(now, then)| now & then == *then),
                    }
            }
            _ => false,
        })
    }

    /// Stamps of all regions. Equal stamps imply an equal written state.
    pub(crate) fn stamps(&self) -> Stamps {
        Stamps(self.regions.iter().map(|region| region.as_ref().map(|r| r.stamp)).collect())
    }

    /// Gives every region a new stamp and returns the stamps.
    pub(crate) fn restamp(&mut self) -> Stamps {
        self.regions.iter_mut().flatten().for_each(|region| region.stamp = next_stamp());
        self.stamps()
    }

    /// Suspends or resumes checks and tracking of written halfwords.
    pub(crate) fn set_trusted(&mut self, trusted: bool) {
        self.regions.iter_mut().flatten().for_each(|r| r.set_trusted(trusted));
    }

    /// Marks everything as written that a snapshot has as written.
    pub(crate) fn mark(&mut self, snapshot: &Snapshot) {
        for (region, state) in self.regions.iter_mut().zip(&snapshot.0) {
            let (Some(region), Some((_, then))) = (region, state) else { continue };
            match (&mut region.written, then) {
                (Some(now), Some(then)) => now.iter_mut().zip(then).for_each(|(now, then)| *now |= then),
                (written, _) => *written = None,
            }
        }
    }
}

/// Location of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Memory behind a base register.
    Bar(u8),
    /// Tile memory.
    Tile,
}

impl Home {
    fn index(self) -> usize {
        match self {
            Home::Bar(bar) => usize::from(bar).min(BAR_COUNT - 1),
            Home::Tile => BAR_COUNT,
        }
    }
}

/// Views of halfword ranges: `from` to read, and one to write. A source that overlaps the destination is copied to `aside` first. `None`
/// if a range is out of bounds.
#[inline]
pub(crate) fn views<'m, const N: usize>(
    memory: &'m mut Memory,
    tile: &'m mut Region,
    from: [(Home, Range<usize>); N],
    to: (Home, Range<usize>),
    aside: &'m mut BounceBuffers,
) -> Option<([&'m [f16]; N], &'m mut [f16])> {
    let mut sources: [&[f16]; N] = [&[]; N];
    let written = view_all(memory, tile, &from, to, aside, &mut sources)?;
    Some((sources, written))
}

/// [`views`] of any number of sources.
fn view_all<'m>(
    memory: &'m mut Memory,
    tile: &'m mut Region,
    from: &[(Home, Range<usize>)],
    (home, to): (Home, Range<usize>),
    aside: &'m mut BounceBuffers,
    sources: &mut [&'m [f16]],
) -> Option<&'m mut [f16]> {
    let overlaps = |(at, range): &(Home, Range<usize>)| *at == home && range.start < to.end && to.start < range.end;
    for (aside, (_, range)) in aside.iter_mut().zip(from).filter(|(_, from)| overlaps(from)) {
        let region = match home {
            Home::Bar(bar) => memory.region(bar)?,
            Home::Tile => &*tile,
        };
        aside.clear();
        aside.extend_from_slice(region.halfwords().get(range.clone())?);
    }
    // Regions before and behind the one that is written, and tile memory unless it is that one.
    let (regions_before, own, regions_behind, tile) = match home {
        Home::Tile => (&*memory.regions, tile, &[][..], None),
        Home::Bar(_) => {
            let (before, rest) = memory.regions.split_at_mut_checked(home.index())?;
            let (own, behind) = rest.split_first_mut()?;
            (&*before, own.as_mut()?, &*behind, Some(&*tile))
        }
    };
    let other = |of: Home| match of {
        Home::Tile => tile,
        Home::Bar(_) => match of.index().checked_sub(regions_before.len() + 1) {
            Some(at) => regions_behind.get(at)?.as_ref(),
            None => regions_before.get(of.index())?.as_ref(),
        },
    };
    let (before, rest) = own.halfwords_mut().split_at_mut_checked(to.start)?;
    let (written, after) = rest.split_at_mut_checked(to.len())?;
    let (before, after) = (&*before, &*after);
    for ((source, part), aside) in sources.iter_mut().zip(from).zip(aside) {
        let (from_home, range) = (part.0, part.1.clone());
        *source = match from_home {
            _ if overlaps(part) => aside,
            _ if from_home == home && range.end <= to.start => before.get(range)?,
            _ if from_home == home => after.get(range.start.checked_sub(to.end)?..range.end - to.end)?,
            _ => other(from_home)?.halfwords().get(range)?,
        };
    }
    Some(written)
}
