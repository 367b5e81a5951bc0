//! Mapped memory: buffers that are read and written with relaxed atomics, by several processes if the system shares
//! them, and read-only files.

#![allow(unsafe_code)]

use super::system::Memory;
use super::{BorrowedDescriptor, Descriptor};
use crate::error::{Error, Result};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes shared by descriptor, if the system supports that. The size is sealed: no peer can truncate the memory under a reader.
#[derive(Debug)]
pub struct Shared {
    memory: Memory,
    bytes: usize,
}

impl Shared {
    /// Largest buffer in bytes.
    pub const MAX_BYTES: u64 = 1 << 32;

    /// New memory, all zero. At least one byte.
    pub fn new(bytes: u64) -> Result<Shared> {
        Shared::sized(bytes, "shared buffer", Memory::new)
    }

    /// Memory of a descriptor passed by a peer. Refused unless its size is sealed and at least `bytes`.
    pub fn adopt(file: Descriptor, bytes: u64) -> Result<Shared> {
        Shared::sized(bytes, "passed buffer", |whole| Memory::adopt(file, whole))
    }

    /// Memory rounded up to whole words.
    fn sized(bytes: u64, what: &str, memory: impl FnOnce(u64) -> Result<Memory>) -> Result<Shared> {
        if bytes == 0 || bytes > Shared::MAX_BYTES {
            return Err(Error::Size { what: what.into(), found: bytes, expected: Shared::MAX_BYTES });
        }
        Ok(Shared { memory: memory(bytes.next_multiple_of(8))?, bytes: bytes as usize })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Always false: a buffer has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The descriptor, to be passed on.
    pub fn descriptor(&self) -> Result<BorrowedDescriptor<'_>> {
        self.memory.descriptor()
    }

    /// Address of the first byte, for foreign callers. It is valid as long as the buffer lives.
    pub fn address(&self) -> *mut u8 {
        self.memory.mapping().as_mut_ptr()
    }

    fn words(&self) -> &[AtomicU64] {
        let map = self.memory.mapping();
        // SAFETY: the mapping is page aligned, lives as long as `self`, has a whole number of 8-byte words (its length is
        // rounded up and the file's size is sealed), and is only accessed through atomics here; writers in other
        // processes touch the same words as hardware would.
        unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU64>(), map.len() / 8) }
    }

    /// Copies out from a byte offset, a multiple of 8. Bytes beyond the shorter of both are unchanged.
    pub fn read_at(&self, offset: usize, to: &mut [u8]) {
        let n = to.len().min(self.bytes.saturating_sub(offset));
        let words = self.words().get(offset / 8..).unwrap_or(&[]);
        let mut chunks = to[..n].chunks_exact_mut(8);
        for (chunk, word) in chunks.by_ref().zip(words) {
            chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let rest = chunks.into_remainder();
        if let Some(word) = words.get(n / 8) {
            let bytes = word.load(Relaxed).to_le_bytes();
            rest.copy_from_slice(&bytes[..rest.len()]);
        }
    }

    /// Copies out from the start. Bytes beyond the shorter of both are unchanged.
    pub fn read(&self, to: &mut [u8]) {
        self.read_at(0, to);
    }

    /// Copies in from the start. Bytes beyond the shorter of both are unchanged.
    pub fn write(&self, from: &[u8]) {
        self.write_at(0, from);
    }

    /// Copies in from a byte offset, a multiple of 8. Bytes beyond the shorter of both are unchanged.
    pub fn write_at(&self, offset: usize, from: &[u8]) {
        let n = from.len().min(self.bytes.saturating_sub(offset));
        let words = self.words().get(offset / 8..).unwrap_or(&[]);
        let chunks = from[..n].chunks_exact(8);
        let rest = chunks.remainder();
        for (chunk, word) in chunks.zip(words) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
        if let Some(word) = words.get(n / 8).filter(|_| !rest.is_empty()) {
            let mut bytes = word.load(Relaxed).to_le_bytes();
            bytes[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
    }

    /// A copy of all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        self.read(&mut out);
        out
    }
}

/// The bytes of a file, read-only: mapped if the file is large, so that weights are never copied and untouched pages
/// are never read; else read at once.
///
/// Truncating a mapped file while it is in use ends this process by a signal, as with any program that maps its inputs. Files
/// that are replaced by renaming, like all files written here, are safe: the map keeps the old file.
#[derive(Debug)]
pub struct FileBytes(Kept);

#[derive(Debug)]
enum Kept {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    /// Smallest size in bytes of a mapped file: below it, a read costs less than the page faults of a map.
    pub const MAPPED_BYTES: u64 = 1 << 20;

    /// The bytes of a file. A pipe or a device is read to its end.
    pub fn open(path: &Path) -> std::io::Result<FileBytes> {
        let mut file = File::open(path)?;
        let known = file.metadata()?;
        if known.is_file() && known.len() >= FileBytes::MAPPED_BYTES {
            // SAFETY: the map is private and read-only, and is accessed as bytes only, for which every value is valid. All
            // reads are checked against the map's own length, which does not change. Another process may
            // write into the file meanwhile: to the readers such bytes are those of a damaged file, and readers keep no
            // conclusion about bytes that they do not copy. The type's documentation states the risk of truncation.
            let map = unsafe { MmapOptions::new().map(&file) }?;
            return Ok(FileBytes(Kept::Mapped(map)));
        }
        let mut bytes = Vec::with_capacity(known.len().min(FileBytes::MAPPED_BYTES) as usize);
        file.read_to_end(&mut bytes)?;
        Ok(FileBytes(Kept::Read(bytes)))
    }

    /// Releases the pages that were read so far, if the system can; later accesses read them from the file again.
    pub fn release(&self) {
        #[cfg(unix)]
        if let Kept::Mapped(map) = &self.0 {
            // SAFETY: the map is private, read-only and never written: a released page reads the same from the
            // file. An error leaves the pages in memory.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }

    /// Returns true if the file is mapped.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Kept::Mapped(_))
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Kept::Mapped(map) => map,
            Kept::Read(bytes) => bytes,
        }
    }
}
