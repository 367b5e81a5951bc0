//! The calling process from the driver's view: identity, entitlements, and memory that structures point to.

use crate::cache::Image;
use crate::error::Code;
use anemone_facts::driver::entitlements as keys;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Code-signing identity of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Team.
    pub team: String,
    /// Digest of the code directory.
    pub digest: String,
}

/// Grant of a broker to a direct-path client: one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Instance.
    pub token: u64,
    /// Its intermediate buffer.
    pub intermediate: u64,
}

/// Largest size of memory staged by one task, in bytes.
const MAX_STAGED_BYTES: u64 = 1 << 32;

/// Memory of a process in addition to staged memory, for programs that pass their own pointers.
pub trait Memory: std::fmt::Debug + Send + Sync {
    /// Copies from an address; returns false unless all of it is readable.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;
    /// Copies to an address; returns false unless all of it is writable.
    fn write(&self, address: u64, from: &[u8]) -> bool;
}

#[derive(Debug, Default)]
struct Space {
    next: u64,
    staged: u64,
    pieces: BTreeMap<u64, Piece>,
}

/// Staged bytes of a task.
#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    /// Shared, read-only bytes.
    Shared(Image),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Own(bytes) => bytes.len(),
            Piece::Shared(bytes) => bytes.len(),
        }
    }

    fn part(&self, range: Range<usize>) -> Option<Bytes> {
        match self {
            Piece::Own(bytes) => bytes.get(range).map(Bytes::copy_from_slice),
            Piece::Shared(bytes) => bytes.get(range).map(|part| bytes.slice_ref(part)),
        }
    }
}

/// A process.
#[derive(Debug, Default)]
pub struct Task {
    /// Process number.
    pub pid: u32,
    /// Identity.
    pub identity: Identity,
    entitlements: Mutex<BTreeSet<String>>,
    grant: Mutex<Option<Grant>>,
    privileged: AtomicBool,
    space: Mutex<Space>,
    memory: Option<Box<dyn Memory>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every update under these locks leaves consistent state at each point where it could unwind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task {
    /// A process with entitlements.
    pub fn new<'a>(pid: u32, identity: Identity, entitlements: impl IntoIterator<Item = &'a str>) -> Task {
        let entitlements = Mutex::new(entitlements.into_iter().map(String::from).collect());
        Task { pid, identity, entitlements, ..Task::default() }
    }

    /// Sets the memory behind the task's pointers.
    pub fn with_memory(mut self, memory: Box<dyn Memory>) -> Task {
        self.memory = Some(memory);
        self
    }

    /// Adds an entitlement.
    pub fn entitle(&self, key: &str) {
        lock(&self.entitlements).insert(key.to_string());
    }

    /// Removes an entitlement.
    pub fn revoke(&self, key: &str) {
        lock(&self.entitlements).remove(key);
    }

    /// Returns true if the task currently holds an entitlement.
    pub fn holds(&self, key: &str) -> bool {
        lock(&self.entitlements).contains(key)
    }

    /// Sets the property required by the second access check.
    pub fn set_privileged(&self, privileged: bool) {
        self.privileged.store(privileged, Ordering::Relaxed);
    }

    /// Sets a broker's grant.
    pub fn set_grant(&self, grant: Option<Grant>) {
        *lock(&self.grant) = grant;
    }

    /// Stages bytes in the task's memory; returns their address, which is never 0.
    pub fn stage(&self, bytes: &[u8]) -> Result<u64, Code> {
        self.stage_pieces([Piece::Own(bytes.to_vec())])
    }

    /// As [`Task::stage`], for shared, read-only bytes, which are not copied. Their addresses are consecutive;
    /// [`Task::unstage`] releases each by its own address.
    pub fn stage_shared<const N: usize>(&self, bytes: [Image; N]) -> Result<u64, Code> {
        self.stage_pieces(bytes.map(Piece::Shared))
    }

    fn stage_pieces<const N: usize>(&self, pieces: [Piece; N]) -> Result<u64, Code> {
        let mut space = lock(&self.space);
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if space.staged + length > MAX_STAGED_BYTES {
            return Err(Code::NO_MEMORY);
        }
        let address = space.next.max(0x10_0000);
        space.next = (address + length + 1).next_multiple_of(16);
        space.staged += length;
        let mut at = address;
        for piece in pieces {
            let bytes = piece.len() as u64;
            // Empty parts have no address.
            if bytes > 0 || N == 1 {
                space.pieces.insert(at, piece);
            }
            at += bytes;
        }
        Ok(address)
    }

    /// Copies from the task's memory. A null pointer, or a range beyond one piece, is a bad argument.
    pub fn fetch(&self, address: u64, bytes: u64) -> Result<Bytes, Code> {
        if let Some(piece) = self.staged(address, bytes) {
            return Ok(piece);
        }
        let memory = self.memory.as_ref().filter(|_| address != 0 && bytes <= MAX_STAGED_BYTES);
        let mut found = vec![0; memory.map_or(Ok(0), |_| usize::try_from(bytes)).map_err(|_| Code::BAD_ARGUMENT)?];
        memory.filter(|m| m.read(address, &mut found)).ok_or(Code::BAD_ARGUMENT)?;
        Ok(found.into())
    }

    /// As [`Task::fetch`]. A shared piece that is fetched whole keeps the digest that its owner computed: nobody writes its bytes.
    pub(crate) fn fetch_image(&self, address: u64, bytes: u64) -> Result<Image, Code> {
        if let Some(Piece::Shared(image)) = lock(&self.space).pieces.get(&address)
            && image.len() as u64 == bytes
        {
            return Ok(image.clone());
        }
        self.fetch(address, bytes).map(Image::from)
    }

    fn staged(&self, address: u64, bytes: u64) -> Option<Bytes> {
        let space = lock(&self.space);
        let (start, piece) = space.pieces.range(..=address).next_back()?;
        let first = usize::try_from(address - start).ok()?;
        let end = usize::try_from(bytes).ok().and_then(|n| first.checked_add(n))?;
        piece.part(first..end)
    }

    /// Copies into the task's memory.
    pub fn put(&self, address: u64, bytes: &[u8]) -> Result<(), Code> {
        let mut space = lock(&self.space);
        if let Some((&start, Piece::Own(piece))) = space.pieces.range_mut(..=address).next_back() {
            let first = (address - start) as usize;
            if let Some(slot) = piece.get_mut(first..first.saturating_add(bytes.len())) {
                slot.copy_from_slice(bytes);
                return Ok(());
            }
        }
        drop(space);
        let memory = self.memory.as_ref().filter(|_| address != 0);
        memory.filter(|m| m.write(address, bytes)).map(drop).ok_or(Code::BAD_ARGUMENT)
    }

    /// Releases staged memory.
    pub fn unstage(&self, address: u64) {
        let mut space = lock(&self.space);
        if let Some(piece) = space.pieces.remove(&address) {
            space.staged -= piece.len() as u64;
        }
    }

    /// A snapshot of everything that the driver reads from a task.
    pub(crate) fn stamp(&self) -> Stamp {
        let holds = |key: &str| self.holds(key);
        Stamp {
            user_access: holds(keys::USER_ACCESS),
            exception: holds(keys::DIRECT_EXCEPTION),
            chaining: holds(keys::CHAINING),
            realtime: holds(keys::REALTIME),
            reserved: holds(keys::RESERVED_PRIORITIES),
            memory: holds(keys::MEMORY),
            data: holds(keys::DATA),
            hints: holds(keys::SET_HINTS),
            coalition: holds(keys::COALITION_HINTS),
            privileged: self.privileged.load(Ordering::Relaxed),
            grant: *lock(&self.grant),
        }
    }
}

/// Rights of a task at the time when it opened a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub user_access: bool,
    pub exception: bool,
    pub chaining: bool,
    pub realtime: bool,
    pub reserved: bool,
    pub memory: bool,
    pub data: bool,
    pub hints: bool,
    pub coalition: bool,
    pub privileged: bool,
    pub grant: Option<Grant>,
}
