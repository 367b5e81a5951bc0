//! Mapped memory: a sealed memfd that several processes read and write through relaxed atomics, and files that are only
//! read.

#![allow(unsafe_code)]

use crate::error::{Error, Result};
use memmap2::{Mmap, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes shared by descriptor. The size is sealed: no peer can cut the memory off under a reader.
#[derive(Debug)]
pub struct Shared {
    map: MmapRaw,
    file: OwnedFd,
    bytes: usize,
}

impl Shared {
    /// Most bytes of one buffer.
    pub const MAX_BYTES: u64 = 1 << 32;

    /// New memory, all zero. At least one byte.
    pub fn new(bytes: u64) -> Result<Shared> {
        if bytes == 0 || bytes > Shared::MAX_BYTES {
            return Err(Error::Size { what: "shared buffer".into(), found: bytes, expected: Shared::MAX_BYTES });
        }
        let fail = |what| move |e: rustix::io::Errno| Error::system(what, "", e.into());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("ane-buffer", flags).map_err(fail("memfd_create"))?;
        ftruncate(&file, bytes.next_multiple_of(8)).map_err(fail("ftruncate"))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(fail("seal"))?;
        Shared::map(file, bytes)
    }

    /// Memory of a descriptor that a peer passed. Refused unless its size is sealed and holds `bytes`.
    pub fn adopt(file: OwnedFd, bytes: u64) -> Result<Shared> {
        let fail = |what| move |e: rustix::io::Errno| Error::system(what, "", e.into());
        let seals = fcntl_get_seals(&file).map_err(fail("seals of a passed descriptor"))?;
        let have = fstat(&file).map_err(fail("size of a passed descriptor"))?.st_size as u64;
        let fits = bytes > 0 && bytes <= Shared::MAX_BYTES && bytes.next_multiple_of(8) <= have;
        if !fits || !seals.contains(SealFlags::SHRINK) {
            return Err(Error::Size { what: "passed buffer".into(), found: have, expected: bytes });
        }
        Shared::map(file, bytes)
    }

    fn map(file: OwnedFd, bytes: u64) -> Result<Shared> {
        let length = bytes.next_multiple_of(8) as usize;
        let map = MmapOptions::new().len(length).map_raw(&file).map_err(|e| Error::system("mmap", "", e))?;
        Ok(Shared { map, file, bytes: bytes as usize })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: a buffer has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The descriptor, to be passed on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Address of the first byte, for callers beyond this language. It holds as long as the buffer lives.
    pub fn address(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page aligned, lives as long as `self`, has a whole number of 8-byte words (its length is
        // rounded up and the file's size is sealed), and is only accessed through atomics here; writers in other
        // processes touch the same words as hardware would.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.map.len() / 8) }
    }

    /// Copies out, from the start. Bytes beyond the shorter of both stay.
    pub fn read(&self, to: &mut [u8]) {
        let n = to.len().min(self.bytes);
        let words = self.words();
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

    /// Copies in, from the start. Bytes beyond the shorter of both stay.
    pub fn write(&self, from: &[u8]) {
        let n = from.len().min(self.bytes);
        let words = self.words();
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

    /// All bytes, copied.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        self.read(&mut out);
        out
    }
}

/// The bytes of a file, read only: mapped where the file is large, so that weights are never copied and pages that nobody
/// looks at are never read; else read at once.
///
/// Who cuts a mapped file short while it is in use ends this process by a signal, as with any program that maps its
/// inputs. Files that are replaced by renaming, as everything written here is, are not concerned: the map keeps the old
/// file.
#[derive(Debug)]
pub struct FileBytes(Kept);

#[derive(Debug)]
enum Kept {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl FileBytes {
    /// Least bytes of a file that is mapped. Below, a read costs less than the faults of a map.
    pub const MAPPED_BYTES: u64 = 1 << 20;

    /// The bytes of the file. What is no regular file (a pipe, a device) is read to its end.
    pub fn open(path: &Path) -> std::io::Result<FileBytes> {
        let mut file = File::open(path)?;
        let known = file.metadata()?;
        if known.is_file() && known.len() >= FileBytes::MAPPED_BYTES {
            // SAFETY: the map is private and read only, and is seen as bytes alone, for which every value is valid. All
            // that is read of it is checked against the map's own length, which does not change. Another process may
            // write into the file meanwhile: such bytes are any bytes of a damaged file to the readers, which keep no
            // conclusion about bytes that they do not copy. A file cut short is the caller's risk that the type states.
            let map = unsafe { MmapOptions::new().map(&file) }?;
            return Ok(FileBytes(Kept::Mapped(map)));
        }
        let mut bytes = Vec::with_capacity(known.len().min(FileBytes::MAPPED_BYTES) as usize);
        file.read_to_end(&mut bytes)?;
        Ok(FileBytes(Kept::Read(bytes)))
    }

    /// Whether the file is mapped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_mapped_and_outlive_their_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            path
        };
        let long: Vec<u8> = (0..FileBytes::MAPPED_BYTES + 3).map(|i| i as u8).collect();
        let (large, small) = (at("large", &long), at("small", b"abc"));
        let mapped = FileBytes::open(&large).expect("opened");
        let read = FileBytes::open(&small).expect("opened");
        assert!(mapped.is_mapped() && !read.is_mapped());
        std::fs::rename(&small, &large).expect("replaced");
        assert_eq!(mapped.as_ref(), long);
        assert_eq!(read.as_ref(), b"abc");
        assert!(FileBytes::open(folder.path()).is_err());
        assert_eq!(FileBytes::open(&at("empty", b"")).expect("opened").as_ref(), b"");
        assert_eq!(FileBytes::open(Path::new("/dev/null")).expect("opened").as_ref(), b"");
    }

    #[test]
    fn odd_lengths_survive() {
        let shared = Shared::new(13).expect("memory");
        let bytes: Vec<u8> = (1..=13).collect();
        shared.write(&bytes);
        assert_eq!(shared.to_vec(), bytes);
        shared.write(&[9, 9, 9]);
        assert_eq!(&shared.to_vec()[..5], &[9, 9, 9, 4, 5]);
        assert!(Shared::new(0).is_err());
    }

    #[test]
    fn the_same_memory_through_a_descriptor() {
        let a = Shared::new(100).expect("memory");
        let file = a.descriptor().try_clone_to_owned().expect("descriptor");
        let b = Shared::adopt(file, 100).expect("sealed");
        a.write(&[7; 100]);
        assert_eq!(b.to_vec(), [7; 100]);
        let file = a.descriptor().try_clone_to_owned().expect("descriptor");
        assert!(Shared::adopt(file, 4096).is_err());
    }
}
