//! Memory that several processes may map: a sealed memfd, read and written through relaxed atomics.

#![allow(unsafe_code)]

use crate::error::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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

#[cfg(test)]
mod tests {
    use super::*;

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
