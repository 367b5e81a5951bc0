//! Linux: sealed memfds, Unix sockets with descriptors, pidfds, landlock.

pub mod socket;

use crate::error::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::os::fd::AsFd;

/// The system's name.
pub const NAME: &str = "linux";

/// An open file that can be passed to another process.
pub type Descriptor = std::os::fd::OwnedFd;
/// Borrowed descriptor: its owner closes it.
pub type BorrowedDescriptor<'a> = std::os::fd::BorrowedFd<'a>;

/// Shared memory of a sealed size: no process can change the size.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    file: Descriptor,
}

impl Memory {
    /// New memory, all zero.
    pub fn new(bytes: u64) -> Result<Memory> {
        let fail = |what| move |e: rustix::io::Errno| Error::system(what, "", e.into());
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("ane-buffer", flags).map_err(fail("memfd_create"))?;
        ftruncate(&file, bytes).map_err(fail("ftruncate"))?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(fail("seal"))?;
        Memory::map(file, bytes)
    }

    /// Memory of a descriptor passed by a peer. Refused unless its size is sealed and at least `bytes`.
    pub fn adopt(file: Descriptor, bytes: u64) -> Result<Memory> {
        let fail = |what| move |e: rustix::io::Errno| Error::system(what, "", e.into());
        let seals = fcntl_get_seals(&file).map_err(fail("seals of a passed descriptor"))?;
        let have = fstat(&file).map_err(fail("size of a passed descriptor"))?.st_size as u64;
        if bytes > have || !seals.contains(SealFlags::SHRINK) {
            return Err(Error::Size { what: "passed buffer".into(), found: have, expected: bytes });
        }
        Memory::map(file, bytes)
    }

    fn map(file: Descriptor, bytes: u64) -> Result<Memory> {
        let map = MmapOptions::new().len(bytes as usize).map_raw(&file).map_err(|e| Error::system("mmap", "", e))?;
        Ok(Memory { map, file })
    }

    /// The mapping.
    pub fn mapping(&self) -> &MmapRaw {
        &self.map
    }

    /// The descriptor, to be passed on.
    pub fn descriptor(&self) -> Result<BorrowedDescriptor<'_>> {
        Ok(self.file.as_fd())
    }
}

/// Confines this process with Landlock: no writing of files, and no TCP if the kernel can restrict it. Refused if the
/// kernel enforces neither. Returns true if all of it is enforced; an older kernel enforces a part.
pub fn confine() -> Result<bool> {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus};
    let fail = |e: landlock::RulesetError| Error::system("landlock", "", std::io::Error::other(e.to_string()));
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_write(ABI::V4))
        .and_then(|r| r.handle_access(AccessNet::from_all(ABI::V4)))
        .and_then(|r| r.create())
        .map_err(fail)?;
    match rules.restrict_self().map_err(fail)?.ruleset {
        RulesetStatus::NotEnforced => Err(Error::system("landlock", "", std::io::ErrorKind::Unsupported.into())),
        RulesetStatus::PartiallyEnforced => Ok(false),
        RulesetStatus::FullyEnforced => Ok(true),
    }
}
