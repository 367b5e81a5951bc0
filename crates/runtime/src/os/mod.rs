//! Services of the operating system: shared memory, mapped files, sockets with descriptors, peers, confinement, random bytes.
//!
//! Each system has a file with the same functions; no other file of this crate depends on the system. The broker
//! needs memory that is passed by descriptor and peers that the kernel identifies: without these, sockets
//! cannot be used, and creating one is refused by name.

pub mod shared;
pub mod support;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod local;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(target_os = "windows")]
mod windows;
#[cfg(target_os = "windows")]
use windows as system;
#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "windows")))]
mod none;
#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "windows")))]
use none as system;

pub use system::{BorrowedDescriptor, Descriptor, NAME, confine, socket};

use crate::error::{Error, Result};

/// Fresh random bytes from the system.
pub fn random() -> Result<[u8; 32]> {
    let mut out = [0; 32];
    getrandom::fill(&mut out).map_err(|e| Error::system("random bytes", "", std::io::Error::other(e.to_string())))?;
    Ok(out)
}
